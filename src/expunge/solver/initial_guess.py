"""Where a cold fit starts: a feasible point near the optimum. Only its speed depends on how near.

`nested_guess` fits half of the keys, and for that half of them, and so on. Going back up, the smaller fit orders the
keys by their slack, which places all but those close to the boundary. Steps that move weight between two keys settle
most of the rest (sequential minimal optimization, as in LIBSVM): they need no factor, so that near-duplicates do not
matter, and they stop at a loose tolerance.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from expunge.solver.kernel_rows import KernelRows
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["SMALL", "nested_guess"]

# Keys up to which the weight is first given in the order of arrival.
SMALL = 128

# How level Kα must be, as a share of the cap: LIBSVM's default.
LEVEL = 1e-3

# Steps for each key after which the guess is good enough.
STEPS = 50

# Rows that are made together, of the keys that would gain weight next: one by one they take several times as long.
BATCH = 8

# Rows that a fit needs on its way, for each key that is active in a fit of half the keys.
ROOM = 2


def nested_guess(gram: KernelRows, ceiling: Vector) -> Vector:
    """Coefficients by site. On exit the active sites have their rows, and others may.

    A site whose ceiling is 0 has no entries, and stays at 0.
    """
    present = np.flatnonzero(ceiling)
    order = present
    if present.size > SMALL:
        half = np.sort(np.random.default_rng(0).permutation(present)[: present.size // 2])
        # With ceilings so much higher the smaller problem has the same ν.
        raised = ceiling[half] * (ceiling.sum() / ceiling[half].sum())
        coarse = nested_guess(KernelRows(gram.keys[half], gram.sigma), raised)
        active = np.flatnonzero(coarse)
        gram.reserve_rows(min(gram.sites, ROOM * active.size))
        gram.require(half[active])
        weights = np.zeros(gram.sites)
        weights[half[active]] = coarse[active]
        order = present[np.argsort(gram.product(weights)[present])]
    before = np.concatenate([[0.0], np.cumsum(ceiling[order])[:-1]])
    alpha = np.zeros(gram.sites)
    alpha[order] = np.minimum(ceiling[order], np.maximum(0.0, 1.0 - before))
    gram.require(np.flatnonzero(alpha))
    sums = gram.product(alpha)
    tolerance = LEVEL * float(ceiling[present].min())
    needs_row, left = True, STEPS * present.size
    while needs_row:
        needs_row, left = _move_pairs(gram.rows, gram.row_of, ceiling, alpha, sums, tolerance, left)
        if needs_row:
            without = np.flatnonzero((alpha < ceiling) & (gram.row_of[: gram.sites] < 0))
            gram.require(without[np.argsort(sums[without])[:BATCH]])
    return alpha


@njit(cache=True, nogil=True)
def _move_pairs(
    rows: Matrix, row_of: IndexArray, ceiling: Vector, alpha: Vector, sums: Vector, tolerance: float, left: int
) -> tuple[bool, int]:
    """Move weight between pairs of sites until Kα is level, for up to `left` steps.

    (Whether it stopped because the site of least Kα that can gain weight has no row; the steps that remain.)
    """
    while left > 0:
        to, least = -1, np.inf
        for site in range(alpha.size):
            if alpha[site] < ceiling[site] and sums[site] < least:
                to, least = site, sums[site]
        if to < 0:
            break
        if row_of[to] < 0:
            return True, left
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
        step = min(step, ceiling[to] - alpha[to], alpha[source])
        alpha[to] = ceiling[to] if step == ceiling[to] - alpha[to] else alpha[to] + step
        alpha[source] -= step
        other = rows[row_of[source]]
        for site in range(alpha.size):
            sums[site] += step * (row[site] - other[site])
        left -= 1
    return False, left
