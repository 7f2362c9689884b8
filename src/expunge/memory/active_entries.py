"""The entries with a weight: all that `read`, `score`, `judge` and `search` need.

Entries without one are in no readout and in no score. So these answers are the same bits whether they come from a whole
memory or from its active entries alone, which a store opens long before the others
(:mod:`expunge.store.partial_reads`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from expunge.errors import InputError
from expunge.preprocessing.measurements import as_key_rows
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.problem.judgement import Judgement, judge
from expunge.problem.problem import Problem
from expunge.problem.readout import canonical_order, readout_in_order
from expunge.problem.solution import Solution
from expunge.types import Matrix, Rows, Vector

__all__ = ["ActiveEntries", "Description"]

# Id, subject, and payload as it is encoded.
Description: TypeAlias = tuple[str, str | None, bytes | None]


@dataclass(frozen=True, eq=False)
class ActiveEntries:
    """Active entries in the order in which readouts sum them. ``describe`` gives what else one of them holds, by place.

    ``checked`` names the entries that were opened and checked: these, or all.
    """

    keys: Matrix
    values: Matrix
    coefficients: Vector
    cap: float
    sigma: float
    offset: float
    preprocessing: Preprocessing
    describe: Callable[[int], Description]
    checked: Literal["active entries", "all entries"] = "all entries"

    @classmethod
    def of(
        cls,
        solution: Solution,
        values: Matrix,
        preprocessing: Preprocessing,
        describe: Callable[[int], Description],
        *,
        checked: Literal["active entries", "all entries"] = "all entries",
    ) -> ActiveEntries:
        """Put active entries, given in any order, in the one of readouts."""
        problem, weights = solution.problem, solution.coefficients
        order = canonical_order(problem.keys, values, weights)
        places = order.tolist()
        return cls(
            problem.keys[order],
            values[order],
            weights[order],
            problem.cap,
            problem.sigma,
            solution.offset,
            preprocessing,
            lambda place: describe(places[place]),
            checked,
        )

    @property
    def columns(self) -> Preprocessing | None:
        """Columns of keys and values; None where there are none."""
        return self.preprocessing if self.preprocessing.keys else None

    @property
    def dimension(self) -> int:
        """Coordinates of a key."""
        return int(self.keys.shape[1])

    def points(self, rows: Rows, name: str) -> Matrix:
        """Coordinates (m, d) or (d,), or rows by column name, as points (m, d)."""
        return as_key_rows(rows, self.columns, self.dimension, name=name)

    def read(self, points: Matrix) -> Matrix:
        """Readout at points (m, d) → (m, dv)."""
        self._require_some()
        return readout_in_order(self.keys, self.values, self.coefficients, points, self.sigma)

    def score(self, points: Matrix) -> Vector:
        """Gate score at points (m, d) → (m,)."""
        return self._solution().score(points)

    def judge(self, points: Matrix) -> list[Judgement]:
        """Whether points (m, d) are inside the boundary, and how far from it."""
        return judge(self._solution(), points)

    def _solution(self) -> Solution:
        self._require_some()
        return Solution(Problem(self.keys, self.cap, self.sigma), self.coefficients, self.offset)

    def _require_some(self) -> None:
        if not np.any(self.coefficients):
            raise InputError("the memory is empty: admit an entry first", code="memory-empty")
