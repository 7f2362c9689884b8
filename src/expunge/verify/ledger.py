"""The ledger: one head after another, and the whole of it replayed.

Steps: ``docs/formats/ledger-replay.md``. Everything is recomputed from the leaves' own bytes, the root of the tree
included; of the writer's half nothing is imported but the hash of a leaf and of a node. What the leaves say of each
other is :mod:`expunge.verify.replay`'s.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Checkpoint, cosignature_times, parse_checkpoint, verify_checkpoint
from expunge.ledger.envelope import open_statement, parse_envelope
from expunge.ledger.event import EVENT_TYPE, Event, parse_event
from expunge.ledger.merkle.proof_file import (
    ExtensionProof,
    parse_extension_proof,
    verify_extension_proof,
)
from expunge.ledger.note import NoteKey, parse_note
from expunge.ledger.receipt_format import Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import VerifyingKey
from expunge.ledger.statement import parse_statement
from expunge.ledger.verifying_key import KeyAlgorithm
from expunge.ledger.witness_policy import WitnessPolicy
from expunge.verify.key_timeline import KeyTimeline, added_key
from expunge.verify.receipt import check_witnesses
from expunge.verify.replay.replay import LedgerReplay, Tally
from expunge.verify.tree_root import TreeRoot

_PAYLOAD = b'{"payload":"'

__all__ = ["CONTRADICTIONS", "LedgerSummary", "verify_consistency", "verify_ledger"]


# What a leaf says against itself has its own code, as what it says against other leaves has.
CONTRADICTIONS: Final = frozenset(
    {
        "receipt-applied-empty",
        "receipt-cap-infeasible",
        "receipt-count-mismatch",
        "receipt-empty-unstated",
        "receipt-entries-mismatch",
        "receipt-refusal-not-exceeded",
        "receipt-refusal-unmeasured",
        "receipt-state-mismatch",
        "statement-summary-empty",
    }
)


@dataclass(frozen=True)
class LedgerSummary:
    """A ledger that was verified: its head, and what it tells of at its end."""

    head: Checkpoint
    tally: Tally
    # By the commitment of each mirror that there is: leaves of the erasures that it has not followed.
    owed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def verify_consistency(
    kept: bytes,
    proof: bytes,
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    witnesses: Iterable[NoteKey] = (),
    quorum: int | WitnessPolicy = 0,
    now: int | None = None,
    max_age: int | None = None,
) -> ExtensionProof:
    """Check that the log only added receipts since the head that was ``kept``; return the proof with the new head."""
    keys = list(log_keys)
    old = _head(kept, keys, origin)
    parsed = parse_extension_proof(proof)
    verify_extension_proof(parsed, old, keys)
    check_witnesses(parsed.checkpoint, keys, witnesses, quorum, now, max_age)
    return parsed


def verify_ledger(
    envelopes: Iterable[bytes],
    checkpoint: bytes,
    trusted: Iterable[VerifyingKey],
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    threshold: int = 1,
    witnesses: Iterable[NoteKey] = (),
    quorum: int | WitnessPolicy = 0,
    now: int | None = None,
    max_age: int | None = None,
    seen: Iterable[tuple[Checkpoint, int]] = (),
    also: Collection[str] = (),
    step: Callable[[], object] | None = None,
) -> LedgerSummary:
    """Replay a whole ledger: every leaf verifies, none contradicts those before it, and the root is right.

    Parameters
    ----------
    envelopes
        All leaves in order, from the first one on.
    checkpoint
        The signed head that they lead to.
    trusted, threshold
        Keys that sign receipts and events, and how many of them must have signed each. Events of the ledger add keys to
        them and revoke them: a leaf is signed with keys that are valid there.
    log_keys, origin
        Keys that sign the head, likewise, and the ledger's name.
    witnesses, quorum
        Verifier keys of witnesses, and how many of them must have cosigned the head. No leaf is later than their times.
    now
        Seconds since 1970; no leaf and no cosignature is later. By default no time is too late.
    max_age
        How many seconds before ``now`` a cosignature may be; by default any age will do.
    seen
        Heads of this ledger whose signatures were verified, and when each was seen, in seconds since 1970: from a time
        stamp, or from a cosignature on a head that was kept.
    also
        Predicate types that may be there besides receipts and events; they are checked for their signatures alone.
    step
        Called after each leaf.

    Returns
    -------
    The head, and what the ledger tells of. Raises VerificationError with the code of the first contradiction.

    """
    leaves, note, known = list(envelopes), parse_note(checkpoint), list(witnesses)
    added, logged, signing = _added_keys(leaves), list(log_keys), list(trusted)
    signers = [*logged, *(NoteKey(origin, key) for use, key in added if use == "heads")]
    verify_checkpoint(note, signers, origin)
    head = parse_checkpoint(note.text)
    # Whoever signs leaves is no witness, either.
    others = {*signing, *(key for _, key in added)}
    own = [*signers, *(NoteKey(origin, key) for key in others if key.algorithm is KeyAlgorithm.ED25519)]
    check_witnesses(note, own, known, quorum, now, max_age)
    # What an event adds is no key before, whoever trusts it.
    timeline = KeyTimeline.of(
        [key for key in signing if ("receipts", key) not in added],
        [key for key in _publics(logged) if ("heads", key) not in added],
    )
    heads = [*seen, *((head, time) for time in cosignature_times(note, known).values())]
    replay = LedgerReplay(now, ((kept.size, time) for kept, time in heads))
    roots: dict[int, set[bytes]] = {}
    for each in (head, *(kept for kept, _ in heads)):
        roots.setdefault(each.size, set()).add(each.root)
    tree = TreeRoot()

    for index, envelope in enumerate(leaves):
        _check_root(tree, roots)
        hashed = tree.add(envelope)
        stated = _stated(index, envelope, timeline.keys("receipts"), threshold, also)
        replay.add(index, hashed, stated)
        if isinstance(stated, Event):
            timeline.follow(index, stated)
        if step is not None:
            step()
    tally = replay.finish(tree.size)
    if tree.size != head.size or tree.size < max(roots):
        raise VerificationError(
            f"{tree.size} leaves, and a head of {max(roots)}: leaves are missing, or the head is another one's",
            code="ledger-size-mismatch",
        )
    _check_root(tree, roots)
    verify_checkpoint(note, [NoteKey(origin, key) for key in timeline.keys("heads")], origin)
    return LedgerSummary(head, tally, replay.owed)


def _publics(keys: Iterable[NoteKey]) -> list[VerifyingKey]:
    return [key.public for key in keys if isinstance(key.public, VerifyingKey)]


def _added_keys(envelopes: Iterable[bytes]) -> set[tuple[str, VerifyingKey]]:
    """The keys that leaves claim to add, with their use; what is malformed is refused when the leaf is verified."""
    found = set()
    for envelope in envelopes:
        encoded = envelope[len(_PAYLOAD) : envelope.find(b'"', len(_PAYLOAD))] if envelope.startswith(_PAYLOAD) else b""
        try:
            # Few leaves are about keys, and parsing all of them once more would take as long as replaying them.
            if b'"event":"key_added"' in a2b_base64(encoded):
                event = parse_event(parse_statement(parse_envelope(envelope).payload))
                found.add((str(event.facts["use"]), added_key(0, event)))
        except (VerificationError, ValueError):
            continue
    return found


def _check_root(tree: TreeRoot, roots: Mapping[int, set[bytes]]) -> None:
    """Raise if a head has this many leaves and another root."""
    wanted = roots.get(tree.size)
    if wanted is not None and wanted != {tree.digest()}:
        raise VerificationError(
            f"the first {tree.size} leaves lead to root {tree.digest().hex()}, which is not that of the head",
            code="ledger-root-mismatch",
        )


def _stated(
    index: int, envelope: bytes, keys: list[VerifyingKey], threshold: int, also: Collection[str]
) -> Predicate | Event | None:
    try:
        statement = open_statement(envelope, keys, threshold=threshold)
        if statement.predicate_type == EVENT_TYPE:
            return parse_event(statement)
        return None if statement.predicate_type in also else parse_predicate(statement)
    except VerificationError as error:
        if error.code in CONTRADICTIONS:
            raise VerificationError(f"leaf {index}: {error}", code=error.code) from error
        raise VerificationError(f"leaf {index}: {error.code}: {error}", code="ledger-receipt-invalid") from error


def _head(note: bytes, log_keys: Iterable[NoteKey], origin: str) -> Checkpoint:
    parsed = parse_note(note)
    verify_checkpoint(parsed, log_keys, origin)
    return parse_checkpoint(parsed.text)
