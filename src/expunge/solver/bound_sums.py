"""Σ m κ(bound site, ·) at every site, maintained: why a bound key needs no kernel row.

A bound key's coefficient is its ceiling m·C, so its row enters every sum with the factor C·m alone. The sums are pairs
hi + lo of doubles. Rows are added and subtracted without rounding but for lo's own, so a row that comes and goes
leaves at most 2⁻¹⁰⁵ of the sum behind; what remains is the rounding of the kernel values themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from expunge.problem.kernel import exponent_factor, fill_kernel, kernel_values
from expunge.problem.kernel_pairs import two_product, two_sum
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["BoundSums", "follow_counts"]

# Entries of kernel rows that are made together.
BLOCK = 1_000_000
# Changes after which the sums are made afresh from the keys: no fault lasts longer.
REFRESH = 1024
# Changes that are followed one by one; more are made in blocks.
FEW = 16
# Sums that are brought up together, so that they stay in the first-level cache.
COLUMNS = 1024


@njit(cache=True, nogil=True)
def _add(row: Vector, times: float, sites: int, high: Vector, low: Vector) -> None:
    """Add times · row to high + low."""
    if abs(times) == 1.0:
        # Most keys are there once, and a product with ±1 is exact: the same sums, in half the time.
        for j in range(sites):
            s, f = two_sum(high[j], times * row[j])
            f += low[j]
            t = s + f
            high[j] = t
            low[j] = f - (t - s)
        return
    for j in range(sites):
        p, e = two_product(times, row[j])
        s, f = two_sum(high[j], p)
        f += e + low[j]
        t = s + f
        high[j] = t
        low[j] = f - (t - s)


@njit(cache=True, nogil=True)
def _add_rows(
    rows: Matrix, picked: IndexArray, sites: IndexArray, counts: IndexArray, held: IndexArray, high: Vector, low: Vector
) -> None:
    """Bring `held` and the sums to the counts of some sites, whose rows are the picked ones, in this order."""
    width = min(rows.shape[1], high.size)
    for start in range(0, width, COLUMNS):
        stop = min(start + COLUMNS, width)
        for k in range(sites.size):
            times = float(counts[sites[k]] - held[sites[k]])
            _add(rows[picked[k], start:stop], times, stop - start, high[start:stop], low[start:stop])
    for site in sites:
        held[site] = counts[site]


@njit(cache=True, nogil=True)
def _changed(now: IndexArray, then: IndexArray, sites: int) -> IndexArray:
    """Sites whose count differs."""
    found = np.empty(sites, dtype=np.int64)
    size = 0
    for site in range(sites):
        if now[site] != then[site]:
            found[size] = site
            size += 1
    return found[:size].copy()


@njit(cache=True, nogil=True)
def follow_counts(
    counts: IndexArray,
    held: IndexArray,
    keys: Matrix,
    factor: float,
    rows: Matrix,
    row_of: IndexArray,
    sites: int,
    high: Vector,
    low: Vector,
) -> int:
    """Bring `held` and the sums to these counts; how many changed, or −1, with nothing done, for more than FEW."""
    changed = 0
    for site in range(sites):
        if counts[site] != held[site]:
            changed += 1
    if changed > FEW:
        return -1
    if changed == 0:
        return 0
    made = np.empty((1, sites))
    for site in range(sites):
        if counts[site] == held[site]:
            continue
        row = rows[row_of[site]]
        if row_of[site] < 0:
            kernel_values(keys[site : site + 1], keys[:sites], factor, made)
            row = made[0]
        _add(row, float(counts[site] - held[site]), sites, high, low)
        held[site] = counts[site]
    return changed


class BoundSums:
    """Sums over the bound keys, and how many entries of each site they count."""

    def __init__(self, capacity: int) -> None:
        self.high: Vector = np.zeros(capacity)
        self.low: Vector = np.zeros(capacity)
        self.counts: IndexArray = np.zeros(capacity, dtype=np.int64)
        self.updates = 0

    def grown(self, capacity: int) -> BoundSums:
        """Copy with room for more sites."""
        copy = BoundSums(capacity)
        for name in ("high", "low", "counts"):
            old = getattr(self, name)
            getattr(copy, name)[: old.size] = old
        copy.updates = self.updates
        return copy

    def kept(self, sites: IndexArray, capacity: int) -> BoundSums:
        """Copy with some sites alone; all others must count nothing."""
        copy = BoundSums(capacity)
        for name in ("high", "low", "counts"):
            getattr(copy, name)[: sites.size] = getattr(self, name)[sites]
        copy.updates = self.updates
        return copy

    @property
    def stale(self) -> bool:
        """Whether the sums are due to be made afresh."""
        return self.updates > REFRESH

    def set_counts(
        self, counts: IndexArray, keys: Matrix, sigma: float, rows: Matrix, row_of: IndexArray, sites: int
    ) -> None:
        """Count these entries, (sites,): rows that are there are used, others are made in blocks and not kept."""
        if self.stale:
            self._restart()
        factor = exponent_factor(sigma)
        few = follow_counts(counts, self.counts, keys, factor, rows, row_of, sites, self.high, self.low)
        if few == 0:
            return
        self.updates += 1
        if few > 0:
            return
        changed = _changed(counts, self.counts, sites)
        held, made = changed[row_of[changed] >= 0], changed[row_of[changed] < 0]
        _add_rows(rows, row_of[held], held, counts, self.counts, self.high, self.low)
        height = max(1, BLOCK // sites)
        for start in range(0, made.size, height):
            part = made[start : start + height]
            block = np.empty((part.size, sites))
            fill_kernel(keys[part], keys[:sites], sigma, block)
            _add_rows(block, np.arange(part.size), part, counts, self.counts, self.high, self.low)

    def forget(self, sites: Sequence[int]) -> None:
        """Overwrite what is held of sites whose keys are about to go."""
        for site in sites:
            if self.counts.item(site):
                self._restart()
        for site in sites:
            self.high[site] = self.low[site] = 0.0

    def _restart(self) -> None:
        self.high[:] = self.low[:] = 0.0
        self.counts[:] = 0
        self.updates = 0

    def add_site(self, site: int, kernels: Vector, bound: IndexArray) -> None:
        """Sum at a new site, from its kernel values with the sites that count."""
        high, low = np.zeros(1), np.zeros(1)
        _sum(kernels, self.counts[bound], high, low)
        self.high[site], self.low[site], self.counts[site] = high[0], low[0], 0


@njit(cache=True, nogil=True)
def _sum(kernels: Vector, counts: IndexArray, high: Vector, low: Vector) -> None:
    for k in range(kernels.size):
        _add(kernels[k : k + 1], float(counts[k]), 1, high, low)
