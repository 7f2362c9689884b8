"""Admission and deletion along the Cauwenberghs–Poggio path (paper, §3.3), degenerate events included.

`drive` moves the coefficients of some sites to prescribed targets in one coupled motion while every other key
keeps its KKT condition; several deletions are one path, so their order cannot matter. Each event changes the
membership of one key. What rounding has left over is for `active_set.finish`, when the check asks for it.
"""

from __future__ import annotations

import numpy as np

from expunge.errors import SolveError
from expunge.solver.active_set import enter, leave, next_free, saturate, saturated, shift_offset, tidy
from expunge.solver.block_pivots import LARGE, exchange
from expunge.solver.path_segment import ARRIVED, DEPENDENT, Motion, apply_motion, follow, move, tied_members
from expunge.solver.state import ABSENT, BOUND, MARGIN, RESERVE, State
from expunge.types import IndexArray, Vector

__all__ = ["admit", "drive", "remove"]

# Sites that are exchanged together.
TOGETHER = 256
_NOTHING: IndexArray = np.zeros(0, dtype=np.int64)

# A rest of the way this short is the rounding of the way behind it; `finish` restores the mass exactly.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


def drive(state: State, driven: IndexArray, targets: Vector, *, until_free: bool = False) -> None:
    """Move α of the driven sites to their targets; with `until_free`, stop when the (one) slack reaches 0.

    On exit driven sites are still DRIVEN, at their targets or freed; all others satisfy KKT to rounding.
    """
    for site in driven.tolist():
        state.gram.require_one(site)
    rates = targets - state.alpha.take(driven)
    rounding = ROUNDING / sum(abs(rate) for rate in rates.tolist())
    remaining = 1.0
    budget = 200 + 20 * state.sites
    while True:
        why, site, remaining = follow(state, driven, rates, remaining, rounding, until_free)
        if why == ARRIVED:
            break
        if why == DEPENDENT:
            enter(state, site)
        else:
            try:
                motion = resolve_ties(state, driven, rates, until_free)
            except SolveError as problem:
                # Rounding decides between the tied keys, and did not come to rest.
                if problem.code != "ties-unresolved":
                    raise
                if not until_free:
                    leap(state, driven, targets)
                return
            if motion is None:
                return
            remaining = _step(state, motion, remaining, until_free)
        if state.pivots > budget:
            raise SolveError(f"the path met more than {budget} events")
    if remaining <= rounding:
        state.alpha[driven] = targets


def _step(state: State, motion: Motion, remaining: float, until_free: bool) -> float:
    """Take one step along a direction whose ties are resolved; return what remains of the way."""
    step, site = motion.step, motion.site
    limit = remaining
    first = motion.driven[0]
    if until_free and motion.slack_rates[first] > 0.0:
        limit = min(limit, -float(state.slack[first]) / float(motion.slack_rates[first]))
    if step >= limit:
        step, site = limit, -1
    apply_motion(state, motion, step)
    if site >= 0:
        cross(state, motion, site)
    return remaining - step


def leap(state: State, driven: IndexArray, targets: Vector) -> None:
    """Leave the path for a feasible point at its end, from which `finish` pivots to the same optimum.

    The mass goes to the keys that want it most: least slack first, each up to its ceiling.
    """
    state.alpha[driven] = targets
    takers = np.flatnonzero((state.status[: state.sites] == RESERVE) | (state.status[: state.sites] == MARGIN))
    for site in takers[np.argsort(state.slack[takers], kind="stable")].tolist():
        missing = state.mass_error()
        if missing <= 0.0:
            return
        room = float(state.ceiling[site] - state.alpha[site])
        member = state.status[site] == MARGIN
        state.alpha[site] += min(room, missing)
        if missing >= room:
            state.alpha[site] = state.ceiling[site]
            if member:
                state.margin.leave(state.margin.position(site))
            state.status[site] = BOUND
        elif not member:
            enter(state, site)


def cross(state: State, motion: Motion, site: int) -> None:
    """Change the membership of the site whose event a step has reached."""
    if state.status[site] == MARGIN:
        position = state.margin.position(site)
        leave(state, position, RESERVE if motion.member_rates[position] < 0.0 else BOUND)
    else:
        state.slack[site] = 0.0
        enter(state, site)


def resolve_ties(state: State, driven: IndexArray, rates: Vector, until_free: bool) -> Motion | None:
    """Direction in which no key violates at once; memberships change to match.

    Keys at their event form a small complementarity problem in the rates: a tied member may only move inward,
    a tied other only away from violation, and not both. It is strictly convex; primal active-set steps from
    zero rates solve it, freeing the steepest violator and dropping the first member whose rate would turn.

    None when the margin is empty and, of all keys, the driven one is the next to be free: it has arrived.
    """
    if state.margin.size == 0 and not _refill(state, driven, rates, until_free):
        return None
    inward = dict.fromkeys(tied_members(state).tolist(), 0.0)
    for _ in range(50 + 4 * state.sites):
        motion = move(state, driven, rates)
        turning = _first_to_turn(state, motion, inward)
        if turning >= 0:
            leave(state, turning, BOUND if at_ceiling(state, int(state.margin.members[turning])) else RESERVE)
            if state.margin.size == 0 and not _refill(state, driven, rates, until_free):
                return None
        elif motion.violator < 0:
            return motion
        else:
            enter(state, motion.violator)
        # A key that had to trade places may have left its bound, and its partner may have reached one.
        inward = {site: inward.get(site, 0.0) for site in tied_members(state).tolist()}
    raise SolveError("the keys tied at one event did not resolve", code="ties-unresolved")


def _refill(state: State, driven: IndexArray, rates: Vector, until_free: bool) -> bool:
    """Free the key that must take over from an empty margin; False when the driven key is free before it."""
    gaining = float(rates.sum()) < 0.0
    site = next_free(state, gaining)
    if until_free:
        needed = -float(state.slack[driven[0]])
        if site < 0 or needed <= -float(state.slack[site]):
            shift_offset(state, needed)
            return False
    if site < 0:
        raise SolveError("no key is left to take the mass: the cap is infeasible for the remaining keys")
    shift_offset(state, -float(state.slack[site]))
    enter(state, site)
    return True


def at_ceiling(state: State, site: int) -> bool:
    """Which of its two bounds a tied member is at."""
    return bool(state.alpha[site] > 0.5 * state.ceiling[site])


def _first_to_turn(state: State, motion: Motion, inward: dict[int, float]) -> int:
    """Advance the tied members' rates toward the motion's; position of the first that would point outward."""
    fraction, turning, wanted = 1.0, -1, {}
    for site in inward:
        position = state.margin.position(site)
        rate = float(motion.member_rates[position])
        # Inward is up from zero and down from the ceiling.
        rate = wanted[site] = -rate if at_ceiling(state, site) else rate
        if rate < -motion.member_floor:
            reached = inward[site] / (inward[site] - rate)
            if reached < fraction or turning < 0:
                fraction, turning = min(reached, fraction), position
    for site, rate in wanted.items():
        inward[site] += fraction * (rate - inward[site])
    return turning


def admit(state: State, sites: list[int]) -> None:
    """Let sites use their ceilings, after they were added or gained entries: α rises until the slack is zero.

    On entry the slacks are current, and the state satisfies KKT for the ceilings before; on exit for those now.
    """
    due = [site for site in sites if state.status[site] == BOUND or state.slack[site] < 0.0]
    due = [site for site in due if state.status[site] != MARGIN]
    # Those to come must not count as keys on the wrong side.
    waiting = [site for site in due if state.status[site] == RESERVE]
    state.status[waiting] = ABSENT
    for start in range(0, len(due), TOGETHER):
        part = due[start : start + TOGETHER]
        new = [site for site in part if state.status[site] == ABSENT]
        state.status[new] = RESERVE
        if state.margin.size >= LARGE and exchange(state, _NOTHING, np.zeros(0), np.array(part)):
            tidy(state)
            continue
        state.status[new] = ABSENT
        for site in part:
            if state.status[site] == ABSENT:
                state.status[site] = RESERVE
            _admit_one(state, site)


def _admit_one(state: State, site: int) -> None:
    if state.status[site] == MARGIN or (state.status[site] == RESERVE and state.slack[site] >= 0.0):
        return
    drive(state, np.array([site]), state.ceiling[[site]], until_free=True)
    if state.alpha[site] >= state.ceiling[site]:
        state.alpha[site] = state.ceiling[site]
        state.status[site] = BOUND
    elif state.alpha[site] <= 0.0:
        state.alpha[site] = 0.0
        state.status[site] = RESERVE
    else:
        enter(state, site)
    tidy(state)


def remove(state: State, losses: dict[int, int]) -> None:
    """Take entries away from sites: {site: how many}, in one coupled path.

    A site that still has room for its coefficient keeps it; the others are driven to their new ceiling.
    """
    over = []
    for site, lost in sorted(losses.items()):
        state.set_multiplicity(site, int(state.multiplicity[site]) - lost)
        if state.alpha[site] > state.ceiling[site]:
            over.append(site)
        elif state.multiplicity[site] == 0:
            state.status[site] = ABSENT
        elif state.status[site] == MARGIN and state.alpha[site] == state.ceiling[site]:
            leave(state, state.margin.position(site), BOUND)
    if not over:
        return
    if saturated(state):
        saturate(state)
        return
    step = TOGETHER if state.margin.size >= LARGE else len(over)
    for start in range(0, len(over), step):
        driven = np.array(over[start : start + step])
        targets = state.ceiling.take(driven)
        if not (state.margin.size >= LARGE and exchange(state, driven, targets, _NOTHING)):
            drive(state, driven, targets)
        state.status[driven] = np.where(state.multiplicity[driven] > 0, BOUND, ABSENT)
        tidy(state)
