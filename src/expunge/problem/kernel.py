"""RBF blocks: κ(a, b) = exp(−‖a−b‖²/σ²).

Guarantees, bit for bit on every machine (IEEE operations alone, in a stated order):

- κ(a, b) depends on the two vectors and σ alone, not on the block it is computed in;
- κ(a, b) = κ(b, a) and κ(a, a) = 1.

Distances are sums of squared differences in coordinate order, never ‖a‖²+‖b‖²−2⟨a,b⟩: the expanded form
loses every digit between near-duplicates far from the origin, which is where deletion is hard.

Error. With u = 2⁻⁵³ a squared distance is off by at most (d + 2)u of itself, its product with −1/σ² by 3u more, and
t eᵗ ≥ −1/e: so κ is off by less than (0.37(d + 5) + 4)u < `kernel_error(d)`.
"""

from __future__ import annotations

import numpy as np

from expunge.compilation import njit
from expunge.problem.exponential import EXPONENT_FLOOR, PART, exponentials
from expunge.types import Matrix, Vector

__all__ = [
    "exponent_factor",
    "fill_kernel",
    "kernel_block",
    "kernel_error",
    "kernel_values",
    "largest_kernel_values",
    "squared_distances",
]

# Columns handled together, so that one tile of keys and its sums stay in the first-level cache.
TILE = PART

_FLOOR = EXPONENT_FLOOR


def kernel_error(dimension: int) -> float:
    """Proved bound on the absolute error of a kernel value of this module."""
    return (0.4 * (dimension + 5) + 5.0) * 2.0**-53


@njit(cache=True, nogil=True)
def _distances(a: Matrix, b: Matrix, out: Matrix) -> None:
    """Fill `out` with the squared distances."""
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
                out[i, start + j] = total[j]


@njit(cache=True, nogil=True)
def kernel_values(a: Matrix, b: Matrix, factor: float, out: Matrix) -> None:
    """Fill `out` with exp(factor · squared distance)."""
    rows, dimension = a.shape
    columns = b.shape[0]
    tile = np.zeros((dimension, TILE))
    total, shifted, scale = np.empty(TILE), np.empty(TILE), np.empty(TILE)
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
            for j in range(TILE):
                total[j] = max(total[j] * factor, _FLOOR)
            exponentials(total, TILE, shifted, scale)
            for j in range(width):
                out[i, start + j] = total[j]


@njit(cache=True, nogil=True)
def _largest_values(a: Matrix, b: Matrix, factor: float, out: Vector) -> None:
    """Fill `out` with the kernel value of the least squared distance from each row of `a` to a row of `b`."""
    rows, dimension = a.shape
    columns = b.shape[0]
    tile = np.empty((dimension, TILE))
    total, shifted, scale = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    out[:] = np.inf
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
                out[i] = min(out[i], total[j])
    for start in range(0, rows, TILE):
        width = min(TILE, rows - start)
        for i in range(width):
            total[i] = max(out[start + i] * factor, _FLOOR)
        exponentials(total, width, shifted, scale)
        for i in range(width):
            out[start + i] = total[i]


def squared_distances(a: Matrix, b: Matrix) -> Matrix:
    """Squared Euclidean distances of every pair: (m, d), (n, d) → (m, n)."""
    out = np.empty((a.shape[0], b.shape[0]))
    _distances(a, b, out)
    return out


def kernel_block(a: Matrix, b: Matrix, sigma: float) -> Matrix:
    """κ of every pair: (m, d), (n, d) float64 → (m, n) float64."""
    block = np.empty((a.shape[0], b.shape[0]))
    fill_kernel(a, b, sigma, block)
    return block


def largest_kernel_values(a: Matrix, b: Matrix, sigma: float) -> Vector:
    """κ of each row of (m, d) and the row of (n, d) that is nearest to it → (m,)."""
    out = np.empty(a.shape[0])
    _largest_values(a, b, exponent_factor(sigma), out)
    return out


def fill_kernel(a: Matrix, b: Matrix, sigma: float, out: Matrix) -> None:
    """Write κ of every pair of (m, d) and (n, d) to `out`, (m, n), in place."""
    kernel_values(a, b, exponent_factor(sigma), out)


def exponent_factor(sigma: float) -> float:
    """What `kernel_values` multiplies squared distances by."""
    return -1.0 / (sigma * sigma)
