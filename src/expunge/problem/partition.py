"""Margin, bound and reserve: where each coefficient sits (the paper's S, E and R)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.types import IndexArray, Vector

__all__ = ["Partition"]


@dataclass(frozen=True, eq=False)
class Partition:
    """Row numbers of each group, ascending; disjoint and covering."""

    margin: IndexArray
    bound: IndexArray
    reserve: IndexArray

    @classmethod
    def of(cls, coefficients: Vector, cap: float, threshold: float = 0.0) -> Partition:
        """Sort coefficients (n,) by where they sit; within `threshold` of a bound counts as at it."""
        lower = coefficients <= threshold
        upper = (coefficients >= cap - threshold) & ~lower
        return cls(np.flatnonzero(~lower & ~upper), np.flatnonzero(upper), np.flatnonzero(lower))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, group), getattr(other, group)) for group in ("margin", "bound", "reserve")
        )

    __hash__ = None  # type: ignore[assignment]
