"""An evidence bundle: every number of its receipt that can be recomputed, recomputed.

Format and steps: ``docs/formats/evidence.md``. The reader shares no code with the writer and hands nothing to a
parser that could be surprised: the container has one form, which is compared byte by byte, and an array's
header is the one that its shape calls for. What the manifest says is believed only as far as digests under
the receipt's signature bear it out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from expunge.errors import InputError, StoreError, VerificationError
from expunge.ledger.commitment import combined, commit_rows, state_digest, weights_digest
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.note import NoteKey
from expunge.ledger.receipt_format import Listed, Predicate
from expunge.ledger.signing import VerifyingKey
from expunge.ledger.witness_policy import WitnessPolicy
from expunge.types import Vector
from expunge.verify.evidence_format import MAX_EVIDENCE_BYTES, Bundle, PriorShown, parse_bundle
from expunge.verify.proof import verify_proof
from expunge.verify.proof_format import Proof
from expunge.verify.proof_format import weights_digest as proof_weights
from expunge.verify.receipt import verify_inclusion, verify_receipt
from expunge.verify.state import VerifiedState, verify_state

__all__ = ["VerifiedEvidence", "verify_evidence"]


@dataclass(frozen=True)
class VerifiedEvidence:
    """What was verified: the receipt, the bundle, its weights, and the receipt's place in the log, if asked for."""

    receipt: Predicate
    bundle: Bundle
    state: VerifiedState
    inclusion: InclusionProof | None


def verify_evidence(
    bundle: str | os.PathLike[str] | bytes,
    trusted: Iterable[VerifyingKey],
    *,
    threshold: int = 1,
    log_keys: Iterable[NoteKey] | None = None,
    origin: str | None = None,
    witnesses: Iterable[NoteKey] = (),
    quorum: int | WitnessPolicy = 0,
    now: int | None = None,
    max_age: int | None = None,
    require_prior: bool = True,
) -> VerifiedEvidence:
    """Check the receipt in a bundle (a path, or its bytes), recompute what it states, and return both.

    With ``log_keys`` and ``origin`` the receipt must also be in that log, and only then can ``witnesses`` be asked for.
    A bundle that was exported later may lack the state before the edit; ``require_prior=False`` leaves that state to
    the log.
    """
    if (log_keys is None) != (origin is None):
        raise InputError("the log's keys and its origin go together")
    known = tuple(witnesses)
    if log_keys is None and (known or quorum):
        raise InputError("witnesses cosign the head of the log; give the log's keys and its origin")
    found = parse_bundle(bundle if isinstance(bundle, bytes) else _read(Path(bundle)))
    receipt = verify_receipt(found.receipt, trusted, threshold=threshold)
    inclusion = None
    if log_keys is not None and origin is not None:
        if found.inclusion is None:
            raise VerificationError(
                "the bundle does not show that its receipt is in the log", code="evidence-inclusion-missing"
            )
        inclusion = verify_inclusion(
            found.receipt, found.inclusion, log_keys, origin, witnesses=known, quorum=quorum, now=now, max_age=max_age
        )
    _check_problem(found, receipt)
    _check_after(found, receipt)
    rows = [bytes(row) for row in found.commitments]
    _check_prior(found, receipt, rows, required=require_prior)
    _check_applied(receipt, {row.hex() for row in rows})
    state = verify_state(found.keys, found.coefficients, found.offset, cap=found.cap, sigma=found.sigma)
    _check_proof(found)
    return VerifiedEvidence(receipt, found, state, inclusion)


def _check_problem(found: Bundle, receipt: Predicate) -> None:
    stated = receipt.problem
    if (found.cap, found.sigma, found.keys.shape[1]) != (stated.cap, stated.sigma, stated.dimension):
        raise VerificationError(
            "cap, width or dimension are not those of the receipt", code="evidence-problem-mismatch"
        )
    if found.keys.shape[0] != receipt.after.live:
        raise VerificationError(
            f"{found.keys.shape[0]} entries; the receipt states {receipt.after.live}", code="evidence-size-mismatch"
        )
    if found.prior is not None:
        renewed = receipt.action in ("rebuild", "restoration")
        same_cap = found.prior.cap == stated.cap or renewed or receipt.outcome in ("refitted", "emptied")
        if not same_cap or (found.prior.sigma != stated.sigma and not renewed):
            raise VerificationError(
                "cap or width before the edit are not those of the receipt", code="evidence-problem-mismatch"
            )
        if found.prior.commitments.shape[0] != receipt.before.live:
            raise VerificationError(
                f"{found.prior.commitments.shape[0]} entries before the edit; the receipt states {receipt.before.live}",
                code="evidence-size-mismatch",
            )


def _check_after(found: Bundle, receipt: Predicate) -> None:
    columns = ([line.tobytes() for line in column] for column in (found.blinds, found.keys, found.values))
    for row, opened in enumerate(commit_rows(zip(*columns, strict=True))):
        if opened != found.commitments[row].tobytes():
            raise VerificationError(
                f"key, value and blind of row {row} do not open its commitment", code="evidence-commitment-mismatch"
            )
    if weights_digest(found.offset, found.coefficients, combined(found.blinds)) != found.weights:
        raise VerificationError(
            "offset and coefficients do not have the stated digest", code="evidence-weights-mismatch"
        )
    if state_digest(found.cap, found.sigma, found.commitments, found.weights, _columns(found)) != receipt.state_after:
        raise VerificationError(f"this is not state {receipt.state_after}", code="evidence-state-mismatch")


def _columns(found: Bundle) -> bytes:
    return b"" if found.preprocessing is None else found.preprocessing.digest


def _check_prior(found: Bundle, receipt: Predicate, rows: list[bytes], *, required: bool) -> None:
    if len(set(rows)) != len(rows):
        raise VerificationError("two rows have the same commitment", code="evidence-commitment-repeated")
    prior = found.prior
    if receipt.state_before in (None, receipt.state_after):
        if prior is not None:
            raise VerificationError("the receipt knows no other state before the edit", code="evidence-prior-mismatch")
        return
    if prior is None:
        if required:
            raise VerificationError("the state before the edit is not shown", code="evidence-prior-missing")
        return
    # No edit changes the columns of a memory.
    columns = _columns(found)
    if state_digest(prior.cap, prior.sigma, prior.commitments, prior.weights, columns) != receipt.state_before:
        raise VerificationError(f"this is not state {receipt.state_before}", code="evidence-prior-mismatch")
    earlier = [bytes(row) for row in prior.commitments]
    if len(set(earlier)) != len(earlier):
        raise VerificationError(
            "two rows before the edit have the same commitment", code="evidence-commitment-repeated"
        )
    removed, added = set(earlier) - set(rows), set(rows) - set(earlier)
    if prior.coefficients is not None and prior.offset is not None:
        if removed:
            raise VerificationError(
                "older coefficients beside the remaining keys disclose what was removed",
                code="evidence-prior-disclosed",
            )
        _check_disclosed(found, prior.offset, prior.coefficients, prior, rows, earlier)
    if receipt.action != "restoration":
        _check_change(receipt, {row.hex() for row in removed}, {row.hex() for row in added})


def _check_disclosed(
    found: Bundle, offset: float, coefficients: Vector, prior: PriorShown, rows: list[bytes], earlier: list[bytes]
) -> None:
    """Recompute a state before the edit whose entries are all still there."""
    place = {row: index for index, row in enumerate(rows)}
    order = np.array([place[row] for row in earlier], dtype=np.int64)
    if weights_digest(offset, coefficients, combined(found.blinds[order])) != prior.weights:
        raise VerificationError(
            "offset and coefficients before the edit do not have the stated digest", code="evidence-weights-mismatch"
        )
    try:
        verify_state(found.keys[order], coefficients, offset, cap=prior.cap, sigma=prior.sigma)
    except VerificationError as problem:
        raise VerificationError(f"before the edit: {problem}", code=problem.code) from None


def _check_change(receipt: Predicate, removed: set[str], added: set[str]) -> None:
    applied, arrived = receipt.applied, [receipt.reactivated]
    if receipt.action == "admission":
        arrived.append(applied)
    if not _are_those(added, *arrived):
        expected = sum(listed.count for listed in arrived)
        raise VerificationError(
            f"{len(added)} entries were added; the receipt names others, or {expected}", code="evidence-added-mismatch"
        )
    if receipt.action == "pruning":
        complete = _are_those(removed, applied)
    elif receipt.action != "deletion":
        complete = not removed
    elif applied.root is None:
        # A deletion may also name entries that were pruned before, and so were not live.
        complete = removed <= set(applied.commitments)
    else:
        complete = len(removed) < applied.count or _are_those(removed, applied)
    if not complete:
        raise VerificationError(
            f"{len(removed)} entries were removed; the receipt names others", code="evidence-removed-mismatch"
        )


def _check_applied(receipt: Predicate, live: set[str]) -> None:
    """What holds of the state after the edit, whether or not the one before is shown."""
    applied = set(receipt.applied.commitments)
    whole = receipt.action != "creation" or _are_those(live, receipt.applied)
    if not whole or (receipt.action == "admission" and not applied <= live):
        raise VerificationError("an admitted entry is not among the live ones", code="evidence-added-mismatch")
    if receipt.action in ("deletion", "pruning") and applied & live:
        raise VerificationError("a removed entry is still among the live ones", code="evidence-removed-mismatch")


def _are_those(found: set[str], *lists: Listed) -> bool:
    """Whether these entries are those of the lists. Where two lists are given by their roots, their number decides."""
    named = {digest for listed in lists for digest in listed.commitments}
    if len(found) != sum(listed.count for listed in lists) or not named <= found:
        return False
    roots = [listed for listed in lists if listed.root is not None]
    rest = sorted(found - named)
    return Listed.root_of(rest) == roots[0] if len(roots) == 1 else bool(roots) or not rest


def _check_proof(found: Bundle) -> None:
    if found.proof is None:
        return
    proof = Proof.from_bytes(found.proof)
    if proof.outcome == "proved" and proof.weights != proof_weights(found.coefficients, found.offset):
        raise VerificationError("the proof is of other weights than those of the state", code="evidence-proof-mismatch")
    # The weights are verified; what is left of the proof is about the groups.
    verify_proof(replace(proof, weights=None), found.keys, cap=found.cap, sigma=found.sigma)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_EVIDENCE_BYTES:
            raise VerificationError(
                f"{path} exceeds the limit of {MAX_EVIDENCE_BYTES} bytes", code="evidence-too-large"
            )
        return path.read_bytes()
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem}") from None
