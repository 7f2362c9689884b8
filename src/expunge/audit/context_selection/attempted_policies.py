"""Attempts at a better policy that `Cover` was chosen over. They keep the contract; each says what it taught.

- *Sparse first*: the least dense entries. Rare entries are seldom outvoted, but whole groups of copies vanish.
- *Even thinning*: drop the densest entry again and again. It keeps the same number of copies of every group, so
  a rare entry between two groups is still outvoted.
- *Leverage*: ridge leverage scores, the diagonal of K(K + λI)⁻¹: near one for a rare entry, near 1/m for one of m
  copies, and then equal among copies, so the rest of the budget is spread evenly.
- *Determinant*: the greedy maximum of det K_SS (a determinantal point process's mode). Volume likes distance and knows
  nothing of votes.
- *Cover, then thin*: the same representatives as `Cover`, the rest by even thinning: what the second step is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.problem.kernel import kernel_block
from expunge.selection import Context, Cover, Policy
from expunge.selection.context import first_rows
from expunge.types import IndexArray, Matrix

__all__ = ["ATTEMPTS", "CoverThenThin", "Determinant", "EvenThinning", "Leverage", "SparseFirst"]


def _gram(context: Context) -> Matrix:
    return kernel_block(context.keys, context.keys, context.sigma)


def _thinned(gram: Matrix, budget: int, held: IndexArray) -> IndexArray:
    """Rows left after dropping the densest that is not held, until `budget` are."""
    droppable = np.ones(gram.shape[0], dtype=bool)
    droppable[held] = False
    left = np.ones(gram.shape[0], dtype=bool)
    density = gram.sum(axis=1)
    for _ in range(gram.shape[0] - budget):
        row = int(np.where(left & droppable, density, -np.inf).argmax())
        left[row] = False
        density -= gram[row]
    return np.flatnonzero(left)


@dataclass(frozen=True)
class SparseFirst:
    """The least dense entries."""

    name: str = "attempt: sparse first"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Rows by summed similarity, smallest first."""
        return first_rows(context.similarity_sums(context.keys), budget)


@dataclass(frozen=True)
class EvenThinning:
    """Without the densest, one at a time."""

    name: str = "attempt: even thinning"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """What thinning leaves."""
        return _thinned(_gram(context), budget, np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class Leverage:
    """The largest ridge leverage scores."""

    ridge: float = 0.1
    name: str = "attempt: leverage"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Rows by the diagonal of K(K + λI)⁻¹, largest first."""
        gram = _gram(context)
        inverse = np.linalg.inv(gram + self.ridge * np.eye(len(context)))
        # K(K + λI)⁻¹ = I − λ(K + λI)⁻¹.
        return first_rows(np.diag(inverse), budget)


@dataclass(frozen=True)
class Determinant:
    """The greedy largest volume in feature space."""

    name: str = "attempt: determinant"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Pivots of a pivoted Cholesky factorization of K, from the least dense row."""
        gram = _gram(context)
        rest = np.ones(len(context))
        factor = np.zeros((budget, len(context)))
        chosen: list[int] = []
        row = int(gram.sum(axis=1).argmin())
        for place in range(budget):
            chosen.append(row)
            # Where rounding has used up the volume any row is as good as another.
            scale = np.sqrt(max(float(rest[row]), 1e-12))
            factor[place] = (gram[row] - factor[:place, row] @ factor[:place]) / scale
            rest = rest - factor[place] ** 2
            rest[chosen] = -np.inf
            row = int(rest.argmax())
        return np.array(chosen, dtype=np.int64)


@dataclass(frozen=True)
class CoverThenThin:
    """`Cover`'s representatives, the rest thinned evenly."""

    name: str = "attempt: cover, then thin"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Representatives and what thinning leaves."""
        gram = _gram(context)
        chosen, _, _ = Cover().representatives(context, gram.sum(axis=1), budget)
        return _thinned(gram, budget, chosen)


ATTEMPTS: dict[str, Policy] = {
    policy.name: policy for policy in (SparseFirst(), EvenThinning(), Leverage(), Determinant(), CoverThenThin())
}
