"""Near-duplicates: how far published coefficients and readouts are from those of the exact optimum.

Not an attack by itself: a wrong coefficient that passes every check. Two of a few keys are a hair's breadth apart, in
a direction along which the others do not tell them apart. `ball_optimum` has the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ball_optimum import exact_readout, nearest_doubles
from expunge import Memory

__all__ = ["Error", "error_of", "tangent_pair", "tight_clusters"]

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Error:
    """Largest differences from the exact optimum: of a coefficient, and of a readout over the range of the values."""

    coefficient: float
    readout: float
    bits_equal: bool


def tangent_pair(rng: np.random.Generator, separation: float) -> tuple[Matrix, Matrix, float]:
    """Keys, values and width of four keys, two of them `separation` widths apart across the way to the others."""
    sigma, dimension = 2.0, int(rng.integers(3, 6))
    others, pair = rng.standard_normal((2, dimension)), rng.standard_normal(dimension)
    way = rng.standard_normal(dimension)
    axes = np.linalg.qr((others - pair).T)[0]
    way -= axes @ (axes.T @ way)
    keys = np.vstack([others, pair, pair + separation * sigma * way / np.linalg.norm(way)])
    return keys, np.array([[0.0], [0.5], [1.0], [-1.0]]), sigma


def tight_clusters(rng: np.random.Generator, separation: float) -> tuple[Matrix, Matrix, float]:
    """Three centres with four keys each, `separation` widths around them: keys, values, width."""
    centres = 2.0 * rng.standard_normal((3, 3))
    keys = np.repeat(centres, 4, axis=0) + separation * 2.0 * rng.standard_normal((12, 3))
    return keys, rng.uniform(-1.0, 1.0, (12, 1)), 2.0


def error_of(memory: Memory, queries: Matrix) -> Error:
    """Compare a memory with the exact optimum of its keys."""
    keys, values = memory.keys, memory.values
    exact = nearest_doubles(keys, memory.cap, memory.sigma, memory.coefficients)
    spread = float(np.ptp(values)) or 1.0
    worst = 0.0
    for query, answer in zip(queries, memory.read(queries), strict=True):
        truth = exact_readout(keys, values, exact.balls, memory.sigma, query)
        worst = max(worst, *(abs(float(ball.mid()) - float(given)) for ball, given in zip(truth, answer, strict=True)))
    same = exact.coefficients.tobytes() == memory.coefficients.tobytes() and exact.offset == memory.offset
    return Error(float(np.abs(exact.coefficients - memory.coefficients).max()), worst / spread, same)
