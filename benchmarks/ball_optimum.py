"""The nearest doubles to the exact optimum, in ball arithmetic (python-flint), by code that the package does not share.

Keys, cap and width are exact numbers; the Gram matrix of distinct keys is positive definite, so the optimum α* is
unique. `nearest_doubles` walks through partitions at rising precision, and proves what it returns:

- *Without ties* (every free coefficient strictly inside its box, every other slack strictly of its sign) the
  optimality conditions hold, and the enclosure of the margin system's solution encloses α*.
- *With ties* let α be the point found, with mass exactly 1, T its free and tied sites, g = ρ − 1 + 2Kα, d = α − α*.
  Convexity gives dᵀKd ≤ Σ gᵢdᵢ. Outside T, αᵢ is at a bound and gᵢ pushes it there, so gᵢdᵢ = −|gᵢ||dᵢ|; with
  |gᵢ| ≥ γ outside T and ε = Σ_T |gᵢ|: dᵀKd ≤ ε and Σ_{∉T} |dᵢ| ≤ ε/γ. So ‖K^½ d_T‖ ≤ √ε + ε/γ and
  ‖d_T‖₂ ≤ (√ε + ε/γ)·√‖K_TT⁻¹‖. The slacks move by at most 2√ε, because κ(x, x) = 1.

A coefficient of one of m copies is the double nearest to α*/m. Numbers below 2⁻²⁰⁰ are 0; a number that the last
precision cannot tell from the midpoint of two doubles is the even one. With no free key the offset is the least t of
the bound keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, fmpz, fmpz_mat

__all__ = ["Doubles", "Undecided", "exact_readout", "nearest_doubles"]

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

PRECISIONS = (192, 512, 1200, 2600)
ZERO = Fraction(1, 2**200)
RESERVE, FREE, BOUND = -1, 0, 1


class Undecided(Exception):
    """The last precision does not decide the question."""


@dataclass(frozen=True, eq=False)
class Doubles:
    """Coefficients (n,) in the rows' order and offset, as the nearest doubles; enclosures of the sites' weights."""

    coefficients: Vector
    offset: float
    bits: int
    ties: int
    balls: list[Any]  # α*/m of each row


def nearest_doubles(keys: Matrix, cap: float, sigma: float, guess: Vector) -> Doubles:
    """Evaluate the optimum at keys (n, d); the guess of coefficients (n,) only saves time."""
    problem = _Problem(keys, cap, sigma, guess)
    before = flint.ctx.prec
    try:
        for bits in PRECISIONS:
            flint.ctx.prec = bits
            found = problem.at(bits)
            if found is not None:
                return found
    finally:
        flint.ctx.prec = before
    raise Undecided(f"{PRECISIONS[-1]} bits do not decide the optimum of {len(keys)} keys")


def exact_readout(keys: Matrix, values: Matrix, balls: list[Any], sigma: float, query: Vector) -> list[Any]:
    """Readout at one query as balls, from enclosures of the coefficients."""
    before = flint.ctx.prec
    flint.ctx.prec = 600
    try:
        squared = [_squared_distance(key, query) for key in keys]
        least = min(squared)
        width = _ball(Fraction(sigma) ** 2)
        terms = [ball * (-_ball(one - least) / width).exp() for ball, one in zip(balls, squared, strict=True)]
        total = sum(terms, start=arb(0))
        columns = values.shape[1]
        return [
            sum((term * arb(float(row[j])) for term, row in zip(terms, values, strict=True)), start=arb(0)) / total
            for j in range(columns)
        ]
    finally:
        flint.ctx.prec = before


class _Problem:
    """Distinct keys with multiplicities, exact squared distances, and the partition that the walk is at."""

    def __init__(self, keys: Matrix, cap: float, sigma: float, guess: Vector) -> None:
        sites: dict[tuple[float, ...], int] = {}
        self.site_of = [sites.setdefault(tuple(row), len(sites)) for row in (keys + 0.0).tolist()]
        self.count = len(sites)
        self.copies = [self.site_of.count(site) for site in range(self.count)]
        self.cap = Fraction(cap)
        self.ceiling = [copies * self.cap for copies in self.copies]
        fractions = [[Fraction(value) for value in key] for key in sites]
        scale = max(value.denominator for row in fractions for value in row)
        exact = fmpz_mat([[fmpz(int(value * scale)) for value in row] for row in fractions])
        self.products = exact * exact.transpose()
        self.width = (Fraction(sigma) * scale) ** 2
        self.group = [RESERVE] * self.count
        for row, site in enumerate(self.site_of):
            if guess[row] >= cap:
                self.group[site] = BOUND
            elif guess[row] > 0.0:
                self.group[site] = FREE
        self.start = [Fraction(0)] * self.count
        for row, site in enumerate(self.site_of):
            self.start[site] += Fraction(float(guess[row]))
        self.kernels: dict[tuple[int, int], Any] = {}

    def kernel(self, i: int, j: int) -> Any:
        if i == j:
            return arb(1)
        pair = (i, j) if i < j else (j, i)
        if pair not in self.kernels:
            squared = self.products[i, i] + self.products[j, j] - 2 * self.products[i, j]
            self.kernels[pair] = (-arb(squared) / self.wide).exp()
        return self.kernels[pair]

    def of(self, *groups: int) -> list[int]:
        return [site for site in range(self.count) if self.group[site] in groups]

    def left(self) -> Fraction:
        """Mass that bound sites leave."""
        return 1 - sum((self.ceiling[site] for site in self.of(BOUND)), start=Fraction(0))

    def solve(self) -> tuple[dict[int, Any], Any]:
        """Enclosures of the free coefficients and of the offset; None for the offset where none is free."""
        free, bound = self.of(FREE), self.of(BOUND)
        if not free:
            return {}, None
        size = len(free)
        system = arb_mat(
            [[2 * self.kernel(i, j) for j in free] + [arb(1)] for i in free] + [[arb(1)] * size + [arb(0)]]
        )
        right = []
        for i in free:
            total = sum((_ball(self.ceiling[j]) * self.kernel(i, j) for j in bound), start=arb(0))
            right.append([1 - 2 * total])
        right.append([_ball(self.left())])
        try:
            solved = system.solve(arb_mat(right))
        except ZeroDivisionError:
            raise _TooCoarse from None
        return {site: solved[row, 0] for row, site in enumerate(free)}, solved[size, 0]

    def terms(self, alpha: dict[int, Any]) -> list[Any]:
        """T = 1 − 2Kα at every site."""
        weights = [(site, _ball(self.ceiling[site])) for site in self.of(BOUND)] + list(alpha.items())
        return [
            1 - 2 * sum((weight * self.kernel(i, j) for j, weight in weights), start=arb(0)) for i in range(self.count)
        ]

    def at(self, bits: int) -> Doubles | None:
        """The answer at this precision, or None where it does not decide."""
        self.kernels = {}
        self.wide = _ball(self.width)
        tie = arb(2) ** -(bits // 2)
        try:
            alpha, offset, terms = self.walk(tie)
            return self.conclude(alpha, offset, terms, tie, last=bits == PRECISIONS[-1], bits=bits)
        except _TooCoarse:
            return None

    def walk(self, tie: Any) -> tuple[dict[int, Any], Any, list[Any]]:
        """A primal active-set walk from a feasible point: pivots until no condition fails by more than the tie."""
        point = self.feasible()
        for _ in range(200 + 20 * self.count):
            alpha, offset = self.solve()
            step, first, to = arb(1), None, RESERVE
            for site, target in alpha.items():
                now, ceiling = point[site], _ball(self.ceiling[site])
                if target < -tie and (ratio := (now / (now - target)).mid()) < step:
                    step, first, to = ratio, site, RESERVE
                elif target > ceiling + tie and (ratio := ((ceiling - now) / (target - now)).mid()) < step:
                    step, first, to = ratio, site, BOUND
            if first is not None:
                for site, target in alpha.items():
                    point[site] = (point[site] + step * (target - point[site])).mid()
                point[first] = arb(0) if to == RESERVE else _ball(self.ceiling[first])
                self.group[first] = to
                continue
            for site, target in alpha.items():
                point[site] = target.mid()
            terms = self.terms(alpha)
            if offset is None:
                left = self.left()
                lowest = min(self.of(BOUND), key=lambda site: float(terms[site].mid()), default=None)
                highest = max(self.of(RESERVE), key=lambda site: float(terms[site].mid()), default=None)
                if left > 0 and highest is not None:
                    self.group[highest] = FREE
                    continue
                if left < 0 and lowest is not None:
                    self.group[lowest] = FREE
                    continue
                if lowest is not None and highest is not None and terms[highest] - terms[lowest] > tie:
                    self.group[highest] = self.group[lowest] = FREE
                    continue
                return alpha, None, terms
            worst, found = tie, None
            for site in range(self.count):
                excess = terms[site] - offset if self.group[site] == RESERVE else offset - terms[site]
                if self.group[site] != FREE and excess > worst:
                    worst, found = excess.mid(), site
            if found is None:
                return alpha, offset, terms
            self.group[found] = FREE
        raise _TooCoarse

    def feasible(self) -> dict[int, Any]:
        """Coefficients of all sites that are feasible to the working precision, with groups that agree."""
        wanted = {
            site: self.ceiling[site] if self.group[site] == BOUND else self.start[site] for site in range(self.count)
        }
        missing = 1 - sum((wanted[site] for site in self.of(BOUND, FREE)), start=Fraction(0))
        for site in [*self.of(FREE), *self.of(RESERVE), *self.of(BOUND)]:
            if missing == 0:
                break
            base = wanted[site] if self.group[site] != RESERVE else Fraction(0)
            moved = min(max(base + missing, Fraction(0)), self.ceiling[site])
            missing -= moved - base
            wanted[site] = moved
            if moved != base:
                self.group[site] = FREE
        point = {}
        for site in range(self.count):
            value = (
                Fraction(0) if self.group[site] == RESERVE else min(max(wanted[site], Fraction(0)), self.ceiling[site])
            )
            point[site] = _ball(value).mid()
        return point

    def conclude(
        self, alpha: dict[int, Any], offset: Any, terms: list[Any], tie: Any, *, last: bool, bits: int
    ) -> Doubles:
        one_free = len(alpha) == 1
        level = offset
        if level is None:
            bound = [terms[site] for site in self.of(BOUND)]
            level = arb(0)
            low, high = min(term.lower() for term in bound), min(term.upper() for term in bound)
            level = low.union(high)
        tied = []
        for site in range(self.count):
            if site in alpha:
                if not (alpha[site] > 0 and alpha[site] < _ball(self.ceiling[site])):
                    tied.append(site)
                continue
            slack = level - terms[site]
            right = slack < 0 if self.group[site] == BOUND else slack > 0
            # With no free site the offset is the least term of the bound ones: slack zero is as it should be there.
            if not right and not (offset is None and self.group[site] == BOUND):
                tied.append(site)
        spread = arb(0)
        if tied:
            level, spread = self.tied_bounds(alpha, level, tied, tie, empty=offset is None)
        balls: list[Any] = []
        for site in range(self.count):
            if site in alpha:
                balls.append(alpha[site] + arb(0, spread.upper()) if tied else alpha[site])
            elif site in tied:
                balls.append(_ball(self.ceiling[site] if self.group[site] == BOUND else Fraction(0)) + arb(0, spread))
            else:
                balls.append(_ball(self.ceiling[site] if self.group[site] == BOUND else Fraction(0)))
        shares = []
        for site, ball in enumerate(balls):
            copies = self.copies[site]
            if site in alpha and one_free and not tied:
                exact = self.left() / copies
                shares.append(0.0 if abs(exact) < ZERO else float(exact))
            elif self.group[site] == BOUND:
                # At its ceiling, or so near that the nearest double is the cap: both are decided below for ties.
                shares.append(float(self.cap) if site not in tied else _round(ball / copies, last, at=self.cap))
            elif self.group[site] == RESERVE:
                shares.append(0.0 if site not in tied else _round(ball / copies, last))
            else:
                shares.append(_round(ball / copies, last, at=self.cap if site in tied else None))
        rows = np.array([shares[site] for site in self.site_of])
        return Doubles(
            rows, _round(level, last), bits, len(tied), [balls[site] / self.copies[site] for site in self.site_of]
        )

    def tied_bounds(self, alpha: dict[int, Any], level: Any, tied: list[int], tie: Any, *, empty: bool) -> Any:
        """Enclosure of the offset, and how far a coefficient of T may be from the optimum's."""
        flint_mid = {site: value.mid() for site, value in alpha.items()}
        # Tied free sites go to the bound that they are near; one free site takes the rest, so that the mass is exact.
        moved: dict[int, Any] = {}
        inside = []
        for site, value in flint_mid.items():
            ceiling = _ball(self.ceiling[site])
            if site not in tied:
                inside.append(site)
                moved[site] = value
            elif abs(value) < tie:
                moved[site] = arb(0)
            elif abs(ceiling - value) < tie:
                moved[site] = ceiling
            else:
                raise _TooCoarse
        missing = _ball(self.left()) - sum(moved.values(), start=arb(0))
        if inside:
            moved[inside[0]] = moved[inside[0]] + missing
        elif not missing.contains(0):
            raise _TooCoarse
        terms = self.terms(moved)
        level = level.mid()
        together = sorted({*alpha, *tied})
        if empty:
            together = sorted({*together, *(s for s in self.of(BOUND) if abs(terms[s] - level) < tie)})
        epsilon = sum((abs(level - terms[site]).upper() for site in together), start=arb(0)).upper()
        gamma = arb(4)
        for site in range(self.count):
            if site not in together:
                slack = level - terms[site]
                away = (-slack if self.group[site] == BOUND else slack).lower()
                if not away > 0:
                    raise _TooCoarse
                gamma = away if away < gamma else gamma
        gram = arb_mat([[self.kernel(i, j) for j in together] for i in together])
        try:
            inverse = gram.inv()
        except ZeroDivisionError:
            raise _TooCoarse from None
        size = len(together)
        norm = sum((abs(inverse[i, j]).upper() ** 2 for i in range(size) for j in range(size)), start=arb(0)).sqrt()
        root = epsilon.sqrt()
        spread = ((root + epsilon / gamma) * norm.sqrt()).upper()
        # How far the rounding of the point itself is from the enclosure that it was taken from.
        for site, value in alpha.items():
            spread = (spread + abs(value - moved[site]).upper()).upper()
        if not spread < arb(2) ** -210:
            raise _TooCoarse
        reach = (2 * root + 2 * spread * size).upper()
        return level + arb(0, (reach + epsilon).upper()), spread


class _TooCoarse(Exception):
    """The precision does not decide."""


def _round(ball: Any, last: bool, at: Fraction | None = None) -> float:
    """The double nearest to the number in a ball; `at`: a number that it may equal exactly."""
    low, high = _exact(ball.lower()), _exact(ball.upper())
    if low > -ZERO and high < ZERO:
        return 0.0
    if at is not None and abs(low - at) < ZERO and abs(high - at) < ZERO:
        return float(at)
    below, above = float(low), float(high)
    if below == above:
        return below
    if last and math.nextafter(below, above) == above and high - low < Fraction(1, 2**1000):
        return below if int(math.frexp(below)[0] * 2**53) % 2 == 0 else above
    raise _TooCoarse


def _exact(point: Any) -> Fraction:
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _ball(value: Fraction) -> Any:
    return arb(fmpz(value.numerator)) / arb(fmpz(value.denominator))


def _squared_distance(a: Vector, b: Vector) -> Fraction:
    return sum(
        ((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True)), start=Fraction(0)
    )
