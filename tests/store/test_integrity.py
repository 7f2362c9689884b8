"""`verify` finds whatever was changed behind the store's back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Table, delete, insert, select, update

from expunge import VerificationError
from expunge.ledger.signing import SigningKey
from expunge.store import Store
from expunge.store import schema as tables
from expunge.store.identity import Identity

from .conftest import Place
from .ward import arrival, fill


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
    store.hold("icu", memory.ids[0], reason="court")
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


_TABLES = [table for table in tables.metadata.sorted_tables if table.name != "expunge_requests"]

# What no receipt speaks of: how rows are found, and what is next.
_FREE = {
    ("expunge_store", "uuid"),
    ("expunge_store", "origin"),
    ("expunge_store", "secret"),
    ("expunge_store", "public_key"),
    ("expunge_store", "number"),
    ("expunge_ledger", "number"),
    ("expunge_ledger", "next_number"),
    ("expunge_memories", "name"),
    ("expunge_entries", "tag"),
    ("expunge_pruned", "tag"),
    ("expunge_states", "size"),
}


def test_every_change_of_a_row_is_found(store: Store) -> None:
    for table in _TABLES:
        for column in table.columns:
            if (table.name, column.name) in _FREE or column.foreign_keys:
                continue
            if table.name == "expunge_memories" and column.name == "number":
                continue
            row = _some_row(store, table, column.name)
            where = [table.c[key.name] == row[key.name] for key in table.primary_key.columns]
            change = update(table).where(*where).values({column.name: flip(row[column.name])})
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
        if table.name in ("expunge_store", "expunge_memories", "expunge_checkpoints"):
            continue
        row = _some_row(store, table, next(iter(table.primary_key.columns)).name)
        where = [table.c[key.name] == row[key.name] for key in table.primary_key.columns]
        change = delete(table).where(*where)
        found = tampered(store, partial(Connection.execute, statement=change))
        assert found, table.name
    store.verify()


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
