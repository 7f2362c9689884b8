"""Every question that a memory answers, whoever keeps its versions.

`Memory` and the stored memory of `expunge.store` differ in how they edit. Both read through `look`, which shows one
published version, whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from expunge.certificates.certificate import Certificate, certify
from expunge.certificates.warranty import Warranty
from expunge.errors import InputError
from expunge.memory.entries import check_id, decode_payload
from expunge.memory.queries import Hit, search
from expunge.memory.version import Version
from expunge.problem.check import StateCheck
from expunge.problem.partition import Partition
from expunge.problem.problem import as_count, as_points
from expunge.problem.solution import Solution
from expunge.solver.margin_inverse import margin_inverse
from expunge.solver.state import MARGIN
from expunge.types import Matrix, Vector

if TYPE_CHECKING:
    from expunge.certificates.bounds import Bounds
    from expunge.certificates.proof import Proof

__all__ = ["MemoryReader", "proved_zero_rows"]

Found = TypeVar("Found")


class MemoryReader(ABC):
    """The read verbs of a memory, each answered from one published version."""

    @abstractmethod
    def look(self, at: Callable[[Version], Found]) -> Found:
        """Return what `at` makes of the current version; `at` is called again if an edit comes in between."""

    def __len__(self) -> int:
        return self.look(lambda version: version.size)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.look(lambda version: version.slot(name) is not None)

    def describe(self) -> str:
        """Entries, dimension, groups, cap and width in one line."""

        def description(version: Version) -> str:
            groups, state = Partition.of(version.coefficients, version.state.cap), version.state
            return (
                f"{version.size} entries, d={state.gram.keys.shape[1]}: {groups.margin.size} margin, "
                f"{groups.bound.size} bound, {groups.reserve.size} reserve; cap {state.cap:.6g}, "
                f"sigma {state.gram.sigma:g}"
            )

        return self.look(description)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in row order."""
        return self.look(lambda version: version.ids)

    @property
    def subjects(self) -> tuple[str | None, ...]:
        """Subjects in row order."""
        return self.look(lambda version: version.subjects)

    @property
    def keys(self) -> Matrix:
        """Keys in row order, (n, d) float64, read-only."""
        return self.look(lambda version: version.keys)

    @property
    def values(self) -> Matrix:
        """Values in row order, (n, dv) float64, read-only."""
        return self.look(lambda version: version.values)

    @property
    def coefficients(self) -> Vector:
        """Coefficients α in row order, (n,) float64, read-only."""
        return self.look(lambda version: version.coefficients)

    @property
    def offset(self) -> float:
        """Offset ρ: from the margin, or the least t of the bound keys when the margin is empty."""
        return self.look(lambda version: version.state.offset)

    @property
    def cap(self) -> float:
        """Cap C, fixed since the fit."""
        return self.look(lambda version: version.state.cap)

    @property
    def sigma(self) -> float:
        """Kernel width σ."""
        return self.look(lambda version: version.state.gram.sigma)

    @property
    def dimension(self) -> int:
        """Coordinates of a key."""
        return self.look(lambda version: int(version.state.gram.keys.shape[1]))

    @property
    def partition(self) -> Partition:
        """Rows on the margin, at the bound and in reserve."""
        return self.look(lambda version: Partition.of(version.coefficients, version.state.cap))

    @property
    def inverse(self) -> Matrix:
        """R = M⁻¹ of the margin system, (s+1, s+1): the offset first, then the margin keys in row order.

        Identical margin keys share one row and column: M would be singular with both. Right to about 1e−12 of its
        largest entry; its last bits depend on the machine's linear algebra.
        """

        def margin_keys(version: Version) -> Matrix:
            # Sites are numbered by the past; rows are not.
            sites, first = np.unique(version.sites, return_index=True)
            in_row_order = sites[np.argsort(first)]
            state = version.state
            return np.asarray(state.gram.keys[in_row_order[state.status[in_row_order] == MARGIN]])

        return margin_inverse(self.look(margin_keys), self.sigma)

    @property
    def deletable(self) -> int:
        """How many more entries can be deleted at this cap: n − ⌈1/C⌉, archived ones included."""
        return self.look(lambda version: version.deletable)

    @property
    def digest(self) -> str:
        """Digest of the current state, as receipts name it."""
        return self.look(lambda version: version.digest)

    @property
    def solution(self) -> Solution:
        """Coefficients and offset with the problem that they solve."""
        return self.look(lambda version: version.solution)

    def payload(self, name: str) -> Any:
        """Payload of an entry."""
        return self.look(lambda version: decode_payload(version.entries.payloads[_slot(version, name)]))

    def read(self, queries: npt.ArrayLike, *, projection: float | None = None) -> Matrix:
        """Normalized readout o(q) = Σακv / Σακ at queries (m, d) or (d,) → (m, dv).

        Kernel values are scaled by the nearest active key's, which cancels, so a query far from every key
        gets the limit of the formula rather than 0/0. With `projection` = ε the coefficients are first replaced
        by the smallest-norm ones whose objective is within ε·max(1, |f|) of the state's (paper, Eq. 6): near-equal
        keys then share their weight, at the cost of a known step away from the optimum.
        """
        points = as_points(queries, "queries", dimension=self.dimension)
        if projection is None:
            return self.look(lambda version: version.readout(points))
        from expunge.solver.min_norm import project

        def projected(version: Version) -> Matrix:
            cap, sigma = version.state.cap, version.state.gram.sigma
            point = project(version.keys, version.coefficients, cap=cap, sigma=sigma, tolerance=projection)
            return version.readout(points, point.coefficients)

        return self.look(projected)

    def score(self, points: npt.ArrayLike) -> Vector:
        """Gate score s(x) = 2Σακ(x, x_i) − ρ at points (m, d) or (d,) → (m,)."""
        return self.solution.score(as_points(points, "points", dimension=self.dimension))

    def search(self, query: npt.ArrayLike, k: SupportsIndex = 5) -> list[Hit]:
        """Entries that carry the readout at a query, largest share first; at most `k`."""
        most = as_count(k, 1, "k must be a positive number of entries")
        point = as_points(query, "query", dimension=self.dimension)
        if point.shape[0] != 1:
            raise InputError(f"search takes one query, not {point.shape[0]}")
        return self.look(lambda version: search(version, point, most))

    def check(self) -> StateCheck:
        """Mass, box and stationarity errors, recomputed from the keys themselves."""
        return self.solution.check()

    def prove(self) -> Proof:
        """Prove groups and weights in ball arithmetic, with the keys, cap and width taken as exact.

        ``outcome`` is ``proved``: the groups are those of the exact optimum, and coefficients and offset are the
        doubles nearest to it. Else it says what could not be decided, or is wrong. A proof saves to a small file that
        `expunge.verify` rechecks from the keys without any solver.
        """
        from expunge.certificates.proof import prove_state

        found = self.solution
        problem = found.problem
        return prove_state(problem.keys, found.coefficients, found.offset, cap=problem.cap, sigma=problem.sigma)

    def bounds(self) -> Bounds:
        """Rigorous upper bounds on the errors of this state, over every query and not only sampled ones."""
        from expunge.certificates.bounds import rigorous_bounds

        found, values = self.look(lambda version: (version.solution, version.values))
        return rigorous_bounds(
            found.problem.keys,
            found.coefficients,
            found.offset,
            cap=found.problem.cap,
            sigma=found.problem.sigma,
            values=values,
        )

    def certificate(self, name: str) -> Certificate:
        """What removing an entry now would be: no change at all, or a refit of the others at the same cap."""

        def certified(version: Version) -> Certificate:
            row = int(np.flatnonzero(version.slots == _slot(version, name))[0])
            return certify(
                row,
                name,
                version.keys,
                version.values,
                version.coefficients,
                offset=version.state.offset,
                cap=version.state.cap,
                sigma=version.state.gram.sigma,
                proved=bool(version.coefficients[row] == 0.0 and proved_zero_rows(version)[row]),
            )

        return self.look(certified)

    def warranties(self) -> list[Warranty]:
        """Where each pruned entry stands: slack at pruning, what is proved to remain of it, status."""
        return self.look(lambda version: version.warranties.rows(version.fit))


def proved_zero_rows(version: Version) -> npt.NDArray[np.bool_]:
    """Rows whose coefficient is proved to be zero: by rigorous bounds, and where these fall short by balls."""
    from expunge.certificates.bounds import proved_zero
    from expunge.certificates.proof import prove_state

    state = version.state
    cap, sigma = state.cap, state.gram.sigma
    zero = proved_zero(version.keys, version.coefficients, cap=cap, sigma=sigma)
    if not np.array_equal(zero, version.coefficients == 0.0):
        zero = zero.copy()
        zero[prove_state(version.keys, version.coefficients, state.offset, cap=cap, sigma=sigma).proved_zero] = True
    return zero


def _slot(version: Version, name: str) -> int:
    slot = version.slot(check_id(name))
    if slot is None:
        raise InputError(f"no entry has id {name!r}")
    return slot
