"""Copies of a store: a backup of every table, and the ledger as a text file.

A backup is a SQLite file with the same tables, whatever the store is.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, delete, select

from expunge.errors import StoreError, VerificationError
from expunge.ledger.file_writing import new_file
from expunge.ledger.merkle.tree import Frontier
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.schema_version import prepare_schema
from expunge.store.backends.sqlite import Sqlite
from expunge.store.backends.tables import mirror_erasures, secrets
from expunge.store.ledger_tables import read_frontier, read_leaves
from expunge.store.maintenance.snapshot import copy_tables

__all__ = ["export_ledger", "write_backup"]


def write_backup(connection: CheckedConnection, path: Path) -> None:
    """Copy a snapshot of every table to a new file."""
    if path.exists():
        raise StoreError(f"{path} exists; a backup is never overwritten")
    with new_file(path, replace=True, mode=0o600) as file:
        target = Sqlite(URL.create("sqlite", database=file.name), timeout=1.0)
        try:
            with target.writing("backup") as copy:
                prepare_schema(copy)
                copy_tables(connection, copy)
                _leave_out_ids(copy)
                copy.commit()
        finally:
            target.close()
            for suffix in ("-wal", "-shm"):
                Path(f"{file.name}{suffix}").unlink(missing_ok=True)


def _leave_out_ids(copy: CheckedConnection) -> None:
    """Take the ids of erased entries out that mirrors are still to lose: a restored store has no mirrors."""
    waiting = copy.values(select(mirror_erasures.c.number))
    copy.execute(delete(mirror_erasures))
    for number in waiting:
        copy.execute(delete(secrets).where(secrets.c.number == number))


def export_ledger(connection: CheckedConnection, path: Path) -> Frontier:
    """Write one envelope per line; return the frontier that they lead to."""
    frontier, written = read_frontier(connection), 0
    try:
        # Half a ledger might be taken for a whole one, and what the other half says was erased would come back.
        with new_file(path) as file:
            for leaf in read_leaves(connection):
                file.write(leaf.envelope + b"\n")
                written += 1
            if written != frontier.size:
                raise VerificationError(f"the ledger has {frontier.size} leaves, and {written} of them are left")
    except FileExistsError:
        raise StoreError(f"{path} exists; a ledger is never overwritten") from None
    return frontier
