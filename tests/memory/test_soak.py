"""Five hundred edits in a row on hard keys: nothing drifts, nothing is rescued, nothing is left behind.

`benchmarks/soak.py` does ten thousand, and a stream of a hundred thousand keys.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from agreement import MEASURED, assert_same_function, assert_sound
from expunge import Memory
from expunge.types import Vector

EDITS = 500

CENTRES = 2.0 * np.random.default_rng(8).standard_normal((6, 5))


def near_duplicates(rng: np.random.Generator) -> Vector:
    noise = 0.0 if rng.random() < 0.1 else 10.0 ** -float(rng.integers(2, 13))
    return np.asarray(CENTRES[rng.integers(6)] + noise * rng.standard_normal(5))


def lattice(rng: np.random.Generator) -> Vector:
    return rng.integers(0, 4, 3).astype(np.float64)


def line(rng: np.random.Generator) -> Vector:
    return np.array([float(rng.integers(0, 25)) / 8.0, 0.0])


def scattered(rng: np.random.Generator) -> Vector:
    """A near-duplicate core inside shells of outliers."""
    return np.asarray(10.0 ** float(rng.integers(-5, 3)) * rng.standard_normal(3))


@pytest.mark.parametrize(
    ("draw", "sigma"),
    [
        (near_duplicates, 2.0),
        (lattice, 1.5),
        (line, 2.0),
        (scattered, 1.0),
        (scattered, 1e-3),
        (scattered, 1e4),
    ],
)
def test_five_hundred_edits(draw: Callable[[np.random.Generator], Vector], sigma: float) -> None:
    rng = np.random.default_rng(int(sigma))
    start = np.array([draw(rng) for _ in range(48)])
    memory = Memory.fit(start, start, sigma=sigma, cap=1 / 19.5)
    gone: list[Vector] = []
    for step in range(EDITS):
        size = len(memory)
        if size <= 28 or (size < 72 and rng.random() < 0.6):
            key = gone.pop() if gone and rng.random() < 0.2 else draw(rng)
            receipt = memory.admit(key, key)
        else:
            rows = rng.choice(size, int(rng.integers(1, 4)), replace=False)
            gone = [memory.keys[row].copy() for row in rows]
            receipt = memory.delete([memory.ids[row] for row in rows])
        assert [attempt.path for attempt in receipt.attempts] in (["path"], ["reserve"]), (step, receipt)
        # From the keys; `memory.check` would also make rows and sums anew, and hide what drifts.
        assert memory.version.solution.check().worst <= MEASURED
        if step % 50 == 0:
            assert_sound(memory)
            assert_same_function(memory, memory.refit(), memory.keys)
    view = memory.version
    assert view.state.gram.capacity <= 512
    assert len(view.entries.ids) <= 512
    assert view.state.margin.drift(view.state.gram.block(*[view.state.margin.members] * 2)) <= 1e-13
