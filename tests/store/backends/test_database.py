"""What a store makes of its database, and everything that a database can do wrong."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text, update

import expunge
import expunge.store
from expunge import StoreError, VerificationError
from expunge.store.backends import tables

from ..conftest import Place
from ..postgres_server import Server
from ..sample_memory import appearance, arrival, fill


def test_other_tables_in_the_database_are_left_alone(place: Place) -> None:
    from sqlalchemy import create_engine

    url = place.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE entries (mine int)"))
        connection.execute(text("INSERT INTO entries VALUES (7)"))
    store = place.open()
    fill(store)
    store.drop("icu")
    with engine.begin() as connection:
        assert connection.execute(text("SELECT mine FROM entries")).scalar() == 7
    engine.dispose()


def test_sqlite_is_set_up_to_be_durable_and_to_forget(sqlite_place: Place) -> None:
    store = sqlite_place.open()
    with store._database.reading() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys", "temp_store", "cache_spill")
        }
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "secure_delete": 1,
        "foreign_keys": 1,
        "temp_store": 2,
        "cache_spill": 0,
    }


def test_postgresql_commits_are_on_disk_whatever_the_default(server: Server, folder: Path) -> None:
    url = server.new_schema()
    relaxed = url.replace("options=", "options=-csynchronous_commit%3Doff%20")
    store = expunge.open(relaxed, folder / "key.pem")
    with store._database.reading() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"
    store.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_postgresql_writers_wait_for_each_other_whatever_the_default(
    server: Server, folder: Path, isolation: str
) -> None:
    url = server.new_database()
    server.run(f"ALTER DATABASE {url.split('/')[3].split('?')[0]} SET default_transaction_isolation = '{isolation}'")
    with expunge.open(url, folder / "ward.pem") as one, expunge.open(url, folder / "ward.pem") as other:
        fill(one)

        def admit(number: int) -> object:
            return (one, other)[number % 2]["icu"].admit(**arrival(number)).outcome

        with ThreadPoolExecutor(2) as hands:
            assert list(hands.map(admit, range(16))) == ["admitted"] * 16
        one.verify()


def test_a_full_disk_is_a_store_error_and_changes_nothing(sqlite_place: Place) -> None:
    store = sqlite_place.open()
    memory = fill(store)
    seen = appearance(memory)
    from sqlalchemy import event

    def full(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA max_page_count = 1")

    event.listen(store._database.engine, "connect", full)
    store._database.engine.dispose()
    with pytest.raises(StoreError, match="full"):
        memory.admit([0.0] * 4, [0.0, 0.0], payload=b"x" * 500_000)
    assert appearance(memory) == seen
    event.remove(store._database.engine, "connect", full)
    store._database.engine.dispose()
    memory.admit([0.0] * 4, [0.0, 0.0], payload=b"x" * 500_000)
    store.verify()


def test_a_file_that_cannot_be_written_is_a_store_error(sqlite_place: Place) -> None:
    store = sqlite_place.open()
    memory = fill(store)
    from sqlalchemy import event

    def read_only(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA query_only = ON")

    event.listen(store._database.engine, "connect", read_only)
    store._database.engine.dispose()
    with pytest.raises(StoreError):
        memory.delete("e1")
    assert memory.read([0.0] * 4).shape == (1, 2)
    assert "e1" in memory


def test_messages_do_not_carry_content(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing statement is reported without the values that it carried."""
    store = sqlite_place.open()
    memory = fill(store)
    with store._database.engine.connect() as connection:
        connection.execute(text("DROP TABLE expunge_entries"))
        connection.commit()
    with pytest.raises(StoreError) as failed:
        memory.admit([0.0] * 4, [0.0, 0.0], id="an-id-of-somebody", payload="a secret")
    shown = "".join([str(failed.value), str(failed.value.__cause__)])
    assert "no such table" in shown
    assert "somebody" not in shown
    assert "secret" not in shown.replace("expunge_secrets", "")


def test_a_lost_connection_is_a_store_error_and_the_next_call_works(server: Server, postgres_place: Place) -> None:
    store = postgres_place.open()
    memory = fill(store)
    seen = appearance(memory)
    from expunge.store.edits import crash_points

    def cut(point: str) -> None:
        if point == "signed":
            with psycopg.connect(server.uri, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    " AND state = 'idle in transaction'"
                )

    crash_points.set_hook(cut)
    try:
        with pytest.raises(StoreError):
            memory.delete("e5")
    finally:
        crash_points.set_hook(None)
    assert appearance(memory) == seen
    memory.delete("e5")
    store.verify()


def test_a_file_deleted_under_a_store_is_noticed(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    fill(store)
    store.close()
    for file in folder.glob("ward.db*"):
        os.remove(file)
    fresh = sqlite_place.open()
    assert fresh.names() == []


def test_a_store_without_its_ledger_is_incomplete(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    memory = fill(store)
    with store._database.engine.connect() as connection:
        connection.execute(text("DELETE FROM expunge_ledger"))
        connection.commit()
    for call in (lambda: store.size, lambda: memory.delete("e1"), store.verify):
        with pytest.raises((StoreError, VerificationError), match="ledger"):
            call()
    with sqlite3.connect(folder / "ward.db") as raw:
        assert raw.execute("SELECT count(*) FROM expunge_entries").fetchone() == (40,)


def test_a_state_that_says_another_digest_is_refused(place: Place) -> None:
    store = place.open()
    fill(store)
    with store._database.engine.connect() as connection:
        connection.execute(update(tables.states).values(digest=b"x" * 32))
        connection.commit()
    with pytest.raises(VerificationError, match="digest"):
        len(place.open()["icu"])
