"""The log of receipts: one head after another, and the whole of it replayed.

Steps: ``docs/formats/receipt.md``. Everything is recomputed from the receipts' own bytes, the root of the tree
included; of the writer's half nothing is imported but the hash of a leaf and of a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Checkpoint, parse_checkpoint, verify_checkpoint
from expunge.ledger.encoding import Json
from expunge.ledger.envelope import open_statement
from expunge.ledger.event import EVENT_TYPE, Event, parse_event
from expunge.ledger.merkle.hashing import EMPTY_ROOT, leaf_hash, node_hash
from expunge.ledger.merkle.proof_file import (
    ExtensionProof,
    parse_extension_proof,
    verify_extension_proof,
)
from expunge.ledger.note import NoteKey, parse_note
from expunge.ledger.receipt_format import Outcome, Predicate, Sizes
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import VerifyingKey
from expunge.verify.receipt import check_witnesses

__all__ = ["verify_consistency", "verify_log"]

# Outcomes that leave everything as it is; they may repeat the last edit's number.
_STANDING: Final[tuple[Outcome, ...]] = ("refused", "noop", "expired")


def verify_consistency(
    kept: bytes,
    proof: bytes,
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    witnesses: Iterable[NoteKey] = (),
    quorum: int = 0,
    now: int | None = None,
) -> ExtensionProof:
    """Check that the log only added receipts since the head that was ``kept``; return the proof with the new head."""
    keys = list(log_keys)
    old = _head(kept, keys, origin)
    parsed = parse_extension_proof(proof)
    verify_extension_proof(parsed, old, keys)
    check_witnesses(parsed.checkpoint, witnesses, quorum, now)
    return parsed


def verify_log(
    envelopes: Iterable[bytes],
    checkpoint: bytes,
    trusted: Iterable[VerifyingKey],
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    threshold: int = 1,
    witnesses: Iterable[NoteKey] = (),
    quorum: int = 0,
    now: int | None = None,
    also: Collection[str] = (),
) -> Checkpoint:
    """Replay a whole log: every receipt verifies, the receipts of each memory make one history, the root is right.

    Returns the head that the log leads to.

    ``envelopes`` are all leaves in order. ``also`` has the predicate types that may be there besides receipts: events
    of a store are checked against the receipts, those of any other type for their signatures alone.
    """
    head = _head(checkpoint, log_keys, origin)
    check_witnesses(parse_note(checkpoint), witnesses, quorum, now)
    keys = list(trusted)
    memories: dict[str, _History] = {}
    deletions: dict[Json, tuple[str, str, int]] = {}
    root = _Root()
    for index, envelope in enumerate(envelopes):
        root.add(leaf_hash(envelope))
        stated = _stated(index, envelope, keys, threshold, also)
        if isinstance(stated, Predicate):
            memories.setdefault(stated.memory, _History()).follow(index, stated)
            if stated.action == "deletion":
                deletions[index] = (stated.memory, stated.outcome, stated.applied.count)
        elif stated is not None and stated.memory is not None:
            memories.setdefault(stated.memory, _History()).note(index, stated)
        elif stated is not None:
            _check_summary(index, stated, deletions)
    if root.size != head.size:
        raise VerificationError(f"{root.size} receipts, and a head of {head.size} leaves", code="log-size-mismatch")
    if root.digest() != head.root:
        raise VerificationError(
            f"the receipts lead to root {root.digest().hex()}, not {head.root.hex()}", code="log-root-mismatch"
        )
    for memory, history in memories.items():
        if history.pending and not history.dropped:
            raise VerificationError(
                f"{len(history.pending)} erasures in memory {memory} were not applied again", code="log-erasure-undone"
            )
    return head


@dataclass(frozen=True, slots=True)
class _Step:
    """What a receipt admitted and erased, and the steps that it may go on from: several after an older restoration."""

    follows: tuple[int, ...]
    admitted: tuple[str, ...]
    erased: tuple[str, ...]


@dataclass
class _History:
    """What the receipts of one memory have told so far."""

    last: Predicate | None = None
    steps: list[_Step] = field(default_factory=list)
    edits: dict[int, int] = field(default_factory=dict)  # the step that each edit was
    states: dict[tuple[str, Sizes], list[int]] = field(default_factory=dict)  # the steps that led to each state
    admitted: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)  # erased, and back since a restoration
    ended: set[str] = field(default_factory=set)  # forgotten entries whose certificates have ended since
    dropped: bool = False

    def follow(self, index: int, receipt: Predicate) -> None:
        """Check that a receipt continues the history, and take it up."""
        where = f"leaf {index}, memory {receipt.memory}"
        self._check_alive(where)
        if self.last is not None:
            _check_succession(where, self.last, receipt)
        follows: tuple[int, ...] = (len(self.steps) - 1,) if self.steps else ()
        if receipt.action == "restoration":
            follows = self._restored(where, receipt)
            self.pending = self._back(follows)
            # The older state may have their numbers.
            self.ended.clear()
        self._account(where, receipt)
        self._take(receipt, follows)
        self.last = receipt

    def note(self, index: int, event: Event) -> None:
        """Check that an event names a state that the memory was in, and a drop the last one and its entries."""
        where = f"leaf {index}, memory {event.memory}"
        self._check_alive(where)
        state, last = event.subject.sha256, self.last
        # Where a restore lost a hold, older programs named the state from before it.
        if last is not None and state != last.state_after and all(state != known for known, _ in self.states):
            raise VerificationError(
                f"{where}: {event.kind} in state {state}, which was never there", code="log-event-mismatch"
            )
        if event.kind == "dropped":
            sizes = Sizes(cast(int, event.facts["live"]), cast(int, event.facts["pruned"]))
            if last is not None and (state, sizes) != (last.state_after, last.after):
                raise VerificationError(
                    f"{where}: dropped with {sizes} in state {state}, after {last.after}", code="log-event-mismatch"
                )
            self.dropped = True

    def _check_alive(self, where: str) -> None:
        if self.dropped:
            raise VerificationError(f"{where}: the memory was dropped before", code="log-memory-dropped")

    def _restored(self, where: str, receipt: Predicate) -> tuple[int, ...]:
        """The step that a restoration names; all that led to its state where it names none."""
        found = tuple(self.states.get((receipt.state_after, receipt.after), ()))
        if receipt.restored_edit is not None:
            found = tuple(step for step in found if step == self.edits.get(receipt.restored_edit))
        if not found:
            raise VerificationError(
                f"{where}: restored to a state that was never there", code="log-restoration-unknown"
            )
        return found

    def _back(self, restored: tuple[int, ...]) -> set[str]:
        """What was erased since, or elsewhere, and may have been there after one of these steps.

        A digest does not cover pruned entries, so each one is looked for on the way back from there.
        """
        back: set[str] = set()
        wanted = {step: set(self.erased) for step in restored}
        for number in range(max(restored), -1, -1):
            sought = wanted.pop(number, None)
            if sought is None:
                continue
            step = self.steps[number]
            back |= sought.intersection(step.admitted)
            sought.difference_update(step.admitted, step.erased)
            for earlier in step.follows:
                shared = earlier in wanted or len(step.follows) > 1
                wanted[earlier] = wanted.get(earlier, set()) | sought if shared else sought
            if not step.follows:
                # Older than what the log tells of, unless it was admitted on another way.
                back |= sought - self.admitted
        return back

    def _account(self, where: str, receipt: Predicate) -> None:
        named = {*receipt.applied.commitments, *receipt.ended.commitments, *receipt.expired.commitments}
        named |= {*receipt.renewed.commitments, *receipt.reactivated.commitments}
        if undone := sorted((named & self.erased) - self.pending):
            raise VerificationError(f"{where}: {undone[0]} was erased before", code="log-erasure-undone")
        # A notice repeats what the receipt before it ended.
        again = () if receipt.outcome == "expired" else receipt.ended.commitments
        certificates = {*again, *receipt.expired.commitments, *receipt.renewed.commitments}
        if over := sorted(certificates & self.ended):
            raise VerificationError(f"{where}: the certificate of {over[0]} ended before", code="log-certificate-ended")

    def _take(self, receipt: Predicate, follows: tuple[int, ...]) -> None:
        named = receipt.applied.commitments
        admitted = named if receipt.action in ("creation", "admission") else ()
        erased = named if receipt.action == "deletion" else ()
        self.admitted.update(admitted)
        self.erased.update(erased)
        self.ended.update(receipt.ended.commitments)
        self.pending.difference_update(erased)
        if not self.steps or receipt.outcome not in _STANDING:
            self.states.setdefault((receipt.state_after, receipt.after), []).append(len(self.steps))
            self.steps.append(_Step(follows, admitted, erased))
        self.edits[receipt.edit] = len(self.steps) - 1


class _Root:
    """Root of an RFC 6962 tree, leaf by leaf: the complete subtrees so far, the largest first."""

    def __init__(self) -> None:
        self.size = 0
        self.peaks: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        node, size = leaf, self.size
        while size & 1:
            node, size = node_hash(self.peaks.pop(), node), size >> 1
        self.peaks.append(node)
        self.size += 1

    def digest(self) -> bytes:
        if not self.peaks:
            return EMPTY_ROOT
        *rest, node = self.peaks
        for peak in reversed(rest):
            node = node_hash(peak, node)
        return node


def _check_succession(where: str, last: Predicate, receipt: Predicate) -> None:
    if receipt.action == "creation":
        raise VerificationError(f"{where}: created again", code="log-creation-repeated")
    if receipt.state_before != last.state_after:
        raise VerificationError(
            f"{where}: starts from state {receipt.state_before}, not {last.state_after}", code="log-state-broken"
        )
    if receipt.before != last.after:
        raise VerificationError(f"{where}: starts from {receipt.before}, not {last.after}", code="log-entries-broken")
    if receipt.edit < last.edit or (receipt.edit == last.edit and receipt.outcome not in _STANDING):
        raise VerificationError(f"{where}: edit {receipt.edit} after edit {last.edit}", code="log-edit-order")
    now, then = receipt.problem, last.problem
    renewed = receipt.action in ("rebuild", "restoration")
    if (now.sigma, now.dimension) != (then.sigma, then.dimension) or (now != then and not renewed):
        raise VerificationError(f"{where}: {now}, after {then}", code="log-problem-changed")


def _check_summary(index: int, summary: Event, deletions: Mapping[Json, tuple[str, str, int]]) -> None:
    """Every receipt that the summary of a subject's erasure counts is there, and says the same."""
    for part in cast("Iterable[Mapping[str, Json]]", summary.facts["memories"]):
        told = (part["memory"], part["outcome"], part["entries"])
        if part["leaf"] is not None and deletions.get(part["leaf"]) != told:
            raise VerificationError(
                f"leaf {index}: leaf {part['leaf']} is not the receipt that the summary counts",
                code="log-event-mismatch",
            )


def _stated(
    index: int, envelope: bytes, keys: list[VerifyingKey], threshold: int, also: Collection[str]
) -> Predicate | Event | None:
    try:
        statement = open_statement(envelope, keys, threshold=threshold)
        if statement.predicate_type not in also:
            return parse_predicate(statement)
        return parse_event(statement) if statement.predicate_type == EVENT_TYPE else None
    except VerificationError as error:
        raise VerificationError(f"leaf {index}: {error.code}: {error}", code="log-receipt-invalid") from error


def _head(note: bytes, log_keys: Iterable[NoteKey], origin: str) -> Checkpoint:
    parsed = parse_note(note)
    verify_checkpoint(parsed, log_keys, origin)
    return parse_checkpoint(parsed.text)
