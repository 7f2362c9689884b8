"""A data subject is erased in every memory, with one summary."""

from __future__ import annotations

import pytest

from expunge import InputError
from expunge.store import (
    Conflict,
    Store,
    parse_event,
    subject_commitment,
)

from .conftest import Place
from .sample_memory import SIGMA, entries, fill


def test_a_subject_is_erased_everywhere_with_one_summary(place: Place) -> None:
    store = place.open()
    for name, seed in (("cardiology", 1), ("icu", 0), ("neurology", 2)):
        fill(store, name, seed=seed)
    fill(store, "elsewhere", seed=3, patients=2)
    store["icu"].prune("archive")
    store["neurology"].prune("forget")
    told = store.erase_subject("patient-3", dry_run=True)
    assert list(told) == ["cardiology", "icu", "neurology"]
    expected = {name: preview.applied for name, preview in told.items()}
    done = store.erase_subject("patient-3")
    assert done.complete
    assert done.applied == expected
    for name in store:
        assert "patient-3" not in store[name].subjects
    with pytest.raises(InputError, match="nothing was deleted"):
        store.erase_subject("patient-3")
    event = parse_event(store.leaf(done.index).statement)
    assert event.kind == "subject_erased"
    assert event.subject.sha256 == subject_commitment(done.salt, "patient-3")
    listed = event.facts["memories"]
    assert isinstance(listed, tuple)
    assert [part["leaf"] for part in listed] == [part.receipt.index for part in done.memories if part.receipt]
    assert b"patient" not in store.leaf(done.index).envelope
    store.verify()
    for wrong in ("", None, 3):
        with pytest.raises(InputError):
            store.erase_subject(wrong)  # type: ignore[arg-type]


def test_a_memory_that_cannot_erase_a_subject_does_not_stop_the_others(store: Store) -> None:
    fill(store, "free")
    store.create("tight", **entries(seed=1), sigma=SIGMA, nu=1.0)
    fill(store, "held", seed=2)
    hold = store.hold("held", subject="patient-3", reason="coroner")
    before = {name: store[name].digest for name in store}
    done = store.erase_subject("patient-3", idempotency_key="k")
    assert {part.memory: part.outcome for part in done.memories} == {
        "free": "decrement",
        "tight": "refused",
        "held": "refused",
    }
    assert not done.complete
    reasons = {part.memory: part.reason for part in done.memories}
    assert "coroner" in (reasons["held"] or "")
    assert "needs at least" in (reasons["tight"] or "")
    assert all(part.receipt is not None for part in done.memories)
    assert store["held"].digest == before["held"]
    assert store["tight"].digest == before["tight"]
    # The same request gets the same answer; a new one tries again.
    store.release(hold)
    assert store.erase_subject("patient-3", idempotency_key="k") == done
    with pytest.raises(Conflict):
        store.erase_subject("patient-4", idempotency_key="k")
    again = store.erase_subject("patient-3")
    assert {part.memory: part.outcome for part in again.memories} == {"tight": "refused", "held": "decrement"}
    store.verify()
