"""A process that is not asked about a memory does not keep what another has erased from it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from expunge.memory.memory import Memory
from expunge.store import Store, StoredMemory

from .conftest import Place
from .sample_memory import appearance, arrival, fill


def loaded_memory(memory: StoredMemory) -> Memory | None:
    loaded = memory._versions._loaded
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
    idle.read(np.zeros((1, 4)))
    return first, memory, second, idle


def test_an_idle_process_lets_go_of_what_another_has_erased(place: Place) -> None:
    _, memory, second, idle = two_workers(place)
    held = buffers(idle)
    assert len(still_filled(held)) == len(held)
    second.retry_erasures()
    assert loaded_memory(idle) is not None, "a version that is not behind stays"
    memory.delete("e7")
    second.retry_erasures()
    assert loaded_memory(idle) is None
    assert still_filled(held) == []
    assert appearance(idle) == appearance(memory)
    second.verify()


def test_an_archived_entry_that_another_has_deleted_goes_too(place: Place) -> None:
    """It is not part of the digest, so the number of the edit tells."""
    _, memory, second, idle = two_workers(place)
    name = memory.prune("archive").applied[0]
    idle.read(np.zeros((1, 4)))
    digest, held = memory.digest, buffers(idle)
    memory.delete(name)
    assert memory.digest == digest
    second.retry_erasures()
    assert still_filled(held) == []
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
    memory.delete("e7")
    idle.read(np.zeros((1, 4)))
    assert still_filled(held) == []
    dropped = buffers(memory)
    first.drop("icu")
    assert still_filled(dropped) == []


def test_a_reader_keeps_its_version_until_it_ends(place: Place) -> None:
    _, memory, second, idle = two_workers(place)
    held, version, keys = buffers(idle), idle.version, idle.keys
    readout = memory.read(np.ones((1, 4)))
    memory.delete("e7")
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
