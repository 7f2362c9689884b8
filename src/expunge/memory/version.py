"""One published version of a memory: the solver's state, the entries it counts, and the check that let it through.

A version is immutable by convention. An edit prepares the next one beside it (`pending_edit`) and replaces the memory's
reference in one assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from expunge.certificates.warranty import Fit, Warranties
from expunge.errors import InputError
from expunge.ledger.commitment import state_digest, weights_digest
from expunge.memory.active_entries import ActiveEntries, Description
from expunge.memory.entries import Entries, check_id, check_subject, listed
from expunge.preprocessing.outdated import OutdatedChoice, outdated_choices, outdated_width
from expunge.preprocessing.pair_count import PairCount
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.preprocessing.width import LARGEST_MARGIN, median_count
from expunge.problem.check import StateCheck
from expunge.problem.check_kind import CheckKind, check_kind
from expunge.problem.problem import Problem, fewest_keys, row_bytes
from expunge.problem.readout import readout
from expunge.problem.solution import Solution
from expunge.solver.readiness import made_ready, release
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

Columns: TypeAlias = tuple[Matrix, list[str], list[str | None], list[bytes | None], bytes]


@dataclass(eq=False)
class Version:
    """State, entries, and which slots count."""

    state: State
    entries: Entries
    count: int
    alive: npt.NDArray[np.bool_]
    size: int
    known_check: StateCheck | None
    # Filled when the first edit looks for a key.
    site_of_key: dict[bytes, int] = field(repr=False)
    warranties: Warranties = field(default_factory=Warranties)
    edit: int = 0
    known_valid: frozenset[str] | None = field(default=None, repr=False)
    # Of a memory of plain arrays: no columns, and whether the width was chosen.
    preprocessing: Preprocessing = field(default_factory=Preprocessing, repr=False)
    known_veil: npt.NDArray[np.uint64] | None = field(default=None, repr=False)
    # Of sites that it has, or had as far as their keys are still there.
    known_pairs: PairCount | None = field(default=None, repr=False)

    @property
    def check(self) -> StateCheck:
        """The check that let it through; from the keys, where it was opened and not edited since."""
        return self._checked if self.known_check is None else self.known_check

    @once
    def _checked(self) -> StateCheck:
        return self.solution.check()

    def make_ready(self) -> None:
        """Build what an edit starts from, where it is not there. What readers see stays as it is, bit for bit.

        Raises VerificationError, with nothing changed, where the state is not the canonical one of its entries. The
        caller holds the memory's lock.
        """
        if not self.state.ready:
            self.state, self.known_check = made_ready(self.state)
            self.number_keys()

    def number_keys(self) -> None:
        """Note the site of every key."""
        present = self.state.present()
        self.site_of_key.clear()
        self.site_of_key.update(zip(row_bytes(self.state.gram.keys[present]), present.tolist(), strict=True))

    def release(self) -> None:
        """Let go of what an edit starts from, and overwrite it. The caller holds the memory's lock."""
        if self.state.ready:
            self.state = release(self.state)
            self.site_of_key.clear()

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
        return _frozen(self.state.share[self.sites])

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
        ordered = self.state.share[self.entries.site[self._by_commitment]]
        return weights_digest(self.state.offset, ordered, self.veil.tobytes())

    @once
    def veil(self) -> npt.NDArray[np.uint64]:
        """Exclusive or of the entries' blinds: 32 bytes, as four words."""
        return self.entries.veil(self.slots) if self.known_veil is None else self.known_veil

    @once
    def digest(self) -> str:
        """Digest of the whole state."""
        state, order = self.state, self._by_commitment
        entries = self.entries
        commitments = entries.in_order if order is entries.by_commitment else entries.commitments[order]
        return state_digest(state.cap, state.gram.sigma, commitments, self.weights, self.preprocessing.digest())

    @property
    def check_kind(self) -> CheckKind:
        """What the check of this state takes its slacks from: a function of the entries."""
        return check_kind(self.size, int(np.count_nonzero(self.coefficients)), int(self.state.gram.keys.shape[1]))

    @once
    def confirmed(self) -> StateCheck:
        """The check that a receipt states: from the keys where that is within reach of every edit, else from sums.

        A reserve entry that came or went leaves every other slack, and so the check, as it was.
        """
        if self.check.kind == "sums" and self.check_kind == "keys":
            return self.solution.check()
        return self.check

    @once
    def outdated(self) -> tuple[OutdatedChoice, ...]:
        """Numbers that were chosen from entries, and would be others now; archived entries count."""
        if not self.preprocessing.learned and self.preprocessing.width == "given":
            return ()
        archive = self.warranties.archive.values()
        if 0 < self.size <= LARGEST_MARGIN and not archive and not self.preprocessing.learned:
            return outdated_width(self.state.gram.sigma, self.pairs.width)
        keys = np.vstack([self.keys, *(entry.key for entry in archive)])
        values = np.vstack([self.values, *(entry.value for entry in archive)])
        state = self.state
        return outdated_choices(self.preprocessing, keys, values, sigma=state.gram.sigma, cap=state.cap)

    @property
    def outdated_at_once(self) -> tuple[OutdatedChoice, ...] | None:
        """What every answer to a deletion has: `outdated`, but None of so many entries that finding it takes long."""
        chosen = self.preprocessing.learned or self.preprocessing.width != "given"
        many = chosen and self.size + len(self.warranties.archive) > LARGEST_MARGIN
        return None if many else self.outdated

    @once
    def pairs(self) -> PairCount:
        """The pairs of live keys that their median width is found from."""
        return median_count(self.state.gram.keys, self.state.present(), self.known_pairs)

    @once
    def commitment_order(self) -> IndexArray:
        """Rows in ascending order of their commitments: digests and evidence list them so, whatever came first."""
        return np.searchsorted(self.slots, self._by_commitment)

    @once
    def _by_commitment(self) -> IndexArray:
        """Slots of the entries in ascending order of their commitments."""
        slots = self.entries.by_commitment
        if slots.size == self.size and self.entries.count == self.count:
            # Those that count are among them.
            return slots
        counted = slots[slots < self.count]
        return counted[self.alive[counted]]

    @property
    def deletable(self) -> int:
        """How many more entries can be deleted at this cap, archived ones included; beyond, the cap grows."""
        return max(0, self.size + len(self.warranties.archive) - fewest_keys(self.state.cap))

    def require_entries(self) -> None:
        """Raise InputError (``memory-empty``) where a question has no answer without an entry."""
        if not self.size:
            raise InputError("the memory is empty: admit an entry first", code="memory-empty")

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

    def names_of(self, ids: str | Iterable[str] | None, subject: str | None) -> list[str]:
        """Ids of the entries that a deletion names, as `named` finds them."""
        slots, pruned = self.named(ids, subject)
        return [*(self.entries.ids[slot] or "" for slot in slots), *pruned]

    def has_subject(self, subject: str) -> bool:
        """Whether an entry of a subject is here, live, archived or forgotten."""
        live = any(self.alive[slot] for slot in self.entries.slots_of.get(subject, ()) if slot < self.count)
        return live or bool(self.warranties.of_subject(subject))

    def readout(self, points: Matrix, coefficients: Vector | None = None) -> Matrix:
        """Readout at points (m, d) → (m, dv), with these coefficients (n,) in place of the version's own."""
        self.require_entries()
        if coefficients is not None:
            return readout(self.keys, self.values, coefficients, points, self.state.gram.sigma)
        return self.active.read(points)

    def slacks(self, rows: IndexArray) -> Vector:
        """Slack g of some entries (m,), from keys and published weights: the solver's own depend on the past."""
        return self.solution.slack(self.keys[rows])

    @once
    def active(self) -> ActiveEntries:
        """The entries with a weight."""
        state, rows = self.state, np.flatnonzero(self.coefficients)
        sites, slots = self.sites[rows], self.slots[rows]
        problem = Problem(state.gram.keys[sites], state.cap, state.gram.sigma)
        solution = Solution(problem, self.coefficients[rows], state.offset)
        describe = partial(_describe, self.entries, slots)
        return ActiveEntries.of(solution, self.entries.values[slots], self.preprocessing, describe)

    def columns(self, *, archived: bool = False, without: Iterable[int] = ()) -> tuple[Matrix, Columns]:
        """Keys, and values, ids, subjects, payloads and salts, in order of admission; archived entries on request.

        `without` are slots to leave out.
        """
        entries, archive = self.entries, {entry.slot: entry for entry in self.warranties.archive.values()}
        slots = self.slots if not archived else np.sort(np.concatenate([self.slots, np.array([*archive], np.int64)]))
        slots = slots[~np.isin(slots, np.fromiter(without, dtype=np.int64))]
        kept = slots.tolist()
        # Only these keys are copied: a copy of an erased one would outlive it.
        keys = np.empty((len(kept), self.state.gram.keys.shape[1]))
        live = self.alive[slots]
        keys[live] = self.state.gram.keys[entries.site[slots[live]]]
        for row in np.flatnonzero(~live).tolist():
            keys[row] = archive[kept[row]].key
        return keys, (
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

    def holds(self, name: str) -> bool:
        """Whether the content of an entry is here, live or archived."""
        return self.slot(name) is not None or name in self.warranties.archive

    @property
    def attribute_kinds(self) -> list[str]:
        """Which attributes any live or archived entry has: ``derived_from``, ``expires``, both or none."""
        stated = [*self.entries.attributes.items()]

        def any_has(kind: str) -> bool:
            return any(
                getattr(one, kind) and slot < self.count and self.holds(self.entries.ids[slot] or "")
                for slot, one in stated
            )

        # Many entries may end, and none have sources.
        made = bool(self.entries.derived) and any_has("derived_from")
        return ["derived_from"] * made + ["expires"] * any_has("expires")

    def made_from(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """What was made from entries of this memory, directly or not, and is here, live or archived: in order of
        admission, each id with those of its sources that are among the entries, or were made from them.
        """
        entries, found, waiting = self.entries, set(names), list(names)
        for source in waiting:
            names_made = (entries.ids[slot] for slot in [*entries.derived.get(source, ())] if slot < self.count)
            new = {name for name in names_made if name is not None and self.holds(name)} - found
            waiting += new
            found |= new
        made = found.difference(names)
        order = sorted(made, key=lambda name: self._slot_of(name))
        sources = {name: entries.attributes[self._slot_of(name)].derived_from for name in order}
        return {name: tuple(one for one in sources[name] if one in found and isinstance(one, str)) for name in order}

    @property
    def ends(self) -> list[tuple[str, datetime]]:
        """Ids and ends of the live and archived entries that have one, in order of admission."""
        stated = sorted((slot, one.expires) for slot, one in [*self.entries.attributes.items()] if one.expires)
        named = [(self.entries.ids[slot] or "", end) for slot, end in stated if slot < self.count]
        return [(name, end) for name, end in named if self.holds(name)]

    def due(self, now: datetime) -> list[str]:
        """Ids of the live and archived entries whose end has come, in order of admission."""
        return [name for name, end in self.ends if end <= now]

    def _slot_of(self, name: str) -> int:
        """Slot of an entry that is live or archived."""
        slot = self.slot(name)
        return self.warranties.archive[name].slot if slot is None else slot

    def overwrite(self, slots: list[int]) -> None:
        """Overwrite what the buffers of a replaced version hold of erased entries, and all that was derived from keys.

        The entries that were not erased can still be read.
        """
        state, entries = self.state, self.entries
        losses = Counter(entries.site[slots].tolist())
        gone = [site for site, lost in losses.items() if site >= 0 and lost == state.multiplicity[site]]
        state.gram.rewind(state.sites)
        state.gram.keys[gone] = 0.0
        state.slack[:] = 0.0
        state.margin.clear()
        self.site_of_key.clear()
        entries.wipe(slots)

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
        alive = np.ones(entries.site.size, dtype=bool)
        alive[: slots.size] = sites[slots] >= 0
        warranties = self.warranties.renumbered(dict(zip(slots.tolist(), range(slots.size), strict=True)))
        version = Version(
            compact,
            entries,
            slots.size,
            alive,
            self.size,
            self.known_check,
            {},
            warranties,
            self.edit,
            self.valid,
            self.preprocessing,
            self.veil,
        )
        if compact.ready:
            version.number_keys()
        return version


def _describe(entries: Entries, slots: IndexArray, place: int) -> Description:
    slot = int(slots[place])
    return entries.ids[slot] or "", entries.subjects[slot], entries.payloads[slot]


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array
