"""On SQLite a vacuum reads its files afterwards, and finds secrets where none should be."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select

from expunge.store.backends import tables

from ..byte_search import files_under, needles_of, random_memory, traces
from ..conftest import Place


def test_a_vacuum_reads_the_files_and_finds_them_clean(sqlite_place: Place, folder: Path) -> None:
    store = sqlite_place.open()
    memory = random_memory(store, size=60)
    random_memory(store, "other", seed=1)
    needles = needles_of(memory, memory.ids[:40])
    memory.delete(memory.ids[:40])
    done = store.vacuum()
    assert (done.files, done.log, done.scanned) == (True, True, True)
    assert traces(files_under(folder), needles) == set()


def test_a_vacuum_finds_a_copy_of_a_secret(sqlite_place: Place) -> None:
    """A copy of one that exists: by the same way erased ones may be copied."""
    store = sqlite_place.open()
    random_memory(store)
    with store.writing("test") as connection:
        secret = connection.value(select(tables.secrets.c.secret))
        connection.execute(insert(tables.requests), {"key_hash": b"k", "answer": b"x" + secret, "created": 2**60})
        connection.commit()
    done = store.vacuum()
    assert done.scanned
    assert not done.files
    assert "more than once" in done.remains


def test_a_vacuum_finds_an_erased_secret_that_a_reader_keeps(
    sqlite_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the write-ahead log, as a row of the table of secrets."""
    monkeypatch.setattr("expunge.store.backends.sqlite._TRUNCATE_WAIT", 0.1)
    store, other = sqlite_place.open(), sqlite_place.open()
    memory = random_memory(store)
    with other._database.reading() as connection:
        connection.execute(select(tables.memories)).all()
        memory.delete(memory.ids[3])
        done = store.vacuum()
        assert not done.files
        assert "erased secrets" in done.remains
    assert store.vacuum().files
