"""Uniform: a simple random sample without replacement, the control that knows nothing.

Paper: the "uniform sampling" row of App. A; J. S. Vitter, *Random sampling with a reservoir* (1985) draws the
same law from a stream.

Deviations: none. The draw is NumPy's ``RandomState.choice``, whose bits are frozen across versions, as the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.selection.context import Context
from expunge.types import IndexArray

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform:
    """Each row equally likely."""

    name: str = "uniform"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """A sample without replacement."""
        return rng.choice(len(context), budget, replace=False)
