"""Restoring a store from a backup, without what was erased since.

Every memory is loaded from the backup, what a newer ledger says was erased is deleted in it, matched by commitment, and
only then is it written: erased content never reaches the new database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from sqlalchemy import URL, Table, create_engine, insert, select, update

from expunge.attestation.statements import attest, attest_restoration, commitment_of, drop_statements
from expunge.errors import DeletionRefused, StoreError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.event import Event, parse_event
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import SignedNote
from expunge.ledger.receipt_format import PREDICATE_TYPE, Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement, Subject, parse_statement
from expunge.memory.receipt import Receipt
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection, Database, translate_errors
from expunge.store.backends.schema_version import check_schema, schema_version
from expunge.store.backends.tables import (
    cases,
    checkpoints,
    erasures,
    holds,
    ledger,
    memories,
    requests,
    secrets,
    states,
    store,
)
from expunge.store.cases import leaf_time
from expunge.store.due_erasures import try_again
from expunge.store.erasure_summary import JointErasure
from expunge.store.identity import Identity
from expunge.store.key_rotation import newest_keys
from expunge.store.key_table import read_keys, write_keys
from expunge.store.ledger_tables import LedgerWriter, asked_number, read_leaves
from expunge.store.maintenance.erased_entries import ErasedEntries
from expunge.store.row_writer import RowWriter
from expunge.store.rows import LoadedMemory, last_edit, load_memory, memory_number
from expunge.verify.ledger import verify_ledger

__all__ = ["RestoreResult", "open_backup", "restore_store"]

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class RestoreResult:
    """What came back, and what did not.

    ``erased_again`` has the entries by memory that the ledger says were erased since the backup; ``dropped`` the
    memories that were; ``lost`` the memories of whose remaining entries no solver found an acceptable state, and why:
    erasures that leave fewer entries than the cap needs, or none, are applied like all others. Edits since the backup
    other than erasures are lost, and so are holds placed since: place them again; ``requests_lost`` counts erasures
    that were requested since, with a delay: request them again. ``cases_lost`` counts cases and actors of the backup
    that did not come back, since nothing says that they were not erased. ``mirrors_lost`` counts mirrors: the ledger
    says that they are none any more; attach them again, and compare them. ``erasures`` is how many entries the ledger
    says were erased; it was checked that none of them is in the store. ``retained`` has the first sweep of the store:
    of what has ended since the backup, and of what has lost a source.
    """

    memories: tuple[str, ...]
    erased_again: dict[str, tuple[str, ...]]
    dropped: tuple[str, ...]
    lost: dict[str, str]
    edits_lost: int
    holds_lost: int
    requests_lost: int
    cases_lost: int
    mirrors_lost: int
    erasures: int
    retained: JointErasure = field(default_factory=lambda: JointErasure(()))


def restore_store(
    database: Database,
    connection: CheckedConnection,
    identity: Identity,
    path: Path,
    source: Path | list[bytes] | None,
    checkpoint: SignedNote | None,
    kept_cases: Collection[int],
) -> tuple[Identity, RestoreResult]:
    """Fill an empty store within one transaction, which the caller commits."""
    ledger_writer = LedgerWriter(connection)
    if ledger_writer.size or connection.first(select(memories.c.number)) is not None:
        raise StoreError("a store is restored into an empty one; open a new URL for it")
    with open_backup(path) as backup:
        identity = _identity_of(backup, identity)
        old = [leaf.envelope for leaf in read_leaves(backup)]
        envelopes = _newest_ledger(old, source)
        identity = _with_newest_keys(identity, envelopes)
        owed = _verify_ledger(envelopes, identity, checkpoint)
        history = _History.of(envelopes)
        restoration = _Restoration(database, connection, ledger_writer, backup, identity, history, kept_cases, owed)
        return identity, restoration.run(len(old))


@contextmanager
def open_backup(path: Path) -> Iterator[CheckedConnection]:
    """Read a backup, and write nothing beside it."""
    if not path.is_file():
        raise StoreError(f"there is no backup {path}")
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(f"{path} is in use, or was not closed; restore from a file that `backup` wrote")
    # Not even the log of a reader.
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
    return replace(identity, uuid=row.uuid, origin=row.origin, secret=row.secret, keys=read_keys(backup))


def _with_newest_keys(identity: Identity, envelopes: list[bytes]) -> Identity:
    """The same with the keys that the newest ledger has, among which its signers must be."""
    keys = newest_keys(identity.keys, [parse_statement(parse_envelope(envelope).payload) for envelope in envelopes])
    try:
        identity.check_keys(keys)
    except StoreError as problem:
        raise StoreError(
            "the backup's ledger is signed with another key; open the new store with a key that is valid in it",
            code=problem.code,
        ) from None
    return replace(identity, keys=keys)


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


def _verify_ledger(
    envelopes: list[bytes], identity: Identity, kept: SignedNote | None
) -> Mapping[str, tuple[int, ...]]:
    """Signatures, histories and, where a head was kept, that the ledger reaches it; what mirrors have not followed."""
    frontier, at = Frontier(), {}
    for envelope in envelopes:
        frontier, _ = frontier.append(leaf_hash(envelope))
        at[frontier.size] = frontier
    trusted = identity.known("receipts")
    head = identity.sign_head(frontier).to_bytes()
    replayed = verify_ledger(envelopes, head, trusted, identity.log_keys, identity.origin)
    if kept is not None:
        verify_checkpoint(kept, identity.log_keys, identity.origin)
        stated = parse_checkpoint(kept.text)
        if stated.size and (stated.size not in at or at[stated.size].root != stated.root):
            raise VerificationError(f"the ledger does not reach the kept head of {stated.size} leaves")
    return replayed.owed


# Envelope, kind, memory, edit, number of its case.
_LeafRow = tuple[bytes, str, str | None, int | None, int | None]


@dataclass
class _History:
    """What a ledger tells of memories, erasures and holds: what must not come back."""

    leaves: list[_LeafRow] = field(default_factory=list)
    last: dict[str, Predicate] = field(default_factory=dict)
    gone: ErasedEntries = field(default_factory=ErasedEntries)
    dropped: set[str] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)
    time: datetime = _EPOCH
    last_hold: int = 0
    # Erasures that were requested with a delay and have not ended, by leaf: the commitment to the subject.
    requested: dict[int, str] = field(default_factory=dict)

    def erased(self, loaded: LoadedMemory) -> list[str]:
        """Entries of a memory whose content, or whose record, must not come back."""
        version = loaded.memory.version
        gone, deleted = self.gone.content, self.gone.deleted
        content = {name: commitment_of(version, name) for name in (*loaded.memory.ids, *version.warranties.archive)}
        found = [name for name, digest in content.items() if digest is not None and digest.hex() in gone]
        return found + [name for name, digest in loaded.forgotten.commitments.items() if digest.hex() in deleted]

    @classmethod
    def of(cls, envelopes: list[bytes]) -> _History:
        """Read a ledger that has been verified."""
        history = cls()
        for envelope in envelopes:
            statement = parse_statement(parse_envelope(envelope).payload)
            asked = asked_number(statement)
            history.time = max(history.time, leaf_time(statement))
            if statement.predicate_type == PREDICATE_TYPE:
                receipt = parse_predicate(statement)
                history.leaves.append((envelope, receipt.outcome, receipt.memory, receipt.edit, asked))
                history.last[receipt.memory] = receipt
                history.gone.add_receipt(receipt)
            else:
                event = parse_event(statement)
                history.leaves.append((envelope, event.kind, event.memory, None, asked))
                history.gone.add_event(event)
                history._add_event(len(history.leaves) - 1, event)
        return history

    def _add_event(self, index: int, event: Event) -> None:
        if event.kind == "dropped" and event.memory is not None:
            self.dropped.add(event.memory)
        if event.kind == "erasure_requested":
            self.requested[index] = event.subject.sha256
        elif event.kind in ("erasure_cancelled", "subject_erased") and event.facts.get("complete", True):
            self.requested.pop(cast(int, event.facts["requested"]), None)
        hold = event.facts.get("hold")
        if event.kind == "held" and isinstance(hold, int) and event.memory is not None:
            self.held[hold] = event.memory
            self.last_hold = max(self.last_hold, hold)
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
        kept_cases: Collection[int],
        owed: Mapping[str, tuple[int, ...]],
    ) -> None:
        self._owed = owed
        self._database = database
        self._connection = connection
        self._backup = backup
        self._identity = identity
        self._history = history
        self._kept_cases = kept_cases
        self._ledger_writer = ledger_writer
        self._clock = ledger_writer.dated(identity.clock)
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
        write_keys(self._connection, identity.keys)
        self._ledger_writer.skip_numbers_below(self._backup.value(select(ledger.c.next_number)))
        # No number of a hold is given twice, not even of one that was placed after the backup.
        self._ledger_writer.skip_numbers_below(history.last_hold + 1)
        for leaf in history.leaves:
            self._ledger_writer.append(*leaf)
        self._ledger_writer.skip_times_before(history.time)
        # What waited for a mirror was lost with the ids that it waited for.
        for mirror, owed in self._owed.items():
            self._ledger_writer.append_event(
                identity, "mirror_removed", None, Subject("mirror", mirror), pending=len(owed)
            )
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
        requests_lost = self._restore_erasures()
        cases_lost = self._restore_cases(self._kept_cases)
        for table in (requests, checkpoints):
            self._insert(table, [row._asdict() for row in self._backup.rows(select(table))])
        self._ledger_writer.flush()
        later = [kind for _, kind, _, _, _ in history.leaves[backed_up:]]
        return RestoreResult(
            memories=tuple(sorted(row.name for row in rows if row.number in self._numbers)),
            erased_again=self._erased,
            dropped=tuple(sorted(row.name for row in rows if row.uuid in history.dropped)),
            lost=self._lost,
            edits_lost=sum(kind in ("created", "admitted", "rebuilt", "pruned") for kind in later),
            holds_lost=holds_lost,
            requests_lost=requests_lost,
            cases_lost=cases_lost,
            mirrors_lost=len(self._owed),
            erasures=history.gone.require_none_in(self._connection),
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
        memory.make_ready()
        names = self._history.erased(loaded)
        statements: list[tuple[list[Statement], str, int]] = []
        if stored is not None and edited_since:
            restoration = attest_restoration(
                memory.version,
                state_before=last.state_after,
                entries_before=last.after,
                memory=row.uuid,
                edit=last.edit + 1,
                restored_edit=stored.edit,
                clock=self._clock,
                initial_size=memory.initial_size,
            )
            statements.append((restoration, "restored", last.edit + 1))

        def journal(before: Version, after: Version, receipt: Receipt) -> None:
            if receipt.outcome == "refused":
                return
            edited = attest(
                receipt,
                before,
                after,
                memory=row.uuid,
                edit=after.edit,
                clock=self._clock,
                initial_size=memory.initial_size,
                forgotten=loaded.forgotten.commitments,
            )
            statements.append((edited, receipt.recorded_outcome, after.edit))

        memory.journal = journal
        if names:
            try:
                # What was made from them is named by itself, where it was erased.
                self._erased[row.name] = memory.delete(names, derived="keep").applied
            except DeletionRefused as problem:
                # What was erased must not come back, and without it this memory cannot: it goes.
                self._lost[row.name] = problem.reason
                self._append_dropped(row.uuid)
                return
        for signed, kind, edit in statements:
            self._ledger_writer.append_all(self._identity, signed, kind, row.uuid, edit)
        self._numbers[row.number] = number = memory_number(row.name)
        version = memory.version
        self._digests[row.uuid] = version.digest
        writer = RowWriter(self._database, self._connection, self._identity.secret, number)
        writer.insert_memory(row.uuid, row.name, version, loaded.forgotten.commitments)

    def _append_released(self, kept: set[int]) -> int:
        """Record that holds placed after the backup are not in force: their terms are gone."""
        held, restored = self._history.held, self._digests
        lost = [number for number, memory in held.items() if memory in restored and number not in kept]
        for number in lost:
            state = Subject("state", restored[held[number]])
            self._ledger_writer.append_event(
                self._identity, "released", held[number], state, hold=number, cause="lost_in_restore"
            )
        return len(lost)

    def _restore_erasures(self) -> int:
        """Bring requests for a later erasure back that have not ended; record that those since the backup are lost."""
        wanted = select(erasures, secrets.c.secret).join(secrets, secrets.c.number == erasures.c.number)
        open_still = self._history.requested
        kept = [row for row in self._backup.rows(wanted) if row.leaf in open_still]
        self._database.insert_secrets(self._connection, {row.number: row.secret for row in kept})
        self._insert(
            erasures, [{column.name: row._mapping[column.name] for column in erasures.columns} for row in kept]
        )
        # The holds may be others now.
        try_again(self._connection)
        lost = sorted(open_still.keys() - {row.leaf for row in kept})
        for leaf in lost:
            subject = Subject("subject", open_still[leaf])
            self._ledger_writer.append_event(self._identity, "erasure_cancelled", None, subject, requested=leaf)
        return len(lost)

    def _restore_cases(self, wanted: Collection[int]) -> int:
        """Bring back the cases that were not erased since the backup; return how many stay away."""
        joined = select(cases, secrets.c.secret).join(secrets, secrets.c.number == cases.c.number)
        rows = self._backup.rows(joined)
        kept = [row for row in rows if row.number in wanted]
        self._database.insert_secrets(self._connection, {row.number: row.secret for row in kept})
        self._insert(cases, [{"number": row.number, "content": row.content} for row in kept])
        return len(rows) - len(kept)

    def _append_dropped(self, memory: str) -> None:
        """Record that a memory which the ledger knows does not come back."""
        last = self._history.last[memory]
        statements = drop_statements(None, last.state_after, last.after, memory=memory, clock=self._clock)
        self._ledger_writer.append_all(self._identity, statements, "dropped", memory)

    def _insert(self, table: Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)
