"""The independent check of a state (paper, §4.6): mass, box and stationarity, recomputed.

Nothing is taken from a solver: the terms come from the actual keys, coefficients and stored offset. With
t_i = K_ii − 2(Kα)_i and coefficients within 1e−7 of a bound counted as at it, stationarity is |ρ − t_i| on the
margin, max(0, t_i − ρ) at the lower and max(0, ρ − t_i) at the upper bound. A term that is not a number
counts as infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from expunge.problem.kernel import kernel_block
from expunge.problem.tolerances import PARTITION_THRESHOLD, PUBLISHED
from expunge.types import Matrix, Vector

__all__ = ["StateCheck", "check_state", "check_terms", "stationarity_terms"]


@dataclass(frozen=True)
class StateCheck:
    """Errors of one state, and whether the largest is within the tolerance."""

    mass: float
    box: float
    stationarity: float
    tolerance: float = PUBLISHED

    @property
    def worst(self) -> float:
        """Largest of the three errors."""
        return max(self.mass, self.box, self.stationarity)

    @property
    def passed(self) -> bool:
        """Whether the largest error is within the tolerance."""
        return self.worst <= self.tolerance

    def to_json(self) -> dict[str, float | bool]:
        """Errors, tolerance and verdict."""
        return {
            "mass": self.mass,
            "box": self.box,
            "stationarity": self.stationarity,
            "worst": self.worst,
            "tolerance": self.tolerance,
            "passed": self.passed,
        }


def stationarity_terms(keys: Matrix, coefficients: Vector, sigma: float) -> Vector:
    """T = 1 − 2Kα at every key, from the keys, in blocks: (n, d), (n,) → (n,)."""
    active = np.flatnonzero(coefficients)
    sums = np.zeros(keys.shape[0])
    block = max(1, 4_000_000 // max(1, keys.shape[0]))
    for start in range(0, active.size, block):
        part = active[start : start + block]
        sums += coefficients[part] @ kernel_block(keys[part], keys, sigma)
    return 1.0 - 2.0 * sums


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
    """Check a state from nothing but its keys (n, d), coefficients (n,) and offset."""
    terms = stationarity_terms(keys, coefficients, sigma)
    return check_terms(coefficients, terms, offset, cap=cap, tolerance=tolerance)


def _defined(error: float) -> float:
    return math.inf if math.isnan(error) else error
