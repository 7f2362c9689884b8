"""Cold fit: a quick guess of the partition, then active-set pivots to machine precision.

The guess is LIBSVM's (scikit-learn's `OneClassSVM` solves the same problem, scaled by C) at a loose
tolerance; only its coefficients are taken, and they are a feasible starting point, not an answer. Small
problems start from the first ⌈1/C⌉ keys instead, which spares the import.
"""

from __future__ import annotations

import numpy as np

from expunge.kernel import kernel_block
from expunge.problem import row_bytes
from expunge.solver.gram import GramRows
from expunge.solver.margin import pivot_floor
from expunge.solver.pivot import enter, finish, saturate, saturated
from expunge.solver.state import BOUND, MARGIN, RESERVE, State
from expunge.tolerances import SLACK_TOLERANCE
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["distinct_sites", "fit"]

# Sites up to which plain pivots beat a guess.
SMALL = 128

# Keys up to which a dense kernel matrix for the guess is faster than LIBSVM's own evaluations: few where those are
# cheap, many above WIDE coordinates, where one matrix product replaces them.
DENSE, DENSE_WIDE, WIDE = 2_048, 12_000, 32

# LIBSVM's own units, in which coefficients run to 1: slack units are smaller by 2C.
GUESS_TOLERANCE = 1e-3


def distinct_sites(keys: Matrix) -> tuple[IndexArray, IndexArray]:
    """Group identical keys: (first entry of each site, in order of first appearance; site of each entry)."""
    seen: dict[bytes, int] = {}
    site_of = [seen.setdefault(key, len(seen)) for key in row_bytes(keys)]
    sites = np.array(site_of, dtype=np.int64)
    return np.unique(sites, return_index=True)[1].astype(np.int64), sites


def fit(gram: GramRows, multiplicity: IndexArray, cap: float) -> State:
    """Solve from nothing. On exit KKT holds to the slack tolerance."""
    state = State.start(gram, multiplicity, cap)
    ceiling = state.ceiling[: state.sites]
    if saturated(state):
        saturate(state)
        return state
    if state.sites <= SMALL:
        guess, block = _fill_in_order(ceiling), None
    else:
        guess, block = _libsvm_guess(gram, multiplicity, cap)
    _adopt(state, guess, block)
    finish(state)
    return state


def _fill_in_order(ceiling: Vector) -> Vector:
    before = np.concatenate([[0.0], np.cumsum(ceiling)[:-1]])
    return np.minimum(ceiling, np.maximum(0.0, 1.0 - before))


def _libsvm_guess(gram: GramRows, multiplicity: IndexArray, cap: float) -> tuple[Vector, Matrix | None]:
    """Coefficients by site, and the exact kernel matrix of the sites if it was made on the way."""
    from sklearn.svm import OneClassSVM

    keys = np.repeat(gram.keys[: gram.sites], multiplicity, axis=0)
    owner = np.repeat(np.arange(gram.sites), multiplicity)
    settings = {"nu": min(1.0, 1.0 / (cap * keys.shape[0])), "tol": GUESS_TOLERANCE, "cache_size": 500}
    block: Matrix | None = None
    if keys.shape[1] <= WIDE and keys.shape[0] <= DENSE:
        block = kernel_block(keys, keys, gram.sigma)
        model = OneClassSVM(kernel="precomputed", **settings).fit(block)
    elif keys.shape[1] > WIDE and keys.shape[0] <= DENSE_WIDE:
        model = OneClassSVM(kernel="precomputed", **settings).fit(_rough_gram(keys, gram.sigma))
    else:
        model = OneClassSVM(kernel="rbf", gamma=1.0 / gram.sigma**2, **settings).fit(keys)
    guess = np.zeros(gram.sites)
    np.add.at(guess, owner[model.support_], model.dual_coef_.ravel() * cap)
    return guess, block if keys.shape[0] == gram.sites else None


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


def _adopt(state: State, guess: Vector, block: Matrix | None) -> None:
    """Take a guess over: exact bounds, then as much of the margin as is independent."""
    ceiling = state.ceiling[: state.sites]
    near = 1e-9 * ceiling
    guess = np.where(guess <= near, 0.0, np.where(guess >= ceiling - near, ceiling, guess))
    state.alpha[: state.sites] = guess
    present = ceiling > 0.0
    status = np.where(guess == 0.0, RESERVE, np.where(guess == ceiling, BOUND, MARGIN))
    state.status[: state.sites][present] = status[present]
    state.gram.require(state.active(), block)
    free = np.flatnonzero(state.status[: state.sites] == MARGIN)
    if free.size == 0:
        state.recompute_slacks()
        return
    # The offset is a free choice for now; the mean makes the first residual small.
    state.recompute_slacks()
    state.offset = -float(state.slack[free].mean())
    state.slack[: state.sites] += state.offset
    factored = state.margin.refresh(free, state.gram.block(free, free))
    if not factored or state.margin.smallest_pivot() <= pivot_floor(ceiling[free].min(), SLACK_TOLERANCE):
        state.margin = type(state.margin)()
        for site in free.tolist():
            enter(state, site)
