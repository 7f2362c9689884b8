"""Attention mass: entries that past queries attended to most, after the Heavy-Hitter Oracle (H2O).

Paper: Zhang et al., *H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models*
(https://arxiv.org/abs/2306.14048). With a_q(i) the attention of query q to entry i,

    rank_i = Σ_q a_q(i), largest first; the latest entries are kept whatever their rank.

``normalised=False`` is the deletion paper's proxy: a_q(i) = κ(q, x_i) as it is, no recent entries.
``normalised=True`` divides by Σ_i κ(q, x_i), as a softmax would. The difference is large where redundancy is
skewed: without it a query near ten copies casts ten times the votes of a query near one entry.

Deviations:

1. Attention is the kernel readout's, not a model's softmax(qkᵀ/√d).
2. Without queries the keys are the queries, each attending to all (H2O's are causal).
3. H2O evicts one entry per step, greedily; here the sums over all queries rank once. Like the deletion paper's
   proxy and unlike H2O it may therefore see the queries that it will be judged by: an advantage.
4. ``recent`` is the share of the budget for the latest entries: 0 in the proxy, one half in H2O.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.errors import InputError
from expunge.selection.context import Context, first_rows
from expunge.types import IndexArray

__all__ = ["AttentionMass"]


@dataclass(frozen=True)
class AttentionMass:
    """Rows by the attention that the queries gave them."""

    normalised: bool = False
    recent: float = 0.0
    name: str = "attention"

    def __post_init__(self) -> None:
        if not 0.0 <= self.recent <= 1.0:
            raise InputError(f"recent must be a share of the budget in [0, 1], not {self.recent!r}")

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """The most attended rows, and the latest `recent` share."""
        asked = context.keys if context.queries is None else context.queries
        rank = -context.similarity_sums(asked, normalised=self.normalised)
        latest = int(self.recent * budget)
        if latest:
            rank[-latest:] = -np.inf
        return first_rows(rank, budget)
