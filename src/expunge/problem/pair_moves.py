"""Steps that move weight between two keys until a one-class problem is solved to a tolerance, as in LIBSVM.

Sequential minimal optimization on kernel rows that are there. Every step is IEEE operations in a stated order, so the
coefficients that it reaches are the same bits on every machine.
"""

from __future__ import annotations

import numpy as np

from expunge.compilation import njit
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["move_pairs"]


@njit(cache=True, nogil=True)
def move_pairs(
    rows: Matrix, row_of: IndexArray, ceiling: Vector, alpha: Vector, sums: Vector, tolerance: float, left: int
) -> tuple[int, int]:
    """Move weight between pairs of sites until Kα is level, for up to `left` steps.

    (The site to move that has no row, if that is why it stopped, else −1; the steps that remain.)
    """
    while left > 0:
        to, least = -1, np.inf
        for site in range(alpha.size):
            if alpha[site] < ceiling[site] and sums[site] < least:
                to, least = site, sums[site]
        if to < 0:
            break
        if row_of[to] < 0:
            return to, left
        # The partner that lowers the objective most; κ(x, x) is 1.
        source, highest, most, step = -1, 0.0, 0.0, 0.0
        row = rows[row_of[to]]
        for site in range(alpha.size):
            rise = sums[site] - least
            if alpha[site] > 0.0 and rise > 0.0:
                highest = max(highest, rise)
                best = rise / max(2.0 - 2.0 * row[site], 1e-12)
                if rise * best > most:
                    source, most, step = site, rise * best, best
        if highest <= tolerance:
            break
        if row_of[source] < 0:
            return source, left
        step = min(step, ceiling[to] - alpha[to], alpha[source])
        alpha[to] = ceiling[to] if step == ceiling[to] - alpha[to] else alpha[to] + step
        alpha[source] -= step
        other = rows[row_of[source]]
        for site in range(alpha.size):
            sums[site] += step * (row[site] - other[site])
        left -= 1
    return -1, left
