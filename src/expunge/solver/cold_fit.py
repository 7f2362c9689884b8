"""Cold fit: a quick guess of the coefficients (`initial_guess`), then active-set pivots to machine precision.

The guess is a feasible starting point, not an answer.
"""

from __future__ import annotations

import numpy as np

from expunge.problem.tolerances import SLACK_TOLERANCE
from expunge.solver.active_set import enter, finish, saturate, saturated
from expunge.solver.initial_guess import nested_guess
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.margin_factor import pivot_floor
from expunge.solver.state import BOUND, MARGIN, RESERVE, State
from expunge.types import IndexArray, Matrix, Progress, Vector

__all__ = ["distinct_sites", "fit"]


def distinct_sites(keys: Matrix) -> tuple[IndexArray, IndexArray]:
    """Group identical keys: (first entry of each site, in order of first appearance; site of each entry)."""
    same = np.arange(keys.shape[0])
    # Equal keys have equal first coordinates; of most memories no two entries have.
    _, group, sizes = np.unique(keys[:, :1].ravel(), return_inverse=True, return_counts=True)
    seen: dict[bytes, int] = {}
    for row in np.flatnonzero(sizes[group] > 1).tolist():
        same[row] = seen.setdefault(keys[row].tobytes(), row)
    first, site_of = np.unique(same, return_inverse=True)
    return first, site_of


def fit(gram: KernelRows, multiplicity: IndexArray, cap: float, progress: Progress | None = None) -> State:
    """Solve from nothing. On exit KKT holds to the slack tolerance. `progress` as for `nested_guess`.

    Without entries there is nothing to solve: the offset is 0, and the first admission solves afresh.
    """
    state = State.start(gram, multiplicity, cap)
    if not state.present().size:
        state.exact = False
        return state
    if saturated(state):
        saturate(state)
        return state
    _adopt(state, nested_guess(gram, state.multiplicity[: state.sites], cap, progress))
    finish(state)
    return state


def _adopt(state: State, guess: Vector) -> None:
    """Take a guess over: exact bounds, then as much of the margin as is independent."""
    ceiling = state.ceiling[: state.sites]
    near = 1e-9 * ceiling
    guess = np.where(guess <= near, 0.0, np.where(guess >= ceiling - near, ceiling, guess))
    state.alpha[: state.sites] = guess
    present = ceiling > 0.0
    status = np.where(guess == 0.0, RESERVE, np.where(guess == ceiling, BOUND, MARGIN))
    state.status[: state.sites][present] = status[present]
    free = np.flatnonzero(state.status[: state.sites] == MARGIN)
    state.gram.require(free)
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
