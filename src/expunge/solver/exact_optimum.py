"""The exact optimum in ball arithmetic (python-flint), from any guess of the partition: for what pairs cannot decide.

Keys, cap and width are exact numbers. A primal active-set method walks on midpoints at the working precision: solve on
the free sites, go there or to the first bound on the way, then free the site that violates most. Nothing of the walk
has to be right, because what it ends with is proved, in balls:

- Without ties (every free coefficient strictly inside its box, every other slack strictly of its sign) the solution of
  the margin system *is* the optimum, and its enclosure is the answer.
- With ties let α be the point found (tied sites at their bounds), moved so that its mass is exact, T the free sites and
  the tied ones, g the slacks, α* the optimum of the problem in which only T may move. Strong convexity gives
  2dᵀKd ≤ Σ g_i d_i over T for d = α − α*, and as Σd = 0, dᵀKd = dᵀ(K + 11ᵀ)d. So ‖d‖₂ ≤ ½‖(K + 11ᵀ)_TT⁻¹‖₂ ‖g_T‖₂.
  Where every other slack is larger than all that d can move it, α* is the optimum of the whole problem as well.

What a precision does not decide is tried at the next one. A coefficient or an offset below 2⁻²⁰⁰ is 0; what the last
precision cannot tell from the midpoint of two doubles is the even one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpz, fmpz_mat

from expunge.compilation import njit
from expunge.errors import SolveError
from expunge.problem.kernel_pairs import kernel_pairs, pair_error, two_product, two_sum
from expunge.solver.state import BOUND, MARGIN, RESERVE
from expunge.types import IndexArray, Matrix, StatusArray, Vector
from expunge.verify.ball_precision import ball_precision

__all__ = ["ExactOptimum", "nearest", "pair_products", "solve_exactly"]

PRECISIONS = (128, 256, 512, 1024, 2400)
# Below it a coefficient or an offset is zero.
ZERO = Fraction(1, 2**200)
# Sites whose slacks are evaluated together.
BLOCK = 256


@dataclass(frozen=True, eq=False)
class ExactOptimum:
    """The optimum over sites, as the nearest doubles, and its groups."""

    status: StatusArray
    alpha: Vector  # of the site
    share: Vector  # of one entry at the site
    offset: float
    precision: int


class _Undecided(Exception):
    """A question that this precision does not answer."""


@njit(cache=True, nogil=True)
def pair_products(high: Matrix, low: Matrix, weight_high: Vector, weight_low: Vector) -> tuple[Vector, Vector]:
    """Σ_j weight_j κ_ij as pairs, for each row i of (high, low); off by less than (columns + 4)·2⁻¹⁰³ of Σ|weight|."""
    rows, columns = high.shape
    total, rest = np.zeros(rows), np.zeros(rows)
    for i in range(rows):
        s, r = 0.0, 0.0
        for j in range(columns):
            p, e = two_product(high[i, j], weight_high[j])
            e += high[i, j] * weight_low[j] + low[i, j] * weight_high[j]
            t, f = two_sum(s, p)
            f += r + e
            s = t + f
            r = f - (s - t)
        total[i], rest[i] = s, r
    return total, rest


def nearest(lower: Fraction, upper: Fraction, *, last: bool = True) -> float | None:
    """The double nearest to a number between these two; None where they have different ones and `last` is not set."""
    if lower > -ZERO and upper < ZERO:
        return 0.0
    low, high = float(lower), float(upper)
    if low == high:
        return low + 0.0
    if not last or math.nextafter(low, high) != high:
        return None
    # The number cannot be told from their midpoint: the even one.
    return low if int(math.frexp(low)[0] * 2**53) % 2 == 0 else high


def _fraction(ball: Any) -> Fraction:
    """The exact value of a ball without radius."""
    mantissa, exponent = ball.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


class _Walk:
    """One problem, its exact keys as integers, and the walk through partitions."""

    def __init__(self, keys: Matrix, multiplicity: IndexArray, cap: float, sigma: float, status: StatusArray) -> None:
        self.keys, self.sigma = keys, sigma
        self.sites, self.dimension = keys.shape
        self.multiplicity = multiplicity
        self.cap = Fraction(cap)
        self.ceiling = [self.cap * int(count) for count in multiplicity]
        self.status = [int(group) for group in status]
        # Every coordinate is an integer times 2^lowest, so κ = exp(−D / (σ · 2^−lowest)²), with D the squared distance
        # of the integers. They are made when they are needed.
        exponents = np.frexp(keys[keys != 0.0])[1]
        self.lowest = int(exponents.min(initial=0)) - 53
        self.denominator = (Fraction(sigma) * Fraction(2) ** -self.lowest) ** 2
        self.integers: dict[int, list[int]] = {}
        self.kernels: dict[tuple[int, int], Any] = {}
        self.bits = 0
        # Midpoints of the current feasible point.
        self.alpha: list[Any] = []
        self.spread: Any = arb(0)

    def use(self, bits: int) -> None:
        """Go on at a precision."""
        self.bits = bits
        self.kernels = {}
        self.tie = arb(2) ** -(bits // 2)
        self.width = arb(fmpz(self.denominator.numerator)) / arb(fmpz(self.denominator.denominator))
        self.caps = [_exact(bound) for bound in self.ceiling]

    def kernel(self, i: int, j: int) -> Any:
        """κ of two sites as a ball."""
        if i == j:
            return arb(1)
        pair = (i, j) if i < j else (j, i)
        found = self.kernels.get(pair)
        if found is None:
            squared = sum([(a - b) * (a - b) for a, b in zip(self.row(i), self.row(j), strict=True)])
            found = self.kernels[pair] = (-arb(fmpz(squared)) / self.width).exp()
        return found

    def make_kernels(self, rows: list[int], columns: list[int]) -> None:
        """Make the kernel values of many pairs of sites at once, if any is not there yet."""
        known = self.kernels.keys()
        missing = [i for i in rows if any((min(i, j), max(i, j)) not in known for j in columns if j != i)]
        if len(missing) < 2:
            return
        left, right = fmpz_mat([self.row(site) for site in missing]), fmpz_mat([self.row(site) for site in columns])
        products = (left * right.transpose()).tolist()
        norms = {site: sum(value * value for value in self.row(site)) for site in {*missing, *columns}}
        for site, along in zip(missing, products, strict=True):
            for other, product in zip(columns, along, strict=True):
                if other != site:
                    pair = (site, other) if site < other else (other, site)
                    squared = norms[site] + norms[other] - 2 * product
                    if pair not in known:
                        self.kernels[pair] = (-arb(fmpz(squared)) / self.width).exp()

    def row(self, site: int) -> list[int]:
        """A site's key as integers, in units of 2^lowest."""
        found = self.integers.get(site)
        if found is None:
            parts = zip(*(part.tolist() for part in np.frexp(self.keys[site])), strict=True)
            found = [int(m * 2.0**53) << (e - 53 - self.lowest) if m else 0 for m, e in parts]
            self.integers[site] = found
        return found

    def group(self, status: int) -> list[int]:
        """Sites of one group."""
        return [site for site in range(self.sites) if self.status[site] == status]

    def rest(self) -> Fraction:
        """Mass that the bound sites leave, exactly."""
        return 1 - sum((self.ceiling[site] for site in self.group(BOUND)), start=Fraction(0))

    def start(self, guess: Vector) -> None:
        """Begin at the guess; free sites take what the bound ones leave."""
        self.alpha = [
            self.caps[site] if self.status[site] == BOUND else arb(0) if self.status[site] == RESERVE else arb(value)
            for site, value in enumerate(guess.tolist())
        ]
        free = self.group(MARGIN)
        missing = _exact(self.rest()) - sum((self.alpha[site] for site in free), start=arb(0))
        for site in free:
            room = self.caps[site] - self.alpha[site] if missing > 0 else -self.alpha[site]
            step = missing.mid() if abs(missing) <= abs(room) else room.mid()
            self.alpha[site] = (self.alpha[site] + step).mid()
            missing = missing - step
        if free and not abs(missing) < self.tie:
            # The guess is far from feasible: begin at a vertex instead.
            self.restart()

    def restart(self) -> None:
        """Begin at the vertex that fills sites in their order; one of them is free."""
        left = Fraction(1)
        for site in range(self.sites):
            taken = min(left, self.ceiling[site])
            left -= taken
            full, empty = taken == self.ceiling[site], taken == 0
            self.status[site] = BOUND if full and not empty else RESERVE if empty else MARGIN
            self.alpha[site] = _exact(taken)
        if left > 0:
            raise SolveError("the cap is infeasible for these keys", code="no-feasible-point")

    def walk(self) -> tuple[list[Any], Any, list[int]]:
        """Pivot to a partition without violations beyond ties: (free coefficients, offset, tied sites)."""
        budget = 100 + 12 * self.sites
        for _ in range(budget):
            free = self.group(MARGIN)
            self.spread = arb(0)
            if not free:
                if self._free_one():
                    continue
                offset = self._empty_offset()
                tied = self._tied_at(offset)
                if not tied:
                    # The bound site that gives the offset is tied to it, unless its enclosure is too wide.
                    raise _Undecided
                return [], offset, tied
            target, offset = self.solve(free)
            if any(not value.rad() < self.tie for value in [*target, offset]):
                raise _Undecided
            if self._blocked(free, target):
                continue
            for site, value in zip(free, target, strict=True):
                self.alpha[site] = value.mid()
            # How far the optimum's slacks may be from those of the midpoints.
            self.spread = 2 * sum((value.rad() for value in target), start=arb(0)) + offset.rad()
            worst, tied = self.violations(offset)
            if worst < 0:
                tied += [
                    site
                    for site, value in zip(free, target, strict=True)
                    if not (value > self.tie and self.caps[site] - value > self.tie)
                ]
                return target, offset, tied
            self.status[worst] = MARGIN
        raise SolveError("the exact active set did not settle", code="beyond-exact-limits")

    def solve(self, free: list[int]) -> tuple[list[Any], Any]:
        """Enclosures of coefficients and offset with these sites free: K α + (ρ/2)·1 = ½·1 − K_E c, Σα = rest."""
        size = len(free)
        bound = self.group(BOUND)
        self.make_kernels(free, [*free, *bound])
        system, right = arb_mat(size + 1, size + 1), arb_mat(size + 1, 1)
        for row, site in enumerate(free):
            for column in range(row + 1):
                system[row, column] = system[column, row] = self.kernel(site, free[column])
            system[row, size] = system[size, row] = arb(1)
            right[row, 0] = arb(0.5) - sum((self.caps[other] * self.kernel(site, other) for other in bound), arb(0))
        system[size, size] = arb(0)
        right[size, 0] = _exact(self.rest())
        if size == 1:
            only = self.rest()
            return [_exact(only)], 2 * (right[0, 0] - _exact(only))
        try:
            solved = system.solve(right)
        except ZeroDivisionError:
            raise _Undecided from None
        return [solved[row, 0] for row in range(size)], 2 * solved[size, 0]

    def _blocked(self, free: list[int], target: list[Any]) -> bool:
        """Walk toward the target; True if a bound came first, and its site now has it."""
        fraction, blocking, upper = arb(1), -1, False
        for site, value in zip(free, target, strict=True):
            move = value - self.alpha[site]
            if value < -self.tie:
                room, high = -self.alpha[site], False
            elif value > self.caps[site] + self.tie:
                room, high = self.caps[site] - self.alpha[site], True
            else:
                continue
            reached = (room / move).mid() if not move.contains(0) else arb(0)
            if blocking < 0 or reached < fraction:
                fraction, blocking, upper = reached, site, high
        if blocking < 0:
            return False
        fraction = fraction if fraction > 0 else arb(0)
        for site, value in zip(free, target, strict=True):
            self.alpha[site] = (self.alpha[site] + fraction * (value - self.alpha[site])).mid()
        self.status[blocking] = BOUND if upper else RESERVE
        self.alpha[blocking] = self.caps[blocking] if upper else arb(0)
        return True

    def violations(self, offset: Any) -> tuple[int, list[int]]:
        """(The site whose slack is furthest on the wrong side or −1, sites whose slack is zero to the tie)."""
        # A slack that pairs tell from zero has a sign, however small it is; only the others can be ties.
        worst, most, tied = -1, arb(0), []
        others = [site for site in range(self.sites) if self.status[site] != MARGIN]
        clear = self._clear_slacks(others, offset)
        for site in others:
            wrong = self.status[site] == BOUND
            slack = clear.get(site)
            if slack is None:
                ball = self.slack(site, offset)
                if not ball.rad() < self.tie:
                    raise _Undecided
                if abs(ball) < self.tie:
                    tied.append(site)
                    continue
                if ball.contains(0):
                    raise _Undecided
                signed = ball if wrong else -ball
            else:
                signed = arb(slack) if wrong else arb(-slack)
            if signed > most:
                worst, most = site, signed.mid()
        return worst, tied

    def slack(self, site: int, offset: Any) -> Any:
        """G = ρ − 1 + 2Kα at a site, as a ball."""
        terms = (self.alpha[j] * self.kernel(site, j) for j in range(self.sites) if self.status[j] != RESERVE)
        return _widened(offset - 1 + 2 * sum(terms, start=arb(0)), self.spread)

    def _clear_slacks(self, sites: list[int], offset: Any) -> dict[int, float]:
        """Slacks that pairs tell from zero, by site."""
        active = np.array([site for site in range(self.sites) if self.status[site] != RESERVE], dtype=np.int64)
        high = np.array([float(self.alpha[site].mid()) for site in active])
        low = np.array([float((self.alpha[site] - arb(value)).mid()) for site, value in zip(active, high, strict=True)])
        level = (offset - 1).mid()
        level_high = float(level)
        level_low = float((level - arb(level_high)).mid())
        error = 2.0 * (pair_error(self.dimension) + (active.size + 8.0) * 2.0**-103) + 2.0**-100
        error += float(self.spread.upper()) + float((offset - 1).rad().upper())
        found: dict[int, float] = {}
        for start in range(0, len(sites), BLOCK):
            part = sites[start : start + BLOCK]
            kernels = kernel_pairs(self.keys[part], self.keys, active, self.sigma)
            total, rest = pair_products(*kernels, high, low)
            slack = (2.0 * total + level_high) + (_sum_error(2.0 * total, level_high) + (2.0 * rest + level_low))
            clear = np.abs(slack) > 4.0 * error + 2.0**-50 * np.abs(slack)
            found.update((part[place], float(slack[place])) for place in np.flatnonzero(clear).tolist())
        return found

    def _free_one(self) -> bool:
        """With no free site: free what must take the rest of the mass or trade it; False if neither is needed."""
        rest = self.rest()
        terms = self._terms()
        bound, reserve = self.group(BOUND), self.group(RESERVE)
        least = min(bound, key=lambda site: terms[site].mid(), default=-1)
        most = max(reserve, key=lambda site: terms[site].mid(), default=-1)
        if rest < 0:
            self.status[least] = MARGIN
        elif rest > 0:
            self.status[most] = MARGIN
        elif most >= 0 and terms[most] - terms[least] > self.tie:
            self.status[least] = self.status[most] = MARGIN
        else:
            return False
        return True

    def _terms(self) -> dict[int, Any]:
        """T = 1 − 2Kα at every site that holds entries."""
        return {site: -self.slack(site, arb(0)) for site in range(self.sites)}

    def _empty_offset(self) -> Any:
        """The least t of the bound sites, which is the offset of an empty margin."""
        terms = self._terms()
        bound = self.group(BOUND)
        lower = min(terms[site].lower() for site in bound)
        return lower.union(min(terms[site].upper() for site in bound))

    def _tied_at(self, offset: Any) -> list[int]:
        """Sites whose slack is zero to the tie, when the margin is empty."""
        terms = self._terms()
        return [site for site in range(self.sites) if abs(offset - terms[site]) < self.tie]

    def conclude(self, target: list[Any], offset: Any, tied: list[int]) -> ExactOptimum:
        """The nearest doubles, proved; _Undecided where this precision does not tell them."""
        free = self.group(MARGIN)
        values = dict(zip(free, target, strict=True))
        if tied:
            offset = self._tied_optimum(free, values, offset, tied)
        last = self.bits == PRECISIONS[-1]
        status = np.array(self.status, dtype=np.int8)
        alpha, share = np.zeros(self.sites), np.zeros(self.sites)
        for site in range(self.sites):
            count = int(self.multiplicity[site])
            if status[site] == BOUND:
                alpha[site], share[site] = float(self.ceiling[site]), float(self.cap)
            elif status[site] == MARGIN:
                if len(free) == 1 and not tied:
                    lower = upper = self.rest()
                else:
                    lower, upper = _fraction(values[site].lower()), _fraction(values[site].upper())
                alpha[site] = _decided(nearest(lower, upper, last=last))
                share[site] = _decided(nearest(lower / count, upper / count, last=last))
        level = _decided(nearest(_fraction(offset.lower()), _fraction(offset.upper()), last=last))
        return ExactOptimum(status, alpha, share, level, self.bits)

    def _tied_optimum(self, free: list[int], values: dict[int, Any], offset: Any, tied: list[int]) -> Any:
        """Put tied free sites at their bounds, widen the values by the convexity bound, and enclose the offset."""
        for site in free:
            if abs(values[site]) < self.tie:
                self.status[site], self.alpha[site] = RESERVE, arb(0)
            elif abs(self.caps[site] - values[site]) < self.tie:
                self.status[site], self.alpha[site] = BOUND, self.caps[site]
            else:
                self.alpha[site] = values[site].mid()
        inside = self.group(MARGIN)
        self.spread = arb(0)
        missing = _exact(self.rest()) - sum((self.alpha[site] for site in inside), start=arb(0))
        if inside:
            self.alpha[inside[0]] = self.alpha[inside[0]] + missing
            level = offset.mid()
            if not all(0 < self.alpha[site] < self.caps[site] for site in inside):
                raise _Undecided
        elif self.rest() != 0:
            raise _Undecided
        else:
            level = self._empty_offset()
        both = sorted({*free, *tied})
        gram = arb_mat([[self.kernel(i, j) + 1 for j in both] for i in both])
        try:
            inverse = gram.inv()
        except ZeroDivisionError:
            raise _Undecided from None
        slacks = {site: self.slack(site, level) for site in both}
        norm = _length([inverse[i, j] for i in range(len(both)) for j in range(len(both))])
        moved = (norm * _length(list(slacks.values())) / 2).upper()
        if not moved < arb(2) ** -210:
            raise _Undecided
        reach = 4 * moved * len(both) + 4 * max((abs(slack).upper() for slack in slacks.values()), default=arb(0))
        others = [site for site in range(self.sites) if site not in slacks]
        clear = self._clear_slacks(others, level)
        for site in others:
            slack = arb(clear[site]) if site in clear else self.slack(site, level)
            if not (slack < -reach if self.status[site] == BOUND else slack > reach):
                raise _Undecided
        for site in inside:
            values[site] = _widened(self.alpha[site], moved)
        return _widened(level, reach)


def _length(balls: list[Any]) -> Any:
    """Upper bound of the Euclidean length of numbers in these balls."""
    tops = [abs(ball).upper() for ball in balls]
    return sum((top * top for top in tops), start=arb(0)).upper().sqrt().upper()


def _widened(ball: Any, by: Any) -> Any:
    return ball + arb(0, by.upper())


def _exact(value: Fraction) -> Any:
    """A rational as a ball; exact where it is a dyadic number."""
    return arb(fmpz(value.numerator)) / arb(fmpz(value.denominator))


def _sum_error(a: Vector, b: float) -> Vector:
    """What a + b loses in rounding, exactly."""
    s = a + b
    t = s - a
    return np.asarray((a - (s - t)) + (b - t))


def _decided(value: float | None) -> float:
    if value is None:
        raise _Undecided
    return value


def solve_exactly(
    keys: Matrix, multiplicity: IndexArray, cap: float, sigma: float, status: StatusArray, guess: Vector
) -> ExactOptimum:
    """The optimum of sites (n, d), all of which hold entries, from a guess of groups and coefficients.

    Raises SolveError beyond the limits of the last precision.
    """
    walk = _Walk(keys, multiplicity, cap, sigma, status)
    for bits in PRECISIONS:
        with ball_precision(bits):
            walk.use(bits)
            try:
                walk.start(guess) if not walk.alpha else None
                return walk.conclude(*walk.walk())
            except _Undecided:
                continue
    raise SolveError(
        f"{walk.sites} keys are too close together for this width: {PRECISIONS[-1]} bits do not tell their weights",
        code="beyond-exact-limits",
    )
