"""What an edit starts from and a readout does not need: kernel rows, the margin's factor, slacks, and their proof.

A state that was opened has the coefficients that were stored. `made_ready` finds the exact optimum of its entries anew,
from those as a guess, and compares bits: so no edit begins with a state that is not the canonical one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from expunge.errors import SolveError, VerificationError
from expunge.problem.check import StateCheck
from expunge.solver.candidate_check import slack_error
from expunge.solver.canonical import canonical
from expunge.solver.state import State

__all__ = ["made_ready", "release"]

# A state that is solved less well than this, by a rescuer, is no starting point for a path.
_SOLVED = 1e-12


def made_ready(state: State) -> tuple[State, StateCheck]:
    """The same state with rows, factor and slacks, and its check; the one that was given stays as it is.

    Raises VerificationError where its coefficients or its offset are not the doubles nearest to the exact optimum of
    its entries. Rows that were made are then overwritten.
    """
    candidate = state.copy()
    # The weights are those of the exact optimum, or they were not written by a memory.
    candidate.exact = False
    try:
        _, check = canonical(candidate)
    except SolveError as problem:
        state.gram.rewind(state.sites)
        raise VerificationError(f"whether the weights are the exact optimum is not decided ({problem})") from None
    sites = slice(state.sites)
    same = np.array_equal(candidate.share[sites], state.share[sites]) and candidate.offset == state.offset
    if not (same and check.passed):
        state.gram.rewind(state.sites)
        raise VerificationError("the weights are not those of the exact optimum of these entries; restore a copy")
    # The check counts what sums over wide keys may be off by, which is no error of the solution.
    candidate.exact = candidate.exact and check.worst <= _SOLVED + slack_error(candidate)
    candidate.share, candidate.ready = state.share, True
    return candidate, check


def release(state: State) -> State:
    """The same state without rows, factor and slacks, which are overwritten; nobody may be editing it."""
    state.gram.rewind(state.sites)
    state.margin.clear()
    state.slack[:] = 0.0
    return replace(state, margin=type(state.margin)(), ready=False)
