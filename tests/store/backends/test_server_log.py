"""A PostgreSQL server that logs every statement with its parameters logs no secret."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from expunge.store import Store
from expunge.store.backends import tables

from ..byte_search import random_memory
from ..conftest import Place
from ..postgres_server import Server, running_server


@pytest.fixture(scope="module")
def talkative_server() -> Iterator[Server]:
    """A server that logs whatever it can."""
    with running_server(
        log_statement="all", log_min_duration_statement="0", log_parameter_max_length_on_error="-1"
    ) as running:
        yield running


def logged(server: Server) -> str:
    """What the server has logged, once it has logged a statement of ours."""
    word = f"marker-{time.monotonic_ns()}"
    server.run(f"SELECT '{word}'")
    for _ in range(100):
        text = "".join(
            file.read_text(errors="replace")
            for file in server.folder.rglob("*")
            if file.is_file() and ("log" in file.name or file.parent.name == "log") and "xlog" not in file.name
        )
        if word in text:
            return text
        time.sleep(0.05)
    raise AssertionError("the server writes no log")


def secrets_in(store: Store) -> list[bytes]:
    with store._database.reading() as connection:
        return connection.values(select(tables.secrets.c.secret))


def test_a_server_log_shows_no_secret(talkative_server: Server, folder: Path) -> None:
    """Creation, admission, pruning, a hold, an erasure, a failure, backup, restore and vacuum."""
    place = Place("postgresql", talkative_server.new_schema(), folder / "ward.pem")
    store = place.open()
    memory = random_memory(store)
    known = set(secrets_in(store))
    memory.admit([1.0, 2.0, 3.0, 4.0], [1.0, 2.0], id="new", subject="s", payload="note")
    memory.prune("forget")
    hold = store.hold("icu", memory.ids[0], reason="court")
    known |= set(secrets_in(store))
    store.backup(folder / "backup.db")
    memory.delete(memory.ids[3])
    store.release(hold)
    with store._database.writing("test") as connection:
        rows = connection.rows(select(tables.secrets))
        with pytest.raises(IntegrityError, match="duplicate key"):
            store._database.insert_secrets(connection, {rows[0].number: rows[0].secret})
    other = Place("postgresql", talkative_server.new_schema(), folder / "ward.pem")
    restored = other.open()
    restored.restore(folder / "backup.db", ledger=store)
    known |= set(secrets_in(restored))
    restored.vacuum()
    text = logged(talkative_server).lower()
    # The log does have what is a parameter: the numbers of rows.
    assert str(rows[0].number) in text
    assert len(known) > 40
    assert [secret for secret in known if secret.hex() in text or secret[:8].hex() in text] == []
    place.close()
    other.close()
