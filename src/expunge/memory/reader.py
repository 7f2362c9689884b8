"""Every question that a memory answers, whoever keeps its versions.

`Memory` and the stored memory of `expunge.store` differ in how they edit. Both read through `look`, which shows one
published version, whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from expunge.certificates.certificate import Certificate, certify
from expunge.certificates.warranty import WarrantyList
from expunge.display.card import Card, Displayed
from expunge.display.frame import Frame, Library, data_frame
from expunge.errors import InputError
from expunge.memory.active_entries import ActiveEntries
from expunge.memory.attributes import Attributes, decode_attributes
from expunge.memory.entries import check_id, decode_payload
from expunge.memory.fit_report import FitReport, fit_report
from expunge.memory.queries import Hit, Neighbour, nearest, search
from expunge.memory.version import Version
from expunge.memory.version_table import frame_columns, version_card
from expunge.preprocessing.embedder_identity import EmbedderIdentity
from expunge.preprocessing.measurements import as_key_rows
from expunge.preprocessing.outdated import OutdatedChoice
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.problem.check import StateCheck
from expunge.problem.judgement import Judgement
from expunge.problem.partition import Partition
from expunge.problem.problem import as_count, widened_cap
from expunge.problem.solution import Solution
from expunge.solver.state import MARGIN
from expunge.types import Matrix, Rows, Vector

if TYPE_CHECKING:
    from expunge.certificates.bounds import Bounds
    from expunge.certificates.proof import Proof

__all__ = ["MemoryReader", "proved_zero_rows"]

Found = TypeVar("Found")


class MemoryReader(ABC, Displayed):
    """The read verbs of a memory, each answered from one published version."""

    @abstractmethod
    def look(self, at: Callable[[Version], Found]) -> Found:
        """Return what `at` makes of the current version; `at` is called again if an edit comes in between."""

    def ask(self, at: Callable[[ActiveEntries], Found]) -> Found:
        """Return what `at` makes of the entries with a weight, all of one version."""
        return self.look(lambda version: at(version.active))

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

    def _card(self) -> Card:
        return self.look(lambda version: version_card("Memory", version))

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
        """Offset ρ: from the margin, the least t of the bound keys when the margin is empty, 0 of an empty memory."""
        return self.look(lambda version: version.state.offset)

    @property
    def boundary(self) -> float:
        """The gate score on the boundary, 1 − 2ρ: margin entries score exactly this, reserve entries this or more.

        It is 1 of an empty memory, whose offset is 0.
        """
        return 1.0 - 2.0 * self.offset

    @property
    def cap(self) -> float:
        """Cap C, as the fit set it; deletions that leave too few entries for it, and `rebuild`, change it."""
        return self.look(lambda version: version.state.cap)

    @property
    def sigma(self) -> float:
        """Kernel width σ, as the fit set it; only `rebuild` changes it."""
        return self.look(lambda version: version.state.gram.sigma)

    @property
    def chosen_width(self) -> bool:
        """Whether σ was chosen from the entries, on a coarse grid, and not given."""
        return self.look(lambda version: version.preprocessing.width == "auto")

    @property
    def preprocessing(self) -> Preprocessing | None:
        """Columns of keys and values, with what makes a measurement a coordinate; None of a memory without columns."""
        found = self.look(lambda version: version.preprocessing)
        return found if found.keys else None

    @property
    def embedder(self) -> EmbedderIdentity | None:
        """Name and digest of what made the keys from texts; None where that is not known."""
        return self.look(lambda version: version.preprocessing.embedder)

    @property
    def outdated(self) -> tuple[OutdatedChoice, ...]:
        """Numbers chosen from entries (σ, centres, scales, fills) that would be others chosen from those that remain.

        Each is a mapping with ``what``, ``column``, ``kept``, ``now`` and ``remedy``: a rebuild, or a fresh import. It
        is found when asked for, in about 20 ms; a deletion in this process does not wait for it.
        """
        return self.look(lambda version: version.outdated)

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

        from expunge.solver.margin_inverse import margin_inverse

        return margin_inverse(self.look(margin_keys), self.sigma)

    @property
    def deletable(self) -> int:
        """How many more entries can be deleted at this cap: n − ⌈1/C⌉, archived ones included, and never below 0.

        More can be deleted, too: then what remains is fitted afresh at a larger cap.
        """
        return self.look(lambda version: version.deletable)

    @property
    def digest(self) -> str:
        """Digest of the current state, as receipts name it."""
        return self.look(lambda version: version.digest)

    @property
    def solution(self) -> Solution:
        """Coefficients and offset with the problem that they solve."""
        return self.look(lambda version: version.solution)

    @property
    def _solved(self) -> Solution:
        """The solution of a memory that has entries."""

        def solution(version: Version) -> Solution:
            version.require_entries()
            return version.solution

        return self.look(solution)

    def payload(self, name: str) -> Any:
        """Payload of an entry."""
        return self.look(lambda version: decode_payload(version.entries.payloads[_slot(version, name)]))

    def attributes(self, name: str) -> Attributes:
        """When an entry ends, and what it was made from; a source in another memory has that memory's UUID."""

        def found(version: Version) -> Attributes:
            kept = version.warranties.archive.get(check_id(name))
            return decode_attributes(version.entries.payloads[_slot(version, name)] if kept is None else kept.payload)

        return self.look(found)

    def due(self, now: datetime | None = None) -> list[str]:
        """Ids of the entries, archived ones included, whose end has come by ``now``, a time with a zone."""
        return self.look(lambda version: version.due(datetime.now(UTC) if now is None else now))

    def read(self, queries: Rows, *, projection: float | None = None) -> Matrix:
        """Normalized readout o(q) = Σακv / Σακ at queries (m, d) or (d,), or rows by column name → (m, dv).

        Kernel values are scaled by the nearest active key's, which cancels, so a query far from every key
        gets the limit of the formula rather than 0/0. With `projection` = ε the coefficients are first replaced
        by the smallest-norm ones whose objective is within ε·max(1, |f|) of the state's (paper, Eq. 6): near-equal
        keys then share their weight, at the cost of a known step away from the optimum. Raises InputError
        (``memory-empty``) where there is no entry.
        """
        if projection is None:
            return self.ask(lambda active: active.read(active.points(queries, "queries")))
        points = as_key_rows(queries, self.preprocessing, self.dimension, name="queries")
        from expunge.solver.min_norm import project

        def projected(version: Version) -> Matrix:
            version.require_entries()
            cap, sigma = version.state.cap, version.state.gram.sigma
            point = project(version.keys, version.coefficients, cap=cap, sigma=sigma, tolerance=projection)
            return version.readout(points, point.coefficients)

        return self.look(projected)

    def score(self, points: Rows) -> Vector:
        """Gate score s(x) = 2Σακ(x, x_i) − ρ at points (m, d) or (d,), or rows by column name → (m,).

        A point is inside the memory where its score is at least `boundary`, which is not 0; `judge` says so. Raises
        InputError (``memory-empty``) where there is no entry.
        """
        return self.ask(lambda active: active.score(active.points(points, "points")))

    def judge(self, points: Rows) -> list[Judgement]:
        """Whether each point (m, d) or (d,) is inside the boundary, how far from it, and whether an entry is nearby.

        Raises InputError (``memory-empty``) where there is no entry.
        """
        return self.ask(lambda active: active.judge(active.points(points, "points")))

    def search(self, query: Rows, k: SupportsIndex = 5) -> list[Hit]:
        """Entries that carry the readout at a query, largest share first; at most `k`, and none of an empty memory.

        Entries without weight are left out, however near they are: `nearest` lists them, too.
        """
        most = _count(k)
        return self.ask(lambda active: search(active, _one(active.points(query, "query")), most))

    def nearest(self, query: Rows, k: SupportsIndex = 5, *, archived: bool = True) -> list[Neighbour]:
        """Entries whose keys are nearest to a query, whatever they weigh; at most `k`, equal distances by id.

        Archived entries are included unless ``archived=False``. Removing an entry changes this list even where a
        certificate says that nothing changes: certificates speak of `read`, `score` and `search`.
        """
        most, point = _count(k), _one(as_key_rows(query, self.preprocessing, self.dimension, name="query"))
        return self.look(lambda version: nearest(version, point, most, archived=archived))

    def report(self) -> FitReport:
        """Whether the fit is of use: shares of margin, bound and reserve, how many entries could go, and warnings."""
        return self.look(fit_report)

    def check(self) -> StateCheck:
        """Mass, box and stationarity errors, recomputed from the keys themselves; 0 of an empty memory."""
        return self.solution.check()

    def prove(self, *, progress: Callable[[int, int], None] | None = None) -> Proof:
        """Prove groups and weights in ball arithmetic, with the keys, cap and width taken as exact.

        ``outcome`` is ``proved``: the groups are those of the exact optimum, and coefficients and offset are the
        doubles nearest to it. Else it says what could not be decided, or is wrong. A proof saves to a small file that
        `expunge.verify` rechecks from the keys without any solver. Raises InputError (``memory-empty``) where there is
        no entry, and so nothing to prove. `progress` is called with the precision in bits, and how many distinct keys
        it has yet to decide, before each attempt.
        """
        from expunge.certificates.proof import prove_state

        found = self._solved
        problem = found.problem
        return prove_state(
            problem.keys, found.coefficients, found.offset, cap=problem.cap, sigma=problem.sigma, progress=progress
        )

    def bounds(self) -> Bounds:
        """Rigorous upper bounds on the errors of this state, over every query and not only sampled ones.

        Raises InputError (``memory-empty``) where there is no entry.
        """
        from expunge.certificates.bounds import rigorous_bounds

        def state(version: Version) -> tuple[Solution, Matrix]:
            version.require_entries()
            return version.solution, version.values

        found, values = self.look(state)
        return rigorous_bounds(
            found.problem.keys,
            found.coefficients,
            found.offset,
            cap=found.problem.cap,
            sigma=found.problem.sigma,
            values=values,
        )

    def certificate(self, name: str) -> Certificate:
        """What removing an entry now would be: no change at all, or a refit of the others.

        The refit is at the same cap, or where too few entries would remain for it at a larger one, which it names.
        """

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
                cap_after=widened_cap(version.state.cap, version.size + len(version.warranties.archive) - 1),
                sigma=version.state.gram.sigma,
                proved=bool(version.coefficients[row] == 0.0 and proved_zero_rows(version)[row]),
            )

        return self.look(certified)

    def warranties(self) -> WarrantyList:
        """Where each pruned entry stands: slack at pruning, what is proved to remain of it, status; a list."""
        return WarrantyList(self.look(lambda version: version.warranties.rows(version.fit)))

    def to_frame(self, library: Library | None = None) -> Frame:
        """Entries as a data frame, live ones first, then the archive; in order of admission each.

        Columns are ``id``, ``subject``, ``weight``, ``group`` (margin, bound or reserve), ``archived``, then the
        measurements of the memory's key columns by name, and those of its value columns; coordinates ``k0``, ``k1``,
        ... and ``v0``, ``v1``, ... where columns have no names. A name that is taken gets `` (key)`` or `` (value)``.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            Library of the frame; without it the one that is installed, pandas first.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Raises
        ------
        MissingExtra
            If the library, or without a name both, are not installed.

        """
        return data_frame(self.look(frame_columns), library)


def proved_zero_rows(version: Version) -> npt.NDArray[np.bool_]:
    """Rows whose coefficient is proved to be zero: by rigorous bounds, and where these fall short by balls."""
    from expunge.certificates.bounds import proved_zero
    from expunge.certificates.proof import prove_state

    state = version.state
    if not version.size:
        return np.zeros(0, dtype=bool)
    cap, sigma = state.cap, state.gram.sigma
    zero = proved_zero(version.keys, version.coefficients, cap=cap, sigma=sigma)
    if not np.array_equal(zero, version.coefficients == 0.0):
        zero = zero.copy()
        zero[prove_state(version.keys, version.coefficients, state.offset, cap=cap, sigma=sigma).proved_zero] = True
    return zero


def _count(k: SupportsIndex) -> int:
    return as_count(k, 1, "k must be a positive number of entries")


def _one(points: Matrix) -> Matrix:
    if points.shape[0] != 1:
        raise InputError(f"one query at a time, not {points.shape[0]}")
    return points


def _slot(version: Version, name: str) -> int:
    slot = version.slot(check_id(name))
    if slot is None:
        raise InputError(f"no entry has id {name!r}")
    return slot
