"""Where a cold fit starts: a feasible point near the optimum. Only its speed depends on how near.

`nested_guess` fits half of the keys, and for that half of them, and so on. Going back up, the smaller fit orders the
keys by their slack, which places all but those close to the boundary, and block pivots settle the rest: solve the
margin, move *every* key whose sign is wrong at once, repeat. That takes few rounds, but unlike single pivots it may
cycle; then a feasible point nearby is handed on. Where the margin is not definite there is no guess, and `libsvm_guess`
takes over: scikit-learn's `OneClassSVM` solves the same problem, scaled by C, at a loose tolerance.
"""

from __future__ import annotations

import numpy as np

from expunge.problem.kernel import kernel_block
from expunge.problem.tolerances import SLACK_TOLERANCE
from expunge.solver.kernel_rows import GramRows, add_weighted_rows
from expunge.solver.margin_factor import MarginFactor, pivot_floor
from expunge.solver.state import BOUND, MARGIN, RESERVE
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["SMALL", "WIDE", "libsvm_guess", "nested_guess"]

# Sites up to which block pivots start from every key on the margin.
SMALL = 128

# Coordinates above which a matrix product makes kernel values cheaper than one by one.
WIDE = 32

# Keys up to which a dense kernel matrix for LIBSVM is faster than its own evaluations.
DENSE, DENSE_WIDE = 2_048, 12_000

# LIBSVM's own units, in which coefficients run to 1: slack units are smaller by 2C.
LIBSVM_TOLERANCE = 1e-3

# Rounds without fewer wrong signs after which block pivots count as cycling.
PATIENCE = 4

# Rows that a fit needs on its way, for each key that is active in a fit of half the keys.
ROOM = 2

# Share of wrong signs with which half of the keys still order the others well enough.
LOOSE = 0.04


def nested_guess(gram: GramRows, ceiling: Vector, *, loose: float = 0.0) -> Vector | None:
    """Coefficients by site, as a rule optimal up to rounding; None where a margin on the way is not definite.

    On exit the active sites have their rows, and others may. Keys of wrong sign are let pass up to the share `loose`.
    """
    enough = int(loose * gram.sites)
    if gram.sites <= SMALL:
        return _block_pivots(gram, ceiling, np.arange(gram.sites), gram.sites, enough)
    half = np.sort(np.random.default_rng(0).permutation(gram.sites)[: gram.sites // 2])
    # With ceilings so much higher the smaller problem has the same ν.
    raised = ceiling[half] * (ceiling.sum() / ceiling[half].sum())
    coarse = nested_guess(GramRows(gram.keys[half], gram.sigma), raised, loose=LOOSE)
    if coarse is None:
        return None
    active = np.flatnonzero(coarse)
    gram.reserve_rows(min(gram.sites, ROOM * active.size))
    gram.require(half[active])
    weights = np.zeros(gram.sites)
    weights[half[active]] = coarse[active]
    margin = int(np.count_nonzero(coarse[active] < raised[active]))
    return _block_pivots(gram, ceiling, np.argsort(gram.product(weights)), margin, enough)


def _block_pivots(gram: GramRows, ceiling: Vector, order: IndexArray, margin: int, enough: int) -> Vector | None:
    """Solve, starting from the `margin` keys around the place in `order` up to which the ceilings hold the mass.

    With no more than `enough` wrong signs left, a feasible point near the solution will do.
    """
    place = int(np.searchsorted(np.cumsum(ceiling[order]), 1.0))
    first = max(0, place - margin // 2) if margin < gram.sites else 0
    status = np.full(gram.sites, RESERVE, dtype=np.int8)
    status[order[:first]] = BOUND
    status[order[first : first + margin]] = MARGIN
    gram.require(np.flatnonzero(status != RESERVE))
    bound_sums = gram.product(np.where(status == BOUND, ceiling, 0.0))
    fewest, patience = gram.sites + 1, PATIENCE
    while True:
        members, bound = np.flatnonzero(status == MARGIN), np.flatnonzero(status == BOUND)
        if members.size == 0:
            return None
        factor = MarginFactor()
        definite = factor.refresh(members, gram.block(members, members))
        if not definite or factor.smallest_pivot() <= pivot_floor(ceiling[members].min(), SLACK_TOLERANCE):
            return None
        solved, offset = factor.solve(0.5 - bound_sums[members], 1.0 - float(ceiling[bound].sum()))
        sums = bound_sums.copy()
        add_weighted_rows(gram.rows, gram.row_of[members], solved, gram.sites, sums)
        slack = offset - 1.0 + 2.0 * sums
        low, high = members[solved < 0.0], members[solved > ceiling[members]]
        entering = np.flatnonzero((status == RESERVE) & (slack < -SLACK_TOLERANCE))
        freed = bound[slack[bound] > SLACK_TOLERANCE]
        wrong = low.size + high.size + entering.size + freed.size
        fewest, patience = (wrong, PATIENCE) if wrong < fewest else (fewest, patience - 1)
        if wrong <= enough or patience == 0:
            alpha = np.zeros(gram.sites)
            alpha[bound], alpha[members] = ceiling[bound], solved
            return alpha if wrong == 0 else _feasible(alpha, ceiling, members)
        status[low], status[high], status[entering], status[freed] = RESERVE, BOUND, MARGIN, MARGIN
        gram.require(entering)
        add_weighted_rows(gram.rows, gram.row_of[high], ceiling[high], gram.sites, bound_sums)
        add_weighted_rows(gram.rows, gram.row_of[freed], -ceiling[freed], gram.sites, bound_sums)


def _feasible(alpha: Vector, ceiling: Vector, members: IndexArray) -> Vector | None:
    """Bring members that are out of the box to its edge, and the others to the mass that is left."""
    inside = np.clip(alpha[members], 0.0, ceiling[members])
    missing = 1.0 - (float(alpha.sum()) - float(alpha[members].sum()) + float(inside.sum()))
    room = ceiling[members] - inside if missing > 0.0 else inside
    if room.sum() <= abs(missing):
        return None
    alpha[members] = inside + room * (missing / room.sum())
    return alpha


def libsvm_guess(gram: GramRows, multiplicity: IndexArray, cap: float) -> Vector:
    """Coefficients by site."""
    from sklearn.svm import OneClassSVM

    keys = np.repeat(gram.keys[: gram.sites], multiplicity, axis=0)
    owner = np.repeat(np.arange(gram.sites), multiplicity)
    settings = {"nu": min(1.0, 1.0 / (cap * keys.shape[0])), "tol": LIBSVM_TOLERANCE, "cache_size": 500}
    if keys.shape[1] <= WIDE and keys.shape[0] <= DENSE:
        model = OneClassSVM(kernel="precomputed", **settings).fit(kernel_block(keys, keys, gram.sigma))
    elif keys.shape[1] > WIDE and keys.shape[0] <= DENSE_WIDE:
        model = OneClassSVM(kernel="precomputed", **settings).fit(_rough_gram(keys, gram.sigma))
    else:
        model = OneClassSVM(kernel="rbf", gamma=1.0 / gram.sigma**2, **settings).fit(keys)
    guess = np.zeros(gram.sites)
    np.add.at(guess, owner[model.support_], model.dual_coef_.ravel() * cap)
    return guess


def _rough_gram(keys: Matrix, sigma: float) -> Matrix:
    """κ of all pairs by one matrix product: fast in many dimensions, and too inexact for anything but a guess."""
    centred = (keys - keys.mean(axis=0)) / sigma
    norms = np.einsum("ij,ij->i", centred, centred)
    block: Matrix = centred @ centred.T
    block *= 2.0
    block -= norms[:, None]
    block -= norms
    np.clip(block, -700.0, 0.0, out=block)
    np.exp(block, out=block)
    return block
