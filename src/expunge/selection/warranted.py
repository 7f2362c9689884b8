"""Warranted support: keep the support set, and spend the rest of the budget where a certificate would end first.

Paper: the certificate is Proposition 1 of *What a Deletion Certificate Covers*; how long it lasts is ours
(docs/concepts/warranties.md). A dropped entry j with slack g_j stays weightless while g_j − Δρ − 2·loss_j ≥ 0, where
loss_j is what ⟨c, φ_j⟩ has lost. If active entries lose mass m altogether, loss_j ≤ m·max_i κ(x_i, x_j), so at an
unchanged offset the certificate outlives every edit that moves less than

    life_j = g_j / (2 max_{i active} κ(x_i, x_j)).

    rank: active entries by α, largest first; then the others by life_j, shortest first.

What is dropped is then what can be dropped for longest. `Memory.prune` issues the warranties themselves, with
sharper bounds.

Deviations:

1. The fit takes half of the budget's share as ν (``share``), so that the other half is left to spend. Where more
   entries are active than that, there is less; where more than the budget are, the lightest go, as in `Support`.
2. The offset's own motion is left out of the rank: it is the same for every entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.errors import InputError
from expunge.problem.kernel import kernel_block
from expunge.selection.context import Context
from expunge.selection.support import support_fit
from expunge.types import IndexArray

__all__ = ["WarrantedSupport"]


@dataclass(frozen=True)
class WarrantedSupport:
    """The support set, then the entries whose certificates would be shortest."""

    share: float = 0.5
    name: str = "warranted"

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise InputError(f"share must lie in (0, 1], not {self.share!r}")

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Rows by coefficient, then by the life of a certificate."""
        # At least one entry's worth: C = 1 is the largest cap that means anything.
        nu = max(1.0, self.share * budget) / len(context)
        coefficients, slacks = support_fit(context, nu)
        active = np.flatnonzero(coefficients)
        closest = np.zeros(len(context))
        step = max(1, 2_000_000 // len(context))
        for start in range(0, active.size, step):
            block = kernel_block(context.keys[active[start : start + step]], context.keys, context.sigma)
            np.maximum(closest, block.max(axis=0), out=closest)
        life = np.maximum(slacks, 0.0) / (2.0 * closest)
        return np.lexsort((life, -coefficients))[:budget]
