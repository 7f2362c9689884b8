"""Kernel values, their weighted sums and a smallest eigenvalue, enclosed: fp64 with every rounding bounded.

Keys and σ are taken as exact binary numbers; u = 2⁻⁵³, γ_k = ku/(1 − ku).

x̂ = Σ(fl(fl(a−b)·fl(1/σ)))² has relative error γ_{d+6}, since its terms are nonnegative. `_decay`
evaluates exp(−x̂) by x̂ = m ln 2 + r, |r| ≤ 0.35 and a Taylor polynomial of degree 13, from + and × alone:
truncation 0.07u, Horner (2 + 2|r|)e^{2|r|}u ≤ 5.5u, reduction 0.8u, so 8u = 2⁻⁵⁰ bounds its relative error.
Then |κ̂ − κ| ≤ 1.01 κ̂ (2⁻⁵⁰ + γ_{d+8} x̂) + 10⁻³⁰⁰, and sums add γ times their absolute sum.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from expunge.compilation import njit
from expunge.types import Matrix, Vector

__all__ = [
    "DECAY_ERROR",
    "FAR",
    "SAFE",
    "SLIGHT",
    "TINY",
    "UNIT",
    "decays",
    "exponents",
    "gamma",
    "kernel_enclosure",
    "similarity_enclosure",
    "smallest_eigenvalue",
]

UNIT: Final = 2.0**-53
DECAY_ERROR: Final = 2.0**-50
# Everything below counts as this much: kernel values beyond FAR, and every underflow.
TINY: Final = 1e-300
FAR: Final = 700.0
# Covers the second-order terms that the text leaves out and the rounding of the bounds themselves.
SAFE: Final = 1.01
SLIGHT: Final = 1.0 + 1e-6
TILE: Final = 64

_LOG2_E: Final = 1.4426950408889634
_LN2_HIGH: Final = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")
_POWERS: Final = np.array([2.0**-k for k in range(1024)])
_TAYLOR: Final = np.array([1.0 / math.factorial(k) for k in range(14)])


@njit(cache=True, nogil=True)
def _decay(x: float) -> float:
    """exp(−x) for x ≥ 0 to a relative 2⁻⁵⁰, and 0 beyond FAR."""
    if not x <= FAR:
        return 0.0
    count = np.floor(x * _LOG2_E + 0.5)
    y = count * _LN2_LOW - (x - count * _LN2_HIGH)
    p = _TAYLOR[13]
    for k in range(12, -1, -1):
        p = _TAYLOR[k] + y * p
    return float(p * _POWERS[int(count)])


@njit(cache=True, nogil=True)
def _transpose(keys: Matrix, start: int, tile: Matrix) -> int:
    width: int = min(TILE, keys.shape[0] - start)
    for j in range(width):
        for k in range(keys.shape[1]):
            tile[k, j] = keys[start + j, k]
    return width


@njit(cache=True, nogil=True)
def _exponents(point: Vector, tile: Matrix, inverse_width: float, x: Vector) -> None:
    x[:] = 0.0
    for k in range(point.size):
        value = point[k]
        for j in range(TILE):
            z = (value - tile[k, j]) * inverse_width
            x[j] += z * z


@njit(cache=True, nogil=True)
def _sums(points: Matrix, keys: Matrix, weights: Vector, spreads: Vector, inverse_width: float, out: Matrix) -> None:
    """Rows of `out` (4, m): Σwκ, Σ|w|κ, Σ|w|κx, Σ spread κ; each block of TILE is summed apart."""
    tile = np.zeros((keys.shape[1], TILE))
    x = np.empty(TILE)
    for start in range(0, keys.shape[0], TILE):
        width = _transpose(keys, start, tile)
        for i in range(points.shape[0]):
            _exponents(points[i], tile, inverse_width, x)
            total, size, moment, spread = 0.0, 0.0, 0.0, 0.0
            for j in range(width):
                kappa = _decay(x[j])
                if kappa > 0.0:
                    term = weights[start + j] * kappa
                    total += term
                    size += abs(term)
                    moment += abs(term) * x[j]
                    spread += spreads[start + j] * kappa
            out[0, i] += total
            out[1, i] += size
            out[2, i] += moment
            out[3, i] += spread


@njit(cache=True, nogil=True)
def exponents(points: Matrix, keys: Matrix, inverse_width: float, out: Matrix) -> None:
    """x̂ of every pair: (m, d), (n, d) → (m, n)."""
    tile = np.zeros((keys.shape[1], TILE))
    x = np.empty(TILE)
    for start in range(0, keys.shape[0], TILE):
        width = _transpose(keys, start, tile)
        for i in range(points.shape[0]):
            _exponents(points[i], tile, inverse_width, x)
            # Spelt out: an assignment of slices takes seconds to compile.
            for j in range(width):
                out[i, start + j] = x[j]


@njit(cache=True, nogil=True)
def decays(x: Vector, out: Vector) -> None:
    """`_decay` of every number."""
    for i in range(x.size):
        out[i] = _decay(x[i])


@njit(cache=True, nogil=True)
def _cholesky_completes(matrix: Matrix) -> bool:
    """Whether Cholesky of the lower triangle runs to completion; overwrites it. Column by column, no blocking."""
    n = matrix.shape[0]
    for j in range(n):
        if not matrix[j, j] > 0.0:
            return False
        pivot = math.sqrt(matrix[j, j])
        for i in range(j + 1, n):
            matrix[i, j] /= pivot
        for i in range(j + 1, n):
            factor = matrix[i, j]
            for k in range(j + 1, i + 1):
                matrix[i, k] -= factor * matrix[k, j]
    return True


def gamma(count: float) -> float:
    """γ_k = ku/(1 − ku), rounded up."""
    return count * UNIT / (1.0 - count * UNIT) * (1.0 + 8.0 * UNIT)


def similarity_enclosure(
    points: Matrix, keys: Matrix, weights: Vector, sigma: float, spreads: Vector | None = None
) -> tuple[Vector, Vector]:
    """Enclose Σ_j w_j κ(point, key_j): (m, d), (n, d), (n,) → midpoints and radii (m,).

    Each exact weight may lie `spreads` (n,) away from the one given, and a relative u on top.
    """
    out = np.zeros((4, points.shape[0]))
    loose = np.zeros(weights.size) if spreads is None else spreads
    _sums(points, keys, weights, loose, 1.0 / sigma, out)
    rounding = gamma(TILE + keys.shape[0] // TILE + 8) + DECAY_ERROR
    argument = gamma(points.shape[1] + 8)
    floor = TINY * (1.0 + float(np.abs(weights).sum()) + float(loose.sum()))
    return out[0], SAFE * (out[1] * rounding + out[2] * argument + out[3]) + floor


def kernel_enclosure(a: Matrix, b: Matrix, sigma: float) -> tuple[Matrix, Matrix]:
    """Enclose κ of every pair: (m, d), (n, d) → midpoints and radii (m, n)."""
    x, kappa = np.empty((a.shape[0], b.shape[0])), np.empty((a.shape[0], b.shape[0]))
    exponents(a, b, 1.0 / sigma, x)
    decays(x.ravel(), kappa.ravel())
    np.minimum(x, FAR, out=x)
    return kappa, SAFE * kappa * (DECAY_ERROR + gamma(a.shape[1] + 8) * x) + TINY


def smallest_eigenvalue(kernel: Matrix, radius: Matrix) -> float:
    """Lower bound for λ_min of every symmetric matrix within `radius` (n, n) of `kernel` (n, n); 0 if none is found.

    If Cholesky of A completes in floating point, λ_min(A) ≥ −γ_{n+1}/(1−γ_{n+1}) tr A (Demmel; Rump 2006). It is
    run on A = kernel − μI, with μ just below a computed λ_min.
    """
    n = kernel.shape[0]
    if n == 0:
        return math.inf
    from scipy.linalg import eigvalsh

    computed = float(eigvalsh(kernel, subset_by_index=[0, 0])[0])
    backward = SAFE * gamma(2 * n + 16) * float(np.trace(kernel)) + 4.0 * UNIT * (1.0 + abs(computed))
    loss = backward + SAFE * float(radius.sum(axis=1).max()) + n * n * TINY
    for share in (0.999, 0.9, 0.5):
        shift = share * computed - backward
        if shift <= loss:
            continue
        matrix = np.array(kernel, order="C")
        matrix[np.diag_indices(n)] -= shift
        if _cholesky_completes(matrix):
            return float((shift - loss) / SLIGHT)
    return 0.0
