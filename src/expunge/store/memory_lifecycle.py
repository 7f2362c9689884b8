"""Writing a new memory to a store, and dropping one with all its content."""

from __future__ import annotations

import uuid as uuids
from typing import TYPE_CHECKING

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from expunge.attestation.statements import attest_creation
from expunge.errors import InputError, StoreError, VerificationError
from expunge.ledger.statement import Subject
from expunge.memory.memory import Memory
from expunge.store.backends.database import Database
from expunge.store.backends.tables import memories, tokens
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_transaction import MemoryContext, check_expected
from expunge.store.edits.idempotency import Request
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Leaf, LedgerWriter, last_receipt, read_leaf
from expunge.store.legal_holds import hold_reason, read_holds
from expunge.store.row_writer import RowWriter
from expunge.store.rows import ForgottenRows, memory_number

if TYPE_CHECKING:
    from expunge.store.stored_memory import StoredMemory

__all__ = ["create_memory", "drop_memory"]


def create_memory(
    database: Database, identity: Identity, name: str, memory: Memory
) -> tuple[MemoryContext, ForgottenRows]:
    """Write a fitted memory under a name, with its receipt; where it is, and its rows of forgotten entries."""
    version, uuid = memory.version, str(uuids.uuid4())
    statement = attest_creation(version, memory=uuid, clock=identity.clock, initial_size=memory.initial_size)
    envelope = identity.sign(statement)
    with database.writing(f"{identity.uuid} name {name}") as connection:
        crash_point("locked")
        ledger_writer = LedgerWriter(connection)
        number = memory_number(name)
        writer = RowWriter(database, connection, ledger_writer, identity.secret, number)
        try:
            rows = writer.insert_memory(uuid, name, version)
        except IntegrityError:
            raise InputError(f"there is a memory {name!r} already; somebody was faster") from None
        crash_point("entries_written")
        ledger_writer.append(envelope, "created", uuid, version.edit)
        ledger_writer.flush()
        crash_point("ledger_written")
        connection.commit()
        crash_point("committed")
    return MemoryContext(database, identity, number, uuid), rows


def drop_memory(
    database: Database, identity: Identity, stored: StoredMemory, expected: str | None, request: Request | None
) -> Leaf:
    """Delete a memory with all its content, whether or not it can be loaded; the event in the ledger."""
    with stored.locked() as connection:
        answer = None if request is None else request.earlier_answer(connection)
        if answer is not None:
            return read_leaf(connection, answer["leaf"])
        if connection.first(select(memories).where(memories.c.uuid == stored.uuid)) is None:
            raise StoreError(f"the memory {stored.name!r} was dropped")
        last = last_receipt(connection, identity.signing_key.public, stored.uuid)
        check_expected(expected, last.state_after)
        if holds := read_holds(connection, stored.number):
            held = {hold.id or hold.subject or "": hold for hold in holds}
            try:
                refusal = stored.refuse(connection, held)
            except VerificationError as problem:
                raise StoreError(
                    f"{hold_reason(held)}. No receipt says so, since the memory cannot be loaded ({problem}); "
                    "to drop it, release its holds"
                ) from problem
            raise refusal
        ledger_writer = LedgerWriter(connection)
        RowWriter(database, connection, ledger_writer, identity.secret, stored.number).delete_memory()
        # They name it.
        connection.execute(delete(tokens).where(tokens.c.memory == stored.name))
        leaf = ledger_writer.append_event(
            identity,
            "dropped",
            stored.uuid,
            Subject("state", last.state_after),
            live=last.after.live,
            pruned=last.after.pruned,
        )
        ledger_writer.flush()
        crash_point("ledger_written")
        if request is not None:
            request.save_answer(connection, {"leaf": leaf.index})
        crash_point("answer_saved")
        connection.commit()
        crash_point("committed")
        database.finish_erasure(connection)
        crash_point("log_truncated")
    return leaf
