"""A leaf as a COSE message with a COSE Receipt (RFC 9052, RFC 9942), for verifiers that read CBOR and no JSON.

Format: ``docs/formats/cose.md``. The message is signed over the leaf's envelope as it stands in the log; its receipt,
in the unprotected header, proves that envelope's place under a root that the log signs once more, in COSE's form. The
extra ``cose`` brings the CBOR library. What COSE signs begins with a CBOR array of a text, so it can be taken
neither for a note nor for an envelope.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from expunge.errors import InputError, MissingExtra
from expunge.ledger.checkpoint import parse_checkpoint
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.signing import Signer
from expunge.ledger.statement import parse_statement
from expunge.ledger.verifying_key import KeyAlgorithm

__all__ = ["CONTENT_TYPE", "cose_statement"]

CONTENT_TYPE = "application/vnd.in-toto.receipt+dsse"

_SIGN1 = 18
_ALG, _CONTENT_TYPE, _KEY_ID, _CLAIMS, _RECEIPTS, _STRUCTURE, _PROOFS = 1, 3, 4, 15, 394, 395, 396
_ISSUER, _SUBJECT = 1, 2
_EDDSA = -8
_RFC9162_SHA256 = 1
_INCLUSION = -1


def cose_statement(envelope: bytes, proof: InclusionProof, key: Signer) -> bytes:
    """The COSE_Sign1 message of a leaf, with its receipt.

    Parameters
    ----------
    envelope
        The leaf.
    proof
        Its place in the log, which the caller has made or verified.
    key
        The Ed25519 key that signs the log's heads. Who signed the envelope is not looked at.

    Raises
    ------
    MissingExtra
        The extra ``cose`` is not installed.
    InputError
        The key is not an Ed25519 key.
    VerificationError
        The leaf is not an envelope with a statement.

    """
    if key.public.algorithm is not KeyAlgorithm.ED25519:
        raise InputError(f"the log signs with Ed25519, not with {key.public.algorithm.value}")
    head = parse_checkpoint(proof.checkpoint.text)
    claims = {_ISSUER: head.origin, _SUBJECT: parse_statement(parse_envelope(envelope).payload).subjects[0].name}
    signer = {_ALG: _EDDSA, _KEY_ID: key.public.key_id.encode("ascii"), _CLAIMS: claims}
    path = _dump([head.size, proof.index, list(proof.path)])
    receipt = _sign1(key, {**signer, _STRUCTURE: _RFC9162_SHA256}, {_PROOFS: {_INCLUSION: [path]}}, head.root, None)
    return _sign1(key, {**signer, _CONTENT_TYPE: CONTENT_TYPE}, {_RECEIPTS: [receipt]}, envelope, envelope)


def _sign1(
    key: Signer, protected: dict[int, Any], unprotected: dict[int, Any], payload: bytes, carried: bytes | None
) -> bytes:
    """A tagged COSE_Sign1; without `carried` its payload is detached."""
    header = _dump(protected)
    signature = key.sign(_dump(["Signature1", header, b"", payload]))
    return _dump(_library().CBORTag(_SIGN1, [header, unprotected, carried, signature]))


def _dump(value: Any) -> bytes:
    data: bytes = _library().dumps(value, canonical=True)
    return data


def _library() -> ModuleType:
    try:
        import cbor2
    except ImportError as error:
        raise MissingExtra("COSE needs a library for CBOR: pip install 'expunge[cose]'") from error
    return cbor2
