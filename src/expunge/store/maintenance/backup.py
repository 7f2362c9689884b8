"""Copies of a store: a backup of every table, and the ledger as a text file.

A backup is a SQLite file with the same tables, whatever the store is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
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
    """Copy a snapshot of every table to a new file. Nothing is overwritten, and no link is followed.

    The copy is made in a folder that only this user can enter, because SQLite opens files by their names.
    """
    if path.is_symlink() or path.exists():
        raise StoreError(f"{path} exists; a backup is never overwritten")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            made = Path(folder) / "backup.db"
            target = Sqlite(URL.create("sqlite", database=str(made)), timeout=1.0)
            try:
                with target.writing("backup") as copy:
                    prepare_schema(copy)
                    copy_tables(connection, copy)
                    _leave_out_ids(copy)
                    copy.commit()
            finally:
                target.close()
            _publish(made, path)
    except FileExistsError:
        raise StoreError(f"{path} exists; a backup is never overwritten") from None
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror or problem}") from None


def _publish(made: Path, path: Path) -> None:
    """Give a finished file its name. FileExistsError where anything has that name by now, a link as well."""
    with made.open("rb") as source:
        os.fsync(source.fileno())
        try:
            os.link(made, path)
        except FileExistsError:
            raise
        except OSError:
            # This file system has no hard links.
            with new_file(path, mode=0o600) as file:
                shutil.copyfileobj(source, file, 1 << 20)


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
