"""RBF blocks: κ(a, b) = exp(−‖a−b‖²/σ²).

Guarantees, bit for bit on one machine:

- κ(a, b) depends on the two vectors alone, not on the block it is computed in;
- κ(a, b) = κ(b, a) and κ(a, a) = 1.

Distances are sums of squared differences in coordinate order, never ‖a‖²+‖b‖²−2⟨a,b⟩: the expanded form
loses every digit between near-duplicates far from the origin, which is where deletion is hard.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from expunge.types import Matrix

__all__ = ["fill_kernel", "kernel_block", "squared_distances"]

# Columns handled together, so that one tile of keys and its sums stay in the first-level cache.
TILE = 64

# Entries written before the exponential goes over them.
PART = 131_072

# exp(−700) ≈ 1e−304. Below it NumPy's exponential leaves its fast path and then returns subnormals.
EXPONENT_FLOOR = -700.0


@njit(cache=True, nogil=True)
def _accumulate(a: Matrix, b: Matrix, factor: float, floor: float, out: Matrix) -> None:
    """Fill `out` with the squared distances times `factor`, none below `floor`."""
    rows, dimension = a.shape
    columns = b.shape[0]
    tile = np.empty((dimension, TILE))
    total = np.empty(TILE)
    for start in range(0, columns, TILE):
        width = min(TILE, columns - start)
        for j in range(width):
            for k in range(dimension):
                tile[k, j] = b[start + j, k]
        for i in range(rows):
            total[:] = 0.0
            for k in range(dimension):
                value = a[i, k]
                for j in range(TILE):
                    difference = value - tile[k, j]
                    total[j] += difference * difference
            for j in range(width):
                out[i, start + j] = max(total[j] * factor, floor)


def squared_distances(a: Matrix, b: Matrix) -> Matrix:
    """Squared Euclidean distances of every pair: (m, d), (n, d) → (m, n)."""
    out = np.empty((a.shape[0], b.shape[0]))
    _accumulate(a, b, 1.0, 0.0, out)
    return out


def kernel_block(a: Matrix, b: Matrix, sigma: float) -> Matrix:
    """κ of every pair: (m, d), (n, d) float64 → (m, n) float64."""
    block = np.empty((a.shape[0], b.shape[0]))
    fill_kernel(a, b, sigma, block)
    return block


def fill_kernel(a: Matrix, b: Matrix, sigma: float, out: Matrix) -> None:
    """Write κ of every pair of (m, d) and (n, d) to `out`, (m, n), in place and in parts that stay in the cache."""
    factor = -1.0 / (sigma * sigma)
    if out.size <= PART:
        _accumulate(a, b, factor, EXPONENT_FLOOR, out)
        np.exp(out, out=out)
        return
    rows = max(1, PART // max(1, b.shape[0]))
    for start in range(0, a.shape[0], rows):
        part = out[start : start + rows]
        _accumulate(a[start : start + rows], b, factor, EXPONENT_FLOOR, part)
        np.exp(part, out=part)
