"""Exchanges of many memberships at once end in the state that the path, and a fresh fit, end in."""

from __future__ import annotations

import numpy as np
import pytest

from expunge import Memory
from expunge.solver import block_pivots, path
from expunge.solver.cold_fit import fit
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.margin_factor import MarginFactor
from expunge.types import Matrix

WIDE = 40


def spread(count: int, *, seed: int = 0) -> Matrix:
    """Unit vectors of which many are on the margin."""
    points = np.random.default_rng(seed).standard_normal((count, WIDE))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """How the exchanges of a test ended, at margins of any size."""
    ends: list[bool] = []

    def exchange(*arguments: object) -> bool:
        ends.append(block_pivots.exchange(*arguments))  # type: ignore[arg-type]
        return ends[-1]

    monkeypatch.setattr(path, "LARGE", 2)
    monkeypatch.setattr(path, "exchange", exchange)
    return ends


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_edits_of_a_large_margin_equal_a_fresh_fit_to_the_bit(nu: float, counted: list[bool]) -> None:
    keys = spread(300)
    memory = Memory.fit(keys[:240], keys[:240, :1], sigma=1.0, nu=nu, subjects=["a"] * 40 + [None] * 200)
    groups = memory.partition
    for row in (groups.margin[-1], groups.margin[7], *groups.bound[-2:], *groups.reserve[-1:]):
        memory.delete(memory.ids[row])
    memory.delete(subject="a")
    memory.admit(keys[240], [1.0])
    # Copies of a key that is there, of one that comes along, and far ones.
    memory.admit_many(np.vstack([keys[241:], keys[100], keys[250], 3.0 * keys[:2]]), np.ones((63, 1)))
    assert memory.digest == memory.refit().digest
    assert np.array_equal(memory.coefficients, memory.refit().coefficients)
    assert counted.count(True) >= 4


def test_where_the_exchanges_do_not_end_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = spread(60)
    gram = KernelRows(keys, 1.0)
    state = fit(gram, np.ones(60, dtype=np.int64), 1.0 / 30.0)
    before = (state.alpha.tobytes(), state.slack.tobytes(), state.status.tobytes(), state.offset)
    members, size = state.margin.members.copy(), state.margin.size
    monkeypatch.setattr(block_pivots, "ROUNDS", 0)
    site = int(members[0])
    nothing = np.zeros(0, dtype=np.int64)
    assert not block_pivots.exchange(state, np.array([site]), np.zeros(1), nothing)
    assert before == (state.alpha.tobytes(), state.slack.tobytes(), state.status.tobytes(), state.offset)
    assert state.margin.size == size
    assert np.array_equal(state.margin.members, members)


def test_rows_removed_in_one_sweep_leave_the_factor_of_the_others() -> None:
    keys = spread(30)
    gram = KernelRows(keys, 1.0)
    every = np.arange(30)
    gram.require(every)
    margin = MarginFactor()
    assert margin.refresh(every, gram.block(every, every))
    gone = np.array([0, 1, 9, 17, 29])
    block_pivots._remove_rows(margin.factor, margin.buffer, margin.size, gone)
    margin.size -= gone.size
    left = np.setdiff1d(every, gone)
    assert np.array_equal(margin.members, left)
    assert margin.drift(gram.block(left, left)) < 1e-14
