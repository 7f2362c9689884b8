"""Where a cold fit starts: a feasible point near the optimum. Only its speed depends on how near.

`nested_guess` fits half of the keys, and for that half of them, and so on. Going back up, the smaller fit orders the
keys by their slack, which places all but those close to the boundary. Steps that move weight between two keys settle
most of the rest (sequential minimal optimization, as in LIBSVM): they need no factor, so that near-duplicates do not
matter, and they stop at a loose tolerance.

Keys at their ceiling have no kernel rows here either: they enter through the sums over bound keys, which the fit needs
in any case. Rows are made for keys between their bounds and for those that weight moves to or from.
"""

from __future__ import annotations

import numpy as np

from expunge.problem.pair_moves import move_pairs
from expunge.solver.kernel_rows import KernelRows, weighted_sums
from expunge.solver.state import MARGIN, RESERVE
from expunge.types import IndexArray, Progress, Vector

__all__ = ["SMALL", "nested_guess"]

# Keys up to which the weight is first given in the order of arrival.
SMALL = 128

# How level Kα must be, as a share of the cap: LIBSVM's default.
LEVEL = 1e-3

# Steps for each key after which the guess is good enough.
STEPS = 50

# Rows that are made together, of the keys that would move next: one by one they take several times as long.
BATCH = 8

# Entries of kernel rows beyond which those of keys at a bound are dropped: 512 MB.
ROOM = 1 << 26


def nested_guess(gram: KernelRows, multiplicity: IndexArray, cap: float, progress: Progress | None = None) -> Vector:
    """Coefficients by site, for these entries (sites,) of each site, at this cap.

    A site without entries stays at 0. On exit the sites between their bounds have their rows, others may, and the
    bound sums are near those of the guess. `progress` is told which fit is under way, and how many of its sums over
    bound keys are there.
    """
    ceiling = multiplicity.astype(np.float64) * cap
    present = np.flatnonzero(multiplicity)
    order = present
    if present.size > SMALL:
        half = np.sort(np.random.default_rng(0).permutation(present)[: present.size // 2])
        # With ceilings so much higher the smaller problem has the same ν.
        raised = cap * float(multiplicity[present].sum()) / float(multiplicity[half].sum())
        weights = np.zeros(gram.sites)
        weights[half] = nested_guess(KernelRows(gram.keys[half], gram.sigma), multiplicity[half], raised, progress)
        order = present[np.argsort(_sums(gram, weights, multiplicity, raised, progress)[present])]
    # Memory that is not written to costs nothing, and a larger buffer later is a copy.
    gram.reserve_rows(min(gram.sites, ROOM // gram.sites))
    before = np.concatenate([[0.0], np.cumsum(ceiling[order])[:-1]])
    alpha = np.zeros(gram.sites)
    alpha[order] = np.minimum(ceiling[order], np.maximum(0.0, 1.0 - before))
    sums = _sums(gram, alpha, multiplicity, cap, progress)
    tolerance = LEVEL * cap * int(multiplicity[present].min())
    rowless, left = 0, STEPS * present.size
    while rowless >= 0:
        rowless, left = move_pairs(gram.rows, gram.row_of, ceiling, alpha, sums, tolerance, left)
        if rowless >= 0:
            _make_rows(gram, rowless, ceiling, alpha, sums)
    return alpha


def _sums(gram: KernelRows, alpha: Vector, multiplicity: IndexArray, cap: float, progress: Progress | None) -> Vector:
    """Kα at every site, with rows for sites between their bounds and sums over those at their ceiling."""
    bound = np.where(alpha == multiplicity * cap, multiplicity, 0)
    gram.require(np.flatnonzero((alpha > 0.0) & (bound == 0)))

    def report(done: int, columns: int) -> None:
        if progress is not None:
            progress(f"fitting {columns} keys", done, columns)

    gram.count_bound(bound, report)
    return np.asarray(weighted_sums(gram.weighted(bound), alpha, cap, gram.sites))


def _make_rows(gram: KernelRows, rowless: int, ceiling: Vector, alpha: Vector, sums: Vector) -> None:
    """Make the row of one site, and of others without one that would gain or lose weight soon."""
    room, batch = ROOM // gram.sites, 2 * BATCH + 1
    between = (alpha > 0.0) & (alpha < ceiling)
    # Both sites of the next step find room then, so that it is taken.
    if gram.count + batch > room >= np.count_nonzero(between) + 2 * batch:
        status = np.full(gram.capacity, RESERVE, dtype=np.int8)
        status[: gram.sites][between] = MARGIN
        gram.retain(status)
    without = gram.row_of[: gram.sites] < 0
    gaining = np.flatnonzero(without & (alpha < ceiling))
    losing = np.flatnonzero(without & (alpha > 0.0))
    gaining = gaining[np.argsort(sums[gaining])[:BATCH]]
    losing = losing[np.argsort(-sums[losing])[:BATCH]]
    gram.require(np.unique(np.concatenate([[rowless], gaining, losing])))
