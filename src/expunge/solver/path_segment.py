"""One straight piece of a path: its direction, its first event, and the step.

A motion prescribes the rates of some driven sites and lets the margin follow so that margin slacks stay zero
and the mass stays one (paper, §3.3):

    K_SS α̇_S + (ρ̇/2)·1 = −K_SD α̇_D,   1ᵀα̇_S = −1ᵀα̇_D,   ġ = ρ̇ + 2(K_·S α̇_S + K_·D α̇_D).

Events are direction-aware: a key counts only while it moves *toward* violation. One that sits on the wrong
side by rounding and moves back is left alone; one that moves on is due at once, never at a negative step.
Rates below the rounding error of their own sum count as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.compilation import njit
from expunge.problem.tolerances import SLACK_TOLERANCE
from expunge.solver.kernel_rows import RowTable, add_weighted_rows, make_row
from expunge.solver.margin_factor import append_row, forward_pair, pivot_floor, remove_row, solve_halfway
from expunge.solver.state import BOUND, DRIVEN, MARGIN, RESERVE, SiteArrays, State
from expunge.types import IndexArray, Matrix, StatusArray, Vector

__all__ = [
    "ARRIVED",
    "DEPENDENT",
    "STRANDED",
    "TIED",
    "Motion",
    "apply_motion",
    "follow",
    "move",
    "slack_rates",
    "tied_members",
]

_EPS = float(np.finfo(np.float64).eps)

# Keys closer than this to their event are at it; slacks are of order one, coefficients relative to their cap.
TIE = 8.0 * _EPS

BARELY_MORE = 1.0 + 8.0 * _EPS

_RESERVE, _MARGIN, _BOUND, _DRIVEN = RESERVE, MARGIN, BOUND, DRIVEN


@njit(cache=True, nogil=True)
def _at_bound(alpha: float, ceiling: float) -> bool:
    return min(alpha, ceiling - alpha) <= TIE * ceiling


@njit(cache=True, nogil=True)
def _pull(table: RowTable, driven: IndexArray, driven_rates: Vector, site: int) -> float:
    """Right-hand side −K_sD α̇_D at one site."""
    total = 0.0
    for k in range(driven.size):
        total -= driven_rates[k] * table.rows[table.row_of[driven[k]], site]
    return total


@njit(cache=True, nogil=True)
def _halves(
    table: RowTable,
    factor: Matrix,
    members: IndexArray,
    size: int,
    driven: IndexArray,
    driven_rates: Vector,
    half: Matrix,
) -> None:
    """Half ← (U⁻ᵀr, U⁻ᵀ1) for r = −K_SD α̇_D. Kept up to date through events, they spare half of each solve."""
    for i in range(size):
        half[0, i] = _pull(table, driven, driven_rates, members[i])
        half[1, i] = 1.0
    forward_pair(factor, size, half)


@njit(cache=True, nogil=True)
def _take_over(
    factor: Matrix, members: IndexArray, size: int, status: StatusArray, driven: IndexArray, half: Matrix
) -> int:
    """Make the sites driven, and no members any more; return the margin's size."""
    for site in driven:
        if status[site] == _MARGIN:
            position = 0
            while members[position] != site:
                position += 1
            remove_row(factor, size, position, half)
            for k in range(position, size - 1):
                members[k] = members[k + 1]
            size -= 1
        status[site] = _DRIVEN
    return size


@njit(cache=True, nogil=True)
def _direction(
    table: RowTable,
    factor: Matrix,
    members: IndexArray,
    half: Matrix,
    driven: IndexArray,
    driven_rates: Vector,
    sites: int,
    member_rates: Vector,
    rates: Vector,
) -> tuple[float, float, float]:
    """Fill the rates of members and slacks; return the offset's rate and the two noise floors."""
    offset_rate = solve_halfway(factor, members.size, half, -driven_rates.sum(), member_rates)
    rates[:sites] = 0.0
    add_weighted_rows(table.rows, table.row_of[members], member_rates, sites, rates)
    add_weighted_rows(table.rows, table.row_of[driven], driven_rates, sites, rates)
    for i in range(sites):
        rates[i] = offset_rate + 2.0 * rates[i]
    largest, length = 0.0, 0.0
    for i in range(members.size):
        largest = max(largest, abs(member_rates[i]))
        length += abs(member_rates[i])
    for k in range(driven.size):
        length += abs(driven_rates[k])
    return offset_rate, 4.0 * _EPS * largest, 8.0 * _EPS * (length + abs(offset_rate))


@njit(cache=True, nogil=True)
def _events(
    at: SiteArrays,
    members: IndexArray,
    member_rates: Vector,
    rates: Vector,
    sites: int,
    member_floor: float,
    slack_floor: float,
    limit: float,
) -> tuple[int, float, int]:
    """(Steepest violator among the sites at zero slack or −1, step to the first event before `limit`, its site or −1).

    A member at its bound that moves outward is an event at step zero.
    """
    violator, steepest = -1, slack_floor
    step, first = limit, -1
    for k in range(members.size):
        site, rate = members[k], member_rates[k]
        if rate < -member_floor:
            ratio = max(at.alpha[site], 0.0) / -rate
        elif rate > member_floor:
            ratio = max(at.ceiling[site] - at.alpha[site], 0.0) / rate
        else:
            continue
        if ratio < step:
            step, first = ratio, site
    for site in range(sites):
        if at.status[site] == _RESERVE:
            distance, speed = at.slack[site], -rates[site]
        elif at.status[site] == _BOUND:
            distance, speed = -at.slack[site], rates[site]
        else:
            continue
        # Most are far from their event; the division is for the few that this cannot tell to be.
        if speed <= slack_floor or distance > TIE + BARELY_MORE * step * speed:
            continue
        if distance <= TIE and speed > steepest:
            violator, steepest = site, speed
        ratio = max(distance, 0.0) / speed
        if ratio < step:
            step, first = ratio, site
    return violator, step, first


@dataclass(frozen=True, eq=False)
class Motion:
    """Rates per unit of step, and what the direction runs into."""

    driven: IndexArray
    driven_rates: Vector
    member_rates: Vector
    offset_rate: float
    slack_rates: Vector
    member_floor: float  # a member whose rate is smaller does not move
    violator: int  # the site at zero slack that moves toward violation fastest, or −1
    step: float  # to the first event
    site: int  # that meets it, or −1


# How `follow` returns: at the end, or at something that is not an ordinary event.
ARRIVED, TIED, STRANDED, ROWLESS, DEPENDENT = range(5)


@njit(cache=True, nogil=True)
def _follow(
    table: RowTable,
    held: int,
    factor: Matrix,
    members: IndexArray,
    size: int,
    at: SiteArrays,
    sites: int,
    driven: IndexArray,
    driven_rates: Vector,
    remaining: float,
    rounding: float,
    until_free: bool,
    slack_tolerance: float,
    half: Matrix,
    entering: int,
    begin: bool,
) -> tuple[int, int, int, int, float, float, int]:
    """Run through ordinary events; (why it stopped, site, rows held, margin size, remaining, offset's move, pivots).

    `half` and `entering` carry over from a call that stopped for want of room for a kernel row; otherwise `begin`.
    """
    if begin:
        half[:, :size] = 0.0
        size = _take_over(factor, members, size, at.status, driven, half)
        _halves(table, factor, members, size, driven, driven_rates, half)
    member_rates = np.empty(members.size)
    rates = np.empty(sites)
    moved, pivots = 0.0, 0
    while entering >= 0 or (remaining > rounding and not (until_free and at.slack[driven[0]] >= 0.0)):
        if entering >= 0:
            if table.row_of[entering] < 0:
                if not make_row(table, held, entering):
                    return ROWLESS, entering, held, size, remaining, moved, pivots
                held += 1
            column = np.empty(size)
            row = table.rows[table.row_of[entering]]
            for k in range(size):
                column[k] = row[members[k]]
            floor = pivot_floor(at.ceiling[entering], slack_tolerance)
            right = _pull(table, driven, driven_rates, entering)
            if size == factor.shape[0] or append_row(factor, size, column, floor, half, right) <= floor:
                return DEPENDENT, entering, held, size, remaining, moved, pivots
            members[size] = entering
            size += 1
            at.status[entering] = _MARGIN
            pivots += 1
            entering = -1
            continue
        if size == 0:
            return STRANDED, -1, held, size, remaining, moved, pivots
        inside = members[:size]
        offset_rate, member_floor, slack_floor = _direction(
            table, factor, inside, half, driven, driven_rates, sites, member_rates, rates
        )
        limit = remaining
        if until_free and rates[driven[0]] > 0.0:
            limit = min(limit, -at.slack[driven[0]] / rates[driven[0]])
        violator, step, site = _events(at, inside, member_rates, rates, sites, member_floor, slack_floor, limit)
        if violator >= 0:
            return TIED, violator, held, size, remaining, moved, pivots
        if site >= 0 and at.status[site] == _MARGIN and _at_bound(at.alpha[site], at.ceiling[site]):
            return TIED, site, held, size, remaining, moved, pivots
        for k in range(size):
            at.alpha[members[k]] += step * member_rates[k]
        for k in range(driven.size):
            at.alpha[driven[k]] += step * driven_rates[k]
        moved += step * offset_rate
        for i in range(sites):
            at.slack[i] += step * rates[i]
        remaining -= step
        if site < 0:
            break
        if at.status[site] == _MARGIN:
            position = 0
            while members[position] != site:
                position += 1
            falling = member_rates[position] < 0.0
            remove_row(factor, size, position, half)
            for k in range(position, size - 1):
                members[k] = members[k + 1]
            size -= 1
            at.status[site] = _RESERVE if falling else _BOUND
            at.alpha[site] = 0.0 if falling else at.ceiling[site]
            pivots += 1
        else:
            at.slack[site] = 0.0
            entering = site
    return ARRIVED, -1, held, size, remaining, moved, pivots


def follow(
    state: State, driven: IndexArray, rates: Vector, remaining: float, rounding: float, until_free: bool
) -> tuple[int, int, float]:
    """Drive sites until the end or until something out of the ordinary: (why, site, what remains of the way).

    TIED: several keys are at their event and some would violate at once. STRANDED: the margin is empty.
    DEPENDENT: the site is at zero slack and wants in, but adds nothing to the span of the margin.
    """
    margin, gram = state.margin, state.gram
    margin.reserve(margin.size + 8)
    half = np.empty((2, margin.factor.shape[0]))
    entering = -1
    begin = True
    while True:
        why, site, gram.count, margin.size, remaining, moved, pivots = _follow(
            gram.table,
            gram.count,
            margin.factor,
            margin.buffer,
            margin.size,
            state.arrays,
            state.sites,
            driven,
            rates,
            remaining,
            rounding,
            until_free,
            SLACK_TOLERANCE,
            half,
            entering,
            begin,
        )
        state.offset += moved
        state.pivots += pivots
        if why != ROWLESS:
            return why, site, remaining
        gram.require_one(site)
        entering, begin = site, False


def move(state: State, driven: IndexArray, driven_rates: Vector) -> Motion:
    """Direction of the margin, offset and slacks. On entry the margin is not empty and driven sites have rows."""
    margin, gram = state.margin, state.gram
    members = margin.members
    half = np.empty((2, members.size))
    _halves(gram.table, margin.factor, members, members.size, driven, driven_rates, half)
    member_rates = np.empty(members.size)
    rates = np.empty(state.sites)
    offset_rate, member_floor, slack_floor = _direction(
        gram.table,
        margin.factor,
        members,
        half,
        driven,
        driven_rates,
        state.sites,
        member_rates,
        rates,
    )
    violator, step, site = _events(
        state.arrays, members, member_rates, rates, state.sites, member_floor, slack_floor, np.inf
    )
    return Motion(driven, driven_rates, member_rates, offset_rate, rates, member_floor, violator, float(step), site)


def slack_rates(state: State, member_rates: Vector, offset_rate: float) -> Vector:
    """ġ at every site when the margin alone moves, (sites,)."""
    rates = np.zeros(state.sites)
    gram = state.gram
    add_weighted_rows(gram.rows, gram.row_of[state.margin.members], member_rates, state.sites, rates)
    rates *= 2.0
    rates += offset_rate
    return rates


def apply_motion(state: State, motion: Motion, step: float) -> None:
    """Move along a direction: coefficients, offset, slacks."""
    if step == 0.0:
        return
    state.alpha[state.margin.members] += step * motion.member_rates
    state.alpha[motion.driven] += step * motion.driven_rates
    state.offset += step * motion.offset_rate
    state.slack[: state.sites] += step * motion.slack_rates


def tied_members(state: State) -> IndexArray:
    """Margin sites that sit at a bound."""
    members = state.margin.members
    alpha, ceiling = state.alpha[members], state.ceiling[members]
    return members[(alpha <= TIE * ceiling) | (ceiling - alpha <= TIE * ceiling)]
