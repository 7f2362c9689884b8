"""A process that is not asked about a memory does not keep what another has erased from it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from expunge.memory.memory import Memory
from expunge.store import Store, StoredMemory

from .conftest import Place
from .sample_memory import appearance, arrival, fill

pytestmark = pytest.mark.long


def loaded_memory(memory: StoredMemory) -> Memory | None:
    loaded = memory.versions._loaded
    return None if loaded is None else loaded.memory


def buffers(memory: StoredMemory) -> dict[str, Any]:
    """The arrays and lists that hold content, to be looked at when the memory is gone."""
    loaded = loaded_memory(memory)
    assert loaded is not None
    entries, gram = loaded.version.entries, loaded.version.state.gram
    arrays = {name: getattr(entries, name) for name in ("values", "blinds", "commitments")}
    arrays |= {"keys": gram.keys, "rows": gram.rows, "factor": loaded.version.state.margin.factor}
    lists = {name: getattr(entries, name) for name in ("ids", "subjects", "payloads", "salts", "slot_of", "slots_of")}
    return arrays | lists | {"site_of_key": loaded.version.site_of_key}


def still_filled(held: dict[str, Any]) -> list[str]:
    return [name for name, part in held.items() if (part.any() if isinstance(part, np.ndarray) else len(part))]


def two_workers(place: Place) -> tuple[Store, StoredMemory, Store, StoredMemory]:
    first, second = place.open(), place.open()
    memory = fill(first)
    idle = second["icu"]
    # With rows and a factor, as after an edit.
    idle.make_ready()
    return first, memory, second, idle


def holds_of(memory: Memory, name: str) -> list[str]:
    """Where a loaded memory still has an entry, which another process has erased."""
    data = memory.version.entries
    known: dict[str, set[str | None]] = {
        "ids": set(data.ids),
        "slot_of": {*data.slot_of},
        "archive": {*memory.version.warranties.archive},
    }
    return [place for place, held in known.items() if name in held]


def test_an_idle_process_overwrites_what_another_has_erased(place: Place) -> None:
    _, memory, second, idle = two_workers(place)
    loaded = loaded_memory(idle)
    assert loaded is not None
    slot = loaded.version.slot("e7")
    assert slot is not None
    data, keys = loaded.version.entries, loaded.version.state.gram.keys
    site, salt = data.site[slot], data.salts[slot]
    second.retry_erasures()
    assert loaded.version.slot("e7") == slot, "a version that is not behind stays"
    memory.delete("e7")
    second.retry_erasures()
    assert loaded_memory(idle) is loaded
    assert loaded.version.slot("e7") is None
    assert holds_of(loaded, "e7") == []
    assert salt not in data.salts
    assert not any(array[slot].any() for array in (data.values, data.blinds, data.commitments))
    assert not keys[site].any()
    assert appearance(idle) == appearance(memory)
    second.verify()


def test_garbage_that_holds_a_version_is_collected(place: Place) -> None:
    """An error with its frames is such garbage: it refers to itself, and to the version that was in hand."""
    _, memory, second, idle = two_workers(place)
    held = buffers(idle)
    gc.disable()
    try:
        circle: list[Any] = [idle.version]
        circle.append(circle)
        del circle
        second.retry_erasures()
        memory.rebuild(nu=0.5)
        second.retry_erasures()
        assert still_filled(held) == []
    finally:
        gc.enable()


def test_an_archived_entry_that_another_has_deleted_goes_too(place: Place) -> None:
    """It is not part of the digest, so the number of the edit tells."""
    _, memory, second, idle = two_workers(place)
    name = memory.prune("archive").applied[0]
    idle.read(np.zeros((1, 4)))
    digest, loaded = memory.digest, loaded_memory(idle)
    assert loaded is not None
    memory.delete(name)
    assert memory.digest == digest
    second.retry_erasures()
    assert loaded_memory(idle) is loaded
    assert holds_of(loaded, name) == []
    assert name not in {row.id for row in idle.warranties()}


def test_an_idle_process_lets_go_of_a_memory_that_another_has_dropped(place: Place) -> None:
    first, _, second, idle = two_workers(place)
    held = buffers(idle)
    first.drop("icu")
    second.retry_erasures()
    assert second._opened == {}
    assert still_filled(held) == []
    again = fill(first)
    assert appearance(second["icu"]) == appearance(again)


def test_whoever_drops_or_loads_anew_lets_go_as_well(place: Place) -> None:
    first, memory, _, idle = two_workers(place)
    held = buffers(idle)
    memory.rebuild(nu=0.5)
    idle.read(np.zeros((1, 4)))
    assert still_filled(held) == []
    dropped = buffers(memory)
    first.drop("icu")
    assert still_filled(dropped) == []


def test_a_reader_keeps_its_version_until_it_ends(place: Place) -> None:
    _, memory, second, idle = two_workers(place)
    held, version, keys = buffers(idle), idle.version, idle.keys
    readout = memory.read(np.ones((1, 4)))
    memory.rebuild(nu=0.5)
    second.retry_erasures()
    assert np.array_equal(version.readout(np.ones((1, 4))), readout)
    assert len(still_filled(held)) == len(held)
    del version
    gc.collect()
    assert still_filled(held) == []
    assert keys.any(), "what a caller was given is the caller's"


def test_an_edit_of_this_process_keeps_the_loaded_version(place: Place) -> None:
    _, memory, second, idle = two_workers(place)
    idle.admit(**arrival(1))
    kept = loaded_memory(idle)
    second.retry_erasures()
    assert loaded_memory(idle) is kept
    assert appearance(memory) == appearance(idle)


@pytest.mark.parametrize("left", [0, 3])
def test_an_idle_process_lets_go_of_what_another_has_erased_beyond_the_cap(place: Place, left: int) -> None:
    _, memory, second, idle = two_workers(place)
    memory.prune("archive")
    idle.read(np.zeros((1, 4)))
    held = buffers(idle)
    memory.delete([*memory.ids, *memory.version.warranties.archive][left:])
    assert len(memory) == left
    second.retry_erasures()
    assert loaded_memory(idle) is None
    assert still_filled(held) == []
    assert appearance(idle) == appearance(memory)


@pytest.mark.parametrize("left", [0, 3])
def test_the_process_that_erases_beyond_the_cap_keeps_nothing_of_it(store: Store, left: int) -> None:
    """The version before is overwritten where it had what was erased."""
    memory = fill(store)
    before, gone = memory.version, memory.ids[left:]
    rows = np.array([before.entries.slot_of[name] for name in gone])
    keys = before.state.gram.keys[before.entries.site[rows]]
    salts = [before.entries.salts[row] for row in rows.tolist()]
    assert keys.any()
    memory.delete(gone)
    for version in (before, memory.version):
        entries, gram = version.entries, version.state.gram
        assert not set(salts) & set(entries.salts)
        assert not set(gone) & {*entries.ids, *entries.slot_of}
        assert not any(
            (gram.keys == key).all(axis=1).any() for key in keys if not (memory.keys == key).all(axis=1).any()
        )
    assert not before.entries.values[rows].any()
    assert not before.entries.blinds[rows].any()
