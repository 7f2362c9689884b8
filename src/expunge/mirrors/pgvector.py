"""A table with a pgvector column in PostgreSQL.

What stays of a deleted row, and how far `reclaim` gets, is told in :mod:`expunge.mirrors.postgres_files`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from expunge.errors import StoreError
from expunge.mirrors.address import Address
from expunge.mirrors.mirror import Copy, Mirror, split_tag
from expunge.mirrors.postgres_files import database_files, reclaim_tables

__all__ = ["PgvectorMirror"]


class PgvectorMirror(Mirror):
    """A table by its name, made with the extension where it is not there."""

    kind: ClassVar[str] = "pgvector"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._connection: psycopg.Connection[Any] | None = None
        names = {"id": "id", "vector": "embedding", "text": "document", "metadata": "metadata"}
        self._names = {name: sql.Identifier(address.option(name, column)) for name, column in names.items()}
        self._names["table"] = sql.Identifier(*address.collection.split("."))

    def write(self, copies: Sequence[Copy]) -> None:
        """Insert or replace rows."""
        with self._connected() as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            self._run(
                connection,
                "CREATE TABLE IF NOT EXISTS {table} "
                "({id} text PRIMARY KEY, {vector} vector, {text} text, {metadata} jsonb)",
            )
            statement = self._statement(
                "INSERT INTO {table} ({id}, {vector}, {text}, {metadata}) VALUES (%s, %s::vector, %s, %s::jsonb) "
                "ON CONFLICT ({id}) DO UPDATE SET {vector} = EXCLUDED.{vector}, {text} = EXCLUDED.{text}, "
                "{metadata} = EXCLUDED.{metadata}"
            )
            rows = [(copy.id, str(copy.coordinates), copy.text, json.dumps(copy.tagged)) for copy in copies]
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(statement, rows)

    def read(self, ids: Sequence[str]) -> list[Copy]:
        """Rows by id."""
        return list(self._select("WHERE {id} = ANY(%s)", [list(ids)]))

    def entries(self) -> Iterator[Copy]:
        """Every row."""
        yield from self._select("", [])

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows."""
        with self._connected() as connection:
            if ids and self._is_there(connection):
                self._run(connection, "DELETE FROM {table} WHERE {id} = ANY(%s)", [list(ids)])

    def count(self) -> int:
        """Number of rows."""
        with self._connected() as connection:
            if not self._is_there(connection):
                return 0
            row = self._run(connection, "SELECT count(*) FROM {table}").fetchone()
            return 0 if row is None else int(row[0])

    def reclaim(self) -> None:
        """Rewrite the table, its indexes and the statistics; go through the files of the write-ahead log."""
        with self._connected() as connection:
            if not self._is_there(connection):
                return
            reclaim_tables(connection, [self._names["table"]])

    def files(self) -> list[Path] | None:
        """Files of the database and of the log, where this process may read them."""
        with self._connected() as connection:
            return database_files(connection, flush=not self.read_only)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _select(self, where: str, parameters: list[Any]) -> Iterator[Copy]:
        with self._connected() as connection:
            if not self._is_there(connection):
                return
            columns = "SELECT {id}::text, {vector}::text, {text}, {metadata} FROM {table} "
            for name, vector, document, metadata in self._run(connection, columns + where, parameters):
                own, tag = split_tag(metadata)
                yield Copy(name, None if vector is None else json.loads(vector), document, own, tag)

    def _is_there(self, connection: psycopg.Connection[Any]) -> bool:
        found = connection.execute("SELECT to_regclass(%s)", [self._names["table"].as_string(connection)]).fetchone()
        return found is not None and found[0] is not None

    def _run(self, connection: psycopg.Connection[Any], text: Any, parameters: list[Any] | None = None) -> Any:
        return connection.execute(self._statement(text), parameters)

    def _statement(self, text: Any) -> sql.Composed:
        return sql.SQL(text).format(**self._names)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self.address.url, autocommit=True, connect_timeout=10)
                if self.read_only:
                    self._connection.execute("SET default_transaction_read_only = on")
            yield self._connection
        except psycopg.Error as problem:
            raise StoreError(f"PostgreSQL does not answer: {str(problem).strip()}", code="mirror-down") from problem
