"""Recomputing from the keys what a state keeps for its next edit: kernel rows, sums over bound keys, and pairs.

The check of an edit takes slacks from these numbers, with a rigorous bound of their error. A number that was right when
it was made and is not any more (a fault of the memory or of the program) is outside that bound. So all of it is
compared with what the keys give, and made afresh, every RECOMPUTED_EVERY edits and when somebody asks for it.
"""

from __future__ import annotations

import logging
from typing import Final

import numpy as np

from expunge.problem.check import StateCheck, check_terms, stationarity_terms
from expunge.problem.tolerances import PUBLISHED
from expunge.solver.state import State
from expunge.types import IndexArray

__all__ = ["RECOMPUTED_EVERY", "check_from_keys", "recompute"]

log = logging.getLogger("expunge")

# Edits of a memory in one process after which everything that it keeps for the next one is made from the keys again.
RECOMPUTED_EVERY: Final = 1024


def recompute(state: State) -> tuple[str, ...]:
    """Drop kernel rows and sums, which are then made from the keys; which of rows, sums and pairs were wrong.

    After a fault the state is no starting point for a path: the next edit solves afresh.
    """
    gram = state.gram
    if not gram.count and not gram.pairs.size and not gram.bound.counts.any():
        # A memory that was only read keeps nothing yet.
        return ()
    faults = gram.disagreements(state.present())
    gram.rewind(state.sites)
    if faults:
        state.exact = False
        log.error("numbers kept for the next edit were not those of the keys: %s; made afresh", ", ".join(faults))
    return faults


def check_from_keys(state: State, counts: IndexArray, tolerance: float = PUBLISHED) -> StateCheck:
    """Mass, box and stationarity errors of a canonical state from its keys alone, for these entries of each site."""
    present = np.flatnonzero(counts)
    keys, weights = state.gram.keys[present], state.alpha[present]
    terms = stationarity_terms(keys, weights, state.gram.sigma)
    share, times = state.share[present], counts[present].astype(np.float64)
    return check_terms(share, terms, state.offset, cap=state.cap, counts=times, tolerance=tolerance)
