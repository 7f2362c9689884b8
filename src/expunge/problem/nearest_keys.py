"""The keys nearest to a point by Euclidean distance, in an order that keys and names alone decide.

Squared distances in double precision are off by at most (d + 2)u of themselves, u = 2⁻⁵³. So the keys that can be among
the nearest are those whose computed distance is at most (1 + 3(d + 2)u) times the last one's; of these it is computed
again, as a pair of doubles, off by less than 2⁻¹⁰⁰. Equal distances are ordered by name. All of it is IEEE operations
in a stated order: the same on every machine, whatever the order of the keys. Distances of one answer that differ by a
factor of more than 1e150 are the exception: the smaller ones then count as equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from expunge.problem.kernel import squared_distances
from expunge.problem.readout import squared_distance_pairs
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["nearest_keys"]

# Squares below it may have lost digits to underflow, or all of them.
_TINY = 1e-290


def nearest_keys(keys: Matrix, names: Sequence[str], point: Vector, count: int) -> tuple[IndexArray, Vector]:
    """Rows of the keys (n, d) nearest to a point (d,), and their distances, nearest first: at most `count` of each."""
    rows = np.arange(keys.shape[0])
    if count < rows.size:
        rough = squared_distances(point[None, :], keys)[0]
        last = float(np.partition(rough, count - 1)[count - 1])
        rows = np.flatnonzero(rough <= last * (1.0 + 3.0 * (keys.shape[1] + 2) * 2.0**-53) + _TINY)
    candidates = keys[rows]
    # Scaled by a power of two, which is exact, so that squares neither overflow nor underflow.
    largest = max(float(np.abs(candidates).max(initial=0.0)), float(np.abs(point).max()))
    exponent = math.frexp(largest)[1]
    high, low = squared_distance_pairs(np.ldexp(candidates, -exponent), np.ldexp(point, -exponent))
    triples = zip(high.tolist(), low.tolist(), [names[row] for row in rows.tolist()], strict=True)
    order = [place for place, _ in sorted(enumerate(triples), key=lambda item: item[1])][:count]
    return rows[order], np.ldexp(np.sqrt(high[order]), exponent)
