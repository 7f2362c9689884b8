"""Writing a new memory to a store, and dropping one with all its content."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from expunge.attestation.statements import attest_creation, commitment_of, drop_statements
from expunge.errors import Busy, InputError, StoreError, VerificationError
from expunge.memory.attributes import DerivedChoice
from expunge.memory.memory import Memory
from expunge.memory.version import Version
from expunge.store.backends.database import Database
from expunge.store.backends.tables import memories, tokens
from expunge.store.cases import Case, write_case
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_transaction import MemoryContext, check_expected
from expunge.store.edits.idempotency import Request
from expunge.store.erasure_plan import Plan
from expunge.store.erasure_summary import JointErasure, append_erased
from expunge.store.identity import Identity
from expunge.store.joint_erasure import erase_parts, refuse_derived
from expunge.store.ledger_tables import Leaf, LedgerWriter, last_receipt, read_leaf
from expunge.store.legal_holds import hold_reason, read_holds
from expunge.store.mirroring.copies_owed import owe_copies
from expunge.store.row_writer import RowWriter
from expunge.store.rows import ForgottenRows, load_memory, memory_number
from expunge.store.stated_entries import StatedEntries
from expunge.store.version_cache import locked_together

if TYPE_CHECKING:
    from expunge.store.store import Store
    from expunge.store.stored_memory import StoredMemory

__all__ = ["create_memory", "drop_memory"]


def create_memory(
    database: Database,
    identity: Identity,
    name: str,
    memory: Memory,
    stated: StatedEntries,
    sources: Sequence[StoredMemory],
    asked: Case | None = None,
    request: Request | None = None,
) -> tuple[MemoryContext, ForgottenRows, bool]:
    """Write a fitted memory under a name, with its receipt; where it is, its rows of forgotten entries, and whether
    mirrors have to follow. The answer to a ``request`` is the memory's UUID.

    ``sources`` are the other memories that entries were made from, as ``stated``.
    """
    version, uuid = memory.version, str(uuids.uuid4())
    caches = [source.versions for source in sources]
    with locked_together(database, caches, f"{identity.uuid} name {name}") as connection:
        crash_point("locked")
        stated.require_outside(sources, connection)
        ledger_writer = LedgerWriter(connection)
        number = memory_number(name)
        writer = RowWriter(database, connection, identity.secret, number)
        try:
            rows = writer.insert_memory(uuid, name, version)
        except IntegrityError:
            raise InputError(f"there is a memory {name!r} already; somebody was faster") from None
        crash_point("entries_written")
        clock = ledger_writer.dated(identity.clock)
        statements = attest_creation(
            version,
            memory=uuid,
            clock=clock,
            initial_size=memory.initial_size,
            request=None if asked is None else asked.stated(),
        )
        leaf = ledger_writer.append_all(identity, statements, "created", uuid, version.edit)
        ledger_writer.flush()
        mirrored = bool(ledger_writer.mirrors) and owe_copies(
            database, connection, uuid, leaf.index, admitted=bool(version.size)
        )
        write_case(database, connection, asked)
        crash_point("ledger_written")
        if request is not None:
            request.save_answer(connection, {"memory": uuid})
        connection.commit()
        crash_point("committed")
    return MemoryContext(database, identity, number, uuid), rows, mirrored


def drop_memory(
    store: Store,
    database: Database,
    identity: Identity,
    stored: StoredMemory,
    expected: str | None,
    request: Request | None,
    asked: Case | None = None,
    derived: DerivedChoice = "erase",
) -> Leaf:
    """Delete a memory with all its content, whether or not it can be loaded; the event in the ledger.

    What was made from its entries elsewhere goes first, unless a hold keeps the memory.
    """
    with store.reading() as connection:
        plan = Plan.of_drop(store.derivations.read(connection), stored.uuid)
        may_go = not read_holds(connection, stored.number)
        if plan.parts and may_go:
            check_expected(expected, last_receipt(connection, identity.known("receipts"), stored.uuid).state_after)
    if plan.parts and may_go:
        refuse_derived(plan, derived)
        done = erase_parts(store, plan, None if request is None else request.key, asked)
        if len(done) > 1:
            append_erased(store, database, identity, JointErasure(tuple(done)), done, asked)
    with stored.locked() as connection:
        answer = None if request is None else request.earlier_answer(connection)
        if answer is not None:
            return read_leaf(connection, answer["leaf"])
        if connection.first(select(memories).where(memories.c.uuid == stored.uuid)) is None:
            raise StoreError(f"the memory {stored.name!r} was dropped")
        last = last_receipt(connection, identity.known("receipts"), stored.uuid)
        check_expected(expected, last.state_after)
        if holds := read_holds(connection, stored.number):
            try:
                refusal = stored.refuse_drop(connection, holds, asked)
            except VerificationError as problem:
                held = {hold.id or hold.subject or "": hold for hold in holds[:1]}
                raise StoreError(
                    f"{hold_reason(held)}. No receipt says so, since the memory cannot be loaded ({problem}); "
                    "to drop it, release its holds"
                ) from problem
            raise refusal
        now = Plan.of_drop(store.derivations.read(connection), stored.uuid)
        if not now.known <= plan.known:
            raise Busy(f"something was made from entries of {stored.name!r} meanwhile; try again")
        try:
            loaded = load_memory(connection, stored.number)
            version, forgotten = loaded.memory.version, loaded.forgotten.commitments
        except VerificationError:
            # It is damaged, and goes all the same; what it held can then not be named.
            version, forgotten = None, {}
        ledger_writer = LedgerWriter(connection)
        clock = ledger_writer.dated(identity.clock)
        statements = drop_statements(
            version,
            last.state_after,
            last.after,
            memory=stored.uuid,
            clock=clock,
            forgotten=forgotten,
            request=None if asked is None else asked.stated(),
        )
        gone = [] if version is None else _entries_of(version, forgotten)
        unnamed = last.after.total if version is None else 0
        RowWriter(database, connection, identity.secret, stored.number).delete_memory()
        # They name it.
        connection.execute(delete(tokens).where(tokens.c.memory == stored.name))
        leaf = ledger_writer.append_all(identity, statements, "dropped", stored.uuid)
        ledger_writer.flush()
        if ledger_writer.mirrors and owe_copies(
            database, connection, stored.uuid, leaf.index, gone=gone, name=stored.name, unnamed=unnamed
        ):
            store.mirror_keeper.owe()
        write_case(database, connection, asked)
        crash_point("ledger_written")
        if request is not None:
            request.save_answer(connection, {"leaf": leaf.index})
        crash_point("answer_saved")
        connection.commit()
        crash_point("committed")
        database.finish_erasure(connection)
        crash_point("log_truncated")
    return leaf


def _entries_of(version: Version, forgotten: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Ids and commitments of everything that a memory has, pruned entries included."""
    named = {name: commitment_of(version, name) for name in (*version.ids, *version.warranties.archive)} | dict(
        forgotten
    )
    return [(name, digest) for name, digest in named.items() if digest is not None]
