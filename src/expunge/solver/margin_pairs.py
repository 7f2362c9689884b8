"""The margin system in pairs of doubles: K_SS, and Σ m κ over the bound keys at each margin key.

A cache. A kernel pair is a function of two keys, and the sums know which entries they count; `follow` brings both to a
partition by whatever has changed since the last call, so an edit that was given up needs nothing undone. Sums carry a
proved bound of their error.

`inverse_norm` bounds ‖(K_SS + 11ᵀ)⁻¹‖₂ from above. It stays right when a key leaves (the eigenvalues interlace), and
when a key enters with the column a it grows to N + (1 + ‖w‖²)/p, where w = (K_SS + 11ᵀ)⁻¹a and p = 2 − aᵀw are bounded
with the residual of a computed w. Now and then it is found afresh: if the Cholesky factorization of K_SS + 11ᵀ − cI
succeeds in floating point, the smallest eigenvalue is at least c less the rounding of the factorization (Rump, 2006).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numba import njit

from expunge.problem.kernel_pairs import kernel_pairs, pair_error, two_product, two_sum
from expunge.solver.margin_factor import backward, forward
from expunge.types import IndexArray, Matrix, StatusArray, Vector

__all__ = ["MarginPairs"]

_U = 2.0**-53
MARGIN = 1
# How far the maintained bound may grow beyond a fresh one before it is found afresh.
GROWTH = 64.0


@njit(cache=True, nogil=True)
def _accumulate(high: Vector, low: Vector, times: float, sum_high: Vector, sum_low: Vector, count: int) -> None:
    """sums += times · (high + low), each renormalized."""
    for j in range(count):
        p, e = two_product(times, high[j])
        e += times * low[j]
        s, f = two_sum(sum_high[j], p)
        f += e + sum_low[j]
        t = s + f
        sum_high[j] = t
        sum_low[j] = f - (t - s)


@njit(cache=True, nogil=True)
def _total(high: Vector, low: Vector, counts: IndexArray) -> tuple[float, float]:
    """Σ counts · (high + low) as a pair."""
    total, rest = np.zeros(1), np.zeros(1)
    for k in range(counts.size):
        _accumulate(high[k : k + 1], low[k : k + 1], float(counts[k]), total, rest, 1)
    return total[0], rest[0]


@njit(cache=True, nogil=True)
def _entered(gram: Matrix, slots: IndexArray, factor: Matrix, size: int, norm: float) -> float:
    """Bound of ‖A⁻¹‖ after the member at position `size` joined those before it; infinity if none can be shown.

    A is K + 11ᵀ over the first `size` members in factor order; `factor` holds its Cholesky factor in the leading block.
    """
    column, solved = np.empty(size), np.empty(size)
    new = slots[size]
    for i in range(size):
        column[i] = 1.0 + gram[new, slots[i]]
        solved[i] = column[i]
    forward(factor, size, solved)
    backward(factor, size, solved)
    # Entries of A and of the column are below 2; `length` is ‖w‖₁, and rounding at most (size + 4)u of what is summed.
    length, squared = 0.0, 0.0
    for i in range(size):
        length += abs(solved[i])
        squared += solved[i] * solved[i]
    total = 0.0
    for i in range(size):
        total += solved[i]
    residual, product = 0.0, 0.0
    for i in range(size):
        row = gram[slots[i]]
        along = total
        for j in range(size):
            along += row[slots[j]] * solved[j]
        off = abs(column[i] - along) + (size + 6.0) * _U * (2.0 + 2.0 * length)
        residual += off * off
        product += column[i] * solved[i]
    error = norm * math.sqrt(residual) * (1.0 + 1e-10)
    pivot = 2.0 - product - (size + 6.0) * _U * (2.0 + 2.0 * length) - 2.0 * math.sqrt(size) * error
    if not pivot > 0.0:
        return np.inf
    reach = math.sqrt(squared) * (1.0 + 1e-10) + error
    return (norm + (1.0 + reach * reach) / pivot) * (1.0 + 1e-10)


class MarginPairs:
    """Pairs for the sites of the margin, in slots that are dense from 0 to `size`."""

    def __init__(self, capacity: int) -> None:
        self.size = 0
        self.slot_of: IndexArray = np.full(capacity, -1, dtype=np.int64)
        self.counts: IndexArray = np.zeros(capacity, dtype=np.int64)
        self.site_of: IndexArray = np.zeros(8, dtype=np.int64)
        self.gram_high: Matrix = np.zeros((8, 8))
        self.gram_low: Matrix = np.zeros((8, 8))
        self.sum_high: Vector = np.zeros(8)
        self.sum_low: Vector = np.zeros(8)
        self.sum_error: Vector = np.zeros(8)
        self.inverse_norm = math.inf
        self._fresh_norm = math.inf
        # Members for which `inverse_norm` holds.
        self._known: set[int] = set()

    def grown(self, capacity: int) -> MarginPairs:
        """The same, with room for more sites."""
        for name, empty in (("slot_of", -1), ("counts", 0)):
            old = getattr(self, name)
            new = np.full(capacity, empty, dtype=np.int64)
            new[: old.size] = old
            setattr(self, name, new)
        return self

    def renumbered(self, numbers: IndexArray, capacity: int) -> MarginPairs:
        """After a compaction of the sites: an empty cache where a member has no number any more."""
        copy = MarginPairs(capacity)
        counted = np.flatnonzero(self.counts[: numbers.size])
        if (numbers[counted] < 0).any() or (numbers[self.site_of[: self.size]] < 0).any():
            return copy
        copy.counts[numbers[counted]] = self.counts[counted]
        copy.site_of = self.site_of.copy()
        copy.site_of[: self.size] = numbers[self.site_of[: self.size]]
        copy.slot_of[copy.site_of[: self.size]] = np.arange(self.size)
        for name in ("gram_high", "gram_low", "sum_high", "sum_low", "sum_error"):
            setattr(copy, name, getattr(self, name).copy())
        copy.size = self.size
        copy.inverse_norm, copy._fresh_norm = self.inverse_norm, self._fresh_norm
        copy._known = {int(numbers[site]) for site in self._known}
        return copy

    def forget(self, sites: IndexArray) -> None:
        """Drop every sum that counts one of these sites, whose keys are about to go."""
        if self.counts[sites].any():
            self._restart()
            self.counts[:] = 0

    def retain(self, status: StatusArray) -> None:
        """Drop sites that are not on the margin, and overwrite what was held of them."""
        for slot in range(self.size - 1, -1, -1):
            if status[self.site_of[slot]] != MARGIN:
                self._drop(slot)

    def follow(
        self, members: IndexArray, bound_counts: IndexArray, keys: Matrix, sigma: float, factor: Matrix
    ) -> IndexArray:
        """Hold the pairs of these members, for these bound entries; return the members' slots.

        `members` are in the order of `factor`, the Cholesky factor of K_SS + 11ᵀ.
        """
        self._count(bound_counts, keys, sigma)
        new = members[self.slot_of[members] < 0]
        if new.size:
            self._enter(new, keys, sigma)
        slots = self.slot_of[members]
        self._bound_inverse(members, slots, factor)
        return slots

    def refresh_norm(self, members: IndexArray, slots: IndexArray, pivot: float) -> None:
        """Find `inverse_norm` afresh: O(s³). `pivot` is the factor's smallest, an upper bound of the eigenvalue."""
        self.inverse_norm = self._fresh_norm = math.inf
        self._known = set(members.tolist())
        size = slots.size
        matrix = self.gram_high[np.ix_(slots, slots)] + 1.0
        # What rounding may add to an eigenvalue: of the entries, of the shift, and of the factorization itself.
        rounding = 2.0 * (size + 4.0) * size * 2.0 * _U
        shift = 0.5 * pivot
        for _ in range(12):
            shift *= 0.25
            if shift <= 2.0 * rounding:
                return
            try:
                scipy.linalg.cholesky(matrix - shift * np.eye(size), lower=True, overwrite_a=True, check_finite=False)
            except scipy.linalg.LinAlgError:
                continue
            self.inverse_norm = self._fresh_norm = 1.0 / (shift - rounding)
            return

    def _bound_inverse(self, members: IndexArray, slots: IndexArray, factor: Matrix) -> None:
        """Keep `inverse_norm` for the members: by single entries where those entered last, else afresh."""
        size = members.size
        listed = members.tolist()
        known = 0
        while known < size and listed[known] in self._known:
            known += 1
        steady = known > 0 and self.inverse_norm < GROWTH * self._fresh_norm and math.isfinite(self.inverse_norm)
        if steady and not any(site in self._known for site in listed[known:]):
            norm = self.inverse_norm
            for position in range(known, size):
                norm = float(_entered(self.gram_high, slots, factor, position, norm))
            if norm < GROWTH * self._fresh_norm:
                self.inverse_norm, self._known = norm, set(listed)
                return
        if size:
            self.refresh_norm(members, slots, float(np.min(np.diagonal(factor)[:size] ** 2)))

    def _count(self, bound_counts: IndexArray, keys: Matrix, sigma: float) -> None:
        """Bring the sums to these bound entries."""
        sites = bound_counts.size
        changed = np.flatnonzero(bound_counts != self.counts[:sites])
        if self.counts[sites:].any():
            self.counts[sites:] = 0
            self._restart()
        if changed.size == 0:
            return
        if self.size:
            if changed.size > 4 + np.count_nonzero(bound_counts) // 2:
                self._restart()
            else:
                high, low = kernel_pairs(keys[changed], keys, self.site_of[: self.size], sigma)
                error = pair_error(keys.shape[1])
                for row, site in enumerate(changed.tolist()):
                    times = float(bound_counts[site] - self.counts[site])
                    _accumulate(high[row], low[row], times, self.sum_high, self.sum_low, self.size)
                    self.sum_error[: self.size] += abs(times) * error + 4.0 * _U * _U * (
                        np.abs(self.sum_high[: self.size]) + abs(times)
                    )
        self.counts[:sites] = bound_counts

    def _enter(self, new: IndexArray, keys: Matrix, sigma: float) -> None:
        first, size = self.size, self.size + new.size
        self._reserve(size)
        self.site_of[first:size] = new
        self.slot_of[new] = np.arange(first, size)
        self.size = size
        bound = np.flatnonzero(self.counts)
        high, low = kernel_pairs(keys[new], keys, np.concatenate([self.site_of[:size], bound]), sigma)
        self.gram_high[first:size, :size], self.gram_low[first:size, :size] = high[:, :size], low[:, :size]
        self.gram_high[:size, first:size], self.gram_low[:size, first:size] = high[:, :size].T, low[:, :size].T
        counts = self.counts[bound]
        total = float(counts.sum())
        for row in range(new.size):
            slot = first + row
            self.sum_high[slot], self.sum_low[slot] = _total(high[row, size:], low[row, size:], counts)
        self.sum_error[first:size] = total * pair_error(keys.shape[1]) + 4.0 * bound.size * _U * _U * total

    def _drop(self, slot: int) -> None:
        """Take a slot out, the last one moving into its place."""
        last = self.size - 1
        self._known.discard(int(self.site_of[slot]))
        self.slot_of[self.site_of[slot]] = -1
        if slot != last:
            self.site_of[slot] = self.site_of[last]
            self.slot_of[self.site_of[slot]] = slot
            for table in (self.gram_high, self.gram_low):
                table[slot, : self.size] = table[last, : self.size]
                table[: self.size, slot] = table[: self.size, last]
                table[slot, slot] = table[last, last]
            for sums in (self.sum_high, self.sum_low, self.sum_error):
                sums[slot] = sums[last]
        for table in (self.gram_high, self.gram_low):
            table[last, : self.size] = table[: self.size, last] = 0.0
        self.sum_high[last] = self.sum_low[last] = self.sum_error[last] = 0.0
        self.size = last

    def _restart(self) -> None:
        """Forget every slot."""
        self.slot_of[self.site_of[: self.size]] = -1
        self.gram_high[:] = self.gram_low[:] = 0.0
        self.sum_high[:] = self.sum_low[:] = self.sum_error[:] = 0.0
        self.size = 0

    def _reserve(self, needed: int) -> None:
        capacity = self.site_of.size
        if needed <= capacity:
            return
        capacity = max(needed + 8, 2 * capacity)
        for name in ("gram_high", "gram_low"):
            table = np.zeros((capacity, capacity))
            table[: self.size, : self.size] = getattr(self, name)[: self.size, : self.size]
            setattr(self, name, table)
        for name in ("sum_high", "sum_low", "sum_error", "site_of"):
            old = getattr(self, name)
            new = np.zeros(capacity, dtype=old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)
