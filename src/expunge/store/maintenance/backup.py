"""Copies of a store, and the way back that does not bring the erased back.

A backup is a SQLite file with the same tables, whatever the store is. Restoring loads every memory from it, deletes
what a newer ledger says was erased, matched by commitment, and only then writes it: erased content never reaches the
new database.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Table, create_engine, insert, select, update

from expunge.attestation.statements import attest, attest_restoration, commitment_of
from expunge.errors import DeletionRefused, StoreError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.event import EVENT_TYPE, Event, parse_event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import SignedNote
from expunge.ledger.receipt_format import MAX_LISTED, PREDICATE_TYPE, Predicate, parse_predicate
from expunge.ledger.statement import Statement, Subject, parse_statement
from expunge.memory.receipt import Receipt
from expunge.memory.version import View
from expunge.store.backends.database import Database, translated
from expunge.store.backends.schema_version import check_schema, prepare_schema, schema_version
from expunge.store.backends.sqlite import Sqlite
from expunge.store.backends.tables import (
    checkpoints,
    holds,
    ledger,
    memories,
    metadata,
    requests,
    secrets,
    store,
)
from expunge.store.encryption import SECRET_BYTES
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Head, frontier_of, leaves_from
from expunge.store.row_writer import Pen
from expunge.store.rows import Facts, Image, load_image
from expunge.verify.ledger import verify_log

__all__ = ["Restored", "export_ledger", "restore_store", "write_backup"]

_ROWS = 500


@dataclass(frozen=True)
class Restored:
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


def write_backup(connection: Connection, path: Path) -> None:
    """Copy a snapshot of every table to a new file."""
    if path.exists():
        raise StoreError(f"{path} exists; a backup is never overwritten")
    partial = path.with_name(path.name + ".partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None
    target = Sqlite(URL.create("sqlite", database=str(partial)), timeout=1.0)
    try:
        with target.writing("backup") as copy:
            prepare_schema(copy)
            for table in metadata.sorted_tables:
                wanted = select(table).order_by(*table.primary_key.columns)
                if table is secrets:
                    # SQLite keeps the rows of destroyed secrets, as zeros.
                    wanted = wanted.where(secrets.c.secret != bytes(SECRET_BYTES))
                with connection.execute(wanted.execution_options(yield_per=_ROWS)) as found:
                    for part in found.mappings().partitions(_ROWS):
                        copy.execute(insert(table), [dict(row) for row in part])
            copy.commit()
        target.finish()
        partial.replace(path)
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        target.engine.dispose()
        for leftover in (partial, *(Path(f"{partial}{end}") for end in ("-wal", "-shm"))):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)


def export_ledger(connection: Connection, path: Path) -> Frontier:
    """Write every envelope on a line of its own; return the frontier that they lead to."""
    frontier, written = frontier_of(connection), 0
    try:
        with path.open("xb") as file:
            for leaf in leaves_from(connection):
                file.write(leaf.envelope + b"\n")
                written += 1
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise StoreError(f"{path} exists; a ledger is never overwritten") from None
    except OSError as problem:
        # Half a ledger might be taken for a whole one, and what the other half says was erased would come back.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None
    if written != frontier.size:
        path.unlink(missing_ok=True)
        raise VerificationError(f"the ledger has {frontier.size} leaves, and {written} of them are left")
    return frontier


def restore_store(
    database: Database,
    connection: Connection,
    identity: Identity,
    path: Path,
    source: Path | list[bytes] | None,
    checkpoint: SignedNote | None,
) -> tuple[Identity, Restored]:
    """Fill an empty store within one transaction, which the caller commits."""
    head = Head(connection)
    if head.size or connection.execute(select(memories.c.number)).first() is not None:
        raise StoreError("a store is restored into an empty one; open a new URL for it")
    with _backup(path) as copy:
        identity = _identity(copy, identity)
        old = [leaf.envelope for leaf in leaves_from(copy)]
        envelopes = _newest(old, source)
        _check(envelopes, identity, checkpoint)
        history = _History.of(envelopes)
        return identity, _Restoration(database, connection, head, copy, identity, history).run(len(old))


@contextmanager
def _backup(path: Path) -> Iterator[Connection]:
    if not path.is_file():
        raise StoreError(f"there is no backup {path}")
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(f"{path} is in use, or was not closed; restore from a file that `backup` wrote")
    # Nothing is written beside a backup, not even the log of a reader.
    address = URL.create("sqlite", database=f"file:{quote(str(path.resolve()))}?immutable=1", query={"uri": "true"})
    engine = create_engine(address, hide_parameters=True)
    try:
        with translated(), engine.connect() as copy:
            check_schema(schema_version(copy), str(path))
            yield copy
    finally:
        engine.dispose()


def _identity(copy: Connection, identity: Identity) -> Identity:
    row = copy.execute(select(store)).first()
    if row is None:
        raise StoreError("the backup is not of a store")
    if bytes(row.public_key) != identity.signing_key.public.raw:
        raise StoreError("the backup's ledger is signed with another key; open the new store with that one")
    return replace(identity, uuid=row.uuid, origin=row.origin, secret=bytes(row.secret))


def _newest(old: list[bytes], source: Path | list[bytes] | None) -> list[bytes]:
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


def _check(envelopes: list[bytes], identity: Identity, kept: SignedNote | None) -> None:
    """Signatures, histories and, where a head was kept, that nothing was cut off."""
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
    """What a ledger tells about what must not come back."""

    leaves: list[tuple[bytes, str, str | None, int | None]] = field(default_factory=list)
    last: dict[str, Predicate] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)

    def erased(self, image: Image) -> list[str]:
        """Entries of a memory whose content, or whose record, must not come back."""
        view = image.memory._view
        gone = self.deleted | self.forgotten
        content = {name: commitment_of(view, name) for name in (*image.memory.ids, *view.warranties.archive)}
        found = [name for name, digest in content.items() if digest is not None and digest.hex() in gone]
        return found + [name for name, digest in image.numbering.forgotten.items() if digest.hex() in self.deleted]

    @classmethod
    def of(cls, envelopes: list[bytes]) -> _History:
        """Read a ledger that has been verified."""
        history = cls()
        for envelope in envelopes:
            statement = parse_statement(parse_envelope(envelope).payload)
            if statement.predicate_type == PREDICATE_TYPE:
                history._edit(envelope, parse_predicate(statement))
            else:
                history._event(envelope, parse_event(statement))
        return history

    def _edit(self, envelope: bytes, receipt: Predicate) -> None:
        self.leaves.append((envelope, receipt.outcome, receipt.memory, receipt.edit))
        self.last[receipt.memory] = receipt
        if receipt.action == "deletion":
            self.deleted |= set(receipt.applied.commitments)
        elif receipt.pruning is not None and receipt.pruning.mode == "forget":
            self.forgotten |= set(receipt.applied.commitments)

    def _event(self, envelope: bytes, event: Event) -> None:
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
        connection: Connection,
        head: Head,
        copy: Connection,
        identity: Identity,
        history: _History,
    ) -> None:
        self._database = database
        self._connection = connection
        self._copy = copy
        self._identity = identity
        self._history = history
        self._head = head
        self._numbers: dict[int, int] = {}
        self._digests: dict[str, str] = {}
        self._erased: dict[str, tuple[str, ...]] = {}
        self._lost: dict[str, str] = {}

    def run(self, backed_up: int) -> Restored:
        """Ledger first, then memories, then what refers to them."""
        history, identity = self._history, self._identity
        self._connection.execute(
            update(store).values(uuid=identity.uuid, origin=identity.origin, secret=identity.secret)
        )
        self._head.skip_to(self._copy.execute(select(ledger.c.next_number)).scalar_one())
        for envelope, kind, memory, edit in history.leaves:
            self._head.append(envelope, kind, memory, edit)
        kept = self._copy.execute(
            select(holds.c.number, holds.c.memory, holds.c.terms, secrets.c.secret)
            .join(secrets, secrets.c.number == holds.c.number)
            .where(holds.c.number.in_(history.held))
            .order_by(holds.c.number)
        ).all()
        # Holds keep their numbers, which are lower than any that is given now; their secrets go in first.
        self._insert(secrets, [{"number": row.number, "secret": row.secret} for row in kept])
        rows = self._copy.execute(select(memories).order_by(memories.c.number)).all()
        for row in rows:
            if row.uuid not in history.dropped:
                self._bring_back(row)
        # What was created after the backup is lost, and the ledger says so.
        for uuid in sorted(history.last.keys() - history.dropped - {row.uuid for row in rows}):
            self._tell_dropped(uuid)
        self._insert(
            holds,
            [
                {"number": row.number, "memory": self._numbers[row.memory], "terms": row.terms}
                for row in kept
                if row.memory in self._numbers
            ],
        )
        homeless = [row.number for row in kept if row.memory not in self._numbers]
        if homeless:
            self._database.shred(self._connection, homeless)
        holds_lost = self._let_go({row.number for row in kept})
        for table in (requests, checkpoints):
            self._insert(table, [dict(row) for row in self._copy.execute(select(table)).mappings()])
        self._head.write()
        later = [kind for _, kind, _, _ in history.leaves[backed_up:]]
        return Restored(
            memories=tuple(sorted(row.name for row in rows if row.number in self._numbers)),
            erased_again=self._erased,
            dropped=tuple(sorted(row.name for row in rows if row.uuid in history.dropped)),
            lost=self._lost,
            edits_lost=sum(kind in ("created", "admitted", "rescued", "rebuilt", "pruned") for kind in later),
            holds_lost=holds_lost,
        )

    def _bring_back(self, row: Any) -> None:
        """Load one memory, delete what was erased since, and write what is left."""
        image = load_image(self._copy, row.number)
        memory = image.memory
        names = self._history.erased(image)
        told = self._history.last.get(row.uuid)
        if told is None:
            raise VerificationError(f"the ledger knows no memory {row.name!r}")
        statements: list[tuple[Statement, str, int]] = []
        if told.state_after != memory.digest or told.edit != memory._view.edit:
            backed_up = memory._view.edit
            memory._view = replace(memory._view, edit=told.edit + 1)
            statement = attest_restoration(
                memory._view,
                state_before=told.state_after,
                entries_before=told.after,
                memory=row.uuid,
                edit=told.edit + 1,
                restored_edit=backed_up,
                clock=self._identity.clock,
                initial_size=memory.initial_size,
            )
            statements.append((statement, "restored", told.edit + 1))

        def note(before: View, after: View, receipt: Receipt) -> None:
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
                forgotten=image.numbering.forgotten,
            )
            statements.append((statement, receipt.outcome, after.edit))

        memory.journal = note
        if names:
            try:
                # A receipt names only so many entries.
                parts = [names[start : start + MAX_LISTED] for start in range(0, len(names), MAX_LISTED)]
                self._erased[row.name] = tuple(name for part in parts for name in memory.delete(part).applied)
            except DeletionRefused as problem:
                # What was erased must not come back, and without it this memory cannot: it goes.
                self._lost[row.name] = problem.reason
                self._tell_dropped(row.uuid)
                return
        for statement, kind, edit in statements:
            self._head.append(self._identity.sign(statement), kind, row.uuid, edit)
        self._numbers[row.number] = number = self._head.take(1)
        view = memory._view
        self._digests[row.uuid] = view.digest
        left = {name: digest for name, digest in image.numbering.forgotten.items() if name in view.warranties.records}
        pen = Pen(self._database, self._connection, self._head, self._identity.secret, number)
        pen.create(row.uuid, row.name, view, Facts.of(memory), left)

    def _let_go(self, kept: set[int]) -> int:
        """Record that holds placed after the backup are not in force: their terms are gone."""
        held, restored = self._history.held, self._digests
        lost = [number for number, memory in held.items() if memory in restored and number not in kept]
        for number in lost:
            memory = held[number]
            subject = Subject("state", restored[memory])
            event = Event.at(self._identity.clock, "released", memory, subject, hold=number)
            self._head.append(self._identity.sign(event.to_statement()), "released", memory)
        return len(lost)

    def _tell_dropped(self, memory: str) -> None:
        """Record that a memory which the ledger knows does not come back."""
        told = self._history.last[memory]
        event = Event.at(
            self._identity.clock,
            "dropped",
            memory,
            Subject("state", told.state_after),
            live=told.after.live,
            pruned=told.after.pruned,
        )
        self._head.append(self._identity.sign(event.to_statement()), "dropped", memory)

    def _insert(self, table: Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)
