"""The solver's state: coefficients, offset, slacks and partition over the sites.

A site holds `multiplicity` identical entries and may carry up to `multiplicity · C`; each entry gets an equal
share, which is the minimum-norm optimum of the original problem and the only one a symmetric rule can pick.
Arrays belong to one state; the kernel rows are shared by successive states, which never change an entry.

Invariant of a published state: α = 0 exactly on RESERVE, α = ceiling exactly on BOUND, 0 < α < ceiling on
MARGIN; MARGIN is the factor's membership; every active site has its kernel row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from expunge.solver.kernel_rows import KernelRows
from expunge.solver.margin_factor import MarginFactor
from expunge.types import IndexArray, StatusArray, Vector

__all__ = ["ABSENT", "BOUND", "DRIVEN", "MARGIN", "RESERVE", "SiteArrays", "State", "share"]

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
def share(at: SiteArrays, cap: float, site: int) -> float:
    """Coefficient of one entry at a site: α / multiplicity, without the rounding of (m·C)/m at the bound."""
    return cap if at.alpha[site] == at.ceiling[site] else at.alpha[site] / at.multiplicity[site]


@dataclass(eq=False)
class State:
    """One solution and what is needed to move it. All arrays are indexed by site."""

    gram: KernelRows
    cap: float
    sites: int
    multiplicity: IndexArray
    ceiling: Vector
    alpha: Vector
    slack: Vector
    status: StatusArray
    offset: float
    margin: MarginFactor
    pivots: int = 0
    exact: bool = True  # False after a rescue by a foreign backend: the next edit solves afresh

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
            slack=np.zeros(capacity),
            status=status,
            offset=0.0,
            margin=MarginFactor(),
        )

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
        gram.require(np.flatnonzero(alpha))
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
            slack=self.slack.copy(),
            status=self.status.copy(),
            offset=self.offset,
            margin=self.margin.copy(spare),
            exact=self.exact,
        )

    def compacted(self, kept: IndexArray, renumbered: IndexArray) -> State:
        """Copy with the kept sites alone; `renumbered` gives each its new number."""
        copy = State.start(self.gram.compacted(kept), self.multiplicity[kept], self.cap)
        for name in ("alpha", "slack", "status"):
            getattr(copy, name)[: kept.size] = getattr(self, name)[kept]
        copy.offset, copy.exact, copy.pivots = self.offset, self.exact, self.pivots
        copy.margin = self.margin.copy()
        copy.margin.renumber(renumbered)
        return copy

    def with_site(self, site: int, slack: float) -> State:
        """State with one more reserve site; shares every array, of which only unused places are written."""
        grown = replace(self, sites=site + 1, pivots=0)
        if self.alpha.size < self.gram.capacity:
            for name in ("multiplicity", "ceiling", "alpha", "slack", "status"):
                old = getattr(self, name)
                new = np.zeros(self.gram.capacity, dtype=old.dtype)
                new[: old.size] = old
                setattr(grown, name, new)
        grown.multiplicity[site] = 1
        grown.ceiling[site] = self.cap
        grown.alpha[site] = 0.0
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

    def mass_error(self) -> float:
        """1 − Σα, correctly rounded."""
        return -math.fsum([-1.0, *self.alpha[self.active()].tolist()])

    def recompute_slacks(self) -> None:
        """G = ρ − 1 + 2Kα at every site, from the kernel rows, whatever was there before."""
        slack = self.gram.product(self.alpha)
        slack *= 2.0
        slack += self.offset - 1.0
        self.slack[: self.sites] = slack
