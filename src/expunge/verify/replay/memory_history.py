"""One memory as its receipts tell of it: what it holds, what was erased, and whether each receipt follows from those
before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final, TypeAlias

from expunge.ledger.receipt_format import Outcome, Predicate, ProblemStated, Sizes
from expunge.verify.replay.certificates import check_certificates
from expunge.verify.replay.contradiction import Place
from expunge.verify.replay.empty_state import empty_state
from expunge.verify.replay.entry_table import EntryTable

__all__ = ["OUTCOME_RULES", "Birth", "Commitments", "MemoryHistory", "forgets"]

_STANDING: Final[tuple[Outcome, ...]] = ("refused", "noop", "expired")
# Outcomes after which the cap, and the size that it was set for, may be another.
_NEW_CAP: Final[tuple[Outcome, ...]] = ("rebuilt", "refitted", "emptied", "restored")
# Outcomes after which the width may be another.
_NEW_WIDTH: Final[tuple[Outcome, ...]] = ("rebuilt", "restored")


@dataclass(frozen=True, slots=True)
class Birth:
    """Where an entry came in."""

    memory: str
    leaf: int
    seconds: int


@dataclass
class Commitments:
    """What is known of entries and states across all memories."""

    births: dict[str, Birth] = field(default_factory=dict)
    # The memory that was in a state with entries, by its digest.
    states: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


# A set of live entries, the cap and the width: all that a state is a function of, as no edit changes the columns.
_Fitted: TypeAlias = tuple[tuple[int, int], float, float]


@dataclass(frozen=True, slots=True)
class _Left:
    """What an edit left."""

    state: str
    sizes: Sizes
    problem: ProblemStated


class MemoryHistory:
    """Follows the receipts of one memory, in order."""

    def __init__(self, known: Commitments) -> None:
        self.known = known
        self.table = EntryTable()
        self.last: Predicate | None = None
        # The leaf of the last receipt or of the last part of its lists.
        self.last_leaf = -1
        # The leaf of the last receipt that erased or forgot entries, or went back to an earlier edit.
        self.last_loss = -1
        self.edits: list[_Left] = []
        self.erased: set[str] = set()
        self.forgotten: set[str] = set()
        # What was erased, or forgotten, and is back since a restoration.
        self.back: set[str] = set()
        # The edit of the backup that it was restored from, until it is edited otherwise than to erase that again.
        self._backup: int | None = None
        # What each digest stands for, and the digest of each.
        self._states: dict[str, _Fitted] = {}
        self._digests: dict[_Fitted, str] = {}

    def follow(self, place: Place, receipt: Predicate) -> None:
        """Check that a receipt, its lists complete, continues the history, and take it up."""
        if self.last is None:
            if receipt.action != "creation":
                raise place.contradiction("ledger-creation-missing", f"a {receipt.action}, before any creation")
            _check_edit(place, receipt, 0)
        else:
            self._check_succession(place, self.last, receipt)
        erases_again = bool(self.back)
        self._check_erased_again(place, receipt)
        if receipt.outcome not in _STANDING:
            self.table.begin_edit()
            self._backup = self._backup if erases_again else None
        OUTCOME_RULES[receipt.outcome](self, place, receipt)
        _check_zeros(place, receipt)
        if receipt.outcome not in _STANDING:
            self._check_left(place, receipt)
            self.edits.append(_Left(receipt.state_after, receipt.after, receipt.problem))
            if receipt.action in ("deletion", "restoration") or forgets(receipt):
                self.last_loss = place.leaf
        self.last = receipt

    def may_be_of_backup_from(self, edit: int) -> bool:
        """Whether the memory can be as a backup from this edit, or from an earlier one, had it, but for erasures."""
        return self.table.edit == edit or (self._backup is not None and self._backup <= edit)

    def check_finished(self, place: Place) -> None:
        """Raise if something erased is back at the end of the ledger, or of the memory's next edit."""
        if self.back:
            again = sorted(self.back & self.erased)
            code = "ledger-erasure-undone" if again else "ledger-forgetting-undone"
            first = (again or sorted(self.back))[0]
            raise place.contradiction(
                code,
                f"{len(self.back)} erasures were not applied again after a restoration: {first} is back",
            )

    def _check_succession(self, place: Place, last: Predicate, receipt: Predicate) -> None:
        if receipt.action == "creation":
            raise place.contradiction("ledger-creation-repeated", "the memory was created before")
        if receipt.state_before != last.state_after:
            raise place.contradiction(
                "ledger-state-broken", f"starts from state {receipt.state_before}; the last one is {last.state_after}"
            )
        if receipt.before != last.after:
            raise place.contradiction("ledger-entries-broken", f"starts from {receipt.before}, after {last.after}")
        _check_edit(place, receipt, last.edit + (receipt.outcome not in _STANDING))
        now, then = receipt.problem, last.problem
        same_width = now.sigma == then.sigma or receipt.outcome in _NEW_WIDTH
        same_cap = (now.cap, now.initial_entries) == (then.cap, then.initial_entries) or receipt.outcome in _NEW_CAP
        if not (same_width and same_cap) or now.dimension != then.dimension:
            raise place.contradiction("ledger-problem-changed", f"{now}, after {then}")

    def _check_erased_again(self, place: Place, receipt: Predicate) -> None:
        """What a restoration brought back is erased by the next receipt, or goes with another restoration."""
        erases = receipt.action == "deletion" and receipt.outcome not in _STANDING
        if receipt.action == "restoration" or not self.back:
            return
        if erases:
            self.back.difference_update(receipt.applied.commitments)
        self.check_finished(place)

    def _check_left(self, place: Place, receipt: Predicate) -> None:
        """The sizes and the state that an edit left are those of the entries that are there."""
        if self.table.sizes != receipt.after:
            raise place.contradiction(
                "ledger-sizes-mismatch",
                f"states {receipt.after}; after what it lists there are {self.table.sizes}",
            )
        if self.table.archived and (receipt.after.live == 0 or receipt.outcome in ("rebuilt", "refitted")):
            raise place.contradiction(
                "ledger-archive-left", f"{receipt.outcome}, and {self.table.archived} entries are still archived"
            )
        _check_initial_size(place, receipt, self.last)
        self._check_state(place, receipt)

    def _check_state(self, place: Place, receipt: Predicate) -> None:
        """The digest of a state is that of the live entries, and of no others."""
        digest, problem = receipt.state_after, receipt.problem
        if (digest == empty_state(problem.sigma)) != (receipt.after.live == 0):
            raise place.contradiction(
                "ledger-state-empty",
                f"{receipt.after.live} live entries in state {digest}; "
                f"the state of none is {empty_state(problem.sigma)} at this width",
            )
        fitted = (self.table.live_set, problem.cap, problem.sigma)
        if self._states.setdefault(digest, fitted) != fitted:
            raise place.contradiction(
                "ledger-state-mismatch", f"state {digest} was there before, with other live entries"
            )
        if self._digests.setdefault(fitted, digest) != digest:
            raise place.contradiction(
                "ledger-state-mismatch",
                f"state {digest}; these live entries were there before, in state {self._digests[fitted]}",
            )
        if receipt.after.live:
            other = self.known.states.setdefault(receipt.state_after, receipt.memory)
            if other in self.known.dropped and other != receipt.memory:
                raise place.contradiction(
                    "ledger-drop-undone",
                    f"in the state of memory {other}, which was dropped at leaf {self.known.dropped[other]}",
                )
            if other != receipt.memory:
                raise place.contradiction("ledger-state-shared", f"in a state that memory {other} is or was in")

    def created(self, place: Place, receipt: Predicate) -> None:
        """Admit the first entries."""
        self._admit(place, receipt)

    def admitted(self, place: Place, receipt: Predicate) -> None:
        """Admit entries; archived ones may come back."""
        self._reactivate(place, receipt)
        self._admit(place, receipt)
        check_certificates(place, self.table, receipt, set())

    def deleted(self, place: Place, receipt: Predicate) -> None:
        """Erase entries, whatever their status; archived ones may come back."""
        live_before = self.table.live_set
        over = self._erase(place, receipt)
        gone = live_before[0] - self.table.live_set[0]
        if receipt.outcome == "decrement" and not gone:
            raise place.contradiction("ledger-outcome-unfounded", "decrement, and no entry that it erases was live")
        zeros = _most_zeros(receipt.problem.cap, live_before[0])
        if receipt.outcome == "certified_zero" and (gone > zeros or receipt.reactivated.count):
            raise place.contradiction(
                "ledger-outcome-unfounded",
                f"certified_zero of {gone} live entries, where {zeros} can have no weight; "
                f"{receipt.reactivated.count} come back, where none can",
            )
        self._reactivate(place, receipt)
        if self.table.live_set == live_before and receipt.state_after != receipt.state_before:
            raise place.contradiction("ledger-state-mismatch", "the live entries stay, and the state does not")
        check_certificates(place, self.table, receipt, over)

    def refitted(self, place: Place, receipt: Predicate) -> None:
        """Erase entries, and fit the rest, archived ones included, at a larger cap."""
        before = receipt.problem.cap if self.last is None else self.last.problem.cap
        self._erase(place, receipt)
        self._reactivate(place, receipt)
        due = _doubled(before, receipt.after.live)
        if receipt.problem.cap != due or due == before:
            raise place.contradiction(
                "ledger-cap-rule",
                f"refitted at cap {receipt.problem.cap!r}; the rule makes it {due!r}, "
                f"for {receipt.after.live} entries after cap {before!r}",
            )
        check_certificates(place, self.table, receipt, self.table.open_forgettings())

    def pruned(self, place: Place, receipt: Predicate) -> None:
        """Archive or forget live entries."""
        names = receipt.applied.commitments
        entries = [found for name in names if (found := self.table.now.get(name)) is not None]
        for name in names:
            if (found := self.table.now.get(name)) is None or found.status != "live":
                status = "not there" if found is None else found.status
                raise place.contradiction("ledger-pruning-not-live", f"prunes {name}, which is {status}")
        forget = forgets(receipt)
        over = self.table.forgettings_on(entries) if forget else set()
        self.table.prune(names, forget=forget)
        self.forgotten.update(names if forget else ())
        check_certificates(place, self.table, receipt, over)

    def rebuilt(self, place: Place, receipt: Predicate) -> None:
        """Bring every archived entry back, and end every certificate."""
        self._reactivate(place, receipt)
        check_certificates(place, self.table, receipt, self.table.open_forgettings())

    def restored(self, place: Place, receipt: Predicate) -> None:
        """Go back to an earlier edit; what was erased since is back until it is erased again."""
        # The format has it before the receipt's own edit, so that it is known.
        edit = receipt.restored_edit or 0
        left = self.edits[edit]
        if left != _Left(receipt.state_after, receipt.after, receipt.problem):
            raise place.contradiction(
                "ledger-restoration-mismatch",
                f"restored to edit {edit}, which left state {left.state}, {left.sizes} and {left.problem}",
            )
        self._backup = edit
        touched = self.table.restore(edit)
        now = self.table.now
        self.back = {
            name
            for name in touched | self.back
            if name in now and (name in self.erased or (name in self.forgotten and now[name].status != "forgotten"))
        }

    def noticed(self, place: Place, receipt: Predicate) -> None:
        """A notice repeats what the receipt just before it ended or expired."""
        last = self.last
        repeats = last is not None and last.outcome not in _STANDING
        if last is None or not repeats or (receipt.ended, receipt.expired) != (last.ended, last.expired):
            raise place.contradiction(
                "ledger-notice-mismatch", "the certificates are not those that the receipt before it ended or expired"
            )
        if self.last_leaf != place.leaf - 1:
            raise place.contradiction(
                "ledger-notice-mismatch", f"it does not follow its receipt, which ends at leaf {self.last_leaf}"
            )

    def unchanged(self, place: Place, receipt: Predicate) -> None:
        """Nothing was done; to rebuild entries always does something."""
        if receipt.outcome == "noop" and receipt.action == "rebuild" and self.table.sizes.live:
            raise place.contradiction("ledger-outcome-unfounded", "a rebuild of entries that did nothing")

    def _admit(self, place: Place, receipt: Predicate) -> None:
        births, dropped = self.known.births, self.known.dropped
        for name in receipt.applied.commitments:
            birth = births.get(name)
            if birth is None:
                births[name] = Birth(receipt.memory, place.leaf, place.seconds)
                self.table.admit(name)
            elif birth.memory == receipt.memory and name in self.table.now:
                raise place.contradiction("ledger-entry-repeated", f"{name} is there since leaf {birth.leaf}")
            elif birth.memory == receipt.memory:
                raise place.contradiction("ledger-entry-reused", f"{name} was there before, since leaf {birth.leaf}")
            elif birth.memory in dropped:
                raise place.contradiction(
                    "ledger-drop-undone",
                    f"{name} went with memory {birth.memory}, dropped at leaf {dropped[birth.memory]}",
                )
            else:
                raise place.contradiction(
                    "ledger-entry-shared", f"{name} was admitted to memory {birth.memory} at leaf {birth.leaf}"
                )

    def _erase(self, place: Place, receipt: Predicate) -> set[int]:
        """Erase what a deletion names; return the forgettings whose certificates rest on it."""
        now = self.table.now
        for name in receipt.applied.commitments:
            if name in now:
                continue
            birth = self.known.births.get(name)
            if name in self.erased:
                raise place.contradiction("ledger-erasure-repeated", f"{name} was erased before")
            if birth is not None and birth.memory != receipt.memory:
                raise place.contradiction(
                    "ledger-entry-elsewhere", f"erases {name}, which was admitted to memory {birth.memory}"
                )
            lost = "was never admitted" if birth is None else "a restoration has lost"
            raise place.contradiction("ledger-deletion-unknown", f"erases {name}, which {lost}")
        over = self.table.forgettings_on(now[name] for name in receipt.applied.commitments)
        for name in receipt.applied.commitments:
            self.table.put(name, None)
        self.erased.update(receipt.applied.commitments)
        return over

    def _reactivate(self, place: Place, receipt: Predicate) -> None:
        for name in receipt.reactivated.commitments:
            found = self.table.now.get(name)
            if found is not None and found.status == "forgotten":
                raise place.contradiction("ledger-forgotten-returned", f"{name} was forgotten, and comes back")
            if found is None or found.status != "archived":
                status = "not there" if found is None else found.status
                raise place.contradiction(
                    "ledger-reactivation-unknown", f"{name} comes back from the archive, and is {status}"
                )
            self.table.reactivate(name)


# What each outcome does to a memory; every outcome of the format has its rule.
OUTCOME_RULES: Final[dict[Outcome, Callable[[MemoryHistory, Place, Predicate], None]]] = {
    "created": MemoryHistory.created,
    "admitted": MemoryHistory.admitted,
    "certified_zero": MemoryHistory.deleted,
    "decrement": MemoryHistory.deleted,
    "refitted": MemoryHistory.refitted,
    "emptied": MemoryHistory.deleted,
    "refused": MemoryHistory.unchanged,
    "noop": MemoryHistory.unchanged,
    "pruned": MemoryHistory.pruned,
    "rebuilt": MemoryHistory.rebuilt,
    "expired": MemoryHistory.noticed,
    "restored": MemoryHistory.restored,
}


def forgets(receipt: Predicate) -> bool:
    """Whether a receipt is of a pruning that forgets entries."""
    return receipt.pruning is not None and receipt.pruning.mode == "forget"


def _check_edit(place: Place, receipt: Predicate, due: int) -> None:
    if receipt.edit != due:
        raise place.contradiction("ledger-edit-order", f"edit {receipt.edit}; due is {due}")


def _most_zeros(cap: float, live: int) -> int:
    """How many of these live entries can have no weight: ⌈1/C⌉ have some, as none is above C and their sum is 1."""
    return max(0, live - ceil(1 / Fraction(cap)))


def _check_zeros(place: Place, receipt: Predicate) -> None:
    """A pruning leaves no more zeros unproved than there can be."""
    unproved = 0 if receipt.pruning is None else receipt.pruning.unproved
    most = _most_zeros(receipt.problem.cap, receipt.after.live)
    if unproved > most:
        raise place.contradiction(
            "ledger-sizes-mismatch",
            f"{unproved} zeros stayed among {receipt.after.live} live entries, and at most {most} have no weight",
        )


def _check_initial_size(place: Place, receipt: Predicate, last: Predicate | None) -> None:
    stated, allowed = receipt.problem.initial_entries, {None, receipt.after.live}
    same_cap = last is not None and receipt.problem.cap == last.problem.cap
    if last is not None and (receipt.outcome in ("refitted", "emptied") or same_cap):
        allowed.add(last.problem.initial_entries)
    if receipt.outcome in ("created", "rebuilt", "refitted", "emptied") and stated not in allowed:
        raise place.contradiction(
            "ledger-initial-size", f"the cap was set for {stated} entries, and there are {receipt.after.live}"
        )


def _doubled(cap: float, entries: int) -> float:
    """The cap, doubled as often as it takes, and no more, until this many entries are enough for it; at most 1."""
    while cap < 1.0 and entries * Fraction(cap) < 1:
        cap = min(1.0, 2.0 * cap)
    return cap
