"""One published version of a memory: the solver's state, the entries it counts, and the check that let it through.

A version is immutable by convention. An edit prepares the next one beside it (`pending_edit`) and replaces the memory's
reference in one assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from expunge.certificates.warranty import Fit, Warranties
from expunge.errors import InputError
from expunge.ledger.commitment import state_digest, weights_digest
from expunge.memory.entries import Entries, check_id, check_subject, listed
from expunge.problem.check import StateCheck
from expunge.problem.problem import Problem, fewest_keys, row_bytes
from expunge.problem.readout import canonical_order, readout, readout_in_order
from expunge.problem.solution import Solution
from expunge.solver.state import State
from expunge.types import IndexArray, Matrix, Vector

if TYPE_CHECKING:
    from functools import cached_property as once
else:

    class once:  # noqa: N801 — a decorator
        """`functools.cached_property` without its lock, which an edit would pay for: versions never change."""

        def __init__(self, compute):
            self.compute = compute
            self.__doc__ = compute.__doc__

        def __get__(self, version, _):
            found = version.__dict__[self.compute.__name__] = self.compute(version)
            return found


__all__ = ["Version"]

Words: TypeAlias = npt.NDArray[np.uint64]
Columns: TypeAlias = tuple[Matrix, list[str], list[str | None], list[bytes | None], bytes]


@njit(cache=True, nogil=True)
def _gather(
    alive: npt.NDArray[np.bool_],
    count: int,
    size: int,
    site: IndexArray,
    share: Vector,
    commitments: Words,
    blinds: Words,
    by_commitment: IndexArray,
) -> tuple[Vector, Vector, Words, Words]:
    """Coefficients in row order; coefficients and commitments in ascending order of the commitments; the exclusive or
    of the blinds. 32 bytes are four words.
    """
    coefficients, ordered = np.empty(size), np.empty(size)
    rows, combined = np.empty((size, 4), dtype=np.uint64), np.zeros(4, dtype=np.uint64)
    row = 0
    for slot in range(count):
        if alive[slot]:
            coefficients[row] = share[site[slot]]
            for word in range(4):
                combined[word] ^= blinds[slot, word]
            row += 1
    row = 0
    for slot in by_commitment:
        if slot < count and alive[slot]:
            ordered[row] = share[site[slot]]
            for word in range(4):
                rows[row, word] = commitments[slot, word]
            row += 1
    return coefficients, ordered, rows, combined


@dataclass(eq=False)
class Version:
    """State, entries, and which slots count."""

    state: State
    entries: Entries
    count: int
    alive: npt.NDArray[np.bool_]
    size: int
    check: StateCheck
    site_of_key: dict[bytes, int] = field(repr=False)
    warranties: Warranties = field(default_factory=Warranties)
    edit: int = 0
    known_valid: frozenset[str] | None = field(default=None, repr=False)

    @once
    def slots(self) -> IndexArray:
        """Slots of the entries, in row order."""
        return np.flatnonzero(self.alive[: self.count])

    @once
    def sites(self) -> IndexArray:
        """Site of each entry, in row order."""
        return self.entries.site[self.slots]

    @once
    def ids(self) -> tuple[str, ...]:
        """Id of each entry, in row order."""
        return tuple(self.entries.ids[slot] or "" for slot in self.slots.tolist())

    @once
    def subjects(self) -> tuple[str | None, ...]:
        """Subject of each entry, in row order."""
        return tuple(self.entries.subjects[slot] for slot in self.slots.tolist())

    @property
    def solution(self) -> Solution:
        """Coefficients and offset with the problem that they solve."""
        problem = Problem(self.keys, self.state.cap, self.state.gram.sigma)
        return Solution(problem, self.coefficients, self.state.offset)

    @once
    def coefficients(self) -> Vector:
        """α of each entry, in row order."""
        return _frozen(self._gathered[0])

    @once
    def keys(self) -> Matrix:
        """Key of each entry, in row order."""
        return _frozen(self.state.gram.keys[self.sites])

    @once
    def values(self) -> Matrix:
        """Value of each entry, in row order."""
        return _frozen(self.entries.values[self.slots])

    @once
    def fit(self) -> Fit:
        """The published solution, as certificates are judged by it."""
        state = self.state
        return Fit(self.slots, self.sites, self.keys, self.coefficients, state.offset, state.gram.sigma)

    @once
    def valid(self) -> frozenset[str]:
        """Forgotten entries whose certificates are valid."""
        return self.warranties.valid(self.fit) if self.known_valid is None else self.known_valid

    @once
    def weights(self) -> bytes:
        """Blinded digest of offset and coefficients."""
        _, ordered, _, combined = self._gathered
        return weights_digest(self.state.offset, ordered, combined.tobytes())

    @once
    def digest(self) -> str:
        """Digest of the whole state."""
        return state_digest(self.state.cap, self.state.gram.sigma, self._gathered[2].view(np.uint8), self.weights)

    @once
    def commitment_order(self) -> IndexArray:
        """Rows in ascending order of their commitments: digests and evidence list them so, whatever came first."""
        slots = self.entries.by_commitment
        counted = slots[slots < self.count]
        return np.searchsorted(self.slots, counted[self.alive[counted]])

    @once
    def _gathered(self) -> tuple[Vector, Vector, Words, Words]:
        """What `_gather` finds: every edit needs it for its digest."""
        entries = self.entries
        words, blinds = entries.commitments.view(np.uint64), entries.blinds.view(np.uint64)
        order = entries.by_commitment
        gathered: tuple[Vector, Vector, Words, Words] = _gather(
            self.alive, self.count, self.size, entries.site, self.state.share, words, blinds, order
        )
        return gathered

    @property
    def deletable(self) -> int:
        """How many more entries can be deleted at this cap, archived ones included."""
        return self.size + len(self.warranties.archive) - fewest_keys(self.state.cap)

    def named(self, ids: str | Iterable[str] | None, subject: str | None) -> tuple[list[int], list[str]]:
        """Live slots and pruned ids that a deletion names; InputError for an unknown id or subject."""
        if (ids is None) == (subject is None):
            raise InputError("delete takes ids, or subject=..., and exactly one of them")
        if ids is None:
            owner = check_subject(subject)
            mine = self.entries.slots_of.get(owner or "", set())
            slots = sorted(slot for slot in mine if slot < self.count and self.alive[slot])
            pruned = self.warranties.of_subject(owner)
            if not slots and not pruned:
                raise InputError(f"no entry belongs to subject {subject!r}; nothing was deleted")
            return slots, pruned
        wanted = [check_id(name) for name in ([ids] if isinstance(ids, str) else listed(ids, "ids"))]
        if len(set(wanted)) < len(wanted):
            twice = next(name for name, times in Counter(wanted).items() if times > 1)
            raise InputError(f"id {twice!r} is listed twice; nothing was deleted")
        slots, pruned = [], []
        for name in wanted:
            slot = self.slot(name)
            if slot is not None:
                slots.append(slot)
            elif name in self.warranties:
                pruned.append(name)
            else:
                raise InputError(f"no entry has id {name!r}; nothing was deleted")
        return sorted(slots), pruned

    def readout(self, points: Matrix, coefficients: Vector | None = None) -> Matrix:
        """Readout at points (m, d) → (m, dv), with these coefficients (n,) in place of the version's own."""
        if coefficients is not None:
            return readout(self.keys, self.values, coefficients, points, self.state.gram.sigma)
        return readout_in_order(*self.in_order, points, self.state.gram.sigma)

    def slacks(self, rows: IndexArray) -> Vector:
        """Slack g of some entries (m,), from keys and published weights: the solver's own depend on the past."""
        return self.solution.slack(self.keys[rows])

    @once
    def in_order(self) -> tuple[Matrix, Matrix, Vector]:
        """Keys, values and coefficients of the active entries, in the order in which readouts sum them."""
        order = canonical_order(self.keys, self.values, self.coefficients)
        return self.keys[order], self.values[order], self.coefficients[order]

    def columns(self, *, archived: bool = False) -> tuple[Matrix, Columns]:
        """Keys, and values, ids, subjects, payloads and salts, in order of admission; archived entries on request."""
        entries, archive = self.entries, {entry.slot: entry for entry in self.warranties.archive.values()}
        slots = self.slots if not archived else np.sort(np.concatenate([self.slots, np.array([*archive], np.int64)]))
        live = dict(zip(self.slots.tolist(), self.keys, strict=True))
        kept = slots.tolist()
        return np.array([live[slot] if slot in live else archive[slot].key for slot in kept]), (
            entries.values[slots],
            [entries.ids[slot] or "" for slot in kept],
            [entries.subjects[slot] for slot in kept],
            [entries.payloads[slot] for slot in kept],
            b"".join([entries.salts[slot] for slot in kept]),
        )

    def slot(self, name: str) -> int | None:
        """Slot of a live entry, or None."""
        slot = self.entries.slot_of.get(name)
        return slot if slot is not None and slot < self.count and self.alive[slot] else None

    def compacted(self) -> Version:
        """Same version without absent sites and wiped slots; the order of admission is kept."""
        state = self.state
        kept = state.present()
        renumbered = np.full(state.sites, -1, dtype=np.int64)
        renumbered[kept] = np.arange(kept.size)
        compact = state.compacted(kept, renumbered)
        sites = np.full(self.entries.site.size, -1, dtype=np.int64)
        sites[self.slots] = renumbered[self.sites]
        archived = np.array([entry.slot for entry in self.warranties.archive.values()], dtype=np.int64)
        slots = np.sort(np.concatenate([self.slots, archived]))
        entries = self.entries.compacted(slots, sites[slots])
        numbers = {key: site for site, key in enumerate(row_bytes(compact.gram.keys[: kept.size]))}
        alive = np.ones(entries.site.size, dtype=bool)
        alive[: slots.size] = sites[slots] >= 0
        warranties = self.warranties.renumbered(dict(zip(slots.tolist(), range(slots.size), strict=True)))
        return Version(
            compact, entries, slots.size, alive, self.size, self.check, numbers, warranties, self.edit, self.valid
        )


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array
