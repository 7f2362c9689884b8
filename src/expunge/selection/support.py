"""Support: the entries that the boundary of the one-class fit rests on.

Paper: App. A of *What a Deletion Certificate Covers*; the fit is Schölkopf et al., *Estimating the Support of a
High-Dimensional Distribution* (2001), and Tax & Duin, *Support Vector Data Description* (2004). With (α, g) the
coefficients and slacks of the fit at ν,

    rank: α_i largest first, then g_i smallest first (farthest outside, or closest to the boundary).

Where the budget is the number of active entries the choice is exactly the support set, the paper's policy, and
what is dropped had weight zero.

Deviations:

1. Other budgets than the support set's own: a larger one adds reserve entries near the boundary, a smaller one drops
   the lightest active ones, which no longer leaves the readout of the *weighted* memory as it was.
2. ``nu=None`` uses the budget's own share: at least that many entries are then active.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.memory.memory import Memory
from expunge.selection.context import Context
from expunge.types import IndexArray, Vector

__all__ = ["Support", "support_fit"]


def support_fit(context: Context, nu: float) -> tuple[Vector, Vector]:
    """Coefficients and slacks of a context's checked fit, (n,) each."""
    memory = Memory.fit(context.keys, np.zeros(len(context)), sigma=context.sigma, nu=nu)
    return memory.coefficients, memory.solution.slack(context.keys)


@dataclass(frozen=True)
class Support:
    """The active entries first."""

    nu: float | None = None
    name: str = "support"

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Rows by coefficient, then by slack."""
        nu = budget / len(context) if self.nu is None else self.nu
        coefficients, slacks = support_fit(context, nu)
        return np.lexsort((slacks, -coefficients))[:budget]
