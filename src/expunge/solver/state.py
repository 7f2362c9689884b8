"""The solver's state: coefficients, offset, slacks and partition over the sites.

A site holds `multiplicity` identical entries and may carry up to `multiplicity · C`; each entry gets an equal
share, which is the minimum-norm optimum of the original problem and the only one a symmetric rule can pick.
Arrays belong to one state; the kernel rows are shared by successive states, which never change an entry.

Invariant of a published state (`canonical`): the groups are those of the exact optimum, α and `share` its nearest
doubles by site and by entry; MARGIN is the factor's membership. A state that is `ready` for an edit has its slacks, its
factor and the kernel row of every margin site; one that was opened, or let go of them, is made ready by
`expunge.solver.readiness`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from expunge.compilation import njit
from expunge.errors import InputError
from expunge.problem.check import require_weights
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.margin_factor import MarginFactor
from expunge.types import IndexArray, StatusArray, Vector

__all__ = ["ABSENT", "BOUND", "DRIVEN", "MARGIN", "RESERVE", "SiteArrays", "State"]

RESERVE: Final = 0
MARGIN: Final = 1
BOUND: Final = 2
DRIVEN: Final = 3  # its coefficient is prescribed for the time being; its slack is not held to anything
ABSENT: Final = 4


class SiteArrays(NamedTuple):
    """The arrays of a state, each indexed by site, as compiled code takes them."""

    alpha: Vector
    ceiling: Vector
    slack: Vector
    status: StatusArray
    multiplicity: IndexArray


@njit(cache=True, nogil=True)
def _bound_counts(status: StatusArray, multiplicity: IndexArray, sites: int) -> IndexArray:
    counts = np.zeros(sites, dtype=np.int64)
    for site in range(sites):
        if status[site] == BOUND:
            counts[site] = multiplicity[site]
    return counts


@dataclass(eq=False)
class State:
    """One solution and what is needed to move it. All arrays are indexed by site."""

    gram: KernelRows
    cap: float
    sites: int
    multiplicity: IndexArray
    ceiling: Vector
    alpha: Vector
    share: Vector  # of one entry, as published; candidates have none of their own
    slack: Vector
    status: StatusArray
    offset: float
    margin: MarginFactor
    pivots: int = 0
    exact: bool = True  # False where the margin has no factor in doubles: the next edit solves afresh
    ready: bool = True  # False where rows, factor and slacks are yet to be made, before an edit

    @property
    def arrays(self) -> SiteArrays:
        """The arrays by site, not copied."""
        return SiteArrays(self.alpha, self.ceiling, self.slack, self.status, self.multiplicity)

    @classmethod
    def start(cls, gram: KernelRows, multiplicity: IndexArray, cap: float) -> State:
        """State with no coefficients yet: every site in reserve."""
        capacity, sites = gram.capacity, gram.sites
        counts = np.zeros(capacity, dtype=np.int64)
        counts[:sites] = multiplicity
        status = np.full(capacity, ABSENT, dtype=np.int8)
        status[:sites] = np.where(multiplicity > 0, RESERVE, ABSENT)
        return cls(
            gram=gram,
            cap=cap,
            sites=sites,
            multiplicity=counts,
            ceiling=counts.astype(np.float64) * cap,
            alpha=np.zeros(capacity),
            share=np.zeros(capacity),
            slack=np.zeros(capacity),
            status=status,
            offset=0.0,
            margin=MarginFactor(),
        )

    @classmethod
    def stored(cls, gram: KernelRows, multiplicity: IndexArray, cap: float, shares: Vector, offset: float) -> State:
        """State with these coefficients of one entry at each site (sites,): enough to read, and not ready for edits.

        Raises InputError where they are not in the box, do not add up to 1, or there are none and the offset is not 0.
        """
        state = cls.start(gram, multiplicity, cap)
        sites = state.sites
        require_weights(np.repeat(shares, multiplicity), cap)
        if not shares.size and offset:
            raise InputError("the offset of no entries is 0")
        state.share[:sites] = shares
        weights, ceiling = state.alpha[:sites], state.ceiling[:sites]
        weights[:] = np.where(shares == cap, ceiling, shares * multiplicity)
        # A rounded product may be at the ceiling where the share is below the cap.
        for site in np.flatnonzero((multiplicity > 1) & (shares != cap) & (shares != 0.0)).tolist():
            weights[site] = _total(float(shares[site]), int(multiplicity[site]))
        groups = np.where(weights == 0.0, RESERVE, np.where(weights >= ceiling, BOUND, MARGIN))
        state.status[:sites] = np.where(multiplicity > 0, groups, ABSENT)
        state.offset, state.exact, state.ready = offset, False, False
        return state

    @classmethod
    def foreign(cls, gram: KernelRows, multiplicity: IndexArray, cap: float, alpha: Vector, offset: float) -> State:
        """State that holds another solver's coefficients as they are; not a starting point for a path."""
        state = cls.start(gram, multiplicity, cap)
        state.alpha[: state.sites] = alpha
        state.offset = offset
        state.status[: state.sites] = np.where(
            alpha <= 0.0, RESERVE, np.where(alpha >= state.ceiling[: state.sites], BOUND, MARGIN)
        )
        state.status[: state.sites][multiplicity == 0] = ABSENT
        state.exact = False
        gram.require(np.flatnonzero(state.status[: state.sites] == MARGIN))
        state.recompute_slacks()
        return state

    def copy(self, spare: MarginFactor | None = None) -> State:
        """Candidate for an edit: own arrays, shared kernel rows; `spare` lends its memory to the factor."""
        return State(
            gram=self.gram,
            cap=self.cap,
            sites=self.sites,
            multiplicity=self.multiplicity.copy(),
            ceiling=self.ceiling.copy(),
            alpha=self.alpha.copy(),
            share=self.share,
            slack=self.slack.copy(),
            status=self.status.copy(),
            offset=self.offset,
            margin=self.margin.copy(spare),
            exact=self.exact,
            ready=self.ready,
        )

    def compacted(self, kept: IndexArray, renumbered: IndexArray) -> State:
        """Copy with the kept sites alone; `renumbered` gives each its new number."""
        copy = State.start(self.gram.compacted(kept), self.multiplicity[kept], self.cap)
        for name in ("alpha", "share", "slack", "status"):
            getattr(copy, name)[: kept.size] = getattr(self, name)[kept]
        copy.offset, copy.exact, copy.pivots, copy.ready = self.offset, self.exact, self.pivots, self.ready
        copy.margin = self.margin.copy()
        copy.margin.renumber(renumbered)
        return copy

    def with_site(self, site: int, slack: float) -> State:
        """State with one more reserve site; shares every array, of which only unused places are written."""
        grown = replace(self, sites=site + 1, pivots=0)
        if self.alpha.size < self.gram.capacity:
            for name in ("multiplicity", "ceiling", "alpha", "share", "slack", "status"):
                old = getattr(self, name)
                new = np.zeros(self.gram.capacity, dtype=old.dtype)
                new[: old.size] = old
                setattr(grown, name, new)
        grown.multiplicity[site] = 1
        grown.ceiling[site] = self.cap
        grown.alpha[site] = grown.share[site] = 0.0
        grown.slack[site] = slack
        grown.status[site] = RESERVE
        return grown

    def set_multiplicity(self, site: int, count: int) -> None:
        """Change how many entries a site holds; the coefficient is not touched."""
        self.multiplicity[site] = count
        self.ceiling[site] = count * self.cap

    def active(self) -> IndexArray:
        """Sites with a coefficient, ascending."""
        return np.flatnonzero(self.alpha[: self.sites])

    def present(self) -> IndexArray:
        """Sites that hold entries, ascending."""
        return np.flatnonzero(self.multiplicity[: self.sites] > 0)

    def bound_counts(self) -> IndexArray:
        """Entries of each bound site, 0 for every other, (sites,)."""
        counts: IndexArray = _bound_counts(self.status, self.multiplicity, self.sites)
        return counts

    def mass_error(self) -> float:
        """1 − Σα, correctly rounded."""
        return -math.fsum([-1.0, *self.alpha[self.active()].tolist()])

    def recompute_slacks(self) -> None:
        """G = ρ − 1 + 2Kα at every site, from the kernel rows, whatever was there before."""
        self.gram.slacks(self.alpha, self.bound_counts(), self.cap, self.offset, self.slack)


def _total(share: float, count: int) -> float:
    """The weight of a site whose `count` entries have this share of it: divided again, it gives the share."""
    total = share * count
    near = (total, math.nextafter(total, math.inf), math.nextafter(total, -math.inf))
    return next((candidate for candidate in near if candidate / count == share), total)
