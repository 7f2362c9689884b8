"""The exponential function from IEEE 754 operations alone: the same bits on every processor.

NumPy's exponential and the C library's differ in the last bit between processors and versions. Everything here is
additions, multiplications and shifts in double precision, in a stated order, so that the result is a function of the
argument. Compiled code must not contract a·b + c to one operation; numba does not unless it is told to.

exp(t) = 2ᵏ · exp(r) with k = round(t / ln 2) and r = t − k ln 2. ln 2 is split in two parts, the first so short that
k times it is exact; r is then off by less than 2⁻⁶⁴ + 2⁻⁵³|r|. The Taylor polynomial of degree 13 leaves less than
2⁻⁵⁷ on |r| ≤ 0.3466, and Horner's rule adds less than 2⁻⁵² in relative terms. Together: relative error below 2⁻⁵¹.
"""

from __future__ import annotations

import math

import numpy as np

from expunge.compilation import njit
from expunge.types import Vector

__all__ = ["EXPONENT_FLOOR", "RELATIVE_ERROR", "exponentials"]

# exp(−700) ≈ 1e−304: smaller results would be subnormal, and are never needed.
EXPONENT_FLOOR = -700.0

# Proved bound on the relative error of `exponentials`.
RELATIVE_ERROR = 2.0**-51

# Adding it rounds to an integer, which then stands in the low bits.
_MAGIC = 1.5 * 2.0**52
_LOG2E = 1.0 / math.log(2.0)
# The leading 32 bits of ln 2, and the rest: k has at most 11 bits.
_LN2_HIGH = 2977044471.0 / 2.0**32
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_C2, _C3, _C4, _C5 = 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0
_C6, _C7, _C8, _C9 = 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0, 1.0 / 362880.0
_C10, _C11, _C12, _C13 = 1.0 / 3628800.0, 1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0


# Arguments handled together, so that every step is a loop that compiles to vector instructions.
PART = 64


@njit(cache=True, nogil=True, inline="always")
def exponentials(t: Vector, size: int, shifted: Vector, scale: Vector) -> None:
    """t[j] ← exp(t[j]) for the first `size` ≤ PART places, where −700 ≤ t ≤ 1.

    `shifted` and `scale` are float64 buffers of PART places.
    """
    bits, power = shifted.view(np.int64), scale.view(np.int64)
    for j in range(size):
        shifted[j] = t[j] * _LOG2E + _MAGIC
    for j in range(size):
        k = shifted[j] - _MAGIC
        r = (t[j] - k * _LN2_HIGH) - k * _LN2_LOW
        p = _C13
        p = p * r + _C12
        p = p * r + _C11
        p = p * r + _C10
        p = p * r + _C9
        p = p * r + _C8
        p = p * r + _C7
        p = p * r + _C6
        p = p * r + _C5
        p = p * r + _C4
        p = p * r + _C3
        p = p * r + _C2
        t[j] = (p * r * r + r) + 1.0
    for j in range(size):
        # The low bits of k, shifted into the exponent of 1.0: that is 2ᵏ.
        power[j] = (bits[j] << 52) + (1023 << 52)
    for j in range(size):
        t[j] *= scale[j]
