"""A solution and the four ways to read its offset (paper, §3.1).

With c = Σαφ(x), q = αᵀKα and K_ii = 1:

- gate score   s(x) = 2 Σ α κ(x, x_i) − ρ
- slack        g(x) = ρ − 1 + 2 Σ α κ(x, x_i) = s(x) + 2ρ − 1, the geometric inside-boundary slack
- radius       R² = ρ + q on a margin solution, so that g(x) = R² − ‖φ(x) − c‖²
- boundary     the score at which g = 0 is 1 − 2ρ, not zero

The residuals are recomputed from the problem; nothing is remembered from a solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.problem.check import StateCheck, check_state
from expunge.problem.partition import Partition
from expunge.problem.problem import Problem
from expunge.problem.readout import similarity
from expunge.types import Matrix, Vector

__all__ = ["Solution"]


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients (n,) and offset for a problem."""

    problem: Problem
    coefficients: Vector
    offset: float

    def similarity(self, points: Matrix) -> Vector:
        """Σ α κ(x, x_i) = ⟨c, φ(x)⟩ at points (m, d) → (m,)."""
        return similarity(self.problem.keys, self.coefficients, points, self.problem.sigma)

    def score(self, points: Matrix) -> Vector:
        """Gate score s(x), (m, d) → (m,); inside is from `boundary_score`, not from 0."""
        return 2.0 * self.similarity(points) - self.offset

    def slack(self, points: Matrix) -> Vector:
        """Geometric slack g(x): positive inside the boundary, (m, d) → (m,)."""
        return self.offset - 1.0 + 2.0 * self.similarity(points)

    @property
    def boundary_score(self) -> float:
        """The gate score on the SVDD boundary."""
        return 1.0 - 2.0 * self.offset

    @property
    def centre_norm_squared(self) -> float:
        """‖c‖² = αᵀKα."""
        active = np.flatnonzero(self.coefficients)
        return float(self.coefficients[active] @ self.similarity(self.problem.keys[active]))

    @property
    def radius_squared(self) -> float:
        """R² = ρ + αᵀKα."""
        return self.offset + self.centre_norm_squared

    @property
    def objective(self) -> float:
        """αᵀKα − diag(K)ᵀα."""
        return self.centre_norm_squared - float(self.coefficients.sum())

    @property
    def partition(self) -> Partition:
        """Groups by the exact values of the coefficients."""
        return Partition.of(self.coefficients, self.problem.cap)

    def check(self) -> StateCheck:
        """Mass, box and stationarity errors, recomputed from the keys."""
        return check_state(
            self.problem.keys, self.coefficients, self.offset, cap=self.problem.cap, sigma=self.problem.sigma
        )
