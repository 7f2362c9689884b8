"""The log of receipts: one receipt's place in it, one head after another, and the whole of it replayed.

Steps: ``docs/formats/receipt.md``. Everything is recomputed from the receipts' own bytes, the root of the tree
included; of the writer's half nothing is imported but the hash of a leaf and of a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Checkpoint, parse_checkpoint, verify_checkpoint, verify_cosignatures
from expunge.ledger.envelope import open_statement
from expunge.ledger.errors import (
    LogCreationRepeated,
    LogEditOrder,
    LogEntriesBroken,
    LogErasureUndone,
    LogProblemChanged,
    LogReceiptInvalid,
    LogRestorationUnknown,
    LogRootMismatch,
    LogSizeMismatch,
    LogStateBroken,
)
from expunge.ledger.hashing import EMPTY_ROOT, leaf_hash, node_hash
from expunge.ledger.log_proof import (
    parse_extension_proof,
    parse_inclusion_proof,
    verify_extension_proof,
    verify_inclusion_proof,
)
from expunge.ledger.note import NoteKey, parse_note
from expunge.ledger.predicate import Predicate, parse_predicate
from expunge.ledger.signing import VerifyingKey

__all__ = ["verify_consistency", "verify_inclusion", "verify_log"]


def verify_inclusion(
    envelope: bytes,
    proof: bytes,
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    witnesses: Iterable[NoteKey] = (),
    quorum: int = 0,
    now: int | None = None,
) -> None:
    """Check that a receipt is in the log ``origin``, under a head that the log signed and witnesses cosigned."""
    parsed = parse_inclusion_proof(proof)
    verify_inclusion_proof(parsed, envelope, log_keys, origin)
    if quorum:
        verify_cosignatures(parsed.checkpoint, witnesses, quorum, now=now)


def verify_consistency(
    kept: bytes,
    proof: bytes,
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    witnesses: Iterable[NoteKey] = (),
    quorum: int = 0,
    now: int | None = None,
) -> None:
    """Check that the log only added receipts since the head that was ``kept``."""
    keys = list(log_keys)
    old = _head(kept, keys, origin)
    parsed = parse_extension_proof(proof)
    verify_extension_proof(parsed, old, keys)
    if quorum:
        verify_cosignatures(parsed.checkpoint, witnesses, quorum, now=now)


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
) -> None:
    """Replay a whole log: every receipt verifies, the receipts of each memory make one history, the root is right.

    ``envelopes`` are all leaves in order. Statements of the predicate types in ``also`` are checked for their
    signatures alone.
    """
    head = _head(checkpoint, log_keys, origin)
    if quorum:
        verify_cosignatures(parse_note(checkpoint), witnesses, quorum, now=now)
    keys = list(trusted)
    memories: dict[str, _History] = {}
    root = _Root()
    for index, envelope in enumerate(envelopes):
        root.add(leaf_hash(envelope))
        receipt = _receipt(index, envelope, keys, threshold, also)
        if receipt is not None:
            memories.setdefault(receipt.memory, _History()).follow(index, receipt)
    if root.size != head.size:
        raise LogSizeMismatch(f"{root.size} receipts, and a head of {head.size} leaves")
    if root.digest() != head.root:
        raise LogRootMismatch(f"the receipts lead to root {root.digest().hex()}, not {head.root.hex()}")
    for memory, history in memories.items():
        if history.pending:
            raise LogErasureUndone(f"{len(history.pending)} erasures in memory {memory} were not applied again")


@dataclass
class _History:
    """What the receipts of one memory have told so far."""

    last: Predicate | None = None
    states: dict[str, int] = field(default_factory=dict)
    admitted: dict[str, int] = field(default_factory=dict)
    erased: dict[str, int] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)  # erased, and back since a restoration

    def follow(self, index: int, receipt: Predicate) -> None:
        """Check that a receipt continues the history, and take it up."""
        where = f"leaf {index}, memory {receipt.memory}"
        if self.last is not None:
            _check_succession(where, self.last, receipt)
        if receipt.action == "restoration":
            self._restore(where, receipt)
        self._account(where, index, receipt)
        self.states.setdefault(receipt.state_after, index)
        self.last = receipt

    def _restore(self, where: str, receipt: Predicate) -> None:
        reached = self.states.get(receipt.state_after)
        if reached is None:
            raise LogRestorationUnknown(f"{where}: restored to a state that was never there")
        # What was admitted after the restored state was never in it.
        gone = {digest for digest, at in self.erased.items() if at > reached}
        self.pending |= {digest for digest in gone if self.admitted.get(digest, reached) <= reached}

    def _account(self, where: str, index: int, receipt: Predicate) -> None:
        named = {*receipt.applied.commitments, *receipt.expired.commitments}
        named |= {*receipt.renewed.commitments, *receipt.reactivated.commitments}
        if undone := sorted(named & self.erased.keys() - self.pending):
            raise LogErasureUndone(f"{where}: {undone[0]} was erased before")
        if receipt.action == "admission":
            self.admitted |= dict.fromkeys(receipt.applied.commitments, index)
        if receipt.action == "deletion":
            self.erased |= dict.fromkeys(receipt.applied.commitments, index)
            self.pending -= set(receipt.applied.commitments)


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
        raise LogCreationRepeated(f"{where}: created again")
    if receipt.state_before != last.state_after:
        raise LogStateBroken(f"{where}: starts from state {receipt.state_before}, not {last.state_after}")
    if receipt.before != last.after:
        raise LogEntriesBroken(f"{where}: starts from {receipt.before}, not {last.after}")
    stands_still = receipt.outcome in ("refused", "noop", "expired")
    if receipt.edit < last.edit or (receipt.edit == last.edit and not stands_still):
        raise LogEditOrder(f"{where}: edit {receipt.edit} after edit {last.edit}")
    now, then = receipt.problem, last.problem
    renewed = receipt.action in ("rebuild", "restoration")
    if (now.sigma, now.dimension) != (then.sigma, then.dimension) or (now != then and not renewed):
        raise LogProblemChanged(f"{where}: {now}, after {then}")


def _receipt(
    index: int, envelope: bytes, keys: list[VerifyingKey], threshold: int, also: Collection[str]
) -> Predicate | None:
    try:
        statement = open_statement(envelope, keys, threshold=threshold)
        return None if statement.predicate_type in also else parse_predicate(statement)
    except VerificationError as error:
        raise LogReceiptInvalid(f"leaf {index}: {type(error).__name__}: {error}") from error


def _head(note: bytes, log_keys: Iterable[NoteKey], origin: str) -> Checkpoint:
    parsed = parse_note(note)
    verify_checkpoint(parsed, log_keys, origin)
    return parse_checkpoint(parsed.text)
