"""Blocks of kernel rows from a matrix product, for the solver alone: several times faster at d = 384.

‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩ loses digits where the keys are close together, so those pairs are made as
`problem.kernel` makes them. With u = 2⁻⁵³ the products, in whatever order a library sums them, and the norms are off by
at most (d + 4)u of ‖a‖² + ‖b‖² each way: of every squared distance that stays, which is at least CLOSE of that, by less
than 3(d + 4)u/CLOSE. As t eᵗ ≥ −1/e, κ is off by less than `product_error`. Nothing that is published is made of these
values: they order work, and the check of signs knows their error. So workers may make the columns, though a product of
other size rounds differently.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from expunge.compilation import njit
from expunge.problem.column_parts import for_column_parts, workers_for
from expunge.problem.kernel import exponent_factor, kernel_error, kernel_values
from expunge.types import Matrix, Vector

__all__ = ["BLOCK", "FEWEST", "WIDE", "fill_rows", "product_error"]

# Coordinates, and rows, from which the product is faster.
WIDE, FEWEST = 32, 8
# A squared distance below this share of the norms is made directly.
CLOSE = 1.0 / 16.0
# Rows of one product.
BLOCK = 256


def product_error(dimension: int) -> float:
    """Bound on the absolute error of a kernel value of either kind."""
    direct = kernel_error(dimension)
    return direct if dimension < WIDE else max(direct, (1.2 * (dimension + 4) / CLOSE + 8.0) * 2.0**-53)


def fill_rows(rows: Matrix, keys: Matrix, sigma: float, out: Matrix) -> None:
    """Write κ of every pair of (m, d) and (n, d) to `out`, (m, n)."""
    factor = exponent_factor(sigma)
    if keys.shape[1] < WIDE or rows.shape[0] < FEWEST:
        kernel_values(rows, keys, factor, out)
        return
    if workers_for(keys.shape[0], rows.shape[0]) is not None:

        def take(first: int, last: int, made: Matrix) -> None:
            out[:, first:last] = made

        for_column_parts(partial(_columns, rows, keys, sigma), keys.shape[0], rows.shape[0], take=take)
        return
    norms = np.einsum("ij,ij->i", keys, keys)
    for start in range(0, rows.shape[0], BLOCK):
        part = rows[start : start + BLOCK]
        products = part @ keys.T
        _finish(part, np.einsum("ij,ij->i", part, part), keys, norms, factor, products, out[start : start + BLOCK])


def _columns(rows: Matrix, keys: Matrix, sigma: float, first: int, last: int) -> Matrix:
    """κ of every pair of `rows` and the keys from `first` to `last`."""
    made = np.empty((rows.shape[0], last - first))
    fill_rows(rows, keys[first:last], sigma, made)
    return made


@njit(cache=True, nogil=True)
def _finish(
    rows: Matrix, row_norms: Vector, keys: Matrix, norms: Vector, factor: float, products: Matrix, out: Matrix
) -> None:
    """Turn inner products into kernel values."""
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            both = row_norms[i] + norms[j]
            squared = both - 2.0 * products[i, j]
            # Written so that what is not a number is made directly, too.
            if not squared >= CLOSE * both:
                squared = 0.0
                for k in range(rows.shape[1]):
                    difference = rows[i, k] - keys[j, k]
                    squared += difference * difference
            products[i, j] = max(factor * squared, -700.0)
        for j in range(products.shape[1]):
            out[i, j] = np.exp(products[i, j])
