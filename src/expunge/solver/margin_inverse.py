"""The inverse of the margin system to about twelve digits, for callers who ask for it; edits never form it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from expunge.errors import SolveError
from expunge.problem.kernel import kernel_block
from expunge.types import Matrix
from expunge.verify.ball_precision import ball_precision

__all__ = ["margin_inverse", "refined_inverse"]

# Kernel values are rounded to 2⁻⁵³; up to this condition number that moves no entry by 1e−12 of the largest.
WELL_CONDITIONED = 1e3
PRECISIONS = (128, 256, 512, 1024, 2400)


def margin_inverse(keys: Matrix, sigma: float) -> Matrix:
    """M⁻¹ for M = [[0, 1ᵀ], [1, 2K]] with K = κ(keys, keys), from distinct keys (s, d) → (s+1, s+1).

    Where rounded kernel values would spoil it, the inverse is evaluated in ball arithmetic from the keys: 0.3 s at
    s = 200, and as s³ beyond. Raises SolveError where 2,400 bits do not tell the keys apart.
    """
    if not keys.size:
        return np.zeros((1, 1))
    gram = kernel_block(keys, keys, sigma)
    try:
        inverse = refined_inverse(gram)
    except np.linalg.LinAlgError:
        return _exact_inverse(keys, sigma)
    norms = np.abs(_system(gram)).sum(axis=1).max() * np.abs(inverse).sum(axis=1).max()
    return inverse if norms <= WELL_CONDITIONED else _exact_inverse(keys, sigma)


def _exact_inverse(keys: Matrix, sigma: float) -> Matrix:
    size = keys.shape[0]
    rows = [[arb(value) for value in row] for row in keys.tolist()]
    for bits in PRECISIONS:
        with ball_precision(bits):
            square = arb(sigma) * arb(sigma)
            system = arb_mat(size + 1, size + 1)
            for i in range(size):
                system[0, i + 1] = system[i + 1, 0] = arb(1)
                system[i + 1, i + 1] = arb(2)
                for j in range(i):
                    distance = sum(((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True)), start=arb(0))
                    system[i + 1, j + 1] = system[j + 1, i + 1] = 2 * (-distance / square).exp()
            try:
                inverse = system.inv()
            except ZeroDivisionError:
                continue
            entries = inverse.entries()
            largest = max(abs(entry).upper() for entry in entries)
            if all(entry.rad() < arb(1e-14) * largest for entry in entries):
                found = np.array([float(entry.mid()) for entry in entries]).reshape(size + 1, size + 1)
                return np.asarray(0.5 * (found + found.T))
    raise SolveError("the margin keys are too close together for this width", code="beyond-exact-limits")


def _system(gram: Matrix) -> Matrix:
    size = gram.shape[0]
    system = np.ones((size + 1, size + 1))
    system[0, 0] = 0.0
    system[1:, 1:] = 2.0 * gram
    return system


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
    system = _system(gram)
    inverse = np.asarray(np.linalg.inv(system), dtype=np.float64)
    identity = np.eye(size + 1)
    for _ in range(8):
        residual = (identity - _extended_product(system, inverse)).astype(np.float64)
        correction = inverse @ residual
        inverse = inverse + correction
        if np.abs(correction).max() <= 1e-13 * np.abs(inverse).max():
            break
    return 0.5 * (inverse + inverse.T)
