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
from numba import njit

from expunge.solver.margin import solve_factored
from expunge.solver.state import BOUND, RESERVE, State
from expunge.types import IndexArray, Matrix, StatusArray, Vector

__all__ = ["Motion", "apply_motion", "move", "slack_rates", "tied_members"]

_EPS = float(np.finfo(np.float64).eps)

# Keys closer than this to their event are at it; slacks are of order one, coefficients relative to their cap.
TIE = 8.0 * _EPS

_RESERVE, _BOUND = RESERVE, BOUND


@njit(cache=True, nogil=True)
def _weighted_rows(rows: Matrix, picked: IndexArray, weights: Vector, columns: int, out: Vector) -> None:
    """out[j] += Σ_k weights[k] · rows[picked[k], j]."""
    k = 0
    while k + 4 <= picked.size:
        a, b, c, d = rows[picked[k]], rows[picked[k + 1]], rows[picked[k + 2]], rows[picked[k + 3]]
        wa, wb, wc, wd = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for j in range(columns):
            out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
        k += 4
    while k < picked.size:
        a, wa = rows[picked[k]], weights[k]
        for j in range(columns):
            out[j] += wa * a[j]
        k += 1


@njit(cache=True, nogil=True)
def _direction(
    rows: Matrix,
    row_of: IndexArray,
    factor: Matrix,
    unit: Vector,
    unit_total: float,
    members: IndexArray,
    driven: IndexArray,
    driven_rates: Vector,
    sites: int,
    member_rates: Vector,
    rates: Vector,
) -> tuple[float, float, float]:
    """Fill the rates of members and slacks; return the offset's rate and the two noise floors."""
    pull = np.zeros(members.size)
    for k in range(driven.size):
        row = rows[row_of[driven[k]]]
        for i in range(members.size):
            pull[i] -= driven_rates[k] * row[members[i]]
    mass = -driven_rates.sum()
    offset_rate = solve_factored(factor, unit, unit_total, pull, mass)
    member_rates[:] = pull
    rates[:] = 0.0
    _weighted_rows(rows, row_of[members], member_rates, sites, rates)
    _weighted_rows(rows, row_of[driven], driven_rates, sites, rates)
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
    alpha: Vector,
    ceiling: Vector,
    slack: Vector,
    status: StatusArray,
    members: IndexArray,
    member_rates: Vector,
    rates: Vector,
    sites: int,
    member_floor: float,
    slack_floor: float,
) -> tuple[int, float, int]:
    """(Steepest violator among the sites at zero slack or −1, step to the first event, its site or −1)."""
    violator, steepest = -1, slack_floor
    step, first = np.inf, -1
    for k in range(members.size):
        site, rate = members[k], member_rates[k]
        if rate < -member_floor:
            ratio = max(alpha[site], 0.0) / -rate
        elif rate > member_floor:
            ratio = max(ceiling[site] - alpha[site], 0.0) / rate
        else:
            continue
        if ratio < step:
            step, first = ratio, site
    for site in range(sites):
        if status[site] == _RESERVE:
            distance, speed = slack[site], -rates[site]
        elif status[site] == _BOUND:
            distance, speed = -slack[site], rates[site]
        else:
            continue
        if speed <= slack_floor:
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


def move(state: State, driven: IndexArray, driven_rates: Vector) -> Motion:
    """Direction of the margin, offset and slacks. On entry the margin is not empty and driven sites have rows."""
    margin, gram = state.margin, state.gram
    members = margin.members
    unit, unit_total = margin.unit()
    member_rates = np.empty(members.size)
    rates = np.empty(state.sites)
    offset_rate, member_floor, slack_floor = _direction(
        gram.rows,
        gram.row_of,
        margin.factor,
        unit,
        unit_total,
        members,
        driven,
        driven_rates,
        state.sites,
        member_rates,
        rates,
    )
    violator, step, site = _events(
        state.alpha,
        state.ceiling,
        state.slack,
        state.status,
        members,
        member_rates,
        rates,
        state.sites,
        member_floor,
        slack_floor,
    )
    return Motion(
        driven, driven_rates, member_rates, offset_rate, rates, member_floor, violator, float(step), site
    )


def slack_rates(state: State, member_rates: Vector, offset_rate: float) -> Vector:
    """ġ at every site when the margin alone moves, (sites,)."""
    rates = np.zeros(state.sites)
    gram = state.gram
    _weighted_rows(gram.rows, gram.row_of[state.margin.members], member_rates, state.sites, rates)
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
