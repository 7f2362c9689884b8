"""Σ m κ(bound site, ·) at every site, maintained: why a bound key needs no kernel row.

A bound key's coefficient is its ceiling m·C, so its row enters every sum with the factor C·m alone. The sums are pairs
hi + lo of doubles. Rows are added and subtracted without rounding but for lo's own, so a row that comes and goes
leaves at most 2⁻¹⁰⁵ of the sum behind; what remains is the rounding of the kernel values themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from expunge.compilation import njit
from expunge.problem.column_parts import for_column_parts, workers_for
from expunge.problem.kernel import exponent_factor, kernel_values
from expunge.problem.kernel_pairs import two_product, two_sum
from expunge.solver.kernel_products import BLOCK, FEWEST, WIDE, fill_rows
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["BoundSums", "follow_counts"]

# Changes after which the sums are made afresh from the keys: no fault lasts longer.
REFRESH = 1024
# Changes that are followed one by one; more are made in blocks.
FEW = 16
# Sums that are brought up together, so that they stay in the first-level cache, and kernel rows that are made for them.
COLUMNS = 1024
ROWS = 16


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
def _add_rows(rows: Matrix, picked: IndexArray, times: Vector, high: Vector, low: Vector) -> None:
    """Add times · row to the sums, for the picked rows in this order."""
    width = min(rows.shape[1], high.size)
    for start in range(0, width, COLUMNS):
        stop = min(start + COLUMNS, width)
        for k in range(picked.size):
            _add(rows[picked[k], start:stop], times[k], stop - start, high[start:stop], low[start:stop])


@njit(cache=True, nogil=True)
def _add_kernels(
    keys: Matrix, factor: float, sites: IndexArray, times: Vector, first: int, last: int, high: Vector, low: Vector
) -> None:
    """Add times · κ(site, ·) to the sums of the columns from `first` to `last`, site by site in this order."""
    made = np.empty((ROWS, COLUMNS))
    picked = np.empty((ROWS, keys.shape[1]))
    for start in range(first, last, COLUMNS):
        stop = min(start + COLUMNS, last)
        width, at_column = stop - start, start - first
        for at in range(0, sites.size, ROWS):
            height = min(ROWS, sites.size - at)
            for k in range(height):
                picked[k] = keys[sites[at + k]]
            kernel_values(picked[:height], keys[start:stop], factor, made)
            for k in range(height):
                _add(made[k], times[at + k], width, high[at_column:], low[at_column:])


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


def _changed_sums(
    keys: Matrix, sigma: float, sites: IndexArray, times: Vector, high: Vector, low: Vector, first: int, last: int
) -> tuple[Vector, Vector]:
    """The sums from column `first` to `last` after times · κ(site, ·) of some sites was added, in this order."""
    changed, rest = high[first:last].copy(), low[first:last].copy()
    if keys.shape[1] < WIDE or sites.size < FEWEST:
        _add_kernels(keys, exponent_factor(sigma), sites, times, first, last, changed, rest)
        return changed, rest
    for start in range(0, sites.size, BLOCK):
        part = sites[start : start + BLOCK]
        block = np.empty((part.size, last - first))
        fill_rows(keys[part], keys[first:last], sigma, block)
        _add_rows(block, np.arange(part.size), times[start : start + BLOCK], changed, rest)
    return changed, rest


class BoundSums:
    """Sums over the bound keys, and how many entries of each site they count."""

    def __init__(self, capacity: int) -> None:
        self.high: Vector = np.zeros(capacity)
        self.low: Vector = np.zeros(capacity)
        self.counts: IndexArray = np.zeros(capacity, dtype=np.int64)
        self.updates = 0
        # Entries that were added or taken away since the sums were made afresh.
        self.changes = 0

    def grown(self, capacity: int) -> BoundSums:
        """Copy with room for more sites."""
        copy = BoundSums(capacity)
        for name in ("high", "low", "counts"):
            old = getattr(self, name)
            getattr(copy, name)[: old.size] = old
        copy.updates, copy.changes = self.updates, self.changes
        return copy

    def kept(self, sites: IndexArray, capacity: int) -> BoundSums:
        """Copy with some sites alone; all others must count nothing."""
        copy = BoundSums(capacity)
        for name in ("high", "low", "counts"):
            getattr(copy, name)[: sites.size] = getattr(self, name)[sites]
        copy.updates, copy.changes = self.updates, self.changes
        return copy

    @property
    def stale(self) -> bool:
        """Whether the sums are due to be made afresh."""
        return self.updates > REFRESH

    def set_counts(
        self,
        counts: IndexArray,
        keys: Matrix,
        sigma: float,
        rows: Matrix,
        row_of: IndexArray,
        sites: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Count these entries, (sites,): rows that are there are used, others are made in blocks and not kept.

        `progress` is told how many sums have been brought up, and of how many, where many rows have to be made.
        """
        if self.stale:
            self._restart()
        before = int(np.abs(counts - self.counts[:sites]).sum()) if keys.shape[1] >= WIDE else 0
        self.changes += before if self.counts.any() else 0
        factor = exponent_factor(sigma)
        few = follow_counts(counts, self.counts, keys, factor, rows, row_of, sites, self.high, self.low)
        if few == 0:
            return
        self.updates += 1
        if few > 0:
            return
        changed = _changed(counts, self.counts, sites)
        held, made = changed[row_of[changed] >= 0], changed[row_of[changed] < 0]
        steps = (counts - self.counts[:sites]).astype(np.float64)
        _add_rows(rows, row_of[held], steps[held], self.high, self.low)
        times = steps[made]

        def take(first: int, last: int, found: tuple[Vector, Vector]) -> None:
            self.high[first:last], self.low[first:last] = found

        if keys.shape[1] >= WIDE and made.size >= FEWEST and workers_for(sites, made.size) is None:
            # A product runs on every core, so parts of the columns would only be in each other's way.
            for start in range(0, made.size, BLOCK):
                part = slice(start, start + BLOCK)
                sums = self.high[:sites], self.low[:sites]
                take(0, sites, _changed_sums(keys[:sites], sigma, made[part], times[part], *sums, 0, sites))
                if progress is not None:
                    progress(min(start + BLOCK, made.size) * sites // made.size, sites)
        else:
            work = partial(_changed_sums, keys[:sites], sigma, made, times, self.high[:sites], self.low[:sites])
            for_column_parts(work, sites, made.size, progress, take=take)
        self.counts[changed] = counts[changed]

    def agree(self, keys: Matrix, sigma: float, sites: int, present: IndexArray, error: float) -> bool:
        """Whether the sum at every present site is what the keys give; `error` bounds that of one kernel value."""
        made = BoundSums(self.counts.size)
        made.set_counts(self.counts[:sites], keys, sigma, np.zeros((0, sites)), np.full(keys.shape[0], -1), sites)
        # One value may differ from another one of the same keys by two errors; those that came and went, too.
        allowed = 2.0 * error * (float(self.counts[:sites].sum()) + 2.0 * self.changes + 1.0)
        off = np.abs((self.high[:sites] - made.high[:sites]) + (self.low[:sites] - made.low[:sites]))
        return bool((off[present] <= allowed).all())

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
        self.updates = self.changes = 0

    def add_site(self, site: int, kernels: Vector, bound: IndexArray) -> None:
        """Sum at a new site, from its kernel values with the sites that count."""
        high, low = np.zeros(1), np.zeros(1)
        _sum(kernels, self.counts[bound], high, low)
        self.high[site], self.low[site], self.counts[site] = high[0], low[0], 0


@njit(cache=True, nogil=True)
def _sum(kernels: Vector, counts: IndexArray, high: Vector, low: Vector) -> None:
    for k in range(kernels.size):
        _add(kernels[k : k + 1], float(counts[k]), 1, high, low)
