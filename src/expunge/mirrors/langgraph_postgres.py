"""Threads of `PostgresSaver` and `AsyncPostgresSaver`; what stays of their rows is told in `postgres_files`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from expunge.errors import StoreError
from expunge.mirrors.address import Address
from expunge.mirrors.langgraph_threads import ThreadTables
from expunge.mirrors.postgres_files import database_files, reclaim_tables

__all__ = ["PostgresThreads"]

_READERS = """SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()"""


class PostgresThreads(ThreadTables):
    """The tables in the schema that the connection finds first."""

    kind: ClassVar[str] = "langgraph-postgres"
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "checkpoints": ("checkpoint_id", "checkpoint", "metadata"),
        "checkpoint_blobs": ("blob",),
        "checkpoint_writes": ("checkpoint_id", "task_id", "blob"),
    }

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._busy = False

    @property
    def busy(self) -> bool:
        """Whether a transaction was open that may see rows which were deleted since; a vacuum keeps these."""
        return self._busy

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement."""
        with self._connected() as connection:
            # Parameters stand as in SQLite; none of the statements has a question mark of its own.
            cursor = connection.execute(statement.replace("?", "%s").encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def reclaim(self) -> None:
        """Rewrite the tables, their indexes and the statistics; go through the files of the write-ahead log."""
        tables = [sql.Identifier(table) for table in self.present()]
        with self._connected() as connection:
            self._busy = bool(connection.execute(_READERS).fetchall())
            reclaim_tables(connection, tables)

    def files(self) -> list[Path] | None:
        """Files of the database and of the log, where this process may read them."""
        with self._connected() as connection:
            return database_files(connection)

    def close(self) -> None:
        """Nothing is open."""

    def _existing(self) -> set[str]:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        return {name for (name,) in self.run(tables)}

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(self.address.url, autocommit=True, connect_timeout=10) as connection:
                yield connection
        except psycopg.Error as problem:
            raise StoreError(f"PostgreSQL does not answer: {str(problem).strip()}", code="mirror-down") from problem
