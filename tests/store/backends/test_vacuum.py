"""On PostgreSQL an erasure is complete after a vacuum, as far as a client can reach."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psycopg
import pytest
from sqlalchemy import insert, select

from expunge import DeletionRefused
from expunge.store import StoredMemory
from expunge.store.backends import tables

from ..byte_search import admit_random, files_under, needles_of, random_memory, traces
from ..conftest import Place
from ..postgres_server import Server, running_server


@pytest.fixture(scope="module")
def forgetful_server() -> Iterator[Server]:
    """A server whose log segments go when they are no longer needed, as a client cannot make them."""
    with running_server(wal_recycle="off", min_wal_size="32MB", autovacuum="off") as running:
        yield running


def test_postgresql_forgets_with_a_vacuum_as_far_as_a_client_can_reach(forgetful_server: Server, folder: Path) -> None:
    """Tables: gone after `vacuum`. The server's log: when its segments are removed, which is the server's to do."""
    place = Place("postgresql", forgetful_server.new_database(), folder / "ward.pem")
    data = forgetful_server.folder
    store = place.open()
    memory = random_memory(store)
    rng = np.random.default_rng(1)
    for _ in range(30):
        admit_random(memory, rng, payload=int(rng.choice([20, 300, 9000])))
    names = list(memory.ids[:25])
    needles = needles_of(memory, names)
    salts = {what for what in needles if what.startswith("salt")}
    memory.delete(names)
    with suppress(DeletionRefused):
        memory.prune("forget")
    forgetful_server.run("CHECKPOINT")
    tables_of = [data / "base", data / "global"]
    # A deleted row stays until it is vacuumed: this is what the guide warns of.
    assert traces(files_under(*tables_of), needles) & salts
    done = store.vacuum()
    assert done.files
    assert not done.log
    assert traces(files_under(*tables_of), needles) == set()
    # Content never is in the clear, not even in the log.
    assert traces(files_under(data), needles) <= salts
    for _ in range(2):
        forgetful_server.run("SELECT pg_switch_wal()")
        forgetful_server.run("CHECKPOINT")
    assert traces(files_under(data), needles) == set()
    assert len(store["icu"]) == len(memory)
    store.verify()
    place.close()


def test_postgresql_forgets_what_was_erased_beyond_the_cap(forgetful_server: Server, folder: Path) -> None:
    """All but three, and then the rest: after a vacuum neither their secrets nor those of earlier states are there."""
    place = Place("postgresql", forgetful_server.new_database(), folder / "ward.pem")
    store = place.open()
    memory = random_memory(store)
    needles = needles_of(memory, memory.ids)
    salts = {what for what in needles if what.startswith("salt")}
    tables_of = [forgetful_server.folder / "base", forgetful_server.folder / "global"]
    for names, outcome in ((memory.ids[3:], "refitted"), (memory.ids[:3], "emptied")):
        staying = {f"salt of {name}" for name in memory.ids if name not in names}
        assert memory.delete(names).outcome == outcome
        assert store.vacuum().files
        forgetful_server.run("CHECKPOINT")
        assert traces(files_under(*tables_of), needles) == staying <= salts
    assert store.verify().entries == 0
    place.close()


def test_a_vacuum_beside_an_older_transaction_says_what_it_left(forgetful_server: Server, folder: Path) -> None:
    """PostgreSQL keeps dead rows that anybody's snapshot still sees, even when it rewrites their table."""
    place = Place("postgresql", forgetful_server.new_database(), folder / "ward.pem")
    store = place.open()
    memory = random_memory(store)
    names = memory.ids[:3]
    salts = {what: part for what, part in needles_of(memory, names).items() if what.startswith("salt")}
    tables_of = [forgetful_server.folder / "base", forgetful_server.folder / "global"]
    with psycopg.connect(place.url) as older:
        older.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older.execute("SELECT count(*) FROM pg_class")
        memory.delete(names)
        done = store.vacuum()
        assert traces(files_under(*tables_of), salts)
        assert not done.files
        assert "older transaction" in done.remains
        assert store.erasures_waiting()[0] == 3
    done = store.vacuum()
    assert done.files
    assert store.waiting() is None
    assert "older transaction" not in done.remains
    assert traces(files_under(*tables_of), salts) == set()
    place.close()


def test_a_vacuum_without_the_right_to_checkpoint_says_so(server: Server, folder: Path) -> None:
    place = Place("postgresql", server.new_schema(), folder / "ward.pem")
    schema = place.url.rsplit("%3D", 1)[1]
    role = f"r{secrets.token_hex(4)}"
    server.run(f"CREATE ROLE {role} LOGIN")
    server.run(f"ALTER SCHEMA {schema} OWNER TO {role}")
    place.url = place.url.replace("postgres:@", f"{role}:@")
    store = place.open()
    random_memory(store).delete(subject="patient-1-of-icu")
    done = store.vacuum()
    assert not done.files
    assert not done.scanned
    assert "replicas" in done.remains
    assert "pg_statistic" in done.remains
    place.close()


def secrets_of(memory: StoredMemory, names: Iterable[str]) -> dict[str, bytes]:
    """Salts of entries."""
    return {what: part for what, part in needles_of(memory, names).items() if what.startswith("salt")}


def analysed(url: str) -> None:
    """Sample every table, as autovacuum does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


@pytest.mark.parametrize("older", [False, True], ids=["new store", "store that was sampled"])
def test_statistics_of_the_server_keep_no_salt(forgetful_server: Server, folder: Path, older: bool) -> None:
    """An attacker with `base/` decrypts erased entries with salts that ANALYZE has sampled: here none of 40."""
    place = Place("postgresql", forgetful_server.new_database(), folder / "ward.pem")
    store = place.open()
    memory = random_memory(store, size=120)
    if older:
        with psycopg.connect(place.url, autocommit=True) as connection:
            for column in ("number", "secret"):
                connection.execute(f"ALTER TABLE expunge_secrets ALTER COLUMN {column} SET STATISTICS 100".encode())
    analysed(place.url)
    names = memory.ids[:40]
    salts = secrets_of(memory, names)
    assert "vacuum" in (memory.delete(names).waiting or "")
    # Whoever asks: this is in the database.
    other = place.open()
    assert store.erasures_waiting()[0] == other.erasures_waiting()[0] == 40
    analysed(place.url)
    forgetful_server.run("CHECKPOINT")
    statistics = [forgetful_server.folder / path for path in paths_of(place.url, "pg_statistic")]
    # The attack works where the table was sampled.
    assert bool(traces(statistics, salts)) is older
    done = store.vacuum()
    assert done.files
    assert done.scanned
    assert store.waiting() is None
    assert other.waiting() is None
    assert len(traces(files_under(forgetful_server.folder / "base"), salts)) == 0
    with psycopg.connect(place.url) as connection:
        asked = "SELECT count(*) FROM pg_stats WHERE tablename IN ('expunge_secrets', 'expunge_entries')"
        assert connection.execute(asked.encode()).fetchone() == (0,)
    store.verify()
    place.close()


def paths_of(url: str, relation: str) -> list[str]:
    """Files of a relation and of its overflow table."""
    with psycopg.connect(url) as connection:
        asked = (
            "SELECT pg_relation_filepath(c.oid), pg_relation_filepath(nullif(c.reltoastrelid, 0)) "
            "FROM pg_class c WHERE c.oid = to_regclass(%s)"
        )
        found = connection.execute(asked.encode(), [relation]).fetchone()
    return [path for path in found or () if path is not None]


def test_no_column_that_tells_of_entries_or_names_is_sampled(postgres_place: Place) -> None:
    store = postgres_place.open()
    memory = random_memory(store, size=60)
    memory.prune("forget")
    store.hold("icu", memory.ids[0], reason="court")
    memory.delete(memory.ids[1], idempotency_key="k")
    analysed(postgres_place.url)
    with psycopg.connect(postgres_place.url) as connection:
        asked = "SELECT DISTINCT tablename FROM pg_stats WHERE schemaname = current_schema()"
        sampled = {row[0] for row in connection.execute(asked.encode())}
    assert sampled <= {f"expunge_{name}" for name in ("ledger", "leaves", "nodes", "checkpoints", "keys", "schema")}
    assert "expunge_leaves" in sampled


@pytest.mark.parametrize("where", ["statistics", "a table of the store"])
def test_a_vacuum_finds_a_copy_of_a_secret(
    forgetful_server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The scan is no formality: what the steps before it have left, it finds, and names the place."""
    place = Place("postgresql", forgetful_server.new_database(), folder / "ward.pem")
    store = place.open()
    memory = random_memory(store, size=60)
    with psycopg.connect(place.url, autocommit=True) as connection:
        if where == "statistics":
            connection.execute("ALTER TABLE expunge_secrets ALTER COLUMN secret SET STATISTICS 100")
            connection.execute("ANALYZE expunge_secrets")
            monkeypatch.setattr("expunge.store.backends.postgres.remove_statistics", lambda _: None)
        else:
            copy = (
                "INSERT INTO expunge_requests SELECT decode(md5(number::text), 'hex'), secret, 0 FROM expunge_secrets"
            )
            connection.execute(copy.encode())
    memory.delete(memory.ids[:5])
    done = store.vacuum()
    assert not done.files
    assert ("pg_statistic" if where == "statistics" else "expunge_requests") in done.remains
    place.close()


def test_the_name_of_a_dropped_memory_goes_with_a_vacuum(forgetful_server: Server, folder: Path) -> None:
    """Tokens that were for this memory go with it."""
    place = Place("postgresql", forgetful_server.new_database(), folder / "ward.pem")
    store, name = place.open(), f"ward-{secrets.token_hex(8)}"
    random_memory(store, name)
    of_memory = {"scopes": "read", "memory": name, "note": "", "created": 0, "expires": None, "revoked": None}
    with store.writing("tokens") as connection:
        connection.execute(insert(tables.tokens), {"name": "0" * 12, "hash": b"hash", **of_memory})
        connection.commit()
    analysed(place.url)
    store.drop(name, idempotency_key="k")
    with store.reading() as connection:
        assert connection.rows(select(tables.tokens)) == []
    tables_of = [forgetful_server.folder / "base", forgetful_server.folder / "global"]
    forgetful_server.run("CHECKPOINT")
    assert traces(files_under(*tables_of), {"name": name.encode()})
    assert store.vacuum().files
    assert traces(files_under(*tables_of), {"name": name.encode()}) == set()
    place.close()
