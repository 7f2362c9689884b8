"""Opening a store: URLs, keys, schemas, and everything that a database can do wrong."""

from __future__ import annotations

import builtins
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url, text, update

import expunge
import expunge.store
from expunge import InputError, MissingExtra, StoreError, VerificationError
from expunge.cli.context import CommandContext
from expunge.ledger.signing import SigningKey, load_signing_key, save_signing_key
from expunge.store.backends import tables
from expunge.store.backends.connect import url_without_password
from expunge.store.backends.schema_version import SCHEMA_VERSION
from raising import raises_code

from .conftest import Place
from .server import Server
from .ward import appearance, arrival, fill


def test_the_package_opens_stores(folder: Path) -> None:
    assert expunge.open is expunge.store.open
    assert "open" not in expunge.__all__
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        assert isinstance(store, expunge.store.Store)


def test_a_sqlite_store_loads_no_extra(folder: Path) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}"):
        pass
    program = (
        f"import sys, expunge; expunge.open('sqlite:///{folder / 'ward.db'}').close(); "
        "print([name for name in ('psycopg', 'torch', 'fastapi', 'daqp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_a_sqlite_store_keeps_its_key_beside_itself(folder: Path) -> None:
    url = f"sqlite:///{folder / 'ward.db'}"
    with expunge.open(url) as store:
        public = store.public_key
        assert store.origin == f"expunge/{store.uuid}"
    key = folder / "ward.db.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert (folder / "ward.db").stat().st_mode & 0o777 == 0o600
    assert load_signing_key(key).public == public
    with expunge.open(url) as store:
        assert store.public_key == public
    key.chmod(0o644)
    with raises_code("signing-key-exposed"):
        expunge.open(url)
    key.unlink()
    with raises_code("signing-key-missing"):
        expunge.open(url)


def test_a_key_may_be_given(place: Place, folder: Path) -> None:
    key = SigningKey.generate()
    store = place.open(signing_key=key, origin="ledger.example/one")
    assert store.public_key == key.public
    fill(store)
    save_signing_key(key, folder / "saved.pem")
    for given in (folder / "saved.pem", str(folder / "saved.pem"), key):
        assert place.open(signing_key=given).names() == ["icu"]
    with pytest.raises(StoreError, match="another key"):
        place.open(signing_key=SigningKey.generate())
    with raises_code("signing-key-missing"):
        place.open(signing_key=folder / "missing.pem")
    assert place.open(signing_key=key, origin="ledger.example/one").origin == "ledger.example/one"
    with pytest.raises(StoreError, match="origin"):
        place.open(signing_key=key, origin="ledger.example/two")
    for wrong in (key.private, key.public, 7):
        with pytest.raises(InputError, match="signing_key is"):
            place.open(signing_key=wrong)


def test_postgresql_needs_a_key(server: Server) -> None:
    with pytest.raises(InputError, match="signing_key"):
        expunge.open(server.new_schema())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ward.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:ward.db?mode=memory&uri=true",
        "mysql://localhost/ward",
        "postgresql://host:port/ward",
        3,
        None,
        Path("ward.db"),
    ],
)
def test_what_is_no_url_of_a_store_is_bad_input(url: Any) -> None:
    with pytest.raises(InputError):
        expunge.open(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@host:port/ward",
        "postgresql:/ann:hunter2@host/ward",
        " postgresql://ann:hunter2@host/ward",
        "postgresql://ann:hunter2@[::1/ward",
        "postgresql://ann:x@hunter2@host/ward",
        "ann:hunter2@host/ward",
        "host=localhost password=hunter2",
        b"postgresql://ann:hunter2@host/ward",
    ],
)
def test_a_url_that_is_none_keeps_its_password_to_itself(url: Any) -> None:
    with pytest.raises(InputError) as caught:
        expunge.open(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_url_is_shown_without_its_password() -> None:
    for url in (
        "postgresql://ann:hunter2@host/ward",
        "postgresql://ann@host/ward?password=hunter2&sslpassword=hunter2",
    ):
        for shown in (url_without_password(make_url(url)), CommandContext(url).displayed_url):
            assert shown.startswith("postgresql://ann")
            assert "hunter2" not in shown
    assert CommandContext("sqlite:///a:b@c.db").displayed_url == "sqlite:///a:b@c.db"


@pytest.mark.parametrize("timeout", [0, -1, "3", None, True, float("nan"), 1e9])
def test_a_timeout_is_a_number_of_seconds(folder: Path, timeout: Any) -> None:
    with pytest.raises(InputError, match="timeout"):
        expunge.open(f"sqlite:///{folder / 'ward.db'}", timeout=timeout)


def test_an_origin_must_be_able_to_name_a_key(folder: Path) -> None:
    with pytest.raises(InputError):
        expunge.open(f"sqlite:///{folder / 'ward.db'}", origin="has a space")
    with expunge.open(f"sqlite:///{folder / 'ward.db'}", origin="ledger.example/ward") as store:
        assert store.origin == "ledger.example/ward"


def test_a_place_that_cannot_be_opened_is_a_store_error(folder: Path) -> None:
    with pytest.raises(StoreError, match="no folder"):
        expunge.open(f"sqlite:///{folder / 'nowhere' / 'ward.db'}")
    (folder / "junk.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        expunge.open(f"sqlite:///{folder / 'junk.db'}")
    (folder / "folder.db").mkdir()
    with pytest.raises(StoreError):
        expunge.open(f"sqlite:///{folder / 'folder.db'}")
    for url in ("postgresql://nobody@localhost:1/ward", f"postgresql:///ward?host={folder}"):
        with pytest.raises(StoreError):
            expunge.open(url, signing_key=folder / "key.pem")


def test_postgresql_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "psycopg":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name == "psycopg" or name.startswith("psycopg.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"expunge\[postgres\]"):
        expunge.open("postgresql://localhost/ward", signing_key=folder / "key.pem")


def test_a_newer_schema_is_refused_and_left_alone(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    seen = appearance(memory)
    with store._database.engine.connect() as connection:
        connection.execute(text("UPDATE expunge_schema SET version = '9999'"))
        connection.commit()
    with pytest.raises(StoreError, match=r"9999.*use the version of expunge that wrote it"):
        place.open()
    with store._database.engine.connect() as connection:
        connection.execute(text("UPDATE expunge_schema SET version = :version"), {"version": SCHEMA_VERSION})
        connection.commit()
    assert appearance(place.open()["icu"]) == seen


@pytest.mark.parametrize("version", ["0001", "0003"])
def test_an_older_schema_is_refused_with_the_way_to_take_its_memories_over(
    place: Place, folder: Path, version: str
) -> None:
    store = place.open()
    memory = fill(store)
    with store._database.engine.connect() as connection:
        connection.execute(text("ALTER TABLE expunge_schema RENAME COLUMN version TO version_num"))
        connection.execute(text("UPDATE expunge_schema SET version_num = :version"), {"version": version})
        connection.commit()
    with pytest.raises(StoreError, match=rf"schema {version}.*\.save\(.*Memory\.load\(.*create\(\)"):
        place.open()
    # A store that is open stands for the version that wrote it.
    memory.save(folder / "icu.memory")
    kept = expunge.Memory.load(folder / "icu.memory")
    with expunge.open(f"sqlite:///{folder / 'new.db'}") as fresh:
        taken = fresh.create(
            "icu",
            kept.keys,
            kept.values,
            sigma=kept.sigma,
            cap=kept.cap,
            ids=kept.ids,
            subjects=kept.subjects,
            payloads=[kept.payload(name) for name in kept.ids],
        )
        same = ("ids", "subjects", "payloads", "keys", "values", "coefficients", "cap", "sigma")
        assert {name: appearance(taken)[name] for name in same} == {name: appearance(memory)[name] for name in same}


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
