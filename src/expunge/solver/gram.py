"""Kernel rows of the active keys: the only part of the Gram matrix that a memory keeps.

A *site* is a distinct key; exact duplicates share one. Rows exist for sites with a positive coefficient and
are dense from 0 to ``count``; columns exist for every site. A Gram entry is computed once from the keys and
never updated, so a product with these rows is an honest recomputation. An edit adds or drops single rows and
columns; buffers grow by doubling and never shrink below what is in use. They start as zeros, so that no freed memory,
which may have held an erased entry, lives on in their unused parts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit

from expunge.kernel import kernel_block
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["GramRows", "add_weighted_rows"]

# Products with more entries than this go to the threaded library; below, its start-up costs more.
THREADED = 1_000_000


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


class GramRows:
    """Rows of κ(active site, every site), addressed by site number."""

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

    @property
    def capacity(self) -> int:
        """Sites that fit before the buffers grow."""
        return int(self.keys.shape[0])

    def add_site(self, key: Vector, column: Vector) -> int:
        """Append a site. `column` is κ(row sites, key) in row order, as `column_for` gave it."""
        if self.sites == self.capacity:
            self._grow_sites()
        site = int(self.sites)
        self.keys[site] = key
        self.rows[: self.count, site] = column
        self.row_of[site] = -1
        self.sites += 1
        return site

    def rewind(self, sites: int, active: IndexArray) -> None:
        """Return to what a published state needs, however far an interrupted edit got: keys, then rows afresh."""
        self.keys[sites:] = 0.0
        self.sites, self.count = sites, 0
        self.rows = np.zeros((max(8, active.size), self.capacity))
        self.row_of = np.full(self.capacity, -1, dtype=np.int64)
        self.site_of = np.full(self.rows.shape[0], -1, dtype=np.int64)
        self.require(active)

    def wipe(self, sites: Iterable[int]) -> None:
        """Overwrite what is held of deleted sites: their keys and their kernel values."""
        for site in sites:
            if self.row_of[site] >= 0:
                self._drop_row(site)
            self.keys[site] = 0.0
            self.rows[: self.count, site] = 0.0

    def column_for(self, key: Vector) -> Vector:
        """κ(row sites, key), in row order."""
        return kernel_block(self.keys[self.site_of[: self.count]], key[None, :], self.sigma)[:, 0]

    def require(self, wanted: IndexArray, known: Matrix | None = None) -> None:
        """Make sure that every wanted site has its row; `known` is the kernel matrix of all sites, if at hand."""
        missing = wanted[self.row_of[wanted] < 0]
        if missing.size == 0:
            return
        first = self.count
        self._reserve_rows(first + missing.size)
        block = 512  # bounds the temporary, not the result
        for start in range(0, missing.size, block):
            part = missing[start : start + block]
            block_rows = (
                kernel_block(self.keys[part], self.keys[: self.sites], self.sigma) if known is None else known[part]
            )
            self.rows[first + start : first + start + part.size, : self.sites] = block_rows
        self.row_of[missing] = np.arange(first, first + missing.size)
        self.site_of[first : first + missing.size] = missing
        self.count += missing.size

    def require_one(self, site: int) -> None:
        """`require` for a single site, without the bookkeeping of many."""
        if self.row_of[site] >= 0:
            return
        row = self.count
        self._reserve_rows(row + 1)
        self.rows[row, : self.sites] = kernel_block(self.keys[site : site + 1], self.keys[: self.sites], self.sigma)[0]
        self.row_of[site] = row
        self.site_of[row] = site
        self.count = row + 1

    def retain(self, active: IndexArray) -> None:
        """Drop the rows of every site that is not in `active`."""
        keep = np.zeros(self.sites, dtype=bool)
        keep[active] = True
        held = self.site_of[: self.count]
        for site in held[~keep[held]].tolist():
            self._drop_row(site)

    def product(self, coefficients: Vector) -> Vector:
        """Kα at every site, from the rows alone; `coefficients` is indexed by site."""
        weights = coefficients[self.site_of[: self.count]]
        if self.count * self.sites > THREADED:
            return np.asarray(weights @ self.rows[: self.count, : self.sites])
        out = np.zeros(self.sites)
        add_weighted_rows(self.rows, np.arange(self.count), weights, self.sites, out)
        return out

    def block(self, rows: IndexArray, columns: IndexArray) -> Matrix:
        """κ between sites that have rows and any sites."""
        return self.rows[self.row_of[rows][:, None], columns]

    def compacted(self, kept: IndexArray) -> GramRows:
        """Copy with the kept sites alone, renumbered in order; rows of active sites come along."""
        copy = GramRows(self.keys[kept], self.sigma, capacity=max(8, kept.size + kept.size // 4))
        renumbered = np.full(self.sites, -1, dtype=np.int64)
        renumbered[kept] = np.arange(kept.size)
        held = self.site_of[: self.count]
        source = np.flatnonzero(renumbered[held] >= 0)
        copy._reserve_rows(source.size)
        for row, old in enumerate(source.tolist()):
            copy.rows[row, : kept.size] = self.rows[old, kept]
        copy.site_of[: source.size] = renumbered[held[source]]
        copy.row_of[copy.site_of[: source.size]] = np.arange(source.size)
        copy.count = source.size
        return copy

    def _drop_row(self, site: int) -> None:
        row = int(self.row_of[site])
        last = self.count - 1
        if row != last:
            moved = int(self.site_of[last])
            self.rows[row, : self.sites] = self.rows[last, : self.sites]
            self.site_of[row] = moved
            self.row_of[moved] = row
        self.rows[last, : self.sites] = 0.0
        self.site_of[last] = -1
        self.row_of[site] = -1
        self.count = last

    def _reserve_rows(self, needed: int) -> None:
        if needed <= self.rows.shape[0]:
            return
        capacity = max(needed + needed // 4, 2 * self.rows.shape[0])
        rows = np.zeros((min(capacity, max(needed, self.capacity)), self.capacity))
        rows[: self.count, : self.sites] = self.rows[: self.count, : self.sites]
        site_of = np.full(rows.shape[0], -1, dtype=np.int64)
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
