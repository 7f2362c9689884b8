"""Why nothing learned from entries is kept at full precision: a mean and a median give an erased row away.

A demonstration beside the memory, which takes its width from the caller. A *stored mean* of the rows before an
erasure, with the rows that remain, is one linear equation per coordinate for the row that went. A *width* set to the
median distance of the rows is a number that one candidate in many gives, to the last bit; on the grid of powers of
2^¼ nearly all candidates give the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

__all__ = ["candidates_by_width", "on_grid", "row_from_mean"]

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


def row_from_mean(mean: Vector, remaining: Matrix) -> Vector:
    """The erased row, from the mean of all rows and the rows that remain."""
    return np.asarray((len(remaining) + 1) * mean - remaining.sum(axis=0))


def on_grid(sigma: float) -> float:
    """The nearest power of 2^¼."""
    return float(2.0 ** (round(4.0 * np.log2(sigma)) / 4.0))


def candidates_by_width(remaining: Matrix, candidates: list[Vector], sigma: float, *, grid: bool) -> list[int]:
    """Candidates for the erased row that give this width as the median distance."""
    return [number for number, row in enumerate(candidates) if median_width(remaining, row, grid=grid) == sigma]


def median_width(remaining: Matrix, row: Vector, *, grid: bool) -> float:
    """The median distance of all rows, the erased one included, as it is or on the grid."""
    exact = float(np.median(pdist(np.vstack([remaining, row]))))
    return on_grid(exact) if grid else exact
