"""copy → update → check → (rescue → check)* → publish | refuse (paper, §4.6, "Separately checked follow-up").

`transact` tries one path after another and returns the first candidate that the independent check accepts.
It never touches the published state, and never clips, snaps, renormalises or regularises a coefficient. The
check takes from a candidate only its coefficients and offset; how many entries each site holds comes from the
edit itself, so a solver that lies about the problem it solved is found out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.check import StateCheck, check_terms
from expunge.errors import ExpungeError
from expunge.receipt import Attempt
from expunge.solver.state import BOUND, MARGIN, RESERVE, State
from expunge.tolerances import PUBLISHED
from expunge.types import IndexArray

__all__ = ["Path", "Trial", "check_candidate", "transact"]

log = logging.getLogger("expunge")


@dataclass(frozen=True)
class Path:
    """A named way to reach the edited state. It must leave the published state alone."""

    name: str
    solve: Callable[[], State]


@dataclass(frozen=True)
class Trial:
    """What came of an edit: the accepted candidate, or none, and every attempt."""

    state: State | None
    attempts: tuple[Attempt, ...]

    @property
    def check(self) -> StateCheck:
        """Measured on the accepted candidate."""
        check = self.attempts[-1].check
        if self.state is None or check is None:
            raise ExpungeError("an edit without an accepted candidate has no check")
        return check

    @property
    def rescued(self) -> bool:
        """Whether the first path was not the one that was accepted."""
        return self.state is not None and len(self.attempts) > 1


def check_candidate(state: State, counts: IndexArray) -> StateCheck:
    """Recompute a candidate's errors from kernel rows, coefficients and offset, for these site counts."""
    present = np.flatnonzero(counts)
    if np.any(state.alpha[: counts.size][counts == 0] != 0.0):
        return StateCheck(np.inf, np.inf, np.inf)
    terms = 1.0 - 2.0 * state.gram.product(state.alpha)[present]
    shares = state.alpha[present] / counts[present]
    return check_terms(shares, terms, state.offset, cap=state.cap, counts=counts[present].astype(np.float64))


def transact(paths: Sequence[Path], counts: IndexArray, *, tolerance: float = PUBLISHED) -> Trial:
    """Try paths in order until the check accepts a candidate for `counts`, the entries at each site."""
    attempts: list[Attempt] = []
    for path in paths:
        started = time.perf_counter()
        state: State | None = None
        check: StateCheck | None = None
        error: str | None = None
        try:
            state = path.solve()
            check = check_candidate(state, counts).at(tolerance)
            if check.passed and not _maintainable(state, counts):
                state.exact = False
        except Exception as problem:  # noqa: BLE001 — any failure of one path is the next one's cue, and recorded
            error = f"{type(problem).__name__}: {problem}"
        attempts.append(Attempt(path.name, check, time.perf_counter() - started, error))
        if state is not None and check is not None and check.passed:
            if len(attempts) > 1:
                log.warning("rescued by %s after %s", path.name, _story(attempts[:-1]))
            return Trial(state, tuple(attempts))
    log.warning("no path passed the check: %s", _story(attempts))
    return Trial(None, tuple(attempts))


def _maintainable(state: State, counts: IndexArray) -> bool:
    """Whether a later edit may follow the path from this state: partition, counts and factor agree with α."""
    size = counts.size
    alpha, status, ceiling = state.alpha[:size], state.status[:size], state.ceiling[:size]
    present = counts > 0
    margin = np.zeros(size, dtype=bool)
    margin[state.margin.members] = True
    return bool(
        state.exact
        and np.array_equal(state.multiplicity[:size], counts)
        and np.array_equal((alpha == 0.0) & present, status == RESERVE)
        and np.array_equal((alpha == ceiling) & present, status == BOUND)
        and np.array_equal(margin, status == MARGIN)
        and state.margin.members.size == np.count_nonzero(margin)
    )


def _story(attempts: Sequence[Attempt]) -> str:
    return "; ".join(
        f"{a.path}: " + (a.error if a.check is None else f"residual {a.check.worst:.3g}") for a in attempts
    )
