"""Primal active-set pivots: finish any box-feasible state to the KKT conditions without leaving the box.

`settle` solves the margin system for its own residual and walks there, dropping each key that meets a bound
on the way. `enter` frees one key; a key numerically dependent on the margin cannot join it, so it trades
places instead: it moves along the null direction until it, or a member, meets a bound. `finish` alternates
the two, always judging by slacks recomputed from the kernel rows.
"""

from __future__ import annotations

import math

import numpy as np

from expunge.compilation import njit
from expunge.errors import SolveError
from expunge.problem.tolerances import REFINED, SATURATION_SLIP, SLACK_TOLERANCE
from expunge.solver.margin_factor import MarginFactor, pivot_floor
from expunge.solver.path_segment import apply_motion, move, slack_rates
from expunge.solver.state import ABSENT, BOUND, MARGIN, RESERVE, State
from expunge.types import IndexArray, Vector

__all__ = [
    "enter",
    "finish",
    "leave",
    "next_free",
    "refinement_floor",
    "saturate",
    "saturated",
    "settle",
    "shift_offset",
]

_EPS = float(np.finfo(np.float64).eps)

# Mass error that another solve would not improve on.
MASS_ROUNDING = 4.0 * _EPS


@njit(cache=True, nogil=True)
def _entries(multiplicity: IndexArray, sites: int) -> int:
    total = 0
    for site in range(sites):
        total += multiplicity[site]
    return total


def saturated(state: State) -> bool:
    """Whether nC = 1: the box and the mass leave a single point."""
    return int(_entries(state.multiplicity, state.sites)) * state.cap <= 1.0 + SATURATION_SLIP


def saturate(state: State) -> None:
    """Take the single point of a saturated problem: every key at its ceiling."""
    present = state.multiplicity[: state.sites] > 0
    state.margin = MarginFactor()
    state.alpha[: state.sites] = state.ceiling[: state.sites]
    state.status[: state.sites] = np.where(present, BOUND, ABSENT)
    state.recompute_slacks()
    _place_offset(state)


def leave(state: State, position: int, status: int) -> None:
    """Take a member out of the margin, to exactly its bound."""
    site = state.margin.leave(position)
    state.status[site] = status
    state.alpha[site] = state.ceiling[site] if status == BOUND else 0.0
    state.pivots += 1


def next_free(state: State, gaining: bool, *, extreme: bool = False) -> int:
    """With an empty margin, the key that frees itself first as the offset moves; −1 if there is none.

    `gaining`: the margin will have to gain mass, so the offset falls to the nearest reserve key; otherwise it
    rises to the nearest bound key. `extreme`: whatever the offset is now, by the order of the slacks alone.
    """
    candidates = np.flatnonzero(state.status[: state.sites] == (RESERVE if gaining else BOUND))
    if candidates.size == 0:
        return -1
    slack = state.slack[candidates]
    if extreme:
        return int(candidates[np.argmin(slack) if gaining else np.argmax(slack)])
    return int(candidates[np.argmin(np.abs(slack))])


def shift_offset(state: State, shift: float) -> None:
    """Move the offset, and every slack with it."""
    state.offset += shift
    state.slack[: state.sites] += shift


def enter(state: State, site: int) -> None:
    """Free a site: join the margin, or trade places with a member if dependent on it.

    On exit the site is in the margin or at a bound; the box still holds.
    """
    state.gram.require_one(site)
    floor = float(pivot_floor(state.ceiling[site], SLACK_TOLERANCE))
    while True:
        column = state.gram.block(np.array([site]), state.margin.members)[0]
        pivot = state.margin.enter(site, column, floor)
        if pivot > floor:
            state.status[site] = MARGIN
            state.pivots += 1
            return
        if _trade(state, site):
            return


def _trade(state: State, site: int) -> bool:
    """Move a dependent site along the null direction until a bound; True if it is the site's own."""
    sign = 1.0 if state.status[site] == RESERVE or (state.alpha[site] == 0.0) else -1.0
    if 0.0 < state.alpha[site] < state.ceiling[site]:
        sign = 1.0 if state.slack[site] < 0.0 else -1.0
    motion = move(state, np.array([site]), np.array([sign]))
    room = float(state.ceiling[site] - state.alpha[site] if sign > 0 else state.alpha[site])
    step, position, status = _box_limit(state, motion.member_rates, room)
    apply_motion(state, motion, step)
    if position < 0:
        state.status[site] = BOUND if sign > 0 else RESERVE
        state.alpha[site] = state.ceiling[site] if sign > 0 else 0.0
        state.pivots += 1
        return True
    leave(state, position, status)
    return False


def _box_limit(state: State, rates: Vector, limit: float) -> tuple[float, int, int]:
    """How far the members may move: (step, blocking position or −1, bound that it meets).

    A rate too small to move its member by more than rounding within the limit blocks nothing.
    """
    members = state.margin.members
    alpha, ceiling = state.alpha[members], state.ceiling[members]
    noise = 8.0 * _EPS * ceiling / limit
    room = np.full(members.size, np.inf)
    falling, rising = rates < -noise, rates > noise
    room[falling] = alpha[falling] / -rates[falling]
    room[rising] = (ceiling[rising] - alpha[rising]) / rates[rising]
    position = int(np.argmin(room)) if room.size else -1
    if position < 0 or room[position] >= limit:
        return limit, -1, RESERVE
    return max(float(room[position]), 0.0), position, RESERVE if falling[position] else BOUND


def settle(state: State, *, track: bool = True) -> None:
    """Solve the margin system for its residual and walk there inside the box.

    `track=False` leaves the slacks of other keys stale, for callers that recompute them next.
    """
    while True:
        missing = state.mass_error()
        if abs(missing) <= MASS_ROUNDING:
            # Pushing the last bit of the mass into a key that is at its bound would throw it out again.
            missing = 0.0
        if state.margin.size == 0:
            if missing == 0.0:
                return
            site = next_free(state, gaining=missing > 0.0)
            if site < 0:
                return
            shift_offset(state, -float(state.slack[site]))
            enter(state, site)
            continue
        members = state.margin.members
        right = -0.5 * state.slack[members]
        shift, offset_shift = state.margin.solve(right, missing)
        # What is no more than the rounding of the solve must not push a key off its bound; but missing mass has to go
        # somewhere.
        alpha, ceiling = state.alpha[members], state.ceiling[members]
        small = np.abs(shift) <= 8.0 * _EPS * np.maximum(ceiling, np.abs(right).max())
        shift[small if missing == 0.0 else small & ((alpha <= 0.0) | (alpha >= ceiling))] = 0.0
        step, position, status = _box_limit(state, shift, 1.0)
        state.alpha[members] += step * shift
        state.offset += step * offset_shift
        if track or position >= 0:
            state.slack[: state.sites] += step * slack_rates(state, shift, offset_shift)
        if position < 0:
            return
        leave(state, position, status)


def _worst_violator(state: State) -> int:
    """Site whose slack is furthest on the wrong side, or −1."""
    slack, status = state.slack[: state.sites], state.status[: state.sites]
    wrong = np.where(status == RESERVE, -slack, np.where(status == BOUND, slack, 0.0))
    site = int(np.argmax(wrong))
    return site if wrong[site] > SLACK_TOLERANCE else -1


@njit(cache=True, nogil=True)
def _all_inside(alpha: Vector, ceiling: Vector, members: IndexArray, rounding: float) -> bool:
    """Whether there are members and none is at a bound, or within rounding of one."""
    for site in members:
        if alpha[site] <= rounding or ceiling[site] - alpha[site] <= rounding:
            return False
    return bool(members.size > 0)


def tidy(state: State) -> None:
    """Send members that are at a bound there, and give an empty margin its offset.

    C = 1/(ν n₀) is rounded, so when 1/C is a whole number the bound keys leave a mass of a few 1e−17 that some key has
    to carry. It says nothing about the offset; where no other key is on the margin, it counts as zero.
    """
    members = state.margin.members
    # As much as a state may be off that is not refined any more: else that much mass would decide the offset.
    rounding = refinement_floor(state)
    if _all_inside(state.alpha, state.ceiling, members, rounding):
        return
    alpha, ceiling = state.alpha[members], state.ceiling[members]
    low, high = alpha <= 0.0, alpha >= ceiling
    near_low, near_high = alpha <= rounding, ceiling - alpha <= rounding
    if (near_low | near_high).all():
        change = float((ceiling - alpha)[near_high & ~near_low].sum() - alpha[near_low].sum())
        if abs(change) <= rounding:
            low, high = near_low, near_high & ~near_low
    for position in np.flatnonzero(low | high)[::-1].tolist():
        leave(state, position, RESERVE if low[position] else BOUND)
    if state.margin.size == 0:
        _place_offset(state)


def _place_offset(state: State) -> None:
    """With an empty margin, take the upper end of ρ's interval: the least t of the bound keys.

    That end depends on the bound keys alone, so admitting or removing a reserve key never moves it, and a
    new key stays in reserve exactly when its slack there is nonnegative.
    """
    bound = state.status[: state.sites] == BOUND
    shift_offset(state, -float(state.slack[: state.sites][bound].max()))


def refinement_floor(state: State) -> float:
    """Margin slacks below this are the rounding of their own sums, and another solve would leave the same."""
    return max(REFINED, 0.25 * _EPS * math.sqrt(state.sites))


def finish(state: State, *, budget: int | None = None) -> None:
    """Pivot until every slack, recomputed, has its sign; raise SolveError when the budget runs out.

    On entry coefficients are in the box, exact on RESERVE and BOUND, and margin sites have rows.
    """
    budget = budget if budget is not None else 200 + 20 * state.sites
    before, refreshed = np.inf, False
    for _ in range(50):
        state.recompute_slacks()
        missing = abs(state.mass_error())
        if missing <= refinement_floor(state):
            tidy(state)
        site = _worst_violator(state)
        residual = max(float(np.abs(state.slack[state.margin.members]).max(initial=0.0)), missing)
        if site < 0:
            if residual <= refinement_floor(state):
                return
            if residual > 0.5 * before:
                # Refinement has stopped helping: this is what rounding allows, or the factor has drifted.
                if refreshed or residual <= SLACK_TOLERANCE:
                    return
                members = state.margin.members.copy()
                refreshed = state.margin.refresh(members, state.gram.block(members, members))
                if not refreshed:
                    return
            before = residual
        settle(state, track=site >= 0)
        while site >= 0:
            before = np.inf
            enter(state, site)
            settle(state)
            site = _worst_violator(state)
            if state.pivots > budget:
                raise SolveError(
                    f"the active set did not settle within {budget} pivots; the keys may be too close "
                    "together for this width"
                )
    raise SolveError("slacks recomputed after the pivots kept changing sign; the keys are too close together")
