"""The first version of a memory: a cold fit of validated entries, checked like every edit."""

from __future__ import annotations

from itertools import chain

import numpy as np

from expunge.errors import SolveError
from expunge.memory.entries import Entries
from expunge.memory.version import Version
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.problem.problem import Problem, row_bytes
from expunge.solver.attempts import Attempt, Method, first_accepted, rescue_methods
from expunge.solver.cold_fit import distinct_sites, fit
from expunge.solver.kernel_rows import KernelRows
from expunge.types import Matrix, Progress

__all__ = ["first_version"]


def first_version(
    problem: Problem,
    values: Matrix,
    ids: list[str],
    subjects: list[str | None],
    payloads: list[bytes | None],
    salts: bytes,
    *,
    preprocessing: Preprocessing,
    progress: Progress | None = None,
) -> tuple[Version, tuple[Attempt, ...]]:
    """Fit entries and return the version with every attempt; SolveError if no solver reaches an acceptable state.

    What `progress` raises ends the fit.
    """
    try:
        return _fitted(problem, values, ids, subjects, payloads, salts, preprocessing, _past_rescues(progress))
    except _Stopped as stopped:
        raise stopped.problem from None


class _Stopped(BaseException):
    """What a progress callback raised: not a failure of a solver, which another one would make good."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(problem)
        self.problem = problem


def _past_rescues(progress: Progress | None) -> Progress:
    def told(stage: str, done: int, total: int) -> None:
        if progress is not None:
            try:
                progress(stage, done, total)
            except Exception as problem:
                raise _Stopped(problem) from problem

    return told


def _fitted(
    problem: Problem,
    values: Matrix,
    ids: list[str],
    subjects: list[str | None],
    payloads: list[bytes | None],
    salts: bytes,
    preprocessing: Preprocessing,
    progress: Progress,
) -> tuple[Version, tuple[Attempt, ...]]:
    size = problem.keys.shape[0]
    first, site_of = distinct_sites(problem.keys)
    gram = KernelRows(problem.keys[first], problem.sigma, capacity=first.size + max(16, first.size // 8))
    counts = np.bincount(site_of, minlength=first.size)
    cold = Method("cold", lambda: fit(gram, counts, problem.cap, progress))
    trial = first_accepted(chain([cold], rescue_methods(gram, counts, problem.cap)), counts)
    if trial.state is None:
        raise SolveError(f"no solver reached an acceptable state: {trial.attempts!r}")
    gram.retain(trial.state.status)
    gram.trim_rows()
    progress("committing to the entries", 0, size)
    packed = row_bytes(problem.keys)
    entries = Entries(values.shape[1], size)
    entries.extend(ids, packed, values, site_of, subjects, payloads, salts)
    version = Version(
        state=trial.state,
        entries=entries,
        count=size,
        alive=np.ones(entries.site.size, dtype=bool),
        size=size,
        known_check=trial.check,
        site_of_key={packed[row]: site for site, row in enumerate(first.tolist())},
        preprocessing=preprocessing,
    )
    version.digest  # noqa: B018 — computed now rather than within the first edit
    return version, trial.attempts
