"""What an answer about an edit tells a token, by its scopes.

The reason of a hold, with an id, is for tokens that may list holds and read (``admin`` and ``read``). Ids of entries
that were not erased, because a hold keeps them or because they were made from others, are for those that may read
(``read``). A token that may only erase learns that an erasure is refused, for how many entries, and which hold to ask
about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expunge.service.tokens import Scope

__all__ = ["disclosed"]


def disclosed(content: Any, scopes: frozenset[Scope]) -> Any:
    """The content of an answer (a preview, a receipt, a job, a problem) as a token with these scopes may see it."""
    if {"admin", "read"} <= scopes:
        return content
    if isinstance(content, Mapping):
        told = {name: disclosed(value, scopes) for name, value in content.items()}
        _hide_reason(told)
        if "read" not in scopes:
            _hide_ids(told)
        return told
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        return [disclosed(item, scopes) for item in content]
    return content


def _hide_reason(told: dict[str, Any]) -> None:
    """In the part of an erasure, in a preview, and in a problem."""
    if told.get("outcome") == "refused" and told.get("holds") and told.get("reason") is not None:
        told["reason"] = _reason(told["holds"])
    receipt = told.get("receipt")
    refusal = receipt.get("refusal") if isinstance(receipt, Mapping) else None
    if "detail" in told and isinstance(refusal, Mapping) and refusal.get("holds"):
        told["detail"] = _reason(refusal["holds"])


def _hide_ids(told: dict[str, Any]) -> None:
    """In the details of a receipt, in a sweep, and in a problem."""
    details, held = told.get("details"), told.get("held")
    if isinstance(details, Mapping) and told.get("outcome") == "refused":
        told["details"] = {name: value for name, value in details.items() if name != "held"}
    if isinstance(held, Mapping):
        told["held"] = {memory: len(ids) for memory, ids in held.items()}
    if told.get("code") == "derived-entries":
        told["detail"] = "entries were made from these, and would go, too"


def _reason(holds: Sequence[int]) -> str:
    return f"entries must be kept: hold {', '.join(map(str, holds))}"
