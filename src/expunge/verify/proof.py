"""The file of a proved partition, and its check from the keys alone.

``verify_proof`` returns None only if the partition in the file is the optimal partition of the problem that the
caller's keys, cap and width define, all taken as exact binary numbers (docs/formats/proof.md). It asks no solver and
repeats no step of the prover; :mod:`expunge.certificates.proof` encloses the margin system by an approximate inverse
and its defect, here the file's witness is tested instead:

1. Let α̃ be the witness on the margin S, exactly C·copies on the bound E, zero on the reserve, with mass exactly 1,
   and α the solution of the margin system, so t(α) = ρ on S. With δ = α − α̃: 1ᵀδ = 0 and 2K_SS δ = t_S(α̃) − ρ1.
   For r = t_S(α̃) − ρ̃1 and any ρ̃ hence 2δᵀKδ = δᵀr, so with K_SS ⪰ λ: ‖δ‖ ≤ ‖r‖/2λ and the centre moves by at
   most e = ‖r‖/2√λ.
2. λ = (1 − β)/‖Y‖∞ for any matrix Y with ‖I − Y K_SS‖∞ ≤ β < 1, as K_SS is symmetric and positive semidefinite.
3. α̃ ± ‖δ‖ strictly inside the box puts α there. For a margin key i and any other key j, the slack ρ − t_j(α)
   differs from t_i(α̃) − t_j(α̃) by at most 2e‖φ_i − φ_j‖ ≤ 2√2 e; a strict sign for every j completes the KKT
   conditions. K is positive definite on distinct keys, so the optimum is unique, and so is its partition.

Kernel values come from NumPy's +, −, ×, / with bounded rounding first (exp by scaling and squaring, a relative 2⁻³⁹),
and from ball arithmetic where that is not sharp enough. docs/formats/proof.md has the steps in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import flint
import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, VerificationError
from expunge.problem.problem import as_points
from expunge.types import IndexArray, Matrix, Vector
from expunge.verify.ball_precision import ball_precision
from expunge.verify.kernel_intervals import UNIT, UP, kernel_interval, similarity_interval
from expunge.verify.optimum import nearest_optimum
from expunge.verify.proof_format import BOUND, MARGIN, MOST_BITS, RESERVE, Proof, problem_digest, weights_digest

__all__ = ["verify_proof"]

# Balls get this many bits beyond the witness's, so that it is the witness that limits the residual.
GUARD: Final = 64
# With a margin, more bits than this decide nothing: what is compared in fp64 has a radius of 1e-300 at least.
ENOUGH_BITS: Final = 1280
# How well a matrix is to be inverted, if more bits are left.
SHARP: Final = 2.0**-10

Mask = npt.NDArray[np.bool_]


def verify_proof(proof: Proof | bytes | str | Path, keys: npt.ArrayLike, *, cap: float, sigma: float) -> Proof:
    """Check a proof, or the file of one, against keys (n, d), cap and width, and return it.

    A proof that names weights is about them too: the nearest doubles of the exact optimum are evaluated from the keys,
    and must have the digest that the file has.
    """
    if isinstance(proof, str | Path):
        proof = Proof.load(proof)
    elif isinstance(proof, bytes):
        proof = Proof.from_bytes(proof)
    points = as_points(keys, "keys")
    for name, number in (("cap", cap), ("sigma", sigma)):
        if not 1e-150 <= number <= 1e150:
            raise InputError(f"{name} must be a positive number, not {number!r}")
    if proof.outcome != "proved":
        raise VerificationError(f"the file says {proof.outcome}: {proof.reason}", code="proof-not-proved")
    if proof.size != points.shape[0]:
        raise VerificationError(
            f"the proof is about {proof.size} keys, not {points.shape[0]}", code="proof-size-mismatch"
        )
    if proof.digest != problem_digest(points, cap, sigma, proof.partition):
        raise VerificationError(
            "the keys, the cap, the width or the partition are not those of the proof", code="proof-digest-mismatch"
        )
    check = _Check(points, proof, Fraction(cap), sigma)
    if check.margin.size:
        check.with_margin()
    else:
        check.without_margin()
    if proof.weights is not None:
        found = nearest_optimum(points, proof.partition, cap=cap, sigma=sigma)
        if weights_digest(found.coefficients, found.offset) != proof.weights:
            raise VerificationError(
                "the weights of the proof are not those of the exact optimum", code="proof-weights-mismatch"
            )
    return proof


class _Check:
    """One verification: distinct keys, their groups, and the exact weights of the active ones."""

    def __init__(self, points: Matrix, proof: Proof, cap: Fraction, sigma: float) -> None:
        letters = np.frombuffer(proof.partition.encode("ascii"), dtype="S1")
        distinct, first, inverse, copies = np.unique(
            points, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        strays = np.flatnonzero(letters[first][inverse.ravel()] != letters)
        if strays.size:
            raise VerificationError(
                f"row {strays[0]} is a copy of a key that the proof puts in another group", code="proof-copies-split"
            )
        order = np.argsort(first)
        self.keys, self.rows = np.ascontiguousarray(distinct[order]), first[order]
        self.caps = [cap * int(m) for m in copies[order]]
        groups = letters[self.rows]
        self.margin, self.bound, self.reserve = (
            np.flatnonzero(groups == letter.encode()) for letter in (MARGIN, BOUND, RESERVE)
        )
        self.proof, self.sigma = proof, sigma
        self.active = np.concatenate([self.margin, self.bound])
        self.weights = [Fraction(0)] * self.margin.size + [self.caps[j] for j in self.bound]

    def with_margin(self) -> None:
        """Steps 5 to 8 of docs/formats/proof.md."""
        witness = self.proof.witness
        if witness is None:
            raise VerificationError(
                "the partition has a margin, but the file has no witness", code="proof-witness-missing"
            )
        if len(witness.numerators) != self.margin.size:
            raise VerificationError(
                f"{len(witness.numerators)} coefficients for {self.margin.size} margin keys",
                code="proof-witness-length",
            )
        self.weights[: self.margin.size] = [Fraction(x, 1 << witness.scale) for x in witness.numerators]
        mass = sum(self.weights, Fraction(0))
        if mass != 1:
            raise VerificationError(
                f"the coefficients miss a mass of 1 by {float(mass - 1)!r}", code="proof-witness-mass"
            )
        most = min(witness.scale + GUARD, ENOUGH_BITS)
        eigenvalue = self.smallest_eigenvalue(most)
        everyone = np.arange(self.keys.shape[0])
        slack, radius = self.slacks(everyone)
        open_sites = self.unproved(eigenvalue, slack, radius)
        for bits in _precisions(most):
            # What fails even where every error helps fails at every precision.
            if not open_sites.size or self.unproved(eigenvalue, slack, -radius).size:
                break
            for part in (self.margin, open_sites[~np.isin(open_sites, self.margin)]):
                slack[part], radius[part] = self.ball_slacks(part, bits)
            open_sites = self.unproved(eigenvalue, slack, radius)
        if open_sites.size:
            site = int(open_sites[0])
            row, where = int(self.rows[site]), f"{open_sites.size} distinct keys, the first in row {{}}"
            if site in self.margin:
                raise VerificationError(
                    f"not shown to lie inside the box: {where.format(row)}", code="proof-coefficient-unproved"
                )
            raise VerificationError(
                f"slack not shown to have its sign: {where.format(row)}", code="proof-slack-unproved"
            )

    def without_margin(self) -> None:
        """Step 9: every reserve key strictly inside, every bound key strictly outside some offset."""
        mass = sum(self.weights, Fraction(0))
        if mass != 1:
            raise VerificationError(
                f"the caps of the bound keys miss a mass of 1 by {float(mass - 1)!r}", code="proof-mass-unproved"
            )
        if not self.reserve.size:
            return
        middle, radius = self.similarities(np.arange(self.keys.shape[0]))
        low, high = middle - radius, middle + radius
        # t = 1 − 2·similarity falls where similarity rises: the reserve must have the larger ones.
        inner = self.reserve[low[self.reserve] <= high[self.bound].max()]
        outer = self.bound[high[self.bound] >= low[self.reserve].min()]
        if not (inner.size and outer.size):
            return
        for bits in _precisions(MOST_BITS + GUARD):
            separated = self.separated(inner, outer, bits)
            if separated:
                return
            if separated is False:
                break
        row = int(self.rows[inner[0]])
        raise VerificationError(
            f"no offset shown between the groups: row {row} may be on the wrong side", code="proof-slack-unproved"
        )

    def unproved(self, eigenvalue: float, slack: Vector, radius: Vector) -> IndexArray:
        """Sites of which point 3 of the module's proof does not hold yet; with −radius, those that never get there."""
        reached = np.maximum(np.abs(slack[self.margin]) + radius[self.margin], 0.0)
        residual = UP * float(np.linalg.norm(reached))
        moved = UP * residual / (2.0 * eigenvalue)
        allowed = UP * math.sqrt(2.0) * residual / math.sqrt(eigenvalue)
        weights = self.weights[: self.margin.size]
        room = [min(x, self.caps[i] - x) for i, x in zip(self.margin, weights, strict=True)]
        inside = np.array([float(space) for space in room]) > UP * moved
        return np.concatenate(
            [
                self.margin[~inside],
                self.reserve[~(slack[self.reserve] > UP * (radius[self.reserve] + allowed))],
                self.bound[~(-slack[self.bound] > UP * (radius[self.bound] + allowed))],
            ]
        )

    def slacks(self, sites: IndexArray) -> tuple[Vector, Vector]:
        """t_i(α̃) − t_j(α̃) for the first margin key i and every site j, in fp64: middle and radius."""
        middle, radius = self.similarities(sites)
        reference, doubt = self.similarities(self.margin[:1])
        return 2.0 * (middle - reference[0]), 2.0 * UP * (radius + doubt[0] + 4.0 * UNIT)

    def similarities(self, sites: IndexArray) -> tuple[Vector, Vector]:
        """Σ α̃ κ at sites: middle and radius."""
        weights = np.array([float(x) for x in self.weights])
        return similarity_interval(self.keys[sites], self.keys[self.active], weights, self.sigma)

    def ball_slacks(self, sites: IndexArray, bits: int) -> tuple[Vector, Vector]:
        """The same differences in ball arithmetic."""
        middle, radius = np.empty(sites.size), np.empty(sites.size)
        with ball_precision(bits):
            balls = _Balls(self.keys, self.active, self.weights, self.sigma)
            reference = balls.similarity(int(self.margin[0]))
            for k, site in enumerate(sites.tolist()):
                slack = 2 * (balls.similarity(site) - reference)
                middle[k] = float(slack.mid())
                radius[k] = UP * float(slack.rad()) + 2.0 * UNIT * abs(middle[k]) + 1e-300
        return middle, radius

    def separated(self, inner: IndexArray, outer: IndexArray, bits: int) -> bool | None:
        """Whether every similarity in `inner` exceeds every one in `outer`; None if that is not certain."""
        with ball_precision(bits):
            balls = _Balls(self.keys, self.active, self.weights, self.sigma)
            above = [balls.similarity(site) for site in inner.tolist()]
            below = [balls.similarity(site) for site in outer.tolist()]
            if any(bool(a <= b) for a in above for b in below):
                return False
            return True if all(bool(a > b) for a in above for b in below) else None

    def smallest_eigenvalue(self, most: int) -> float:
        """Lower bound for λ_min(K_SS): point 2 of the module's proof, in fp64 if that suffices."""
        size = self.margin.size
        middle, radius = kernel_interval(self.keys[self.margin], self.keys[self.margin], self.sigma)
        try:
            guess = np.linalg.inv(middle)
        except np.linalg.LinAlgError:
            guess = np.full((size, size), np.inf)
        if np.isfinite(guess).all():
            reach = np.abs(guess)
            error = np.abs(np.eye(size) - guess @ middle)
            error += reach @ ((size + 8) * UNIT * UP * middle + radius)
            beta = UP * float(error.sum(axis=1).max())
            if beta < 0.5:
                return (1.0 - beta) / (UP * UP * float(reach.sum(axis=1).max()))
        for bits in _precisions(most):
            found = self.ball_eigenvalue(bits, SHARP if bits < most else 0.5)
            if found > 0.0:
                return found
        raise VerificationError(
            f"{most} bits do not invert the margin's kernel matrix", code="proof-condition-unproved"
        )

    def ball_eigenvalue(self, bits: int, allowed: float) -> float:
        """The same in ball arithmetic; 0 where the defect is not below `allowed`."""
        size = self.margin.size
        with ball_precision(bits):
            balls = _Balls(self.keys, self.active, self.weights, self.sigma)
            kernel = balls.square(self.margin.tolist())
            identity = flint.arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])
            try:
                inverse = kernel.solve(identity, algorithm="approx").mid()
            except ZeroDivisionError:
                return 0.0
            defect = _row_sum_norm(identity - inverse * kernel)
            return float((1 - defect) / _row_sum_norm(inverse)) / UP if defect < allowed else 0.0


class _Balls:
    """Kernel values in ball arithmetic at the current precision, differences of coordinates first."""

    def __init__(self, keys: Matrix, active: IndexArray, weights: Sequence[Fraction], sigma: float) -> None:
        self.keys = keys
        self.active = active.tolist()
        self.weights = [flint.arb(x.numerator) / x.denominator for x in weights]
        self.factor = -1 / flint.arb(sigma) ** 2
        self.cache: dict[int, Any] = {}

    def row(self, site: int) -> Any:
        found = self.cache.get(site)
        if found is None:
            found = self.cache[site] = flint.arb_mat([self.keys[site].tolist()])
        return found

    def kernel(self, i: int, j: int) -> Any:
        difference = self.row(i) - self.row(j)
        return ((difference * difference.transpose())[0, 0] * self.factor).exp()

    def similarity(self, site: int) -> Any:
        total = flint.arb(0)
        for j, weight in zip(self.active, self.weights, strict=True):
            total += weight * self.kernel(site, j)
        return total

    def square(self, sites: list[int]) -> Any:
        size = len(sites)
        entries = [[flint.arb(1)] * size for _ in range(size)]
        for i in range(size):
            for j in range(i):
                entries[i][j] = entries[j][i] = self.kernel(sites[i], sites[j])
        return flint.arb_mat(entries)


def _precisions(most: int) -> Iterator[int]:
    """Precisions of ball arithmetic that double up to the most: what few bits settle costs no more."""
    bits = 53 + GUARD
    while bits < most:
        yield bits
        bits *= 2
    yield most


def _row_sum_norm(matrix: Any) -> Any:
    """‖·‖∞ of a ball matrix, an upper bound."""
    largest = None
    for row in matrix.tolist():
        total = sum((abs(entry) for entry in row[1:]), abs(row[0])).upper()
        largest = total if largest is None or total > largest else largest
    return largest
