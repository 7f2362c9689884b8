"""How large the margin of a fit would be, from fits of two samples: what a width costs before it is tried.

From a sample of 1,024 keys to one of 2,048 the margin grows by a share g, at least 0 and at most 1. With each further
doubling the share is taken to fall from g to g(1 + g)/2: a margin that grows like the keys goes on doing so, and others
grow more slowly the more keys there are, as on real keys (design note 0018). The prediction is a function of the
samples, the width and the sparsity: all of it is IEEE operations in a stated order, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from expunge.compilation import njit
from expunge.problem.exponential import EXPONENT_FLOOR, PART, exponentials
from expunge.problem.kernel import exponent_factor, squared_distances
from expunge.problem.pair_moves import move_pairs
from expunge.types import Matrix

__all__ = ["FITTED", "MarginPrediction"]

# Keys of the two samples that are fitted.
FITTED = (1024, 2048)
# How level Kα must be, as a share of the cap, and steps for each key after which a fit is good enough.
LEVEL = 1e-3
STEPS = 50


class MarginPrediction:
    """Predicts margins for one set of keys, at any width and sparsity."""

    def __init__(self, samples: Sequence[Matrix], count: int) -> None:
        """Take a smaller and a larger sample (m, d) of `count` distinct keys."""
        self._squares = [squared_distances(sample, sample) for sample in samples]
        self._count = count

    def __call__(self, sigma: float, nu: float) -> float:
        """Keys that would be on the margin of a fit of all keys with width `sigma` and sparsity `nu`."""
        smaller, margin = (_margin(squares, sigma, nu) for squares in self._squares)
        growth = min(1.0, max(0.0, margin / max(1.0, smaller) - 1.0))
        size = float(len(self._squares[-1]))
        while 2.0 * size <= self._count:
            growth = _slower(growth)
            size, margin = 2.0 * size, (1.0 + growth) * margin
        return min(float(self._count), margin * (1.0 + _slower(growth) * (self._count / size - 1.0)))


def _slower(growth: float) -> float:
    """The share by which the margin grows at the next doubling."""
    return 0.5 * growth * (1.0 + growth)


def _margin(squares: Matrix, sigma: float, nu: float) -> float:
    """Keys between their bounds in a fit, by the squared distances of every pair (m, m)."""
    size = len(squares)
    return float(_fitted_margin(squares, exponent_factor(sigma), max(1.0 / size, min(1.0, 1.0 / (nu * size)))))


@njit(cache=True, nogil=True)
def _fitted_margin(squares: Matrix, factor: float, cap: float) -> int:
    """Fit these keys with this cap, from a start in the order of the keys; how many are between their bounds."""
    size = squares.shape[0]
    kernels = _kernels(squares, factor)
    alpha, sums, ceiling = np.zeros(size), np.zeros(size), np.full(size, cap)
    left = 1.0
    for site in range(size):
        alpha[site] = min(cap, left)
        left -= alpha[site]
        if alpha[site] == 0.0:
            break
        for other in range(size):
            sums[other] += alpha[site] * kernels[site, other]
    move_pairs(kernels, np.arange(size), ceiling, alpha, sums, LEVEL * cap, STEPS * size)
    between = 0
    for site in range(size):
        between += 0.0 < alpha[site] < cap
    return between


@njit(cache=True, nogil=True)
def _kernels(squares: Matrix, factor: float) -> Matrix:
    """exp(factor · squared distance)."""
    out = np.empty(squares.shape)
    part, shifted, scale = np.zeros(PART), np.empty(PART), np.empty(PART)
    for row in range(squares.shape[0]):
        for start in range(0, squares.shape[1], PART):
            width = min(PART, squares.shape[1] - start)
            for j in range(width):
                part[j] = max(squares[row, start + j] * factor, EXPONENT_FLOOR)
            exponentials(part, PART, shifted, scale)
            for j in range(width):
                out[row, start + j] = part[j]
    return out
