"""Legal holds: entries, or all entries of a subject, that must not be erased for the time being."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from expunge.attestation.statements import commitment_of
from expunge.errors import InputError, VerificationError
from expunge.ledger.statement import Subject
from expunge.memory.entries import check_id, check_subject
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import holds, memories, secrets
from expunge.store.cases import Case, write_case
from expunge.store.due_erasures import try_again
from expunge.store.encryption import decrypt
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Leaf, LedgerWriter, last_receipt
from expunge.store.row_writer import RowWriter

if TYPE_CHECKING:
    from expunge.store.stored_memory import StoredMemory

__all__ = [
    "Hold",
    "check_hold_terms",
    "hold_reason",
    "holds_on_entries",
    "place_hold",
    "read_holds",
    "release_hold",
]


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


def check_hold_terms(id: Any, subject: Any, reason: Any) -> dict[str, str | None]:  # noqa: A002 — the public word
    """Id or subject, and reason, as a hold keeps them; InputError where they make no hold."""
    if (id is None) == (subject is None):
        raise InputError("a hold is on an id, or on a subject, and on exactly one of them")
    if not isinstance(reason, str) or not reason.strip():
        raise InputError("a hold needs a reason")
    name = None if id is None else check_id(id)
    return {"id": name, "subject": check_subject(subject), "reason": reason}


def read_holds(connection: CheckedConnection, memory: int | None = None) -> list[Hold]:
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
    for row in connection.rows(wanted):
        try:
            terms = check_hold_terms(**json.loads(decrypt(row.secret, "hold", row.terms)))
        except (ValueError, TypeError, RecursionError):
            raise VerificationError(f"the terms of hold {row.number} are not those of a hold: it was altered") from None
        found.append(Hold(row.number, row.name, terms["id"], terms["subject"], terms["reason"] or ""))
    return found


def holds_on_entries(active: list[Hold], version: Version, names: Iterable[str]) -> dict[str, Hold]:
    """Which of these entries are held, and by which hold."""
    held = {}
    for name in names if active else ():
        slot = version.slot(name)
        subject = version.entries.subjects[slot] if slot is not None else None
        if name in version.warranties:
            subject = version.warranties.subject(name)
        hit = next((hold for hold in active if hold.covers(name, subject)), None)
        if hit is not None:
            held[name] = hit
    return held


def hold_reason(held: dict[str, Hold]) -> str:
    """Why an erasure is refused."""
    name, hold = next(iter(held.items()))
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return f"{name!r}{more} must be kept: hold {hold.number}, {hold.reason}"


def place_hold(
    database: Database,
    identity: Identity,
    stored: StoredMemory,
    terms: dict[str, str | None],
    asked: Case | None = None,
) -> int:
    """Write a hold on entries of a memory, with its event in the ledger; the hold's number."""
    with stored.locked_version() as (connection, loaded, _):
        version, name = loaded.memory.version, terms["id"]
        if name is not None and version.slot(name) is None and name not in version.warranties:
            raise InputError(f"no entry has id {name!r}")
        ledger_writer = LedgerWriter(connection)
        writer = RowWriter(database, connection, identity.secret, stored.number)
        number = ledger_writer.allocate_numbers(1)
        writer.insert_hold(number, json.dumps(terms).encode())
        entry = None if name is None else commitment_of(version, name) or loaded.forgotten.commitments[name]
        ledger_writer.append_event(
            identity,
            "held",
            stored.uuid,
            Subject("state", version.digest),
            None if asked is None else asked.stated(),
            hold=number,
            entry=None if entry is None else entry.hex(),
        )
        ledger_writer.flush()
        write_case(database, connection, asked)
        connection.commit()
    return number


def release_hold(
    database: Database, identity: Identity, stored: StoredMemory, number: int, asked: Case | None = None
) -> Leaf:
    """Delete a hold, whether or not its memory can be loaded; the event in the ledger."""
    with stored.locked() as connection:
        if all(known.number != number for known in read_holds(connection, stored.number)):
            raise InputError(f"there is no hold {number} any more")
        ledger_writer = LedgerWriter(connection)
        RowWriter(database, connection, identity.secret, stored.number).delete_hold(number)
        try_again(connection)
        state = Subject("state", last_receipt(connection, identity.known("receipts"), stored.uuid).state_after)
        request = None if asked is None else asked.stated()
        leaf = ledger_writer.append_event(
            identity, "released", stored.uuid, state, request, hold=number, cause="request"
        )
        ledger_writer.flush()
        write_case(database, connection, asked)
        connection.commit()
        database.finish_erasure(connection)
    return leaf
