"""The independent check of a candidate: mass, box and stationarity, recomputed from kernel rows and coefficients.

It takes from a candidate only its coefficients and offset. How many entries each site holds comes from the edit itself,
so a solver that lies about the problem it solved is found out.
"""

from __future__ import annotations

import math

import numpy as np

from expunge.compilation import njit
from expunge.problem.check import StateCheck
from expunge.problem.tolerances import PARTITION_THRESHOLD, PUBLISHED
from expunge.solver.bound_sums import follow_counts
from expunge.solver.kernel_products import WIDE
from expunge.solver.kernel_rows import RowTable, WeightedRows, weighted_sums
from expunge.solver.state import ABSENT, BOUND, MARGIN, RESERVE, SiteArrays, State
from expunge.types import IndexArray, Vector

__all__ = ["check_candidate", "slack_error"]

_U = 2.0**-53


@njit(cache=True, nogil=True)
def _judge(
    at: SiteArrays,
    members: IndexArray,
    counts: IndexArray,
    sums: Vector,
    offset: float,
    cap: float,
    threshold: float,
) -> tuple[float, float, float, bool]:
    """`check.check_terms` over sites, in one pass: (mass, box, stationarity, partition agrees with α).

    `at.slack` receives g = ρ − t at every site.
    """
    total, rest = -1.0, 0.0
    box, stationarity = 0.0, 0.0
    agrees = True
    margin = 0
    for site in range(counts.size):
        a = at.alpha[site]
        at.slack[site] = 2.0 * sums[site] + (offset - 1.0)
        if counts[site] == 0:
            if a != 0.0 or at.status[site] != ABSENT:
                agrees = False
            if a != 0.0:
                box = np.inf
            continue
        # Neumaier's sum: exact to the last bit or two, whatever the order of magnitude.
        added = total + a
        rest += (total - added) + a if abs(total) >= abs(a) else (a - added) + total
        total = added
        share = a / counts[site]
        box = max(box, -share, share - cap)
        gap = 1.0 - 2.0 * sums[site] - offset
        if share <= threshold:
            term = gap
        elif share >= cap - threshold:
            term = -gap
        else:
            term = abs(gap)
        if not term <= stationarity:
            stationarity = term
        # A free coefficient may round to a bound; nothing else is at one by rounding.
        if at.multiplicity[site] != counts[site] or not (
            (at.status[site] == MARGIN and 0.0 <= a <= at.ceiling[site])
            or (at.status[site] == RESERVE and a == 0.0)
            or (at.status[site] == BOUND and a == at.ceiling[site])
        ):
            agrees = False
        if at.status[site] == MARGIN:
            margin += 1
    for member in members:
        if at.status[member] != MARGIN:
            agrees = False
    agrees = agrees and margin == members.size
    return abs(total + rest), box, stationarity, agrees


@njit(cache=True, nogil=True)
def _read_off(alpha: Vector, counts: IndexArray, cap: float, row_of: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Entries of each site whose coefficient is its ceiling, by these counts; sites below it without a row."""
    bound, missing = np.zeros(counts.size, dtype=np.int64), np.empty(counts.size, dtype=np.int64)
    size = 0
    for site in range(counts.size):
        if counts[site] > 0 and alpha[site] == counts[site] * cap:
            bound[site] = counts[site]
        elif alpha[site] != 0.0 and row_of[site] < 0:
            missing[size] = site
            size += 1
    return bound, missing[:size].copy()


@njit(cache=True, nogil=True)
def _recompute(
    table: RowTable,
    held: int,
    bound_counts: IndexArray,
    high: Vector,
    low: Vector,
    at: SiteArrays,
    members: IndexArray,
    counts: IndexArray,
    offset: float,
    cap: float,
    threshold: float,
) -> tuple[int, float, float, float, bool]:
    """How many bound sites have changed, and `_judge`, with Kα from kernel rows and the sums over bound keys.

    Few changes of the sums are followed; −1, and nothing judged, where rows are missing or more has changed.
    """
    bound, missing = _read_off(at.alpha, counts, cap, table.row_of)
    changed = -1
    if missing.size == 0:
        changed = follow_counts(
            bound, bound_counts, table.keys, table.exponent_factor, table.rows, table.row_of, table.sites, high, low
        )
    if changed < 0:
        return -1, np.inf, np.inf, np.inf, False
    kernels = WeightedRows(table.rows, table.site_of, held, bound, high, low)
    sums = weighted_sums(kernels, at.alpha, cap, table.sites)
    mass, box, stationarity, agrees = _judge(at, members, counts, sums, offset, cap, threshold)
    return changed, mass, box, stationarity, agrees


def _terms(state: State, counts: IndexArray) -> tuple[float, float, float, bool] | None:
    """What `_judge` finds for a candidate; None where rows or sums have to be made first."""
    gram, sums = state.gram, state.gram.bound
    # What comes and goes counts where rows of two kinds do.
    before = sums.counts.copy() if gram.keys.shape[1] >= WIDE else None
    changed, mass, box, stationarity, agrees = _recompute(
        gram.table,
        gram.count,
        sums.counts,
        sums.high,
        sums.low,
        state.arrays,
        state.margin.members,
        counts,
        state.offset,
        state.cap,
        PARTITION_THRESHOLD,
    )
    if changed < 0:
        return None
    sums.updates += changed > 0
    if changed and before is not None:
        sums.changes += int(np.abs(sums.counts - before).sum())
    return mass, box, stationarity, agrees


def check_candidate(state: State, counts: IndexArray, tolerance: float = PUBLISHED) -> StateCheck:
    """Recompute a candidate's errors from kernel rows, coefficients and offset, for these site counts.

    The stationarity error includes `slack_error`. The slacks so found replace the candidate's own. A candidate whose
    bookkeeping disagrees with its coefficients is marked as no starting point for a path.
    """
    gram = state.gram
    terms = None if gram.bound.stale else _terms(state, counts)
    while terms is None:
        bound, missing = _read_off(state.alpha, counts, state.cap, gram.row_of)
        gram.require(missing)
        gram.count_bound(bound)
        terms = _terms(state, counts)
    mass, box, stationarity, agrees = terms
    state.exact = state.exact and agrees
    if mass != mass or box != box or stationarity != stationarity:
        mass, box, stationarity = (math.inf if math.isnan(error) else error for error in (mass, box, stationarity))
    return StateCheck(mass, box, stationarity + slack_error(state), tolerance, "sums")


def slack_error(state: State) -> float:
    """Bound on the error of the slacks that `State.recompute_slacks` finds for nearest doubles.

    Kernel values weigh at most 1 in all; sums of `members` products and the bound sums round by (members + 12)u; every
    coefficient and the offset are off by half a unit in the last place.
    """
    members = state.gram.count
    return 2.0 * (state.gram.value_error(state.cap) + (members + 16.0) * _U) * (1.0 + 1e-6) + 4.0 * _U
