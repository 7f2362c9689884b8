"""Reading a PostgreSQL server's files through SQL, to search them for secrets that should not be there.

Only a superuser, or a role with the right to execute `pg_read_binary_file`, can do this. Searched are the files of the
store's tables and of the server's statistics, with their overflow tables and indexes. The file of the table of secrets
is read twice: before a vacuum it tells which secrets are in dead rows, and afterwards these must be in no file, and the
live ones in no other file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from expunge.store.backends.tables import metadata, secrets
from expunge.store.encryption import SECRET_BYTES
from expunge.types import AnyArray

__all__ = ["STATISTICS_TABLES", "readable", "stored_secrets", "tables_with_secrets"]

STATISTICS_TABLES = ("pg_catalog.pg_statistic", "pg_catalog.pg_statistic_ext_data")

_CHUNK = 8 << 20
_WINDOW = 8
_PAGE = 8192
# A row of the table: a header of 24 bytes, the number, and behind the byte of its length the secret.
_HEADER, _NUMBER = 24, 8
_LENGTH = bytes([(SECRET_BYTES + 1) << 1 | 1])

_RELATIONS = text(
    """
    WITH roots AS (
        SELECT c.oid, c.reltoastrelid, c.relname FROM pg_class c
        WHERE c.oid IN (SELECT to_regclass(name)::oid FROM unnest(cast(:names AS text[])) AS name)
    ), heaps AS (
        SELECT oid, relname AS owner FROM roots
        UNION SELECT reltoastrelid, relname FROM roots WHERE reltoastrelid <> 0
    ), relations AS (
        SELECT oid, owner FROM heaps
        UNION SELECT i.indexrelid, h.owner FROM pg_index i JOIN heaps h ON h.oid = i.indrelid
    )
    SELECT r.owner, c.relname AS name, pg_relation_filepath(r.oid) AS path
    FROM relations r JOIN pg_class c ON c.oid = r.oid ORDER BY r.owner, c.relname
    """
)
_SIZE = text("SELECT size FROM pg_stat_file(:path, true)")
_READ = text("SELECT pg_read_binary_file(:path, :start, :length, true)")
_NAMES = [table.name for table in metadata.sorted_tables] + list(STATISTICS_TABLES)


def readable(connection: Connection) -> bool:
    """Whether the server lets this role read its files."""
    try:
        connection.execute(_READ, {"path": "PG_VERSION", "start": 0, "length": 1})
        connection.execute(_SIZE, {"path": "PG_VERSION"})
    except ProgrammingError:
        return False
    return True


def stored_secrets(connection: Connection) -> set[bytes]:
    """Secrets in the file of their table, in live rows and in dead ones; a checkpoint must have written the file."""
    row = re.compile(re.escape(_LENGTH) + b"(.{%d})" % SECRET_BYTES, re.DOTALL)
    found: set[bytes] = set()
    for relation in _relations(connection):
        if relation.name != secrets.name:
            continue
        for data in _chunks(connection, relation.path):
            for start in range(_HEADER + _NUMBER, len(data) - SECRET_BYTES, 8):
                # Rows begin at multiples of eight; two columns, and no more in the header than it always has.
                head = start - _HEADER - _NUMBER
                if data[head + 22] == _HEADER and data[head + 18] == 2 and (match := row.match(data, start)):
                    found.add(match.group(1))
    return found


def tables_with_secrets(connection: Connection, kept: set[bytes], gone: set[bytes]) -> list[str]:
    """Names of the tables whose files hold a secret that is gone, or a copy of one that is kept."""
    in_own, elsewhere, found = _windows(gone), _windows(gone | kept), set()
    for relation in _relations(connection):
        windows = in_own if relation.name == secrets.name else elsewhere
        if any(_contains(data, windows) for data in _chunks(connection, relation.path)):
            found.add(relation.owner)
    return sorted(found)


def _relations(connection: Connection) -> list[Any]:
    """The tables with their overflow tables and indexes: the name of the table, that of the relation, and its path."""
    return [row for row in connection.execute(_RELATIONS, {"names": _NAMES}).all() if row.path is not None]


def _chunks(connection: Connection, path: str) -> Iterator[bytes]:
    """The content of a relation's files in parts; parts overlap, so that none cuts a window."""
    segment = 0
    while (size := connection.execute(_SIZE, {"path": f"{path}.{segment}" if segment else path}).scalar()) is not None:
        for start in range(0, size, _CHUNK):
            length = _CHUNK + (_PAGE if start + _CHUNK < size else 0)
            place = {"path": f"{path}.{segment}" if segment else path, "start": start, "length": length}
            data = connection.execute(_READ, place).scalar()
            if data:
                yield bytes(data)
        segment += 1


def _windows(wanted: set[bytes]) -> AnyArray:
    return np.unique(np.frombuffer(b"".join(sorted(wanted)), dtype="<u8"))


def _contains(data: bytes, windows: AnyArray) -> bool:
    """Whether eight aligned bytes of a secret are anywhere in the data."""
    if not windows.size:
        return False
    for shift in range(_WINDOW):
        count = (len(data) - shift) // _WINDOW
        if count > 0 and np.isin(np.frombuffer(data, dtype="<u8", count=count, offset=shift), windows).any():
            return True
    return False
