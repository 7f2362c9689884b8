"""The whole ledger, leaf by leaf: what concerns every leaf, and which rule takes it.

Every kind of event has its rule in `EVENT_RULES`, every outcome of a receipt in
:data:`expunge.verify.replay.memory_history.OUTCOME_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from expunge.ledger.event import ERASED, LISTS, Event, Kind
from expunge.ledger.receipt_format import Listed, Predicate, Sizes
from expunge.verify.replay.clock import SKEW, LedgerClock, seconds_of
from expunge.verify.replay.contradiction import Place
from expunge.verify.replay.hold_register import HoldRegister
from expunge.verify.replay.memory_history import Commitments, MemoryHistory, forgets
from expunge.verify.replay.mirror_register import MirrorRegister
from expunge.verify.replay.owed_lists import OwedLists
from expunge.verify.replay.refusals import check_refusal
from expunge.verify.replay.subject_erasures import SubjectErasures

__all__ = ["EVENT_RULES", "LedgerReplay", "Tally"]


@dataclass(frozen=True)
class Tally:
    """What a ledger tells of, at its end.

    ``entries_admitted`` and ``entries_erased`` count over its whole length, the others what is there. Erasures are
    those of subjects; ``requests_overdue`` are open requests for erasure whose time is over. ``mirrors_pending`` counts
    erasures that a mirror has not followed, once for each mirror; ``mirrors_given_up`` those that one never did, since
    it was removed. ``copies_absent``, ``copies_in_files`` and ``copies_not_checkable`` count copies of erased entries
    by what was found of them, over the whole length.
    """

    memories: int
    memories_empty: int
    memories_dropped: int
    entries_admitted: int
    entries_erased: int
    entries_live: int
    entries_archived: int
    entries_forgotten: int
    erasures_complete: int
    erasures_incomplete: int
    holds_in_force: int
    requests_open: int
    requests_overdue: int
    mirrors: int
    mirrors_pending: int
    mirrors_given_up: int
    copies_absent: int
    copies_in_files: int
    copies_not_checkable: int


class LedgerReplay:
    """Takes every leaf in order and raises VerificationError where one contradicts those before it.

    ``now`` is in seconds since 1970; without it no time is too late. ``seen`` has sizes of heads, and when somebody is
    known to have seen each.
    """

    def __init__(self, now: int | None = None, seen: Iterable[tuple[int, int]] = ()) -> None:
        self._now = now
        self._clock = LedgerClock(now, seen)
        self._known = Commitments()
        self._histories: dict[str, MemoryHistory] = {}
        self._holds = HoldRegister()
        self._erasures = SubjectErasures()
        self._mirrors = MirrorRegister()
        self._leaves: dict[bytes, int] = {}
        self._requests: dict[str, int] = {}
        # The leaf that owes lists, what it says, and the lists.
        self._owing: tuple[Place, Predicate | Event, OwedLists] | None = None
        # The memory that the last leaf restored.
        self._restored: str | None = None

    def add(self, index: int, leaf: bytes, stated: Predicate | Event | None) -> None:
        """Take the leaf at an index: its hash, and what it states; None for a statement of another type."""
        about = None if stated is None else stated.memory
        place = Place(index, about, 0 if stated is None else seconds_of(stated.time))
        self._check_new(place, leaf, stated)
        if self._owing is not None and not (isinstance(stated, Event) and stated.kind == "listed"):
            raise self._missing_list(place, "it")
        self._check_erased_again(place, stated)
        if stated is None:
            return
        self._clock.check(place)
        if isinstance(stated, Predicate):
            self._check_births(place, stated)
        self._clock.advance(place)
        if isinstance(stated, Predicate):
            self._take_receipt(place, stated)
        else:
            self._take_event(place, stated)

    @property
    def owed(self) -> dict[str, tuple[int, ...]]:
        """By the commitment of each mirror that there is: leaves of the erasures that it has not followed."""
        return self._mirrors.owed

    def finish(self, size: int) -> Tally:
        """Check that nothing is owed at the end; return what there is."""
        if self._owing is not None:
            raise self._missing_list(Place(size, None), "the end of the ledger")
        for memory, history in self._histories.items():
            if memory not in self._known.dropped:
                at = Place(history.last_leaf, memory)
                history.check_finished(at)
                self._holds.check_entries(at, history)
        tables = [history.table for memory, history in self._histories.items() if memory not in self._known.dropped]
        requests_open, requests_overdue = self._erasures.open_requests(self._now)
        live = [table.sizes.live for table in tables]
        archived = sum(table.archived for table in tables)
        return Tally(
            memories=len(tables),
            memories_empty=live.count(0),
            memories_dropped=len(self._known.dropped),
            entries_admitted=len(self._known.births),
            entries_erased=sum(len(history.erased) for history in self._histories.values()),
            entries_live=sum(live),
            entries_archived=archived,
            entries_forgotten=sum(table.sizes.pruned for table in tables) - archived,
            erasures_complete=self._erasures.complete,
            erasures_incomplete=self._erasures.refused,
            holds_in_force=self._holds.count,
            requests_open=requests_open,
            requests_overdue=requests_overdue,
            mirrors=self._mirrors.attached,
            mirrors_pending=self._mirrors.pending,
            mirrors_given_up=self._mirrors.given_up,
            **{f"copies_{word}": count for word, count in self._mirrors.found.items()},
        )

    def _check_new(self, place: Place, leaf: bytes, stated: Predicate | Event | None) -> None:
        """A leaf, and the id of its request, occur once."""
        if (first := self._leaves.setdefault(leaf, place.leaf)) != place.leaf:
            raise place.contradiction("ledger-leaf-repeated", f"the same bytes as leaf {first}")
        if stated is not None:
            request = stated.request.id
            if (first := self._requests.setdefault(request, place.leaf)) != place.leaf:
                raise place.contradiction("ledger-request-repeated", f"the request id of leaf {first}")

    def _check_erased_again(self, place: Place, stated: Predicate | Event | None) -> None:
        """Between a restoration that brings erased entries back and their erasure comes nothing else."""
        memory, self._restored = self._restored, None
        drops = isinstance(stated, Event) and stated.kind == "dropped"
        # Which receipts of the memory itself may come, its history knows.
        is_due = stated is not None and stated.memory == memory and (drops or isinstance(stated, Predicate))
        if memory is not None and not is_due:
            history = self._histories[memory]
            history.check_finished(Place(history.last_leaf, memory))

    def _check_births(self, place: Place, receipt: Predicate) -> None:
        """Nothing is deleted before it came in."""
        if receipt.action != "deletion":
            return
        for name in receipt.applied.commitments:
            birth = self._known.births.get(name)
            if birth is not None and place.seconds < birth.seconds - SKEW:
                raise place.contradiction(
                    "ledger-deletion-before-creation",
                    f"erases {name} {birth.seconds - place.seconds} s before it came in, at leaf {birth.leaf}",
                )

    def _take_receipt(self, place: Place, receipt: Predicate) -> None:
        self._check_alive(place, receipt.memory)
        lists = {name: getattr(receipt, name) for name in LISTS if name != "entries"}
        owed = OwedLists(place, receipt.request.id, receipt.state_after, lists)
        if owed.owed is not None:
            self._owing = place, receipt, owed
        else:
            self._follow(place, receipt, place.leaf)

    def _take_event(self, place: Place, event: Event) -> None:
        if event.kind == "listed":
            self._take_list(place, event)
            return
        listed = event.listed
        if listed is not None and listed.root is not None:
            owed = OwedLists(place, event.request.id, event.subject.sha256, {"entries": listed})
            self._check_event(place, event)
            self._owing = place, event, owed
            return
        EVENT_RULES[event.kind](self, place, event)

    def _follow(self, place: Place, receipt: Predicate, last_leaf: int) -> None:
        """Take up a receipt whose lists are complete."""
        history = self._histories.setdefault(receipt.memory, MemoryHistory(self._known))
        erases_again = bool(history.back)
        self._holds.check_receipt(place, receipt, history)
        check_refusal(place, receipt, history, self._holds)
        history.follow(place, receipt)
        history.last_leaf = last_leaf
        removed = receipt.applied.commitments if receipt.action == "deletion" else ()
        births = (self._known.births.get(name) for name in removed)
        newest = max((birth.seconds for birth in births if birth is not None), default=0)
        self._erasures.add_receipt(place, receipt, newest, erases_again=erases_again)
        if receipt.outcome in ERASED or forgets(receipt):
            self._mirrors.erase(place.leaf, receipt.memory, receipt.applied.count)
        self._restored = receipt.memory if receipt.action == "restoration" else None

    def _take_list(self, place: Place, event: Event) -> None:
        if self._owing is None:
            raise place.contradiction("ledger-list-unowed", f"a part of {event.facts['list']}, which no receipt owes")
        first, stated, owed = self._owing
        if not owed.take(place, event):
            return
        self._owing = None
        if isinstance(stated, Predicate):
            self._follow(first, _with_lists(stated, owed.found), place.leaf)
        else:
            self._drop(first, stated, owed.found["entries"])

    def _missing_list(self, place: Place, what: str) -> Exception:
        owing = self._owing
        due = "" if owing is None else f"leaf {owing[0].leaf} owes a list, {owing[2].owed}"
        return place.contradiction("ledger-list-missing", f"{due}, and {what} comes instead")

    def _check_alive(self, place: Place, memory: str) -> None:
        if memory in self._known.dropped:
            raise place.contradiction(
                "ledger-memory-dropped", f"the memory was dropped at leaf {self._known.dropped[memory]}"
            )

    def _check_event(self, place: Place, event: Event) -> MemoryHistory:
        """The memory that an event is about, which is in the state that it names."""
        memory = cast(str, event.memory)
        self._check_alive(place, memory)
        history = self._histories.get(memory)
        if history is None or history.last is None:
            raise place.contradiction("ledger-memory-unknown", f"{event.kind}, and the memory was never created")
        if event.subject.sha256 != history.last.state_after:
            raise place.contradiction(
                "ledger-event-mismatch",
                f"{event.kind} in state {event.subject.sha256}; the last one is {history.last.state_after}",
            )
        return history

    def _dropped(self, place: Place, event: Event) -> None:
        self._check_event(place, event)
        self._drop(place, event, event.listed)

    def _drop(self, place: Place, event: Event, entries: Listed | None) -> None:
        """A memory goes, with the entries that are named, or with whatever is there."""
        history = self._check_event(place, event)
        sizes = Sizes(cast(int, event.facts["live"]), cast(int, event.facts["pruned"]))
        if history.last is None or sizes != history.last.after:
            raise place.contradiction("ledger-event-mismatch", f"dropped with {sizes}, after {history.table.sizes}")
        there = history.table.now
        if entries is not None and (entries.count != len(there) or not there.keys() >= set(entries.commitments)):
            raise place.contradiction(
                "ledger-drop-mismatch", f"dropped with {entries.count} entries that are not the {len(there)} there"
            )
        self._holds.drop(place, event)
        self._known.dropped[cast(str, event.memory)] = place.leaf
        self._mirrors.erase(place.leaf, cast(str, event.memory), sizes.total)

    def _held(self, place: Place, event: Event) -> None:
        self._holds.place(place, event, self._check_event(place, event))

    def _released(self, place: Place, event: Event) -> None:
        self._holds.release(place, event, self._check_event(place, event))

    def _subject_erased(self, place: Place, event: Event) -> None:
        self._check_parts_known(place, event)
        self._erasures.summarize(place, event, self._may_be_gone)
        self._check_parts_kept(place, event)

    def _erased(self, place: Place, event: Event) -> None:
        self._check_parts_known(place, event)
        self._erasures.sum_up(place, event)
        self._check_parts_kept(place, event)
        held, keeping = cast(int, event.facts["held"]), self._holds.memories
        there = sum(self._histories[memory].table.sizes.total for memory in keeping)
        if held > there:
            raise place.contradiction(
                "ledger-sweep-unfounded", f"it leaves {held} entries to holds; memories with holds have {there}"
            )

    def _check_parts_known(self, place: Place, event: Event) -> None:
        for part in cast("tuple[dict[str, Any], ...]", event.facts["memories"]):
            if part["memory"] not in self._histories:
                raise place.contradiction("ledger-memory-unknown", f"memory {part['memory']} was never created")

    def _check_parts_kept(self, place: Place, event: Event) -> None:
        for part in cast("tuple[dict[str, Any], ...]", event.facts["memories"]):
            if part["outcome"] not in ERASED:
                self._check_kept(place, part["memory"], part["outcome"], part["leaf"])

    def _check_kept(self, place: Place, memory: str, outcome: str, leaf: int | None) -> None:
        """Where a summary says that nothing was erased, the memory is there, with entries if it should have been, and
        what forbade it is in the ledger, and still does.
        """
        holds, why = self._erasures.forbidden_by(leaf), ""
        if memory in self._known.dropped:
            why = f"was dropped at leaf {self._known.dropped[memory]}"
        elif outcome != "noop" and not self._histories[memory].table.sizes.total:
            why = "is empty"
        elif outcome == "refused" and leaf is None:
            why = "has no receipt of it"
        elif holds and not self._holds.any_in_force(holds):
            why = f"was refused at leaf {leaf} for holds that are released"
        if why:
            raise place.contradiction("ledger-summary-unfounded", f"{outcome} in memory {memory}, which {why}")

    def _may_be_gone(self, memory: str, leaf: int) -> bool:
        """Whether entries of a memory can have gone since a leaf."""
        return memory in self._known.dropped or self._histories[memory].last_loss > leaf

    def _erasure_requested(self, place: Place, event: Event) -> None:
        self._erasures.request(place, event)

    def _erasure_cancelled(self, place: Place, event: Event) -> None:
        self._erasures.cancel(place, event)

    def _mirror_added(self, place: Place, event: Event) -> None:
        memory = cast("str | None", event.facts["of"])
        if memory is not None:
            self._check_alive(place, memory)
            if memory not in self._histories:
                raise place.contradiction("ledger-memory-unknown", f"memory {memory} was never created")
        self._mirrors.add(place, event)

    def _mirror_checked(self, place: Place, event: Event) -> None:
        self._mirrors.check(place, event)

    def _mirror_removed(self, place: Place, event: Event) -> None:
        self._mirrors.remove(place, event)

    def _key_changed(self, place: Place, event: Event) -> None:
        """Which key signs what changes no memory."""


EVENT_RULES: Final[dict[Kind, Callable[[LedgerReplay, Place, Event], None]]] = {
    "dropped": LedgerReplay._dropped,
    "held": LedgerReplay._held,
    "released": LedgerReplay._released,
    "subject_erased": LedgerReplay._subject_erased,
    "erased": LedgerReplay._erased,
    "listed": LedgerReplay._take_list,
    "erasure_requested": LedgerReplay._erasure_requested,
    "erasure_cancelled": LedgerReplay._erasure_cancelled,
    "key_added": LedgerReplay._key_changed,
    "key_revoked": LedgerReplay._key_changed,
    "mirror_added": LedgerReplay._mirror_added,
    "mirror_checked": LedgerReplay._mirror_checked,
    "mirror_removed": LedgerReplay._mirror_removed,
}


def _with_lists(receipt: Predicate, found: Mapping[str, Listed]) -> Predicate:
    """A receipt with the lists that it gave by their roots."""
    return replace(
        receipt,
        applied=found.get("applied", receipt.applied),
        ended=found.get("ended", receipt.ended),
        expired=found.get("expired", receipt.expired),
        renewed=found.get("renewed", receipt.renewed),
        reactivated=found.get("reactivated", receipt.reactivated),
    )
