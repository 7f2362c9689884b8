"""The normalized readout o(q) = Σακ(q, x)v / Σακ(q, x), and the weights that it sums.

Every κ is divided by that of the nearest active key, which cancels: a query far from all keys would otherwise read 0/0.
"""

from __future__ import annotations

import numpy as np

from expunge.problem.kernel import squared_distances
from expunge.types import Matrix, Vector

__all__ = ["readout", "readout_weights"]


def readout(keys: Matrix, values: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Matrix:
    """o(q) at points (m, d) → (m, dv), of keys (n, d), values (n, dv) and coefficients (n,), not all of them zero."""
    active = np.flatnonzero(coefficients)
    weights = readout_weights(keys[active], coefficients[active], points, sigma)
    return np.asarray(weights @ values[active] / weights.sum(axis=1, keepdims=True))


def readout_weights(keys: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Matrix:
    """α κ(q, x) of active entries at points (m, d) → (m, n), each κ relative to that of the nearest key."""
    distances = squared_distances(points, keys)
    distances -= distances.min(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        return np.asarray(coefficients * np.exp(-distances / sigma**2))
