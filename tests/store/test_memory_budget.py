"""What a process holds of memories under a budget: rows go before keys, and the least recently used first."""

from __future__ import annotations

import numpy as np
import pytest

from expunge.errors import InputError
from expunge.store import Store, StoredMemory, memory_budget
from expunge.store.memory_budget import byte_count, editing_bytes, loaded_bytes

from .conftest import Place
from .sample_memory import arrival, fill

NAMES = ("first", "second", "third")


@pytest.fixture(autouse=True)
def measured_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "MEASURED_SECONDS", 0.0)


def worker(place: Place) -> tuple[Store, list[StoredMemory]]:
    """A process that has edited three memories, one after the other, without a limit so far."""
    filling = place.open()
    for seed, name in enumerate(NAMES):
        fill(filling, name, size=200, seed=seed)
    store = place.open()
    store.budget.limit = 1 << 40
    stored = [store[name] for name in NAMES]
    for memory in stored:
        memory.admit(**arrival(1))
        memory.read(np.zeros(4))
    return store, stored


def held(memory: StoredMemory) -> str:
    loaded = memory.versions._loaded
    if loaded is None:
        return "nothing"
    return "rows" if loaded.memory.version.state.ready else "keys"


def test_what_is_counted_is_what_is_held(sqlite_place: Place) -> None:
    store, stored = worker(sqlite_place)
    for memory in stored:
        whole, editing = loaded_bytes(memory.versions.current()), editing_bytes(memory.versions.current())
        version = memory.version
        assert whole > editing > version.state.gram.rows.nbytes
        assert whole - editing > version.state.gram.keys.nbytes + version.values.nbytes
    assert store.budget.taken > sum(memory.version.state.gram.keys.nbytes for memory in stored)


def test_rows_go_before_keys_and_the_least_recently_used_first(sqlite_place: Place) -> None:
    store, (first, second, third) = worker(sqlite_place)
    budget = store.budget
    answers = {memory.name: memory.read(np.ones((1, 4))).tobytes() for memory in (first, second, third)}
    assert [held(memory) for memory in (first, second, third)] == ["rows"] * 3
    # One byte too many: the one that was used longest ago lets go of its rows.
    budget.limit = budget.taken - 1
    third.read(np.zeros(4))
    assert [held(memory) for memory in (first, second, third)] == ["keys", "rows", "rows"]
    budget.limit = budget.taken - 1
    third.read(np.zeros(4))
    assert [held(memory) for memory in (first, second, third)] == ["keys", "keys", "rows"]
    # Nothing is left to let go of but everything.
    budget.limit = budget.taken - 1
    third.read(np.zeros(4))
    assert [held(memory) for memory in (first, second, third)] == ["nothing", "keys", "rows"]
    # The memory in use stays, however large it is.
    budget.limit = 1
    third.read(np.zeros(4))
    assert [held(memory) for memory in (first, second, third)] == ["nothing", "nothing", "rows"]
    budget.limit = 1 << 40
    assert answers == {memory.name: memory.read(np.ones((1, 4))).tobytes() for memory in (first, second, third)}


def test_what_was_let_go_of_is_overwritten_and_edited_again(sqlite_place: Place) -> None:
    store, (first, second, third) = worker(sqlite_place)
    state = first.version.state
    gram, rows, factor = state.gram, state.gram.rows, state.margin.factor
    assert rows.any()
    assert factor.any()
    second.read(np.zeros(4))
    third.read(np.zeros(4))
    store.budget.limit = store.budget.taken - 1
    third.read(np.zeros(4))
    assert held(first) == "keys"
    assert not rows.any()
    assert not factor.any()
    assert first.version.state.gram is gram
    margin = first.ids[int(first.partition.margin[0])]
    assert first.delete(margin).outcome == "decrement"
    assert first.check().passed
    again = sqlite_place.open()["first"]
    assert (again.digest, again.ids) == (first.digest, first.ids)


def test_a_memory_that_is_edited_keeps_its_rows(sqlite_place: Place) -> None:
    store, (first, second, third) = worker(sqlite_place)
    with first.locked_version():
        store.budget.limit = store.budget.taken - 1
        third.read(np.zeros(4))
        assert [held(memory) for memory in (first, second, third)] == ["rows", "keys", "rows"]


def test_opened_entries_are_counted_and_let_go(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    filling = sqlite_place.open()
    for seed, name in enumerate(NAMES):
        fill(filling, name, size=200, seed=seed)
    monkeypatch.setattr("expunge.store.version_cache.LOADED_WHOLE", 0)
    store = sqlite_place.open()
    store.budget.limit = 1 << 40
    first, second, _ = (store[name] for name in NAMES)
    first.read(np.zeros(4))
    assert 0 < store.budget.taken < loaded_bytes(filling["first"].versions.current())
    store.budget.limit = store.budget.taken
    second.read(np.zeros(4))
    assert first.versions._opened is None
    assert second.versions._opened is not None


@pytest.mark.parametrize(
    ("text", "count"), [("3G", 3 << 30), ("512M", 512 << 20), ("1KiB", 1024), (7, 7), (None, None)]
)
def test_byte_counts(text: str | int | None, count: int | None) -> None:
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "3X", 0, -1])
def test_no_byte_counts(text: str | int) -> None:
    with pytest.raises(InputError, match="memory budget"):
        byte_count(text)
