"""The readout: the formula, near and far, and entries without weight that do not count."""

from __future__ import annotations

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from expunge import Memory
from expunge.problem.readout import readout, readout_weights

RNG = np.random.default_rng(0)
KEYS, VALUES, POINTS = RNG.standard_normal((12, 3)), RNG.standard_normal((12, 2)), RNG.standard_normal((5, 3))


@pytest.mark.parametrize("shift", [0.0, 300.0])
def test_it_is_the_formula_near_and_far(shift: float) -> None:
    memory = Memory.fit(KEYS, VALUES, sigma=1.5, nu=0.4)
    found = readout(KEYS, VALUES, memory.coefficients, POINTS + shift, 1.5)
    with mpmath.workdps(60):
        for row, point in enumerate(POINTS + shift):
            weights = [
                mpmath.mpf(float(alpha))
                * mpmath.exp(-sum((mpmath.mpf(float(a)) - float(b)) ** 2 for a, b in pair) / 2.25)
                for alpha, pair in zip(memory.coefficients, (zip(point, key, strict=True) for key in KEYS), strict=True)
            ]
            for column in range(2):
                total = mpmath.fsum(w * float(v) for w, v in zip(weights, VALUES[:, column], strict=True))
                assert found[row, column] == pytest.approx(float(total / mpmath.fsum(weights)), rel=1e-12, abs=1e-12)
    assert found.tobytes() == memory.read(POINTS + shift).tobytes()


def test_the_nearest_key_has_its_coefficient_as_weight() -> None:
    weights = readout_weights(KEYS[:3], np.array([0.2, 0.3, 0.5]), KEYS[1:2] + 1e3, 0.5)
    nearest = int(np.argmin(((KEYS[:3] - KEYS[1] - 1e3) ** 2).sum(axis=1)))
    assert weights[0, nearest] == [0.2, 0.3, 0.5][nearest]
