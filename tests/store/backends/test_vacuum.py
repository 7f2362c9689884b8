"""On PostgreSQL an erasure is complete after a vacuum, as far as a client can reach."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psycopg
import pytest

from expunge import DeletionRefused

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
    done = store.vacuum()
    assert done.files
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
    assert "replicas" in done.remains
    place.close()
