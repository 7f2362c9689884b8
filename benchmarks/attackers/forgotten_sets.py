"""Game C: which entries a pruning took depended on x, and x was erased afterwards. Not promised; measured here.

Both modes are measured. After ``forget`` the set of forgotten entries stays, and certificates of that pruning have
ended, which says that *some* entry live at it was erased. After ``archive`` the set stays until the next pruning,
which makes it a function of the entries again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from expunge import Memory

__all__ = ["PrunedSets", "pruned_sets"]

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PrunedSets:
    """What is pruned at the end, in worlds that held x₀, x₁, or neither, at the pruning."""

    first: frozenset[str]
    second: frozenset[str]
    never: frozenset[str]

    @property
    def tells_which(self) -> bool:
        """Whether the sets tell x₀ from x₁."""
        return self.first != self.second

    @property
    def tells_whether(self) -> bool:
        """Whether the sets tell x₀ from no entry."""
        return self.first != self.never


def pruned_sets(
    keys: Matrix,
    values: Matrix,
    candidates: tuple[Vector, Vector],
    *,
    sigma: float,
    cap: float,
    mode: Literal["archive", "forget"],
    again: bool = False,
) -> PrunedSets:
    """Play the three worlds; `again` prunes once more after the erasure."""

    def world(x: Vector | None) -> frozenset[str]:
        memory = Memory.fit(keys, values, sigma=sigma, cap=cap)
        if x is not None:
            memory.admit(x, np.full(values.shape[1], 0.5), id="x")
        memory.prune(mode)
        if x is not None:
            memory.delete("x")
        if again:
            memory.prune(mode)
        return frozenset(row.id for row in memory.warranties())

    return PrunedSets(world(candidates[0]), world(candidates[1]), world(None))
