"""How alike a query and the vectors of items are, each pair by itself.

A score is computed from the two vectors alone, in one stated order of operations, whatever other vectors there are and
were: it tells nothing of them.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from expunge.compilation import njit
from expunge.errors import InputError
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["Distance", "check_distance", "scores"]

Distance = Literal["cosine", "inner_product", "l2"]


def check_distance(value: Any) -> Distance:
    """A distance by LangGraph's name for it; InputError for another."""
    found: Distance | None = next((name for name in get_args(Distance) if name == value), None)
    if found is None:
        raise InputError(f"distance_type must be one of {', '.join(get_args(Distance))}, not {value!r}")
    return found


@njit(cache=True, nogil=True)
def _product(first: Vector, second: Vector) -> float:
    """Inner product of two vectors, summed in four lanes."""
    one = two = three = four = 0.0
    whole = first.size - first.size % 4
    for start in range(0, whole, 4):
        one += first[start] * second[start]
        two += first[start + 1] * second[start + 1]
        three += first[start + 2] * second[start + 2]
        four += first[start + 3] * second[start + 3]
    for place in range(whole, first.size):
        one += first[place] * second[place]
    return (one + two) + (three + four)


@njit(cache=True, nogil=True)
def _products(table: Matrix, rows: IndexArray, query: Vector) -> Vector:
    found = np.empty(rows.size)
    for place in range(rows.size):
        found[place] = _product(table[rows[place]], query)
    return found


@njit(cache=True, nogil=True)
def _cosines(table: Matrix, rows: IndexArray, query: Vector) -> Vector:
    found, length = np.zeros(rows.size), np.sqrt(_product(query, query))
    for place in range(rows.size):
        row = table[rows[place]]
        size = np.sqrt(_product(row, row)) * length
        if size > 0.0:
            found[place] = _product(row, query) / size
    return found


@njit(cache=True, nogil=True)
def _distances(table: Matrix, rows: IndexArray, query: Vector) -> Vector:
    found, difference = np.empty(rows.size), np.empty(query.size)
    for place in range(rows.size):
        row = table[rows[place]]
        for column in range(query.size):
            difference[column] = row[column] - query[column]
        found[place] = np.sqrt(_product(difference, difference))
    return found


def scores(distance: Distance, table: Matrix, rows: IndexArray, query: Vector) -> Vector:
    """Scores of rows (m,) of a table (n, d) for a query (d,): the larger, the more alike.

    ``cosine`` is the similarity, 0 for a vector without a direction; ``inner_product`` is the product; ``l2`` is the
    Euclidean distance with its sign changed.
    """
    if distance == "inner_product":
        return _typed(_products(table, rows, query))
    return _typed(_cosines(table, rows, query) if distance == "cosine" else -_distances(table, rows, query))


def _typed(found: Any) -> Vector:
    """What a compiled function returns, which has no types."""
    vector: Vector = found
    return vector
