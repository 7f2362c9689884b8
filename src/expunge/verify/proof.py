"""The file of a proved partition, and its check from the keys alone.

``verify_proof`` returns None only if the partition in the file is the optimal partition of the problem that the
caller's keys, cap and width define, all taken as exact binary numbers (DESIGN §6). It asks no solver and repeats no
step of the prover; :mod:`expunge.certificates.proof` encloses the margin system by an approximate inverse and its
defect, here the file's witness is tested instead:

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

import hashlib
import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, MissingExtra, StoreError
from expunge.ledger.file_writing import new_file
from expunge.problem.problem import as_points
from expunge.types import IndexArray, Matrix, Vector
from expunge.verify.errors import (
    ProofCoefficientUnproved,
    ProofConditionUnproved,
    ProofContradictory,
    ProofCopiesSplit,
    ProofDigestMismatch,
    ProofFieldInvalid,
    ProofFieldMissing,
    ProofFieldUnknown,
    ProofFormatUnsupported,
    ProofMassUnproved,
    ProofNotCanonical,
    ProofNotJson,
    ProofNotProved,
    ProofSizeMismatch,
    ProofSlackUnproved,
    ProofTooLarge,
    ProofWitnessLength,
    ProofWitnessMass,
    ProofWitnessMissing,
)

__all__ = ["FORMAT", "Finding", "Proof", "Witness", "verify_proof"]

FORMAT: Final = "expunge/proof/v1"
MARGIN, BOUND, RESERVE = "m", "b", "r"
LARGEST_FILE: Final = 1 << 28
# The most bits that a file may name; no proof is written with more.
MOST_BITS: Final = 1 << 13

UNIT: Final = 2.0**-53
SQUARINGS: Final = 10
EXP_ERROR: Final = 2.0**-39
FAR: Final = 700.0
UP: Final = 1.0 + 1e-9
# Balls get this many bits beyond the witness's, so that it is the witness that limits the residual.
GUARD: Final = 64
# With a margin, more bits than this decide nothing: what is compared in fp64 has a radius of 1e-300 at least.
ENOUGH_BITS: Final = 1280
# How well a matrix is to be inverted, if more bits are left.
SHARP: Final = 2.0**-10

Outcome = Literal["proved", "undecidable", "disproved"]
Quantity = Literal["coefficient", "slack", "mass"]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Finding:
    """One quantity whose sign is wrong, or not decided: it lies in [low, high]. A mass belongs to no row."""

    row: int | None
    quantity: Quantity
    low: float
    high: float


@dataclass(frozen=True)
class Witness:
    """Coefficients of the distinct margin keys, in order of first appearance, as integers over 2^scale."""

    scale: int
    numerators: tuple[int, ...]


@dataclass(frozen=True)
class Proof:
    """What was found out about one partition of n rows.

    outcome     proved: it is the optimal partition, strictly; disproved: it is not; undecidable: neither was shown
    partition   one letter a row: m margin, b bound, r reserve
    digest      SHA-256 of keys, cap, sigma and partition
    bits        the highest precision that was used; 53 is fp64 with bounded rounding, more is ball arithmetic
    undecided   the quantities whose interval still contains a forbidden value, after the highest precision
    wrong       the quantities whose sign is certainly wrong
    reason      why it is not proved, else empty
    witness     what a verifier needs to repeat the proof cheaply, if there is a margin
    """

    outcome: Outcome
    partition: str
    digest: str
    bits: int
    undecided: tuple[Finding, ...] = ()
    wrong: tuple[Finding, ...] = ()
    reason: str = ""
    witness: Witness | None = None
    seconds: float = 0.0

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.partition)

    @property
    def margin(self) -> IndexArray:
        """Rows said to have 0 < α < C."""
        return self._rows(MARGIN)

    @property
    def bound(self) -> IndexArray:
        """Rows said to have α = C."""
        return self._rows(BOUND)

    @property
    def reserve(self) -> IndexArray:
        """Rows said to have α = 0."""
        return self._rows(RESERVE)

    @property
    def proved_rows(self) -> IndexArray:
        """Rows whose group is proved: all of them, or none."""
        return np.arange(self.size if self.outcome == "proved" else 0)

    @property
    def proved_zero(self) -> IndexArray:
        """Rows whose coefficient is proved to be exactly zero."""
        return self.reserve if self.outcome == "proved" else np.arange(0)

    @property
    def method(self) -> str:
        """How the last open question was settled."""
        return "fp64 with bounded rounding" if self.bits <= 53 else f"ball arithmetic, {self.bits} bits"

    def _rows(self, letter: str) -> IndexArray:
        return np.flatnonzero(np.frombuffer(self.partition.encode("ascii"), dtype="S1") == letter.encode())

    def to_bytes(self) -> bytes:
        """Return the one spelling of this proof in a file: JSON, keys sorted, floats as hexadecimal strings."""
        content = {
            "format": FORMAT,
            "outcome": self.outcome,
            "partition": self.partition,
            "digest": self.digest,
            "bits": self.bits,
            "undecided": [_finding_out(found) for found in self.undecided],
            "wrong": [_finding_out(found) for found in self.wrong],
            "reason": self.reason,
            "witness": None
            if self.witness is None
            else {"scale": self.witness.scale, "numerators": [f"{x:x}" for x in self.witness.numerators]},
            "seconds": self.seconds.hex(),
        }
        return (json.dumps(content, sort_keys=True, indent=1, ensure_ascii=True) + "\n").encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Proof:
        """Read what `to_bytes` wrote; anything else raises a named ProofError."""
        return _parse(data)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        with new_file(Path(path), replace=True, mode=0o600) as file:
            file.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Proof:
        """Read a file that `save` wrote."""
        try:
            data = Path(path).read_bytes()
        except OSError as problem:
            raise StoreError(f"cannot read {path}: {problem}") from None
        return _parse(data)


def verify_proof(proof: Proof | bytes | str | Path, keys: npt.ArrayLike, *, cap: float, sigma: float) -> None:
    """Check a proof, or the file of one, against keys (n, d), cap and width; return None or raise.

    python-flint is needed only for a proof that fp64 with bounded rounding does not settle; MissingExtra says so.
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
        raise ProofNotProved(f"the file says {proof.outcome}: {proof.reason}")
    if proof.size != points.shape[0]:
        raise ProofSizeMismatch(f"the proof is about {proof.size} keys, not {points.shape[0]}")
    if proof.digest != _digest(points, cap, sigma, proof.partition):
        raise ProofDigestMismatch("the keys, the cap, the width or the partition are not those of the proof")
    check = _Check(points, proof, Fraction(cap), sigma)
    if check.margin.size:
        check.with_margin()
    else:
        check.without_margin()


class _Check:
    """One verification: distinct keys, their groups, and the exact weights of the active ones."""

    def __init__(self, points: Matrix, proof: Proof, cap: Fraction, sigma: float) -> None:
        letters = np.frombuffer(proof.partition.encode("ascii"), dtype="S1")
        distinct, first, inverse, copies = np.unique(
            points, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        strays = np.flatnonzero(letters[first][inverse.ravel()] != letters)
        if strays.size:
            raise ProofCopiesSplit(f"row {strays[0]} is a copy of a key that the proof puts in another group")
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
            raise ProofWitnessMissing("the partition has a margin, but the file has no witness")
        if len(witness.numerators) != self.margin.size:
            raise ProofWitnessLength(f"{len(witness.numerators)} coefficients for {self.margin.size} margin keys")
        self.weights[: self.margin.size] = [Fraction(x, 1 << witness.scale) for x in witness.numerators]
        mass = sum(self.weights, Fraction(0))
        if mass != 1:
            raise ProofWitnessMass(f"the coefficients miss a mass of 1 by {float(mass - 1)!r}")
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
                raise ProofCoefficientUnproved(f"not shown to lie inside the box: {where.format(row)}")
            raise ProofSlackUnproved(f"slack not shown to have its sign: {where.format(row)}")

    def without_margin(self) -> None:
        """Step 9: every reserve key strictly inside, every bound key strictly outside some offset."""
        mass = sum(self.weights, Fraction(0))
        if mass != 1:
            raise ProofMassUnproved(f"the caps of the bound keys miss a mass of 1 by {float(mass - 1)!r}")
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
        raise ProofSlackUnproved(f"no offset shown between the groups: row {row} may be on the wrong side")

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
        keys, weights = self.keys[self.active], np.array([float(x) for x in self.weights])
        middle, radius = np.empty(sites.size), np.empty(sites.size)
        summing = (weights.size + 16) * UNIT * UP
        block = max(1, 500_000 // weights.size)
        for start in range(0, sites.size, block):
            part = slice(start, start + block)
            kappa, doubt = self.kernel(self.keys[sites[part]], keys)
            middle[part] = kappa @ weights
            radius[part] = UP * (doubt @ weights + summing * middle[part]) + 1e-300
        return middle, radius

    def kernel(self, a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
        """κ of every pair: middle and radius, from +, −, × and / alone.

        The exponent x = Σ((a−b)/σ)² has a relative error γ_{d+4}. exp(−x) = exp(−x/2¹⁰)^(2¹⁰): a Taylor polynomial of
        degree 16 on [−0.69, 0] errs by 14u, and each squaring doubles the relative error and adds u: below 2¹⁴u.
        """
        x = np.zeros((a.shape[0], b.shape[0]))
        with np.errstate(over="ignore", under="ignore"):
            for k in range(a.shape[1]):
                z = (a[:, k, None] - b[None, :, k]) / self.sigma
                x += z * z
            near = x <= FAR
            np.minimum(x, FAR, out=x)
            y = x / -(2.0**SQUARINGS)
            kappa = np.full_like(y, 1.0 / math.factorial(16))
            for k in range(15, -1, -1):
                kappa = 1.0 / math.factorial(k) + y * kappa
            for _ in range(SQUARINGS):
                kappa *= kappa
            kappa[~near] = 0.0
            return kappa, 1.01 * kappa * (EXP_ERROR + (a.shape[1] + 8) * UNIT * UP * x) + 1e-300

    def ball_slacks(self, sites: IndexArray, bits: int) -> tuple[Vector, Vector]:
        """The same differences in ball arithmetic."""
        flint = _flint()
        middle, radius = np.empty(sites.size), np.empty(sites.size)
        with flint.ctx.workprec(bits):
            balls = _Balls(flint, self.keys, self.active, self.weights, self.sigma)
            reference = balls.similarity(int(self.margin[0]))
            for k, site in enumerate(sites.tolist()):
                slack = 2 * (balls.similarity(site) - reference)
                middle[k] = float(slack.mid())
                radius[k] = UP * float(slack.rad()) + 2.0 * UNIT * abs(middle[k]) + 1e-300
        return middle, radius

    def separated(self, inner: IndexArray, outer: IndexArray, bits: int) -> bool | None:
        """Whether every similarity in `inner` exceeds every one in `outer`; None if that is not certain."""
        flint = _flint()
        with flint.ctx.workprec(bits):
            balls = _Balls(flint, self.keys, self.active, self.weights, self.sigma)
            above = [balls.similarity(site) for site in inner.tolist()]
            below = [balls.similarity(site) for site in outer.tolist()]
            if any(bool(a <= b) for a in above for b in below):
                return False
            return True if all(bool(a > b) for a in above for b in below) else None

    def smallest_eigenvalue(self, most: int) -> float:
        """Lower bound for λ_min(K_SS): point 2 of the module's proof, in fp64 if that suffices."""
        size = self.margin.size
        middle, radius = self.kernel(self.keys[self.margin], self.keys[self.margin])
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
        raise ProofConditionUnproved(f"{most} bits do not invert the margin's kernel matrix")

    def ball_eigenvalue(self, bits: int, allowed: float) -> float:
        """The same in ball arithmetic; 0 where the defect is not below `allowed`."""
        flint, size = _flint(), self.margin.size
        with flint.ctx.workprec(bits):
            balls = _Balls(flint, self.keys, self.active, self.weights, self.sigma)
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

    def __init__(self, flint: Any, keys: Matrix, active: IndexArray, weights: Sequence[Fraction], sigma: float) -> None:
        self.flint = flint
        self.keys = keys
        self.active = active.tolist()
        self.weights = [flint.arb(x.numerator) / x.denominator for x in weights]
        self.factor = -1 / flint.arb(sigma) ** 2
        self.cache: dict[int, Any] = {}

    def row(self, site: int) -> Any:
        found = self.cache.get(site)
        if found is None:
            found = self.cache[site] = self.flint.arb_mat([self.keys[site].tolist()])
        return found

    def kernel(self, i: int, j: int) -> Any:
        difference = self.row(i) - self.row(j)
        return ((difference * difference.transpose())[0, 0] * self.factor).exp()

    def similarity(self, site: int) -> Any:
        total = self.flint.arb(0)
        for j, weight in zip(self.active, self.weights, strict=True):
            total += weight * self.kernel(site, j)
        return total

    def square(self, sites: list[int]) -> Any:
        size = len(sites)
        entries = [[self.flint.arb(1)] * size for _ in range(size)]
        for i in range(size):
            for j in range(i):
                entries[i][j] = entries[j][i] = self.kernel(sites[i], sites[j])
        return self.flint.arb_mat(entries)


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


def _flint() -> Any:
    try:
        import flint
    except ImportError:
        raise MissingExtra("proofs need ball arithmetic: pip install 'expunge[proof]'") from None
    return flint


def _digest(points: Matrix, cap: float, sigma: float, partition: str) -> str:
    digest = hashlib.sha256(FORMAT.encode("ascii") + b"\n")
    digest.update(struct.pack("<QQdd", *points.shape, cap, sigma))
    digest.update(points.astype("<f8").tobytes())
    digest.update(partition.encode("ascii"))
    return digest.hexdigest()


def _finding_out(found: Finding) -> dict[str, object]:
    return {"row": found.row, "quantity": found.quantity, "low": found.low.hex(), "high": found.high.hex()}


def _parse(data: bytes) -> Proof:
    if len(data) > LARGEST_FILE:
        raise ProofTooLarge(f"{len(data)} bytes exceed the limit of {LARGEST_FILE}")
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProofNotJson("the file is not JSON") from None
    if not isinstance(content, dict):
        raise ProofNotJson("the file is not a JSON object")
    if content.get("format") != FORMAT:
        raise ProofFormatUnsupported(f"the format is not {FORMAT}")
    _exactly(content, {"format"} | {field.name for field in fields(Proof)})
    proof = Proof(
        outcome=_one_of(content["outcome"], "outcome", get_args(Outcome)),
        partition=_matching(content["partition"], "partition", "[mbr]+"),
        digest=_matching(content["digest"], "digest", "[0-9a-f]{64}"),
        bits=_integer(content["bits"], "bits", 53, MOST_BITS),
        undecided=_findings(content["undecided"], "undecided"),
        wrong=_findings(content["wrong"], "wrong"),
        reason=_matching(content["reason"], "reason", ".*"),
        witness=_witness(content["witness"]),
        seconds=_float(content["seconds"], "seconds"),
    )
    _coherent(proof)
    if proof.to_bytes() != data:
        raise ProofNotCanonical("the file says something that it should spell differently")
    return proof


def _coherent(proof: Proof) -> None:
    rows = [found.row for found in (*proof.undecided, *proof.wrong) if found.row is not None]
    if any(not 0 <= row < proof.size for row in rows):
        raise ProofContradictory("a finding is about a row that does not exist")
    if proof.outcome == "proved" and (proof.undecided or proof.wrong or proof.reason):
        raise ProofContradictory("the outcome is proved, yet something is listed against it")
    if proof.outcome != "proved" and (proof.witness or not proof.reason):
        raise ProofContradictory(f"the outcome is {proof.outcome}, which needs a reason and has no witness")
    if proof.outcome == "disproved" and not proof.wrong:
        raise ProofContradictory("the outcome is disproved, and nothing is wrong")
    if proof.witness is not None and MARGIN not in proof.partition:
        raise ProofContradictory("there is a witness, and no margin")


def _exactly(content: dict[str, Any], names: set[str]) -> None:
    for name in sorted(names - set(content)):
        raise ProofFieldMissing(f"there is no {name}")
    for name in sorted(set(content) - names):
        raise ProofFieldUnknown(f"{name[:40]!r} is not a field of {FORMAT}")


def _findings(value: Any, name: str) -> tuple[Finding, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ProofFieldInvalid(f"{name} is not a list of objects")
    found = []
    for item in value:
        _exactly(item, {field.name for field in fields(Finding)})
        row = None if item["row"] is None else _integer(item["row"], "row", 0, 1 << 53)
        quantity = _one_of(item["quantity"], "quantity", get_args(Quantity))
        found.append(Finding(row, quantity, _float(item["low"], "low"), _float(item["high"], "high")))
    return tuple(found)


def _witness(value: Any) -> Witness | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ProofFieldInvalid("witness is neither null nor an object")
    _exactly(value, {field.name for field in fields(Witness)})
    scale = _integer(value["scale"], "scale", 1, MOST_BITS)
    listed = value["numerators"]
    if not isinstance(listed, list):
        raise ProofFieldInvalid("numerators is not a list")
    digits = f"(0|[1-9a-f][0-9a-f]{{0,{scale // 4 + 1}}})"
    return Witness(scale, tuple(int(_matching(x, "a numerator", digits), 16) for x in listed))


def _matching(value: Any, name: str, pattern: str) -> str:
    if not isinstance(value, str) or re.fullmatch(pattern, value, re.DOTALL) is None:
        raise ProofFieldInvalid(f"{name} is not spelled as it should be")
    return value


def _one_of(value: Any, name: str, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise ProofFieldInvalid(f"{name} is not one of {', '.join(allowed)}")
    return value


def _integer(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ProofFieldInvalid(f"{name} is not an integer from {least} to {most}")
    return value


def _float(value: Any, name: str) -> float:
    try:
        number = float.fromhex(_matching(value, name, "[-+.a-z0-9]{1,30}"))
    except (ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise ProofFieldInvalid(f"{name} is not a hexadecimal float")
    return number
