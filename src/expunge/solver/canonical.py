"""The canonical state: coefficients and offset are the doubles nearest to those of the exact optimum.

The exact optimum of the exact keys, cap and width is unique. So the state that `canonical` makes is a function of the
entries alone: not of the path that led to it, the order of the entries, the processor or a library. Nothing is snapped
or clipped; the exact optimum is *evaluated*, and rounded once.

On the margin of the candidate the solution is refined in pairs of doubles until a bound of its error, ‖α − α*‖₂ ≤
N(½‖r‖₂ + 2√s·|m|) for residual r, missing mass m and N ≥ ‖(K_SS + 11ᵀ)⁻¹‖₂, tells the nearest doubles. (With
d = α − α* and A = K_SS + 11ᵀ: 2Ad = −r − η·1 and Σd = m. Eliminating η leaves −½A⁻¹r projected in the norm of A, at
most ½N‖r‖, and m·A⁻¹1/(1ᵀA⁻¹1), where 1ᵀA⁻¹1 ≥ ½. The offset is off by at most 6|m| + 2√N‖r‖.) The box is checked with
that error, the sign of every other slack with a bound of its rounding, and again in pairs where that is too coarse. A
site on the wrong side is moved and the margin solved again; what pairs do not decide goes to `exact_optimum`, in balls.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np

from expunge.compilation import njit
from expunge.problem.check import StateCheck
from expunge.problem.kernel_pairs import kernel_pairs, pair_error, two_product, two_sum
from expunge.problem.tolerances import PUBLISHED
from expunge.solver.active_set import enter, leave, next_free, settle
from expunge.solver.candidate_check import check_candidate, slack_error
from expunge.solver.kernel_rows import add_weighted_rows
from expunge.solver.margin_factor import MarginFactor, forward_pair, solve_halfway
from expunge.solver.margin_pairs import PairTables
from expunge.solver.state import ABSENT, BOUND, MARGIN, RESERVE, State
from expunge.types import IndexArray, Matrix, StatusArray, Vector

__all__ = ["Exactness", "canonical"]

# What decided the last bits of a state.
Exactness = Literal["pairs", "balls"]

_U = 2.0**-53
# Rounds of pivots on pairs before balls take over.
ROUNDS = 12
# Most steps of refinement.
STEPS = 12
# Members whose products are summed before they join the sum of all: the error grows with their number and with that of
# the parts, not with the product of both.
PART = 64
# Coefficients whose own error is bounded where the bound for all of them does not decide.
SINGLES = 256
# The same before refinement goes on: as many as cost less than a step.
FIRST_SINGLES = 2


@njit(cache=True, nogil=True)
def _residual(
    pairs: PairTables,
    slots: IndexArray,
    alpha: Vector,
    alpha_low: Vector,
    offset: float,
    offset_low: float,
    cap: float,
    out: Vector,
) -> None:
    """Write 1 − ρ − 2(C·b + Kα) at each member to `out`, from pairs, rounded to doubles at the end."""
    size = slots.size
    width = 0
    for k in range(size):
        width = max(width, slots[k] + 1)
    total, rest = np.zeros(width), np.zeros(width)
    part, part_rest = np.empty(width), np.empty(width)
    for start in range(0, size, PART):
        part[:] = 0.0
        part_rest[:] = 0.0
        for k in range(start, min(start + PART, size)):
            row, row_low = pairs.gram_high[slots[k]], pairs.gram_low[slots[k]]
            a, b = alpha[k], alpha_low[k]
            for j in range(width):
                p, e = two_product(row[j], a)
                e += row[j] * b + row_low[j] * a
                s, f = two_sum(part[j], p)
                f += part_rest[j] + e
                t = s + f
                part[j] = t
                part_rest[j] = f - (t - s)
        for j in range(width):
            s, f = two_sum(total[j], part[j])
            f += rest[j] + part_rest[j]
            t = s + f
            total[j] = t
            rest[j] = f - (t - s)
    level, level_low = two_sum(1.0, -offset)
    level_low -= offset_low
    for k in range(size):
        j = slots[k]
        p, e = two_product(cap, pairs.sum_high[j])
        e += cap * pairs.sum_low[j]
        s, f = two_sum(total[j], p)
        f += rest[j] + e
        t, g = two_sum(level, -2.0 * s)
        out[k] = t + (g + (level_low - 2.0 * f))


@njit(cache=True, nogil=True)
def _missing(alpha: Vector, alpha_low: Vector, rest: float, rest_low: float) -> float:
    """Mass that the members lack of `rest` + `rest_low`, off by less than size³·2⁻¹⁵⁷ and 2⁻⁵¹ of itself."""
    s, f, g = rest, rest_low, 0.0
    for k in range(alpha.size):
        s, e = two_sum(s, -alpha[k])
        f, d = two_sum(f, e)
        f, c = two_sum(f, -alpha_low[k])
        g += c + d
    s, f = two_sum(s, f)
    return s + (f + g)


@njit(cache=True, nogil=True)
def _residual_after(
    pairs: PairTables, slots: IndexArray, residual: Vector, step: Vector, shift: float, alpha: Vector, offset: float
) -> float:
    """Bound of ‖r‖₂ after a step from the residual before it, in doubles; α and ρ are those after the step.

    r − shift − 2K·step sums size + 2 terms, and the low part of K is below u: that is off by (size + 6)u of the terms.
    Adding the step to pairs rounds by less than 2⁻¹⁰³ of what they hold.
    """
    size = slots.size
    width = 0
    for k in range(size):
        width = max(width, slots[k] + 1)
    along = np.zeros(width)
    add_weighted_rows(pairs.gram_high, slots, step, width, along)
    length, weight, largest, total = 0.0, 0.0, 0.0, 0.0
    for k in range(size):
        length += abs(step[k])
        weight += abs(alpha[k])
        largest = max(largest, abs(residual[k]))
        left = (residual[k] - shift) - 2.0 * along[slots[k]]
        total += left * left
    each = (size + 8.0) * _U * (largest + abs(shift) + 2.0 * length) + 2.0**-102 * (weight + abs(offset))
    return (math.sqrt(total) + math.sqrt(size) * each) * (1.0 + 1e-9)


@njit(cache=True, nogil=True)
def _refine(
    pairs: PairTables,
    slots: IndexArray,
    factor: Matrix,
    alpha: Vector,
    alpha_low: Vector,
    offset: float,
    offset_low: float,
    cap: float,
    rest: float,
    rest_low: float,
    steps: int,
) -> tuple[float, float, float, float]:
    """Refine α = alpha + alpha_low in place; (offset, its low part, ‖r‖₂ bound, |mass error| bound).

    `rest` + `rest_low` is the mass of the members. The bounds are of the final point, without the errors of the pairs
    themselves; ‖r‖ is infinite when the steps diverge. After the last of the `steps` the residual is not taken in pairs
    again but bounded in doubles, which costs a fifth.
    """
    size = slots.size
    half = np.empty((2, size))
    step = np.empty(size)
    residual, before = np.empty(size), np.inf
    shift = 0.0
    missing = _missing(alpha, alpha_low, rest, rest_low)
    for _ in range(steps):
        _residual(pairs, slots, alpha, alpha_low, offset, offset_low, cap, residual)
        worst = abs(missing)
        for k in range(size):
            worst = max(worst, abs(residual[k]))
        if not worst < 1.0:
            return offset, offset_low, np.inf, abs(missing)
        # Pairs carry 2⁻¹⁰⁴; another step gains nothing below a few of those.
        if worst <= 2.0**-99 or worst > 0.25 * before:
            total = 0.0
            for k in range(size):
                total += residual[k] * residual[k]
            return offset, offset_low, math.sqrt(total), abs(missing)
        before = worst
        for k in range(size):
            half[0, k] = 0.5 * residual[k]
            half[1, k] = 1.0
        forward_pair(factor, size, half)
        shift = solve_halfway(factor, size, half, missing, step)
        for k in range(size):
            s, e = two_sum(alpha[k], step[k])
            e += alpha_low[k]
            t = s + e
            alpha_low[k] = e - (t - s)
            alpha[k] = t
        s, e = two_sum(offset, shift)
        e += offset_low
        offset = s + e
        offset_low = e - (offset - s)
        missing = _missing(alpha, alpha_low, rest, rest_low)
    return offset, offset_low, _residual_after(pairs, slots, residual, step, shift, alpha, offset), abs(missing)


@njit(cache=True, nogil=True)
def _rounds_to(high: float, low: float, error: float) -> bool:
    """Whether every number within `error` of high + low is nearest to `high`."""
    up, down = (low + error) * (1.0 + 4.0 * _U), (low - error) * (1.0 + 4.0 * _U)
    up = up if up > 0.0 else 0.0
    down = down if down < 0.0 else 0.0
    return high + up == high and high + down == high


@njit(cache=True, nogil=True)
def _share(high: float, low: float, count: int) -> tuple[float, float]:
    """(high + low) / count as a pair, off by less than 2⁻¹⁰³ of itself."""
    if count == 1:
        return high, low
    q = high / count
    p, e = two_product(q, float(count))
    r = ((high - p) - e + low) / count
    s = q + r
    return s, r - (s - q)


@njit(cache=True, nogil=True)
def _own_error(
    pairs: PairTables,
    slots: IndexArray,
    factor: Matrix,
    position: int,
    residual: float,
    each: float,
    missing: float,
    norm: float,
) -> float:
    """Bound of the error of one coefficient, for ‖r‖₂ ≤ `residual` beside errors of `each` entry of r, and |m|.

    With z the solution of Kz + (y/2)·1 = e_position, Σz = 0, it is −½zᵀr + ½y·m: far below what holds for all
    coefficients, because ‖z‖₁ is far below √s‖A⁻¹‖. The error of the computed z is bounded by its own residual.
    """
    size = slots.size
    half, z = np.zeros((2, size)), np.empty(size)
    half[0, position] = 1.0
    half[1] = 1.0
    forward_pair(factor, size, half)
    y = solve_halfway(factor, size, half, 0.0, z)
    width = 0
    for k in range(size):
        width = max(width, slots[k] + 1)
    along = np.zeros(width)
    add_weighted_rows(pairs.gram_high, slots, z, width, along)
    length, squared, total = 0.0, 0.0, 0.0
    for k in range(size):
        length += abs(z[k])
        squared += z[k] * z[k]
        total += z[k]
    off = 0.0
    for k in range(size):
        left = abs((1.0 if k == position else 0.0) - along[slots[k]] - 0.5 * y)
        left += (size + 8.0) * _U * (1.0 + length + abs(y))
        off += left * left
    mass = abs(total) + (size + 4.0) * _U * length
    off = math.sqrt(off)
    # The system is that of the coefficients with right sides 2e, so its residual counts twice.
    wrong = norm * (off + 2.0 * math.sqrt(size) * mass)
    shift = 6.0 * mass + 4.0 * math.sqrt(norm) * off
    error = 0.5 * (length + math.sqrt(size) * wrong) * each + 0.5 * (math.sqrt(squared) + wrong) * residual
    return (error + 0.5 * (abs(y) + shift) * missing) * (1.0 + 1e-9)


@njit(cache=True, nogil=True)
def _place(
    members: IndexArray,
    alpha: Vector,
    alpha_low: Vector,
    errors: Vector,
    cap: float,
    multiplicity: IndexArray,
    shares: Vector,
) -> tuple[int, int]:
    """Judge the refined members: (verdict, position). Fills the shares as the nearest doubles.

    0: all inside and rounded; 1: this one is below zero; 2: above its ceiling; 3: not decided.
    """
    undecided = -1
    for k in range(members.size):
        count = multiplicity[members[k]]
        high, low, error = alpha[k], alpha_low[k], errors[k]
        if high + (low + error) < 0.0:
            return 1, k
        p, e = two_product(cap, float(count))
        room = (p - high) + (e - low)
        if room + error * 1.001 < -4.0 * _U * abs(p - high):
            return 2, k
        if not (high + (low - error) > 0.0 and room - error * 1.001 > 4.0 * _U * abs(p - high)):
            undecided = k
            continue
        s, r = _share(high, low, count)
        shares[k] = s
        if not (_rounds_to(high, low, error) and _rounds_to(s, r, error / count + s * 2.0**-102)):
            undecided = k
    return (3, undecided) if undecided >= 0 else (0, -1)


@njit(cache=True, nogil=True)
def _solve(
    pairs: PairTables,
    slots: IndexArray,
    factor: Matrix,
    members: IndexArray,
    multiplicity: IndexArray,
    alpha: Vector,
    alpha_low: Vector,
    shares: Vector,
    offset: float,
    cap: float,
    bound_counts: IndexArray,
    norm: float,
    kernel: float,
    thorough: bool,
) -> tuple[int, int, float, float, float, float]:
    """Refine, bound the errors, and place: (verdict of `_place`, position, offset as a pair, errors of α and ρ).

    `bound_counts` (sites,) counts the bound entries, `norm` bounds ‖(K_SS + 11ᵀ)⁻¹‖₂, and `kernel` the error of a
    kernel pair. The verdict is −1 where refinement fails, and 4 where all but the nearest double of the offset is
    decided. One step decides nearly always; `thorough`, or where it does not, refinement goes on.
    """
    size = slots.size
    bound = 0.0
    for count in bound_counts:
        bound += count
    # What the bound entries leave of the mass: 1 − C·bound, exactly.
    p, e = two_product(cap, bound)
    s, f = two_sum(1.0, -p)
    rest, rest_low = two_sum(s, f - e)
    sums, largest = 0.0, 0.0
    for k in range(size):
        sums = max(sums, pairs.sum_error[slots[k]])
        largest = max(largest, abs(pairs.sum_high[slots[k]]))
    offset_low = 0.0
    errors = np.empty(size)
    steps = STEPS if thorough else 1
    while True:
        offset, offset_low, residual, missing = _refine(
            pairs, slots, factor, alpha, alpha_low, offset, offset_low, cap, rest, rest_low, steps
        )
        if not residual < np.inf:
            return -1, -1, offset, offset_low, np.inf, np.inf
        weight = 0.0
        for k in range(size):
            weight += abs(alpha[k])
        # Every residual is off by the pairs' own errors: of the kernel (members weigh at most 1), the sums, and the
        # arithmetic, which adds products of at most `weight` in all, part by part, then the sum and the level.
        added = min(size, PART) + size / PART + 1.0
        arithmetic = added * 2.0**-104 * weight + 12.0 * 2.0**-104 * (weight + cap * largest + 1.0)
        each = 2.0 * (kernel * weight + cap * sums + arithmetic)
        missing = missing * (1.0 + 1e-9) + float(size) ** 3 * 2.0**-157 + 2.0**-104
        whole = (residual + math.sqrt(size) * each) * (1.0 + 1e-9)
        error = norm * (0.5 * whole + 2.0 * math.sqrt(size) * missing) * (1.0 + 1e-9)
        offset_error = (6.0 * missing + 2.0 * math.sqrt(norm) * whole) * (1.0 + 1e-9)
        errors[:] = error
        verdict, position = _place(members, alpha, alpha_low, errors, cap, multiplicity, shares)
        for _ in range(SINGLES if steps == STEPS else FIRST_SINGLES):
            if verdict != 3:
                break
            own = _own_error(pairs, slots, factor, position, residual, each, missing, norm)
            if not own < errors[position]:
                break
            errors[position] = own
            verdict, position = _place(members, alpha, alpha_low, errors, cap, multiplicity, shares)
        if verdict == 0 and not _rounds_to(offset, offset_low, offset_error):
            verdict = 4
        if verdict < 3 or steps == STEPS:
            return verdict, position, offset, offset_low, error, offset_error
        steps = STEPS


@njit(cache=True, nogil=True)
def _shares(
    slack: Vector, status: StatusArray, sites: int, cap: float, members: IndexArray, shares: Vector, error: float
) -> tuple[Vector, IndexArray]:
    """Coefficient of one entry at each site, and the sites whose slack is not clearly on its side."""
    found, near = np.zeros(status.size), np.empty(sites, dtype=np.int64)
    size = 0
    for site in range(sites):
        if status[site] == BOUND:
            found[site] = cap
        if (status[site] == RESERVE and slack[site] <= error) or (status[site] == BOUND and slack[site] >= -error):
            near[size] = site
            size += 1
    for k in range(members.size):
        found[members[k]] = shares[k]
    return found, near[:size].copy()


def canonical(
    state: State, counts: IndexArray | None = None, tolerance: float = PUBLISHED
) -> tuple[Exactness, StateCheck]:
    """Make a candidate that satisfies KKT to rounding the canonical state; return what decided it, and its check.

    On exit α and ρ are the nearest doubles by site, `state.share` those of one entry, the groups those of the exact
    optimum, and the slacks those that the check recomputed. `counts` (sites,) are the entries that each site should
    hold, the state's own if not given. Raises SolveError where balls do not decide either.
    """
    expected = state.multiplicity[: state.sites] if counts is None else counts
    if not expected.any():
        return "pairs", _nothing(state, tolerance)
    if not state.exact:
        _factor(state)
    for _ in range(ROUNDS if state.exact else 0):
        verdict = _by_pairs(state, expected, tolerance)
        if isinstance(verdict, StateCheck):
            return "pairs", verdict
        if verdict == "balls":
            break
    _by_balls(state)
    return "balls", check_candidate(state, expected, tolerance)


def _nothing(state: State, tolerance: float) -> StateCheck:
    """The one state without entries: no coefficient, and offset 0. An admission to it solves afresh."""
    held = float(np.abs(state.alpha[: state.sites]).max(initial=0.0)) + float(state.multiplicity[: state.sites].sum())
    state.offset, state.exact = 0.0, False
    return StateCheck(held, 0.0, 0.0, tolerance)


def _by_pairs(
    state: State, expected: IndexArray, tolerance: float, *, thorough: bool = False
) -> StateCheck | Literal["again", "balls"]:
    """One round: the check when everything is decided, "again" after a pivot, "balls" when pairs are too coarse.

    `thorough` refines to what pairs can carry; that is for slacks close to zero, the rest seldom needs it.
    """
    members = state.margin.members.copy()
    size = members.size
    counts = state.bound_counts()
    if size == 0:
        return _empty_margin(state, expected, tolerance)
    gram, pairs = state.gram, state.gram.pairs
    slots = pairs.follow(members, counts, gram.keys, gram.sigma, state.margin.factor)
    if not math.isfinite(pairs.inverse_norm):
        return "balls"
    alpha, alpha_low, shares = state.alpha[members], np.zeros(size), np.empty(size)
    verdict, position, offset, offset_low, error, offset_error = _solve(
        pairs.tables,
        slots,
        state.margin.factor,
        members,
        state.multiplicity,
        alpha,
        alpha_low,
        shares,
        state.offset,
        state.cap,
        counts,
        pairs.inverse_norm,
        pair_error(gram.keys.shape[1]),
        thorough,
    )
    if verdict < 0:
        return "balls"
    if verdict in (1, 2):
        state.alpha[members], state.offset = alpha, offset
        leave(state, position, RESERVE if verdict == 1 else BOUND)
        if state.margin.size:
            state.recompute_slacks()
            settle(state)
        return "again"
    if size == 1:
        exact = 1 - Fraction(state.cap) * int(counts.sum())
        alpha[0], shares[0] = float(exact), float(exact / int(state.multiplicity[members[0]]))
        # The solved pair may be split at the other neighbour of a midpoint.
        alpha_low[0] = float(exact - Fraction(alpha.item(0)))
        inside = 0 < exact < Fraction(state.cap) * int(state.multiplicity[members[0]])
        verdict = 0 if inside and _rounds_to(offset, offset_low, offset_error) else 3
    if verdict >= 3:
        return "balls"
    state.alpha[members], state.offset = alpha, offset
    check = check_candidate(state, expected, tolerance)
    share, near = _shares(state.slack, state.status, state.sites, state.cap, members, shares, slack_error(state))
    if near.size:
        if not thorough:
            return _by_pairs(state, expected, tolerance, thorough=True)
        exact_error = 2.0 * math.sqrt(size) * error + offset_error
        moved = _decide_near(state, near, members, alpha, alpha_low, offset, offset_low, exact_error)
        if moved != "clear":
            return moved
    state.share = share
    return check


def _decide_near(
    state: State,
    near: IndexArray,
    members: IndexArray,
    alpha: Vector,
    alpha_low: Vector,
    offset: float,
    offset_low: float,
    error: float,
) -> Literal["clear", "again", "balls"]:
    """Slacks close to zero, in pairs: "clear" if all are of their sign, "again" after a pivot, else "balls"."""
    high, low, wrong = _pair_slacks(state, near, members, alpha, alpha_low, offset, offset_low)
    slack = high + low
    wrong += error + 2.0**-52 * float(np.abs(slack).max())
    bound = state.status[near] == BOUND
    signed = np.where(bound, -slack, slack)
    if (signed > wrong).all():
        return "clear"
    if (signed >= -wrong).all():
        return "balls"
    site = int(near[np.argmin(signed)])
    enter(state, site)
    settle(state)
    return "again"


def _pair_slacks(
    state: State,
    sites: IndexArray,
    members: IndexArray,
    alpha: Vector,
    alpha_low: Vector,
    offset: float,
    offset_low: float,
) -> tuple[Vector, Vector, float]:
    """Slacks at some sites in pairs, high and low, and a bound of the error beside that of α and ρ."""
    from expunge.solver.exact_optimum import pair_products

    gram = state.gram
    counts = state.bound_counts()
    bound = np.flatnonzero(counts)
    active = np.concatenate([members, bound])
    weights, weights_low = np.empty(active.size), np.empty(active.size)
    weights[: members.size], weights_low[: members.size] = alpha, alpha_low
    for place, site in enumerate(bound.tolist(), members.size):
        weights[place], weights_low[place] = _product(state.cap, float(counts[site]))
    high, low = kernel_pairs(gram.keys[sites], gram.keys, active, gram.sigma)
    total, rest = pair_products(high, low, weights, weights_low)
    level, level_low = _difference(offset, 1.0, -offset_low)
    slack, slack_low = np.empty(sites.size), np.empty(sites.size)
    for place in range(sites.size):
        s, e = _plain_sum(2.0 * float(total[place]), level)
        slack[place], slack_low[place] = _plain_sum(s, e + (2.0 * float(rest[place]) + level_low))
    weight = float(np.abs(weights).sum())
    error = 2.0 * weight * (pair_error(gram.keys.shape[1]) + (active.size + 8.0) * 2.0**-103) + 2.0**-100
    return slack, slack_low, error


def _empty_margin(state: State, expected: IndexArray, tolerance: float) -> StateCheck | Literal["again", "balls"]:
    """No free site: right only if the bound sites have all the mass, exactly, and the groups are clearly apart."""
    counts = state.bound_counts()
    held = Fraction(state.cap) * int(counts.sum())
    state.offset = 0.0
    state.recompute_slacks()
    if held != 1:
        # The cap is rounded, so a full box holds a little more or less than 1: the key next to move takes the rest.
        site = next_free(state, gaining=held < 1, extreme=True)
        if site < 0:
            return "balls"
        state.offset = -float(state.slack[site])
        enter(state, site)
        return "again"
    slack, status = state.slack[: state.sites], state.status[: state.sites]
    bound, reserve = np.flatnonzero(status == BOUND), np.flatnonzero(status == RESERVE)
    coarse = slack_error(state)
    # t = −slack at offset 0; the offset is the least t of the bound sites.
    highest = float(slack[bound].max())
    nearest = bound[slack[bound] >= highest - 2.0 * coarse]
    if reserve.size and not float(slack[reserve].min()) > highest + 4.0 * coarse:
        return "balls"
    nothing = np.zeros(0)
    high, low, error = _pair_slacks(state, nearest, nearest[:0], nothing, nothing, 0.0, 0.0)
    first = int(np.lexsort((low, high))[-1])
    offset, offset_low = -float(high[first]), -float(low[first])
    if not (_rounds_to(offset, offset_low, error) and abs(offset) > 2.0**-40):
        return "balls"
    state.offset = offset
    check = check_candidate(state, expected, tolerance)
    state.share = np.zeros(state.status.size)
    state.share[bound] = state.cap
    return check


def _factor(state: State) -> None:
    """Give a candidate without a factor one for its free sites; `state.exact` says whether that went well."""
    status, alpha = state.status[: state.sites], state.alpha[: state.sites]
    # A foreign solver's groups are a guess like its coefficients; outside the margin the group decides.
    alpha[(status == RESERVE) | (status == ABSENT)] = 0.0
    alpha[status == BOUND] = state.ceiling[: state.sites][status == BOUND]
    members = np.flatnonzero(status == MARGIN)
    state.gram.require(members)
    state.margin = MarginFactor()
    state.exact = members.size == 0 or state.margin.refresh(members, state.gram.block(members, members))


def _by_balls(state: State) -> None:
    """Take groups, coefficients and offset from the exact optimum, and factor its margin."""
    from expunge.solver.exact_optimum import solve_exactly

    present = state.present()
    gram = state.gram
    found = solve_exactly(
        gram.keys[present],
        state.multiplicity[present],
        state.cap,
        gram.sigma,
        state.status[present],
        state.alpha[present],
    )
    status = np.full(state.status.size, ABSENT, dtype=np.int8)
    status[present] = found.status
    state.status = status
    state.alpha[: state.sites] = 0.0
    state.alpha[present] = found.alpha
    state.share = np.zeros(state.alpha.size)
    state.share[present] = found.share
    state.offset = found.offset
    # A margin that double precision cannot factor is no starting point for a path.
    _factor(state)


def _product(a: float, b: float) -> tuple[float, float]:
    p, e = two_product(a, b)
    return float(p), float(e)


def _difference(a: float, b: float, b_low: float) -> tuple[float, float]:
    """A − b − b_low as a pair."""
    s, e = _plain_sum(a, -b)
    t, f = _plain_sum(s, e - b_low)
    return t, f


def _plain_sum(a: float, b: float) -> tuple[float, float]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)
