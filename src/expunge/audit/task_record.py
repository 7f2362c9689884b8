"""What one task of an experiment keeps: rows for the tables, arrays for the states, seconds apart.

A `TaskRecord` is filled while the task runs and is plain data afterwards, so it travels between processes. Adding a
state stores its arrays and its check, recomputed from them; comparing two states stores what `comparison` measures.
Arrays are named once and used by many: an *expression* is ``name``, or ``name[index]`` for the rows that another array
lists, which is how a hundred states share one pool of keys.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge.audit.comparison import Comparison, StateArrays, compare, readout_at, score_at
from expunge.problem.check import check_state
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD
from expunge.types import AnyArray, Matrix, Vector

__all__ = ["RowLabels", "TaskRecord"]

_NAME = re.compile(r"[A-Za-z0-9_./-]+")
_EXPRESSION = re.compile(r"([A-Za-z0-9_./-]+)(?:\[([A-Za-z0-9_./-]+)\])?")


@dataclass(frozen=True)
class RowLabels:
    """The labels of a row: regime, arm, trial, operation."""

    regime: str
    arm: str
    trial: int
    operation: int = 0

    def of_arm(self, arm: str) -> RowLabels:
        """The labels of another arm's row of the same operation."""
        return RowLabels(self.regime, arm, self.trial, self.operation)


@dataclass
class TaskRecord:
    """What one task keeps: rows by table, and the arrays of one unit."""

    unit: str
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    arrays: dict[str, AnyArray] = field(default_factory=dict)
    _states: dict[str, StateArrays] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Rows and arrays travel; the states can be had from them."""
        return {"unit": self.unit, "tables": self.tables, "arrays": self.arrays, "_states": {}}

    def row(self, table: str, **cells: Any) -> None:
        """Add a row."""
        self.tables.setdefault(table, []).append(cells)

    def array(self, name: str, array: npt.ArrayLike) -> str:
        """Keep an array under a name, once; the same name again must bring the same array."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for an array")
        kept = np.ascontiguousarray(array)
        if name in self.arrays and not np.array_equal(self.arrays[name], kept):
            raise ValueError(f"two different arrays are called {name!r} in {self.unit}")
        self.arrays[name] = kept
        return name

    def get(self, expression: str) -> AnyArray:
        """The array that an expression stands for."""
        found = _EXPRESSION.fullmatch(expression)
        if found is None:
            raise ValueError(f"{expression!r} is no array expression")
        name, index = found.groups()
        return self.arrays[name] if index is None else self.arrays[name][self.arrays[index]]

    def points(self, expressions: Sequence[str]) -> Matrix:
        """The rows of several expressions, one after the other."""
        return np.vstack([self.get(expression) for expression in expressions])

    def trial(
        self,
        labels: RowLabels,
        kind: str,
        status: str,
        path: str,
        *,
        error: str | None = None,
        state: str | None = None,
        candidate: str | None = None,
        **more: Any,
    ) -> None:
        """Record a scheduled operation, whatever became of it."""
        self.row(
            "trials",
            **asdict(labels),
            kind=kind,
            status=status,
            path=path,
            error=error,
            state=state,
            candidate=candidate,
            **more,
        )

    def state(
        self,
        name: str,
        labels: RowLabels,
        *,
        role: str,
        source: str,
        keys: str,
        coefficients: Vector,
        offset: float,
        cap: float,
        sigma: float,
        values: str | None = None,
        groups: npt.NDArray[np.int8] | None = None,
    ) -> str:
        """Keep a state under a name that is unique in the experiment; its check is recomputed and kept beside it."""
        points = self.get(keys)
        weights = self.array(f"{name}/alpha", np.asarray(coefficients, dtype=np.float64))
        recorded = None if groups is None else self.array(f"{name}/groups", groups.astype(np.int8))
        stored = StateArrays(
            points,
            self.arrays[weights],
            float(offset),
            float(cap),
            float(sigma),
            None if values is None else self.get(values),
            None if recorded is None else self.arrays[recorded],
        )
        check = check_state(points, stored.coefficients, stored.offset, cap=stored.cap, sigma=stored.sigma)
        self._states[name] = stored
        self.row(
            "states",
            state=name,
            **asdict(labels),
            role=role,
            source=source,
            unit=self.unit,
            keys=keys,
            coefficients=weights,
            values=values,
            groups=recorded,
            offset=stored.offset,
            cap=stored.cap,
            sigma=stored.sigma,
            size=int(points.shape[0]),
            mass=check.mass,
            box=check.box,
            stationarity=check.stationarity,
            worst=check.worst,
            passed=check.worst <= ACCEPTANCE,
        )
        return name

    def state_arrays(self, name: str) -> StateArrays:
        """The arrays of a state kept by this task."""
        return self._states[name]

    def compare(
        self,
        labels: RowLabels,
        state: str,
        reference: str,
        probes: Sequence[str],
        *,
        against: str,
        tolerance: float | None = None,
        threshold: float = PARTITION_THRESHOLD,
        recorded: bool = True,
        conditioning: float | None = None,
    ) -> Comparison:
        """Compare two states kept by this task, and keep what was measured."""
        ours, theirs = self._states[state], self._states[reference]
        measured = compare(ours, theirs, self.points(probes), threshold=threshold, recorded=recorded)
        self.row(
            "comparisons",
            **asdict(labels),
            against=against,
            tolerance=tolerance,
            state=state,
            reference=reference,
            unit=self.unit,
            probes=list(probes),
            **asdict(measured),
            conditioning=conditioning,
        )
        return measured

    def reading(
        self, labels: RowLabels, name: str, quantity: str, state: str, *, probe: str | None = None, row: int = 0
    ) -> float:
        """Read one number off a state: ``coefficient`` of a row, or ``slack``, ``score`` or ``readout`` at a probe.

        ``row`` counts the entries for a coefficient, and the coordinates of a readout.
        """
        stored = self._states[state]
        if quantity == "coefficient":
            value = float(stored.coefficients[row])
        elif probe is None:
            raise ValueError(f"{quantity} is read at a probe")
        elif quantity == "readout":
            value = float(readout_at(stored, self.get(probe))[0, row])
        else:
            score = float(score_at(stored, self.get(probe))[0])
            value = score if quantity == "score" else score + 2.0 * stored.offset - 1.0
        self.row(
            "readings",
            **asdict(labels),
            name=name,
            quantity=quantity,
            state=state,
            unit=self.unit,
            probe=probe,
            row=row,
            value=value,
        )
        return value

    def answer(self, labels: RowLabels, question: str, state: str, probe: str, candidates: str, expected: int) -> bool:
        """Ask a state: the candidate nearest to its readout at the probe is its answer."""
        readout = readout_at(self._states[state], self.get(probe))[0]
        answer = int(np.argmin(np.linalg.norm(self.get(candidates) - readout, axis=1)))
        self.row(
            "answers",
            **asdict(labels),
            question=question,
            state=state,
            unit=self.unit,
            probe=probe,
            candidates=candidates,
            expected=expected,
            answer=answer,
            right=answer == expected,
        )
        return answer == expected

    @contextmanager
    def timed(self, labels: RowLabels, what: str, **more: Any) -> Iterator[None]:
        """Keep how long a block took, if it did not fail."""
        started = time.perf_counter()
        yield
        self.row("timings", **asdict(labels), what=what, seconds=time.perf_counter() - started, **more)
