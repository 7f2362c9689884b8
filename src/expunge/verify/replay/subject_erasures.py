"""Erasures in several memories, of data subjects and by sweeps: what was asked for, and the receipts that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from expunge.ledger.encoding import Json
from expunge.ledger.event import ERASED, Event
from expunge.ledger.receipt_format import Predicate, RequestStated
from expunge.verify.replay.clock import SKEW, seconds_of
from expunge.verify.replay.contradiction import Place

__all__ = ["LONGEST_DELAY", "SubjectErasures"]

# How many seconds after its request an erasure is due, at most: 366 days.
LONGEST_DELAY: Final = 366 * 86_400


_CaseAndActor: TypeAlias = tuple[str | None, str | None]


@dataclass
class _Asked:
    """A request for erasure: the subject's commitment, the case and the actor's, when it is due, and how it ended.

    ``refused`` has the memories that its summaries say have entries of the subject, with the leaf of the refusal.
    """

    subject: str
    asked: _CaseAndActor
    due: int
    refused: dict[str, int] = field(default_factory=dict)
    cancelled: int | None = None
    done: int | None = None


@dataclass(frozen=True, slots=True)
class _Deletion:
    """What the receipt of a deletion says, who asked for it, when it is dated, and the holds that forbade it.

    It ``erases_again`` what a restoration had brought back. The ``newest`` of its entries came in at that time.
    """

    memory: str
    outcome: str
    entries: int
    seconds: int
    asked: _CaseAndActor
    holds: tuple[int, ...]
    erases_again: bool
    newest: int


@dataclass
class SubjectErasures:
    """Requests by leaf, deletions by leaf, and which summary counts each of these."""

    complete: int = 0
    refused: int = 0
    asked: dict[int, _Asked] = field(default_factory=dict)
    _deletions: dict[int, _Deletion] = field(default_factory=dict)
    _counted: dict[int, int] = field(default_factory=dict)
    # Memories that refused to erase entries, with the leaf, by the commitments that one erasure alone has.
    _refused: dict[_CaseAndActor, dict[str, int]] = field(default_factory=dict)
    # The leaf that first names each subject's commitment.
    _subjects: dict[str, int] = field(default_factory=dict)

    def add_receipt(self, place: Place, receipt: Predicate, newest: int, *, erases_again: bool) -> None:
        """Remember a deletion, for the summaries that count it, and when the ``newest`` of its entries came in."""
        if receipt.action == "deletion":
            holds = () if receipt.refusal is None else receipt.refusal.holds
            if receipt.outcome == "refused":
                self._refused.setdefault(_case_and_actor(receipt.request), {})[receipt.memory] = place.leaf
            self._deletions[place.leaf] = _Deletion(
                receipt.memory,
                receipt.outcome,
                receipt.applied.count,
                place.seconds,
                _case_and_actor(receipt.request),
                holds,
                erases_again,
                newest,
            )

    def forbidden_by(self, leaf: int | None) -> tuple[int, ...]:
        """The holds that a refused deletion names."""
        return self._deletions[leaf].holds if leaf is not None and leaf in self._deletions else ()

    def request(self, place: Place, event: Event) -> None:
        """An erasure is asked for."""
        due = seconds_of(cast(str, event.facts["due"]))
        if not -SKEW <= due - place.seconds <= LONGEST_DELAY + SKEW:
            raise place.contradiction(
                "ledger-erasure-request-due",
                f"due {due - place.seconds} s later; at most {LONGEST_DELAY} s may be",
            )
        self._check_new(place, event)
        self.asked[place.leaf] = _Asked(event.subject.sha256, _case_and_actor(event.request), due)

    def cancel(self, place: Place, event: Event) -> None:
        """It is not wanted any more."""
        self._open(place, event).cancelled = place.leaf

    def summarize(self, place: Place, event: Event, may_be_gone: Callable[[str, int], bool]) -> None:
        """Check a summary of the erasure of a subject, and the request that it carries out.

        ``may_be_gone`` tells whether entries of a memory can have gone since a leaf.
        """
        parts = cast("tuple[Mapping[str, Json], ...]", event.facts["memories"])
        leaves = self._check_parts(place, event)
        requested = cast("int | None", event.facts["requested"])
        if requested is None:
            self._check_new(place, event)
        else:
            asked = self._open(place, event)
            if early := [leaf for leaf in leaves if leaf < requested]:
                raise place.contradiction(
                    "ledger-summary-early", f"it counts leaf {early[0]}, from before its request at leaf {requested}"
                )
            times = [place.seconds, *(self._deletions[leaf].seconds for leaf in leaves)]
            if min(times) < asked.due - SKEW:
                raise place.contradiction(
                    "ledger-summary-not-due",
                    f"it carries out the request at leaf {requested} {asked.due - min(times)} s before it is due",
                )
            self._check_case(place, event, asked, leaves)
            _check_refused(place, asked.refused, parts, may_be_gone)
            refused = [part for part in parts if part["outcome"] == "refused" and part["leaf"] is not None]
            asked.refused.update({cast(str, part["memory"]): cast(int, part["leaf"]) for part in refused})
            if event.facts["complete"]:
                asked.done = place.leaf
        stated = _case_and_actor(event.request)
        if stated != (None, None):
            _check_refused(place, self._refused.get(stated, {}), parts, may_be_gone)
        self._counted.update(dict.fromkeys(leaves, place.leaf))
        if event.facts["complete"]:
            self.complete += 1
        else:
            self.refused += 1

    def sum_up(self, place: Place, event: Event) -> None:
        """Check a summary that is about no subject, and, of a sweep, that its entries can have ended by its time."""
        leaves = self._check_parts(place, event)
        due = None if event.facts["due"] is None else seconds_of(cast(str, event.facts["due"]))
        if due is not None:
            early = due - min([place.seconds, *(self._deletions[leaf].seconds for leaf in leaves)])
            if early > SKEW:
                raise place.contradiction(
                    "ledger-sweep-not-due", f"it erases what had ended by a time {early} s later than its own"
                )
            for leaf in leaves:
                if self._deletions[leaf].newest > due + SKEW:
                    raise place.contradiction(
                        "ledger-sweep-too-new",
                        f"leaf {leaf} erases what came in {self._deletions[leaf].newest - due} s after it had ended",
                    )
        self._counted.update(dict.fromkeys(leaves, place.leaf))

    def open_requests(self, now: int | None) -> tuple[int, int]:
        """How many requests are open, and how many of these are overdue."""
        open_ones = [asked for asked in self.asked.values() if asked.cancelled is None and asked.done is None]
        return len(open_ones), sum(1 for asked in open_ones if now is not None and asked.due < now)

    def _check_parts(self, place: Place, event: Event) -> list[int]:
        """The leaves that a summary counts: each receipt is there, says the same, and is counted once."""
        parts = cast("tuple[Mapping[str, Json], ...]", event.facts["memories"])
        leaves = [cast(int, part["leaf"]) for part in parts if part["leaf"] is not None]
        if len(set(leaves)) < len(leaves):
            raise place.contradiction("ledger-summary-double", "it counts one leaf twice")
        for part in parts:
            self._check_part(place, part)
        return leaves

    def _check_part(self, place: Place, part: Mapping[str, Json]) -> None:
        memory, outcome, leaf = (part[name] for name in ("memory", "outcome", "leaf"))
        if leaf is None:
            return
        found = self._deletions.get(cast(int, leaf))
        if found is None or outcome == "failed" or (found.memory, found.outcome) != (memory, outcome):
            is_there = "not a deletion" if found is None else f"{found.outcome} in memory {found.memory}"
            raise place.contradiction(
                "ledger-summary-mismatch", f"it counts leaf {leaf} as {outcome} in memory {memory}; that is {is_there}"
            )
        if outcome in ERASED and found.entries != part["entries"]:
            raise place.contradiction(
                "ledger-summary-entries",
                f"it counts {part['entries']} of leaf {leaf}, which erased {found.entries}",
            )
        if found.erases_again:
            raise place.contradiction(
                "ledger-summary-unfounded",
                f"leaf {leaf}, which it counts, erases again what a restoration brought back",
            )
        if leaf in self._counted:
            raise place.contradiction(
                "ledger-summary-repeated", f"leaf {leaf} is counted by the summary at leaf {self._counted[leaf]}"
            )

    def _check_new(self, place: Place, event: Event) -> None:
        """The commitment to a subject has a salt of its own; only what names its request has it again."""
        if (first := self._subjects.setdefault(event.subject.sha256, place.leaf)) != place.leaf:
            raise place.contradiction(
                "ledger-subject-repeated", f"the subject of leaf {first}, and it does not name a request there"
            )

    def _check_case(self, place: Place, event: Event, asked: _Asked, leaves: Iterable[int]) -> None:
        """What carries out a request has its case and actor, or none where these were erased meanwhile."""
        stated = {place.leaf: _case_and_actor(event.request)}
        stated |= {leaf: self._deletions[leaf].asked for leaf in leaves}
        for leaf, found in stated.items():
            if found not in (asked.asked, (None, None)):
                raise place.contradiction(
                    "ledger-summary-case",
                    f"leaf {leaf} is of another case or actor than the request at leaf {event.facts['requested']}",
                )

    def _open(self, place: Place, event: Event) -> _Asked:
        leaf = cast(int, event.facts["requested"])
        asked = self.asked.get(leaf)
        if asked is None:
            raise place.contradiction("ledger-erasure-request-unknown", f"leaf {leaf} is no request for erasure")
        if asked.subject != event.subject.sha256:
            raise place.contradiction(
                "ledger-erasure-request-subject", f"the request at leaf {leaf} is about another subject"
            )
        if asked.cancelled is not None:
            raise place.contradiction(
                "ledger-erasure-request-cancelled",
                f"the request at leaf {leaf} was cancelled at leaf {asked.cancelled}",
            )
        if asked.done is not None:
            raise place.contradiction(
                "ledger-erasure-request-done", f"the request at leaf {leaf} was carried out at leaf {asked.done}"
            )
        return asked


def _case_and_actor(request: RequestStated) -> _CaseAndActor:
    return request.case, request.actor


def _check_refused(
    place: Place,
    refused: Mapping[str, int],
    parts: Iterable[Mapping[str, Json]],
    may_be_gone: Callable[[str, int], bool],
) -> None:
    """A memory that refused to erase entries of the subject is in the summary, until they can have gone."""
    stated = {cast(str, part["memory"]): part["outcome"] for part in parts}
    for memory, leaf in refused.items():
        if stated.get(memory, "noop") == "noop" and not may_be_gone(memory, leaf):
            raise place.contradiction(
                "ledger-summary-unfounded",
                f"memory {memory} refused to erase entries of the subject at leaf {leaf}, and none can have gone since",
            )
