"""What PostgreSQL keeps of deleted rows, and how far a client can make it let go.

A deleted row stays in the table's file until a vacuum, in the indexes, in the statistics that the planner samples, and
in the write-ahead log until its files have been written over. It needs a role that may do so (a superuser, or the
table's owner with ``pg_checkpoint``); what it may not do a search of the files finds. Replicas, archives of the log and
base backups are out of reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

__all__ = ["database_files", "reclaim_tables"]

# How many files of the log are gone through at most: of 16 MB each.
_MOST_LOG_FILES = 24
_COLUMNS = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""


def reclaim_tables(connection: psycopg.Connection[Any], tables: Iterable[sql.Identifier]) -> None:
    """Rewrite tables, their indexes and the statistics; go through the files of the write-ahead log."""
    for table in tables:
        connection.execute(sql.SQL("VACUUM (FULL, ANALYZE) {}").format(table))
        _remove_statistics_if_empty(connection, table)
    for statement in ("VACUUM FULL pg_catalog.pg_statistic", "CHECKPOINT"):
        _if_allowed(connection, statement)
    files = _if_allowed(connection, "SELECT count(*) FROM pg_ls_waldir()")
    for _ in range(min(int(files or 0) + 2, _MOST_LOG_FILES)):
        _if_allowed(connection, "SELECT txid_current()")
        _if_allowed(connection, "SELECT pg_switch_wal()")
        _if_allowed(connection, "CHECKPOINT")


def _remove_statistics_if_empty(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Remove what was sampled of a table without rows: an analysis of it leaves the samples of its last rows."""
    if connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(table)).fetchone() is None:
        for column, kind in connection.execute(_COLUMNS, [table.as_string(connection)]).fetchall():
            # Setting the type of a column, if only to the type that it has, removes what was sampled of it.
            change = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE {}")
            connection.execute(change.format(table, sql.Identifier(column), sql.SQL(kind)))


def database_files(connection: psycopg.Connection[Any], *, flush: bool = True) -> list[Path] | None:
    """Files of the database and of the log, which the server writes first; None where this process cannot read them."""
    if flush:
        _if_allowed(connection, "CHECKPOINT")
    folder = _if_allowed(connection, "SELECT current_setting('data_directory')")
    number = _if_allowed(connection, "SELECT oid FROM pg_database WHERE datname = current_database()")
    try:
        places = [Path(str(folder)) / "base" / str(number), Path(str(folder)) / "pg_wal"]
        if folder is None or not all(any(place.iterdir()) for place in places):
            return None
    except OSError:
        return None
    return sorted(path for place in places for path in place.rglob("*") if path.is_file())


def _if_allowed(connection: psycopg.Connection[Any], statement: Any) -> Any:
    """The first value of a statement; None where the role may not do it."""
    try:
        cursor = connection.execute(statement)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction):
        return None
    row = cursor.fetchone() if cursor.description else None
    return None if row is None else row[0]
