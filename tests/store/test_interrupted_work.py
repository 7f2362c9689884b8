"""Long work tells how far it is; an interrupt, or what the callback raises, leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest

from expunge import Memory
from expunge.problem import column_parts
from expunge.store import Store

from .conftest import Place
from .sample_memory import appearance, entries, fill, reloaded, row_counts


class Cancelled(Exception):
    """What a caller may raise to end the work."""


@pytest.fixture(autouse=True)
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_parts, "WORTH", 0)
    monkeypatch.setattr(column_parts, "PART", 64)


def stopping(at: int, problem: type[BaseException]) -> Callable[[str, int, int], None]:
    """A callback that raises at its call number `at`."""
    calls = 0

    def told(stage: str, done: int, total: int) -> None:
        nonlocal calls
        assert stage
        assert 0 <= done <= total
        if calls == at:
            raise problem
        calls += 1

    return told


def calls_of(work: Callable[[Callable[[str, int, int], None]], object]) -> list[str]:
    stages: list[str] = []
    work(lambda stage, done, total: stages.append(stage))
    return stages


@pytest.mark.parametrize("problem", [KeyboardInterrupt, Cancelled])
def test_a_creation_that_is_interrupted_leaves_the_store_as_it_was(place: Place, problem: type[BaseException]) -> None:
    store = place.open()
    before = appearance(fill(store, "ward")), row_counts(store), store.size
    rows = entries(300, 1)

    def create(told: Callable[[str, int, int], None]) -> object:
        return Memory.fit(**rows, sigma=2.0, nu=0.3, progress=told)

    count = len(calls_of(create))
    assert count > 4
    # Beyond the fit there is one more stage: the transaction.
    for at in {0, 1, count // 2, count - 1, count}:
        with pytest.raises(problem):
            store.create("icu", **rows, sigma=2.0, nu=0.3, progress=stopping(at, problem))
        assert (appearance(store["ward"]), row_counts(store), store.size) == before
        assert store.names() == ["ward"]
    assert len(store.create("icu", **rows, sigma=2.0, nu=0.3)) == 300
    store.verify()


@pytest.mark.parametrize("mode", ["archive", "forget"])
def test_a_pruning_that_is_interrupted_leaves_the_memory_as_it_was(
    place: Place, mode: Literal["archive", "forget"]
) -> None:
    store = place.open()
    stored = fill(store, size=120)
    before = appearance(stored), row_counts(store), store.size
    stages = calls_of(lambda told: stored.prune(mode, dry_run=True, progress=told))
    assert [stage.split()[0] for stage in stages] == ["proving", "removing", "certifying"]
    for at in range(3):
        with pytest.raises(KeyboardInterrupt):
            stored.prune(mode, progress=stopping(at, KeyboardInterrupt))
        assert (appearance(stored), row_counts(store), store.size) == before
    receipt = stored.prune(mode)
    assert stages[-1] == f"certifying {len(receipt.applied)} entries"
    store.verify()


@pytest.mark.parametrize("problem", [KeyboardInterrupt, Cancelled])
def test_a_rebuild_that_is_interrupted_leaves_the_memory_as_it_was(place: Place, problem: type[BaseException]) -> None:
    store = place.open()
    stored = fill(store, size=300)
    before = appearance(stored), row_counts(store), store.size
    stages = calls_of(lambda told: stored.refit().rebuild(nu=0.2, progress=told))
    assert stages[-1] == "committing to the entries"
    for at in {0, len(stages) // 2, len(stages) - 1}:
        with pytest.raises(problem):
            stored.rebuild(nu=0.2, progress=stopping(at, problem))
        assert (appearance(stored), row_counts(store), store.size) == before
    assert appearance(reloaded(place)) == before[0]
    stored.delete("e3")
    assert stored.rebuild(nu=0.2).outcome == "rebuilt"
    fresh = Memory.fit(stored.keys, stored.values, sigma=2.0, cap=stored.cap)
    assert np.array_equal(stored.coefficients, fresh.coefficients)
    store.verify()


def test_a_proof_tells_its_precision(sqlite_place: Place) -> None:
    told: list[tuple[int, int]] = []
    stored = fill(sqlite_place.open())
    assert stored.prove(progress=lambda bits, left: told.append((bits, left))).outcome == "proved"
    assert told
    assert all(bits > 0 for bits, _ in told)


def test_no_callback_is_needed(sqlite_place: Place) -> None:
    store: Store = sqlite_place.open()
    assert fill(store, size=300).rebuild(nu=0.2).outcome == "rebuilt"
