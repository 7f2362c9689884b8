"""Support selection over a stream, maintained: one admission and one deletion per step instead of a fit.

A window of n entries slides over a stream. The selection after each step is the support set of the window's fit at a
fixed cap, which `Memory` keeps current through its checked edits, so the choice equals a fresh fit's at a fraction
of its cost (benchmarks/selection_speed.py).
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from expunge.memory.memory import Memory
from expunge.problem.problem import as_points

__all__ = ["SupportStream"]


class SupportStream:
    """A sliding window of entries whose support set is always known."""

    def __init__(self, keys: Any, *, sigma: float, nu: float) -> None:
        """Start from keys (n, d), oldest first; the cap is 1/(ν n) from now on."""
        points = as_points(keys, "keys")
        self._memory = Memory.fit(points, np.zeros(len(points)), sigma=sigma, nu=nu)
        self._oldest, self._next = 0, len(points)

    def __len__(self) -> int:
        return len(self._memory)

    def __copy__(self) -> Self:
        """With a memory of its own: a stream counts on being the only one that edits it."""
        return copy.deepcopy(self)

    @property
    def memory(self) -> Memory:
        """The memory behind the stream: reading it is fine, editing it is not."""
        return self._memory

    def step(self, key: Any) -> tuple[int, ...]:
        """Take one key in and let the oldest go; the numbers in the stream of the entries selected now, ascending."""
        self._memory.admit(key, 0.0, id=f"{self._next}")
        self._next += 1
        self._memory.delete(f"{self._oldest}")
        self._oldest += 1
        return self.selected

    @property
    def selected(self) -> tuple[int, ...]:
        """Numbers in the stream (0 is the first key ever) of the entries with positive coefficients, ascending."""
        rows = np.flatnonzero(self._memory.coefficients).tolist()
        ids = self._memory.ids
        return tuple(sorted(int(ids[row]) for row in rows))
