"""A plugin of pytest: LangGraph's tests of its own stores and savers get ours in their place.

`LANGGRAPH_SUITES_OUT` names a file; for every test it gains a line in JSON with its outcome and how it failed.
Stores are opened in the database that the tests ask for, a file in place of ``:memory:``. Where a test starts a thread
that sweeps, a schedule calls `sweep_ttl`, as the guide tells users to. Savers are LangGraph's own, wrapped.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import aiosqlite
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import expunge
from expunge.errors import ExpungeError
from expunge.integrations.langgraph import ErasableCheckpointer, ExpungeStore
from expunge.integrations.langgraph.catalogue import Catalogue
from expunge.integrations.langgraph.search import open_item
from expunge.memory.version import Version

__all__ = ["pytest_runtest_logreport"]

_FOLDER = Path(tempfile.mkdtemp(prefix="suites", dir=os.environ.get("LANGGRAPH_SUITES_FOLDER")))


def url_of(address: str) -> str:
    """URL of the database that a test names by a file, ``:memory:`` or a PostgreSQL address."""
    if address.startswith("postgres"):
        return _postgres_url(address)
    return f"sqlite:///{new_file()}" if address == ":memory:" else f"sqlite:///{address}"


def _postgres_url(told: str) -> str:
    named = conninfo_to_dict(told)
    return f"postgresql://{named['user']}@/{named['dbname']}?host={named['host']}"


def new_file() -> Path:
    """A file that is not there."""
    return _FOLDER / f"{os.urandom(8).hex()}.db"


class SubstituteStore(ExpungeStore):
    """`ExpungeStore` as LangGraph's stores are opened."""

    MIGRATIONS: tuple[str, ...] = ()
    _ended: threading.Event | None = None
    _address = ""

    @classmethod
    @contextmanager
    def from_conn_string(cls, address: str, *, index: Any = None, ttl: Any = None, **_: Any) -> Iterator[Any]:
        """A store until the end of the block; how it connects is its own affair."""
        url = url_of(address)
        if url.startswith("sqlite") and address != ":memory:":
            # What the test has made there is no database of ours.
            url = f"sqlite:///{address}.expunge"
        key = _FOLDER / f"{hashlib.sha256(url.encode()).hexdigest()}.pem"
        with expunge.open(url, key) as ledger:
            made = cls(ledger, index=index, ttl=ttl)
            made._address = url
            yield made

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """A cursor on the database, with which the tests prepare and look into tables of LangGraph's own."""
        with psycopg.connect(self._address, autocommit=True) as connection:
            yield _Rows(self, connection.cursor())

    def ends(self, prefix: str, key: str) -> list[Any]:
        """When the versions of an item end that are there, whether or not they have ended."""
        known = self.notebook.inspect(self._catalogues.of, Catalogue())
        return [version.expires for version in known.versions(tuple(prefix.split(".")), key)]

    def let_end(self, prefix: str, key: str) -> None:
        """Let an item end now: an end cannot be set back, so it is put with one that comes at once."""
        namespace = tuple(prefix.split("."))

        def newest(view: Version) -> dict[str, Any]:
            value: dict[str, Any] = open_item(view, self._catalogues.of(view).versions(namespace, key)[-1]).value
            return value

        self.put(namespace, key, self.notebook.inspect(newest, {}), ttl=0.05)
        while self.ends(prefix, key)[-1] > self.ledger.now():
            time.sleep(0.1)

    def setup(self) -> Any:
        """There is nothing to be set up."""

    def start_ttl_sweeper(self, interval: float | None = None) -> Any:
        """Call `sweep_ttl` from a schedule."""
        minutes = interval or (self.ttl_config or {}).get("sweep_interval_minutes") or 5
        self._ended = ended = threading.Event()

        def work() -> None:
            while not ended.wait(minutes * 60):
                try:
                    self.sweep_ttl()
                except ExpungeError:
                    return

        threading.Thread(target=work, daemon=True).start()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Any:
        """End the schedule."""
        if self._ended is not None:
            self._ended.set()
        return True


class _Rows:
    """A cursor that answers from our store what the tests ask of one item's row in LangGraph's own table."""

    def __init__(self, store: SubstituteStore, cursor: Any) -> None:
        self._store, self._cursor = store, cursor
        self._row: dict[str, Any] | None = None

    def execute(self, asked: str, given: Any = ()) -> Any:
        self._row = None
        if asked.startswith("UPDATE store SET expires_at"):
            self._store.let_end(*given)
        elif asked.startswith("SELECT COUNT(*) AS n FROM store"):
            self._row = {"n": len(self._store.ends(*given))}
        elif asked.startswith("SELECT expires_at FROM store"):
            self._row = {"expires_at": self._store.ends(*given)[-1]}
        else:
            return self._cursor.execute(asked, given)
        return self

    def fetchone(self) -> Any:
        return self._cursor.fetchone() if self._row is None else self._row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class _AsyncRows(_Rows):
    async def execute(self, asked: str, given: Any = ()) -> Any:
        return await _awaited(super().execute(asked, given))

    async def fetchone(self) -> Any:
        return await _awaited(super().fetchone())


async def _awaited(told: Any) -> Any:
    return await told if inspect.isawaitable(told) else told


class AsyncSubstituteStore(SubstituteStore):
    """The same, asked asynchronously."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, address: str, **options: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        """A store until the end of the block."""
        with SubstituteStore.from_conn_string.__func__(cls, address, **options) as store:  # type: ignore[attr-defined]
            yield store

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[Any]:  # type: ignore[override]
        async with await psycopg.AsyncConnection.connect(self._address, autocommit=True) as connection:
            yield _AsyncRows(self, connection.cursor())

    async def setup(self) -> None:
        """There is nothing to be set up."""

    async def start_ttl_sweeper(self, interval: float | None = None) -> None:
        """Call `sweep_ttl` from a schedule."""
        super().start_ttl_sweeper(interval)

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the schedule."""
        return bool(super().stop_ttl_sweeper(timeout))

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """As `ExpungeStore.sweep_ttl`."""
        return super().sweep_ttl()


class _WrappedSaver(ErasableCheckpointer):
    """`ErasableCheckpointer`; what it has not is the saver's, such as its connection and `setup`."""

    def __getattr__(self, name: str) -> Any:
        if name == "saver":
            raise AttributeError(name)
        return getattr(self.saver, name)


def wrapped(saver: Any, url: str) -> _WrappedSaver:
    """A saver of LangGraph's with a list of its threads, which has the threads that are there."""
    return _WrappedSaver(saver, expunge.open(f"sqlite:///{new_file()}"), url, adopt=True)


def substitute_of(plain: Any, *, asynchronous: bool) -> Any:
    """What stands for a class of savers: called, it makes one and wraps it."""

    @contextmanager
    def opened(address: str, **options: Any) -> Iterator[Any]:
        url = url_of(address)
        with plain.from_conn_string(url.removeprefix("sqlite:///"), **options) as saver:
            saver.setup()
            yield wrapped(saver, url)

    @asynccontextmanager
    async def aopened(address: str, **options: Any) -> AsyncIterator[Any]:
        url = url_of(address)
        async with plain.from_conn_string(url.removeprefix("sqlite:///"), **options) as saver:
            await saver.setup()
            yield wrapped(saver, url)

    class Substitute:
        from_conn_string = staticmethod(aopened if asynchronous else opened)

        def __new__(cls, connection: Any, *given: Any, **options: Any) -> Any:
            return wrapped(plain(connection, *given, **options), place_of(connection))

    Substitute.__name__ = plain.__name__
    return Substitute


def place_of(connection: Any) -> str:
    """URL of the database of a connection, or of a pool of them."""
    told = getattr(connection, "conninfo", None) or getattr(getattr(connection, "info", None), "dsn", None)
    if told is not None:
        return _postgres_url(told)
    named = getattr(connection, "suite_database", None)
    if named is None:
        named = connection.execute("PRAGMA database_list").fetchall()[0][2]
    return f"sqlite:///{named.removeprefix('file:').partition('?')[0]}"


def _put_in_place() -> None:
    """Put ours where the tests import LangGraph's from."""
    for kind in ("Sqlite", "Postgres"):
        stores, savers = f"langgraph.store.{kind.lower()}", f"langgraph.checkpoint.{kind.lower()}"
        setattr(import_module(stores), f"{kind}Store", SubstituteStore)
        for place in (stores, f"{stores}.aio"):
            setattr(import_module(place), f"Async{kind}Store", AsyncSubstituteStore)
        for place, name in ((savers, f"{kind}Saver"), (f"{savers}.aio", f"Async{kind}Saver")):
            plain = getattr(import_module(place), name)
            setattr(import_module(place), name, substitute_of(plain, asynchronous=name.startswith("Async")))


def _connect(plain: Callable[..., Any], database: Any, **options: Any) -> Any:
    """A connection of aiosqlite that knows its file: its own thread alone may ask it."""
    made = plain(database, **options)
    made.suite_database = str(database)
    return made


_put_in_place()
aiosqlite.connect = partial(_connect, aiosqlite.connect)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what became of a test; an attempt that is repeated is not yet that."""
    if str(report.outcome) == "retried":
        return
    if report.when == "call" or report.outcome != "passed":
        line = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
        if report.failed:
            told = getattr(report.longrepr, "reprcrash", None)
            line["told"] = str(told.message if told is not None else report.longrepr)[:300]
        with Path(os.environ["LANGGRAPH_SUITES_OUT"]).open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
