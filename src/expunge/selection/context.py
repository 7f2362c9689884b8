"""What a policy sees, and the contract that it keeps.

A policy is a frozen dataclass with a ``name`` and ``choose(context, budget, rng)``. It must return `budget`
distinct rows; it may read the keys, their order, the width and the queries asked so far, never the queries
that will be asked; whatever is random comes from `rng`, so that a seed decides everything. `select` checks
arguments before and the answer after, so a policy itself may assume 1 ≤ budget < n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from expunge.errors import InputError
from expunge.problem.kernel import kernel_block
from expunge.problem.problem import Problem, as_points
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["Context", "Policy", "first_rows", "matched_budget"]

# Kernel values held at once by a blocked sum.
BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class Context:
    """Keys (n, d) in order of arrival, oldest first; the width σ; queries (m, d) asked so far, or None."""

    keys: Matrix
    sigma: float
    queries: Matrix | None = None

    @classmethod
    def of(cls, keys: Any, *, sigma: Any, queries: Any = None) -> Context:
        """Validate what a caller passed. Raises InputError."""
        problem = Problem.of(keys, sigma=sigma, nu=1.0)
        dimension = problem.keys.shape[1]
        asked = None if queries is None else as_points(queries, "queries", dimension=dimension)
        return cls(problem.keys, problem.sigma, asked)

    def __len__(self) -> int:
        return int(self.keys.shape[0])

    def similarity(self, rows: Any) -> Matrix:
        """κ of the keys in `rows` with every key, (len(rows), n)."""
        return kernel_block(self.keys[rows], self.keys, self.sigma)

    def similarity_sums(self, points: Matrix, *, normalised: bool = False) -> Vector:
        """Σ_p κ(p, x_i) over points (m, d) → (n,); normalised: each point's similarities first divided by their sum."""
        total = np.zeros(len(self))
        for part in _blocks(points, len(self)):
            block = kernel_block(part, self.keys, self.sigma)
            if normalised:
                block /= block.sum(axis=1, keepdims=True)
            total += block.sum(axis=0)
        return total


class Policy(Protocol):
    """One way to choose what stays."""

    @property
    def name(self) -> str:
        """The word by which `select` and the tables call it."""
        ...

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """`budget` distinct rows, in any order."""
        ...


def matched_budget(count: int, budget: int | float) -> int:
    """The number of rows that a budget means for `count` of them: itself, or a share in (0, 1) of them, rounded.

    A share keeps at least one row. Raises InputError for what is neither a number of rows nor a share.
    """
    if isinstance(budget, bool | np.bool_) or not isinstance(budget, int | float | np.integer | np.floating):
        raise InputError(f"budget must be a number of rows or a share in (0, 1), not {budget!r}")
    if isinstance(budget, float | np.floating):
        if not 0.0 < budget < 1.0:
            raise InputError(f"a budget given as a share must lie in (0, 1), not {budget!r}; pass an int for a count")
        return max(1, math.floor(float(budget) * count + 0.5))
    if not 1 <= budget <= count:
        raise InputError(f"budget must lie between 1 and the {count} rows there are, not {budget!r}")
    return int(budget)


def first_rows(rank: Vector, budget: int) -> IndexArray:
    """The rows with the smallest rank, earlier rows first among equals."""
    return np.argsort(rank, kind="stable")[:budget]


def _blocks(points: Matrix, columns: int) -> Iterator[Matrix]:
    rows = max(1, BLOCK // columns)
    for start in range(0, points.shape[0], rows):
        yield points[start : start + rows]
