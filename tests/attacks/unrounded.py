"""A state published as the solver left it, for tests that an attack succeeds without the exact rounding."""

from __future__ import annotations

import numpy as np

from expunge.problem.check import StateCheck
from expunge.solver.candidate_check import check_candidate
from expunge.solver.canonical import Exactness
from expunge.solver.state import State
from expunge.types import IndexArray


def published_as_solved(state: State, counts: IndexArray, tolerance: float) -> tuple[Exactness, StateCheck]:
    """In the place of `canonical`."""
    state.share = state.alpha / np.maximum(state.multiplicity, 1)
    return "pairs", check_candidate(state, counts, tolerance)
