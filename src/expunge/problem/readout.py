"""The readout o(q) = Σ α κ(q, x) v / Σ α κ(q, x): the one implementation for memories, previews and audits.

Kernel values are scaled by the nearest active key's, which cancels. A query far from every key therefore gets the
limit of the formula rather than 0/0.
"""

from __future__ import annotations

import numpy as np

from expunge.problem.kernel import squared_distances
from expunge.types import Matrix, Vector

__all__ = ["readout", "readout_weights"]


def readout(keys: Matrix, values: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Matrix:
    """Readout at points (m, d) of keys (n, d), values (n, dv) and coefficients (n,) → (m, dv)."""
    active = np.flatnonzero(coefficients)
    weights = readout_weights(keys[active], coefficients[active], points, sigma)
    return np.asarray(weights @ values[active] / weights.sum(axis=1, keepdims=True))


def readout_weights(keys: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Matrix:
    """α κ(q, x), (m, n), of active keys, each row divided by the κ of the nearest of them."""
    distances = squared_distances(points, keys)
    distances -= distances.min(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        return np.asarray(coefficients * np.exp(-distances / sigma**2))
