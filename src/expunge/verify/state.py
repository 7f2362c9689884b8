"""A state checked bit by bit: coefficients and offset are the doubles nearest to the exact optimum of its keys.

Whoever holds the keys, the cap and the width can tell the one right state, whatever history led to it.
:mod:`expunge.verify.optimum` evaluates it in balls, with the groups of the claimed coefficients as a guess; here its
bits are compared. Each error has its own code: ``state-group-wrong``, ``state-coefficient-differs``,
``state-offset-differs``, ``state-undecided``, ``state-infeasible``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, VerificationError
from expunge.types import Vector, Workers
from expunge.verify.optimum import COMPLETE, nearest_optimum

__all__ = ["VerifiedState", "claimed_groups", "verify_state"]


@dataclass(frozen=True)
class VerifiedState:
    """What was verified: every coefficient and the offset, bit by bit.

    margin, bound, reserve   entries in each group of the exact optimum
    hidden     entries of the margin whose weight rounds to 0 or to the cap
    tied       entries whose slack no precision tells from zero; their weights are proved nonetheless
    bits       the precision of the balls that decided
    bounded    distinct keys whose slack was bounded in double precision, because there are too many for balls
    """

    entries: int
    margin: int
    bound: int
    reserve: int
    hidden: int
    tied: int
    bits: int
    bounded: int


def verify_state(
    keys: npt.ArrayLike,
    coefficients: npt.ArrayLike,
    offset: float,
    *,
    cap: float,
    sigma: float,
    complete: int = COMPLETE,
    watch: Callable[[], None] | None = None,
    workers: Workers | None = None,
) -> VerifiedState:
    """Check that coefficients (n,) and offset are those of the exact optimum of keys (n, d), cap and width.

    Up to `complete` kernel values all signs are proved in balls; beyond, those far from zero in double precision with
    bounded rounding, and the result says how many. `watch` is called once for every entry. `workers` evaluate the
    slacks of a very large memory (`expunge.cluster`), with the same result. A state without entries has
    cap 1 and offset 0. Raises VerificationError where a bit differs, InputError for what is no state at all.
    """
    points, alpha = np.array(keys, dtype=np.float64, order="C") + 0.0, np.array(coefficients, dtype=np.float64)
    if points.ndim != 2 or not points.shape[1] or alpha.shape != points.shape[:1]:
        raise InputError(f"keys are (n, d) and coefficients (n,), not {points.shape} and {alpha.shape}")
    if not np.all(np.abs(points) <= 1e150):
        raise InputError("keys must be finite, and at most 1e150 in magnitude")
    for name, number in (("cap", cap), ("sigma", sigma)):
        if not 1e-150 <= number <= 1e150:
            raise InputError(f"{name} must be a positive number, not {number!r}")
    if not alpha.size:
        return _verify_empty(offset, cap)
    partition = claimed_groups(alpha, cap)
    found = nearest_optimum(points, partition, cap=cap, sigma=sigma, complete=complete, watch=watch, workers=workers)
    differing = np.flatnonzero(alpha.view(np.int64) != found.coefficients.view(np.int64))
    if differing.size:
        row = int(differing[0])
        raise VerificationError(
            f"the coefficient of row {row} is {alpha[row].hex()}, and that of the exact optimum "
            f"{found.coefficients[row].hex()}; {differing.size} of {alpha.size} differ",
            code="state-coefficient-differs",
        )
    if struct.pack("<d", offset) != struct.pack("<d", found.offset):
        raise VerificationError(
            f"the offset is {float(offset).hex()}, and that of the exact optimum {found.offset.hex()}",
            code="state-offset-differs",
        )
    margin, bound, reserve = (found.partition.count(letter) for letter in "mbr")
    return VerifiedState(
        entries=alpha.size,
        margin=margin,
        bound=bound,
        reserve=reserve,
        hidden=sum(exact == "m" != said for exact, said in zip(found.partition, partition, strict=True)),
        tied=int(found.tied.size),
        bits=found.bits,
        bounded=found.bounded,
    )


def _verify_empty(offset: float, cap: float) -> VerifiedState:
    """There is one state without entries."""
    if cap != 1.0:
        raise VerificationError(f"without entries the cap is 1, not {cap!r}", code="state-infeasible")
    if struct.pack("<d", offset) != struct.pack("<d", 0.0):
        raise VerificationError(
            f"the offset is {float(offset).hex()}, and without entries it is 0", code="state-offset-differs"
        )
    return VerifiedState(entries=0, margin=0, bound=0, reserve=0, hidden=0, tied=0, bits=0, bounded=0)


def claimed_groups(coefficients: Vector, cap: float) -> str:
    """The groups that coefficients (n,) claim, one letter a row; a coefficient outside the box claims nothing."""
    outside = np.flatnonzero(~((coefficients >= 0.0) & (coefficients <= cap)))
    if outside.size:
        row = int(outside[0])
        raise VerificationError(
            f"the coefficient of row {row} is {float(coefficients[row])!r}, outside 0 to {cap!r}",
            code="state-coefficient-differs",
        )
    letters = np.where(coefficients == 0.0, "r", np.where(coefficients == cap, "b", "m"))
    return "".join(letters.tolist())
