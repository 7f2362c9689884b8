"""The first version of a memory: a cold fit of validated entries, checked like every edit."""

from __future__ import annotations

from itertools import chain

import numpy as np

from expunge.errors import SolveError
from expunge.memory.entries import Entries
from expunge.memory.version import Version
from expunge.problem.problem import Problem, row_bytes
from expunge.solver.attempts import Attempt, Method, first_accepted, rescue_methods
from expunge.solver.cold_fit import distinct_sites, fit
from expunge.solver.kernel_rows import KernelRows
from expunge.types import Matrix

__all__ = ["first_version"]


def first_version(
    problem: Problem,
    values: Matrix,
    ids: list[str],
    subjects: list[str | None],
    payloads: list[bytes | None],
    salts: bytes,
) -> tuple[Version, tuple[Attempt, ...]]:
    """Fit entries and return the version with every attempt; SolveError if no solver reaches an acceptable state."""
    size = problem.keys.shape[0]
    first, site_of = distinct_sites(problem.keys)
    gram = KernelRows(problem.keys[first], problem.sigma, capacity=first.size + max(16, first.size // 8))
    counts = np.bincount(site_of, minlength=first.size)
    cold = Method("cold", lambda: fit(gram, counts, problem.cap))
    trial = first_accepted(chain([cold], rescue_methods(gram, counts, problem.cap)), counts)
    if trial.state is None:
        raise SolveError(f"no solver reached an acceptable state: {trial.attempts!r}")
    gram.retain(trial.state.status)
    packed = row_bytes(problem.keys)
    entries = Entries(values.shape[1], size)
    entries.extend(ids, packed, values, site_of, subjects, payloads, salts)
    version = Version(
        state=trial.state,
        entries=entries,
        count=size,
        alive=np.ones(entries.site.size, dtype=bool),
        size=size,
        check=trial.check,
        site_of_key={packed[row]: site for site, row in enumerate(first.tolist())},
    )
    version.digest  # noqa: B018 — computed now rather than within the first edit
    return version, trial.attempts
