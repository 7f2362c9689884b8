"""Density: the entries most like the others, the clinical stand-in for accumulated attention.

Paper: the "similarity-density proxy" of App. A, labelled H2O in its timeline figure.

    rank_i = Σ_j κ(x_i, x_j), largest first.

It keeps what is typical, so it loses what is rare by construction: the comparison to beat, not a strong one.

Deviations: none known; the paper gives no formula, and its own term (κ = 1) is the same for every key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.selection.context import Context, first_rows
from expunge.types import IndexArray

__all__ = ["Density"]


@dataclass(frozen=True)
class Density:
    """Rows by their summed similarity to all keys."""

    name: str = "density"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """The densest rows."""
        return first_rows(-context.similarity_sums(context.keys), budget)
