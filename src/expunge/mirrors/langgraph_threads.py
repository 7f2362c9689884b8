"""Threads of LangGraph's own checkpointers, in the tables that these make: to be deleted from, and searched.

One thread is one entry: its id, and as raw bytes what checkpoints and writes have of it, in whatever serialisation. The
adapters read the tables and need nothing of LangGraph. Nothing is written, but a table with the name of the list that
the threads are held to (:mod:`expunge.integrations.langgraph.checkpointer`).
"""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

from expunge.errors import InputError, StoreError
from expunge.mirrors.address import Address
from expunge.mirrors.mirror import Copy, Mirror

__all__ = ["OWNER", "Claim", "SqliteThreads", "ThreadTables", "open_threads"]

OWNER = "expunge_thread_list"
# Shorter texts, such as the names of channels, are in every thread, or in the system's own files.
_LEAST_TEXT = 16
# Seconds to wait for another connection's lock, and for readers of the write-ahead log.
_PATIENCE = 5.0


class Claim(NamedTuple):
    """The list that threads are held to.

    ``size`` is that of its ledger when it was last compared, and ``head`` a hash of the last leaf then.
    ``unreclaimed`` says that bytes of deleted threads may be in the files, because somebody was reading, or a process
    died.
    """

    name: str
    size: int
    head: str
    unreclaimed: bool = False


class ThreadTables(Mirror):
    """The tables of one checkpointer."""

    written: ClassVar[bool] = False
    # By table: the columns whose content tells a thread from others.
    tables: ClassVar[dict[str, tuple[str, ...]]]

    def write(self, copies: Sequence[Copy]) -> NoReturn:
        """A checkpointer is written by LangGraph."""
        raise InputError("LangGraph's checkpointer writes threads; they are only deleted here", code="mirror-unknown")

    def threads(self) -> set[str]:
        """Ids of the threads that any table has."""
        return {str(row[0]) for table in self.present() for row in self.run(f"SELECT DISTINCT thread_id FROM {table}")}  # noqa: S608 — names of our own

    def has(self, thread: str) -> bool:
        """Whether a table has a row of this thread."""
        found = (self.run(f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1", thread) for table in self.present())  # noqa: S608
        return any(found)

    def read(self, ids: Sequence[str]) -> list[Copy]:
        """Threads by their ids."""
        copies = []
        for thread in dict.fromkeys(ids):
            cells = [cell for table in self.present() for row in self._rows(table, thread) for cell in row]
            if cells:
                texts = [text for cell in cells for text in _texts(cell)]
                raw = tuple(bytes(cell) for cell in cells if isinstance(cell, bytes | memoryview))
                copies.append(Copy(thread, metadata={str(at): text for at, text in enumerate(texts)}, raw=raw))
        return copies

    def entries(self) -> Iterator[Copy]:
        """Every thread."""
        for thread in sorted(self.threads()):
            yield from self.read([thread])

    def count(self) -> int:
        """Number of threads."""
        return len(self.threads())

    def delete(self, ids: Sequence[str]) -> None:
        """Delete every row of the threads.

        Twice: a row that was committed while the first statement ran is not among those that it saw. Whoever writes it
        looks after the commit whether the thread may be there.
        """
        for _ in range(2):
            for table in self.present():
                for thread in ids:
                    self.run(f"DELETE FROM {table} WHERE thread_id = ?", thread)  # noqa: S608

    def metadata(self, thread: str) -> dict[str, Any]:
        """What the newest checkpoint of a thread says of it, such as the user's id."""
        newest = "SELECT metadata FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC LIMIT 1"
        for (cell,) in self.run(newest, thread) if "checkpoints" in self.present() else []:
            found = cell if isinstance(cell, dict) else json.loads(cell or b"{}")
            return dict(found)
        return {}

    def claim(self) -> Claim | None:
        """The list that these threads are held to, where one was said."""
        rows = self.run(f"SELECT name, size, head, unreclaimed FROM {OWNER}") if OWNER in self._existing() else []  # noqa: S608
        return Claim(str(rows[0][0]), int(rows[0][1]), str(rows[0][2]), bool(rows[0][3])) if rows else None

    def set_claim(self, claim: Claim) -> None:
        """Say which list the threads are held to."""
        self.run(f"CREATE TABLE IF NOT EXISTS {OWNER} (name TEXT, size BIGINT, head TEXT, unreclaimed INTEGER)")
        cells = (claim.name, claim.size, claim.head, int(claim.unreclaimed))
        if self.claim() is None:
            self.run(f"INSERT INTO {OWNER} (name, size, head, unreclaimed) VALUES (?, ?, ?, ?)", *cells)  # noqa: S608
        else:
            self.run(f"UPDATE {OWNER} SET name = ?, size = ?, head = ?, unreclaimed = ?", *cells)  # noqa: S608

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether the last reclamation had to leave something to somebody who was reading."""

    def present(self) -> list[str]:
        """The checkpointer's tables that are there: it makes them when it is first used."""
        existing = self._existing()
        return [table for table in self.tables if table in existing]

    @abstractmethod
    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement in a transaction of its own; StoreError where the database does not answer."""

    @abstractmethod
    def _existing(self) -> set[str]:
        """Names of all tables."""

    def _rows(self, table: str, thread: str) -> list[tuple[Any, ...]]:
        return self.run(f"SELECT {', '.join(self.tables[table])} FROM {table} WHERE thread_id = ?", thread)  # noqa: S608


class SqliteThreads(ThreadTables):
    """The tables of `SqliteSaver` and `AsyncSqliteSaver`."""

    kind: ClassVar[str] = "langgraph-sqlite"
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "checkpoints": ("checkpoint_id", "checkpoint", "metadata"),
        "writes": ("checkpoint_id", "task_id", "value"),
    }

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement; deleted content is overwritten."""
        try:
            with closing(sqlite3.connect(self.address.folder, timeout=_PATIENCE, isolation_level=None)) as connection:
                connection.execute("PRAGMA secure_delete = ON")
                return connection.execute(statement, parameters).fetchall()
        except sqlite3.Error as problem:
            raise StoreError(f"{self.address.folder} does not answer: {problem}", code="mirror-down") from None

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._busy = False

    @property
    def busy(self) -> bool:
        """Whether the write-ahead log could not be emptied."""
        return self._busy

    def reclaim(self) -> None:
        """Write the file anew, without the pages and parts of pages that are free, and empty the write-ahead log."""
        if self.address.folder.exists():
            self.run("VACUUM")
            self._busy = bool(self.run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0])

    def files(self) -> list[Path] | None:
        """The file, its write-ahead log and its journal."""
        file = self.address.folder
        return [path for ending in ("", "-wal", "-journal") if (path := file.with_name(file.name + ending)).exists()]

    def close(self) -> None:
        """Nothing is open."""

    def _existing(self) -> set[str]:
        if not self.address.folder.exists():
            return set()
        return {name for (name,) in self.run("SELECT name FROM sqlite_master WHERE type = 'table'")}


def open_threads(url: str) -> ThreadTables:
    """The tables of a checkpointer at ``sqlite:///file`` or ``postgresql://host/database``."""
    scheme = url.partition(":")[0] if isinstance(url, str) else None
    if scheme == "sqlite":
        address = Address("langgraph-sqlite", url)
        if address.folder.name in ("", ".", ":memory:"):
            raise InputError("threads that can be erased are in a file: give sqlite:///FILE", code="mirror-unknown")
        return SqliteThreads(address)
    if scheme in ("postgresql", "postgres"):
        from expunge.mirrors.langgraph_postgres import PostgresThreads

        return PostgresThreads(Address("langgraph-postgres", url))
    raise InputError(
        f"a checkpointer's database is sqlite:///FILE or postgresql://host/database, not {str(url)[:40]!r}",
        code="mirror-unknown",
    )


def _texts(cell: Any) -> Iterator[str]:
    """Texts of a cell that are long enough to say whose it is."""
    if isinstance(cell, Mapping | list):
        for part in cell.values() if isinstance(cell, Mapping) else cell:
            yield from _texts(part)
    elif isinstance(cell, str) and len(cell) >= _LEAST_TEXT:
        yield cell
