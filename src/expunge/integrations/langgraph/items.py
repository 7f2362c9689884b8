"""One item as one entry: what the entry's id and payload say.

The id is a JSON list of namespace, key, when the item was made, when it was last put (both in nanoseconds), and, where
a read has put off its end, when that was. The payload has the value, and the vectors beyond the first, which is the
entry's key; no vectors mean that the item is not indexed. Where the item has a time to live, in minutes, the payload
has that, too, and the entry has its end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from langgraph.store.base import Item

from expunge.errors import InputError
from expunge.memory.attributes import decode_attributes
from expunge.memory.entries import decode_payload
from expunge.types import Matrix

__all__ = ["ItemVersion", "Name", "end_of", "item_id", "item_name", "item_payload"]

Name = tuple[tuple[str, ...], str]

# A thousand years, in minutes.
_LONGEST_TTL = 525_960_000


@dataclass(frozen=True)
class ItemVersion:
    """One entry: an item as of one put; times in nanoseconds.

    ``further`` are the vectors beyond the first, (m, d), or None where the item is not indexed. ``ttl`` is its time to
    live in minutes, and ``expires`` when it ends; None where it does not end.
    """

    namespace: tuple[str, ...]
    key: str
    created: int
    updated: int
    refreshed: int
    id: str
    slot: int
    further: Matrix | None = field(repr=False)
    ttl: float | None = None
    expires: datetime | None = None

    @classmethod
    def of(cls, name: str, slot: int, payload: bytes | None) -> ItemVersion | None:
        """What an entry says; None for an entry that no store of items wrote."""
        try:
            namespace, key, created, updated, *later = json.loads(name)
            refreshed = int(later[0]) if later else 0
            content = decode_payload(payload)
            vectors, ttl = content["vectors"], content.get("ttl")
            further = None if vectors is None else np.array(vectors, dtype=np.float64)
            expires = decode_attributes(payload).expires
            return cls(tuple(namespace), key, int(created), int(updated), refreshed, name, slot, further, ttl, expires)
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def name(self) -> Name:
        """Namespace and key."""
        return self.namespace, self.key

    @property
    def age(self) -> tuple[int, int]:
        """By which the versions of an item are ordered."""
        return self.updated, self.refreshed

    def has_ended(self, now: datetime) -> bool:
        """Whether its end has come."""
        return self.expires is not None and self.expires <= now

    def item(self, payload: bytes | None) -> Item:
        """The item, as LangGraph knows it."""
        return Item(
            value=decode_payload(payload)["value"],
            key=self.key,
            namespace=self.namespace,
            created_at=_time(self.created),
            updated_at=_time(self.updated),
        )


def item_name(entry: str) -> Name | None:
    """Namespace and key of the item that an entry's id names; None for an entry that no store of items wrote."""
    try:
        namespace, key, *_ = json.loads(entry)
        return tuple(namespace), key
    except (ValueError, TypeError):
        return None


def item_id(name: Name, created: int, updated: int, refreshed: int = 0) -> str:
    """The id of an entry."""
    parts = [list(name[0]), name[1], created, updated, *([refreshed] if refreshed else [])]
    return json.dumps(parts, ensure_ascii=False)


def item_payload(
    value: dict[str, Any], further: Sequence[Sequence[float]] | None, ttl: float | None = None
) -> dict[str, Any]:
    """The payload of an entry."""
    return {"value": value, "vectors": further} | ({} if ttl is None else {"ttl": ttl})


def end_of(ttl: float | None, now: datetime) -> datetime | None:
    """When an item ends that lives for some minutes from now on: in whole seconds, never too early."""
    if ttl is None:
        return None
    if not isinstance(ttl, int | float) or not 0.0 < ttl < _LONGEST_TTL:
        raise InputError(f"a time to live is a number of minutes above 0, below {_LONGEST_TTL:,}, not {ttl!r}")
    return (now + timedelta(minutes=ttl, microseconds=999_999)).replace(microsecond=0)


def _time(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC)
