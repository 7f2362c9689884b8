"""Recency: the latest entries, as a sliding window keeps them.

Paper: the "recency" row of App. A; the window of Beltagy et al., *Longformer* (https://arxiv.org/abs/2004.05150).

Deviations:

1. No attention sinks: StreamingLLM (https://arxiv.org/abs/2309.17453) also keeps the first few tokens, because a
   softmax must put its weight somewhere; a kernel readout has no such need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.selection.context import Context
from expunge.types import IndexArray

__all__ = ["Recency"]


@dataclass(frozen=True)
class Recency:
    """The last `budget` rows."""

    name: str = "recency"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Rows n − budget to n − 1."""
        return np.arange(len(context) - budget, len(context), dtype=np.int64)
