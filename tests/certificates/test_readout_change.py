"""The bound on a readout's change holds at the worst query that a search finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize

from expunge import Memory
from expunge.certificates import readout_change
from expunge.certificates.readout_change import readout_change_bound
from expunge.types import Matrix, Vector

Edit = Callable[[Memory], object]

EDITS: dict[str, Edit] = {
    "one margin entry": lambda memory: memory.delete(memory.ids[int(memory.partition.margin[0])]),
    "one bound entry": lambda memory: memory.delete(memory.ids[int(memory.partition.bound[0])]),
    "a subject": lambda memory: memory.delete(subject="p1"),
    "most of them": lambda memory: memory.delete(memory.ids[:-5]),
    "an admission": lambda memory: memory.admit(np.full(memory.dimension, 2.0), np.full(2, 9.0), id="new"),
    "another cap": lambda memory: memory.rebuild(nu=0.9),
}


def rows(memory: Memory) -> dict[str, tuple[Vector, Vector, float]]:
    return {
        name: (memory.keys[row], memory.values[row], float(memory.coefficients[row]))
        for row, name in enumerate(memory.ids)
    }


def exact(keys: Matrix, values: Matrix, coefficients: Vector, sigma: float) -> Callable[[Vector], Vector]:
    def at(query: Vector) -> Vector:
        exponents = -(((keys - query) / sigma) ** 2).sum(axis=1)
        weights = coefficients * np.exp(exponents - exponents.max())
        return np.asarray(weights @ values / weights.sum())

    return at


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize(("dimension", "sigma", "nu"), [(1, 1.0, 0.3), (2, 2.0, 0.2), (3, 1.5, 0.5), (6, 4.0, 0.3)])
def test_no_query_inside_the_boundary_beats_it(edit: Edit, dimension: int, sigma: float, nu: float) -> None:
    rng = np.random.default_rng(dimension)
    size = 60
    keys = rng.standard_normal((size, dimension))
    keys[7] = keys[8]
    owners = [f"p{row % 9}" for row in range(size)]
    memory = Memory.fit(keys, rng.standard_normal((size, 2)), sigma=sigma, nu=nu, subjects=owners)
    before, offset = rows(memory), memory.offset
    edit(memory)
    after = rows(memory)
    every = {**before, **after}
    points, values = (np.array([row[place] for row in every.values()]) for place in (0, 1))
    old, new = (np.array([state.get(name, (0, 0, 0.0))[2] for name in every]) for state in (before, after))
    denominator = 0.5 * (1.0 - offset)
    bound = readout_change_bound(points, values, old, new, sigma=sigma, denominator=denominator)
    assert bound is not None
    assert bound <= np.ptp(values, axis=0).max() * 1.001

    first, second = exact(points, values, old, sigma), exact(points, values, new, sigma)

    def similarity(query: Vector) -> float:
        return float(old @ np.exp(-(((points - query) / sigma) ** 2).sum(axis=1)))

    worst = 0.0

    def objective(query: Vector) -> float:
        nonlocal worst
        change = float(np.abs(second(query) - first(query)).max())
        if similarity(query) >= denominator:
            worst = max(worst, change)
        return -change + 1e3 * max(0.0, denominator - similarity(query))

    for start in [*points[np.argsort(-np.abs(new - old))[:6]], *points[old == 0.0][:6], points.mean(axis=0)]:
        minimize(objective, start, method="Nelder-Mead", options={"maxiter": 300})
    assert 0.0 < worst <= bound


def test_nothing_changes_and_too_much_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, values = np.eye(3), np.arange(3.0)[:, None]
    weights = np.array([0.5, 0.5, 0.0])
    assert readout_change_bound(keys, values, weights, weights, sigma=1.0, denominator=0.1) == 0.0
    other = np.array([0.5, 0.0, 0.5])
    assert readout_change_bound(keys, values, weights, other, sigma=1.0, denominator=1e-9) == pytest.approx(2.0)
    shift = np.array([-1e-3, 1e-3, 0.0])
    small = readout_change_bound(keys, values, weights, weights + shift, sigma=1.0, denominator=0.5)
    assert small is not None
    assert 0.0 < small < 0.02
    monkeypatch.setattr(readout_change, "MOST_CHANGED", 1)
    assert readout_change_bound(keys, values, weights, other, sigma=1.0, denominator=0.1) is None
