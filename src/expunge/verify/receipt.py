"""One receipt: who signed it, whether it can be true, and its place in the log. Steps: ``docs/formats/receipt.md``."""

from __future__ import annotations

from collections.abc import Iterable

from expunge.errors import InputError
from expunge.ledger.checkpoint import verify_cosignatures
from expunge.ledger.envelope import read_envelope, verify_envelope
from expunge.ledger.merkle.proof_file import InclusionProof, parse_inclusion_proof, verify_inclusion_proof
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.receipt_format import PREDICATE_TYPE, Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import VerifyingKey
from expunge.ledger.statement import parse_statement
from expunge.ledger.witness_policy import WitnessPolicy

__all__ = ["check_witnesses", "verify_inclusion", "verify_receipt"]


def verify_receipt(envelope: bytes, trusted: Iterable[VerifyingKey], *, threshold: int = 1) -> Predicate:
    """Return what a receipt states, after checking its signatures, its form and that it does not contradict itself.

    The envelope may be written in any way that DSSE allows: what is signed is the payload.
    """
    read = read_envelope(envelope)
    verify_envelope(read, trusted, threshold)
    return parse_predicate(parse_statement(read.payload, PREDICATE_TYPE))


def check_witnesses(
    head: SignedNote,
    log_keys: Iterable[NoteKey],
    witnesses: Iterable[NoteKey],
    quorum: int | WitnessPolicy,
    now: int | None,
    max_age: int | None = None,
) -> None:
    """Check the cosignatures that are asked for; witnesses without a quorum would be passed over."""
    known = list(witnesses)
    if known and quorum == 0:
        raise InputError("witnesses without a quorum: say how many of them must have cosigned")
    if quorum:
        verify_cosignatures(head, known, quorum, log_keys=log_keys, now=now, max_age=max_age)


def verify_inclusion(
    envelope: bytes,
    proof: bytes,
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    witnesses: Iterable[NoteKey] = (),
    quorum: int | WitnessPolicy = 0,
    now: int | None = None,
    max_age: int | None = None,
) -> InclusionProof:
    """Check that a receipt is in the log ``origin``, under a head that the log signed and witnesses cosigned.

    Returns the proof, which says where the receipt is and under which head.
    """
    parsed = parse_inclusion_proof(proof)
    keys = list(log_keys)
    verify_inclusion_proof(parsed, envelope, keys, origin)
    check_witnesses(parsed.checkpoint, keys, witnesses, quorum, now, max_age)
    return parsed
