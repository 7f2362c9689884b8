"""Proof of a state: rows said to have weight zero have exactly zero, and every weight is the nearest double.

Keys, cap and width are taken as the exact binary numbers that they are (docs/formats/proof.md). The partition fixes a
linear system for the margin coefficients α_S and the offset ρ,

    Σ_S α = 1 − Σ_E c,   ρ + 2 K_SS α_S = 1 − 2 K_SE c_E,   c_j = copies · C,

whose solution is enclosed rigorously. If 0 < α_S < c_S, ρ − t_j > 0 on the reserve and ρ − t_j < 0 on the bound, with
t = 1 − 2Kα, every KKT condition holds strictly; K is positive definite on distinct keys, so this is *the* optimum and
its partition the only one: `proved`. A sign that is certainly wrong means that the partition is not optimal:
`disproved`. With an empty margin, Σ_E c must be exactly 1 and every t on the reserve below every t on the bound.

Two tiers. (1) fp64 with bounded rounding (:mod:`expunge.certificates.intervals`): for an approximate inverse R of the
system's matrix M and β ≥ ‖I − RM‖∞, |x − x̃| ≤ |R||b − Mx̃| + β/(1−β) ‖|R||b − Mx̃|‖∞. It decides almost every sign.
(2) What it leaves open goes to ball arithmetic, at a precision that doubles until nothing is open. The witness comes
from balls in any case, so that a proof does not depend on the machine's linear algebra.

`prove_partition` speaks of the groups alone. `prove_state` adds the weights: coefficients and offset are the doubles
nearest to the exact optimum's, by :mod:`expunge.verify.optimum`, and the groups are those of that optimum. Groups alone
say little of weights: two keys 1e−7 widths apart can trade a quarter of the mass within one partition.

**When it ends.** All squared distances over σ² are integer multiples of one rational number h, so every κ is a power
of q = e^{−h}, which is transcendental (Lindemann). α_S, ρ and every slack are rational functions of q over the
rationals, regular at q = 0, where K = I, and a transcendental q is a zero of one only if it vanishes identically. At
q = 0: α_i = a with a = (1 − Σ_E c)/|S|, the slack of a reserve site is −2a and that of a bound site 2(c_j − a). So a
reserve key is never exactly on the boundary, and no α_i is exactly zero, unless Σ_E c = 1; nothing else is exactly
zero unless a equals some c_j. Only such a tie of caps can stay open at every precision; among distinct keys it takes
1/C to be exactly the number of active keys. All else is a matter of bits. `undecidable` therefore means: a tie
of caps, or too few bits.
"""

from __future__ import annotations

import math
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import flint
import numpy as np
import numpy.typing as npt

from expunge.certificates.bounds import Sites, as_state
from expunge.certificates.intervals import SLIGHT, UNIT, gamma, kernel_enclosure, similarity_enclosure
from expunge.errors import InputError, VerificationError
from expunge.types import IndexArray, Matrix, Vector
from expunge.verify.ball_precision import ball_precision
from expunge.verify.optimum import NearestOptimum, nearest_optimum
from expunge.verify.proof_format import (
    MOST_BITS,
    Finding,
    Outcome,
    Proof,
    Quantity,
    Witness,
    problem_digest,
    weights_digest,
)

__all__ = ["Finding", "Proof", "Witness", "prove_partition", "prove_state"]

Progress = Callable[[int, int], None]

# The bits of a double; the tier below ball arithmetic.
FLOATING: Final = 53
# The precision at which what is open stays open, unless a caller allows more.
LAST: Final = 2048
# A witness must satisfy what a verifier tests with this factor to spare.
SPARE: Final = 4.0
# At least this many fractional bits, so that rounding a witness costs less than its own error.
LEAST_SCALE: Final = 80
# Rows of the kernel held as balls at one time.
CHUNK: Final = 256

WRONG: Final = -1
OPEN: Final = 0
RIGHT: Final = 1


def prove_partition(
    keys: npt.ArrayLike,
    coefficients: npt.ArrayLike,
    *,
    cap: float,
    sigma: float,
    first_bits: int = FLOATING,
    most_bits: int = LAST,
    progress: Progress | None = None,
) -> Proof:
    """Prove that the groups of coefficients (n,) are the optimal partition of keys (n, d), or say why not.

    A coefficient of 0 or less is reserve, of C or more is bound, anything between is margin; copies of a key
    count as one site, on the margin if they differ. ``progress`` is called with (bits, open sites) before each
    precision. Raises InputError for unusable arguments.
    """
    points, alpha, cap, sigma = as_state(keys, coefficients, cap, sigma)
    if not FLOATING <= first_bits <= most_bits <= MOST_BITS:
        raise InputError(
            f"precisions must satisfy 53 <= first_bits <= most_bits <= {MOST_BITS}, not {first_bits} and {most_bits}"
        )
    return _proved(points, _groups(points, alpha, cap), cap, sigma, first_bits, most_bits, progress)


def prove_state(
    keys: npt.ArrayLike,
    coefficients: npt.ArrayLike,
    offset: float,
    *,
    cap: float,
    sigma: float,
    progress: Progress | None = None,
) -> Proof:
    """Prove that coefficients (n,) and offset are the exact optimum's of keys (n, d), bit by bit, and so their groups.

    The partition of the proof is that of the exact optimum: a weight that rounds to 0 or to the cap is on its margin.
    """
    started = time.perf_counter()
    points, alpha, cap, sigma = as_state(keys, coefficients, cap, sigma)
    claimed = _groups(points, alpha, cap)
    found: NearestOptimum | None = None
    try:
        found = nearest_optimum(points, claimed, cap=cap, sigma=sigma, complete=0)
        proof = _proved(points, found.partition, cap, sigma, FLOATING, LAST, progress)
    except VerificationError as problem:
        proof = _proved(points, claimed, cap, sigma, FLOATING, LAST, progress)
        if proof.outcome == "proved":
            # The groups are right, and the weights are not decided.
            proof = replace(proof, outcome="undecidable", witness=None, reason=str(problem))
    if found is not None:
        wrong = _wrong_weights(alpha, offset, found)
        if wrong:
            reason = f"{len(wrong)} of {alpha.size + 1} weights are not the doubles nearest to the exact optimum's"
            proof = replace(proof, outcome="disproved", undecided=(), wrong=wrong, reason=reason, witness=None)
        elif proof.outcome == "proved":
            proof = replace(proof, weights=weights_digest(alpha, offset))
    return replace(proof, seconds=time.perf_counter() - started)


def _groups(points: Matrix, alpha: Vector, cap: float) -> str:
    """The groups that coefficients claim, one letter a row, the same for copies."""
    sites = Sites.of(points)
    letters = np.full(sites.counts.size, "m")
    letters[sites.every(alpha <= 0.0)] = "r"
    letters[sites.every(alpha >= cap)] = "b"
    return "".join(letters[sites.of_row].tolist())


def _wrong_weights(alpha: Vector, offset: float, found: NearestOptimum) -> tuple[Finding, ...]:
    """Coefficients and the offset that are not the nearest doubles, each with an interval that holds the exact one."""
    rows = np.flatnonzero(alpha.view(np.int64) != found.coefficients.view(np.int64)).tolist()
    wrong = [Finding(row, "coefficient", *_around(float(found.coefficients[row]))) for row in rows]
    if struct.pack("<d", offset) != struct.pack("<d", found.offset):
        wrong.append(Finding(None, "offset", *_around(found.offset)))
    return tuple(wrong)


def _around(number: float) -> tuple[float, float]:
    return math.nextafter(number, -math.inf), math.nextafter(number, math.inf)


def _proved(
    points: Matrix,
    partition: str,
    cap: float,
    sigma: float,
    first_bits: int,
    most_bits: int,
    progress: Progress | None,
) -> Proof:
    """Prove these groups, one letter a row."""
    started = time.perf_counter()
    sites = Sites.of(points)
    letters = np.array(list(partition))[np.unique(sites.of_row, return_index=True)[1]]
    attempt: _Attempt = (_WithMargin if "m" in partition else _WithoutMargin)(sites, letters, cap, sigma)
    bits = first_bits
    while not attempt.finished():
        if progress is not None:
            progress(bits, int(np.count_nonzero(attempt.status == OPEN)))
        if bits == FLOATING:
            attempt.floating()
        else:
            with ball_precision(bits):
                attempt.balls(bits)
        if bits == most_bits:
            break
        if not attempt.finished():
            bits = min(2 * bits, most_bits)
    outcome, reason = attempt.verdict(bits)
    return Proof(
        outcome=outcome,
        partition=partition,
        digest=problem_digest(points, cap, sigma, partition),
        bits=bits,
        undecided=attempt.findings(OPEN) if outcome == "undecidable" else (),
        wrong=attempt.findings(WRONG) if outcome == "disproved" else (),
        reason=reason,
        witness=attempt.witness if outcome == "proved" else None,
        seconds=time.perf_counter() - started,
    )


class _Attempt(ABC):
    """What is known of each site: its status, an interval for its quantity, how far that is from a forbidden value."""

    def __init__(self, sites: Sites, letters: npt.NDArray[np.str_], cap: float, sigma: float) -> None:
        self.sites, self.sigma = sites, sigma
        self.margin, self.bound, self.reserve = (np.flatnonzero(letters == letter) for letter in "mbr")
        self.active = np.concatenate([self.margin, self.bound])
        self.outside = np.concatenate([self.bound, self.reserve])
        self.caps = [Fraction(cap) * int(copies) for copies in sites.counts]
        self.ceiling = np.array([float(x) for x in self.caps])
        # The mass that is left for the margin.
        self.rest = 1 - sum((self.caps[j] for j in self.bound), Fraction(0))
        size = sites.counts.size
        self.status = np.zeros(size, dtype=np.int8)
        self.low, self.high = np.full(size, -np.inf), np.full(size, np.inf)
        self.clearance = np.zeros(size)
        self.witness: Witness | None = None
        self._lattice: _Lattice | None = None

    @abstractmethod
    def floating(self) -> None:
        """Decide what fp64 can."""

    @abstractmethod
    def balls(self, bits: int) -> None:
        """Decide what is open, in ball arithmetic at the current precision."""

    @abstractmethod
    def finished(self) -> bool:
        """Whether more bits would tell nothing new."""

    @abstractmethod
    def verdict(self, bits: int) -> tuple[Outcome, str]:
        """Outcome, and the reason if it is not proved."""

    def judge(self, sites: IndexArray, low: Vector, high: Vector) -> None:
        """Take intervals for α on the margin, for the slack elsewhere; the ends are bounds in exact arithmetic."""
        self.low[sites], self.high[sites] = low, high
        wall = self.ceiling[sites] * (1.0 - 4.0 * UNIT)
        is_margin, is_bound = np.isin(sites, self.margin), np.isin(sites, self.bound)
        room = np.where(is_margin, np.minimum(low, wall - high), np.where(is_bound, -high, low))
        beyond = np.where(
            is_margin, np.maximum(-high, low - self.ceiling[sites] * (1.0 + 4.0 * UNIT)), np.where(is_bound, low, -high)
        )
        self.status[sites] = np.where(room > 0.0, RIGHT, np.where(beyond > 0.0, WRONG, OPEN))
        self.clearance[sites] = room

    def judge_ball(self, site: int, ball: Any, room: Any) -> None:
        """Take a ball for the same quantity, and one for its distance from the nearest forbidden value."""
        self.low[site], self.high[site] = _outward(ball)
        self.status[site] = RIGHT if room > 0 else WRONG if room < 0 else OPEN
        self.clearance[site] = _outward(room)[0]

    def lattice(self) -> _Lattice:
        """Exact coordinates of the sites, made when first needed."""
        if self._lattice is None:
            self._lattice = _Lattice(self.sites.keys, self.sigma)
        return self._lattice

    def findings(self, status: int) -> tuple[Finding, ...]:
        """Every row of a site with this status."""
        found = np.flatnonzero(self.status == status)
        on_margin = set(self.margin.tolist())
        listed = []
        for row in np.flatnonzero(np.isin(self.sites.of_row, found)).tolist():
            site = int(self.sites.of_row[row])
            quantity: Quantity = "coefficient" if site in on_margin else "slack"
            listed.append(Finding(row, quantity, float(self.low[site]), float(self.high[site])))
        return tuple(listed)


class _WithMargin(_Attempt):
    """Enclose α_S and ρ, then the slack of every other site."""

    def __init__(self, sites: Sites, letters: npt.NDArray[np.str_], cap: float, sigma: float) -> None:
        super().__init__(sites, letters, cap, sigma)
        self.witness_ready = False

    def finished(self) -> bool:
        if np.any(self.status == WRONG):
            return True
        return bool(np.all(self.status == RIGHT)) and self.witness_ready

    def verdict(self, bits: int) -> tuple[Outcome, str]:
        wrong, undecided = (int(np.count_nonzero(self.status == status)) for status in (WRONG, OPEN))
        if wrong:
            return (
                "disproved",
                f"{wrong} distinct keys have a sign that is certainly wrong: the partition is not optimal",
            )
        if not undecided:
            return "proved", ""
        share = self.rest / self.margin.size
        if self.rest == 0 or any(share == self.caps[j] for j in self.active):
            return (
                "undecidable",
                f"{undecided} distinct keys are open at {bits} bits, and a tie of caps permits an exact zero",
            )
        return (
            "undecidable",
            f"{undecided} distinct keys are open at {bits} bits; no exact zero is possible, so try more",
        )

    def floating(self) -> None:
        enclosed = self._floating_margin()
        if enclosed is None:
            return
        x, spread = enclosed
        self.judge(self.margin, np.nextafter(x[1:] - spread[1:], -np.inf), np.nextafter(x[1:] + spread[1:], np.inf))
        if self.outside.size:
            weights = np.concatenate([x[1:], self.ceiling[self.bound]])
            loose = np.concatenate([spread[1:], np.zeros(self.bound.size)])
            middle, radius = similarity_enclosure(
                self.sites.keys[self.outside], self.sites.keys[self.active], weights, self.sigma, loose
            )
            slack = (x[0] - 1.0) + 2.0 * middle
            radius = SLIGHT * (2.0 * radius + spread[0]) + 8.0 * UNIT * (2.0 + abs(x[0]))
            self.judge(self.outside, slack - radius, slack + radius)

    def _floating_margin(self) -> tuple[Vector, Vector] | None:
        """Return (ρ, α_S) and the radius of each, or None."""
        size = self.margin.size + 1
        keys = self.sites.keys[self.margin]
        kernel, radius = kernel_enclosure(keys, keys, self.sigma)
        M, doubt = np.zeros((size, size)), np.zeros((size, size))
        M[0, 1:] = M[1:, 0] = 1.0
        M[1:, 1:], doubt[1:, 1:] = 2.0 * kernel, 2.0 * radius
        b, blur = np.empty(size), np.empty(size)
        b[0] = float(self.rest)
        blur[0] = UNIT * abs(b[0])
        middle, loose = similarity_enclosure(keys, self.sites.keys[self.bound], self.ceiling[self.bound], self.sigma)
        b[1:], blur[1:] = 1.0 - 2.0 * middle, 2.0 * loose + 4.0 * UNIT
        try:
            R = np.linalg.inv(M)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(R).all():
            return None
        x = R @ b
        x += R @ (b - M @ x)
        R_size, M_size, rounding = np.abs(R), np.abs(M), gamma(size + 8)
        defect = np.abs(np.eye(size) - R @ M) + rounding * (R_size @ M_size) + R_size @ doubt
        beta = SLIGHT * float(defect.sum(axis=1).max())
        if not beta < 0.5:
            return None
        residual = np.abs(b - M @ x) + rounding * (np.abs(b) + M_size @ np.abs(x)) + doubt @ np.abs(x) + blur
        reach = SLIGHT * (R_size @ residual)
        spread = SLIGHT * (reach + beta / (1.0 - beta) * reach.max())
        return x, spread

    def balls(self, bits: int) -> None:
        arb, arb_mat = flint.arb, flint.arb_mat
        lattice, size = self.lattice(), self.margin.size
        kernel = lattice.kernel(self.margin, self.margin)
        right = [_ball(self.rest)] + [1] * size
        full = arb_mat(self.bound.size, 1, [_ball(self.caps[j]) for j in self.bound])
        pushed = lattice.product(self.margin, self.bound, full)
        right[1:] = [1 - 2 * push for push in pushed]
        rows = [[arb(0)] + [arb(1)] * size]
        rows += [[arb(1), *(2 * entry for entry in row)] for row in kernel.tolist()]
        try:
            solution = arb_mat(rows).solve(arb_mat(size + 1, 1, right)).entries()
        except ZeroDivisionError:
            return
        rho, inside = solution[0], solution[1:]
        for site, alpha in zip(self.margin.tolist(), inside, strict=True):
            self.judge_ball(site, alpha, alpha.min(_ball(self.caps[site]) - alpha))
        undecided = self.outside[self.status[self.outside] == OPEN]
        weights = arb_mat(self.active.size, 1, inside + full.entries())
        similar = lattice.product(undecided, self.active, weights)
        bound = set(self.bound.tolist())
        for site, similarity in zip(undecided.tolist(), similar, strict=True):
            slack = rho - 1 + 2 * similarity
            self.judge_ball(site, slack, -slack if site in bound else slack)
        if np.all(self.status == RIGHT):
            self._ball_witness(bits, inside, kernel, right)

    def _ball_witness(self, bits: int, inside: list[Any], kernel: Any, right: list[Any]) -> None:
        size = self.margin.size
        scale = max(LEAST_SCALE, bits, self.rest.denominator.bit_length())
        self._keep_witness(scale, [_floor(alpha.mid() * flint.arb(2) ** scale) for alpha in inside])
        if self.witness is None:
            return
        column = flint.arb_mat(size, 1, [_ball(Fraction(x, 1 << scale)) for x in self.witness.numerators])
        terms = [b - 2 * push for b, push in zip(right[1:], (kernel * column).entries(), strict=True)]
        residual = [float((t - terms[0]).abs_upper()) for t in terms]
        identity = flint.arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])
        try:
            inverse = kernel.solve(identity, algorithm="approx").tolist()
        except ZeroDivisionError:
            return
        smallest = 1.0 / max(float(sum((abs(x) for x in row), flint.arb(0))) for row in inverse)
        self._test_witness(float(np.linalg.norm(residual)), smallest)

    def _keep_witness(self, scale: int, numerators: list[int]) -> None:
        """Store α̃ with its mass made exact in the largest coefficient."""
        wanted = int(self.rest * (1 << scale))
        missing = wanted - sum(numerators)
        largest = max(range(len(numerators)), key=numerators.__getitem__)
        numerators[largest] += missing
        self.witness = Witness(scale, tuple(numerators)) if min(numerators) >= 0 else None

    def _test_witness(self, residual: float, eigenvalue: float) -> None:
        """Whether a verifier that knows only α̃ and λ_min can follow: see `expunge.verify.proof`, points 1 and 3."""
        moved = SPARE * residual / (2.0 * eigenvalue)
        allowed = SPARE * math.sqrt(2.0) * residual / math.sqrt(eigenvalue)
        self.witness_ready = (
            self.witness is not None
            and moved < float(self.clearance[self.margin].min())
            and allowed < float(self.clearance[self.outside].min(initial=math.inf))
        )


class _WithoutMargin(_Attempt):
    """All mass sits at the caps: compare t on the reserve with the least t on the bound."""

    def finished(self) -> bool:
        return self.rest != 0 or bool(np.all(self.status != OPEN))

    def verdict(self, bits: int) -> tuple[Outcome, str]:
        if self.rest != 0:
            miss = f"the margin is empty, and the caps of the bound keys miss a mass of 1 by {float(-self.rest):.3g}"
            return "disproved", miss
        wrong, undecided = (int(np.count_nonzero(self.status == status)) for status in (WRONG, OPEN))
        if wrong:
            return "disproved", f"{wrong} distinct reserve keys are certainly beyond a bound key"
        if undecided:
            return (
                "undecidable",
                f"{undecided} distinct keys are open at {bits} bits; no exact tie is possible, so try more",
            )
        return "proved", ""

    def findings(self, status: int) -> tuple[Finding, ...]:
        if self.rest == 0:
            return super().findings(status)
        low, high = (math.nextafter(float(-self.rest), end) for end in (-math.inf, math.inf))
        return (Finding(None, "mass", low, high),)

    def floating(self) -> None:
        keys = self.sites.keys
        middle, radius = similarity_enclosure(keys, keys[self.bound], self.ceiling[self.bound], self.sigma)
        radius = radius + 2.0 * UNIT * middle
        low = 1.0 - 2.0 * (middle + radius) - 4.0 * UNIT
        high = 1.0 - 2.0 * (middle - radius) + 4.0 * UNIT
        least_low, least_high = low[self.bound].min(), high[self.bound].min()
        self.status[self.bound] = RIGHT
        reserve = self.reserve
        self.judge(
            reserve,
            least_low - high[reserve] - 4.0 * UNIT,
            least_high - low[reserve] + 4.0 * UNIT,
        )

    def balls(self, bits: int) -> None:
        full = flint.arb_mat(self.bound.size, 1, [_ball(self.caps[j]) for j in self.bound])
        self.status[self.bound] = RIGHT
        outer = [1 - 2 * x for x in self.lattice().product(self.bound, self.bound, full)]
        least = outer[0]
        for t in outer[1:]:
            least = least.min(t)
        undecided = self.reserve[self.status[self.reserve] == OPEN]
        similar = self.lattice().product(undecided, self.bound, full)
        for site, similarity in zip(undecided.tolist(), similar, strict=True):
            slack = least - 1 + 2 * similarity
            self.judge_ball(site, slack, slack)


class _Lattice:
    """Sites on an integer lattice, on which squared distances are exact."""

    def __init__(self, keys: Matrix, sigma: float) -> None:
        fraction, exponent = np.frexp(keys)
        self.lowest = int(exponent[keys != 0.0].min(initial=0)) - 53
        whole = np.ldexp(fraction, 53).astype(np.int64).tolist()
        shift = (exponent - 53 - self.lowest).tolist()
        self.rows = [
            [w << s if w else 0 for w, s in zip(row, by, strict=True)] for row, by in zip(whole, shift, strict=True)
        ]
        self.norms = [sum(w * w for w in row) for row in self.rows]
        self.dimension = keys.shape[1]
        self.sigma = sigma

    def kernel(self, a: IndexArray, b: IndexArray) -> Any:
        """κ of every pair of sites, (m,), (n,) → ball matrix (m, n), at the current precision."""
        left, right = (
            flint.fmpz_mat(part.size, self.dimension, [x for i in part.tolist() for x in self.rows[i]])
            for part in (a, b)
        )
        factor = -(flint.arb(2) ** (2 * self.lowest)) / flint.arb(self.sigma) ** 2
        norms = [flint.fmpz(self.norms[j]) for j in b.tolist()]
        entries = []
        for i, products in zip(a.tolist(), (left * right.transpose()).tolist(), strict=True):
            norm = flint.fmpz(self.norms[i])
            entries += [
                (factor * (norm + other - 2 * product)).exp() for other, product in zip(norms, products, strict=True)
            ]
        return flint.arb_mat(a.size, b.size, entries)

    def product(self, a: IndexArray, b: IndexArray, weights: Any) -> list[Any]:
        """Σ_b κ(a, b) w_b for each a, in chunks."""
        if not b.size:
            return [flint.arb(0)] * a.size
        total: list[Any] = []
        for start in range(0, a.size, CHUNK):
            total += (self.kernel(a[start : start + CHUNK], b) * weights).entries()
        return total


def _ball(number: Fraction) -> Any:
    return flint.arb(number.numerator) / number.denominator


def _floor(ball: Any) -> int:
    return int(ball.floor().mid().unique_fmpz())


def _outward(ball: Any) -> tuple[float, float]:
    """Doubles on either side of a ball."""
    if not ball.is_finite():
        return -math.inf, math.inf
    return (
        math.nextafter(float(ball.lower()), -math.inf),
        math.nextafter(float(ball.upper()), math.inf),
    )
