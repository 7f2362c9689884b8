"""What is stored comes back as it was, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from expunge import Conflict, SolveError
from expunge.certificates.warranty import Mode
from expunge.ledger.envelope import open_statement
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.preprocessing import Column, Preprocessing

from .conftest import Place
from .sample_memory import SAMPLE_EDITS, SIGMA, appearance, arrival, entries, fill, fitted, reloaded

SEQUENCES: dict[str, list[str]] = {
    "admissions": ["admit-outlier", "admit-reserve", "admit-copy", "admit-far"],
    "deletions": ["delete-one-of-a-pair", "delete-active", "delete-margin", "delete-reserve", "delete-subject"],
    "archive, then boundary moves": ["prune-archive-sketch", "admit-outlier", "delete-active", "admit-far"],
    "archive, delete archived": ["prune-archive", "delete-several", "delete-subject", "admit-outlier"],
    "forget, then expiries": ["prune-forget", "admit-outlier", "admit-far", "delete-active", "delete-subject"],
    "archive, forget, rebuild": ["prune-archive", "admit-outlier", "delete-active", "prune-forget", "rebuild"],
    "forget, rebuild, then all": [
        "prune-forget",
        "rebuild",
        "delete-margin",
        "admit-outlier",
        "prune-archive-sketch",
        "delete-subject",
        "rebuild",
        "prune-forget",
        "rebuild",
        "delete-margin",
    ],
    "rebuild, then all": [
        "rebuild-all",
        "rebuild",
        "delete-margin",
        "admit-outlier",
        "prune-archive",
        "delete-subject",
    ],
}


COLUMNS = Preprocessing(
    tuple(Column(name, centre=80.0, scale=16.0, fill=80.0) for name in "abcd"), (Column("v"), Column("w")), learned=True
)


def test_columns_and_a_chosen_width_come_back_and_are_applied(place: Place) -> None:
    store = place.open()
    stored = store.create("icu", **entries(), nu=0.3, preprocessing=COLUMNS)
    named = {"a": 96.0, "c": None, "b": 64, "d": 80.0}
    options: dict[str, Any] = {"value": {"v": 1.0, "w": 2.0}, "id": "named", "idempotency_key": "once"}
    receipt = stored.admit(named, **options)
    assert stored.admit(named, **options).state_after == receipt.state_after
    stored.admit_many([named], [{"v": 1.0, "w": 2.0}])
    assert stored.keys[-2:].tolist() == [[1.0, -1.0, 0.0, 0.0]] * 2
    again = reloaded(place)
    assert again.preprocessing == stored.preprocessing == replace(COLUMNS, width="auto")
    assert again.chosen_width
    assert again.digest == stored.digest
    assert again.read(named).tolist() == stored.read([1.0, -1.0, 0.0, 0.0]).tolist()
    store.verify()
    with pytest.raises(Conflict):
        stored.admit({**named, "a": 64.0}, **options)


@pytest.mark.parametrize("sequence", list(SEQUENCES.values()), ids=list(SEQUENCES))
def test_a_stored_memory_is_the_memory_it_stores(place: Place, sequence: list[str]) -> None:
    """Same edits, same receipts, same states as a memory without a store; and the same after reopening."""
    store = place.open()
    stored, plain = fill(store), fitted()
    for name in sequence:
        ours, theirs = SAMPLE_EDITS[name](stored), SAMPLE_EDITS[name](plain)
        assert (ours.outcome, ours.applied, ours.covers) == (theirs.outcome, theirs.applied, theirs.covers)
        assert ours.details == theirs.details
        assert appearance(stored) == appearance(plain)
        again = reloaded(place)
        assert appearance(again) == appearance(stored)
        assert again.digest == stored.digest == ours.state_after
        assert again.edit == stored.edit
        assert again.check().worst < 1e-12
        assert again.payload(again.ids[0]) == plain.payload(plain.ids[0])
    assert stored.refit().digest
    store.verify()


def test_edits_go_on_from_a_reloaded_memory(place: Place) -> None:
    """Each edit by a process of its own, so to speak: same result as one memory that never left."""
    fill(place.open())
    plain = fitted()
    for name in ("prune-archive-sketch", "admit-outlier", "delete-active", "admit-copy", "delete-subject", "rebuild"):
        ours, theirs = SAMPLE_EDITS[name](reloaded(place)), SAMPLE_EDITS[name](plain)
        assert (ours.outcome, ours.applied) == (theirs.outcome, theirs.applied)
        again = reloaded(place)
        assert again.ids == plain.ids
        assert np.abs(again.coefficients - plain.coefficients).max() < 1e-13
        assert [row.status for row in again.warranties()] == [row.status for row in plain.warranties()]
    place.open().verify()


@pytest.mark.parametrize("seed", range(2))
def test_random_histories_survive_reopening(place: Place, seed: int) -> None:
    """A few dozen random edits by two handles in turns: each sees the other's, and the ledger tells it all."""
    rng = np.random.default_rng(seed)
    first, second = place.open(), place.open()
    fill(first, seed=seed)
    plain = fitted(seed=seed)
    for step in range(25):
        memory = (first if rng.random() < 0.5 else second)["icu"]
        choice = rng.random()
        if choice < 0.5:
            entry = arrival(1000 * seed + step, far=float(rng.choice([0.3, 1.0, 3.0])))
            assert memory.admit(**entry).outcome == plain.admit(**entry).outcome
        elif choice < 0.9 and plain.deletable > 3:
            names = rng.choice(plain.ids, size=int(rng.integers(1, 3)), replace=False).tolist()
            assert memory.delete(names).outcome == plain.delete(names).outcome
        else:
            mode: Mode = "archive" if rng.random() < 0.7 else "forget"
            sketch = int(rng.integers(0, 3))
            assert memory.prune(mode, sketch=sketch).applied == plain.prune(mode, sketch=sketch).applied
        assert memory.ids == plain.ids
        assert np.abs(memory.coefficients - plain.coefficients).max() < 1e-12
    assert first["icu"].digest == second["icu"].digest
    verified = first.verify()
    assert verified.leaves == first.size >= 26


@pytest.mark.parametrize("sketch", [0, 1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_a_store_reopens_after_a_rebuild_that_ends_certificates(place: Place, seed: int, sketch: int) -> None:
    store = place.open()
    memory = fill(store, seed=seed)
    forgotten = memory.prune("forget", sketch=sketch).applied
    for number in range(3):
        memory.admit(**arrival(number, far=2.0))
    memory.rebuild(nu=0.5)
    # In turns by the handle that has rebuilt it and by another.
    for step, act in enumerate(("delete-margin", "admit-far", "delete-margin", "prune-archive-sketch", "rebuild")):
        SAMPLE_EDITS[act](reloaded(place) if step % 2 else memory)
        again = reloaded(place)
        rows = [row for row in again.warranties() if row.id in forgotten]
        assert len(rows) == len(forgotten)
        assert {row.status for row in rows} == {"ended"}
        assert appearance(again) == appearance(memory)
    receipt = reloaded(place).delete(forgotten)
    stated = parse_predicate(open_statement(receipt.envelope, [store.public_key]))
    assert len(stated.applied.commitments) == len(forgotten)
    store.verify()


def test_many_deletions_compact_the_memory_and_the_numbers_follow(place: Place) -> None:
    store = place.open()
    memory = store.create("wide", **entries(150, 3), sigma=SIGMA, cap=0.2)
    for row in range(2, 110, 6):
        memory.delete([f"e{row + k}" for k in range(6)])
    assert memory.version.count < 120
    memory.admit(**arrival(5))
    memory.delete("e120")
    assert appearance(reloaded(place, "wide")) == appearance(memory)
    store.verify()


def test_a_state_rescued_by_another_backend_is_stored_like_any_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fill(place.open())

    def broken(*_: Any, **__: Any) -> None:
        raise SolveError("injected")

    with monkeypatch.context() as patch:
        patch.setattr("expunge.solver.path.remove", broken)
        patch.setattr("expunge.memory.pending_edit.fit", broken)
        receipt = memory.delete(memory.ids[int(memory.partition.bound[0])])
    assert receipt.measured is not None
    assert (receipt.outcome, receipt.measured.outcome) == ("decrement", "rescued")
    again = reloaded(place)
    assert again.coefficients.tobytes() == memory.coefficients.tobytes()
    assert again.digest == memory.digest
    assert again.delete(again.ids[-1]).outcome in ("decrement", "certified_zero")
    place.open().verify()


def test_loading_solves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fill(place.open())
    memory.prune("archive")
    digest = memory.digest

    def solved(*_: Any, **__: Any) -> None:
        raise AssertionError("a stored memory was solved again")

    for target in (
        "expunge.memory.first_version.fit",
        "expunge.memory.pending_edit.fit",
        "expunge.solver.path.admit",
        "expunge.memory.first_version.first_accepted",
    ):
        monkeypatch.setattr(target, solved)
    assert reloaded(place).digest == digest
