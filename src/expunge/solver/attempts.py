"""copy → update → canonical → check → (rescue → canonical → check)* → publish | refuse (paper, §4.6).

`first_accepted` tries one method after another, makes each candidate canonical, and returns the first that the
independent check accepts: from the keys alone where that is within reach of every edit. It never touches the published
state, and never clips, snaps or regularises. The check takes from a candidate only its coefficients and offset; how
many entries each site holds comes from the edit itself, so a solver that lies about the problem it solved is found out.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from expunge.problem.check import StateCheck
from expunge.problem.check_kind import check_kind
from expunge.problem.tolerances import PUBLISHED
from expunge.solver.canonical import canonical
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.recomputation import check_from_keys
from expunge.solver.state import State
from expunge.types import IndexArray

__all__ = ["Attempt", "Method", "Trial", "first_accepted", "rescue_methods"]

log = logging.getLogger("expunge")


@dataclass(frozen=True)
class Attempt:
    """One way that was tried, and what the check measured on it."""

    path: str
    check: StateCheck | None
    seconds: float
    error: str | None = None
    # What decided the last bits: "pairs" of doubles, or "balls". Known in this process alone.
    exactness: str | None = field(default=None, compare=False)

    @property
    def passed(self) -> bool:
        """Whether it produced a state that the check accepts."""
        return self.check is not None and self.check.passed


@dataclass(frozen=True)
class Method:
    """A named way to reach the edited state; it may not touch the published one."""

    name: str
    solve: Callable[[], State]


@dataclass(frozen=True)
class Trial:
    """What came of an edit: the accepted candidate with its check, or none, and every attempt."""

    state: State | None
    check: StateCheck
    attempts: tuple[Attempt, ...]


def first_accepted(
    methods: Iterable[Method],
    counts: IndexArray,
    *,
    failed: Sequence[Attempt] = (),
    tolerance: float = PUBLISHED,
) -> Trial:
    """Try methods in order until the check accepts a candidate for `counts`, the entries at each site.

    `failed` are attempts that came before.
    """
    attempts: list[Attempt] = list(failed)
    for method in methods:
        started = time.perf_counter()
        state: State | None = None
        check: StateCheck | None = None
        error: str | None = None
        exactness: str | None = None
        worst = math.inf
        try:
            state = method.solve()
            exactness, check = canonical(state, counts, tolerance)
            check = _confirmed(state, counts, check)
            worst = check.worst
        except Exception as problem:
            # Any failure of one method is recorded, and the next one is tried.
            check, error = None, f"{type(problem).__name__}: {problem}"
        attempts.append(Attempt(method.name, check, time.perf_counter() - started, error, exactness))
        if state is not None and check is not None and worst <= tolerance:
            if len(attempts) > 1:
                log.warning("rescued by %s after %s", method.name, _story(attempts[:-1]))
            return Trial(state, check, tuple(attempts))
    log.warning("no path passed the check: %s", _story(attempts))
    return Trial(None, StateCheck(math.inf, math.inf, math.inf, tolerance), tuple(attempts))


def _confirmed(state: State, counts: IndexArray, check: StateCheck) -> StateCheck:
    """The check from the keys alone, where that is within reach of every edit.

    Where it fails and the other one passed, the maintained numbers are at fault, and all of them are dropped.
    """
    active = int(counts[state.alpha[: counts.size] != 0.0].sum())
    # Without entries there is no slack; a candidate for other entries (weight at a site that has none) stays refused.
    if (
        not active
        or not check.worst < math.inf
        or check_kind(int(counts.sum()), active, state.gram.keys.shape[1]) != "keys"
    ):
        return check
    confirmed = check_from_keys(state, counts, check.tolerance)
    if check.passed and not confirmed.passed:
        log.error("the kernel rows and sums kept for this edit are not those of the keys: made afresh")
        state.gram.rewind(state.sites)
    return confirmed


def _story(attempts: Sequence[Attempt]) -> str:
    return "; ".join(
        f"{a.path}: {a.error}" if a.check is None else f"{a.path}: residual {a.check.worst:.3g}" for a in attempts
    )


def rescue_methods(gram: KernelRows, counts: IndexArray, cap: float) -> Iterator[Method]:
    """The independent backends that are installed, in order; each takes the problem from the keys alone."""
    from expunge.solver import backends

    def by(backend: str) -> Callable[[], State]:
        def solve() -> State:
            present = np.flatnonzero(counts)
            keys = np.repeat(gram.keys[present], counts[present], axis=0)
            answer = backends.solve_reference(keys, cap=cap, sigma=gram.sigma, backend=backend)
            alpha = np.zeros(counts.size)
            np.add.at(alpha, np.repeat(present, counts[present]), answer.coefficients)
            return State.foreign(gram, counts, cap, alpha, answer.offset)

        return solve

    for backend in backends.RESCUES:
        if backends.installed(backend):
            yield Method(backend, by(backend))
