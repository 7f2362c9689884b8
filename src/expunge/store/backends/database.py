"""What a store asks of a database: snapshots to read from, one writer per memory, secrets that can be destroyed.

Two implementations: :mod:`expunge.store.backends.sqlite` and :mod:`expunge.store.backends.postgres`. Whatever
SQLAlchemy or a driver raises inside `reading` and `writing` leaves them as a StoreError, without the values that the
statement carried.

SQLite keeps whatever type of value it is given, in any column. Somebody who writes to the file can leave text where
bytes belong, or nothing at all where the schema once said NOT NULL. A driver hands these on as they are, and Python
would take them for something: ``bytes(5)`` is five zeros. So rows are read through a `CheckedConnection` alone, which
checks each row as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Column, Connection, Engine, Label, Select, insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from expunge.errors import Busy, ExpungeError, StoreError, VerificationError
from expunge.store.backends.tables import secrets

if TYPE_CHECKING:
    from expunge.store.edits.signed_receipt import SignedReceipt

__all__ = ["CheckedConnection", "Database", "LedgerObserver", "VacuumResult", "number_parameters", "translate_errors"]


_BATCH = 500
_INSERT_SECRETS = insert(secrets)
_TYPE_NAMES = {bytes: "bytes", memoryview: "bytes", str: "text", int: "a whole number", float: "a fraction"}


@dataclass(frozen=True)
class VacuumResult:
    """What a vacuum reached: ``files`` of the database rewritten or truncated, its write-ahead ``log`` truncated.

    ``remains`` says what may still hold erased secrets. ``scanned`` says whether the files were read afterwards and
    searched for secrets; ``files`` is false if one was found where none should be.
    """

    files: bool
    log: bool
    remains: str
    scanned: bool


class LedgerObserver(Protocol):
    """Is told what this process has committed to the ledger. It must not raise."""

    def observe_leaves(self, kinds: Sequence[str]) -> None:
        """Leaves were appended, of these kinds."""

    def observe_edit(self, receipt: SignedReceipt, seconds: float) -> None:
        """An edit was applied or refused, and has its leaf, so many seconds after it was asked for."""


class CheckedConnection:
    """One transaction: `rows`, `first`, `value` and `values` read, `execute` writes, nothing counts before `commit`."""

    def __init__(self, connection: Connection, observer: LedgerObserver | None = None) -> None:
        self.connection = connection
        self._observer = observer
        self._after_commit: list[Callable[[LedgerObserver], None]] = []
        # There is nothing to check in what is written.
        self.execute, self.rollback = connection.execute, connection.rollback

    def after_commit(self, tell: Callable[[LedgerObserver], None]) -> None:
        """Tell the store's observer of something once the transaction is committed, and not where it is not."""
        if self._observer is not None:
            self._after_commit.append(tell)

    def commit(self) -> None:
        """Commit, and tell the observer."""
        self.connection.commit()
        waiting, self._after_commit = self._after_commit, []
        if self._observer is not None:
            for tell in waiting:
                tell(self._observer)

    def rows(self, query: Select[Any], parameters: dict[str, Any] | None = None) -> list[Any]:
        """All rows of a query."""
        return _checked(self.connection.execute(query, parameters).all(), query)

    def first(self, query: Select[Any], parameters: dict[str, Any] | None = None) -> Any:
        """The first row of a query, or None."""
        row = self.connection.execute(query, parameters).first()
        return None if row is None else _checked([row], query)[0]

    def value(self, query: Select[Any], parameters: dict[str, Any] | None = None) -> Any:
        """The first column of the first row, or None where there is no row."""
        row = self.first(query, parameters)
        return None if row is None else row[0]

    def values(self, query: Select[Any], parameters: dict[str, Any] | None = None) -> list[Any]:
        """The first column of every row."""
        return [row[0] for row in self.rows(query, parameters)]

    def batches(self, query: Select[Any]) -> Iterator[list[Any]]:
        """All rows of a query, a few hundred at a time."""
        with self.connection.execute(query.execution_options(yield_per=_BATCH)) as found:
            for rows in found.partitions():
                yield _checked(rows, query)


class Database(ABC):
    """One database, whatever its kind.

    Attributes
    ----------
    one_writer : whether a transaction of `writing` keeps out all others, whatever locks it holds.
    observer : who is told what is committed to the ledger.

    """

    one_writer = False
    observer: LedgerObserver | None = None

    def __init__(self, engine: Engine, timeout: float) -> None:
        self.engine = engine
        self.timeout = timeout

    @contextmanager
    def reading(self) -> Iterator[CheckedConnection]:
        """One consistent snapshot; never waits for a writer."""
        with translate_errors(), self.engine.connect() as connection:
            self._begin_snapshot(connection)
            yield CheckedConnection(connection)

    @contextmanager
    def writing(self, *locks: str) -> Iterator[CheckedConnection]:
        """A transaction that holds the named locks, taken in order. Nothing counts unless the caller commits."""
        with translate_errors(), self.engine.connect() as connection:
            self._begin_locked(connection, locks)
            try:
                yield CheckedConnection(connection, self.observer)
            finally:
                connection.rollback()

    def read_row(self, query: Select[Any], parameters: dict[str, Any] | None = None) -> Any:
        """First row of one query by itself, or None."""
        with translate_errors(), self.engine.connect() as connection:
            return CheckedConnection(connection).first(query, parameters)

    def recover(self) -> None:
        """Finish what a process that died may have left to do."""
        return

    def close(self) -> None:
        """Give every connection back."""
        self.engine.dispose()

    @abstractmethod
    def _begin_snapshot(self, connection: Connection) -> None:
        """Start a read-only transaction that sees one state of the database."""

    @abstractmethod
    def _begin_locked(self, connection: Connection, locks: Sequence[str]) -> None:
        """Start a transaction with the locks, or raise Busy when the timeout has passed."""

    def insert_secrets(self, connection: CheckedConnection, new: Mapping[int, bytes]) -> None:
        """Write secrets by number."""
        rows = [{"number": number, "secret": secret} for number, secret in sorted(new.items())]
        if rows:
            connection.execute(_INSERT_SECRETS, rows if len(rows) > 1 else rows[0])

    @abstractmethod
    def destroy_secrets(self, connection: CheckedConnection, numbers: Sequence[int]) -> None:
        """Destroy secrets: nothing of them is left once the transaction is committed and the log is truncated."""

    @abstractmethod
    def finish_erasure(self, connection: CheckedConnection) -> str | None:
        """After a committed erasure: remove the secrets from the files as far as a client can.

        Returns None when nothing of them is left there, else the reason why they are.
        """

    @abstractmethod
    def retry_erasures(self) -> None:
        """Try once more to finish the erasures that wait, where that takes no lock from anybody."""

    @abstractmethod
    def waiting(self) -> tuple[int, str | None]:
        """How many erased secrets, or erasures, are still in the files as far as is known, and the reason."""

    @abstractmethod
    def vacuum(self) -> VacuumResult:
        """Remove whatever earlier erasures have left in the database's files."""

    @abstractmethod
    def integrity_errors(self) -> list[str]:
        """What the database's own integrity check reports."""


def number_parameters(numbers: Sequence[int]) -> dict[str, int] | list[dict[str, int]]:
    """Parameters of a statement about a ``number_``, for one number or for many."""
    rows = [{"number_": number} for number in numbers]
    return rows[0] if len(rows) == 1 else rows


def _checked(rows: Sequence[Any], query: Select[Any]) -> list[Any]:
    """The rows, if every value that comes from a column is of the column's type."""
    expected: list[tuple[int, type, bool, Column[Any]]] = []
    for place, selected in enumerate(query.selected_columns):
        column = selected.element if isinstance(selected, Label) else selected
        if isinstance(column, Column):
            expected.append((place, column.type.python_type, bool(column.nullable), column))
    for row in rows:
        for place, kind, nullable, column in expected:
            value = row[place]
            if type(value) is not kind and not (nullable and value is None):
                found = "nothing" if value is None else _TYPE_NAMES.get(type(value), type(value).__name__)
                what = f"{column.table.name}.{column.name}"
                raise VerificationError(f"{what} holds {found} where {_TYPE_NAMES[kind]} should be: it was altered")
    return list(rows)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise whatever SQLAlchemy raises inside as an ExpungeError; `orig` has no parameters in it."""
    try:
        yield
    except SQLAlchemyError as problem:
        raise _as_store_error(problem) from problem
    except UnicodeDecodeError:
        # The driver raises it by itself where SQLite's own message quotes a damaged schema.
        raise StoreError("the database's schema holds bytes that are no text: it is damaged; use a backup") from None


def _as_store_error(problem: SQLAlchemyError) -> ExpungeError:
    if isinstance(problem, DBAPIError):
        text = str(problem.orig).strip()
        if text.startswith("Could not decode to UTF-8 column"):
            # The driver quotes what it could not decode.
            return VerificationError("the database holds bytes where text should be: it was altered")
        state = getattr(problem.orig, "sqlstate", None)
        code = getattr(problem.orig, "sqlite_errorname", None) or ""
        if code.startswith("SQLITE_BUSY") or state in ("55P03", "40P01", "40001"):
            return Busy(f"another writer is at work ({text}); nothing was done, try again")
        if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            return StoreError(
                f"the database cannot be opened for writing ({text}), and SQLite writes beside its file even to read: "
                "copy the store and its key to a folder that you can write to"
            )
        return StoreError(f"the database could not do it: {text}")
    return StoreError(f"the database could not do it: {problem}")
