"""Everything that a store holds of one person, for an answer to an access request.

Entries are found by their marks, as an erasure finds them, and read from their rows, so that a memory which cannot be
loaded gives its entries, too. One memory is read at a time, in a short transaction: nothing is written, and no erased
secret is kept in the database's files meanwhile. Memories with entries that have no subject are named, because these
entries were not searched. Entries that were made from the person's, which an erasure takes along, are listed without
content: they may be about others as well.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from sqlalchemy import Column, Table, select

from expunge.errors import InputError, VerificationError
from expunge.ledger.commitment import blind, commit
from expunge.ledger.encoding import Json
from expunge.ledger.event import parse_event
from expunge.ledger.file_writing import new_file
from expunge.ledger.receipt_format import PREDICATE_TYPE
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.memory.attributes import NO_ATTRIBUTES, decode_attributes
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, forgotten, secrets
from expunge.store.due_erasures import PendingErasure, read_erasures
from expunge.store.encryption import Content, decrypt_all, decrypt_entries, row_mark, subject_tag
from expunge.store.identity import Identity
from expunge.store.ledger_tables import read_frontier
from expunge.store.legal_holds import Hold, read_holds

if TYPE_CHECKING:
    from expunge.store.store import Store
    from expunge.store.stored_memory import StoredMemory

__all__ = ["ExportedEntry", "ExportedLeaf", "SubjectExport", "export_subject"]

_LEAVES_AT_ONCE = 500
_COLUMNS = (
    "memory",
    "id",
    "state",
    "key",
    "value",
    "payload",
    "measurements",
    "expires",
    "derived_from",
    "commitment",
    "admitted_leaf",
    "admitted",
    "leaves",
    "holds",
)


@dataclass(frozen=True)
class ExportedLeaf:
    """A leaf of the ledger that names an entry by its commitment."""

    leaf: int
    kind: str
    time: str


@dataclass(frozen=True, eq=False)
class ExportedEntry:
    """One entry of a person: live, archived, or forgotten, in which case no content is left.

    ``state`` is ``stored`` where the memory cannot be loaded, so that nothing tells a live entry from an archived one.
    ``measurements`` are the numbers that key and value stand for, by the name of their column, where the memory has
    columns and can be loaded. ``derived_from`` has memory and id of each source.
    """

    memory: str
    id: str
    state: str
    key: list[float] | None
    value: list[float] | None
    payload: Any
    measurements: dict[str, dict[str, float]] | None
    expires: str | None
    derived_from: tuple[tuple[str, str], ...]
    commitment: str
    admitted: ExportedLeaf | None
    leaves: tuple[ExportedLeaf, ...]
    holds: tuple[Hold, ...]

    def to_json(self) -> dict[str, Any]:
        """As an export has it; a payload of bytes is in base64."""
        payload = self.payload
        if isinstance(payload, bytes):
            payload = {"base64": base64.b64encode(payload).decode()}
        return {
            "memory": self.memory,
            "id": self.id,
            "state": self.state,
            "key": self.key,
            "value": self.value,
            "payload": payload,
            "measurements": self.measurements,
            "expires": self.expires,
            "derived_from": [list(source) for source in self.derived_from],
            "commitment": self.commitment,
            "admitted": None if self.admitted is None else vars(self.admitted),
            "leaves": [vars(leaf) for leaf in self.leaves],
            "holds": [{"number": hold.number, "reason": hold.reason} for hold in self.holds],
        }


@dataclass(frozen=True, eq=False)
class SubjectExport:
    """Everything of one ``subject``; `entries` reads it, memory by memory.

    ``memories`` have something of the subject, ``not_searched`` have entries without any subject. ``holds`` are
    those on the subject, and ``requested`` the erasures that wait to be carried out. ``size`` is that of the ledger.
    """

    subject: str
    origin: str
    time: str
    size: int
    memories: tuple[str, ...]
    not_searched: tuple[str, ...]
    holds: tuple[Hold, ...]
    requested: tuple[PendingErasure, ...]
    _store: Store = field(repr=False)
    _identity: Identity = field(repr=False)

    def about(self) -> dict[str, Any]:
        """What there is besides the entries."""
        return {
            "subject": self.subject,
            "store": self.origin,
            "time": self.time,
            "leaves": self.size,
            "memories": list(self.memories),
            "not_searched": list(self.not_searched),
            "holds": [vars(hold) for hold in self.holds],
            "requested": [{"leaf": one.leaf, "due": one.to_json()["due"], "case": one.case} for one in self.requested],
        }

    def entries(self) -> Iterator[ExportedEntry]:
        """Every entry of the subject; one memory is read at a time."""
        for name in self.memories:
            yield from _entries_of(self._store, self._identity, name, self.subject)

    def derived(self, found: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """What was made from entries, given by memory and id: an erasure of the person takes it along.

        ``not_read`` names damaged memories, of which nobody can tell what their entries were made from.
        """
        with self._store.reading() as connection:
            graph = self._store.derivations.read(connection)
        uuids = {name: uuid for uuid, name in graph.names.items()}
        made = graph.made_from((uuids[memory], name) for memory, name in found if memory in uuids)
        listed = [graph.entry(node, sources).to_json() for node, sources in made.items()]
        return {"entries": listed, "not_read": list(graph.not_read)}

    def json_lines(self) -> Iterator[bytes]:
        """One JSON document, in parts."""
        yield b'{"about": ' + _json(self.about()) + b', "entries": ['
        found: list[tuple[str, str]] = []
        for entry in self.entries():
            yield (b",\n" if found else b"\n") + _json(entry.to_json())
            found.append((entry.memory, entry.id))
        yield b'\n], "derived": ' + _json(self.derived(found)) + b"}\n"

    def write_json(self, path: str | Path) -> int:
        """Write one JSON document to a new file of mode 0600; return how many entries it has."""
        parts = 0
        with _new(Path(path)) as file:
            for part in self.json_lines():
                file.write(part)
                parts += 1
        # All but the first part and the last.
        return parts - 2

    def write_csv(self, folder: str | Path) -> int:
        """Write ``entries.csv``, ``about.json`` and ``derived.json`` to a new folder; return the number of entries."""
        target = Path(folder)
        try:
            target.mkdir(mode=0o700)
        except FileExistsError:
            raise InputError(f"{target} exists; an export is written to a new folder") from None
        except OSError as problem:
            raise InputError(f"cannot make {target}: {problem.strerror}") from None
        with _new(target / "about.json") as file:
            file.write(_json(self.about()) + b"\n")
        found: list[tuple[str, str]] = []
        with _new(target / "entries.csv") as file:
            file.write(_csv_row(_COLUMNS))
            for entry in self.entries():
                file.write(_csv_row(_cells(entry)))
                found.append((entry.memory, entry.id))
        with _new(target / "derived.json") as file:
            file.write(_json(self.derived(found)) + b"\n")
        return len(found)


def export_subject(store: Store, identity: Identity, subject: str) -> SubjectExport:
    """Find everything of a subject; its entries are read when they are asked for."""
    with store.reading() as connection:
        size = read_frontier(connection).size
        subjects = store.current_subjects(connection)
        names, not_searched = subjects.memories_of(subject), subjects.unsearched()
        holds = [hold for hold in read_holds(connection) if hold.subject == subject]
        requested = [pending for pending in read_erasures(connection) if pending.subject == subject]
    return SubjectExport(
        subject=subject,
        origin=identity.origin,
        time=identity.clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        size=size,
        memories=names,
        not_searched=tuple(one.memory for one in not_searched),
        holds=tuple(holds),
        requested=tuple(requested),
        _store=store,
        _identity=identity,
    )


def _entries_of(store: Store, identity: Identity, name: str, subject: str) -> Iterator[ExportedEntry]:
    if name not in store:
        # It was dropped since the search.
        return
    stored, tag = store[name], subject_tag(identity.secret, subject)

    def sealed(connection: CheckedConnection, table: Table, column: Column[Any]) -> list[tuple[bytes, bytes]]:
        wanted = (
            select(table.c.mark, column, secrets.c.secret)
            .join(secrets, secrets.c.number == table.c.number)
            .where(table.c.memory == stored.number, table.c.mark.is_not(None))
        )
        return [
            (row.secret, row[1])
            for rows in connection.batches(wanted)
            for row in rows
            if row.mark == row_mark(row.secret, tag)
        ]

    with store.reading() as connection:
        contents = sealed(connection, entries, entries.c.content)
        records = sealed(connection, forgotten, forgotten.c.record)
        held = read_holds(connection, stored.number)
    found: dict[str, Content | str] = {}
    for (salt, _), whole in zip(contents, decrypt_entries(contents), strict=True):
        hidden = blind(salt, whole.id, whole.subject, whole.payload)
        found[commit(hidden, whole.key.tobytes(), whole.value.tobytes()).hex()] = whole
    for plain in decrypt_all("record", records):
        record = json.loads(plain)
        found[record["commitment"]] = record["id"]
    version = _loaded(stored)
    archived = None if version is None else set(version.warranties.archive)
    named = _leaves_naming(store, name, found.keys())
    for digest, kept in found.items():
        leaves, content = named[digest], kept if isinstance(kept, Content) else None
        about = kept.id if isinstance(kept, Content) else kept
        state = "forgotten" if content is None else "stored"
        if archived is not None and content is not None:
            state = "archived" if about in archived else "live"
        attributes = NO_ATTRIBUTES if content is None else decode_attributes(content.payload)
        yield ExportedEntry(
            memory=name,
            id=about,
            state=state,
            key=None if content is None else content.key.tolist(),
            value=None if content is None else content.value.tolist(),
            payload=None if content is None else decode_payload(content.payload),
            measurements=None if version is None or content is None else _measured(version.preprocessing, content),
            expires=None if attributes.expires is None else attributes.expires.isoformat().replace("+00:00", "Z"),
            derived_from=tuple(
                (name, one) if isinstance(one, str) else (store.name_of(one[0]) or one[0], one[1])
                for one in attributes.derived_from
            ),
            commitment=digest,
            admitted=next((leaf for leaf in leaves if leaf.kind in ("created", "admitted")), None),
            leaves=tuple(leaves),
            holds=tuple(hold for hold in held if hold.covers(about, subject)),
        )


def _loaded(stored: StoredMemory) -> Version | None:
    """The memory as it is; None where it cannot be loaded."""
    try:
        return stored.version
    except VerificationError:
        return None


def _measured(columns: Preprocessing, content: Content) -> dict[str, dict[str, float]] | None:
    """What the coordinates of an entry stand for, by column; None where the memory has no columns."""
    if not columns.keys:
        return None
    keys = columns.to_measurements(content.key[None, :])[0].tolist()
    return {
        "keys": {column.name: number for column, number in zip(columns.keys, keys, strict=True)},
        "values": {column.name: number for column, number in zip(columns.values, content.value.tolist(), strict=True)},
    }


def _leaves_naming(store: Store, name: str, wanted: Collection[str]) -> dict[str, list[ExportedLeaf]]:
    """The leaves of a memory that name some commitments, in order."""
    found: dict[str, list[ExportedLeaf]] = {digest: [] for digest in wanted}
    # By request id, the receipts whose lists follow them in leaves of their own.
    long: dict[Json, ExportedLeaf] = {}
    start = 0
    while leaves := store.receipts(name, start=start, limit=_LEAVES_AT_ONCE):
        start = leaves[-1].index + 1
        for leaf in leaves:
            predicate = leaf.statement.predicate
            stated = ExportedLeaf(leaf.index, leaf.kind, str(predicate["time"]))
            if leaf.statement.predicate_type == PREDICATE_TYPE:
                receipt = parse_predicate(leaf.statement)
                lists = (receipt.applied, receipt.ended, receipt.expired, receipt.renewed, receipt.reactivated)
                digests = {digest for listed in lists for digest in listed.commitments}
                if any(listed.root is not None for listed in lists):
                    long[receipt.request.id] = stated
            else:
                facts = parse_event(leaf.statement).facts
                stated = long.get(facts.get("receipt"), stated)
                digests = set(cast("tuple[str, ...]", facts.get("commitments", ())))
                digests |= {str(facts["entry"])} if facts.get("entry") is not None else set()
            for digest in digests & found.keys():
                found[digest].append(stated)
    return found


def _new(path: Path) -> AbstractContextManager[BinaryIO]:
    """A new file that nobody else may read."""
    if os.path.lexists(path):
        raise InputError(f"{path} exists; an export is written to a new file")
    return new_file(path, mode=0o600)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _cells(entry: ExportedEntry) -> list[str]:
    """The row of one entry. Texts are JSON, so that no spreadsheet takes one for a formula."""
    content = entry.to_json()
    admitted, leaves = entry.admitted, " ".join(str(leaf.leaf) for leaf in entry.leaves)
    holds = " ".join(str(hold.number) for hold in entry.holds)
    texts = ("memory", "id", "state", "key", "value", "payload", "measurements", "expires", "derived_from")
    cells = [content[name] for name in texts]
    when = ["", ""] if admitted is None else [str(admitted.leaf), admitted.time]
    return [*(json.dumps(cell, ensure_ascii=False) for cell in cells), entry.commitment, *when, leaves, holds]


def _csv_row(cells: Iterable[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()
