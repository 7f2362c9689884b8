"""`verify` finds whatever was changed behind the store's back."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, LargeBinary, Table, Text, delete, insert, select, update

import expunge
from expunge import StoreError, VerificationError
from expunge.ledger.signing import SigningKey
from expunge.store import Conflict, Store, parse_event
from expunge.store.backends import tables
from expunge.store.encryption import encrypt, encrypt_state
from expunge.store.identity import Identity

from ..conftest import Place
from ..postgres_server import quick_folder
from ..sample_memory import arrival, fill


def owe_to_mirrors(store: Store) -> None:
    """Attach a mirror that is never written to, and delete an entry: a row in each table of mirrors."""
    store.mirror_keeper.at_once = False
    store.mirror("qdrant:///nowhere#copies", memory="icu")
    memory = store["icu"]
    memory.admit(**arrival(30, far=2.0))
    memory.delete(memory.ids[-1])


def flip(value: Any) -> Any:
    """Something else of the same kind."""
    if isinstance(value, bytes | memoryview):
        data = bytes(value)
        return data[:-1] + bytes([data[-1] ^ 1])
    if isinstance(value, int):
        return value + 1
    return "x" + value


@pytest.fixture
def store(place: Place) -> Store:
    store = place.open()
    memory = fill(store)
    memory.prune("archive", sketch=1)
    for number in range(20):
        memory.admit(**arrival(number, far=2.0))
    memory.delete(memory.ids[0])
    memory.prune("forget")
    owe_to_mirrors(store)
    store.hold("icu", memory.ids[0], reason="court", case="one")
    store.release(store.hold("icu", memory.ids[1], reason="court"), case="two")
    store.erase_subject("patient-3", after=timedelta(days=1))
    store.checkpoint()
    store.verify()
    return store


def tampered(store: Store, act: Callable[[Connection], object]) -> str:
    """Name of the error that `verify` raises after an act of tampering, which is undone."""
    database = store._database
    with database.engine.connect() as connection:
        kept = {table: [dict(row) for row in connection.execute(select(table)).mappings()] for table in _TABLES}
        connection.rollback()
        act(connection)
        connection.commit()
    try:
        store.verify()
        found = ""
    except VerificationError as problem:
        found = type(problem).__name__
    with database.engine.connect() as connection:
        for table in reversed(_TABLES):
            connection.execute(delete(table))
        for table in _TABLES:
            if kept[table]:
                connection.execute(insert(table), kept[table])
        connection.commit()
    return found


# What is there for the caller's convenience, or a service's, and no part of any memory.
_APART = {"expunge_requests", "expunge_tokens", "expunge_jobs", "expunge_waiting"}
_TABLES = [table for table in tables.metadata.sorted_tables if table.name not in _APART]


def test_every_change_of_a_row_is_found(store: Store) -> None:
    for table in _TABLES:
        for column in table.columns:
            if column.foreign_keys:
                continue
            if table in (tables.memories, tables.mirrors) and column.name == "number":
                # Other rows refer to it.
                continue
            if column.name == "begun" or (table is tables.mirrors and column.name in ("busy", "due", "failures")):
                # All that they do is to keep a request from being cancelled, or to say when a mirror is tried again.
                continue
            row = _some_row(store, table, column.name)
            where = [table.c[key.name] == row[key.name] for key in table.primary_key.columns]
            # A larger next number is as good as any; this one is the hold's.
            other = 1 if column.name == "next_number" else flip(row[column.name])
            change = update(table).where(*where).values({column.name: other})
            assert tampered(store, partial(Connection.execute, statement=change)), f"{table.name}.{column.name}"
    store.verify()


def _some_row(store: Store, table: Table, column: str) -> Any:
    with store._database.reading() as connection:
        rows = connection.execute(select(table).order_by(*table.primary_key.columns)).mappings().all()
    filled = [row for row in rows if row[column] is not None]
    # The last one: a number after it is free, so that changing it does not collide with another row.
    return filled[-1]


def test_every_row_that_is_missing_is_found(store: Store) -> None:
    for table in _TABLES:
        # Other rows refer to a memory or a mirror; which copies have been written no leaf tells.
        if table in (tables.store, tables.memories, tables.checkpoints, tables.mirrors, tables.mirror_writes):
            continue
        row = _some_row(store, table, next(iter(table.primary_key.columns)).name)
        where = [table.c[key.name] == row[key.name] for key in table.primary_key.columns]
        change = delete(table).where(*where)
        found = tampered(store, partial(Connection.execute, statement=change))
        assert found, table.name
    store.verify()


def test_an_empty_store_is_in_order(place: Place) -> None:
    store = place.open()
    assert store.verify().leaves == 0
    fill(store)
    store.drop("icu")
    assert store.verify().leaves == 2


def test_a_secret_that_outlived_its_entry_is_found(store: Store) -> None:
    extra = insert(tables.secrets).values(number=10**9, secret=b"s" * 32)
    assert tampered(store, lambda c: c.execute(extra)) == "VerificationError"


def test_a_memory_put_back_after_it_was_dropped_is_found(place: Place) -> None:
    store = place.open()
    fill(store)
    with store._database.engine.connect() as connection:
        kept = {table: [dict(row) for row in connection.execute(select(table)).mappings()] for table in _TABLES}
    store.drop("icu")
    with store._database.engine.connect() as connection:
        if place.kind == "sqlite":
            connection.execute(delete(tables.secrets))
        for table in (tables.memories, tables.states, tables.secrets, tables.entries):
            connection.execute(insert(table), kept[table])
        connection.commit()
    with pytest.raises(VerificationError, match="knows no memory"):
        store.verify()


def test_an_older_state_put_back_is_found(place: Place) -> None:
    """A rollback of one memory's rows: each is intact, but the ledger has moved on."""
    store = place.open()
    memory = fill(store)
    content = (tables.states, tables.secrets, tables.entries)
    with store._database.engine.connect() as connection:
        kept = {table: [dict(row) for row in connection.execute(select(table)).mappings()] for table in content}
    memory.delete("e3")
    with store._database.engine.connect() as connection:
        for table in reversed(content):
            connection.execute(delete(table))
        for table in content:
            connection.execute(insert(table), kept[table])
        connection.commit()
    with pytest.raises(VerificationError, match="last receipt"):
        place.open().verify()


def test_receipts_under_another_key_are_found(store: Store) -> None:
    known = store._identity
    store._identity = Identity(known.uuid, known.origin, SigningKey.generate(), known.secret)
    with pytest.raises(VerificationError):
        store.verify()


def test_a_damaged_memory_is_refused_when_it_is_loaded(place: Place) -> None:
    store = place.open()
    fill(store)
    with store._database.engine.connect() as connection:
        row = connection.execute(select(tables.states)).mappings().one()
        connection.execute(update(tables.states).values(state=flip(row["state"])))
        connection.commit()
    for call in (lambda: len(place.open()["icu"]), lambda: place.open()["icu"].delete("e1"), place.open().verify):
        with pytest.raises(VerificationError, match="altered"):
            call()


def test_a_damaged_memory_can_be_dropped(place: Place) -> None:
    """Its content goes, its secrets too, and the event says what the last receipt said."""
    store = place.open()
    memory = fill(store)
    memory.prune("forget", sketch=1)
    memory.admit(**arrival(1, far=3.0))
    digest, live, cold = memory.digest, len(memory), len(memory.warranties())
    audit = store.hold("icu", "e1", reason="audit")
    fill(store, "other", seed=1)
    with store._database.engine.connect() as connection:
        for column in (tables.states.c.state, tables.forgotten.c.record):
            mine = column.table.c.memory == memory.number
            encrypted = connection.execute(select(column).where(mine)).scalars().first()
            connection.execute(update(column.table).where(mine).values({column.name: flip(encrypted)}))
        connection.commit()
    with pytest.raises(VerificationError):
        place.open()["icu"].delete("e1")
    with pytest.raises(Conflict):
        place.open().drop("icu", expected="0" * 64)
    # A hold forbids it, and can be ended though the memory cannot be loaded.
    with pytest.raises(StoreError, match=r"'e1' must be kept: hold .*, audit.*release its holds"):
        place.open().drop("icu")
    released = place.open().release(audit)
    assert parse_event(released.statement).subject.sha256 == digest
    hold = place.open().hold("other", "e1", reason="court")
    event = parse_event(place.open().drop("icu", expected=digest).statement)
    assert event.subject.sha256 == digest
    assert event.facts == {"live": live, "pruned": cold, "entries": None}
    with pytest.raises(StoreError, match="dropped"):
        memory.read([0.0] * 4)
    assert store.verify().memories == 1
    assert store.holds() == [hold]


def test_a_damaged_memory_does_not_keep_the_others_from_erasing_a_subject(place: Place) -> None:
    store = place.open()
    for seed, name in enumerate(("a", "b", "c")):
        fill(store, name, seed=seed)
    with store._database.engine.connect() as connection:
        mine = tables.states.c.memory == store["b"].number
        encrypted = connection.execute(select(tables.states.c.state).where(mine)).scalar_one()
        connection.execute(update(tables.states).where(mine).values(state=flip(encrypted)))
        connection.commit()
    other = place.open()
    done = other.erase_subject("patient-3", idempotency_key="k")
    assert [(part.memory, part.outcome) for part in done.memories] == [
        ("a", "decrement"),
        ("b", "failed"),
        ("c", "decrement"),
    ]
    assert "altered" in (done.memories[1].reason or "")
    assert not done.complete
    assert done.index is not None
    assert parse_event(other.leaf(done.index).statement).kind == "subject_erased"
    # Under the same key what is done is not done again.
    other.drop("b")
    assert other.erase_subject("patient-3", idempotency_key="k").complete
    assert other.verify().memories == 2


# Values of every kind that SQLite keeps as it is given them, beside the kind that a column holds. A number in a column
# of text becomes text.
_TEXT, _BROKEN_TEXT, _NOTHING = "'text'", "CAST(x'ff' AS TEXT)", "NULL"
_WRONG_KINDS: dict[type, tuple[str, ...]] = {
    LargeBinary: (_TEXT, _BROKEN_TEXT, _NOTHING, "5", "1.5"),
    Text: ("x'00ff'", _BROKEN_TEXT, _NOTHING),
}
_OTHERS = (_TEXT, _NOTHING, "1.5", "x'00ff'")


@pytest.fixture(scope="module")
def filled() -> Iterator[Path]:
    """A store's file with a row in every table and something in every column, and its key."""
    folder = quick_folder("filled")
    with expunge.open(f"sqlite:///{folder / 'ward.db'}", folder / "ward.pem") as store:
        memory = fill(store)
        memory.prune("forget", sketch=1)
        memory.admit(**arrival(1, far=2.0), idempotency_key="again")
        owe_to_mirrors(store)
        store.hold("icu", memory.ids[0], reason="court", case="one")
        store.erase_subject("patient-3", after=timedelta(days=1))
        store.checkpoint()
        with store._database.engine.connect() as connection:
            for table in tables.metadata.sorted_tables:
                if connection.execute(select(table)).first() is None:
                    connection.execute(insert(table), {column.name: _some(column) for column in table.columns})
            connection.commit()
        store.verify()
    yield folder
    shutil.rmtree(folder)


def _some(column: Column[Any]) -> Any:
    if column.name == "created":
        return time.time_ns() // 1_000_000
    if column is tables.tokens.c.memory:
        return "icu"
    return b"something" if isinstance(column.type, LargeBinary) else "something" if isinstance(column.type, Text) else 1


@pytest.mark.parametrize(
    "column",
    [column for table in tables.metadata.sorted_tables for column in table.columns],
    ids=lambda column: f"{column.table.name}.{column.name}",
)
def test_a_value_of_another_kind_is_found(filled: Path, folder: Path, column: Column[Any]) -> None:
    altered = 0
    for value in _WRONG_KINDS.get(type(column.type), _OTHERS):
        if value == _NOTHING and column.nullable and column.table.name in _APART:
            continue
        shutil.copy(filled / "ward.db", folder / "ward.db")
        if not _altered(folder / "ward.db", column, value):
            continue
        altered += 1
        with pytest.raises(VerificationError):
            _verify(folder / "ward.db", filled / "ward.pem")
        # Nothing, where there may be nothing, is found beside the envelope, which is what `verify` does.
        told = column.table is tables.leaves and not (column.nullable and value == _NOTHING)
        with pytest.raises(VerificationError) if told else suppress(expunge.ExpungeError):
            _log(folder / "ward.db", filled / "ward.pem")
        # An edit may come across it or not; what it meets, it names.
        with suppress(expunge.ExpungeError):
            _erase(folder / "ward.db", filled / "ward.pem")
    # A row number is all that SQLite itself keeps to its kind.
    assert altered > 0 or column.primary_key


def _altered(file: Path, column: Column[Any], value: str) -> bool:
    """Write a value where it does not belong, whatever the schema says; False where SQLite does not take it."""
    table, name = column.table.name, column.name
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = ?", (table,))
        raw.execute("PRAGMA writable_schema = RESET")
        row = raw.execute(f"SELECT max(rowid) FROM {table} WHERE {name} IS NOT NULL").fetchone()[0]  # noqa: S608
        assert row is not None, f"no row of {table} has {name}"
        try:
            raw.execute(f"UPDATE {table} SET {name} = {value} WHERE rowid = ?", (row,))  # noqa: S608
        except sqlite3.IntegrityError as problem:
            assert problem.sqlite_errorname == "SQLITE_MISMATCH"  # noqa: PT017 — a row number is a number
            return False
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return True


def _verify(file: Path, key: Path) -> None:
    with expunge.open(f"sqlite:///{file}", key) as store:
        store.verify()


def _log(file: Path, key: Path) -> None:
    with expunge.open(f"sqlite:///{file}", key) as store:
        for leaf in store.receipts():
            assert leaf.statement
        store.receipts("icu")
        store.inclusion(0)
        store.checkpoint()


def _erase(file: Path, key: Path) -> None:
    with expunge.open(f"sqlite:///{file}", key) as store:
        store["icu"].admit(**arrival(1, far=2.0), idempotency_key="again")
        store.erase_subject("patient-3")


def test_a_record_that_somebody_else_encrypted_is_found(filled: Path, folder: Path) -> None:
    """Whoever has the file has the secrets, and can encrypt what was never written here."""
    for table, name, purpose in (
        ("expunge_holds", "terms", "hold"),
        ("expunge_states", "state", "state"),
        ("expunge_forgotten", "record", "record"),
        ("expunge_entries", "content", "entry"),
    ):
        for plain in (b"", b"[]", b"[" * 100_000, b"\xff" * 64, b'{"id": 5}'):
            shutil.copy(filled / "ward.db", folder / "ward.db")
            with closing(sqlite3.connect(folder / "ward.db", isolation_level=None)) as raw:
                number = "memory" if name == "state" else "number"
                which = raw.execute(f"SELECT max({number}) FROM {table}").fetchone()[0]  # noqa: S608
                if name == "state":
                    others = "SELECT secret FROM expunge_secrets WHERE number NOT IN (SELECT number FROM expunge_holds)"
                    encrypted = encrypt_state(b"".join(row[0] for row in raw.execute(others)), plain)
                else:
                    (secret,) = raw.execute("SELECT secret FROM expunge_secrets WHERE number = ?", (which,)).fetchone()
                    encrypted = encrypt(secret, purpose, plain)
                raw.execute(f"UPDATE {table} SET {name} = ? WHERE {number} = ?", (encrypted, which))  # noqa: S608
            with pytest.raises(VerificationError):
                _verify(folder / "ward.db", filled / "ward.pem")


def test_a_damaged_schema_text_is_a_store_error(sqlite_place: Place, folder: Path) -> None:
    """SQLite quotes the damaged text in its message, and the driver cannot decode that."""
    store = sqlite_place.open()
    fill(store)
    store.backup(folder / "copy.db")
    data = bytearray((folder / "copy.db").read_bytes())
    place = data.index(b"CREATE TABLE expunge_entries")
    data[place + 3 : place + 7] = b"\xa3\xff\xfe\x80"
    (folder / "copy.db").write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        expunge.open(f"sqlite:///{folder / 'copy.db'}", folder / "ward.pem")
