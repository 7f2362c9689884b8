"""Kernel rows of the margin keys, and sums over the bound keys: the only parts of the Gram matrix that a memory keeps.

A *site* is a distinct key; exact duplicates share one. Rows exist for the sites of the margin, and for those that the
current path moves; they are dense from 0 to ``count``, with a column for every site. Bound keys enter through
`bound_sums`. A Gram entry is computed once from the keys and never updated. An edit adds or drops single rows and
columns; buffers grow by doubling and never shrink below what is in use. They start as zeros, so that no freed memory,
which may have held an erased entry, lives on in their unused parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from expunge.compilation import njit
from expunge.problem.kernel import exponent_factor, kernel_block, kernel_values
from expunge.solver.bound_sums import BoundSums
from expunge.solver.kernel_products import BLOCK, WIDE, fill_rows, product_error
from expunge.solver.margin_pairs import MarginPairs
from expunge.types import IndexArray, Matrix, StatusArray, Vector

# The status of a margin site, as `solver.state` numbers it.
MARGIN = 1

__all__ = ["KernelRows", "RowTable", "WeightedRows", "add_weighted_rows", "make_row", "weighted_sums"]


class RowTable(NamedTuple):
    """Kernel rows as compiled code takes them: the rows, the row of each site or −1, and what new rows are made of."""

    rows: Matrix
    row_of: IndexArray
    site_of: IndexArray
    keys: Matrix
    sites: int
    exponent_factor: float


@njit(cache=True, nogil=True)
def make_row(table: RowTable, count: int, site: int) -> bool:
    """Make the row of a site, after `count` others; False if the table is full."""
    if count == table.rows.shape[0]:
        return False
    row = table.rows[count : count + 1, : table.sites]
    kernel_values(table.keys[site : site + 1], table.keys[: table.sites], table.exponent_factor, row)
    table.row_of[site] = count
    table.site_of[count] = site
    return True


@njit(cache=True, nogil=True)
def add_weighted_rows(rows: Matrix, picked: IndexArray, weights: Vector, columns: int, out: Vector) -> None:
    """out[j] += Σ_k weights[k] · rows[picked[k], j]."""
    k = 0
    while k + 4 <= picked.size:
        a, b, c, d = rows[picked[k]], rows[picked[k + 1]], rows[picked[k + 2]], rows[picked[k + 3]]
        wa, wb, wc, wd = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for j in range(columns):
            out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
        k += 4
    while k < picked.size:
        a, wa = rows[picked[k]], weights[k]
        for j in range(columns):
            out[j] += wa * a[j]
        k += 1


class WeightedRows(NamedTuple):
    """What Kα is made of: the first `held` rows, how often each site counts as bound, and the sums over these."""

    rows: Matrix
    site_of: IndexArray
    held: int
    bound_counts: IndexArray
    high: Vector
    low: Vector


@njit(cache=True, nogil=True)
def weighted_sums(kernels: WeightedRows, alpha: Vector, cap: float, sites: int) -> Vector:
    """Kα at every site, (sites,); `alpha` is indexed by site."""
    picked, weights = np.empty(kernels.held, dtype=np.int64), np.empty(kernels.held)
    size = 0
    for row in range(kernels.held):
        site = kernels.site_of[row]
        if alpha[site] != 0.0 and not kernels.bound_counts[site]:
            picked[size], weights[size] = row, alpha[site]
            size += 1
    out = np.empty(sites)
    for j in range(sites):
        out[j] = cap * kernels.high[j] + cap * kernels.low[j]
    add_weighted_rows(kernels.rows, picked[:size], weights, sites, out)
    return out


@njit(cache=True, nogil=True)
def _slacks(kernels: WeightedRows, alpha: Vector, cap: float, sites: int, offset: float, out: Vector) -> None:
    sums = weighted_sums(kernels, alpha, cap, sites)
    for site in range(sites):
        out[site] = 2.0 * sums[site] + (offset - 1.0)


@njit(cache=True, nogil=True)
def _block(rows: Matrix, row_of: IndexArray, picked: IndexArray, columns: IndexArray) -> Matrix:
    out = np.empty((picked.size, columns.size))
    for i in range(picked.size):
        row = rows[row_of[picked[i]]]
        for j in range(columns.size):
            out[i, j] = row[columns[j]]
    return out


@njit(cache=True, nogil=True)
def _retain(
    keys: Matrix,
    rows: Matrix,
    row_of: IndexArray,
    site_of: IndexArray,
    count: int,
    sites: int,
    status: StatusArray,
    gone: IndexArray,
) -> int:
    """Keep the rows of the margin, the last ones moving into the gaps; zero the others, and all of sites that are gone.

    Returns how many rows are left.
    """
    left = 0
    for row in range(count):
        if status[site_of[row]] == MARGIN:
            left += 1
        else:
            row_of[site_of[row]] = -1
    last = count - 1
    for row in range(left):
        if row_of[site_of[row]] < 0:
            while row_of[site_of[last]] < 0:
                last -= 1
            # Spelt out: an assignment of slices takes seconds to compile.
            for column in range(sites):
                rows[row, column] = rows[last, column]
            site_of[row] = site_of[last]
            row_of[site_of[row]] = row
            last -= 1
    for row in range(left, count):
        rows[row, :sites] = 0.0
        site_of[row] = -1
    for site in gone:
        keys[site] = 0.0
        for row in range(left):
            rows[row, site] = 0.0
    return left


_NONE: IndexArray = np.zeros(0, dtype=np.int64)


class KernelRows:
    """Rows of κ(margin site, every site), addressed by site number, and sums over the bound sites."""

    def __init__(self, keys: Matrix, sigma: float, *, capacity: int | None = None) -> None:
        """Take the site keys, (sites, d) float64; no rows yet."""
        sites, dimension = keys.shape
        capacity = max(capacity or sites, sites, 8)
        self.sigma = sigma
        self.keys: Matrix = np.zeros((capacity, dimension))
        self.keys[:sites] = keys
        self.sites = sites
        self.count = 0
        self.rows: Matrix = np.zeros((8, capacity))
        self.row_of: IndexArray = np.full(capacity, -1, dtype=np.int64)
        self.site_of: IndexArray = np.full(8, -1, dtype=np.int64)
        self.bound = BoundSums(capacity)
        self.pairs = MarginPairs(capacity)

    @property
    def table(self) -> RowTable:
        """Rows and their places, not copied."""
        factor = exponent_factor(self.sigma)
        return RowTable(self.rows, self.row_of, self.site_of, self.keys, self.sites, factor)

    @property
    def capacity(self) -> int:
        """Sites that fit before the buffers grow."""
        return int(self.keys.shape[0])

    def add_site(self, key: Vector) -> int:
        """Append a site, with its column in every row and its sum over the bound keys."""
        if self.sites == self.capacity:
            self._grow_sites()
        site = int(self.sites)
        bound = np.flatnonzero(self.bound.counts[:site])
        held = np.concatenate([self.site_of[: self.count], bound])
        kernels = kernel_block(key[None, :], self.keys[held], self.sigma)[0]
        self.keys[site] = key
        self.rows[: self.count, site] = kernels[: self.count]
        self.bound.add_site(site, kernels[self.count :], bound)
        self.row_of[site] = -1
        self.sites += 1
        return site

    def add_sites(self, keys: Matrix) -> None:
        """Append sites, (m, d), where there are no rows and no sums to follow."""
        last = self.sites + keys.shape[0]
        while self.capacity < last:
            self._grow_sites()
        self.keys[self.sites : last] = keys
        self.sites = last

    def value_error(self, cap: float) -> float:
        """Bound on what the errors of single kernel values add to a sum Kα: α ≥ 0 weighs 1, and bound sums remember.

        A bound key may be subtracted with a row that differs, within the error, from the one that was added.
        """
        error = product_error(self.keys.shape[1])
        return error if self.keys.shape[1] < WIDE else error * (1.0 + 2.0 * cap * self.bound.changes)

    def sum_at(self, site: int, alpha: Vector, cap: float) -> float:
        """Kα at one site, from the rows' columns and the bound sums as they stand."""
        column = self.rows[: self.count, site]
        held = self.site_of[: self.count]
        free = np.where(self.bound.counts[held] > 0, 0.0, alpha[held])
        return float(free @ column) + cap * float(self.bound.high[site] + self.bound.low[site])

    def count_bound(self, bound_counts: IndexArray, progress: Callable[[int, int], None] | None = None) -> None:
        """Bring the bound sums to these entries of bound sites; `progress` as for `BoundSums.set_counts`."""
        self.bound.set_counts(bound_counts, self.keys, self.sigma, self.rows, self.row_of, self.sites, progress)

    def rewind(self, sites: int) -> None:
        """Return to the keys of a published state, however far an interrupted edit got, and overwrite the rest.

        Rows of the margin are made again by `require`, before the next edit.
        """
        for held in (self.rows, self.bound.high, self.bound.low, *self.pairs.tables):
            held[:] = 0.0
        self.bound, self.pairs = BoundSums(self.capacity), MarginPairs(self.capacity)
        self.keys[sites:] = 0.0
        self.sites, self.count = sites, 0
        self.rows = np.zeros((8, self.capacity))
        self.row_of = np.full(self.capacity, -1, dtype=np.int64)
        self.site_of = np.full(self.rows.shape[0], -1, dtype=np.int64)

    def require(self, wanted: IndexArray) -> None:
        """Make sure that every wanted site has its row."""
        missing = wanted[self.row_of[wanted] < 0]
        if missing.size == 0:
            return
        first = self.count
        self.reserve_rows(first + missing.size)
        rows = self.rows[first : first + missing.size, : self.sites]
        fill_rows(self.keys[missing], self.keys[: self.sites], self.sigma, rows)
        self.row_of[missing] = np.arange(first, first + missing.size)
        self.site_of[first : first + missing.size] = missing
        self.count += missing.size

    def require_one(self, site: int) -> None:
        """`require` for a single site, without the bookkeeping of many."""
        if self.row_of[site] >= 0:
            return
        self.reserve_rows(self.count + 1)
        make_row(self.table, self.count, site)
        self.count += 1

    def disagreements(self, present: IndexArray) -> tuple[str, ...]:
        """What is held of rows, sums over bound keys and pairs that is not what the keys of these sites give, by name.

        Of a site that holds no entry any more everything is overwritten, its key included.
        """
        keys, error, found = self.keys[: self.sites], product_error(self.keys.shape[1]), []
        held = self.site_of[: self.count]
        for start in range(0, held.size, BLOCK):
            part = held[start : start + BLOCK]
            made = np.empty((part.size, self.sites))
            fill_rows(keys[part], keys, self.sigma, made)
            off = np.abs(self.rows[start : start + part.size, : self.sites] - made)[:, present]
            # Written so that what is not a number is off.
            if not (off <= 2.0 * error).all():
                found.append("rows")
                break
        if not self.bound.agree(self.keys, self.sigma, self.sites, present, error):
            found.append("sums")
        if not self.pairs.agree(self.keys, self.sigma):
            found.append("pairs")
        return tuple(found)

    def retain(self, status: StatusArray, gone: Sequence[int] = ()) -> None:
        """Keep the rows of the margin alone, and overwrite what is held of sites that are `gone`.

        `status` is indexed by site; a site that is gone is counted nowhere any more.
        """
        wiped = np.array(gone) if gone else _NONE
        count = _retain(self.keys, self.rows, self.row_of, self.site_of, self.count, self.sites, status, wiped)
        self.count = int(count)
        if gone:
            self.bound.forget(gone)
            self.pairs.forget(gone)
        self.pairs.retain(status)

    def weighted(self, bound_counts: IndexArray) -> WeightedRows:
        """What Kα is made of, not copied; `bound_counts` (sites,) are those that `count_bound` was given."""
        sums = self.bound
        return WeightedRows(self.rows, self.site_of, self.count, bound_counts, sums.high, sums.low)

    def slacks(self, alpha: Vector, bound_counts: IndexArray, cap: float, offset: float, out: Vector) -> None:
        """G = ρ − 1 + 2Kα at every site, written to the first places of `out`."""
        self.count_bound(bound_counts)
        _slacks(self.weighted(bound_counts), alpha, cap, self.sites, offset, out)

    def block(self, rows: IndexArray, columns: IndexArray) -> Matrix:
        """κ between sites that have rows and any sites."""
        block: Matrix = _block(self.rows, self.row_of, rows, columns)
        return block

    def compacted(self, kept: IndexArray) -> KernelRows:
        """Copy with the kept sites alone, renumbered in order; their rows come along."""
        copy = KernelRows(self.keys[kept], self.sigma, capacity=max(8, kept.size + kept.size // 4))
        renumbered = np.full(self.sites, -1, dtype=np.int64)
        renumbered[kept] = np.arange(kept.size)
        held = self.site_of[: self.count]
        source = np.flatnonzero(renumbered[held] >= 0)
        copy.reserve_rows(source.size)
        for row, old in enumerate(source.tolist()):
            copy.rows[row, : kept.size] = self.rows[old, kept]
        copy.site_of[: source.size] = renumbered[held[source]]
        copy.row_of[copy.site_of[: source.size]] = np.arange(source.size)
        copy.count = source.size
        copy.bound = self.bound.kept(kept, copy.capacity)
        copy.pairs = self.pairs.renumbered(renumbered, copy.capacity)
        return copy

    def reserve_rows(self, needed: int) -> None:
        """Make room for this many rows."""
        if needed <= self.rows.shape[0]:
            return
        capacity = max(needed + needed // 4, 2 * self.rows.shape[0])
        self._move_rows(min(capacity, max(needed, self.capacity)))

    def trim_rows(self) -> None:
        """Give back the room of rows that a cold fit needed on its way."""
        self._move_rows(max(8, self.count + self.count // 4))

    def _move_rows(self, capacity: int) -> None:
        rows = np.zeros((capacity, self.capacity))
        rows[: self.count, : self.sites] = self.rows[: self.count, : self.sites]
        site_of = np.full(capacity, -1, dtype=np.int64)
        site_of[: self.count] = self.site_of[: self.count]
        self.rows, self.site_of = rows, site_of

    def _grow_sites(self) -> None:
        capacity = 2 * self.capacity
        keys = np.zeros((capacity, self.keys.shape[1]))
        keys[: self.sites] = self.keys[: self.sites]
        rows = np.zeros((self.rows.shape[0], capacity))
        rows[: self.count, : self.sites] = self.rows[: self.count, : self.sites]
        row_of = np.full(capacity, -1, dtype=np.int64)
        row_of[: self.sites] = self.row_of[: self.sites]
        self.keys, self.rows, self.row_of = keys, rows, row_of
        self.bound, self.pairs = self.bound.grown(capacity), self.pairs.grown(capacity)
