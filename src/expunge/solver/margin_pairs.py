"""The margin system in pairs of doubles: K_SS, and Σ m κ over the bound keys at each margin key.

A cache. A kernel pair is a function of two keys, and the sums know which entries they count; `follow` brings both to a
partition by whatever has changed since the last call, so an edit that was given up needs nothing undone. Sums carry a
proved bound of their error.

`inverse_norm` bounds ‖(K_SS + 11ᵀ)⁻¹‖₂ from above. It stays right when a key leaves (the eigenvalues interlace), and
when a key enters with the column a it grows to N + (1 + ‖w‖²)/p, where w = (K_SS + 11ᵀ)⁻¹a and p = 2 − aᵀw are bounded
with the residual of a computed w. (With several keys at once these are ‖W‖₂² and the least eigenvalue of their Schur
complement.) Now and then it is found afresh: if the Cholesky factorization of K_SS + 11ᵀ − cI succeeds in floating
point, the smallest eigenvalue is at least c less the rounding of the factorization (Rump, 2006).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expunge.compilation import njit
from expunge.problem.column_parts import for_column_parts
from expunge.problem.kernel_pairs import KernelWidth, fill_pairs, kernel_width, pair_error, two_product, two_sum
from expunge.solver.margin_factor import backward, solve_rows, upper_factor
from expunge.types import AnyArray, IndexArray, Matrix, StatusArray, Vector

__all__ = ["MarginPairs", "PairTables"]

_U = 2.0**-53
MARGIN = 1
# How far the maintained bound may grow beyond a fresh one before it is found afresh.
GROWTH = 64.0
# How many times the error of fresh sums a maintained sum may carry.
AGE = 16.0
# New members whose pairs are made together.
ROWS = 32
# How `_follow` returns: all done, or in want of larger tables, or of a fresh start.
FOLLOWED, CRAMPED, OUTDATED, ENTERING = range(4)
# Margins from which new members are bounded all at once, and pairs from which they are made on every core.
LARGE = 128
MANY = 200_000


class PairTables(NamedTuple):
    """The margin system in pairs, by slot, as compiled functions take it."""

    gram_high: Matrix
    gram_low: Matrix
    sum_high: Vector
    sum_low: Vector
    sum_error: Vector


@njit(cache=True, nogil=True)
def _recount(
    bound_counts: IndexArray,
    counts: IndexArray,
    keys: Matrix,
    site_of: IndexArray,
    size: int,
    width: KernelWidth,
    error: float,
    tables: PairTables,
) -> bool:
    """Bring `counts` to `bound_counts`, and the sums of `size` slots along; False, with `counts` alone changed, if
    the sums are made faster from nothing.

    Kernel pairs are off by `error`. Sites beyond `bound_counts` count nothing.
    """
    changed, counted, total = 0, 0, 1.0
    sites = bound_counts.size
    for site in range(counts.size):
        now = bound_counts[site] if site < sites else 0
        if now != counts[site]:
            changed += 1
        if now:
            counted += 1
            total += now
    _, _, sum_high, sum_low, sum_error = tables
    worst, largest = 0.0, 1.0
    for j in range(size):
        worst = max(worst, sum_error[j])
        largest = max(largest, abs(sum_high[j]))
    # Sums that have followed for long carry more error than fresh ones.
    follows = changed <= 4 + counted // 2 and worst <= AGE * total * (error + 4.0 * _U * _U * largest)
    high, low = np.empty((1, size)), np.empty((1, size))
    for site in range(counts.size):
        now = bound_counts[site] if site < sites else 0
        if now == counts[site]:
            continue
        if follows and size:
            times = float(now - counts[site])
            fill_pairs(keys[site : site + 1], keys, site_of[:size], width, high, low)
            for j in range(size):
                p, e = two_product(times, high[0, j])
                e += times * low[0, j]
                s, f = two_sum(sum_high[j], p)
                f += e + sum_low[j]
                t = s + f
                sum_high[j] = t
                sum_low[j] = f - (t - s)
                sum_error[j] += abs(times) * error + 4.0 * _U * _U * (abs(t) + abs(p))
        counts[site] = now
    return follows


@njit(cache=True, nogil=True)
def _place_new(new: IndexArray, first: int, site_of: IndexArray, slot_of: IndexArray) -> None:
    """Give new sites the slots from `first` on."""
    for row in range(new.size):
        site_of[first + row] = new[row]
        slot_of[new[row]] = first + row


@njit(cache=True, nogil=True)
def _new_pairs(
    new: IndexArray,
    first: int,
    bound: IndexArray,
    counts: IndexArray,
    keys: Matrix,
    site_of: IndexArray,
    width: KernelWidth,
    error: float,
    begin: int,
    stop: int,
) -> tuple[Matrix, Matrix, Matrix]:
    """Of the new sites from `begin` to `stop`, of which slot `first` is the first: pairs with every earlier slot and
    each other, high and low, and sums in three rows: high, low and error.
    """
    part = new[begin:stop]
    # A pair is that of the two keys in either order: earlier slots, those of this part, and the bound keys.
    before = first + stop
    picked = np.concatenate((site_of[:before], bound))
    high, low = np.empty((part.size, picked.size)), np.empty((part.size, picked.size))
    fill_pairs(keys[part], keys, picked, width, high, low)
    sums = np.empty((3, part.size))
    for row in range(part.size):
        s, r, wrong = 0.0, 0.0, 0.0
        for k in range(bound.size):
            times = float(counts[bound[k]])
            p, e = two_product(times, high[row, before + k])
            e += times * low[row, before + k]
            t, f = two_sum(s, p)
            f += e + r
            s = t + f
            r = f - (s - t)
            wrong += times * error + 4.0 * _U * _U * (abs(s) + abs(p))
        sums[0, row], sums[1, row], sums[2, row] = s, r, wrong * (1.0 + 1e-9)
    return high[:, :before].copy(), low[:, :before].copy(), sums


def _made_pairs(*given: Any) -> tuple[Matrix, Matrix, Matrix]:
    """`_new_pairs`, as workers are given it: by name. The compiled function would be compiled again by each."""
    found: tuple[Matrix, Matrix, Matrix] = _new_pairs(*given)
    return found


@njit(cache=True, nogil=True)
def _put_pairs(slot: int, high: Matrix, low: Matrix, sums: Matrix, tables: PairTables) -> None:
    """Write what `_new_pairs` made into the slots from `slot` on."""
    gram_high, gram_low, sum_high, sum_low, sum_error = tables
    for row in range(high.shape[0]):
        for other in range(high.shape[1]):
            gram_high[slot + row, other] = gram_high[other, slot + row] = high[row, other]
            gram_low[slot + row, other] = gram_low[other, slot + row] = low[row, other]
        sum_high[slot + row], sum_low[slot + row], sum_error[slot + row] = sums[0, row], sums[1, row], sums[2, row]


@njit(cache=True, nogil=True)
def _enter(
    new: IndexArray,
    first: int,
    bound: IndexArray,
    counts: IndexArray,
    keys: Matrix,
    site_of: IndexArray,
    width: KernelWidth,
    error: float,
    tables: PairTables,
) -> None:
    """Fill the slots of some new sites, of which the first has slot `first`: pairs with every slot, and sums."""
    for begin in range(0, new.size, ROWS):
        stop = min(begin + ROWS, new.size)
        high, low, sums = _new_pairs(new, first, bound, counts, keys, site_of, width, error, begin, stop)
        _put_pairs(first + begin, high, low, sums, tables)


@njit(cache=True, nogil=True)
def _entered(gram: Matrix, slots: IndexArray, factor: Matrix, size: int, norm: float) -> float:
    """Bound of ‖A⁻¹‖ after the member at position `size` joined those before it; infinity if none can be shown.

    A is K + 11ᵀ over the first `size` members in factor order; `factor` holds its Cholesky factor in the leading block,
    and beside it the new column, solved halfway.
    """
    column, solved = np.empty(size), np.empty(size)
    new = slots[size]
    for i in range(size):
        column[i] = 1.0 + gram[new, slots[i]]
        solved[i] = factor[i, size]
    backward(factor, size, solved)
    # Entries of A and of the column are below 2; `length` is ‖w‖₁, and rounding at most (size + 4)u of what is summed.
    length, squared = 0.0, 0.0
    for i in range(size):
        length += abs(solved[i])
        squared += solved[i] * solved[i]
    total = 0.0
    for i in range(size):
        total += solved[i]
    # Row by row in slot order, so that the inner loop runs along memory.
    width = 0
    for i in range(size):
        width = max(width, slots[i] + 1)
    along = np.full(width, total)
    for j in range(size):
        row, weight = gram[slots[j]], solved[j]
        for i in range(width):
            along[i] += row[i] * weight
    residual, product = 0.0, 0.0
    for i in range(size):
        off = abs(column[i] - along[slots[i]]) + (size + 6.0) * _U * (2.0 + 2.0 * length)
        residual += off * off
        product += column[i] * solved[i]
    error = norm * math.sqrt(residual) * (1.0 + 1e-10)
    pivot = 2.0 - product - (size + 6.0) * _U * (2.0 + 2.0 * length) - 2.0 * math.sqrt(size) * error
    if not pivot > 0.0:
        return np.inf
    reach = math.sqrt(squared) * (1.0 + 1e-10) + error
    return (norm + (1.0 + reach * reach) / pivot) * (1.0 + 1e-10)


@njit(cache=True, nogil=True)
def _known_first(members: IndexArray, known: npt.NDArray[np.bool_]) -> int:
    """How many members are known, if those come first; −1 if one comes after a member that is not."""
    first = 0
    while first < members.size and known[members[first]]:
        first += 1
    for position in range(first, members.size):
        if known[members[position]]:
            return -1
    return first


@njit(cache=True, nogil=True)
def _follow(
    members: IndexArray,
    bound_counts: IndexArray,
    counts: IndexArray,
    keys: Matrix,
    width: KernelWidth,
    error: float,
    site_of: IndexArray,
    slot_of: IndexArray,
    size: int,
    tables: PairTables,
    factor: Matrix,
    known: npt.NDArray[np.bool_],
    norm: float,
    highest: float,
) -> tuple[int, IndexArray, int, float]:
    """Bring sums, slots and the bound of the inverse to a partition: (how it went, slots, how many, bound).

    The bound grows by single entries where new members entered last; it is infinite where that does not do, or where
    it reaches `highest`. A call after CRAMPED or OUTDATED goes on where this one stopped.
    """
    slots, missing = np.empty(members.size, dtype=np.int64), 0
    if not _recount(bound_counts, counts, keys, site_of, size, width, error, tables):
        return OUTDATED, slots, size, norm
    for k in range(members.size):
        slots[k] = slot_of[members[k]]
        if slots[k] < 0:
            missing += 1
    if size + missing > site_of.size:
        return CRAMPED, slots, size, norm
    if missing * (size + missing) > MANY:
        return ENTERING, slots, size, norm
    if missing:
        new = members[slots < 0]
        _place_new(new, size, site_of, slot_of)
        _enter(new, size, np.flatnonzero(counts), counts, keys, site_of, width, error, tables)
        size += missing
        for k in range(members.size):
            slots[k] = slot_of[members[k]]
    first = _known_first(members, known)
    if not (first > 0 and norm < highest):
        return FOLLOWED, slots, size, np.inf
    if members.size > LARGE:
        return FOLLOWED, slots, size, norm
    for position in range(first, members.size):
        norm = _entered(tables.gram_high, slots, factor, position, norm)
    if not norm < highest:
        return FOLLOWED, slots, size, np.inf
    if first < members.size:
        # It need not hold for members that left before these came.
        known[:] = False
        for member in members:
            known[member] = True
    return FOLLOWED, slots, size, norm


@njit(cache=True, nogil=True)
def _move_last(
    slot: int,
    size: int,
    site_of: IndexArray,
    slot_of: IndexArray,
    tables: PairTables,
) -> None:
    """Move the last of `size` slots to `slot`, and overwrite what was there and what the last one held."""
    gram_high, gram_low, sum_high, sum_low, sum_error = tables
    last = size - 1
    slot_of[site_of[slot]] = -1
    if slot != last:
        site_of[slot] = site_of[last]
        slot_of[site_of[slot]] = slot
        for other in range(size):
            gram_high[slot, other] = gram_high[last, other]
            gram_low[slot, other] = gram_low[last, other]
        gram_high[slot, slot], gram_low[slot, slot] = gram_high[last, last], gram_low[last, last]
        for other in range(size):
            gram_high[other, slot] = gram_high[slot, other]
            gram_low[other, slot] = gram_low[slot, other]
        sum_high[slot], sum_low[slot], sum_error[slot] = sum_high[last], sum_low[last], sum_error[last]
    for other in range(size):
        gram_high[last, other] = gram_high[other, last] = 0.0
        gram_low[last, other] = gram_low[other, last] = 0.0
    sum_high[last] = sum_low[last] = sum_error[last] = 0.0


@njit(cache=True, nogil=True)
def _retain(
    site_of: IndexArray,
    slot_of: IndexArray,
    size: int,
    tables: PairTables,
    status: StatusArray,
    known: npt.NDArray[np.bool_],
) -> int:
    """Take every slot out whose site is not on the margin, the last one moving into its place; how many are left."""
    for slot in range(size - 1, -1, -1):
        if status[site_of[slot]] != MARGIN:
            known[site_of[slot]] = False
            _move_last(slot, size, site_of, slot_of, tables)
            size -= 1
    return size


class MarginPairs:
    """Pairs for the sites of the margin, in slots that are dense from 0 to `size`."""

    def __init__(self, capacity: int) -> None:
        self.size = 0
        self.slot_of: IndexArray = np.full(capacity, -1, dtype=np.int64)
        self.counts: IndexArray = np.zeros(capacity, dtype=np.int64)
        self.site_of: IndexArray = np.zeros(8, dtype=np.int64)
        self.tables = PairTables(np.zeros((8, 8)), np.zeros((8, 8)), np.zeros(8), np.zeros(8), np.zeros(8))
        self.inverse_norm = math.inf
        self._fresh_norm = math.inf
        # By site: whether `inverse_norm` holds for it, together with all others that it holds for.
        self._known: npt.NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)

    def grown(self, capacity: int) -> MarginPairs:
        """The same, with room for more sites."""
        for name, empty in (("slot_of", -1), ("counts", 0), ("_known", False)):
            old = getattr(self, name)
            new = np.full(capacity, empty, dtype=old.dtype)
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
        copy.tables = PairTables(*(table.copy() for table in self.tables))
        copy.size = self.size
        copy.inverse_norm, copy._fresh_norm = self.inverse_norm, self._fresh_norm
        copy._known[numbers[np.flatnonzero(self._known)]] = True
        return copy

    def forget(self, sites: Sequence[int]) -> None:
        """Drop every sum that counts one of these sites, whose keys are about to go."""
        for site in sites:
            if self.counts.item(site):
                self._restart()
                self.counts[:] = 0

    def retain(self, status: StatusArray) -> None:
        """Drop sites that are not on the margin, and overwrite what was held of them."""
        self.size = _retain(self.site_of, self.slot_of, self.size, self.tables, status, self._known)

    def follow(
        self, members: IndexArray, bound_counts: IndexArray, keys: Matrix, sigma: float, factor: Matrix
    ) -> IndexArray:
        """Hold the pairs of these members, for these bound entries; return the members' slots.

        `members` are in the order of `factor`, the Cholesky factor of K_SS + 11ᵀ.
        """
        width, error = kernel_width(sigma), pair_error(keys.shape[1])
        while True:
            why, slots, self.size, norm = _follow(
                members,
                bound_counts,
                self.counts,
                keys,
                width,
                error,
                self.site_of,
                self.slot_of,
                self.size,
                self.tables,
                factor,
                self._known,
                self.inverse_norm,
                GROWTH * self._fresh_norm,
            )
            if why == FOLLOWED:
                if members.size > LARGE and norm < math.inf:
                    norm = self._joined_norm(members, slots, factor)
                break
            if why == ENTERING:
                self._enter_many(members[slots < 0], keys, width, error)
                continue
            if why == CRAMPED:
                self._reserve(self.size + int(np.count_nonzero(slots < 0)))
            else:
                self._restart()
        if norm < math.inf:
            self.inverse_norm = norm
        else:
            self.refresh_norm(members, slots, float(np.min(np.diagonal(factor)[: members.size] ** 2)))
        return slots

    def agree(self, keys: Matrix, sigma: float) -> bool:
        """Whether every pair and every sum is, within its proved error, what the keys give now."""
        width, error = kernel_width(sigma), pair_error(keys.shape[1])
        sites, bound = self.site_of[: self.size], np.flatnonzero(self.counts)
        for begin in range(0, self.size, ROWS):
            stop = min(begin + ROWS, self.size)
            high, low, sums = _made_pairs(sites, 0, bound, self.counts, keys, sites, width, error, begin, stop)
            tables = self.tables
            across, down = (slice(begin, stop), slice(stop)), (slice(stop), slice(begin, stop))
            for place, high_made, low_made in ((across, high, low), (down, high.T, low.T)):
                off = np.abs((tables.gram_high[place] - high_made) + (tables.gram_low[place] - low_made))
                # Written so that what is not a number is off.
                if not (off <= 2.0 * error).all():
                    return False
            held = tables.sum_high[begin:stop], tables.sum_low[begin:stop], tables.sum_error[begin:stop]
            if not (np.abs((held[0] - sums[0]) + (held[1] - sums[1])) <= held[2] + sums[2]).all():
                return False
        return True

    def _enter_many(self, new: IndexArray, keys: Matrix, width: KernelWidth, error: float) -> None:
        """`_enter` on every core, or by workers: each part has its own pairs and sums, in one order."""
        first, bound = self.size, np.flatnonzero(self.counts)
        _place_new(new, first, self.site_of, self.slot_of)
        make = partial(
            _made_pairs, new, first, bound, self.counts, keys, self.site_of[: first + new.size], width, error
        )

        def take(begin: int, _: int, made: tuple[Matrix, Matrix, Matrix]) -> None:
            _put_pairs(first + begin, *made, self.tables)

        # The last parts have the most pairs.
        for_column_parts(make, new.size, MANY * 100, part=ROWS, take=take)
        self.size += new.size

    def _joined_norm(self, members: IndexArray, slots: IndexArray, factor: Matrix) -> float:
        """Bound of ‖A⁻¹‖ after the last members joined those that it holds for; infinity if none can be shown."""
        norm, size = self.inverse_norm, members.size
        first = int(_known_first(members, self._known))
        count = size - first
        if count == 0:
            return norm
        solved = solve_rows(factor[:first], factor[:first, first:size].T, b"T")
        width = int(slots.max()) + 1
        gram, spread = self.tables.gram_high[:width, :width], np.zeros((count, width))
        spread[:, slots[:first]] = solved
        new, known = slots[first:], slots[:first]
        columns = gram[new][:, known] + 1.0
        along = (spread @ gram)[:, known] + solved.sum(axis=1)[:, None]
        # Entries of A and of the columns are below 2, and rounding at most (width + 8)u of what is summed.
        each = (width + 8.0) * _U * (2.0 + 2.0 * np.abs(solved).sum(axis=1))
        left = np.sqrt(((np.abs(columns - along) + each[:, None]) ** 2).sum(axis=1))
        error = norm * float(np.sqrt((left * left).sum())) * (1.0 + 1e-10)
        schur = gram[new][:, new] + 1.0 - solved @ columns.T
        off = each + 2.0 * math.sqrt(first) * norm * left * (1.0 + 1e-10)
        least = float(np.linalg.eigvalsh(0.5 * (schur + schur.T))[0])
        pivot = least - math.sqrt(count * float((off * off).sum())) - 32.0 * count * count * _U
        if not pivot > 0.0:
            return math.inf
        reach = math.sqrt(float(np.linalg.eigvalsh(solved @ solved.T)[-1]) * (1.0 + 1e-8)) + error
        grown = (norm + (1.0 + reach * reach) / pivot) * (1.0 + 1e-10)
        if not grown < GROWTH * self._fresh_norm:
            return math.inf
        # It need not hold for members that left before these came.
        self._known[:] = False
        self._known[members] = True
        return grown

    def refresh_norm(self, members: IndexArray, slots: IndexArray, pivot: float) -> None:
        """Find `inverse_norm` afresh: O(s³). `pivot` is the factor's smallest, an upper bound of the eigenvalue."""
        self.inverse_norm = self._fresh_norm = math.inf
        self._known[:] = False
        self._known[members] = True
        size = slots.size
        matrix = self.tables.gram_high[np.ix_(slots, slots)] + 1.0
        # What rounding may add to an eigenvalue: of the entries, of the shift, and of the factorization itself.
        rounding = 2.0 * (size + 4.0) * size * 2.0 * _U
        shift = 0.5 * pivot
        for _ in range(12):
            shift *= 0.25
            if shift <= 2.0 * rounding:
                return
            if upper_factor(matrix - shift * np.eye(size)) is not None:
                self.inverse_norm = self._fresh_norm = 1.0 / (shift - rounding)
                return

    def _restart(self) -> None:
        """Forget every slot."""
        self.slot_of[self.site_of[: self.size]] = -1
        for table in self.tables:
            table[:] = 0.0
        self.size = 0

    def _reserve(self, needed: int) -> None:
        capacity = self.site_of.size
        if needed <= capacity:
            return
        capacity = needed + max(32, needed // 4)
        size = self.size

        def larger(old: AnyArray) -> AnyArray:
            new = np.zeros((capacity,) * old.ndim, dtype=old.dtype)
            new[(slice(size),) * old.ndim] = old[(slice(size),) * old.ndim]
            return new

        self.tables, self.site_of = PairTables(*map(larger, self.tables)), larger(self.site_of)
