"""A dry run tells what an edit would do, and writes nothing."""

from __future__ import annotations

import pytest

from expunge import InputError
from expunge.memory.receipt import FORGET_NOTICE
from expunge.store import (
    Conflict,
    Preview,
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
    assert 0 < told.readout_change < 1
    calm = memory.delete(reserve, dry_run=True)
    assert (calm.outcome, calm.changed_coefficients, calm.readout_change) == ("certified_zero", 0, 0.0)
    refused = memory.delete(list(memory.ids[:35]), dry_run=True)
    assert refused.outcome == "refused"
    assert "needs at least" in (refused.reason or "")
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
