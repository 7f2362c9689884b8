"""The independent check of a state (paper, §4.6): mass, box and stationarity, recomputed.

Nothing is taken from a solver: the terms come from the actual keys, coefficients and stored offset. With
t_i = K_ii − 2(Kα)_i and coefficients within 1e−7 of a bound counted as at it, stationarity is |ρ − t_i| on the
margin, max(0, t_i − ρ) at the lower and max(0, ρ − t_i) at the upper bound. A term that is not a number
counts as infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from expunge.compilation import njit
from expunge.errors import InputError
from expunge.problem.check_kind import CheckKind
from expunge.problem.column_parts import for_column_parts
from expunge.problem.kernel import exponent_factor, kernel_values
from expunge.problem.kernel_pairs import two_sum
from expunge.problem.tolerances import PARTITION_THRESHOLD, PUBLISHED
from expunge.types import Matrix, Vector

__all__ = [
    "StateCheck",
    "check_state",
    "check_terms",
    "require_weights",
    "stationarity_terms",
]

# Kernel values that are made together.
ROWS, COLUMNS = 16, 1024


@dataclass(frozen=True)
class StateCheck:
    """Errors of one state, and whether the largest is within the tolerance.

    With `kind` ``sums`` the stationarity error includes the bound on the error of these sums. `faults` are numbers kept
    for the next edit that are not what the keys give, where a check has looked for them: ``rows``, ``sums``, ``pairs``.
    """

    mass: float
    box: float
    stationarity: float
    tolerance: float = PUBLISHED
    kind: CheckKind = "keys"
    faults: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """Largest of the three errors."""
        return max(self.mass, self.box, self.stationarity)

    @property
    def passed(self) -> bool:
        """Whether the largest error is within the tolerance, and no fault was found."""
        return self.worst <= self.tolerance and not self.faults

    def to_json(self) -> dict[str, float | bool | str | list[str]]:
        """Errors, tolerance, verdict, what the slacks were taken from, and faults."""
        return {
            "mass": self.mass,
            "box": self.box,
            "stationarity": self.stationarity,
            "worst": self.worst,
            "tolerance": self.tolerance,
            "passed": self.passed,
            "kind": self.kind,
            "faults": list(self.faults),
        }


@njit(cache=True, nogil=True)
def _add_similarities(keys: Matrix, weights: Vector, points: Matrix, factor: float, sums: Vector) -> None:
    """sums[j] ← Σ_k weights[k] · κ(keys[k], points[j]), compensated, in blocks that stay in the cache."""
    made, rest = np.empty((ROWS, COLUMNS)), np.empty(COLUMNS)
    for start in range(0, sums.size, COLUMNS):
        total = sums[start : start + COLUMNS]
        rest[:] = 0.0
        for at in range(0, weights.size, ROWS):
            part = keys[at : at + ROWS]
            kernel_values(part, points[start : start + COLUMNS], factor, made)
            for k in range(part.shape[0]):
                for j in range(total.size):
                    s, e = two_sum(total[j], weights[at + k] * made[k, j])
                    total[j] = s
                    rest[j] += e
        for j in range(total.size):
            total[j] += rest[j]


def stationarity_terms(keys: Matrix, coefficients: Vector, sigma: float) -> Vector:
    """T = 1 − 2Kα at every key, from the keys, in blocks and on every core: (n, d), (n,) → (n,)."""
    active = np.flatnonzero(coefficients)
    sums = np.zeros(keys.shape[0])
    add = partial(_similarities, keys[active], coefficients[active], np.ascontiguousarray(keys), exponent_factor(sigma))

    def take(first: int, last: int, made: Vector) -> None:
        sums[first:last] = made

    for_column_parts(add, sums.size, active.size, take=take)
    return 1.0 - 2.0 * sums


def _similarities(keys: Matrix, weights: Vector, points: Matrix, factor: float, first: int, last: int) -> Vector:
    """Σ_k weights[k] · κ(keys[k], ·) at the points from `first` to `last`."""
    sums = np.zeros(last - first)
    _add_similarities(keys, weights, points[first:last], factor, sums)
    return sums


def check_terms(
    coefficients: Vector,
    terms: Vector,
    offset: float,
    *,
    cap: float,
    counts: Vector | None = None,
    tolerance: float = PUBLISHED,
) -> StateCheck:
    """Judge coefficients (n,) by their terms t (n,); `counts` says how many equal keys a row stands for."""
    weighted = coefficients if counts is None else coefficients * counts
    lower = coefficients <= PARTITION_THRESHOLD
    upper = coefficients >= cap - PARTITION_THRESHOLD
    gap = terms - offset
    violation = np.where(lower, gap, np.where(upper, -gap, np.abs(gap)))
    box = max(float(np.max(-coefficients, initial=0.0)), float(np.max(coefficients - cap, initial=0.0)))
    return StateCheck(
        mass=_defined(abs(math.fsum([-1.0, *weighted[weighted != 0.0].tolist()]))),
        box=_defined(box),
        stationarity=_defined(float(np.max(violation, initial=0.0))),
        tolerance=tolerance,
    )


def check_state(
    keys: Matrix,
    coefficients: Vector,
    offset: float,
    *,
    cap: float,
    sigma: float,
    tolerance: float = PUBLISHED,
) -> StateCheck:
    """Check a state from nothing but its keys (n, d), coefficients (n,) and offset.

    A state without keys has no coefficient that could be wrong: its errors are 0.
    """
    if not keys.shape[0]:
        return StateCheck(0.0, 0.0, 0.0, tolerance)
    terms = stationarity_terms(keys, coefficients, sigma)
    return check_terms(coefficients, terms, offset, cap=cap, tolerance=tolerance)


def _defined(error: float) -> float:
    return math.inf if math.isnan(error) else error


def require_weights(coefficients: Vector, cap: float) -> None:
    """Raise InputError unless stored coefficients (n,) are in the box and add up to 1; of no entry there are none."""
    mass = math.fsum(coefficients.tolist())
    inside = (
        coefficients.size and abs(mass - 1.0) <= PUBLISHED and coefficients.min() >= 0.0 and coefficients.max() <= cap
    )
    if coefficients.size and not inside:
        raise InputError(f"the weights add up to {mass:.17g}, or one of them is negative or above the cap")
