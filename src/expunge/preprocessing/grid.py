"""Coarse grids for numbers that are chosen from entries: a width, a centre, a scale.

A mean or a median that is kept at full precision, with the other rows, gives an erased row back. On a grid this coarse
such a number tells a few bits of all entries together (``docs/concepts/nothing-remembers.md``).
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["nearest_multiple", "quarter_power", "whole_power"]

# 2^0, 2^(1/4), 2^(1/2) and 2^(3/4), rounded to the nearest double: `pow` may differ in the last bit between machines.
_QUARTERS = tuple(
    float.fromhex(digits) for digits in ("0x1p0", "0x1.306fe0a31b715p0", "0x1.6a09e667f3bcdp0", "0x1.ae89f995ad3adp0")
)


def quarter_power(width: float) -> float:
    """Return the power of 2^(1/4) nearest to a positive number, on the logarithmic scale: the grid of widths.

    Two powers meet at an odd power of 2^(1/8), which no double is: there are no ties, and the comparison is exact.
    """
    eighth = Fraction(width) ** 8
    # The denominator is a power of 2.
    log = eighth.numerator.bit_length() - eighth.denominator.bit_length()
    whole, quarter = divmod((log + 1) // 2, 4)
    return math.ldexp(_QUARTERS[quarter], whole)


def whole_power(spread: float) -> float:
    """Return the power of 2 nearest to a positive number, on the logarithmic scale: the grid of scales.

    Division by it is exact.
    """
    return math.ldexp(1.0, round(math.log2(spread)))


def nearest_multiple(number: float, step: float) -> float:
    """Return the multiple of a power of 2, `step`, nearest to a number: the grid of centres and fills."""
    return math.ldexp(round(number / step), round(math.log2(step)))
