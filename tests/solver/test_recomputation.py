"""Planted faults in what is kept for the next edit: they are found from the keys, and the next edit is right."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest

from expunge import Memory
from expunge.problem.check_kind import WITHIN_REACH
from expunge.solver import recomputation
from expunge.solver.state import State

Plant = Callable[[State], None]


def row(state: State) -> None:
    state.gram.rows[0, state.present()[-1]] += 1e-9


def bound_sum(state: State) -> None:
    state.gram.bound.high[state.present()[-1]] -= 1e-9


def pair(state: State) -> None:
    state.gram.pairs.tables.gram_high[0, 1] += 1e-12


def low_pair(state: State) -> None:
    state.gram.pairs.tables.gram_low[1, 0] = np.nan


def pair_sum(state: State) -> None:
    state.gram.pairs.tables.sum_low[0] += 1e-20


PLANTED = [(row, "rows"), (bound_sum, "sums"), (pair, "pairs"), (low_pair, "pairs"), (pair_sum, "pairs")]


def edited(size: int, dimension: int, *, seed: int = 3) -> Memory:
    """A memory after edits of each kind."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((size, dimension))
    memory = Memory.fit(keys, keys[:, :1], sigma=1.5 * dimension**0.5, nu=0.3)
    for name in ("3", "5", "8", "13"):
        memory.delete(name)
    memory.admit_many(rng.standard_normal((4, dimension)), np.zeros((4, 1)))
    return memory


@pytest.mark.parametrize(("plant", "found"), PLANTED)
@pytest.mark.parametrize("dimension", [5, 40])
def test_a_planted_fault_is_found_and_the_next_edit_is_right(plant: Plant, found: str, dimension: int) -> None:
    memory = edited(120, dimension)
    assert memory.check().passed
    # Pairs are made by the first edit that needs them.
    memory.delete(memory.ids[int(memory.partition.bound[0])])
    plant(memory.version.state)
    check = memory.check()
    assert (check.faults, check.passed) == ((found,), False)
    assert check.worst < check.tolerance
    assert memory.check().passed
    memory.delete(memory.ids[20])
    assert memory.digest == Memory.refit(memory).digest


@pytest.mark.parametrize("dimension", [3, 40])
def test_nothing_is_found_after_edits_of_all_kinds(dimension: int) -> None:
    memory = edited(90, dimension)
    for step in range(30):
        memory.delete(memory.ids[(7 * step) % len(memory)])
        memory.admit(np.full(dimension, 0.02 * step), [0.0])
        assert memory.check().faults == ()
    memory.prune()
    memory.delete(memory.ids[0])
    assert memory.check().faults == ()


@pytest.mark.parametrize(("plant", "found"), PLANTED)
def test_a_fault_is_found_by_itself_after_so_many_edits(
    plant: Plant, found: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("expunge.memory.memory.RECOMPUTED_EVERY", 5)
    memory = edited(60, 4)
    memory.check()
    memory.delete(memory.ids[int(memory.partition.bound[0])])
    plant(memory.version.state)
    with caplog.at_level(logging.ERROR, logger="expunge"):
        for _ in range(6):
            memory.delete(memory.ids[int(memory.partition.reserve[0])])
    assert f"not those of the keys: {found}" in caplog.text


def test_an_edit_of_a_small_memory_does_not_trust_its_rows(caplog: pytest.LogCaptureFixture) -> None:
    """A false row would make another optimum, which the keys alone tell from the right one."""
    memory = edited(60, 4)
    state = memory.version.state
    state.gram.rows[: state.gram.count, : state.sites] *= 1.0 - 1e-4
    state.gram.pairs.tables.gram_high[:] *= 1.0 - 1e-4
    name = memory.ids[int(memory.partition.margin[0])]
    with caplog.at_level(logging.ERROR, logger="expunge"):
        receipt = memory.delete(name)
    assert receipt.check.kind == "keys"
    assert memory.digest == memory.refit().digest


def test_the_kind_is_that_of_the_state() -> None:
    keys = np.random.default_rng(5).standard_normal((700, 20))
    memory = Memory.fit(keys, keys[:, :1], sigma=6.0, nu=0.3)
    active = int(np.count_nonzero(memory.coefficients))
    assert 700 * active * 20 > WITHIN_REACH
    assert memory.delete("0").check.kind == "sums"
    assert memory.check().kind == "keys"
    assert memory.delete(memory.ids[200:]).check.kind == "keys"


def test_a_check_from_sums_counts_their_error() -> None:
    keys = np.random.default_rng(5).standard_normal((700, 20))
    check = Memory.fit(keys, keys[:, :1], sigma=6.0, nu=0.3).version.check
    assert check.kind == "sums"
    exact = recomputation.check_from_keys(
        Memory.fit(keys, keys[:, :1], sigma=6.0, nu=0.3).version.state, np.ones(700, dtype=np.int64)
    )
    assert exact.stationarity < check.stationarity < 1e-12
