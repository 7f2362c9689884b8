"""The width and the sparsity of a fit where the caller gives none.

The width is the median distance between distinct keys, on the grid of powers of 2^(1/4), or the first wider one at
which the margin is small enough to edit quickly, by a prediction from samples. Design note 0018 compares this rule with
others on real data.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from expunge.compilation import njit
from expunge.preprocessing.grid import quarter_power
from expunge.preprocessing.margin_prediction import FITTED, MarginPrediction
from expunge.preprocessing.pair_count import PairCount, median_of_squares
from expunge.problem.kernel import squared_distances
from expunge.problem.problem import as_points
from expunge.types import IndexArray, Matrix

__all__ = [
    "DEFAULT_NU",
    "LARGEST_MARGIN",
    "choose_width",
    "median_count",
    "median_width",
    "predict_margins",
    "sample_keys",
]

# Sparsity ν of a fit for which neither a sparsity nor a cap is given.
DEFAULT_NU = 0.1
# The pairs of this many distinct keys are enough for a median: it is then rounded to steps of 19 %.
SAMPLED = 1024
# A chosen width has no larger margin than this, by prediction: an edit takes time with it. So few keys need none.
LARGEST_MARGIN = 3000
# Quarter powers of 2 that the width may be above the median distance.
FARTHEST = 16
_ODD = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)


@njit(cache=True, nogil=True)
def _hashes(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """One hash of each row, from the bits of its coordinates in order."""
    found = np.zeros(bits.shape[0], dtype=np.uint64)
    for row in range(bits.shape[0]):
        value = np.uint64(0)
        for column in range(bits.shape[1]):
            value = (value ^ bits[row, column]) * _ODD
            value ^= value >> _HALF
        found[row] = value
    return found


def choose_width(keys: Matrix, *, nu: float = DEFAULT_NU) -> float:
    """Width σ for a fit of these keys: their median distance, or the first wider one with a margin of 3,000 at most.

    The margin is predicted (`predict_margins`); up to 3,000 distinct keys there is nothing to predict. The width is a
    function of the set of keys and ν. Order and copies do not matter, and every machine finds the same bits.

    Parameters
    ----------
    keys : array (n, d)
        Keys, as `Memory.fit` takes them. Of many distinct keys, samples of up to 2,048 count (`sample_keys`).
    nu : float
        Sparsity of the fit.

    Returns
    -------
    float
        The width; 1 where no two keys differ.

    """
    points = as_points(keys, "keys", empty=True)
    width = median_width(points)
    if len(points) <= LARGEST_MARGIN or _distinct(points) <= LARGEST_MARGIN:
        return width
    predicted = predict_margins(points)
    grid = [quarter_power(width * 2.0 ** (step / 4.0)) for step in range(FARTHEST + 1)]
    return next((wider for wider in grid if predicted(wider, nu) <= LARGEST_MARGIN), grid[-1])


def median_width(points: Matrix) -> float:
    """Median distance between validated distinct keys (n, d), rounded to a power of 2^(1/4); 1 where none differ.

    A median of doubles is never halfway between two widths of the grid.
    """
    sample = sample_keys(points, SAMPLED)
    return median_of_squares(squared_distances(sample, sample)[np.triu_indices(len(sample), 1)])


def median_count(points: Matrix, rows: IndexArray, known: PairCount | None = None) -> PairCount:
    """The settled count of the pairs that `median_width` takes the median of; ``known`` is one of similar rows.

    ``rows`` are those of distinct keys among ``points``, ascending.
    """
    if rows.size > SAMPLED:
        hashes = _hashes(np.ascontiguousarray(points[rows]).view(np.uint64))
        rows = rows[hashes <= np.partition(np.unique(hashes), SAMPLED - 1)[SAMPLED - 1]]
    if known is not None:
        known = known.moved(points, rows)
    return known if known is not None and known.settled else PairCount.of(points, rows)


def predict_margins(points: Matrix) -> MarginPrediction:
    """Predict margins of fits of validated keys (n, d); of up to 2,048 distinct ones, by fits of all of them."""
    return MarginPrediction([sample_keys(points, size) for size in FITTED], _distinct(points))


def _distinct(points: Matrix) -> int:
    """How many distinct keys there are, by their hashes."""
    return int(np.unique(_hashes(np.ascontiguousarray(points).view(np.uint64))).size)


def sample_keys(points: Matrix, count: int) -> Matrix:
    """Distinct keys, at most about `count` of them, in ascending order: those whose 64-bit hashes are smallest.

    The sample is a function of the set of points (n, d), which are validated; their places in the array do not matter.
    """
    hashes = _hashes(np.ascontiguousarray(points).view(np.uint64))
    smallest = np.unique(hashes)[:count]
    # Keys that share a hash are all taken, so that the sample does not depend on which comes first.
    return np.unique(points[np.isin(hashes, smallest)], axis=0)
