"""SQLite: one file, write-ahead log, one writer at a time.

`secure_delete` zeroes what is deleted but leaves copies of cells that a page split or merge has moved. Secrets are
therefore kept in a small table of their own, and an erasure writes that table anew: emptying a table frees its pages
whole, and a freed page is zeroed. So nothing tells how many secrets there were. Truncating the write-ahead log to
nothing afterwards removes the older versions of the pages. Before that, free pages are cut off the file
(`incremental_vacuum`), because their number tells how large the erased content was.
"""

from __future__ import annotations

import logging
import os
import random
import re
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, bindparam, create_engine, delete, event, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from expunge.errors import Busy, InputError, StoreError
from expunge.store.backends.database import (
    CheckedConnection,
    Database,
    VacuumResult,
    number_parameters,
    translate_errors,
)
from expunge.store.backends.secret_search import CHUNK, WINDOWS, count_windows, file_chunks, windows_of
from expunge.store.backends.tables import secrets
from expunge.store.encryption import SECRET_BYTES

__all__ = ["Sqlite"]

log = logging.getLogger("expunge")

_PRAGMAS = (
    "synchronous = FULL",
    "secure_delete = ON",
    "foreign_keys = ON",
    # Nothing of an edit that is rolled back may reach a file before the commit.
    "cache_spill = OFF",
    "temp_store = MEMORY",
    "trusted_schema = OFF",
)

_CUT_FREE_PAGES = "PRAGMA auto_vacuum = INCREMENTAL"

# SQLite's own waiting backs off to a tenth of a second; short waits and our own loop take turns more fairly.
_BUSY_WAIT = 0.02

# How long an erasure waits for readers of the old log. What is left then goes with the next edit, or at close.
_TRUNCATE_WAIT = 2.0
_WAITING = "a reader holds the write-ahead log, and so the erased secrets, until it ends and the store is edited again"

_DESTROY = delete(secrets).where(secrets.c.number == bindparam("number_"))
# Without a condition DELETE frees the pages of a table whole. What is inserted in order fills one page after another.
_WRITE_ANEW = (
    "CREATE TEMP TABLE expunge_kept AS SELECT number, secret FROM expunge_secrets",
    "DELETE FROM expunge_secrets",
    "INSERT INTO expunge_secrets (number, secret) SELECT number, secret FROM expunge_kept ORDER BY number",
    "DROP TABLE expunge_kept",
)


# A row of secrets in a page: its length, its number (1 to 9 bytes, all but the last above 0x7f), a header of three
# bytes that says no value for the number and 32 bytes for the secret, the secret.
_ROW = re.compile(
    bytes([3 + SECRET_BYTES])
    + rb"(?:[\x80-\xff]{8}.|[\x80-\xff]{0,7}[\x00-\x7f])"
    + bytes([3, 0, 12 + 2 * SECRET_BYTES])
    + b"(?=(.{%d}))" % SECRET_BYTES,
    re.DOTALL,
)


class Sqlite(Database):
    """A store in one file."""

    one_writer = True

    def __init__(self, url: URL, timeout: float) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise InputError("a SQLite store needs a file, as in sqlite:///ward.db")
        self.path = Path(url.database)
        if not self.path.parent.is_dir():
            raise StoreError(f"there is no folder {self.path.parent} to keep {self.path.name} in")
        # What it holds is content: nobody else's to read. SQLite gives its other files the same mode.
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except OSError as problem:
            raise StoreError(
                f"cannot make {self.path}: {problem.strerror or problem}; name a file in a folder that you can write to"
            ) from None
        engine = create_engine(url, connect_args={"timeout": _BUSY_WAIT}, hide_parameters=True)
        event.listen(engine, "connect", _prepare)
        super().__init__(engine, timeout)
        # Erasures by this process whose traces are in the write-ahead log, since a reader was in the way.
        self._waiting = 0
        # Whether to try again: for these, or for what a process that died may have left.
        self._truncation_due = False

    def _begin_snapshot(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    def _begin_locked(self, connection: Connection, locks: Sequence[str]) -> None:
        if self._truncation_due:
            self._try_truncate(connection)
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except DBAPIError as problem:
                connection.rollback()
                if not getattr(problem.orig, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                    raise
            if time.monotonic() > deadline:
                raise Busy(f"another writer held {self.path.name} for {self.timeout:g} s; nothing was done, try again")
            time.sleep(_BUSY_WAIT * random.random() / 4)

    def destroy_secrets(self, connection: CheckedConnection, numbers: Sequence[int]) -> None:
        """Delete, and write the table anew: no page that has held one of them is left as it was."""
        if numbers:
            connection.execute(_DESTROY, number_parameters(numbers))
            for statement in _WRITE_ANEW:
                connection.connection.exec_driver_sql(statement)

    def finish_erasure(self, connection: CheckedConnection) -> str | None:
        """Cut free pages off, copy the write-ahead log into the file and truncate it to nothing."""
        if self._truncated_in_time(connection.connection):
            return None
        self._waiting += 1
        log.warning("erased secrets are still in the write-ahead log of %s: %s", self.path.name, _WAITING)
        return _WAITING

    def retry_erasures(self) -> None:
        """Truncate the write-ahead log, if an erasure waits for it and nobody is using it."""
        if self._truncation_due:
            self.recover()

    def waiting(self) -> tuple[int, str | None]:
        """Erasures by this process that a reader keeps from being finished."""
        return self._waiting, _WAITING if self._waiting else None

    def recover(self) -> None:
        """Truncate the write-ahead log, if nobody is using it: a process may have died between a commit and this."""
        with translate_errors(), self.engine.connect() as connection:
            self._try_truncate(connection)

    def _truncated_in_time(self, connection: Connection) -> bool:
        deadline = time.monotonic() + _TRUNCATE_WAIT
        while not self._try_truncate(connection):
            if time.monotonic() > deadline:
                return False
            time.sleep(_BUSY_WAIT * random.random())
        return True

    def close(self) -> None:
        """Truncate the write-ahead log, if nobody is using it, and give every connection back."""
        try:
            self.recover()
        finally:
            super().close()

    def vacuum(self) -> VacuumResult:
        """Rewrite the file without free pages, truncate the write-ahead log, and search both files for secrets."""
        before = self._stored_secrets()
        with translate_errors(), self.engine.connect() as connection:
            # For a file that was made without.
            connection.exec_driver_sql(_CUT_FREE_PAGES)
            connection.exec_driver_sql("VACUUM")
            truncated = self._truncated_in_time(connection)
        remains = ["blocks that the file system freed, and copies of the file made elsewhere"]
        if not truncated:
            remains.append("what was erased, while a reader keeps the old state: end it, and vacuum again")
        # Nobody writes to the files meanwhile.
        with self.writing("vacuum") as locked:
            kept = set(locked.values(select(secrets.c.secret)))
            left, copies = windows_of(before - kept), windows_of(kept)
            if any(count_windows(data, left) for path in self._files for data in file_chunks(path)):
                remains.append("erased secrets in the files")
            # What is in the log may be in the file as well.
            if not self._log_size and sum(
                count_windows(data, copies, CHUNK) for data in file_chunks(self.path)
            ) > WINDOWS * len(kept):
                remains.append("secrets that are in the file more than once, so that a copy may outlive its erasure")
        # What was rewritten is in the log until that is truncated.
        clean = truncated and len(remains) == 1
        return VacuumResult(clean, truncated, "; ".join(reversed(remains)), scanned=True)

    @property
    def _files(self) -> tuple[Path, Path]:
        return self.path, Path(f"{self.path}-wal")

    @property
    def _log_size(self) -> int:
        return self._files[1].stat().st_size if self._files[1].exists() else 0

    def _stored_secrets(self) -> set[bytes]:
        """Whatever looks like a row of the table of secrets in the raw files, whether it counts or not."""
        parts = (data for path in self._files for data in file_chunks(path))
        return {found.group(1) for data in parts for found in _ROW.finditer(data)}

    def integrity_errors(self) -> list[str]:
        """PRAGMA integrity_check and foreign_key_check."""
        with self.reading() as connection:
            found = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check"))]
            strays = [str(row[0]) for row in connection.execute(text("PRAGMA foreign_key_check"))]
        return [line for line in found if line != "ok"] + [f"a row of {name} refers to nothing" for name in strays]

    def _try_truncate(self, connection: Connection) -> bool:
        """Try once. A failure leaves a committed edit as it is, and its traces for the next try."""
        self._truncation_due = True
        try:
            if connection.exec_driver_sql("PRAGMA freelist_count").scalar():
                # One page goes with each step of the statement, and only a script is run through all of them.
                with closing(connection.connection.cursor()) as cursor:
                    cursor.executescript("PRAGMA incremental_vacuum")
            row = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").first()
        except (DBAPIError, sqlite3.Error) as problem:
            reason = problem.orig if isinstance(problem, DBAPIError) else problem
            log.warning("the write-ahead log of %s could not be truncated: %s", self.path.name, reason)
            return False
        finally:
            connection.rollback()
        if row is None or row[0] != 0:
            return False
        self._truncation_due, self._waiting = False, 0
        return True


def _prepare(connection: Any, _: ConnectionPoolEntry) -> None:
    """Transactions are begun by hand, and every connection has the same settings."""
    connection.isolation_level = None
    cursor = connection.cursor()
    # Set before the first page is written, which a change of the journal does. In other files it would take the lock.
    if cursor.execute("PRAGMA page_count").fetchone()[0] == 0:
        cursor.execute(_CUT_FREE_PAGES)
    mode = cursor.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"the file system does not support SQLite's write-ahead log (journal mode {mode})")
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
