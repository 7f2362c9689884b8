"""A process that is behind takes over the net change, and has the very memory that a fresh load gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from expunge.errors import ExpungeError
from expunge.store import Store, StoredMemory, rows, version_cache
from expunge.store.backends.tables import states
from expunge.store.rows import encrypted_state

from .conftest import Place
from .sample_memory import SAMPLE_EDITS, appearance, arrival, fill


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each memory that is loaded as a whole."""
    found: list[int] = []
    load = rows.load_memory

    def counted(connection: Any, number: int, **options: Any) -> Any:
        found.append(number)
        return load(connection, number, **options)

    monkeypatch.setattr(version_cache, "load_memory", counted)
    return found


def two_workers(place: Place, size: int = 40) -> tuple[StoredMemory, Store, StoredMemory]:
    memory = fill(place.open(), size=size)
    second = place.open()
    behind = second["icu"]
    behind.read(np.zeros((1, 4)))
    return memory, second, behind


def require_equal(behind: StoredMemory, memory: StoredMemory, place: Place) -> None:
    """The same memory as the one that was edited and as one that is loaded, and the same row, byte for byte."""
    fresh = place.open()
    loaded = fresh["icu"]
    assert appearance(behind) == appearance(memory) == appearance(loaded)
    assert behind.digest == loaded.digest
    assert behind.edit == loaded.edit
    query = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    for ask in (StoredMemory.read, StoredMemory.score):
        if len(loaded):
            assert ask(behind, query).tobytes() == ask(loaded, query).tobytes()
    version, current = behind.version, behind.versions._loaded
    assert current is not None
    with fresh.reading() as connection:
        stored = connection.value(select(states.c.state).where(states.c.memory == behind.number))
    assert encrypted_state(version, current.forgotten) == stored


@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("name", SAMPLE_EDITS)
def test_one_edit(place: Place, name: str, ready: bool) -> None:
    """A worker that has never edited the memory follows without rows, and one that has with them."""
    memory, _, behind = two_workers(place)
    if ready:
        behind.make_ready()
    try:
        SAMPLE_EDITS[name](memory)
    except ExpungeError:
        pytest.skip("nothing was done")
    require_equal(behind, memory, place)
    behind.make_ready()
    require_equal(behind, memory, place)


def test_following_builds_no_rows(place: Place, loads: list[int]) -> None:
    memory, _, behind = two_workers(place)
    loads.clear()
    for name in ("admit-outlier", "delete-active", "admit-copy", "delete-one-of-a-pair", "delete-subject"):
        SAMPLE_EDITS[name](memory)
        assert behind.digest == memory.digest
        assert not behind.version.state.ready
        assert not behind.version.state.gram.count
    assert not loads
    behind.admit(**arrival(5))
    assert behind.version.state.ready
    require_equal(memory, behind, place)


def test_only_what_is_new_is_read(place: Place, loads: list[int]) -> None:
    """What was admitted and erased in between is gone for good, and is not missed."""
    memory, _, behind = two_workers(place)
    loads.clear()
    for number in range(6):
        memory.admit(**arrival(number))
    memory.delete(["new-0", "new-3", "e4"])
    memory.delete(subject="patient-6")
    memory.admit(**arrival(3))
    require_equal(behind, memory, place)
    assert loads == [memory.number], "that of the fresh process"


def test_edits_follow_on_edits(place: Place, loads: list[int]) -> None:
    """Two processes in turn, through compactions, with entries that take each other's ids."""
    memory, _, behind = two_workers(place)
    loads.clear()
    for turn in range(60):
        here, there = (memory, behind) if turn % 2 else (behind, memory)
        for number in range(3 * turn, 3 * turn + 3):
            here.admit(**arrival(number))
        here.delete([f"new-{number}" for number in range(3 * turn, 3 * turn + 2)])
        if turn:
            there.delete(f"new-{3 * turn - 1}")
            there.admit(**arrival(3 * turn))
            here.delete(f"new-{3 * turn}")
    assert loads == []
    require_equal(behind, memory, place)
    require_equal(memory, behind, place)


@pytest.mark.parametrize("mode", ["archive", "forget"])
def test_pruned_entries(place: Place, loads: list[int], mode: Any) -> None:
    """Archived ones return or go, certificates end, and none of it loads the memory."""
    memory, _, behind = two_workers(place, 80)
    names = memory.prune(mode).applied
    behind.read(np.zeros((1, 4)))
    loads.clear()
    edits: list[Callable[[], Any]] = [
        lambda: memory.admit(**arrival(1)),
        lambda: memory.delete(names[0]),
        lambda: memory.delete([memory.ids[int(row)] for row in memory.partition.bound[:3]]),
        lambda: memory.delete([memory.ids[int(row)] for row in memory.partition.margin[:2]]),
        lambda: memory.delete(names[1:3]),
    ]
    for edit in edits:
        edit()
        loads.clear()
        behind.read(np.zeros((1, 4)))
        assert loads == []
        require_equal(behind, memory, place)


def test_a_refusal_and_what_loads_afresh(place: Place, loads: list[int]) -> None:
    memory, _, behind = two_workers(place)
    loads.clear()
    memory.rebuild(nu=0.5)
    behind.read(np.zeros((1, 4)))
    assert loads == [memory.number], "another cap is another problem"
    require_equal(behind, memory, place)
    loads.clear()
    memory.delete(memory.ids)
    memory.admit(**arrival(1))
    behind.read(np.zeros((1, 4)))
    assert loads == [memory.number]
    require_equal(behind, memory, place)


def test_what_another_wrote_wrongly_is_found(place: Place) -> None:
    """A state under the right secrets that is not that of the entries is refused, as a fresh load refuses it."""
    memory, _, behind = two_workers(place)
    before = behind.digest
    memory.admit(**arrival(1))
    with place.open().writing("icu") as connection:
        connection.execute(states.update().values(digest=bytes(32)))
        connection.commit()
    with pytest.raises(ExpungeError, match="digest"):
        behind.read(np.zeros((1, 4)))
    loaded = behind.versions._loaded
    assert loaded is not None
    assert loaded.memory.digest == before, "what was loaded is as it was"
    assert "new-1" not in loaded.memory.version.entries.slot_of


def test_a_preview_under_way_is_not_disturbed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who finds the memory in use by a preview does not wait for it long, and loads one of its own."""
    from threading import Thread

    from expunge.store import catch_up

    monkeypatch.setattr(catch_up, "PATIENCE", 0.01)
    memory, _, behind = two_workers(place)
    loaded = behind.versions._loaded
    assert loaded is not None
    memory.delete("e7")
    seen: list[tuple[str, ...]] = []
    with loaded.memory.held():
        reader = Thread(target=lambda: seen.append(behind.ids))
        reader.start()
        reader.join(30)
        assert loaded.memory.version.slot("e7") is not None
    assert "e7" not in seen[0]
    require_equal(behind, memory, place)
