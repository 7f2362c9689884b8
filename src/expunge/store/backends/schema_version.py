"""The version of the tables: a new database gets them all, and a store with another version is refused.

There is one version so far, so nothing is migrated. A later version adds a function from this one to itself here, which
`prepare_schema` calls, in the caller's transaction, where it now refuses the older version.
"""

from __future__ import annotations

from sqlalchemy import Column, MetaData, Table, Text, insert, inspect, text

from expunge.errors import StoreError
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import metadata

__all__ = ["SCHEMA_VERSION", "check_schema", "prepare_schema", "schema_version"]

# Versions sort as text. Those below this one were never released.
SCHEMA_VERSION = "0011"

# Not part of `metadata`: a backup gets its own row when its tables are made.
_schema = Table("expunge_schema", MetaData(), Column("version", Text, primary_key=True))


def schema_version(connection: CheckedConnection) -> str | None:
    """The version of the tables in a database; None where there are none."""
    if not inspect(connection.connection).has_table(_schema.name):
        return None
    # The column had another name in earlier versions.
    found = connection.execute(text(f"SELECT * FROM {_schema.name}")).scalar()  # noqa: S608 — a constant
    return None if found is None else str(found)


def prepare_schema(connection: CheckedConnection) -> None:
    """Make the tables in a new database, inside the caller's transaction; refuse those of another version."""
    version = schema_version(connection)
    if version is None:
        metadata.create_all(connection.connection, checkfirst=False)
        _schema.create(connection.connection, checkfirst=False)
        connection.execute(insert(_schema), {"version": SCHEMA_VERSION})
    else:
        check_schema(version, "this store")


def check_schema(version: str | None, what: str) -> None:
    """Raise StoreError if tables of this version cannot be read, and say how to take their content over."""
    if version == SCHEMA_VERSION:
        return
    known = f"{what} has schema {version}, and this version of expunge reads {SCHEMA_VERSION}"
    if version is None or version > SCHEMA_VERSION:
        raise StoreError(f"{known}: use the version of expunge that wrote it")
    raise StoreError(
        f"{known}. Take its memories over in Python: with the version that wrote it, write each to a file, "
        'expunge.open(URL)["NAME"].save("NAME.memory"); with this one, read it with Memory.load("NAME.memory") '
        "and hand keys, values, ids, subjects and payloads to create() of a new store"
    )
