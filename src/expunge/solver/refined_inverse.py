"""The inverse of the margin system to the last digits, for callers who ask for it; edits never form it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from expunge.types import Matrix

__all__ = ["exact_inverse", "refined_inverse"]


def _slices(matrix: Matrix, axis: int) -> list[Matrix]:
    """Split into summands so short that a product of two, summed along `axis`, is exact in double precision."""
    bits = (53 - math.ceil(math.log2(matrix.shape[axis]))) // 2
    rest = matrix.copy()
    parts: list[Matrix] = []
    while len(parts) < 4 and rest.any():
        largest = np.abs(rest).max(axis=axis, keepdims=True)
        exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))[1]
        shift = np.ldexp(0.75, exponent + (53 - bits))
        part = (rest + shift) - shift
        parts.append(part)
        rest -= part
    return parts


def _extended_product(left: Matrix, right: Matrix) -> npt.NDArray[np.longdouble]:
    """Left @ right as if summed in extended precision, at the speed of a few double-precision products."""
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
