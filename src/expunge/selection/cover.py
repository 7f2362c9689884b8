"""Cover: one of everything first, rarest first; then what disturbs the rest least. Ours.

An entry's neighbourhood is what is at least half similar to it, κ ≥ 1/2, that is within σ√(ln 2).

1. *One of everything.* With density d_i = Σ_j κ(x_i, x_j), go through the entries from the least dense, and keep
   each that no kept entry has in its neighbourhood. These are the representatives r: no two are near each other,
   and, unless the budget ends first, every entry is near one.
2. *What disturbs least.* Fill the budget with entries of the smallest

       w_i = Σ_r κ(x_i, x_r) − max_r κ(x_i, x_r),

   their similarity to every representative but their own. A readout with equal weights,
   o(q) = Σκ(q, x_i)v_i / Σκ(q, x_i), is wrong at a rare entry when many kept copies elsewhere outvote it: ten
   entries at κ = 0.15 weigh more than one at κ = 1. So the copies that are kept are those far from everything else.

Support selection, farthest-first and leverage scores do the first step in their way and then spread the budget evenly,
which leaves some rare entries outvoted; low density alone outvotes nobody but drops whole groups. The comparison with
the attempts that failed is in docs/results/selection.md.

The neighbourhood's 1/2 is the only constant. It costs O(n²) kernel values for the densities, in blocks, and O(n) for
each representative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.errors import InputError
from expunge.selection.context import Context, first_rows
from expunge.types import IndexArray, Vector

__all__ = ["Cover"]


@dataclass(frozen=True)
class Cover:
    """Representatives, rarest first, then the entries that disturb them least."""

    near: float = 0.5
    name: str = "cover"

    def __post_init__(self) -> None:
        if not 0.0 < self.near < 1.0:
            raise InputError(f"near must lie in (0, 1), not {self.near!r}")

    def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
        """Rows of the cover, then of the fill."""
        densities = context.similarity_sums(context.keys)
        chosen, closest, total = self.representatives(context, densities, budget)
        if chosen.size == budget:
            return chosen
        disturbance = total - closest
        disturbance[chosen] = np.inf
        return np.concatenate([chosen, first_rows(disturbance, budget - chosen.size)])

    def representatives(self, context: Context, densities: Vector, budget: int) -> tuple[IndexArray, Vector, Vector]:
        """Rows of at most `budget` representatives; every key's largest κ with one, and its sum of them, (n,)."""
        chosen: list[int] = []
        closest, total = np.zeros(len(context)), np.zeros(len(context))
        for row in np.argsort(densities, kind="stable").tolist():
            if closest[row] >= self.near:
                continue
            chosen.append(row)
            if len(chosen) == budget:
                break
            similarity = context.similarity([row])[0]
            np.maximum(closest, similarity, out=closest)
            total += similarity
        return np.array(chosen, dtype=np.int64), closest, total
