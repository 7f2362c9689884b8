"""The maintained margin system M = [[0, 1ᵀ], [1, 2K_SS]] (paper, Eq. 4), held as a factor.

The factor is the upper triangle U of K_SS + 11ᵀ = UᵀU. Adding 11ᵀ changes nothing on Σα = const except the
offset's origin, and makes the Cholesky pivot of an entering key measure its distance from the *affine* hull
of the margin, which is what decides whether M stays invertible (the pivot lies between ½ and 1 times M's own
Schur complement). Entering is a triangular solve, leaving a sequence of plane rotations: both backward
stable, O(s²), and free of the error growth of an updated inverse. M⁻¹ itself is derived on demand.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.linalg
from numba import njit

from expunge.types import IndexArray, Matrix, Vector

__all__ = ["MarginFactor", "refined_inverse", "solve_factored"]

_REORDER = {"reassoc", "nsz", "contract"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _solve_transposed(factor: Matrix, size: int, b: Vector) -> None:
    """b ← U⁻ᵀ b."""
    for i in range(size):
        x = b[i] / factor[i, i]
        b[i] = x
        for j in range(i + 1, size):
            b[j] -= x * factor[i, j]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _solve_upper(factor: Matrix, size: int, b: Vector) -> None:
    """b ← U⁻¹ b."""
    for i in range(size - 1, -1, -1):
        total = b[i]
        for j in range(i + 1, size):
            total -= factor[i, j] * b[j]
        b[i] = total / factor[i, i]


@njit(cache=True, nogil=True)
def solve_factored(factor: Matrix, unit: Vector, unit_total: float, x: Vector, mass: float) -> float:
    """x ← solution of K x + (y/2)·1 = x, Σx = mass; return y. `unit` is (K + 11ᵀ)⁻¹1.

    Uses K x = (K + 11ᵀ)x − mass·1, so that only the factor is needed.
    """
    _solve_transposed(factor, x.size, x)
    _solve_upper(factor, x.size, x)
    eta = (x.sum() - mass) / unit_total
    for i in range(x.size):
        x[i] -= eta * unit[i]
    return 2.0 * (eta + mass)


@njit(cache=True, nogil=True)
def _append(factor: Matrix, size: int, column: Vector, diagonal: float, floor: float) -> float:
    """Border U with a column of the matrix; return its pivot, and write nothing if that is below `floor`."""
    _solve_transposed(factor, size, column)
    pivot = diagonal
    for i in range(size):
        pivot -= column[i] * column[i]
    if pivot > floor:
        for i in range(size):
            factor[i, size] = column[i]
        factor[size, size] = np.sqrt(pivot)
    return pivot


@njit(cache=True, nogil=True)
def _remove(factor: Matrix, size: int, position: int) -> None:
    """Drop a row and column of UᵀU: shift, then rotate the subdiagonal away."""
    for i in range(size):
        for j in range(max(position, i - 1), size - 1):
            factor[i, j] = factor[i, j + 1]
    for i in range(position, size - 1):
        a, b = factor[i, i], factor[i + 1, i]
        radius = np.hypot(a, b)
        cosine, sine = a / radius, b / radius
        factor[i, i] = radius
        for j in range(i + 1, size - 1):
            upper, lower = factor[i, j], factor[i + 1, j]
            factor[i, j] = cosine * upper + sine * lower
            factor[i + 1, j] = cosine * lower - sine * upper


class MarginFactor:
    """Members of the margin, in order of entry, and the factor of their system."""

    def __init__(self, capacity: int = 16) -> None:
        self.size = 0
        self._members: IndexArray = np.empty(capacity, dtype=np.int64)
        self._factor: Matrix = np.empty((capacity, capacity))
        self._unit: Vector | None = None
        self._unit_total = 0.0

    @property
    def members(self) -> IndexArray:
        """Site numbers, in factor order."""
        return self._members[: self.size]

    def copy(self) -> MarginFactor:
        """Independent copy; costs the square of the members."""
        twin = MarginFactor(max(16, self.size + self.size // 4 + 1))
        size = twin.size = self.size
        twin._members[:size] = self._members[:size]
        twin._factor[:size, :size] = self._factor[:size, :size]
        twin._unit, twin._unit_total = self._unit, self._unit_total
        return twin

    def enter(self, site: int, column: Vector, floor: float) -> float:
        """Add a site whose kernel values with the members are `column`; return the pivot.

        Nothing changes when the pivot is at or below `floor`: the key is dependent on the margin.
        """
        self._reserve(self.size + 1)
        pivot = float(_append(self._factor, self.size, column + 1.0, 2.0, floor))
        if pivot > floor:
            self._members[self.size] = site
            self.size += 1
            self._unit = None
        return pivot

    def leave(self, position: int) -> int:
        """Remove the member at a position; return its site."""
        site = int(self._members[position])
        _remove(self._factor, self.size, position)
        self._members[position : self.size - 1] = self._members[position + 1 : self.size]
        self.size -= 1
        self._unit = None
        return site

    def position(self, site: int) -> int:
        """Position of a member."""
        return int(np.flatnonzero(self.members == site)[0])

    def renumber(self, new_number: IndexArray) -> None:
        """Apply a renumbering of sites."""
        self._members[: self.size] = new_number[self.members]

    @property
    def factor(self) -> Matrix:
        """U, in the leading block of a larger array."""
        return self._factor

    def unit(self) -> tuple[Vector, float]:
        """u = (K_SS + 11ᵀ)⁻¹1 and its sum."""
        if self._unit is None:
            unit = np.ones(self.size)
            _solve_transposed(self._factor, self.size, unit)
            _solve_upper(self._factor, self.size, unit)
            self._unit, self._unit_total = unit, float(unit.sum())
        return self._unit, self._unit_total

    def solve(self, right: Vector, mass: float) -> tuple[Vector, float]:
        """Solve K x + (y/2)·1 = right, Σx = mass; return (x, y)."""
        unit, total = self.unit()
        x = right.copy()
        return x, float(solve_factored(self._factor, unit, total, x, mass))

    def refresh(self, members: IndexArray, gram: Matrix) -> bool:
        """Factor afresh from K_SS; False, and nothing changed, if it is not numerically definite."""
        size = members.size
        try:
            factor = scipy.linalg.cholesky(gram + 1.0, lower=False, check_finite=False)
        except scipy.linalg.LinAlgError:
            return False
        self.size = 0
        self._reserve(size)
        self._members[:size] = members
        self._factor[:size, :size] = factor
        self.size = size
        self._unit = None
        return True

    def smallest_pivot(self) -> float:
        """Smallest squared diagonal of the factor; infinity when empty."""
        return float(np.min(np.diagonal(self._factor)[: self.size] ** 2, initial=np.inf))

    def drift(self, gram: Matrix) -> float:
        """Largest entry of K_SS u + (1ᵀu)·1 − 1 for u = (K_SS + 11ᵀ)⁻¹1, relative to |u|: how far the factor
        has moved from the Gram entries that it stands for."""
        if self.size == 0:
            return 0.0
        unit, total = self.unit()
        residual = gram @ unit + (total - 1.0)
        return float(np.abs(residual).max() / (1.0 + np.abs(unit).sum()))

    def inverse(self) -> Matrix:
        """M⁻¹, (s+1, s+1), offset first then members, straight from the factor."""
        size = self.size
        if size == 0:
            return np.zeros((1, 1))
        core = scipy.linalg.cho_solve((self._factor[:size, :size], False), np.eye(size), check_finite=False)
        core = 0.5 * (core + core.T)
        unit = core.sum(axis=0)
        total = unit.sum()
        inverse = np.empty((size + 1, size + 1))
        inverse[0, 1:] = inverse[1:, 0] = unit / total
        inverse[0, 0] = 2.0 - 2.0 / total
        inverse[1:, 1:] = 0.5 * (core - np.outer(unit, unit) / total)
        return inverse

    def _reserve(self, needed: int) -> None:
        capacity = self._factor.shape[0]
        if needed <= capacity:
            return
        capacity = max(needed, capacity + capacity // 2)
        members = np.empty(capacity, dtype=np.int64)
        members[: self.size] = self.members
        factor = np.empty((capacity, capacity))
        factor[: self.size, : self.size] = self._factor[: self.size, : self.size]
        self._members, self._factor = members, factor


def _slices(matrix: Matrix, axis: int) -> list[Matrix]:
    """Split into summands so short that a product of two, summed along `axis`, is exact in double precision."""
    bits = (53 - math.ceil(math.log2(matrix.shape[axis]))) // 2
    rest = matrix.copy()
    parts = []
    while len(parts) < 4 and rest.any():
        largest = np.abs(rest).max(axis=axis, keepdims=True)
        exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))[1]
        shift = np.ldexp(0.75, exponent + (53 - bits))
        part = (rest + shift) - shift
        parts.append(part)
        rest -= part
    return parts


def _extended_product(left: Matrix, right: Matrix) -> npt.NDArray[np.longdouble]:
    """left @ right as if summed in extended precision, at the speed of a few double-precision products."""
    total = np.zeros((left.shape[0], right.shape[1]), dtype=np.longdouble)
    for a in _slices(left, axis=1):
        for b in _slices(right, axis=0):
            total += a @ b
    return total


def refined_inverse(gram: Matrix) -> Matrix:
    """M⁻¹ for M = [[0, 1ᵀ], [1, 2K_SS]] to about 1e−12 relative, from K_SS (s, s) as stored.

    Newton–Schulz steps R ← R + R(I − MR) on a first inverse, with the residual in extended precision: plain
    double precision would leave an error of about the condition number times 1e−16.
    """
    size = gram.shape[0]
    if size == 0:
        return np.zeros((1, 1))
    system = np.empty((size + 1, size + 1))
    system[0, 0] = 0.0
    system[0, 1:] = system[1:, 0] = 1.0
    system[1:, 1:] = 2.0 * gram
    inverse = np.linalg.inv(system)
    identity = np.eye(size + 1)
    for _ in range(8):
        residual = (identity - _extended_product(system, inverse)).astype(np.float64)
        correction = inverse @ residual
        inverse = inverse + correction
        if np.abs(correction).max() <= 1e-13 * np.abs(inverse).max():
            break
    return 0.5 * (inverse + inverse.T)
