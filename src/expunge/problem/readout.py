"""The readout o(q) = Σ α κ(q, x) v / Σ α κ(q, x) and the similarity Σ α κ(q, x): the one implementation for all users.

Kernel values of a readout are scaled by the nearest active key's, which cancels. A query far from every key therefore
gets the limit of the formula rather than 0/0. There the squared distances are long numbers whose differences decide:
beyond FAR squared widths they are pairs of doubles, off by less than 2⁻¹⁰⁰ of themselves.

Sums are the same bits on every machine, whatever the order of the entries, and however many queries are asked at once:
`canonical_order` sorts the active entries by key and value, the exponential is our own, and eight partial sums are
taken in a stated order (term k goes to sum k mod 8) and added as a tree.
"""

from __future__ import annotations

import numpy as np

from expunge.compilation import njit
from expunge.problem.exponential import EXPONENT_FLOOR, PART, exponentials
from expunge.problem.kernel import squared_distances
from expunge.problem.kernel_pairs import two_product, two_sum
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "canonical_order",
    "readout",
    "readout_in_order",
    "readout_weights",
    "similarity",
    "squared_distance_pairs",
]

_FLOOR = EXPONENT_FLOOR
LANES = 8
# Squared distance to the nearest active key, over σ², beyond which distances are taken as pairs.
FAR = 64.0


def canonical_order(keys: Matrix, values: Matrix, coefficients: Vector) -> IndexArray:
    """Rows with a coefficient, sorted by key, then value: an order that the entries alone decide."""
    active = np.flatnonzero(coefficients)
    first = keys[active, 0]
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    if (ordered[1:] == ordered[:-1]).any():
        columns = np.concatenate([keys[active], values[active]], axis=1)
        order = np.lexsort(columns.T[::-1])
    return np.asarray(active[order])


@njit(cache=True, nogil=True)
def _transposed(keys: Matrix) -> Matrix:
    """Keys in tiles: (tiles · d, PART), the unused places of the last tile 0."""
    count, dimension = keys.shape
    tiles = (count + PART - 1) // PART
    out = np.zeros((tiles * dimension, PART))
    for j in range(count):
        tile, place = j // PART, j % PART
        for k in range(dimension):
            out[tile * dimension + k, place] = keys[j, k]
    return out


@njit(cache=True, nogil=True)
def _distance_pairs(tiles: Matrix, count: int, point: Vector, high: Vector, low: Vector) -> None:
    """Fill `high` + `low`, as long as the tiles, with squared distances as pairs; `tiles` are transposed keys."""
    high[:] = 0.0
    low[:] = 0.0
    for start in range(0, count, PART):
        for k in range(point.size):
            row = tiles[start // PART * point.size + k]
            for j in range(PART):
                x, y = two_sum(point[k], -row[j])
                p, q = two_product(x, x)
                q += 2.0 * (x * y)
                s, e = two_sum(high[start + j], p)
                e += low[start + j] + q
                t = s + e
                low[start + j] = e - (t - s)
                high[start + j] = t


@njit(cache=True, nogil=True)
def _far_exponents(tiles: Matrix, count: int, point: Vector, factor: float, out: Vector) -> None:
    """out[j] ← factor · (D_j − least D) for squared distances D as pairs; `tiles` are transposed keys."""
    high, low = np.empty(out.size), np.empty(out.size)
    _distance_pairs(tiles, count, point, high, low)
    nearest = 0
    for j in range(1, count):
        if high[j] < high[nearest] or (high[j] == high[nearest] and low[j] < low[nearest]):
            nearest = j
    least, rest = high[nearest], low[nearest]
    for j in range(out.size):
        out[j] = ((high[j] - least) + (low[j] - rest)) * factor


@njit(cache=True, nogil=True)
def _readout(keys: Matrix, values: Matrix, weights: Vector, points: Matrix, factor: float, out: Matrix) -> None:
    """Fill `out`, (m, dv); every array is in canonical order."""
    count, dimension = keys.shape
    width = values.shape[1]
    tiles, columns, shares = _transposed(keys), _transposed(values), _transposed(weights.reshape(-1, 1))
    padded = (count + PART - 1) // PART * PART
    distance, shifted, scale = np.empty(padded), np.empty(PART), np.empty(PART)
    sums = np.empty((width + 1, LANES))
    for i in range(points.shape[0]):
        least = np.inf
        for start in range(0, count, PART):
            total = distance[start : start + PART]
            total[:] = 0.0
            for k in range(dimension):
                value = points[i, k]
                row = tiles[start // PART * dimension + k]
                for j in range(PART):
                    difference = value - row[j]
                    total[j] += difference * difference
            for j in range(min(PART, count - start)):
                least = min(least, total[j])
        if least * factor < -FAR:
            _far_exponents(tiles, count, points[i], factor, distance)
        else:
            for j in range(padded):
                distance[j] = (distance[j] - least) * factor
        sums[:] = 0.0
        for start in range(0, count, PART):
            part = distance[start : start + PART]
            for j in range(PART):
                part[j] = min(max(part[j], _FLOOR), 0.0)
            exponentials(part, PART, shifted, scale)
            row, lanes = shares[start // PART], sums[width]
            for j in range(PART):
                part[j] *= row[j]
            for j in range(0, PART, LANES):
                for lane in range(LANES):
                    lanes[lane] += part[j + lane]
            for column in range(width):
                row, lanes = columns[start // PART * width + column], sums[column]
                for j in range(0, PART, LANES):
                    for lane in range(LANES):
                        lanes[lane] += part[j + lane] * row[j + lane]
        mass = _tree(sums[width])
        for column in range(width):
            out[i, column] = _tree(sums[column]) / mass


@njit(cache=True, nogil=True, inline="always")
def _tree(lanes: Vector) -> float:
    """Sum of the eight lanes, always in this order."""
    total: float = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
    return total


@njit(cache=True, nogil=True)
def _similarity(keys: Matrix, weights: Vector, points: Matrix, factor: float, out: Vector) -> None:
    count, dimension = keys.shape
    tiles = _transposed(keys)
    total, shifted, scale = np.empty(PART), np.empty(PART), np.empty(PART)
    lanes = np.empty(LANES)
    for i in range(points.shape[0]):
        lanes[:] = 0.0
        for start in range(0, count, PART):
            total[:] = 0.0
            for k in range(dimension):
                value = points[i, k]
                row = tiles[start // PART * dimension + k]
                for j in range(PART):
                    difference = value - row[j]
                    total[j] += difference * difference
            for j in range(PART):
                total[j] = max(total[j] * factor, _FLOOR)
            exponentials(total, PART, shifted, scale)
            size = min(PART, count - start)
            for j in range(size):
                total[j] *= weights[start + j]
            for j in range(size, PART):
                total[j] = 0.0
            for j in range(0, PART, LANES):
                for lane in range(LANES):
                    lanes[lane] += total[j + lane]
        out[i] = _tree(lanes)


def readout(keys: Matrix, values: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Matrix:
    """Readout at points (m, d) of keys (n, d), values (n, dv) and coefficients (n,) → (m, dv)."""
    order = canonical_order(keys, values, coefficients)
    return readout_in_order(keys[order], values[order], coefficients[order], points, sigma)


def readout_in_order(keys: Matrix, values: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Matrix:
    """`readout` of active entries that are in canonical order."""
    out = np.empty((points.shape[0], values.shape[1]))
    _readout(keys, values, coefficients, points, -1.0 / (sigma * sigma), out)
    return out


def similarity(keys: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Vector:
    """Σ α κ(x, x_i) at points (m, d) → (m,)."""
    active = np.flatnonzero(coefficients)
    # Copies have one coefficient, so their order does not matter.
    order = active[canonical_order(keys[active], keys[active, :0], coefficients[active])]
    out = np.empty(points.shape[0])
    _similarity(keys[order], coefficients[order], points, -1.0 / (sigma * sigma), out)
    return out


def squared_distance_pairs(keys: Matrix, point: Vector) -> tuple[Vector, Vector]:
    """Squared distances from keys (n, d) to a point (d,) as high + low, each (n,), off by less than 2⁻¹⁰⁰ of itself.

    That holds while no square over- or underflows. The pairs are normalised: they are ordered as (high, low).
    """
    count = keys.shape[0]
    high, low = np.empty((2, (count + PART - 1) // PART * PART))
    _distance_pairs(_transposed(keys), count, point, high, low)
    return high[:count], low[:count]


def readout_weights(keys: Matrix, coefficients: Vector, points: Matrix, sigma: float) -> Matrix:
    """α κ(q, x), (m, n), of active keys, each row divided by the κ of the nearest of them."""
    factor = -1.0 / (sigma * sigma)
    exponents = squared_distances(points, keys)
    least = exponents.min(axis=1, keepdims=True)
    exponents -= least
    # A tiny width makes an exponent −∞, which is as good as the floor.
    with np.errstate(over="ignore"):
        exponents *= factor
        beyond = np.flatnonzero(least[:, 0] * factor < -FAR)
    for row in beyond.tolist():
        far = np.empty((keys.shape[0] + PART - 1) // PART * PART)
        _far_exponents(_transposed(keys), keys.shape[0], points[row], factor, far)
        exponents[row] = far[: keys.shape[0]]
    weights = np.empty_like(exponents)
    _weighted_exponentials(exponents, coefficients, weights)
    return weights


@njit(cache=True, nogil=True)
def _weighted_exponentials(exponents: Matrix, coefficients: Vector, out: Matrix) -> None:
    part, shifted, scale = np.zeros(PART), np.empty(PART), np.empty(PART)
    rows, columns = exponents.shape
    for i in range(rows):
        for start in range(0, columns, PART):
            size = min(PART, columns - start)
            for j in range(size):
                part[j] = min(max(exponents[i, start + j], _FLOOR), 0.0)
            exponentials(part, size, shifted, scale)
            for j in range(size):
                out[i, start + j] = coefficients[start + j] * part[j]
