"""Copies of a store: a backup of every table, and the ledger as a text file.

A backup is a SQLite file with the same tables, whatever the store is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL, insert, select

from expunge.errors import StoreError, VerificationError
from expunge.ledger.merkle.tree import Frontier
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.schema_version import prepare_schema
from expunge.store.backends.sqlite import Sqlite
from expunge.store.backends.tables import metadata, secrets
from expunge.store.encryption import SECRET_BYTES
from expunge.store.ledger_tables import read_frontier, read_leaves

__all__ = ["export_ledger", "write_backup"]


def write_backup(connection: CheckedConnection, path: Path) -> None:
    """Copy a snapshot of every table to a new file."""
    if path.exists():
        raise StoreError(f"{path} exists; a backup is never overwritten")
    partial = path.with_name(path.name + ".partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None
    target = Sqlite(URL.create("sqlite", database=str(partial)), timeout=1.0)
    try:
        with target.writing("backup") as copy:
            prepare_schema(copy)
            for table in metadata.sorted_tables:
                wanted = select(table).order_by(*table.primary_key.columns)
                if table is secrets:
                    # SQLite keeps the rows of destroyed secrets, as zeros.
                    wanted = wanted.where(secrets.c.secret != bytes(SECRET_BYTES))
                for rows in connection.batches(wanted):
                    copy.execute(insert(table), [row._asdict() for row in rows])
            copy.commit()
        target.close()
        partial.replace(path)
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        target.engine.dispose()
        for leftover in (partial, *(Path(f"{partial}{end}") for end in ("-wal", "-shm"))):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)


def export_ledger(connection: CheckedConnection, path: Path) -> Frontier:
    """Write one envelope per line; return the frontier that they lead to."""
    frontier, written = read_frontier(connection), 0
    try:
        with path.open("xb") as file:
            for leaf in read_leaves(connection):
                file.write(leaf.envelope + b"\n")
                written += 1
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise StoreError(f"{path} exists; a ledger is never overwritten") from None
    except OSError as problem:
        # Half a ledger might be taken for a whole one, and what the other half says was erased would come back.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None
    if written != frontier.size:
        path.unlink(missing_ok=True)
        raise VerificationError(f"the ledger has {frontier.size} leaves, and {written} of them are left")
    return frontier
