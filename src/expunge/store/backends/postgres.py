"""PostgreSQL: many machines, one writer per memory by advisory lock, readers never waiting.

A deleted row stays in its page until VACUUM, and its bytes until the page is rewritten. `vacuum` therefore rewrites
the one small table that holds secrets, and leaves the encrypted content to the ordinary VACUUM. What the server's own
log, its replicas and its backups keep is beyond a client's reach: ``docs/guides/erasure-on-disk.md``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import URL, Connection, Select, bindparam, create_engine, delete, event, func, select
from sqlalchemy.exc import NoSuchModuleError, ProgrammingError
from sqlalchemy.pool import ConnectionPoolEntry

from expunge.errors import MissingExtra
from expunge.store.backends.database import (
    CheckedConnection,
    Database,
    VacuumResult,
    number_parameters,
    translate_errors,
)
from expunge.store.backends.tables import entries, forgotten, holds, ledger, memories, requests, secrets, states

__all__ = ["Postgres"]

_DESTROY = delete(secrets).where(secrets.c.number == bindparam("number_"))
_LOCK = select(func.pg_advisory_xact_lock(bindparam("key")))


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

    def read_row(self, query: Select[Any]) -> Any:
        """First row of one query by itself, in one round trip."""
        with translate_errors(), self._autocommit.connect() as connection:
            return CheckedConnection(connection).first(query)

    def _begin_snapshot(self, connection: Connection) -> None:
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def _begin_locked(self, connection: Connection, lock: str) -> None:
        # Whoever has waited for the lock sees what the one before has done, whatever the server's default.
        connection.execution_options(isolation_level="READ COMMITTED")
        connection.execute(_LOCK, {"key": _lock_key(lock)})

    def destroy_secrets(self, connection: CheckedConnection, numbers: Sequence[int]) -> None:
        """Delete; `vacuum` removes what is left in the pages."""
        if numbers:
            connection.execute(_DESTROY, number_parameters(numbers))

    def truncate_log(self, connection: CheckedConnection) -> bool:
        """A client cannot truncate the server's log."""
        return True

    def vacuum(self) -> VacuumResult:
        """Rewrite the table of secrets, vacuum the others, and ask for a checkpoint where that is allowed."""
        notices: list[str] = []
        with translate_errors(), self._autocommit.connect() as connection:
            driver: Any = connection.connection.driver_connection
            handle = _notice_handler(notices)
            driver.add_notice_handler(handle)
            try:
                connection.exec_driver_sql(f"VACUUM (FULL, VERBOSE, ANALYZE) {secrets.name}")
            finally:
                driver.remove_notice_handler(handle)
            for table in (entries, forgotten, holds, states, requests, memories, ledger):
                connection.exec_driver_sql(f"VACUUM (ANALYZE) {table.name}")
            try:
                connection.exec_driver_sql("CHECKPOINT")
                checkpointed = True
            except ProgrammingError:
                checkpointed = False
        remains = "write-ahead log segments, replicas, archives and backups of the server"
        if not _left_nothing(notices):
            # What an older transaction may still see is carried over to the new file.
            remains = f"secrets that an older transaction on the server still sees: end it, and vacuum again; {remains}"
            checkpointed = False
        return VacuumResult(checkpointed, False, remains)

    def integrity_errors(self) -> list[str]:
        """PostgreSQL has no check of its own that a client could ask for."""
        return []


def _lock_key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(b"expunge/lock/v1\n" + name.encode()).digest()[:8], "big", signed=True)


def _notice_handler(notices: list[str]) -> Callable[[Any], None]:
    def handle(notice: Any) -> None:
        notices.append(notice.message_detail or "")

    return handle


def _left_nothing(notices: list[str]) -> bool:
    """Whether a verbose VACUUM FULL said, in whatever language, that it left 0 dead rows."""
    counts = [found.group() for detail in notices if (found := re.search(r"[0-9]+", detail))]
    return counts[:1] == ["0"]
