"""What a store asks of a database: snapshots to read from, one writer a memory, secrets that vanish.

Two implementations: :mod:`expunge.store.backends.sqlite` and :mod:`expunge.store.backends.postgres`. Whatever
SQLAlchemy or a driver raises inside `reading` and `writing` leaves them as a StoreError, without the values that the
statement carried.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Executable
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from expunge.errors import Busy, ExpungeError, StoreError, VerificationError

__all__ = ["Database", "Vacuumed", "each", "translated"]


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum reached: ``files`` of the database rewritten or truncated, its ``log`` of old writes cut."""

    files: bool
    log: bool
    remains: str


class Database(ABC):
    """One database, whatever its kind."""

    def __init__(self, engine: Engine, timeout: float) -> None:
        self.engine = engine
        self.timeout = timeout

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent snapshot; never waits for a writer."""
        with translated(), self.engine.connect() as connection:
            self._snapshot(connection)
            yield connection

    @contextmanager
    def writing(self, lock: str) -> Iterator[Connection]:
        """A transaction that holds the named lock. Nothing counts unless the caller commits."""
        with translated(), self.engine.connect() as connection:
            self._begin(connection, lock)
            try:
                yield connection
            finally:
                connection.rollback()

    def glance(self, statement: Executable) -> Any:
        """First row of one query by itself, or None."""
        with translated(), self.engine.connect() as connection:
            return connection.execute(statement).first()

    def recover(self) -> None:
        """Finish what a process that died may have left to do."""
        return

    def finish(self) -> None:
        """Give every connection back."""
        self.engine.dispose()

    @abstractmethod
    def _snapshot(self, connection: Connection) -> None:
        """Start a read-only transaction that sees one state of the database."""

    @abstractmethod
    def _begin(self, connection: Connection, lock: str) -> None:
        """Start a transaction with the lock, or raise Busy when the timeout has passed."""

    @abstractmethod
    def shred(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Destroy secrets, so that nothing of them is left once the transaction is committed and settled."""

    @abstractmethod
    def settle(self, connection: Connection) -> bool:
        """After a committed erasure: cut the log of old writes, where this can be done; False when it has to wait."""

    @abstractmethod
    def vacuum(self) -> Vacuumed:
        """Remove whatever earlier erasures have left in the database's files."""

    @abstractmethod
    def faults(self) -> list[str]:
        """What the database's own integrity check complains of."""


def each(numbers: Sequence[int]) -> dict[str, int] | list[dict[str, int]]:
    """Parameters of a statement about a ``number_``, for one number or for many."""
    rows = [{"number_": number} for number in numbers]
    return rows[0] if len(rows) == 1 else rows


@contextmanager
def translated() -> Iterator[None]:
    """No foreign exception passes."""
    try:
        yield
    except ExpungeError:
        raise
    except SQLAlchemyError as problem:
        raise translation(problem) from problem


def translation(problem: SQLAlchemyError) -> ExpungeError:
    """The same failure in our words; `orig` has no parameters in it."""
    if isinstance(problem, DBAPIError):
        text = str(problem.orig).strip()
        if text.startswith("Could not decode to UTF-8 column"):
            # The driver quotes what it could not decode.
            return VerificationError("the database holds bytes where text should be: it was altered")
        state = getattr(problem.orig, "sqlstate", None)
        code = getattr(problem.orig, "sqlite_errorname", None) or ""
        if code.startswith("SQLITE_BUSY") or state in ("55P03", "40P01", "40001"):
            return Busy(f"another writer is at work ({text}); nothing was done, try again")
        return StoreError(f"the database could not do it: {text}")
    return StoreError(f"the database could not do it: {problem}")
