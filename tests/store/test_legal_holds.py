"""Legal holds, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import numpy as np
import pytest

from expunge import DeletionRefused, InputError
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.store import (
    Store,
    parse_event,
)

from .conftest import Place
from .sample_memory import appearance, arrival, fill, leaf_of, reloaded


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_drop_that_holds_forbid_counts_them(place: Place, count: int) -> None:
    """Whatever the memory has: its ledger verifies."""
    store = place.open()
    store.create("icu", np.eye(3)[:count], np.zeros(count), sigma=2.0, nu=1.0, subjects=["ann"] * count)
    holds = [store.hold("icu", subject=subject, reason="court") for subject in ("bob", "cy", "bob")]
    with pytest.raises(DeletionRefused, match="must be kept") as refused:
        store.drop("icu")
    stated = parse_predicate(leaf_of(store, refused.value).statement).refusal
    assert stated is not None
    assert (stated.measured, stated.allowed) == (3, 0)
    assert stated.holds == tuple(hold.number for hold in holds)
    store.verify()


def test_a_hold_keeps_entries_from_every_kind_of_erasure(place: Place) -> None:
    store = place.open()
    memory = fill(store)
    reserve = memory.ids[int(memory.partition.reserve[0])]
    by_id = store.hold("icu", reserve, reason="litigation 4711")
    by_subject = store.hold("icu", subject="patient-3", reason="coroner")
    assert store.holds() == store.holds("icu") == [by_id, by_subject]
    before = appearance(memory)
    for forbidden in (
        lambda: memory.delete(reserve),
        lambda: memory.delete([reserve, "e1"]),
        lambda: memory.delete(subject="patient-3"),
        lambda: memory.prune("forget"),
        lambda: store.drop("icu"),
    ):
        size = store.size
        with pytest.raises(DeletionRefused, match="must be kept") as refused:
            forbidden()
        stated = parse_predicate(leaf_of(store, refused.value).statement)
        assert stated.refusal is not None
        assert stated.refusal.reason == "legal_hold"
        assert store.size == size + 1
        assert appearance(memory) == before
    told = memory.delete(reserve, dry_run=True)
    assert told.outcome == "refused"
    assert "litigation 4711" in (told.reason or "")
    with pytest.raises(DeletionRefused, match="litigation 4711") as first:
        memory.delete(reserve, idempotency_key="k")
    with pytest.raises(DeletionRefused, match="litigation 4711") as again:
        memory.delete(reserve, idempotency_key="k")
    assert first.value.receipt == again.value.receipt
    # Archiving erases nothing, an admission neither; and what is archived is still held.
    memory.prune("archive")
    late = arrival(3)
    memory.admit(**late)
    for name in (reserve, late["id"]):
        with pytest.raises(DeletionRefused):
            reloaded(place).delete(name)
    memory.rebuild(nu=0.5)
    # Nor does a larger cap stand in for the hold.
    for many in (memory.ids, [name for name in memory.ids if name != "e1"]):
        with pytest.raises(DeletionRefused, match="must be kept"):
            memory.delete(many)
    leaf = store.release(by_id)
    assert parse_event(leaf.statement).kind == "released"
    with pytest.raises(InputError):
        store.release(by_id)
    memory.delete(reserve)
    store.release(by_subject.number)
    memory.delete(subject="patient-3")
    assert store.holds() == []
    store.verify()


def test_a_hold_is_the_reason_whatever_else_stands_in_the_way(store: Store) -> None:
    memory = fill(store)
    store.hold("icu", "e1", reason="court")
    preview = memory.delete(memory.ids, dry_run=True)
    assert preview.outcome == "refused"
    assert "court" in (preview.reason or "")
    with pytest.raises(DeletionRefused, match="court") as caught:
        memory.delete(memory.ids)
    assert caught.value.receipt.refusal is not None
    assert caught.value.receipt.refusal.reason == "legal_hold"
    store.verify()


def test_a_hold_that_makes_no_sense_is_bad_input(store: Store) -> None:
    fill(store)
    for wrong in (
        lambda: store.hold("icu", reason="r"),
        lambda: store.hold("icu", "e1", subject="s", reason="r"),
        lambda: store.hold("icu", "e1", reason=" "),
        lambda: store.hold("icu", "nobody", reason="r"),
        lambda: store.hold("nowhere", "e1", reason="r"),
        lambda: store.release(99),
    ):
        with pytest.raises(InputError):
            wrong()
    # A subject may be expected.
    store.hold("icu", subject="not here yet", reason="r")
