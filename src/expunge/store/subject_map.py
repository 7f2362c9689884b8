"""Whose entries are in which memory: a map in the process, of which nothing is stored.

It is built from the sealed rows when it is first needed, and follows the edits of this and other processes from then
on. Rows are numbered by commitments, so the numbers of a memory's rows tell which are new and which are gone: only
new rows are opened, and a subject without an entry is not in the map any more. A row that does not open counts as one
that nobody could search; it is still found by its mark.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Table, bindparam, select

from expunge.errors import VerificationError
from expunge.memory.memory import Memory
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, forgotten, memories, secrets
from expunge.store.encryption import decrypt_all, decrypt_entries, row_mark, subject_tag
from expunge.store.identity import Identity
from expunge.store.look_alikes import folded, look_alike
from expunge.store.rows import kept_slots, last_edit, numbers_of
from expunge.store.subject_search import MOST_LOOK_ALIKES, LookAlike, Unsearched
from expunge.types import IndexArray

__all__ = ["SubjectMap", "Subjects"]

# Rows that are opened together, and numbers in one query.
_AT_ONCE = 500
_MEMORIES = select(memories.c.number, memories.c.uuid, memories.c.name, last_edit(memories.c.uuid).label("edit"))


@dataclass(eq=False)
class _Rows:
    """The rows of one memory, live, archived and forgotten entries, at one edit; owners are None where there is none.

    ``closed`` has secret and mark of rows that do not open.
    """

    name: str
    edit: int
    numbers: IndexArray
    owners: list[str | None]
    closed: dict[int, tuple[bytes, bytes | None]]

    def __post_init__(self) -> None:
        self.counts = Counter(owner for owner in self.owners if owner is not None)

    @property
    def unnamed(self) -> int:
        return len(self.owners) - self.counts.total()


class Subjects:
    """Subjects of a store's entries at one moment."""

    def __init__(self, rows: dict[str, _Rows], store_secret: bytes) -> None:
        self._rows = rows
        self._store_secret = store_secret

    def memories_of(self, subject: str) -> tuple[str, ...]:
        """Names of the memories with an entry of a subject, live, archived or forgotten."""
        return tuple(sorted(rows.name for rows in self._rows.values() if self._has(rows, subject)))

    def unsearched(self) -> tuple[Unsearched, ...]:
        """Memories with entries that have no subject, or none that can be read."""
        found = [Unsearched(rows.name, rows.unnamed, len(rows.owners)) for rows in self._rows.values()]
        return tuple(sorted((one for one in found if one.unnamed), key=lambda one: one.memory))

    def look_alikes(self, subject: str) -> tuple[LookAlike, ...]:
        """Subjects that look like one, at most 20, the most alike first."""
        wanted = folded(subject)
        found: dict[str, Counter[str]] = {}
        alike: dict[str, bool] = {subject: False}
        for rows in self._rows.values():
            for name, count in rows.counts.items():
                if name not in alike:
                    alike[name] = look_alike(wanted, folded(name))
                if alike[name]:
                    found.setdefault(name, Counter())[rows.name] += count
        order = sorted(found, key=lambda name: (folded(name) != wanted, name))
        return tuple(LookAlike(name, dict(found[name])) for name in order[:MOST_LOOK_ALIKES])

    def matching(self, text: str, most: int) -> tuple[tuple[LookAlike, ...], bool]:
        """Subjects with every word of a text in their folded names, or that look like it; whether there are more."""
        wanted = folded(text)
        words, fits, found = wanted.split(), dict[str, bool](), dict[str, dict[str, int]]()
        for rows in self._rows.values():
            for name, count in rows.counts.items():
                if name not in fits:
                    form = folded(name)
                    within = bool(words) and all(word in form for word in words)
                    fits[name] = name == text or within or look_alike(wanted, form)
                if fits[name]:
                    found.setdefault(name, {})[rows.name] = count
        order = sorted(found, key=lambda name: (name != text, folded(name) != wanted, name))
        return tuple(LookAlike(name, found[name]) for name in order[:most]), len(found) > most

    def _has(self, rows: _Rows, subject: str) -> bool:
        if subject in rows.counts:
            return True
        tag = subject_tag(self._store_secret, subject) if rows.closed else None
        return any(mark is not None and mark == row_mark(secret, tag) for secret, mark in rows.closed.values())


class SubjectMap:
    """Follows the subjects of one store's entries."""

    def __init__(self) -> None:
        self.built = False
        self._lock = threading.Lock()
        self._rows: dict[str, _Rows] = {}

    def refresh(
        self, connection: CheckedConnection, identity: Identity, loaded: Callable[[str, int], Memory | None]
    ) -> Subjects:
        """The subjects that a connection sees; ``loaded`` finds a memory of this process by UUID and edit."""
        found = connection.rows(_MEMORIES)
        with self._lock:
            rows: dict[str, _Rows] = {}
            for row in found:
                known = self._rows.get(row.uuid)
                if known is None or known.edit != row.edit:
                    memory = loaded(row.uuid, row.edit)
                    version = None if memory is None else memory.version
                    if version is not None and version.edit == row.edit:
                        known = _of_version(row.name, version)
                    else:
                        known = _of_tables(connection, row, known)
                rows[row.uuid] = known
            self._rows = rows
            self.built = True
        return Subjects(rows, identity.secret)

    def follow(self, uuid: str, memory: Memory) -> None:
        """Forget at once what an edit of this process has erased."""
        with self._lock:
            if uuid in self._rows:
                self._rows = self._rows | {uuid: _of_version(self._rows[uuid].name, memory.version)}

    def size_in_bytes(self) -> int:
        """About how many bytes of this process the map takes."""
        # A number, a reference, and for each subject its text and its count.
        return sum(
            16 * len(rows.owners) + sum(sys.getsizeof(name) + 100 for name in rows.counts)
            for rows in self._rows.values()
        )


def _of_version(name: str, version: Version) -> _Rows:
    """The rows of a loaded version. Those of forgotten entries are not told apart: each counts as one."""
    data, slots = version.entries, kept_slots(version)
    owners = [data.subjects[slot] for slot in slots.tolist()]
    owners += [record.subject for record in version.warranties.forgotten.values()]
    numbers = np.concatenate([numbers_of(version, slots), np.full(len(owners) - slots.size, -1, dtype=np.int64)])
    return _Rows(name, version.edit, numbers, owners, {})


def _of_tables(connection: CheckedConnection, row: Any, known: _Rows | None) -> _Rows:
    """The rows of a memory in the tables; those that are known are not opened again."""
    owner_of: dict[int, str | None] = {}
    if known is not None:
        owner_of = dict(zip(known.numbers.tolist(), known.owners, strict=True))
        owner_of.pop(-1, None)
        for number in known.closed:
            del owner_of[number]
    numbers: list[int] = []
    owners: list[str | None] = []
    closed: dict[int, tuple[bytes, bytes | None]] = {}
    texts: dict[str, str] = {}
    for table in (entries, forgotten):
        there = connection.values(_numbers(table), {"memory_": row.number})
        new = [number for number in there if number not in owner_of]
        for number, secret, mark, owner in _opened(connection, table, row.number, new):
            if isinstance(owner, VerificationError):
                closed[number], owner = (secret, mark), None
            owner_of[number] = None if owner is None else texts.setdefault(owner, owner)
        numbers += there
        owners += [owner_of.get(number) for number in there]
    return _Rows(row.name, row.edit, np.array(numbers, dtype=np.int64), owners, closed)


def _numbers(table: Table) -> Any:
    return select(table.c.number).where(table.c.memory == bindparam("memory_"))


def _opened(
    connection: CheckedConnection, table: Table, memory: int, numbers: list[int]
) -> Iterator[tuple[int, bytes, bytes | None, str | VerificationError | None]]:
    """Number, secret, mark and subject of rows; the error where a row does not open."""
    content = entries.c.content if table is entries else forgotten.c.record
    wanted = (
        select(table.c.number, table.c.mark, content.label("content"), secrets.c.secret)
        .join(secrets, secrets.c.number == table.c.number)
        .where(table.c.memory == memory)
    )
    for rows in _batches(connection, wanted, table, numbers):
        for row in rows:
            # It was given no subject.
            if row.mark is None:
                yield row.number, row.secret, None, None
                continue
            try:
                yield row.number, row.secret, row.mark, _subject(table, row.secret, row.content)
            except VerificationError as problem:
                yield row.number, row.secret, row.mark, problem


def _batches(connection: CheckedConnection, wanted: Any, table: Table, numbers: list[int]) -> Iterable[list[Any]]:
    """All rows of a memory where most are wanted, else those with these numbers."""
    if len(numbers) > _AT_ONCE:
        new = set(numbers)
        for rows in connection.batches(wanted):
            yield [row for row in rows if row.number in new]
        return
    if numbers:
        yield connection.rows(wanted.where(table.c.number.in_(numbers)))


def _subject(table: Table, secret: bytes, content: bytes) -> str | None:
    if table is entries:
        return decrypt_entries([(secret, content)])[0].subject
    subject: str | None = json.loads(decrypt_all("record", [(secret, content)])[0])["subject"]
    return subject
