"""Both runs of the paper's solver (§4.4–4.6): the maintained update, checked by nobody, by a refit, or by the wrapper.

- `ClassicUpdate` is the update alone, as in the standalone audit: what it returns is what it returns.
- `InitialRun` is the first sequential run: a state that fails the check at 1e-5 is replaced by a refit at 1e-10, and a
  trajectory ends when the replacement fails too.
- `GuardedRun` is the follow-up: the update works on a copy, a candidate that fails the check is rescued by a refit at
  1e-12, then 1e-13, unclipped, with the minimax offset; if none passes, the edit is refused and the old state stays.

The check, the thresholds and the programs are the paper's. References come from the same solver, as in the paper
(`refit`, `strict_refit`); the audits add an independent one. How the update fails is told in `update`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from expunge.audit.classic.events import ClassicFailure, Event, Trace
from expunge.audit.classic.update import BOUND, MARGIN, RESERVE, ClassicPath
from expunge.errors import SolveError
from expunge.problem.check import StateCheck, check_state
from expunge.problem.kernel import kernel_block
from expunge.problem.partition import Partition
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD
from expunge.solver.backends import minimax_offset
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "STRICT_TOLERANCES",
    "ClassicState",
    "ClassicStep",
    "ClassicUpdate",
    "GuardedRun",
    "InitialRun",
    "WrongEvent",
    "decay",
    "refit",
    "strict_refit",
]

STRICT_TOLERANCES = (1e-12, 1e-13)
# The offset of decayed coefficients, which solve nothing, is taken over a margin at this threshold.
DECAY_THRESHOLD = 1e-6

Groups = npt.NDArray[np.int8]
Status = Literal["returned", "failed", "refused"]


@dataclass(frozen=True, eq=False)
class ClassicState:
    """One state: coefficients (n,) in the order of the keys, the stored offset, and the recorded groups (n,).

    Groups are 0 reserve, 1 margin, 2 bound: what the solver believes, not where the coefficients are.
    """

    coefficients: Vector
    offset: float
    groups: Groups

    @classmethod
    def of(cls, path: ClassicPath) -> Self:
        """Take the state that a path has reached."""
        return cls(path.coefficients.copy(), path.offset, path.groups.copy())

    def check(self, keys: Matrix, *, cap: float, sigma: float) -> StateCheck:
        """Recompute the errors at keys (n, d) and judge them at the paper's 1e-5."""
        return check_state(keys, self.coefficients, self.offset, cap=cap, sigma=sigma, tolerance=ACCEPTANCE)

    def score(self, keys: Matrix, points: Matrix, *, sigma: float) -> Vector:
        """Gate score at points (m, d), summed over margin and bound as the paper's solver does."""
        active = self.groups != RESERVE
        weights = kernel_block(points, keys[active], sigma) @ self.coefficients[active]
        return np.asarray(2.0 * weights - self.offset)


@dataclass(frozen=True)
class WrongEvent:
    """An event accepted although the key's slack was moving toward validity.

    ``event`` counts the events of the update from 1, ``row`` is the key's row before the edit (of the keys with the new
    one last, for an admission), ``direction`` is the rate of its slack, and ``step`` the signed length of the step.
    """

    event: int
    row: int
    group: Literal["bound", "reserve"]
    slack: float
    direction: float
    step: float


@dataclass(frozen=True, eq=False)
class ClassicStep:
    """What one edit, or the first fit, came to.

    ``candidate`` is what the update returned, unchecked, None if it raised; ``published`` is the state that counts
    afterwards, None when the run has ended. ``traces`` explains each coefficient of the candidate that lies outside
    the box by more than 1e-5, and ``wrong`` is the first wrong-side event of the update.
    """

    status: Status
    path: str
    candidate: ClassicState | None
    published: ClassicState | None
    events: int = 0
    wrong: WrongEvent | None = None
    error: str | None = None
    traces: tuple[Trace, ...] = ()


class ClassicUpdate:
    """The maintained update alone. After a step with the status "failed" there is no state."""

    def __init__(self, path: ClassicPath) -> None:
        self._path = path

    @classmethod
    def fit(cls, keys: Matrix, *, cap: float, sigma: float) -> Self:
        """Start from the quadratic program at 1e-10."""
        return cls(ClassicPath.fit(keys, cap=cap, sigma=sigma))

    @property
    def keys(self) -> Matrix:
        """The present keys (n, d)."""
        return self._path.keys

    @property
    def state(self) -> ClassicState:
        """The state as it stands."""
        return ClassicState.of(self._path)

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event since the start."""
        return tuple(self._path.events)

    def copy(self) -> Self:
        """Make an independent copy."""
        return type(self)(self._path.copy())

    def delete(self, row: int) -> ClassicStep:
        """Remove one row by the reverse path."""
        return _edit(self._path, row)

    def admit(self, key: Vector) -> ClassicStep:
        """Append one key (d,) by the forward path."""
        return _edit(self._path, key)


class InitialRun:
    """The first sequential run: check, refit at 1e-10, stop when that fails too."""

    def __init__(self, path: ClassicPath) -> None:
        self._path = path

    @classmethod
    def start(cls, keys: Matrix, *, cap: float, sigma: float) -> tuple[Self | None, ClassicStep]:
        """Fit; a first state that fails the check ends the trajectory before it begins."""
        path = ClassicPath.fit(keys, cap=cap, sigma=sigma)
        state = ClassicState.of(path)
        if not path.check().passed:
            return None, ClassicStep("failed", "", state, None, error=_complaint(path.check()))
        return cls(path), ClassicStep("returned", "fit", state, state)

    def delete(self, row: int) -> ClassicStep:
        """Remove one row."""
        return self._settle(_edit(self._path, row))

    def admit(self, key: Vector) -> ClassicStep:
        """Append one key (d,)."""
        return self._settle(_edit(self._path, key))

    def _settle(self, step: ClassicStep) -> ClassicStep:
        if step.candidate is not None and self._path.check().passed:
            return step
        complaint = step.error if step.candidate is None else _complaint(self._path.check())
        try:
            self._path = self._path.refit()
        except SolveError as error:
            return _amended(step, "failed", "", None, f"{complaint}; the refit: {error}")
        if not self._path.check().passed:
            return _amended(step, "failed", "", None, f"{complaint}; the refit: {_complaint(self._path.check())}")
        return _amended(step, "returned", "fallback", ClassicState.of(self._path), complaint)


class GuardedRun:
    """The follow-up: a copy is updated and checked, then rescued at 1e-12 and 1e-13, then refused."""

    def __init__(self, path: ClassicPath) -> None:
        self._path = path

    @classmethod
    def start(cls, keys: Matrix, *, cap: float, sigma: float) -> tuple[Self | None, ClassicStep]:
        """Fit, rescuing a first state that fails the check."""
        path = ClassicPath.fit(keys, cap=cap, sigma=sigma)
        state = ClassicState.of(path)
        if path.check().passed:
            return cls(path), ClassicStep("returned", "fit", state, state)
        complaint = _complaint(path.check())
        rescued = _rescue(path)
        if rescued is None:
            return None, ClassicStep("failed", "", state, None, error=complaint)
        return cls(rescued[0]), ClassicStep("returned", rescued[1], state, ClassicState.of(rescued[0]), error=complaint)

    def delete(self, row: int) -> ClassicStep:
        """Remove one row, or refuse."""
        return self._transact(row)

    def admit(self, key: Vector) -> ClassicStep:
        """Append one key (d,), or refuse."""
        return self._transact(key)

    def _transact(self, change: int | Vector) -> ClassicStep:
        candidate = self._path.copy()
        step = _edit(candidate, change)
        if step.candidate is not None and candidate.check().passed:
            self._path = candidate
            return step
        complaint = step.error if step.candidate is None else _complaint(candidate.check())
        rescued = _rescue(candidate)
        if rescued is None:
            return _amended(step, "refused", "", ClassicState.of(self._path), complaint)
        self._path = rescued[0]
        return _amended(step, "returned", rescued[1], ClassicState.of(self._path), complaint)


def refit(keys: Matrix, *, cap: float, sigma: float) -> ClassicState:
    """Solve afresh at 1e-10: the reference of the standalone audit and of the first run. It may fail the check."""
    return ClassicState.of(ClassicPath.fit(keys, cap=cap, sigma=sigma))


def strict_refit(keys: Matrix, *, cap: float, sigma: float) -> ClassicState:
    """Solve at 1e-12, then 1e-13, with the minimax offset: the follow-up's reference. Raises SolveError."""
    rescued = _rescue(ClassicPath(keys, np.zeros(len(keys)), cap=cap, sigma=sigma))
    if rescued is None:
        raise SolveError(f"no refit passed the check at {ACCEPTANCE:g}")
    return ClassicState.of(rescued[0])


def decay(
    keys: Matrix, state: ClassicState, removed: IndexArray, *, cap: float, sigma: float, factor: float = 0.01
) -> ClassicState:
    """Scale the coefficients of the removed rows and re-solve nothing: the paper's comparator.

    Keys stay (n, d); the offset is recomputed as the mean of t = 1 − 2Kα over the margin at 1e-6.
    """
    coefficients = state.coefficients.copy()
    coefficients[removed] *= factor
    terms = 1.0 - 2.0 * (kernel_block(keys, keys, sigma) @ coefficients)
    margin = Partition.of(coefficients, cap, DECAY_THRESHOLD).margin
    interior = int(np.argmin(np.abs(coefficients - 0.5 * cap)))
    offset = float(terms[margin].mean()) if margin.size else float(terms[interior])
    return ClassicState(coefficients, offset, _groups(coefficients, cap))


def _edit(path: ClassicPath, change: int | Vector) -> ClassicStep:
    """Delete a row or admit a key, in place, and tell what happened."""
    admission = isinstance(change, np.ndarray)
    entries = np.append(path.entries, path.born) if admission else path.entries.copy()
    before = len(path.events)
    candidate: ClassicState | None = None
    traces: tuple[Trace, ...] = ()
    error: str | None = None
    try:
        if isinstance(change, np.ndarray):
            path.admit(change)
        else:
            path.delete(change)
    except ClassicFailure as failure:
        error = str(failure)
    else:
        candidate, traces = ClassicState.of(path), path.trace()
    events = path.events[before:]
    wrong = next((_wrong(event, entries) for event in events if event.wrong_side), None)
    if candidate is None:
        return ClassicStep("failed", "", None, None, len(events), wrong, error)
    return ClassicStep("returned", "update", candidate, candidate, len(events), wrong, error, traces)


def _wrong(event: Event, entries: IndexArray) -> WrongEvent:
    row = int(np.flatnonzero(entries == event.entry)[0])
    group: Literal["bound", "reserve"] = "bound" if event.kind == "from-bound" else "reserve"
    return WrongEvent(event.number, row, group, event.slack, event.rate, event.step)


def _amended(
    step: ClassicStep, status: Status, path: str, state: ClassicState | None, error: str | None
) -> ClassicStep:
    return ClassicStep(status, path, step.candidate, state, step.events, step.wrong, error, step.traces)


def _rescue(path: ClassicPath) -> tuple[ClassicPath, str] | None:
    """Refit at the strict tolerances in turn; the first state that passes, and the name of the tier."""
    for tolerance in STRICT_TOLERANCES:
        try:
            fresh = path.refit(tolerance, clip=False)
        except SolveError:
            continue
        terms = 1.0 - 2.0 * (fresh.gram @ fresh.coefficients)
        fresh.set_offset(minimax_offset(terms, fresh.coefficients, fresh.cap))
        if fresh.check().passed:
            return fresh, f"strict-{tolerance:.0e}"
    return None


def _groups(coefficients: Vector, cap: float) -> Groups:
    groups = np.full(len(coefficients), RESERVE, dtype=np.int8)
    partition = Partition.of(coefficients, cap, PARTITION_THRESHOLD)
    groups[partition.margin], groups[partition.bound] = MARGIN, BOUND
    return groups


def _complaint(check: StateCheck) -> str:
    worst = max(("box", "mass", "stationarity"), key=lambda name: float(getattr(check, name)))
    return f"{worst} error {getattr(check, worst):.2e} above {ACCEPTANCE:g}"
