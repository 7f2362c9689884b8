"""The median width of keys that come and go: counts of pairs tell whether it is still the same.

Of a sample of keys the pairs are counted whose distance rounds to a narrower width of the grid, and to the width
itself. A key that comes or goes changes these counts by its own pairs alone. As long as the middle of all pairs is
among those of the width, their median rounds to it, whatever it is; else it is found anew. The counts, like the width,
are a function of the keys.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from expunge.preprocessing.grid import quarter_power
from expunge.problem.kernel import squared_distances
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["PairCount", "median_of_squares"]

# Squares of widths outside these have neighbours that underflow or overflow: such a median is found anew each time.
_LEAST, _MOST = 1e-280, 1e280


def median_of_squares(squares: Vector) -> float:
    """Median of distances, given as squares, rounded to a power of 2^(1/4); 1 where none is above zero."""
    squares = squares[squares > 0.0]
    return quarter_power(math.sqrt(float(np.median(squares)))) if squares.size else 1.0


@dataclass(frozen=True, eq=False)
class PairCount:
    """How the distances of the pairs of some keys lie about a width of the grid.

    Attributes
    ----------
    rows : array of int
        Which keys are counted, ascending.
    width : float
        The width that the counts are about: the median of earlier keys.
    below, inside, total : int
        Pairs whose distance rounds to a narrower width, to this width, and all that differ.

    """

    rows: IndexArray
    width: float
    below: int
    inside: int
    total: int

    @classmethod
    def of(cls, keys: Matrix, rows: IndexArray) -> PairCount:
        """Count the pairs of these rows of ``keys`` about their median."""
        squares = _within(keys[rows])
        width = median_of_squares(squares)
        return cls(rows, width, *_counts(squares, width))

    @property
    def settled(self) -> bool:
        """Whether the counts tell that the width is the median of the pairs."""
        low, high = (self.total - 1) // 2, self.total // 2
        return self.below <= low and high < self.below + self.inside

    def moved(self, keys: Matrix, rows: IndexArray) -> PairCount:
        """The count of other rows of the same ``keys``, about the same width. Those that go still have their keys."""
        gone, new = np.setdiff1d(self.rows, rows), np.setdiff1d(rows, self.rows)
        stays = keys[np.intersect1d(self.rows, rows)]
        found = [self.below, self.inside, self.total]
        for sign, some in ((-1, keys[gone]), (1, keys[new])):
            for squares in (_within(some), squared_distances(some, stays).ravel()) if len(some) else ():
                found = [one + sign * other for one, other in zip(found, _counts(squares, self.width), strict=True)]
        return PairCount(rows, self.width, *found)


def _within(points: Matrix) -> Vector:
    """Squared distance of every pair of points."""
    return np.asarray(squared_distances(points, points)[np.triu_indices(len(points), 1)])


def _counts(squares: Vector, width: float) -> tuple[int, int, int]:
    """How many distances round to narrower widths, to this one, and how many are not zero."""
    low, high = _bounds(width)
    total, under = np.count_nonzero(squares > 0.0), np.count_nonzero((squares > 0.0) & (squares < low))
    return int(under), int(np.count_nonzero((squares >= low) & (squares < high))), int(total)


@lru_cache(maxsize=64)
def _bounds(width: float) -> tuple[float, float]:
    """The least square of a distance that rounds to this width, and the least that rounds to a wider one."""
    square = width * width
    if not _LEAST < square < _MOST:
        return math.inf, math.inf
    return _least(square / 2.0, square, width), _least(square, square * 2.0, math.nextafter(width, math.inf))


def _least(low: float, high: float, width: float) -> float:
    """The least double above ``low`` whose root rounds to ``width`` or more; that of ``high`` does."""
    # Doubles above zero are in the order of their bits.
    under, over = _bits(low), _bits(high)
    while over - under > 1:
        middle = (under + over) // 2
        if quarter_power(math.sqrt(_double(middle))) >= width:
            over = middle
        else:
            under = middle
    return _double(over)


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
