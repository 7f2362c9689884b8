"""Restoring a store from a backup, without what was erased since.

Every memory is loaded from the backup, what a newer ledger says was erased is deleted in it, matched by commitment, and
only then is it written: erased content never reaches the new database.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Table, create_engine, insert, select, update

from expunge.attestation.statements import attest, attest_restoration, commitment_of
from expunge.errors import DeletionRefused, StoreError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.event import EVENT_TYPE, Event, parse_event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import SignedNote
from expunge.ledger.receipt_format import MAX_LISTED, PREDICATE_TYPE, Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement, Subject, parse_statement
from expunge.memory.receipt import Receipt
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection, Database, translate_errors
from expunge.store.backends.schema_version import check_schema, schema_version
from expunge.store.backends.tables import checkpoints, holds, ledger, memories, requests, secrets, states, store
from expunge.store.identity import Identity
from expunge.store.ledger_tables import LedgerWriter, read_leaves
from expunge.store.row_writer import RowWriter
from expunge.store.rows import LoadedMemory, last_edit, load_memory, memory_number
from expunge.verify.ledger import verify_log

__all__ = ["RestoreResult", "restore_store"]


@dataclass(frozen=True)
class RestoreResult:
    """What came back, and what did not.

    ``erased_again`` has the entries by memory that the ledger says were erased since the backup; ``dropped`` the
    memories that were; ``lost`` the memories that these erasures leave with too few entries, and why. Edits since the
    backup other than erasures are lost, and so are holds placed since: place them again.
    """

    memories: tuple[str, ...]
    erased_again: dict[str, tuple[str, ...]]
    dropped: tuple[str, ...]
    lost: dict[str, str]
    edits_lost: int
    holds_lost: int


def restore_store(
    database: Database,
    connection: CheckedConnection,
    identity: Identity,
    path: Path,
    source: Path | list[bytes] | None,
    checkpoint: SignedNote | None,
) -> tuple[Identity, RestoreResult]:
    """Fill an empty store within one transaction, which the caller commits."""
    ledger_writer = LedgerWriter(connection)
    if ledger_writer.size or connection.first(select(memories.c.number)) is not None:
        raise StoreError("a store is restored into an empty one; open a new URL for it")
    with _open_backup(path) as backup:
        identity = _identity_of(backup, identity)
        old = [leaf.envelope for leaf in read_leaves(backup)]
        envelopes = _newest_ledger(old, source)
        _verify_ledger(envelopes, identity, checkpoint)
        history = _History.of(envelopes)
        return identity, _Restoration(database, connection, ledger_writer, backup, identity, history).run(len(old))


@contextmanager
def _open_backup(path: Path) -> Iterator[CheckedConnection]:
    if not path.is_file():
        raise StoreError(f"there is no backup {path}")
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(f"{path} is in use, or was not closed; restore from a file that `backup` wrote")
    # Nothing is written beside a backup, not even the log of a reader.
    address = URL.create("sqlite", database=f"file:{quote(str(path.resolve()))}?immutable=1", query={"uri": "true"})
    engine = create_engine(address, hide_parameters=True)
    try:
        with translate_errors(), engine.connect() as connection:
            backup = CheckedConnection(connection)
            check_schema(schema_version(backup), str(path))
            yield backup
    finally:
        engine.dispose()


def _identity_of(backup: CheckedConnection, identity: Identity) -> Identity:
    row = backup.first(select(store))
    if row is None:
        raise StoreError("the backup is not of a store")
    if row.public_key != identity.signing_key.public.raw:
        raise StoreError("the backup's ledger is signed with another key; open the new store with that one")
    return replace(identity, uuid=row.uuid, origin=row.origin, secret=row.secret)


def _newest_ledger(old: list[bytes], source: Path | list[bytes] | None) -> list[bytes]:
    if isinstance(source, Path):
        try:
            found = source.read_bytes().split(b"\n")
        except OSError as problem:
            raise StoreError(f"cannot read {source}: {problem.strerror or problem}") from None
        if found.pop():
            raise VerificationError(f"{source} does not end in a newline: it is incomplete")
    else:
        found = old if source is None else source
    if found[: len(old)] != old:
        raise VerificationError("the ledger does not extend that of the backup: it is older, or of another history")
    return found


def _verify_ledger(envelopes: list[bytes], identity: Identity, kept: SignedNote | None) -> None:
    """Signatures, histories and, where a head was kept, that the ledger reaches it."""
    frontier, at = Frontier(), {}
    for envelope in envelopes:
        frontier, _ = frontier.append(leaf_hash(envelope))
        at[frontier.size] = frontier
    trusted = [identity.signing_key.public]
    head = identity.sign_head(frontier).to_bytes()
    verify_log(envelopes, head, trusted, [identity.log_key], identity.origin, also=(EVENT_TYPE,))
    if kept is not None:
        verify_checkpoint(kept, [identity.log_key], identity.origin)
        stated = parse_checkpoint(kept.text)
        if stated.size and (stated.size not in at or at[stated.size].root != stated.root):
            raise VerificationError(f"the ledger does not reach the kept head of {stated.size} leaves")


@dataclass
class _History:
    """What a ledger tells of memories, erasures and holds: what must not come back."""

    leaves: list[tuple[bytes, str, str | None, int | None]] = field(default_factory=list)
    last: dict[str, Predicate] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)

    def erased(self, loaded: LoadedMemory) -> list[str]:
        """Entries of a memory whose content, or whose record, must not come back."""
        version = loaded.memory.version
        gone = self.deleted | self.forgotten
        content = {name: commitment_of(version, name) for name in (*loaded.memory.ids, *version.warranties.archive)}
        found = [name for name, digest in content.items() if digest is not None and digest.hex() in gone]
        return found + [name for name, digest in loaded.forgotten.commitments.items() if digest.hex() in self.deleted]

    @classmethod
    def of(cls, envelopes: list[bytes]) -> _History:
        """Read a ledger that has been verified."""
        history = cls()
        for envelope in envelopes:
            statement = parse_statement(parse_envelope(envelope).payload)
            if statement.predicate_type == PREDICATE_TYPE:
                history._add_receipt(envelope, parse_predicate(statement))
            else:
                history._add_event(envelope, parse_event(statement))
        return history

    def _add_receipt(self, envelope: bytes, receipt: Predicate) -> None:
        self.leaves.append((envelope, receipt.outcome, receipt.memory, receipt.edit))
        self.last[receipt.memory] = receipt
        if receipt.action == "deletion":
            self.deleted |= set(receipt.applied.commitments)
        elif receipt.pruning is not None and receipt.pruning.mode == "forget":
            self.forgotten |= set(receipt.applied.commitments)

    def _add_event(self, envelope: bytes, event: Event) -> None:
        self.leaves.append((envelope, event.kind, event.memory, None))
        if event.kind == "dropped" and event.memory is not None:
            self.dropped.add(event.memory)
        hold = event.facts.get("hold")
        if event.kind == "held" and isinstance(hold, int) and event.memory is not None:
            self.held[hold] = event.memory
        elif event.kind == "released" and isinstance(hold, int):
            self.held.pop(hold, None)


class _Restoration:
    """One restore, in one transaction."""

    def __init__(
        self,
        database: Database,
        connection: CheckedConnection,
        ledger_writer: LedgerWriter,
        backup: CheckedConnection,
        identity: Identity,
        history: _History,
    ) -> None:
        self._database = database
        self._connection = connection
        self._backup = backup
        self._identity = identity
        self._history = history
        self._ledger_writer = ledger_writer
        self._numbers: dict[int, int] = {}
        self._digests: dict[str, str] = {}
        self._erased: dict[str, tuple[str, ...]] = {}
        self._lost: dict[str, str] = {}

    def run(self, backed_up: int) -> RestoreResult:
        """Ledger first, then memories, then what refers to them."""
        history, identity = self._history, self._identity
        self._connection.execute(
            update(store).values(uuid=identity.uuid, origin=identity.origin, secret=identity.secret)
        )
        self._ledger_writer.skip_numbers_below(self._backup.value(select(ledger.c.next_number)))
        for envelope, kind, memory, edit in history.leaves:
            self._ledger_writer.append(envelope, kind, memory, edit)
        kept = self._backup.rows(
            select(holds.c.number, holds.c.memory, holds.c.terms, secrets.c.secret)
            .join(secrets, secrets.c.number == holds.c.number)
            .where(holds.c.number.in_(history.held))
            .order_by(holds.c.number)
        )
        # Holds keep their numbers, which are lower than any that is given now; their secrets go in first.
        self._database.insert_secrets(self._connection, {row.number: row.secret for row in kept})
        rows = self._backup.rows(select(memories).order_by(memories.c.number))
        for row in rows:
            if row.uuid not in history.dropped:
                self._restore_memory(row)
        # What was created after the backup is lost, and the ledger says so.
        for uuid in sorted(history.last.keys() - history.dropped - {row.uuid for row in rows}):
            self._append_dropped(uuid)
        self._insert(
            holds,
            [
                {"number": row.number, "memory": self._numbers[row.memory], "terms": row.terms}
                for row in kept
                if row.memory in self._numbers
            ],
        )
        without_memory = [row.number for row in kept if row.memory not in self._numbers]
        self._database.destroy_secrets(self._connection, without_memory)
        holds_lost = self._append_released({row.number for row in kept})
        for table in (requests, checkpoints):
            self._insert(table, [row._asdict() for row in self._backup.rows(select(table))])
        self._ledger_writer.flush()
        later = [kind for _, kind, _, _ in history.leaves[backed_up:]]
        return RestoreResult(
            memories=tuple(sorted(row.name for row in rows if row.number in self._numbers)),
            erased_again=self._erased,
            dropped=tuple(sorted(row.name for row in rows if row.uuid in history.dropped)),
            lost=self._lost,
            edits_lost=sum(kind in ("created", "admitted", "rebuilt", "pruned") for kind in later),
            holds_lost=holds_lost,
        )

    def _restore_memory(self, row: Any) -> None:
        """Load one memory, delete what was erased since, and write what is left."""
        last = self._history.last.get(row.uuid)
        if last is None:
            raise VerificationError(f"the ledger knows no memory {row.name!r}")
        stored = self._backup.first(
            select(last_edit(row.uuid).label("edit"), states.c.digest).where(states.c.memory == row.number)
        )
        edited_since = stored is not None and (stored.digest.hex(), stored.edit) != (last.state_after, last.edit)
        loaded = load_memory(self._backup, row.number, edit=last.edit + 1 if edited_since else None)
        memory = loaded.memory
        names = self._history.erased(loaded)
        statements: list[tuple[Statement, str, int]] = []
        if stored is not None and edited_since:
            statement = attest_restoration(
                memory.version,
                state_before=last.state_after,
                entries_before=last.after,
                memory=row.uuid,
                edit=last.edit + 1,
                restored_edit=stored.edit,
                clock=self._identity.clock,
                initial_size=memory.initial_size,
            )
            statements.append((statement, "restored", last.edit + 1))

        def journal(before: Version, after: Version, receipt: Receipt) -> None:
            if receipt.outcome == "refused":
                return
            statement = attest(
                receipt,
                before,
                after,
                memory=row.uuid,
                edit=after.edit,
                clock=self._identity.clock,
                initial_size=memory.initial_size,
                forgotten=loaded.forgotten.commitments,
            )
            statements.append((statement, receipt.recorded_outcome, after.edit))

        memory.journal = journal
        if names:
            try:
                # A receipt names only so many entries.
                parts = [names[start : start + MAX_LISTED] for start in range(0, len(names), MAX_LISTED)]
                self._erased[row.name] = tuple(name for part in parts for name in memory.delete(part).applied)
            except DeletionRefused as problem:
                # What was erased must not come back, and without it this memory cannot: it goes.
                self._lost[row.name] = problem.reason
                self._append_dropped(row.uuid)
                return
        for statement, kind, edit in statements:
            self._ledger_writer.append(self._identity.sign(statement), kind, row.uuid, edit)
        self._numbers[row.number] = number = memory_number(row.name)
        version = memory.version
        self._digests[row.uuid] = version.digest
        writer = RowWriter(self._database, self._connection, self._ledger_writer, self._identity.secret, number)
        writer.insert_memory(row.uuid, row.name, version, loaded.forgotten.commitments)

    def _append_released(self, kept: set[int]) -> int:
        """Record that holds placed after the backup are not in force: their terms are gone."""
        held, restored = self._history.held, self._digests
        lost = [number for number, memory in held.items() if memory in restored and number not in kept]
        for number in lost:
            state = Subject("state", restored[held[number]])
            self._ledger_writer.append_event(self._identity, "released", held[number], state, hold=number)
        return len(lost)

    def _append_dropped(self, memory: str) -> None:
        """Record that a memory which the ledger knows does not come back."""
        last = self._history.last[memory]
        state, after = Subject("state", last.state_after), last.after
        self._ledger_writer.append_event(self._identity, "dropped", memory, state, live=after.live, pruned=after.pruned)

    def _insert(self, table: Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)
