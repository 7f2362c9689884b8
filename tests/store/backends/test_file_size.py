"""The size of a SQLite file and its free pages do not tell how large an erased payload was.

What may stay is one page that was split for the row of the entry: until a vacuum, it tells that the row did not fit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import expunge
from attackers.fixed_salts import fixed_salts
from expunge.store import Store, StoredMemory

from ..sample_memory import entries, fill

ARRIVAL: dict[str, Any] = {"key": np.ones(4), "value": np.zeros(2), "id": "x"}


def pages_of(file: Path) -> dict[str, int]:
    """Size of the file, and its pages by SQLite's own count."""
    with closing(sqlite3.connect(file)) as connection:
        found = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")}
    return found | {"bytes": file.stat().st_size}


def erase_by_id(store: Store, memory: StoredMemory) -> None:
    assert memory.delete("x").waiting is None


def erase_by_drop(store: Store, memory: StoredMemory) -> None:
    store.drop("icu")


def erase_by_subject(store: Store, memory: StoredMemory) -> None:
    store.erase_subject("mallory", idempotency_key="k")


@pytest.mark.parametrize("erase", [erase_by_id, erase_by_drop, erase_by_subject])
def test_the_file_does_not_tell_the_size_of_what_was_erased(
    folder: Path, erase: Callable[[Store, StoredMemory], None]
) -> None:
    seen = []
    for size in (10, 6_000, 200_000):
        file = folder / f"{size}.db"
        with expunge.open(f"sqlite:///{file}", signing_key=folder / "ward.pem") as store:
            # Rows lie in the order of their commitments, so pages are equal for equal salts.
            with fixed_salts() as salts:
                salts.of(entries()["ids"])
                memory = fill(store)
                salts.of(["x"])
                memory.admit(**ARRIVAL, subject="mallory", payload="a" * size)
            held = pages_of(file)["page_count"]
            erase(store, memory)
            seen.append(pages_of(file))
            store.verify()
        assert seen[-1]["page_count"] < held or size < 200_000
        assert seen[-1]["freelist_count"] == 0
        assert seen[-1]["bytes"] == seen[-1]["page_count"] * 4096
    counts = [pages["page_count"] for pages in seen]
    assert max(counts) - min(counts) <= (0 if erase is erase_by_drop else 1)


def test_a_reader_delays_it_until_the_erasure_is_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expunge.store.backends.sqlite._TRUNCATE_WAIT", 0.1)
    file = folder / "ward.db"
    with expunge.open(f"sqlite:///{file}", signing_key=folder / "ward.pem") as store:
        memory = store.create("icu", **entries(), sigma=2.0, nu=0.3)
        memory.admit(**ARRIVAL, payload="a" * 200_000)
        store.checkpoint()
        before = file.stat().st_size
        with closing(sqlite3.connect(file, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM expunge_secrets").fetchone()
            assert memory.delete("x").waiting is not None
        store.retry_erasures()
        assert store.waiting() is None
        assert pages_of(file)["freelist_count"] == 0
        assert file.stat().st_size < max(before, 200_000)


def test_a_vacuum_brings_an_older_file_to_the_setting(folder: Path) -> None:
    file = folder / "ward.db"
    with closing(sqlite3.connect(file)) as older:
        older.execute("PRAGMA journal_mode = WAL")
        older.execute("CREATE TABLE made_before (number)")
    file.chmod(0o600)
    with expunge.open(f"sqlite:///{file}", signing_key=folder / "ward.pem") as store:
        memory = fill(store)
        free = []
        for _ in range(2):
            memory.admit(**ARRIVAL, payload="a" * 200_000)
            memory.delete("x")
            free.append(pages_of(file)["freelist_count"])
            store.vacuum()
    assert free[0] > 40
    assert free[1] == 0
