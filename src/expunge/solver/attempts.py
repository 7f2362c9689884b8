"""copy → update → canonical → check → (rescue → canonical → check)* → publish | refuse (paper, §4.6).

`first_accepted` tries one method after another, makes each candidate canonical, and returns the first that the
independent check accepts. It never touches the published state, and never clips, snaps or regularises. The
check takes from a candidate only its coefficients and offset; how many entries each site holds comes from the
edit itself, so a solver that lies about the problem it solved is found out.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from expunge.problem.check import StateCheck
from expunge.problem.tolerances import PARTITION_THRESHOLD, PUBLISHED
from expunge.solver.canonical import canonical
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.state import ABSENT, BOUND, MARGIN, RESERVE, SiteArrays, State
from expunge.types import IndexArray, Vector

__all__ = ["Attempt", "Method", "Trial", "check_candidate", "first_accepted", "rescue_methods"]

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


@njit(cache=True, nogil=True)
def _judge(
    at: SiteArrays,
    members: IndexArray,
    counts: IndexArray,
    sums: Vector,
    offset: float,
    cap: float,
    threshold: float,
) -> tuple[float, float, float, bool]:
    """`check.check_terms` over sites, in one pass: (mass, box, stationarity, partition agrees with α).

    `at.slack` receives g = ρ − t at every site.
    """
    total, rest = -1.0, 0.0
    box, stationarity = 0.0, 0.0
    agrees = True
    margin = 0
    for site in range(counts.size):
        a = at.alpha[site]
        at.slack[site] = 2.0 * sums[site] + (offset - 1.0)
        if counts[site] == 0:
            if a != 0.0 or at.status[site] != ABSENT:
                agrees = False
            if a != 0.0:
                box = np.inf
            continue
        # Neumaier's sum: exact to the last bit or two, whatever the order of magnitude.
        added = total + a
        rest += (total - added) + a if abs(total) >= abs(a) else (a - added) + total
        total = added
        share = a / counts[site]
        box = max(box, -share, share - cap)
        gap = 1.0 - 2.0 * sums[site] - offset
        if share <= threshold:
            term = gap
        elif share >= cap - threshold:
            term = -gap
        else:
            term = abs(gap)
        if not term <= stationarity:
            stationarity = term
        # A free coefficient may round to a bound; nothing else is at one by rounding.
        if at.multiplicity[site] != counts[site] or not (
            (at.status[site] == MARGIN and 0.0 <= a <= at.ceiling[site])
            or (at.status[site] == RESERVE and a == 0.0)
            or (at.status[site] == BOUND and a == at.ceiling[site])
        ):
            agrees = False
        if at.status[site] == MARGIN:
            margin += 1
    for member in members:
        if at.status[member] != MARGIN:
            agrees = False
    agrees = agrees and margin == members.size
    return abs(total + rest), box, stationarity, agrees


@njit(cache=True, nogil=True)
def _at_ceiling(alpha: Vector, counts: IndexArray, cap: float) -> IndexArray:
    """Entries of each site whose coefficient is its ceiling, by these counts; 0 for every other."""
    bound = np.zeros(counts.size, dtype=np.int64)
    for site in range(counts.size):
        if counts[site] > 0 and alpha[site] == counts[site] * cap:
            bound[site] = counts[site]
    return bound


@njit(cache=True, nogil=True)
def _without_row(alpha: Vector, bound: IndexArray, row_of: IndexArray) -> IndexArray:
    """Sites with a coefficient below their ceiling that have no kernel row."""
    found = np.empty(bound.size, dtype=np.int64)
    size = 0
    for site in range(bound.size):
        if alpha[site] != 0.0 and bound[site] == 0 and row_of[site] < 0:
            found[size] = site
            size += 1
    return found[:size].copy()


def check_candidate(state: State, counts: IndexArray, tolerance: float = PUBLISHED) -> StateCheck:
    """Recompute a candidate's errors from kernel rows, coefficients and offset, for these site counts.

    The slacks so found replace the candidate's own. A candidate whose bookkeeping disagrees with its
    coefficients is marked as no starting point for a path.
    """
    gram, alpha = state.gram, state.alpha
    bound = _at_ceiling(alpha, counts, state.cap)
    missing = _without_row(alpha, bound, gram.row_of)
    if missing.size:
        gram.require(missing)
    sums = gram.sums(alpha, bound, state.cap)
    mass, box, stationarity, agrees = _judge(
        state.arrays, state.margin.members, counts, sums, state.offset, state.cap, PARTITION_THRESHOLD
    )
    state.exact = state.exact and agrees
    if mass != mass or box != box or stationarity != stationarity:
        mass, box, stationarity = (math.inf if math.isnan(error) else error for error in (mass, box, stationarity))
    return StateCheck(mass, box, stationarity, tolerance)


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
            exactness = canonical(state)
            check = check_candidate(state, counts, tolerance)
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
