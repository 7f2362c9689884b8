"""Farthest-first: cover the keys with balls of the smallest radius.

Paper: T. Gonzalez, *Clustering to minimize the maximum intercluster distance* (1985); as a core-set in Sener &
Savarese, *Active Learning for Convolutional Neural Networks: A Core-Set Approach*
(https://arxiv.org/abs/1708.00489).

    next = argmax_i min_{j kept} ‖x_i − x_j‖,

which is within a factor 2 of the best covering radius for any budget.

Deviations:

1. The first row, arbitrary in both papers, is the one farthest from the mean, so that no seed is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.problem.kernel import squared_distances
from expunge.selection.context import Context
from expunge.types import IndexArray

__all__ = ["FarthestFirst"]


@dataclass(frozen=True)
class FarthestFirst:
    """k-centre by farthest-first traversal."""

    name: str = "k-centre"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """The first `budget` rows of the traversal."""
        keys = context.keys
        nearest = squared_distances(keys.mean(axis=0, keepdims=True), keys)[0]
        chosen = np.empty(budget, dtype=np.int64)
        free = np.ones(len(context), dtype=bool)
        for place in range(budget):
            row = int(np.where(free, nearest, -1.0).argmax())
            chosen[place], free[row] = row, False
            distances = squared_distances(keys[row : row + 1], keys)[0]
            nearest = distances if place == 0 else np.minimum(nearest, distances)
        return chosen
