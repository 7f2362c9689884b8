"""Bodies of responses about the ledger: its leaves, its signed heads, and proofs."""

from __future__ import annotations

from typing import Any, Literal

from expunge.service.edit_state import LeafState
from expunge.service.schemas.responses import Page, ResponseBody

__all__ = [
    "Checkpoint",
    "ConsistencyProof",
    "InclusionPath",
    "InclusionProof",
    "Leaf",
    "LeafPage",
    "VerifiableReceipt",
    "VerifiedReceipt",
]


class Leaf(ResponseBody):
    """One line of the ledger, with how far what it states was done; `parts` are the leaves that a summary sums up.

    `case` and `actor` are null where there is none, where it was erased, and for tokens of one memory.
    """

    index: int
    kind: str
    memory: str | None
    name: str | None
    edit: int | None
    state: LeafState
    time: str
    applied: int
    live: int | None
    case: str | None
    actor: str | None
    parts: list[int]


class LeafPage(Page[Leaf]):
    """Leaves, newest first."""


class Checkpoint(ResponseBody):
    """The signed head of the ledger."""

    note: str
    origin: str
    size: int
    root: str


class InclusionPath(ResponseBody):
    """An inclusion path, and the same as a file."""

    index: int
    size: int
    path: list[str]
    text: str


class InclusionProof(InclusionPath):
    """An inclusion path with the head that it leads to."""

    checkpoint: Checkpoint


class ConsistencyProof(ResponseBody):
    """A path from an older head to the current one."""

    old_size: int
    size: int
    path: list[str]
    text: str
    checkpoint: Checkpoint


class VerifiableReceipt(ResponseBody):
    """A receipt, readable and verifiable; `names` has those of the memories that a summary speaks of.

    `case` and `actor` are as in the list of leaves.
    """

    index: int
    kind: str
    memory: str | None
    name: str | None
    names: dict[str, str]
    case: str | None
    actor: str | None
    edit: int | None
    state: LeafState
    statement: dict[str, Any]
    envelope: str
    inclusion: InclusionPath
    checkpoint: Checkpoint
    public_key: str
    key_id: str
    log_key: str


class VerifiedReceipt(ResponseBody):
    """A receipt that checks out."""

    verified: Literal[True]
    inclusion: bool
    kind: str
    memory: str | None
    edit: int | None
    time: str
