"""Copies of every table: into another database, or into the memory of this process.

What takes long works on a copy in memory, because a transaction that stays open keeps erased secrets in the database's
files: SQLite cannot truncate its write-ahead log, and PostgreSQL cannot remove dead rows. The copy is never written to
a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import StaticPool, create_engine, insert, select
from sqlalchemy.exc import IntegrityError

from expunge.errors import VerificationError
from expunge.store.backends.database import CheckedConnection, Database, translate_errors
from expunge.store.backends.tables import metadata

__all__ = ["copy_tables", "snapshot_in_memory"]


def copy_tables(source: CheckedConnection, target: CheckedConnection) -> None:
    """Copy every row of every table; a value of another type than its column's is found on the way."""
    for table in metadata.sorted_tables:
        for rows in source.batches(select(table).order_by(*table.primary_key.columns)):
            target.execute(insert(table), [row._asdict() for row in rows])


@contextmanager
def snapshot_in_memory(database: Database) -> Iterator[CheckedConnection]:
    """One state of the database, to be read for as long as it takes; no transaction is open on the database itself."""
    engine = create_engine("sqlite://", poolclass=StaticPool, hide_parameters=True)
    try:
        with translate_errors(), engine.connect() as connection:
            metadata.create_all(connection)
            copy = CheckedConnection(connection)
            try:
                with database.reading() as source:
                    copy_tables(source, copy)
            except IntegrityError:
                raise VerificationError("rows of the store contradict each other: they were altered") from None
            yield copy
    finally:
        engine.dispose()
