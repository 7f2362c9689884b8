"""Observation window: what the latest entries attend to, after SnapKV.

Paper: Li et al., *SnapKV: LLM Knows What You are Looking for Before Generation*
(https://arxiv.org/abs/2404.14469). With the last w entries as queries, a_q(i) their attention to earlier ones and
pool a maximum over p neighbouring positions,

    rank_i = pool_i( Σ_{q in window} a_q(i) ), largest first; the window itself is always kept.

Deviations:

1. Attention is the normalised kernel, κ(x_q, x_i) / Σ_{j before the window} κ(x_q, x_j), and the window's keys
   are its queries: an explicit memory has no query projection.
2. The window is at most half the budget, so that small budgets still choose something.
3. One selection for the whole context; SnapKV selects in each attention head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.errors import InputError
from expunge.selection.context import Context, first_rows
from expunge.types import IndexArray

__all__ = ["ObservationWindow"]


@dataclass(frozen=True)
class ObservationWindow:
    """The last rows, and the earlier ones that they attend to."""

    window: int = 16
    pool: int = 5
    name: str = "window"

    def __post_init__(self) -> None:
        if self.window < 1 or self.pool < 1 or self.pool % 2 == 0:
            raise InputError("window must be positive and pool positive and odd")

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """The window, then the earlier rows by pooled attention."""
        size = max(1, min(self.window, budget // 2))
        before = len(context) - size
        earlier = Context(context.keys[:before], context.sigma)
        attention = earlier.similarity_sums(context.keys[before:], normalised=True)
        reach = self.pool // 2
        padded = np.pad(attention, reach, constant_values=-np.inf)
        pooled = np.lib.stride_tricks.sliding_window_view(padded, self.pool).max(axis=1)
        chosen = first_rows(-pooled, budget - size)
        return np.concatenate([chosen, np.arange(before, len(context))])
