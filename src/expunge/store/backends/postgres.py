"""PostgreSQL: many machines, one writer per memory by advisory lock, readers never waiting.

A deleted row stays in its page until VACUUM, and its bytes until the page is rewritten. `vacuum` therefore rewrites
the small tables that hold secrets and names, and leaves the encrypted content to the ordinary VACUUM. The server
samples no column that tells of entries; what it once sampled, `vacuum` removes. Secrets are sent as the data of a COPY,
which no setting of the server logs. What the write-ahead log, replicas and backups keep is beyond a client's reach:
``docs/guides/erasure-on-disk.md``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import URL, Connection, Select, bindparam, create_engine, delete, event, func, select, text
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, ProgrammingError
from sqlalchemy.pool import ConnectionPoolEntry

from expunge.errors import MissingExtra
from expunge.store.backends.database import (
    CheckedConnection,
    Database,
    VacuumResult,
    number_parameters,
    translate_errors,
)
from expunge.store.backends.postgres_scan import STATISTICS_TABLES, readable, stored_secrets, tables_with_secrets
from expunge.store.backends.tables import (
    cases,
    entries,
    erasures,
    forgotten,
    holds,
    jobs,
    ledger,
    memories,
    mirror_erasures,
    mirror_writes,
    mirrors,
    requests,
    secrets,
    states,
    tokens,
    unsampled_tables,
    waiting,
    without_statistics,
)

__all__ = ["Postgres"]

_DESTROY = delete(secrets).where(secrets.c.number == bindparam("number_"))
_LOCK = select(func.pg_advisory_xact_lock(bindparam("key")))
_COPY = f"COPY {secrets.name} (number, secret) FROM STDIN (FORMAT BINARY)"
_FILE = f"cast(pg_relation_filenode(to_regclass('{secrets.name}')) AS bigint)"
_NOTE_ERASED = text(
    f"INSERT INTO {waiting.name} (number, file, erased) VALUES (1, {_FILE}, :count) "  # noqa: S608 — constants
    "ON CONFLICT (number) DO UPDATE SET file = excluded.file, erased = excluded.erased + "
    f"CASE WHEN {waiting.name}.file = excluded.file THEN {waiting.name}.erased ELSE 0 END"
)
_ERASED = text(f"SELECT erased FROM {waiting.name} WHERE file = {_FILE}")  # noqa: S608 — constants
_STILL_WAITING = f"UPDATE {waiting.name} SET file = {_FILE}"  # noqa: S608
_NO_LONGER_WAITING = f"DELETE FROM {waiting.name} WHERE file <> {_FILE}"  # noqa: S608
_WAITING = "dead rows of the server's files hold the erased secrets until a vacuum by expunge has run"
# Those with dead rows that a vacuum removes, and does not write anew.
_OTHER_TABLES = (
    *(entries, forgotten, holds, cases, erasures, states, requests, jobs, ledger),
    *(mirrors, mirror_writes, mirror_erasures),
)
_TARGETS = text(
    "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped "
    "AND coalesce(attstattarget, -1) <> 0"
)
_SAMPLED = text(
    "SELECT attname FROM pg_stats s JOIN pg_class c ON c.relname = s.tablename "
    "JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = s.schemaname WHERE c.oid = to_regclass(:name)"
)


class Postgres(Database):
    """A store in a PostgreSQL database."""

    def __init__(self, url: URL, timeout: float) -> None:
        try:
            engine = create_engine(
                url.set(drivername="postgresql+psycopg"), hide_parameters=True, pool_pre_ping=True, pool_size=8
            )
        except (ModuleNotFoundError, NoSuchModuleError):
            raise MissingExtra("PostgreSQL needs psycopg: pip install 'expunge[postgres]'") from None
        milliseconds = max(1, round(1000 * timeout))

        def prepare(connection: Any, _: ConnectionPoolEntry) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SET lock_timeout = {milliseconds}")
                # A receipt is a promise: it is not given before the server has the edit on disk.
                if cursor.execute("SHOW synchronous_commit").fetchone()[0] in ("off", "local"):
                    cursor.execute("SET synchronous_commit = on")
            connection.commit()

        event.listen(engine, "connect", prepare)
        super().__init__(engine, timeout)
        self._autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")

    def read_row(self, query: Select[Any], parameters: dict[str, Any] | None = None) -> Any:
        """First row of one query by itself, in one round trip."""
        with translate_errors(), self._autocommit.connect() as connection:
            return CheckedConnection(connection).first(query, parameters)

    def _begin_snapshot(self, connection: Connection) -> None:
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def _begin_locked(self, connection: Connection, locks: Sequence[str]) -> None:
        # Whoever has waited for the lock sees what the one before has done, whatever the server's default.
        connection.execution_options(isolation_level="READ COMMITTED")
        for lock in locks:
            connection.execute(_LOCK, {"key": _lock_key(lock)})

    def destroy_secrets(self, connection: CheckedConnection, numbers: Sequence[int]) -> None:
        """Delete; `vacuum` removes what is left in the pages."""
        if numbers:
            connection.execute(_DESTROY, number_parameters(numbers))
            # The table is locked against a vacuum until the commit, so this is the file with the dead rows.
            connection.execute(_NOTE_ERASED, {"count": len(numbers)})

    def finish_erasure(self, connection: CheckedConnection) -> str | None:
        """Nothing: dead rows are left to `vacuum`."""
        return _WAITING

    def retry_erasures(self) -> None:
        """Nothing: rewriting tables takes locks, and is left to `vacuum`."""

    def waiting(self) -> tuple[int, str | None]:
        """Secrets that were erased, by whatever process, since the file that holds them was last written anew."""
        with translate_errors(), self._autocommit.connect() as connection:
            count = connection.execute(_ERASED).scalar() or 0
        return count, _WAITING if count else None

    def insert_secrets(self, connection: CheckedConnection, new: Mapping[int, bytes]) -> None:
        """Write secrets by COPY in its binary format: unlike parameters, the server logs its data in no setting."""
        if not new:
            return
        driver: Any = connection.connection.connection.driver_connection
        try:
            with driver.cursor() as cursor, cursor.copy(_COPY) as copy:
                copy.set_types(["int8", "bytea"])
                for row in sorted(new.items()):
                    copy.write_row(row)
        except driver.Error as problem:
            raise DBAPIError.instance(_COPY, None, problem, driver.Error) from problem

    def vacuum(self) -> VacuumResult:
        """Rewrite the tables of secrets and names and the server's statistics, and search their files for secrets."""
        remains = ["write-ahead log segments, replicas, archives and backups of the server"]
        with translate_errors(), self._autocommit.connect() as connection:
            checkpointed = _checkpoint(connection)
            # Files that the server has not written may still be what they were before.
            scanned = checkpointed and readable(connection)
            before = stored_secrets(connection) if scanned else set()
            remove_statistics(connection)
            clean = _rewrite(connection, secrets.name) is True
            connection.exec_driver_sql(_NO_LONGER_WAITING if clean else _STILL_WAITING)
            for table in (memories, tokens):
                clean &= _rewrite(connection, table.name) is True
            if not clean:
                # What an older transaction may still see is carried over to the new file.
                remains.append("secrets that an older transaction on the server still sees: end it, and vacuum again")
            # Samples that were taken before are in dead rows of the catalogue.
            rewritten = [_rewrite(connection, name) for name in STATISTICS_TABLES]
            if None in rewritten:
                remains.append(
                    "samples in pg_statistic, if a version of expunge before this one made the store: this role may "
                    "not rewrite that table; the owner of the database may"
                )
            elif False in rewritten:
                remains.append("samples in pg_statistic that an older transaction sees: end it, and vacuum again")
            for table in _OTHER_TABLES:
                connection.exec_driver_sql(f"VACUUM (ANALYZE) {table.name}")
            checkpointed = _checkpoint(connection) and checkpointed
            if scanned:
                kept = set(connection.execute(select(secrets.c.secret)).scalars())
                if found := tables_with_secrets(connection, kept, before - kept):
                    remains.append(f"secrets in files where none should be, of {', '.join(found)}")
                    clean = False
        return VacuumResult(checkpointed and clean and all(rewritten), False, "; ".join(reversed(remains)), scanned)

    def integrity_errors(self) -> list[str]:
        """PostgreSQL has no check of its own that a client could ask for."""
        return []


def _lock_key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(b"expunge/lock/v1\n" + name.encode()).digest()[:8], "big", signed=True)


def remove_statistics(connection: Connection) -> None:
    """Make sure that no column of `unsampled_tables` is sampled, and remove the samples that there are."""
    for table in unsampled_tables:
        if connection.execute(_TARGETS, {"name": table.name}).scalar():
            connection.exec_driver_sql(without_statistics(table))
        for column in connection.execute(_SAMPLED, {"name": table.name}).scalars().all():
            # Setting the type of a column, if only to the type that it has, removes what was sampled of it.
            kind = table.columns[column].type.compile(connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ALTER COLUMN {column} TYPE {kind}")


def _checkpoint(connection: Connection) -> bool:
    """Ask for a checkpoint; False where this role may not."""
    try:
        connection.exec_driver_sql("CHECKPOINT")
    except ProgrammingError:
        return False
    return True


def _rewrite(connection: Connection, name: str) -> bool | None:
    """Write a table anew: True if nothing of dead rows is left, False if some are, None where this role may not."""
    details: list[str] = []

    def handle(notice: Any) -> None:
        details.append(notice.message_detail or "")

    driver: Any = connection.connection.driver_connection
    driver.add_notice_handler(handle)
    try:
        connection.exec_driver_sql(f"VACUUM (FULL, VERBOSE, ANALYZE) {name}")
    finally:
        driver.remove_notice_handler(handle)
    # In whatever language, the first number of a detail is that of the dead rows that it left.
    counts = [found.group() for detail in details if (found := re.search(r"[0-9]+", detail))]
    return counts[0] == "0" if counts else None
