"""One straight piece of a path: its direction, its first event, and the step.

A *motion* prescribes the rates of some driven sites and lets the margin follow so that margin slacks stay
zero and the mass stays one (paper, §3.3):

    K_SS α̇_S + (ρ̇/2)·1 = −K_SD α̇_D,   1ᵀα̇_S = −1ᵀα̇_D,   ġ = ρ̇ + 2(K_·S α̇_S + K_·D α̇_D).

Events are direction-aware: a key counts only while it moves *toward* violation. One that sits on the wrong
side by rounding and moves back is left alone; one that moves on is due at once, never at a negative step.
Rates below the rounding error of their own sum count as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from expunge.solver.state import BOUND, MARGIN, RESERVE, State
from expunge.types import IndexArray, Matrix, StatusArray, Vector

__all__ = [
    "Event",
    "Motion",
    "apply_motion",
    "first_event",
    "member_noise",
    "motion",
    "slack_rates",
    "steepest_tied",
    "tied_members",
]

_EPS = float(np.finfo(np.float64).eps)

# Keys closer than this to their event are at it; slacks are of order one, coefficients relative to their cap.
TIE = 8.0 * _EPS


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
def _due(
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
    limit: float,
) -> tuple[float, int]:
    """First event within `limit`: (step, site), or (limit, −1)."""
    step, first = limit, -1
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
        rate = rates[site]
        if status[site] == 0 and rate < -slack_floor:
            ratio = max(slack[site], 0.0) / -rate
        elif status[site] == 2 and rate > slack_floor:
            ratio = max(-slack[site], 0.0) / rate
        else:
            continue
        if ratio < step:
            step, first = ratio, site
    return step, first


@dataclass(frozen=True)
class Motion:
    """Rates per unit of step."""

    driven: IndexArray
    driven_rates: Vector
    member_rates: Vector
    offset_rate: float

    @property
    def length(self) -> float:
        """Total coefficient movement per unit of step: the scale of the rates' rounding errors."""
        return float(np.abs(self.member_rates).sum() + np.abs(self.driven_rates).sum())


@dataclass(frozen=True)
class Event:
    """A step and the site whose limit it reaches; site −1 when the step's own limit comes first."""

    step: float
    site: int


def motion(state: State, driven: IndexArray, driven_rates: Vector) -> Motion:
    """Direction of the margin and the offset. On entry the margin is not empty; driven sites have rows."""
    members = state.margin.members
    pull = driven_rates @ state.gram.block(driven, members)
    member_rates, offset_rate = state.margin.solve(-pull, -float(driven_rates.sum()))
    return Motion(driven, driven_rates, member_rates, offset_rate)


def slack_rates(state: State, direction: Motion) -> Vector:
    """ġ at every site, (sites,)."""
    gram = state.gram
    moved = np.concatenate([state.margin.members, direction.driven])
    weights = np.concatenate([direction.member_rates, direction.driven_rates])
    rates = np.zeros(state.sites)
    _weighted_rows(gram.rows, gram.row_of[moved], weights, state.sites, rates)
    rates *= 2.0
    rates += direction.offset_rate
    return rates


def member_noise(direction: Motion) -> float:
    """Coefficient rate below which a member does not move."""
    return 4.0 * _EPS * float(np.abs(direction.member_rates).max(initial=0.0))


def slack_noise(direction: Motion) -> float:
    """Slack rate below which a key does not move: the rounding error of the rate's own sum."""
    return 8.0 * _EPS * (direction.length + abs(direction.offset_rate))


def tied_members(state: State) -> IndexArray:
    """Margin sites that sit at a bound."""
    members = state.margin.members
    alpha, ceiling = state.alpha[members], state.ceiling[members]
    return members[(alpha <= TIE * ceiling) | (ceiling - alpha <= TIE * ceiling)]


def steepest_tied(state: State, direction: Motion, rates: Vector) -> int:
    """Of the sites at zero slack, the one that moves toward violation fastest; −1 if none does."""
    status, slack = state.status[: state.sites], state.slack[: state.sites]
    speed = np.where((status == RESERVE) & (slack <= TIE), -rates, 0.0)
    speed = np.where((status == BOUND) & (slack >= -TIE), rates, speed)
    site = int(np.argmax(speed))
    return site if speed[site] > slack_noise(direction) else -1


def first_event(state: State, direction: Motion, rates: Vector, limit: float) -> Event:
    """Nearest event along a direction, within `limit`."""
    step, site = _due(
        state.alpha,
        state.ceiling,
        state.slack,
        state.status,
        state.margin.members,
        direction.member_rates,
        rates,
        state.sites,
        member_noise(direction),
        slack_noise(direction),
        limit,
    )
    return Event(float(step), int(site))


def apply_motion(state: State, direction: Motion, rates: Vector, step: float) -> None:
    """Move along a direction: coefficients, offset, slacks."""
    if step == 0.0:
        return
    state.alpha[state.margin.members] += step * direction.member_rates
    state.alpha[direction.driven] += step * direction.driven_rates
    state.offset += step * direction.offset_rate
    state.slack[: state.sites] += step * rates


assert (RESERVE, MARGIN, BOUND) == (0, 1, 2)  # noqa: S101 — the compiled loops spell these numbers out
