"""A dry run tells what an edit would do, and writes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from expunge import AdmissionRefused, InputError
from expunge.memory.receipt import FORGET_NOTICE
from expunge.store import (
    Conflict,
    Preview,
    Store,
    StoredMemory,
)

from ..conftest import Place
from ..sample_memory import appearance, arrival, fill, row_counts


def test_a_dry_run_tells_and_writes_nothing(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    bound = memory.ids[int(memory.partition.bound[0])]
    reserve = memory.ids[int(memory.partition.reserve[0])]
    rows, before, outcomes = row_counts(store), appearance(memory), memory._current().outcomes.copy()
    told = memory.delete(bound, dry_run=True)
    assert isinstance(told, Preview)
    assert (told.outcome, told.applied, told.size) == ("decrement", (bound,), 39)
    assert told.deletable == memory.deletable - 1
    assert told.changed_coefficients > 0
    assert told.readout_bound is not None
    assert 0 < told.readout_change < 1
    assert told.readout_bound > 0
    assert "inside the boundary" in told.readout_text
    calm = memory.delete(reserve, dry_run=True)
    assert (calm.outcome, calm.changed_coefficients, calm.readout_change) == ("certified_zero", 0, 0.0)
    assert (calm.readout_bound, calm.readout_text) == (0.0, "does not change, at any query")
    few = memory.delete(list(memory.ids[:35]), dry_run=True)
    assert (few.outcome, few.size, len(few.applied)) == ("refitted", 5, 35)
    assert few.cap > memory.cap == told.cap
    none = memory.delete(memory.ids, dry_run=True)
    assert (none.outcome, none.size, none.cap, none.deletable) == ("emptied", 0, 1.0, 0)
    assert (none.probes, none.readout_bound, none.changed_coefficients, none.readout_text) == (0, None, 0, "")
    assert memory.prune(dry_run=True).outcome == "pruned"
    assert memory.admit(**arrival(1, far=3.0), dry_run=True).outcome == "admitted"
    assert "new-1" not in memory
    assert memory.delete([], dry_run=True).outcome == "noop"
    with pytest.raises(InputError):
        memory.delete("nobody", dry_run=True)
    with pytest.raises(Conflict):
        memory.delete(bound, dry_run=True, expected="0" * 64)
    assert row_counts(store) == rows
    assert appearance(memory) == before
    assert memory._current().outcomes == outcomes
    # It was not far from the truth.
    receipt = memory.delete(bound)
    assert (receipt.outcome, receipt.applied, len(memory)) == (told.outcome, told.applied, told.size)
    assert memory.deletable == told.deletable
    store.verify()


def test_a_dry_run_tells_what_ends_the_certificates_of_forgotten_entries(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    assert memory.prune(dry_run=True).notice is None
    told = memory.prune("forget", dry_run=True)
    assert told.notice == FORGET_NOTICE
    done = memory.prune("forget")
    assert done.applied == told.applied
    assert FORGET_NOTICE in done.covers
    memory.admit(**arrival(1))
    assert memory.delete("new-1", dry_run=True).ended == ()
    victim = next(name for name in memory.ids if name != "new-1")
    assert set(memory.delete(victim, dry_run=True).ended) == set(done.applied)
    assert memory.delete(victim).details["ended"] == list(done.applied)
    assert memory.delete(memory.ids[0], dry_run=True).ended == ()


def holds_anything_of(memory: StoredMemory, shown: dict[str, Any]) -> list[str]:
    """Which parts of an entry that was not admitted are in the loaded memory."""
    version = memory._current().version
    entries, gram = version.entries, version.state.gram
    found = {
        "key": bool((gram.keys == shown["key"]).all(axis=1).any()),
        "site": np.asarray(shown["key"]).tobytes() in version.site_of_key,
        "value": bool((entries.values == shown["value"]).all(axis=1).any()),
        "id": shown["id"] in entries.ids or shown["id"] in entries.slot_of,
        "subject": shown["subject"] in entries.subjects or shown["subject"] in entries.slots_of,
        "payload": any(shown["payload"].encode() in (payload or b"") for payload in entries.payloads),
        "salt": len(entries.salts) > version.count or bool(entries.blinds[version.count :].any()),
        "kernels": bool(gram.rows[:, version.state.sites :].any()),
    }
    return [name for name, there in found.items() if there]


def test_a_dry_run_leaves_nothing_of_what_was_shown_to_it(store: Store) -> None:
    memory = fill(store)
    before, outcomes = appearance(memory), memory._current().outcomes.copy()
    for far in (0.5, 3.0):
        shown = arrival(1, far=far) | {"subject": "mallory"}
        assert memory.admit(**shown, dry_run=True).outcome == "admitted"
        assert holds_anything_of(memory, shown) == []
    assert appearance(memory) == before
    assert memory._current().outcomes == outcomes
    assert memory.admit(**shown).outcome == "admitted"
    assert len(holds_anything_of(memory, shown)) > 4
    store.verify()


def test_a_refused_admission_leaves_nothing_of_what_was_shown_to_it(store: Store) -> None:
    memory = fill(store)
    memory.prune("forget")
    ending = 0
    while not memory.admit(**arrival(ending, far=3.0), dry_run=True).expired:
        memory.admit(**arrival(ending, far=3.0))
        ending += 1
    shown = arrival(ending, far=3.0) | {"subject": "mallory"}
    before = appearance(memory)
    for dry_run in (True, False):
        if dry_run:
            assert memory.admit(**shown, on_expiry="refuse", dry_run=True).outcome == "refused"
        else:
            with pytest.raises(AdmissionRefused, match="would end"):
                memory.admit(**shown, on_expiry="refuse")
        assert holds_anything_of(memory, shown) == []
    assert appearance(memory) == before
    assert memory._current().outcomes["refused"] == 1
    store.verify()
