"""Kernel values and their weighted sums in double precision, as a middle and a radius, from +, −, × and / alone.

The exponent x = Σ((a−b)/σ)² has a relative error γ_{d+4}. exp(−x) = exp(−x/2¹⁰)^(2¹⁰): a Taylor polynomial of degree 16
on [−0.69, 0] errs by 14u, and each squaring doubles the relative error and adds u: below 2¹⁴u.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from expunge.types import Matrix, Vector

__all__ = ["BLOCK", "UNIT", "UP", "kernel_interval", "similarity_interval"]

UNIT: Final = 2.0**-53
# Covers the rounding of the bounds themselves.
UP: Final = 1.0 + 1e-9
SQUARINGS: Final = 10
EXP_ERROR: Final = 2.0**-39
FAR: Final = 700.0
# Kernel values that are made together.
BLOCK: Final = 500_000


def kernel_interval(a: Matrix, b: Matrix, sigma: float) -> tuple[Matrix, Matrix]:
    """κ of every pair, (m, d), (n, d) → middles and radii (m, n)."""
    x = np.zeros((a.shape[0], b.shape[0]))
    with np.errstate(over="ignore", under="ignore"):
        for k in range(a.shape[1]):
            z = (a[:, k, None] - b[None, :, k]) / sigma
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


def similarity_interval(
    points: Matrix, keys: Matrix, weights: Vector, sigma: float, spread: float = 0.0
) -> tuple[Vector, Vector]:
    """Σ_j w_j κ(point, key_j), (m, d), (n, d), (n,) → middles and radii (m,).

    The exact weights differ from those given by a relative u each, and by `spread` in all.
    """
    middle, radius = np.empty(points.shape[0]), np.empty(points.shape[0])
    size, summing = np.abs(weights), (weights.size + 16) * UNIT * UP
    block = max(1, BLOCK // max(1, weights.size))
    for start in range(0, points.shape[0], block):
        part = slice(start, start + block)
        kappa, doubt = kernel_interval(points[part], keys, sigma)
        middle[part] = kappa @ weights
        radius[part] = UP * (doubt @ size + summing * (kappa @ size) + spread) + 1e-300
    return middle, radius
