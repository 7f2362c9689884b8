"""Kernel values as unevaluated sums hi + lo of two doubles: absolute error at most `pair_error(d)`, proved.

Keys and σ are exact numbers here. Both are first scaled by a power of two that brings σ into [1, 2), which changes no
kernel value. Everything is additions and multiplications in IEEE double precision, with the error-free sum of Knuth
and the error-free product of Dekker, so the pairs are the same on every machine.

Error, with u = 2⁻⁵³. A difference of coordinates is exact as a pair. Its square as a pair is off by at most 7u² of
itself, adding it to a sum of nonnegative pairs by at most 3u² of that sum, and the quotient by σ² by 12u²: so the
exponent t is off by less than (3d + 20)u²|t|. The exponential reduces by multiples of ln 2/256 (three parts, the first
two products exact) to |r| ≤ 0.00136, with an error below 2⁻¹⁰⁴ + 2u²|t|; evaluates 1 + r + … + r⁹/9! with pairs up to
the fourth power (the rest, below 2⁻⁵⁴, in plain doubles; what is left out is below 2⁻¹¹⁵); and multiplies by a tabled
power 2^(j/256), a pair right to 2⁻¹⁰⁶: below 2⁻¹⁰² in all, relative to the result. As |t|eᵗ ≤ 1/e, the whole error is
less than (3d + 22)u²/e + 2⁻¹⁰². Beyond t = −80 the value counts as 0, and is below 2⁻¹¹⁵.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from expunge.compilation import njit
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["KernelWidth", "fill_pairs", "kernel_pairs", "kernel_width", "pair_error", "two_product", "two_sum"]

TILE = 32

_FURTHEST = 80.0
_MAGIC = 1.5 * 2.0**52
_STEPS = 256
_PER_STEP = _STEPS / math.log(2.0)
# ln 2 / 256 in three parts: 33 bits, 32 bits, and a double.
_STEP_1 = 5954088943.0 / 2.0**41
_STEP_2 = 2745103191.0 / 2.0**73
_STEP_3 = float.fromhex("0x1.278ece600fcbep-74")
_SPLITTER = 2.0**27 + 1.0
_C3_HIGH, _C3_LOW = 1.0 / 6.0, float(Fraction(1, 6) - Fraction(1.0 / 6.0))
_C4_HIGH, _C4_LOW = 1.0 / 24.0, float(Fraction(1, 24) - Fraction(1.0 / 24.0))
_C5, _C6, _C7, _C8, _C9 = 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0, 1.0 / 362880.0


def _powers() -> tuple[Vector, Vector]:
    """2^(j/256) as pairs, j = 0 … 255, from eight square roots of a 512-bit integer."""
    high, low = np.empty(_STEPS), np.empty(_STEPS)
    scale = 2**512
    root = 2 * scale
    for _ in range(8):
        root = math.isqrt(root * scale)
    power = scale
    for j in range(_STEPS):
        exact = Fraction(power, scale)
        high[j] = float(exact)
        low[j] = float(exact - Fraction(high[j].item()))
        power = power * root // scale
    return high, low


POWER_HIGH, POWER_LOW = _powers()


def pair_error(dimension: int) -> float:
    """Proved bound on the absolute error of hi + lo."""
    return (3.0 * dimension + 22.0) * 0.37 * 2.0**-106 + 2.0**-102


class KernelWidth(NamedTuple):
    """σ scaled to [1, 2), the power of two that scales keys alike, and the tabled powers 2^(j/256)."""

    sigma: float
    factor: float
    power_high: Vector
    power_low: Vector


@lru_cache(maxsize=64)
def kernel_width(sigma: float) -> KernelWidth:
    """The width as `fill_pairs` takes it."""
    mantissa, exponent = math.frexp(sigma)
    return KernelWidth(2.0 * mantissa, math.ldexp(1.0, 1 - exponent), POWER_HIGH, POWER_LOW)


def kernel_pairs(a: Matrix, b: Matrix, picked: IndexArray, sigma: float) -> tuple[Matrix, Matrix]:
    """κ between a (m, d) and the picked rows of b (n, d), as (high, low), each (m, picked)."""
    high, low = np.empty((a.shape[0], picked.size)), np.empty((a.shape[0], picked.size))
    fill_pairs(a, b, picked, kernel_width(sigma), high, low)
    return high, low


@njit(cache=True, nogil=True, inline="always")
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Sum of a and b as an exact pair."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@njit(cache=True, nogil=True, inline="always")
def two_product(a: float, b: float) -> tuple[float, float]:
    """Product of a and b as an exact pair, while nothing over- or underflows."""
    p = a * b
    x = _SPLITTER * a
    a1 = x - (x - a)
    a2 = a - a1
    y = _SPLITTER * b
    b1 = y - (y - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@njit(cache=True, nogil=True)
def fill_pairs(a: Matrix, b: Matrix, picked: IndexArray, width: KernelWidth, high: Matrix, low: Matrix) -> None:
    """Write κ of every pair of a (m, d) and the picked rows of b to `high` + `low`, (m, picked)."""
    sigma, factor, power_high, power_low = width
    rows, dimension = a.shape
    columns = picked.size
    square, square_low = two_product(sigma, sigma)
    inverse = 1.0 / square
    # 1/σ² as a pair: one Newton step on the remainder 1 − σ²·inverse, which is taken exactly.
    p, e = two_product(square, inverse)
    inverse_low = (((1.0 - p) - e) - square_low * inverse) * inverse
    tile = np.zeros((dimension, TILE))
    sums, rests = np.empty(TILE), np.empty(TILE)
    shifted, far = np.empty(TILE), np.empty(TILE, dtype=np.bool_)
    index = np.empty(TILE, dtype=np.int64)
    exponent = np.empty(TILE, dtype=np.int64)
    bits, scale = shifted.view(np.int64), exponent.view(np.float64)
    for start in range(0, columns, TILE):
        filled = min(TILE, columns - start)
        for j in range(filled):
            for k in range(dimension):
                tile[k, j] = b[picked[start + j], k] * factor
        for i in range(rows):
            sums[:] = 0.0
            rests[:] = 0.0
            for k in range(dimension):
                value = a[i, k] * factor
                for j in range(TILE):
                    x, y = two_sum(value, -tile[k, j])
                    p = x * x
                    c = _SPLITTER * x
                    x1 = c - (c - x)
                    x2 = x - x1
                    q = ((x1 * x1 - p) + 2.0 * (x1 * x2)) + x2 * x2
                    q += 2.0 * (x * y)
                    s, e = two_sum(sums[j], p)
                    e += rests[j] + q
                    z = s + e
                    rests[j] = e - (z - s)
                    sums[j] = z
            for j in range(TILE):
                # t = −(sum + rest) · (inverse + inverse_low)
                p, e = two_product(sums[j], inverse)
                e += sums[j] * inverse_low + rests[j] * inverse
                t = p + e
                sums[j], rests[j] = -t, -(e - (t - p))
                far[j] = not (t < _FURTHEST)
                shifted[j] = (0.0 if far[j] else -t) * _PER_STEP + _MAGIC
            for j in range(TILE):
                k = shifted[j] - _MAGIC
                whole = bits[j]
                index[j] = whole & 255
                exponent[j] = ((whole >> 8) << 52) + (1023 << 52)
                t = sums[j]
                s, e = two_sum(t - k * _STEP_1, -(k * _STEP_2))
                e += rests[j] - k * _STEP_3
                r = s + e
                d = e - (r - s)
                # The tail r⁵/5! + …, and the pairs above it.
                tail = r * (_C5 + r * (_C6 + r * (_C7 + r * (_C8 + r * _C9))))
                # q ← 1/4! + tail, then q ← 1/3! + r q, q ← 1/2! + r q, q ← 1 + r q, 1 + r q.
                q, f = two_sum(_C4_HIGH, tail)
                f += _C4_LOW
                p, e = two_product(q, r)
                e += q * d + f * r
                q, f = two_sum(_C3_HIGH, p)
                f += e + _C3_LOW
                p, e = two_product(q, r)
                e += q * d + f * r
                q, f = two_sum(0.5, p)
                f += e
                p, e = two_product(q, r)
                e += q * d + f * r
                q, f = two_sum(1.0, p)
                f += e
                p, e = two_product(q, r)
                e += q * d + f * r
                q, f = two_sum(1.0, p)
                f += e
                sums[j], rests[j] = q, f
            for j in range(filled):
                if far[j]:
                    high[i, start + j] = 0.0
                    low[i, start + j] = 0.0
                else:
                    w, v = power_high[index[j]], power_low[index[j]]
                    p, e = two_product(sums[j], w)
                    e += sums[j] * v + rests[j] * w
                    z = p + e
                    high[i, start + j] = z * scale[j]
                    low[i, start + j] = (e - (z - p)) * scale[j]
