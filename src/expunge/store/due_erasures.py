"""Erasures of a subject that were asked for now and are carried out later, so that a mistake can be undone.

The ledger gets an event with a commitment to the subject when the erasure is requested, and a second one when it is
cancelled; a summary that names the request ends it otherwise. Until then a row of ``expunge_erasures`` has the
subject, the salt of the commitment and the number of the case, encrypted under a secret of its own. The transaction
that writes the event or the summary deletes the row and destroys the secret: afterwards the store cannot tell whom the
request was about. A summary that says that a memory refused leaves the row there.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, insert, or_, select, update

from expunge.errors import Conflict, InputError, VerificationError
from expunge.ledger.commitment import new_salts
from expunge.ledger.event import parse_event, subject_commitment
from expunge.ledger.statement import Subject
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import erasures, secrets
from expunge.store.cases import Case, read_cases, write_case
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.idempotency import Request
from expunge.store.encryption import decrypt, encrypt, new_secret
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Leaf, LedgerWriter, read_leaf

__all__ = [
    "LONGEST_DELAY",
    "PendingErasure",
    "append_cancelled",
    "begin_erasure",
    "cancel_erasure",
    "due_erasures",
    "due_time",
    "end_erasure",
    "hold_back",
    "read_erasures",
    "request_erasure",
    "try_again",
]

LONGEST_DELAY = timedelta(days=366)
_DUE = b"expunge/due/v1"


@dataclass(frozen=True)
class PendingErasure:
    """An erasure of a ``subject`` that is carried out when it is ``due``; ``leaf`` of the ledger has the request.

    It is ``held_back`` where a memory has refused it, until a hold is released; then it is ``repeated``. ``salt`` opens
    the commitment of the request, and of the summaries that name it.
    """

    leaf: int
    due: datetime
    subject: str
    case: str | None
    actor: str | None
    begun: bool
    held_back: bool
    repeated: bool
    salt: bytes = field(repr=False)
    number: int = field(repr=False)
    asked: Case | None = field(repr=False)
    # The idempotency key of its parts: whatever is repeated after a crash is applied once, and another try is another.
    key: str = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """What a person needs to know of it, the salt included."""
        due = self.due.strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"leaf": self.leaf, "due": due, "subject": self.subject, "case": self.case, "actor": self.actor}
        return about | {"begun": self.begun, "held_back": self.held_back, "salt": self.salt.hex()}


def due_time(now: datetime, after: timedelta) -> datetime:
    """When an erasure with a delay is due, in whole seconds; InputError where the delay is none."""
    if not isinstance(after, timedelta) or not timedelta(0) < after <= LONGEST_DELAY:
        raise InputError(f"after is a delay of more than nothing and at most {LONGEST_DELAY.days} days, not {after!r}")
    return (now.astimezone(UTC) + after).replace(microsecond=0)


def request_erasure(
    database: Database,
    connection: CheckedConnection,
    identity: Identity,
    subject: str,
    due: datetime,
    asked: Case | None,
    request: Request | None,
) -> PendingErasure:
    """Write the request and its event, in the caller's transaction, which is committed here."""
    salt = new_salts(1)
    commitment = subject_commitment(salt, subject)
    number = int(commitment[:16], 16) >> 1
    ledger_writer = LedgerWriter(connection)
    leaf = ledger_writer.append_event(
        identity,
        "erasure_requested",
        None,
        Subject("subject", commitment),
        None if asked is None else asked.stated(),
        due=due.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    ledger_writer.flush()
    write_case(database, connection, asked)
    terms = {"subject": subject, "salt": salt.hex(), "case": None if asked is None else asked.number}
    secret = new_secret()
    database.insert_secrets(connection, {number: secret})
    sealed = encrypt(secret, "erasure", json.dumps(terms).encode())
    row = {"number": number, "leaf": leaf.index, "due": int(due.timestamp()), "begun": 0, "terms": sealed}
    connection.execute(insert(erasures), row)
    crash_point("ledger_written")
    if request is not None:
        request.save_answer(connection, {"requested": leaf.index})
    (pending,) = read_erasures(connection, leaf.index)
    connection.commit()
    crash_point("committed")
    return pending


def read_erasures(connection: CheckedConnection, leaf: int | None = None) -> list[PendingErasure]:
    """Erasures that are still to be carried out, in order of their requests."""
    wanted = (
        select(erasures, secrets.c.secret)
        .join(secrets, secrets.c.number == erasures.c.number)
        .order_by(erasures.c.leaf)
    )
    if leaf is not None:
        wanted = wanted.where(erasures.c.leaf == leaf)
    rows = connection.rows(wanted)
    return [_pending(connection, row) for row in rows]


def due_erasures(connection: CheckedConnection, now: datetime) -> list[PendingErasure]:
    """Erasures that are to be carried out now: those that are due and not held back."""
    tried = or_(erasures.c.begun == 0, erasures.c.begun % 2 == 1)
    if connection.first(select(erasures.c.number).where(erasures.c.due <= int(now.timestamp()), tried)) is None:
        return []
    return [pending for pending in read_erasures(connection) if pending.due <= now and not pending.held_back]


def begin_erasure(connection: CheckedConnection, pending: PendingErasure) -> PendingErasure | None:
    """Note that an erasure is under way, so that it can no longer be cancelled; None if it is over, or held back."""
    connection.execute(
        update(erasures).where(erasures.c.number == pending.number, erasures.c.begun == 0).values(begun=1)
    )
    found = next(iter(read_erasures(connection, pending.leaf)), None)
    connection.commit()
    return None if found is None or found.held_back else found


def hold_back(connection: CheckedConnection, pending: PendingErasure) -> None:
    """Put a request off that a memory refuses, in the transaction that says so, until a hold is released."""
    under_way = update(erasures).where(erasures.c.number == pending.number, erasures.c.begun % 2 == 1)
    connection.execute(under_way.values(begun=erasures.c.begun + 1))


def try_again(connection: CheckedConnection) -> None:
    """Have every request that is held back tried again: the holds are others now."""
    held_back = update(erasures).where(erasures.c.begun > 0, erasures.c.begun % 2 == 0)
    connection.execute(held_back.values(begun=erasures.c.begun + 1))


def end_erasure(database: Database, connection: CheckedConnection, pending: PendingErasure) -> bool:
    """Delete a request and destroy its secret, in the transaction that ends it; False if it is over."""
    found = connection.execute(delete(erasures).where(erasures.c.number == pending.number)).rowcount == 1
    if found:
        database.destroy_secrets(connection, [pending.number])
    return found


def cancel_erasure(
    database: Database, connection: CheckedConnection, identity: Identity, leaf: int, asked: Case | None
) -> Leaf:
    """Cancel a request before it is due, or while it is held back, with its event in the ledger."""
    found = read_erasures(connection, leaf)
    if not found:
        raise InputError(f"no erasure waits that was requested at leaf {leaf}")
    pending = found[0]
    if pending.begun or (pending.due <= identity.clock() and not pending.held_back):
        raise Conflict(f"the erasure requested at leaf {leaf} is due; it is no longer cancelled")
    written = append_cancelled(database, connection, identity, pending, asked)
    connection.commit()
    crash_point("committed")
    database.finish_erasure(connection)
    return written


def append_cancelled(
    database: Database, connection: CheckedConnection, identity: Identity, pending: PendingErasure, asked: Case | None
) -> Leaf:
    """End a request with the event that it was cancelled."""
    end_erasure(database, connection, pending)
    ledger_writer = LedgerWriter(connection)
    written = ledger_writer.append_event(
        identity,
        "erasure_cancelled",
        None,
        Subject("subject", subject_commitment(pending.salt, pending.subject)),
        None if asked is None else asked.stated(),
        requested=pending.leaf,
    )
    ledger_writer.flush()
    write_case(database, connection, asked)
    crash_point("ledger_written")
    return written


def _pending(connection: CheckedConnection, row: Any) -> PendingErasure:
    """A request, checked against its leaf: it says whom an erasure takes, and when."""
    try:
        terms = json.loads(decrypt(row.secret, "erasure", row.terms))
        subject, salt, case = terms["subject"], bytes.fromhex(terms["salt"]), terms["case"]
        due = datetime.fromtimestamp(row.due, UTC)
        event = parse_event(read_leaf(connection, row.leaf).statement)
        stated = (event.kind, event.subject.sha256, event.facts.get("due"))
        if stated != ("erasure_requested", subject_commitment(salt, subject), due.strftime("%Y-%m-%dT%H:%M:%SZ")):
            raise ValueError("its leaf says something else")
    except (ValueError, KeyError, TypeError, InputError, OverflowError, OSError) as problem:
        raise VerificationError(f"the erasure requested at leaf {row.leaf} was altered ({problem})") from None
    # Its case may have been erased meanwhile.
    asked = None if case is None else read_cases(connection, case).get(case)
    return PendingErasure(
        leaf=row.leaf,
        due=due,
        subject=subject,
        case=None if asked is None else asked.case,
        actor=None if asked is None else asked.actor,
        begun=row.begun % 2 == 1,
        held_back=row.begun > 0 and row.begun % 2 == 0,
        repeated=row.begun > 1,
        salt=salt,
        number=row.number,
        asked=asked,
        key=hmac.digest(row.secret, _DUE + (b"" if row.begun < 2 else b"/%d" % row.begun), "sha256").hex(),
    )
