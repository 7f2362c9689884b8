"""The problem: keys, cap and width, validated once, with errors that say what to do.

min αᵀKα − diag(K)ᵀα  subject to  Σα = 1, 0 ≤ α ≤ C  (paper, Eq. 2), κ(a,b) = exp(−‖a−b‖²/σ²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from expunge.errors import InputError
from expunge.problem.tolerances import CAP_FLOOR
from expunge.types import Matrix, Vector

__all__ = [
    "Problem",
    "as_count",
    "as_point",
    "as_points",
    "as_values",
    "cap_from",
    "fewest_keys",
    "refuse_masked",
    "row_bytes",
    "widened_cap",
    "width_from",
]

# Beyond it squared distances overflow.
LARGEST = 1e150


@dataclass(frozen=True, eq=False)
class Problem:
    """Keys (n, d) float64, cap C and width σ, all usable."""

    keys: Matrix
    cap: float
    sigma: float

    @classmethod
    def of(cls, keys: Any, *, sigma: Any, nu: Any = None, cap: Any = None, empty: bool = False) -> Problem:
        """Validate what a caller passed; the cap comes from `nu` at this number of keys, or directly.

        With `empty`, keys of shape (0, d) are accepted: an empty problem, whose cap is 1.
        """
        points = as_points(keys, "keys", empty=empty)
        width = width_from(sigma)
        return cls(points, cap_from(points.shape[0], nu=nu, cap=cap), width)


def width_from(sigma: Any) -> float:
    """The width as a number, checked for range."""
    width = _number(sigma, "sigma")
    if not 1.0 / LARGEST <= width <= LARGEST:
        raise InputError(f"sigma must be a positive width between 1e-150 and 1e150, not {sigma!r}")
    return width


def cap_from(count: int, *, nu: Any = None, cap: Any = None) -> float:
    """C = 1/(ν n₀), or the cap itself, checked for feasibility at `count` keys; 1, after the checks, for none."""
    if (nu is None) == (cap is None):
        raise InputError("give exactly one of nu (the sparsity that sets the cap) and cap (the cap itself)")
    if nu is not None:
        fraction = _number(nu, "nu")
        if not 0.0 < fraction <= 1.0:
            raise InputError(f"nu must lie in (0, 1], not {nu!r}")
        # More than 1 per key is never reached: the mass is 1.
        value = min(1.0, 1.0 / (fraction * count)) if count else 1.0
    else:
        value = _number(cap, "cap")
    if not CAP_FLOOR <= value <= 1.0:
        raise InputError(
            f"cap must lie between {CAP_FLOOR:g} and 1, not {value!r}: it limits one key's share of a unit mass"
        )
    if not count:
        return 1.0
    value = _whole(value)
    needed = fewest_keys(value)
    if count < needed:
        raise InputError(
            f"cap {value!r} is infeasible for {count} keys: n·C must reach 1, so use at least {needed} keys "
            f"or a cap of at least {1.0 / count!r}"
        )
    return value


def widened_cap(cap: float, count: int) -> float:
    """The cap, doubled as often as needed for `count` keys to hold a mass of 1, and no more; 1 where there are none.

    Deletions one after another, in any order and any grouping, end with the same cap, because each starts where a
    larger one would have come by. It tells only which power of two was needed.
    """
    if not count:
        return 1.0
    while fewest_keys(cap) > count:
        cap = _whole(min(1.0, 2.0 * cap))
    return cap


@lru_cache(maxsize=1024)
def fewest_keys(cap: float) -> int:
    """⌈1/C⌉, exactly, for the cap as it is stored."""
    return math.ceil(1 / Fraction(cap))


def _whole(cap: float) -> float:
    """The cap, moved up by one double where it was meant to be 1/m and rounding made m·C fall short of 1.

    Feasibility is decided exactly, so fl(1/49) would need 50 keys.
    """
    if not 0.0 < 1 - round(1.0 / cap) * Fraction(cap) < Fraction(1, 2**52):
        return cap
    return math.nextafter(cap, 1.0)


def as_points(array: Any, name: str, *, dimension: int | None = None, empty: bool = False) -> Matrix:
    """Own, C-contiguous float64 copy of a finite (n, d) array, with −0 made 0 so that equal keys are equal bytes.

    With `empty`, an array of shape (0, d) is accepted.
    """
    refuse_masked(array, name)
    try:
        given = np.asarray(array)
    except (ValueError, TypeError, OverflowError) as problem:
        raise InputError(f"{name} must be a rectangular array of numbers ({problem})") from None
    if given.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold real numbers, not {given.dtype}: convert to float64 first")
    if given.ndim == 1 and dimension is not None and given.shape[0] == dimension:
        given = given[None, :]
    if given.ndim != 2:
        raise InputError(f"{name} must have two dimensions (rows, coordinates), not shape {given.shape}")
    if 0 in (given.shape[1:] if empty else given.shape):
        raise InputError(f"{name} must not be empty; its shape is {given.shape}")
    if dimension is not None and given.shape[1] != dimension:
        raise InputError(f"{name} must have {dimension} coordinates, like the memory, not {given.shape[1]}")
    try:
        with np.errstate(over="ignore"):
            points = np.array(given, dtype=np.float64, order="C")
    except MemoryError:
        raise InputError(f"{name} of shape {given.shape} do not fit into memory") from None
    points += 0.0
    if not np.isfinite(points).all():
        row, column = np.argwhere(~np.isfinite(points))[0]
        raise InputError(f"{name} must be finite; row {row}, column {column} is {points[row, column]}")
    if np.abs(points).max(initial=0.0) > LARGEST:
        row, column = np.argwhere(np.abs(points) > LARGEST)[0]
        raise InputError(f"{name} must stay below 1e150 in magnitude; row {row}, column {column} does not")
    return points


def as_values(values: Any, size: int) -> Matrix:
    """Finite (n, dv) float64 values, one row per key; (n,) counts as (n, 1), also for no keys."""
    refuse_masked(values, "values")
    try:
        given = np.asarray(values)
    except (ValueError, TypeError, OverflowError) as problem:
        raise InputError(f"values must be a rectangular array of numbers ({problem})") from None
    points = as_points(given[:, None] if given.ndim == 1 else given, "values", empty=size == 0)
    if points.shape[0] != size:
        raise InputError(f"values must have one row per key: {size}, not {points.shape[0]}")
    return points


def as_point(array: Any, name: str, dimension: int) -> Vector:
    """One finite float64 vector of this many coordinates; a scalar counts as a vector of one."""
    refuse_masked(array, name)
    try:
        given = np.asarray(array)
    except (ValueError, TypeError, OverflowError) as problem:
        raise InputError(f"{name} must be a vector of numbers ({problem})") from None
    points = as_points(given.reshape(1, -1) if given.ndim < 2 else given, name, dimension=dimension)
    if points.shape[0] != 1:
        raise InputError(f"one {name} at a time, not {points.shape[0]}")
    return np.asarray(points[0])


def as_count(number: SupportsIndex, least: int, rule: str) -> int:
    """An integer, Python's or NumPy's, that is at least this large."""
    try:
        found = index(number)
    except TypeError:
        found = least - 1
    if isinstance(number, bool) or found < least:
        raise InputError(f"{rule}, not {number!r}")
    return found


def refuse_masked(array: Any, name: str) -> None:
    """Raise InputError where a mask hides numbers: as a plain array, they would be used."""
    if any(np.ma.is_masked(part) for part in ([array, *array] if isinstance(array, list | tuple) else [array])):
        raise InputError(f"{name} must not hold masked numbers: fill them, or leave their rows out")


def row_bytes(array: Matrix) -> list[bytes]:
    """Each row's bytes; equal rows of validated points have equal bytes."""
    rows, width = array.shape
    packed: list[bytes] = np.ascontiguousarray(array).view(np.dtype((np.void, 8 * width))).reshape(rows).tolist()
    return packed


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise InputError(f"{name} must be a number, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite, not {value!r}")
    return number
