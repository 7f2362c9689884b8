"""Any SQLite file, to be scanned: its rows are what it answers with, its file and logs are its raw bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar, NoReturn

from expunge.errors import InputError, StoreError
from expunge.mirrors.mirror import Copy, Mirror

__all__ = ["SqliteFile"]


class SqliteFile(Mirror):
    """Every row of every table, opened for reading only."""

    kind: ClassVar[str] = "sqlite"
    written: ClassVar[bool] = False

    def write(self, copies: Sequence[Copy]) -> NoReturn:
        """Nothing is written to a file whose tables nobody has described."""
        raise InputError("an SQLite file is scanned only; nothing is written to it", code="mirror-unknown")

    def delete(self, ids: Sequence[str]) -> NoReturn:
        """Nothing is deleted either."""
        raise InputError("an SQLite file is scanned only; nothing is deleted from it", code="mirror-unknown")

    def read(self, ids: Sequence[str]) -> list[Copy]:
        """Rows by table and row number."""
        wanted = set(ids)
        return [copy for copy in self.entries() if copy.id in wanted]

    def entries(self) -> Iterator[Copy]:
        """Rows of the tables, and not of the shadow tables of an index, whose rows are no answer."""
        with closing(self._connect()) as connection:
            tables = "SELECT name FROM pragma_table_list WHERE type IN ('table', 'virtual') AND schema = 'main'"
            for (table,) in connection.execute(tables).fetchall():
                quoted = '"' + table.replace('"', '""') + '"'
                for number, row in enumerate(connection.execute(f"SELECT * FROM {quoted}")):  # noqa: S608 — a quoted name
                    texts = [str(value) for value in row if isinstance(value, str | int | float)]
                    raw = tuple(value for value in row if isinstance(value, bytes))
                    yield Copy(f"{table}:{number}", None, "\n".join(texts), raw=raw)

    def count(self) -> int:
        """Number of rows."""
        return sum(1 for _ in self.entries())

    def reclaim(self) -> None:
        """Nothing is changed."""

    def files(self) -> list[Path] | None:
        """The file, its write-ahead log and its journal."""
        file = self.address.folder
        beside = [file.with_name(file.name + ending) for ending in ("-wal", "-journal")]
        return [path for path in (file, *beside) if path.exists()]

    def close(self) -> None:
        """Nothing is open."""

    def _connect(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(f"file:{self.address.folder}?mode=ro", uri=True)
        except sqlite3.Error as problem:
            raise StoreError(f"{self.address.folder} does not open: {problem}", code="mirror-down") from None
