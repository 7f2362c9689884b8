"""The file of a proved state: what it holds, and its one spelling. Format: ``docs/formats/proof.md``."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import tempfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np

from expunge.display.card import Card, Displayed
from expunge.errors import StoreError, VerificationError
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "BOUND",
    "FORMAT",
    "MARGIN",
    "MOST_BITS",
    "RESERVE",
    "Finding",
    "Proof",
    "Witness",
    "problem_digest",
    "weights_digest",
]

FORMAT: Final = "expunge/proof/v2"
MARGIN, BOUND, RESERVE = "m", "b", "r"
LARGEST_FILE: Final = 1 << 28
# The most bits that a file may name; no proof is written with more.
MOST_BITS: Final = 1 << 13

Outcome = Literal["proved", "undecidable", "disproved"]
Quantity = Literal["coefficient", "slack", "mass", "offset"]


@dataclass(frozen=True)
class Finding:
    """One quantity that is wrong, or whose sign is not decided: it lies in [low, high]. Mass and offset have no row."""

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
class Proof(Displayed):
    """What was found out about one partition of n rows.

    outcome     proved: it is the optimal partition, strictly; disproved: it is not; undecidable: neither was shown
    partition   one letter a row: m margin, b bound, r reserve
    digest      SHA-256 of keys, cap, sigma and partition
    bits        the highest precision that was used; 53 is fp64 with bounded rounding, more is ball arithmetic
    undecided   the quantities whose interval still contains a forbidden value, after the highest precision
    wrong       the quantities whose sign is certainly wrong
    reason      why it is not proved, else empty
    witness     what a verifier needs to repeat the proof cheaply, if there is a margin
    weights     SHA-256 of coefficients and offset, if these are proved to be the doubles nearest to the exact ones
    seconds     time the proof took; no part of the file
    """

    outcome: Outcome
    partition: str
    digest: str
    bits: int
    undecided: tuple[Finding, ...] = ()
    wrong: tuple[Finding, ...] = ()
    reason: str = ""
    witness: Witness | None = None
    weights: str | None = None
    seconds: float = field(default=0.0, compare=False)

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

    def _card(self) -> Card:
        said = {
            "proved": "the groups are those of the exact optimum"
            + ("" if self.weights is None else ", and every weight is the nearest double to its"),
            "disproved": "this is not the optimum",
            "undecidable": "it was not decided whether this is the optimum",
        }
        groups = (("margin", self.margin), ("bound", self.bound), ("reserve", self.reserve))
        return Card(
            title="Proof of a state",
            sentence=said[self.outcome],
            rows=(
                ("entries", ", ".join(f"{rows.size} {name}" for name, rows in groups)),
                ("because", self.reason),
                ("left open", str(len(self.undecided)) if self.undecided else ""),
                ("wrong", str(len(self.wrong)) if self.wrong else ""),
            ),
            details=(
                ("settled by", self.method),
                ("digest", self.digest),
                ("weights", self.weights or ""),
                ("time", f"{self.seconds:.3g} s"),
            ),
        )

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
            "weights": self.weights,
        }
        return (json.dumps(content, sort_keys=True, indent=1, ensure_ascii=True) + "\n").encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Proof:
        """Read what `to_bytes` wrote; anything else raises a named ProofError."""
        return _parse(data)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        target = Path(path)
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(prefix=target.name + ".", dir=target.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(self.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(target)
        except OSError as problem:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            raise StoreError(f"cannot write {target}: {problem}") from problem

    @classmethod
    def load(cls, path: str | Path) -> Proof:
        """Read a file that `save` wrote."""
        try:
            data = Path(path).read_bytes()
        except OSError as problem:
            raise StoreError(f"cannot read {path}: {problem}") from None
        return _parse(data)


def problem_digest(points: Matrix, cap: float, sigma: float, partition: str) -> str:
    """SHA-256, in hex, of keys, cap, width and partition."""
    digest = hashlib.sha256(FORMAT.encode("ascii") + b"\n")
    digest.update(struct.pack("<QQdd", *points.shape, cap, sigma))
    digest.update(points.astype("<f8").tobytes())
    digest.update(partition.encode("ascii"))
    return digest.hexdigest()


def weights_digest(coefficients: Vector, offset: float) -> str:
    """SHA-256, in hex, of coefficients (n,) in row order and the offset."""
    digest = hashlib.sha256(FORMAT.encode("ascii") + b" weights\n")
    digest.update(struct.pack("<Qd", coefficients.size, offset))
    digest.update(coefficients.astype("<f8").tobytes())
    return digest.hexdigest()


def _finding_out(found: Finding) -> dict[str, object]:
    return {"row": found.row, "quantity": found.quantity, "low": found.low.hex(), "high": found.high.hex()}


def _parse(data: bytes) -> Proof:
    if len(data) > LARGEST_FILE:
        raise VerificationError(f"{len(data)} bytes exceed the limit of {LARGEST_FILE}", code="proof-too-large")
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise VerificationError("the file is not JSON", code="proof-not-json") from None
    if not isinstance(content, dict):
        raise VerificationError("the file is not a JSON object", code="proof-not-json")
    if content.get("format") != FORMAT:
        raise VerificationError(f"the format is not {FORMAT}", code="proof-format-unsupported")
    _exactly(content, {"format"} | {part.name for part in fields(Proof) if part.compare})
    proof = Proof(
        outcome=_one_of(content["outcome"], "outcome", get_args(Outcome)),
        partition=_matching(content["partition"], "partition", "[mbr]+"),
        digest=_matching(content["digest"], "digest", "[0-9a-f]{64}"),
        bits=_integer(content["bits"], "bits", 53, MOST_BITS),
        undecided=_findings(content["undecided"], "undecided"),
        wrong=_findings(content["wrong"], "wrong"),
        reason=_matching(content["reason"], "reason", ".*"),
        witness=_witness(content["witness"]),
        weights=None if content["weights"] is None else _matching(content["weights"], "weights", "[0-9a-f]{64}"),
    )
    _coherent(proof)
    if proof.to_bytes() != data:
        raise VerificationError("the file says something that it should spell differently", code="proof-not-canonical")
    return proof


def _coherent(proof: Proof) -> None:
    rows = [found.row for found in (*proof.undecided, *proof.wrong) if found.row is not None]
    if any(not 0 <= row < proof.size for row in rows):
        raise VerificationError("a finding is about a row that does not exist", code="proof-contradictory")
    if proof.outcome == "proved" and (proof.undecided or proof.wrong or proof.reason):
        raise VerificationError("the outcome is proved, yet something is listed against it", code="proof-contradictory")
    if proof.outcome != "proved" and (proof.witness or proof.weights or not proof.reason):
        raise VerificationError(
            f"the outcome is {proof.outcome}, which needs a reason and has no witness and no weights",
            code="proof-contradictory",
        )
    if proof.outcome == "disproved" and not proof.wrong:
        raise VerificationError("the outcome is disproved, and nothing is wrong", code="proof-contradictory")
    if proof.witness is not None and MARGIN not in proof.partition:
        raise VerificationError("there is a witness, and no margin", code="proof-contradictory")


def _exactly(content: dict[str, Any], names: set[str]) -> None:
    for name in sorted(names - set(content)):
        raise VerificationError(f"there is no {name}", code="proof-field-missing")
    for name in sorted(set(content) - names):
        raise VerificationError(f"{name[:40]!r} is not a field of {FORMAT}", code="proof-field-unknown")


def _findings(value: Any, name: str) -> tuple[Finding, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise VerificationError(f"{name} is not a list of objects", code="proof-field-invalid")
    found = []
    for item in value:
        _exactly(item, {part.name for part in fields(Finding)})
        row = None if item["row"] is None else _integer(item["row"], "row", 0, 1 << 53)
        quantity = _one_of(item["quantity"], "quantity", get_args(Quantity))
        found.append(Finding(row, quantity, _float(item["low"], "low"), _float(item["high"], "high")))
    return tuple(found)


def _witness(value: Any) -> Witness | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise VerificationError("witness is neither null nor an object", code="proof-field-invalid")
    _exactly(value, {part.name for part in fields(Witness)})
    scale = _integer(value["scale"], "scale", 1, MOST_BITS)
    listed = value["numerators"]
    if not isinstance(listed, list):
        raise VerificationError("numerators is not a list", code="proof-field-invalid")
    digits = f"(0|[1-9a-f][0-9a-f]{{0,{scale // 4 + 1}}})"
    return Witness(scale, tuple(int(_matching(x, "a numerator", digits), 16) for x in listed))


def _matching(value: Any, name: str, pattern: str) -> str:
    if not isinstance(value, str) or re.fullmatch(pattern, value, re.DOTALL) is None:
        raise VerificationError(f"{name} is not spelled as it should be", code="proof-field-invalid")
    return value


def _one_of(value: Any, name: str, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise VerificationError(f"{name} is not one of {', '.join(allowed)}", code="proof-field-invalid")
    return value


def _integer(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise VerificationError(f"{name} is not an integer from {least} to {most}", code="proof-field-invalid")
    return value


def _float(value: Any, name: str) -> float:
    try:
        number = float.fromhex(_matching(value, name, "[-+.a-z0-9]{1,30}"))
    except (ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise VerificationError(f"{name} is not a hexadecimal float", code="proof-field-invalid")
    return number
