"""The exact optimum of keys, cap and width, from a guess of its groups: enclosed in balls, rounded once.

Keys, cap and width are exact numbers. Copies of a key are one *site* with the cap copies · C. For groups S (margin),
E (bound) and R (reserve) the margin system

    Σ_S α = 1 − Σ_E c,   ρ + 2 K_SS α_S = 1 − 2 K_SE c_E

is solved in balls at rising precision. If 0 < α < c on S, and the slack g = ρ − 1 + 2Kα is positive on R and negative
on E, all strictly, this is the optimum, and the only one: kernel matrices of distinct keys are positive definite. With
an empty margin the caps of E must sum to exactly 1, and ρ is the least t = 1 − 2Kα of E.

**Ties.** Let U be the sites whose sign no ball tells, each put at its bound, w a point with mass exactly 1 near the
solution, T = S ∪ U, α′ the optimum if only T may move, d = w − α′. α′ is optimal, so (2Kα′)ᵀd ≥ 0, and Σd = 0 gives
2dᵀKd ≤ g_Tᵀd for any ρ: ‖d‖₂ ≤ ½‖K_TT⁻¹‖₂‖g_T‖₂. No slack moves by more than 2√|T|‖d‖, no offset by more than that and
max|g_T|. Where all other slacks are larger, α′ is the optimum of the whole problem.

**Groups that rounding hides.** A weight closer to its cap than half a unit in the last place, or below 2⁻²⁰⁰, is
published as the cap or as 0, though its site is on the margin. A guess that puts it at its bound leaves others with
slacks on the wrong side by no more than that, so such sites are freed and the system is solved again. A slack that is
further on the wrong side than `SLIP` says that the guess is not the optimum's.

No solver is asked, and nothing is shared with one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np
from flint import arb, arb_mat, fmpz, fmpz_mat

from expunge.errors import VerificationError
from expunge.types import IndexArray, Made, Matrix, Vector, Workers
from expunge.verify.ball_precision import ball_precision
from expunge.verify.kernel_intervals import BLOCK as INTERVAL_BLOCK
from expunge.verify.kernel_intervals import UNIT, UP, similarity_interval

__all__ = ["COMPLETE", "NearestOptimum", "nearest_double", "nearest_optimum"]

PRECISIONS: Final = (128, 256, 512, 1024, 2400)
# Up to this many kernel values every slack is evaluated in balls.
COMPLETE: Final = 50_000_000
# Weights that rounding hides move no slack by as much.
SLIP: Final = 2.0**-40
# A number below it is published as 0.
ZERO: Final = Fraction(1, 2**200)
# A number closer than this to the midpoint of two doubles is published as the even one.
MIDWAY: Final = Fraction(1, 2**1100)
# Kernel values that are held as balls at one time.
BLOCK: Final = 300_000
# Blocks of kernel values in double precision that make one part for workers.
PARTS: Final = 16
# Changes of the groups before the guess is given up.
ROUNDS: Final = 200

MARGIN, BOUND, RESERVE = "m", "b", "r"


@dataclass(frozen=True, eq=False)
class NearestOptimum:
    """The optimum over rows, as the nearest doubles, and its groups.

    partition   one letter a row: m margin, b bound, r reserve, of the exact optimum; a tied row has its bound's
    tied        rows whose slack no precision tells from zero
    bits        the precision that decided
    bounded     distinct keys whose slack was bounded in double precision and not in balls
    """

    coefficients: Vector
    offset: float
    partition: str
    tied: IndexArray
    bits: int
    bounded: int


class _Undecided(Exception):
    """A question that this precision does not answer."""


def nearest_optimum(
    keys: Matrix,
    partition: str,
    *,
    cap: float,
    sigma: float,
    complete: int = COMPLETE,
    watch: Callable[[], None] | None = None,
    workers: Workers | None = None,
) -> NearestOptimum:
    """The optimum of keys (n, d), from a guess of its groups, one letter a row.

    `watch` is called once for every row. `workers` evaluate the slacks, else this process does. Raises
    VerificationError with ``state-group-wrong`` if the guess is not the optimum's, ``state-infeasible`` if there is
    none, and ``state-undecided`` beyond the last precision.
    """
    sites = _Sites(keys, Fraction(cap), sigma)
    if sites.cap * len(keys) < 1:
        raise VerificationError(
            f"{len(keys)} keys at cap {cap!r} hold less than a mass of 1: there is no optimum", code="state-infeasible"
        )
    search = _Search(sites, partition, complete, watch, workers or _here)
    for bits in PRECISIONS:
        with ball_precision(bits):
            try:
                return search.at(bits)
            except (_Undecided, ZeroDivisionError):
                continue
    raise VerificationError(f"{PRECISIONS[-1]} bits do not decide the weights", code="state-undecided")


def nearest_double(lower: Fraction, upper: Fraction) -> float | None:
    """The double that stands for every number from `lower` to `upper`, or None where that is not one double."""
    if lower > -ZERO and upper < ZERO:
        return 0.0
    if lower < ZERO and upper > -ZERO:
        return None
    low, high = float(lower), float(upper)
    if low != high and (upper - lower >= MIDWAY or math.nextafter(low, high) != high):
        return None
    # Of two neighbours around a midpoint, the one with an even mantissa.
    return low if low == high or int(math.frexp(low)[0] * 2.0**53) % 2 == 0 else high


class _Sites:
    """Distinct keys with their rows, ceilings and exact coordinates."""

    def __init__(self, keys: Matrix, cap: Fraction, sigma: float) -> None:
        places: dict[bytes, int] = {}
        self.of_row = np.array([places.setdefault(key.tobytes(), len(places)) for key in keys], dtype=np.int64)
        self.first = np.unique(self.of_row, return_index=True)[1]
        self.keys, self.sigma, self.cap = keys[self.first], sigma, cap
        self.counts: list[int] = np.bincount(self.of_row).tolist()
        self.size = len(self.counts)
        self.ceiling = [cap * count for count in self.counts]
        self.kernels = _Kernels(self.keys, sigma)


class _Kernels:
    """κ between keys (n, d), as balls, from exact coordinates: integers over a power of two."""

    def __init__(self, keys: Matrix, sigma: float) -> None:
        self.keys, self.sigma = keys, sigma
        largest = np.frexp(keys)[1][keys != 0.0]
        self.lowest = int(largest.min(initial=0)) - 53
        self.exponent = Fraction(4) ** self.lowest / Fraction(sigma) ** 2
        # Keys as rows of integers, made when they are first asked for: (x, ‖x‖²).
        self._whole: dict[int, tuple[list[int], int]] = {}

    def __getstate__(self) -> tuple[Matrix, float, int, Fraction]:
        return self.keys, self.sigma, self.lowest, self.exponent

    def __setstate__(self, state: tuple[Matrix, float, int, Fraction]) -> None:
        self.keys, self.sigma, self.lowest, self.exponent = state
        self._whole = {}

    def whole(self, site: int) -> tuple[list[int], int]:
        """A key in units of 2^lowest, and its squared length in their squares."""
        if site not in self._whole:
            fraction, exponent = np.frexp(self.keys[site])
            shift = np.maximum(exponent - 53 - self.lowest, 0).tolist()
            row = [w << s for w, s in zip(np.ldexp(fraction, 53).astype(np.int64).tolist(), shift, strict=True)]
            self._whole[site] = row, sum(w * w for w in row)
        return self._whole[site]

    def between(self, rows: Sequence[int], columns: Sequence[int]) -> Any:
        """κ of every pair of sites, as balls."""
        # ‖x − y‖² = (x, ‖x‖², 1) · (−2y, 1, ‖y‖²).
        left = fmpz_mat([[*row, norm, 1] for row, norm in map(self.whole, rows)])
        right = fmpz_mat([[*(-2 * w for w in row), 1, norm] for row, norm in map(self.whole, columns)])
        distances = arb_mat(left * right.transpose()) * -_ball(self.exponent)
        return arb_mat(len(rows), len(columns), [x.exp() for x in distances.entries()])

    def similarities(self, rows: Sequence[int], columns: Sequence[int], weights: Sequence[Any]) -> list[Any]:
        """Σ_j w_j κ(i, j) at each of the rows, as balls."""
        if not columns:
            return [arb(0)] * len(rows)
        column, found = arb_mat(len(columns), 1, list(weights)), []
        block = max(1, BLOCK // len(columns))
        for start in range(0, len(rows), block):
            found += (self.between(rows[start : start + block], columns) * column).entries()
        return found


# A ball as integers: middle and radius, each as mantissa and exponent.
_Packed = tuple[tuple[int, int], tuple[int, int]]


def _packed(ball: Any) -> _Packed:
    middle, radius = ball.mid().man_exp(), ball.rad().man_exp()
    return (int(middle[0]), int(middle[1])), (int(radius[0]), int(radius[1]))


def _similar_balls(
    kernels: _Kernels,
    rows: Sequence[int],
    columns: Sequence[int],
    weights: Sequence[_Packed],
    bits: int,
    first: int,
    last: int,
) -> list[_Packed]:
    """`_Kernels.similarities` at the rows from `first` to `last`, at this precision."""
    with ball_precision(bits):
        found = kernels.similarities(rows[first:last], columns, [arb(*weight) for weight in weights])
        return [_packed(ball) for ball in found]


def _similar_intervals(
    points: Matrix, keys: Matrix, weights: Vector, sigma: float, spread: float, first: int, last: int
) -> tuple[Vector, Vector]:
    """`similarity_interval` at the points from `first` to `last`."""
    return similarity_interval(points[first:last], keys, weights, sigma, spread)


def _here(make: Callable[[int, int], Made], parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, Made]]:
    """Workers that are this process."""
    for start, stop in parts:
        yield start, stop, make(start, stop)


def _parts(size: int, width: int) -> list[tuple[int, int]]:
    return [(start, min(start + width, size)) for start in range(0, size, width)]


@dataclass
class _Solution:
    """A solution of the margin system: balls, or for one free site an exact number."""

    free: list[int]
    alpha: list[Any]
    offset: Any
    exact: Fraction | None = None
    # Sites whose slack is proved to have its sign, the least of these slacks, and those that are open.
    clear: set[int] = field(default_factory=set)
    least: float = math.inf
    open: list[int] = field(default_factory=list)


class _Search:
    """Groups of sites, and what is proved of them."""

    def __init__(
        self, sites: _Sites, partition: str, complete: int, watch: Callable[[], None] | None, workers: Workers
    ) -> None:
        self.sites, self.workers, self.bits = sites, workers, PRECISIONS[0]
        self.group = [partition[row] for row in sites.first.tolist()]
        self.claimed = list(self.group)
        self.watch, self.watched = watch, False
        self.in_balls = sites.size * sum(group != RESERVE for group in self.group) <= complete
        self.bounded: set[int] = set()
        self.rounds = 0
        # Of the last groups: what earlier precisions have proved.
        self.proved: tuple[list[str], set[int], float] = ([], set(), math.inf)

    def of(self, *letters: str) -> list[int]:
        """Sites of these groups."""
        return [site for site, group in enumerate(self.group) if group in letters]

    def at(self, bits: int) -> NearestOptimum:
        """The optimum at this precision, or _Undecided."""
        self.bits = bits
        while True:
            if self.rounds > ROUNDS:
                raise VerificationError("the groups do not settle near those that are claimed", code="state-undecided")
            self.rounds += 1
            found = self.solve()
            if found is None or self.pushed_out(found) or self.violated(found):
                continue
            if found.open:
                # Ties are told from small slacks where more bits are left.
                if bits == PRECISIONS[0]:
                    raise _Undecided
                return self.tied(found, bits)
            balls = dict(zip(found.free, found.alpha, strict=True))
            ends = {site: (_low(ball), _high(ball)) for site, ball in balls.items()}
            if found.exact is not None:
                ends[found.free[0]] = (found.exact, found.exact)
            return self.rounded(ends, (_low(found.offset), _high(found.offset)), [], bits)

    def solve(self) -> _Solution | None:
        """Solve the margin system; None after a site had to be freed first."""
        sites, free, bound = self.sites, self.of(MARGIN), self.of(BOUND)
        rest = 1 - sites.cap * sum(sites.counts[site] for site in bound)
        caps = [_ball(sites.ceiling[site]) for site in bound]
        if not free:
            return self.without_margin(rest, bound, caps)
        pushed = sites.kernels.similarities(free, bound, caps)
        if len(free) == 1:
            return _Solution(free, [_ball(rest)], 1 - 2 * (pushed[0] + _ball(rest)), rest)
        size = len(free)
        rows = [[*row, arb(1)] for row in sites.kernels.between(free, free).tolist()]
        system = arb_mat([*rows, [arb(1)] * size + [arb(0)]])
        right = arb_mat(size + 1, 1, [*(arb(0.5) - push for push in pushed), _ball(rest)])
        solved = system.solve(right).entries()
        if not all(value.is_finite() for value in solved):
            raise _Undecided
        return _Solution(free, solved[:size], 2 * solved[size])

    def without_margin(self, rest: Fraction, bound: list[int], caps: list[Any]) -> _Solution | None:
        """With no free site: the offset is the least t of the bound sites, if these hold exactly the mass 1."""
        terms = [1 - 2 * x for x in self.sites.kernels.similarities(bound, bound, caps)]
        if rest > 0 or not bound:
            self.wrong(self.of(RESERVE), f"the caps of the bound keys miss a mass of 1 by {float(rest):.3g}")
        least = min(range(len(bound)), key=lambda place: float(terms[place].mid()))
        if rest < 0:
            if -rest > SLIP:
                self.wrong(bound, f"the caps of the bound keys exceed a mass of 1 by {float(-rest):.3g}")
            self.group[bound[least]] = MARGIN
            return None
        lower, upper = (min(end(term) for term in terms) for end in (_low, _high))
        return _Solution([], [], _between(lower, upper))

    def pushed_out(self, found: _Solution) -> bool:
        """Whether a free site is certainly outside its box, and now at a bound; open ones are noted."""
        for site, value in zip(found.free, found.alpha, strict=True):
            ceiling = self.sites.ceiling[site]
            below, above = value < 0, value > _ball(ceiling)
            if found.exact is not None:
                below, above = found.exact < 0, found.exact > ceiling
                inside = 0 < found.exact < ceiling
            else:
                inside = value > 0 and value < _ball(ceiling)
            if below or above:
                if self.claimed[site] == MARGIN:
                    self.wrong([site], "on the margin its weight would lie outside the box")
                self.group[site] = BOUND if above else RESERVE
                return True
            if not inside:
                found.open.append(site)
        return False

    def violated(self, found: _Solution) -> bool:
        """Whether a slack is certainly on the wrong side, and its site now free; open ones are noted."""
        if self.proved[0] == self.group:
            found.clear, found.least = set(self.proved[1]), self.proved[2]
        others = [site for site in self.of(RESERVE, BOUND) if site not in found.clear]
        if not found.free:
            # The offset is the least t of the bound sites, so none of these is on the wrong side.
            others = [site for site in others if self.group[site] == RESERVE]
        balls = self.slacks(found, others)
        worst, most = -1, arb(0)
        for site, slack in balls.items():
            ahead = slack if self.group[site] == RESERVE else -slack
            if ahead > 0:
                found.clear.add(site)
                found.least = min(found.least, float(ahead.lower()) * (1.0 - 2.0**-50))
            elif ahead < 0:
                if -ahead > most:
                    worst, most = site, -ahead
            else:
                found.open.append(site)
        if worst >= 0:
            if most > SLIP:
                self.wrong([worst], f"its slack is {float(balls[worst].mid()):.3g}")
            self.group[worst] = MARGIN
            if not found.free:
                bound = self.of(BOUND)
                level = self.slacks(found, bound)
                self.group[max(bound, key=lambda site: float(level[site].mid()))] = MARGIN
            return True
        if not found.free and found.open:
            level = self.slacks(found, self.of(BOUND))
            found.open += [site for site, slack in level.items() if not slack < 0]
            behind = [-float(slack.upper()) * (1.0 - 2.0**-50) for slack in level.values() if slack < 0]
            found.least = min([found.least, *behind])
        self.proved = (list(self.group), set(found.clear), found.least)
        return False

    def slacks(self, found: _Solution, sites: list[int]) -> dict[int, Any]:
        """Slacks at these sites, as balls; those far from zero in double precision where there are too many."""
        bound = self.of(BOUND)
        active, weights = [*found.free, *bound], [*found.alpha, *(_ball(self.sites.ceiling[site]) for site in bound)]
        balls: dict[int, Any] = {}
        left = sites
        if not self.in_balls:
            balls = self.far_slacks(found, sites, active, weights)
            self.bounded |= balls.keys()
            left = [site for site in sites if site not in balls]
        block = max(1, BLOCK // max(1, len(active)))
        if self.watch is not None and not self.watched:
            for _ in range(len(self.sites.of_row) - sum(self.sites.counts[site] for site in left)):
                self.watch()
        make = partial(_similar_balls, self.sites.kernels, left, active, [_packed(w) for w in weights], self.bits)
        for start, stop, similar in self.workers(make, _parts(len(left), block)):
            part = left[start:stop]
            balls |= {site: found.offset - 1 + 2 * arb(*x) for site, x in zip(part, similar, strict=True)}
            if self.watch is not None and not self.watched:
                for _ in range(sum(self.sites.counts[site] for site in part)):
                    self.watch()
        self.watched = True
        return balls

    def far_slacks(self, found: _Solution, sites: list[int], active: list[int], weights: list[Any]) -> dict[int, Any]:
        """Slacks that double precision proves to have their sign, with its error as the radius."""
        middle = np.array([float(weight.mid()) for weight in weights])
        spread = float(sum((weight.rad() for weight in weights), arb(0)).upper()) * UP
        keys = self.sites.keys
        similar, radius = np.empty(len(sites)), np.empty(len(sites))
        make = partial(_similar_intervals, keys[sites], keys[active], middle, self.sites.sigma, spread)
        width = PARTS * max(1, INTERVAL_BLOCK // max(1, len(active)))
        for start, stop, part in self.workers(make, _parts(len(sites), width)):
            similar[start:stop], radius[start:stop] = part
        offset = float(found.offset.mid())
        slack = (offset - 1.0) + 2.0 * similar
        radius = UP * (2.0 * radius + float(found.offset.rad().upper()) + 8.0 * UNIT * (2.0 + abs(offset)))
        ahead = np.where([self.group[site] == RESERVE for site in sites], slack, -slack)
        return {sites[k]: arb(slack[k], radius[k]) for k in np.flatnonzero(ahead > UP * radius).tolist()}

    def tied(self, found: _Solution, bits: int) -> NearestOptimum:
        """The optimum where some signs are open, by the bound of the module's text."""
        sites = self.sites
        weights = {site: _middle(ball) for site, ball in zip(found.free, found.alpha, strict=True)}
        for site in found.open:
            if site in weights:
                weights[site] = Fraction(0) if weights[site] < sites.ceiling[site] / 2 else sites.ceiling[site]
        inside = [site for site in found.free if site not in found.open]
        fixed = {site: sites.ceiling[site] for site in self.of(BOUND)} | weights
        missing = 1 - sum(fixed.values(), Fraction(0))
        if inside:
            fixed[inside[0]] += missing
        elif missing:
            raise _Undecided
        level = _middle(found.offset)
        movable = [*inside, *found.open]
        active = [site for site, weight in fixed.items() if weight]
        similar = sites.kernels.similarities(movable, active, [_ball(fixed[site]) for site in active])
        slacks = [_ball(level) - 1 + 2 * x for x in similar]
        inverse = sites.kernels.between(movable, movable).inv()
        norm = max(sum((abs(x).upper() for x in row), arb(0)).upper() for row in inverse.tolist())
        length = sum((abs(slack).upper() ** 2 for slack in slacks), arb(0)).upper().sqrt()
        moved = _high(norm * length / 2)
        slide = 2 * math.isqrt(len(movable) + 3) * moved
        lift = slide + max(_high(abs(slack)) for slack in slacks)
        # How far the slacks of this point may be from those that were found.
        shift = abs(level - _low(found.offset)) + abs(_high(found.offset) - level)
        for site, ball in zip(found.free, found.alpha, strict=True):
            shift += 2 * max(abs(fixed[site] - _low(ball)), abs(_high(ball) - fixed[site]))
        if found.least <= lift + slide + shift:
            raise _Undecided
        if not all(moved < fixed[site] < sites.ceiling[site] - moved for site in inside):
            raise _Undecided
        ends = {site: (fixed[site] - moved, fixed[site] + moved) for site in inside}
        for site in found.open:
            full = fixed.get(site, Fraction(0)) > 0
            self.group[site] = BOUND if full else RESERVE
            ends[site] = (sites.ceiling[site] - moved, sites.ceiling[site]) if full else (Fraction(0), moved)
        return self.rounded(ends, (level - lift, level + lift), found.open, bits)

    def rounded(
        self,
        ends: dict[int, tuple[Fraction, Fraction]],
        offset: tuple[Fraction, Fraction],
        tied: list[int],
        bits: int,
    ) -> NearestOptimum:
        """The nearest doubles of what is enclosed, or _Undecided."""
        sites = self.sites
        shares = np.zeros(sites.size)
        for site in range(sites.size):
            held = Fraction(0) if self.group[site] == RESERVE else sites.ceiling[site]
            lower, upper = ends.get(site, (held, held))
            shares[site] = _decided(nearest_double(lower / sites.counts[site], upper / sites.counts[site]))
        return NearestOptimum(
            coefficients=shares[sites.of_row],
            offset=_decided(nearest_double(*offset)),
            partition="".join(self.group[site] for site in sites.of_row.tolist()),
            tied=np.flatnonzero(np.isin(sites.of_row, tied)),
            bits=bits,
            bounded=len(self.bounded),
        )

    def wrong(self, sites: list[int], why: str) -> NoReturn:
        """Raise: the guess is not the optimum's."""
        row = int(self.sites.first[sites[0]]) if sites else 0
        group = {MARGIN: "margin", BOUND: "bound", RESERVE: "reserve"}[self.group[self.sites.of_row[row]]]
        raise VerificationError(
            f"the groups are not those of the optimum; row {row} is in {group}, and {why}", code="state-group-wrong"
        )


def _decided(value: float | None) -> float:
    if value is None:
        raise _Undecided
    return value


def _ball(number: Fraction) -> Any:
    return arb(fmpz(number.numerator)) / arb(fmpz(number.denominator))


def _fraction(exact: Any) -> Fraction:
    """The value of a ball without radius."""
    mantissa, exponent = exact.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _low(ball: Any) -> Fraction:
    return _fraction(ball.lower())


def _high(ball: Any) -> Fraction:
    return _fraction(ball.upper())


def _middle(ball: Any) -> Fraction:
    return _fraction(ball.mid())


def _between(lower: Fraction, upper: Fraction) -> Any:
    return _ball(lower).union(_ball(upper))
