"""Legal holds: entries, or all entries of a subject, that must not be erased for the time being."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from expunge.errors import InputError, VerificationError
from expunge.memory.entries import check_id, check_subject
from expunge.memory.version import View
from expunge.store.backends.tables import holds, memories, secrets
from expunge.store.encryption import unseal

__all__ = ["Hold", "check_terms", "hold_reason", "holds_of", "matching"]


@dataclass(frozen=True)
class Hold:
    """One hold on one memory: on an ``id`` or on everything of a ``subject``, present and to come."""

    number: int
    memory: str
    id: str | None
    subject: str | None
    reason: str

    def covers(self, name: str, subject: str | None) -> bool:
        """Whether it protects an entry."""
        return name == self.id if self.id is not None else subject == self.subject


def check_terms(id: Any, subject: Any, reason: Any) -> dict[str, str | None]:  # noqa: A002 — the public word
    """What a hold says, if it can be said."""
    if (id is None) == (subject is None):
        raise InputError("a hold is on an id, or on a subject, and on exactly one of them")
    if not isinstance(reason, str) or not reason.strip():
        raise InputError("a hold needs a reason")
    name = None if id is None else check_id(id)
    return {"id": name, "subject": check_subject(subject), "reason": reason}


def holds_of(connection: Connection, memory: int | None = None) -> list[Hold]:
    """Holds in order of placement, of one memory or of all."""
    wanted = (
        select(holds.c.number, holds.c.terms, memories.c.name, secrets.c.secret)
        .join(memories, memories.c.number == holds.c.memory)
        .join(secrets, secrets.c.number == holds.c.number)
        .order_by(holds.c.number)
    )
    if memory is not None:
        wanted = wanted.where(holds.c.memory == memory)
    found = []
    for row in connection.execute(wanted):
        try:
            terms = check_terms(**json.loads(unseal(row.secret, "hold", row.terms)))
        except (ValueError, TypeError, RecursionError):
            raise VerificationError(f"the terms of hold {row.number} are not those of a hold: it was altered") from None
        found.append(Hold(row.number, row.name, terms["id"], terms["subject"], terms["reason"] or ""))
    return found


def matching(found: Iterable[Hold], view: View, names: Iterable[str]) -> dict[str, Hold]:
    """Which of these entries are held, and by which hold."""
    active = list(found)
    held = {}
    for name in names if active else ():
        slot = view.slot(name)
        record = view.warranties.records.get(name)
        subject = view.entries.subjects[slot] if slot is not None else record.subject if record is not None else None
        hit = next((hold for hold in active if hold.covers(name, subject)), None)
        if hit is not None:
            held[name] = hit
    return held


def hold_reason(held: dict[str, Hold]) -> str:
    """Why an erasure is refused."""
    name, hold = next(iter(held.items()))
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return f"{name!r}{more} must be kept: hold {hold.number}, {hold.reason}"
