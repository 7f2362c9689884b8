"""DSSE envelopes: a statement and who signed it.

Format: ``docs/formats/envelope.md`` (github.com/secure-systems-lab/dsse, v1). What is signed is the
pre-authentication encoding of payload type and payload, so neither can be swapped. The envelope itself is
RFC 8785 JSON as well: one envelope has one byte string, which is the leaf of the log.

The two halves are independent: the signer takes the message from ``securesystemslib``, the verifier encodes
it anew and asks ``cryptography``. :func:`open_statement` is the safe way in: it looks into the payload only
after a trusted key has vouched for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import Json, decode_base64, dump_canonical, encode_base64, is_sha256_hex, parse_canonical
from expunge.ledger.signing import SIGNATURE_SIZE, SigningKey, VerifyingKey
from expunge.ledger.statement import MAX_PAYLOAD_BYTES, Statement, parse_statement

__all__ = [
    "MAX_ENVELOPE_BYTES",
    "PAYLOAD_TYPE",
    "Envelope",
    "EnvelopeSignature",
    "open_statement",
    "parse_envelope",
    "sign_statement",
    "verify_envelope",
]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_ENVELOPE_BYTES = 6 * 1024 * 1024
_MAX_SIGNATURES = 16
# An envelope has few values; a stranger who sends many should cost us nothing.
_MAX_VALUES = 256
_FIELDS = frozenset({"payload", "payloadType", "signatures"})
_SIGNATURE_FIELDS = frozenset({"keyid", "sig"})


@dataclass(frozen=True, slots=True)
class EnvelopeSignature:
    """One signature and the id of the key that is said to have made it."""

    key_id: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """Payload bytes of type :data:`PAYLOAD_TYPE` and the signatures over them."""

    payload: bytes
    signatures: tuple[EnvelopeSignature, ...]

    def to_bytes(self) -> bytes:
        """Return the canonical bytes: what is stored, sent and hashed into the log."""
        return dump_canonical(
            {
                "payload": encode_base64(self.payload),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [
                    {"keyid": entry.key_id, "sig": encode_base64(entry.signature)} for entry in self.signatures
                ],
            }
        )


def sign_statement(statement: Statement, *keys: SigningKey) -> Envelope:
    """Sign a statement with one or more keys."""
    # Loaded here because a verifier needs none of it.
    from securesystemslib import dsse

    if not 1 <= len({key.key_id for key in keys}) == len(keys) <= _MAX_SIGNATURES:
        raise InputError(f"an envelope takes 1 to {_MAX_SIGNATURES} different signing keys")
    payload = statement.to_bytes()
    message = dsse.Envelope(payload, PAYLOAD_TYPE, {}).pae()
    return Envelope(payload, tuple(EnvelopeSignature(key.key_id, key.sign(message)) for key in keys))


def parse_envelope(data: bytes) -> Envelope:
    """Read an envelope without looking into its payload."""
    document = parse_canonical(data, limit=MAX_ENVELOPE_BYTES, max_values=_MAX_VALUES)
    if not isinstance(document, Mapping):
        raise VerificationError("an envelope is a JSON object", code="envelope-not-object")
    _check_fields(document, _FIELDS, "envelope")
    if document["payloadType"] != PAYLOAD_TYPE:
        raise VerificationError(
            f"{repr(document['payloadType'])[:80]} is not {PAYLOAD_TYPE}", code="envelope-payload-type-unsupported"
        )
    encoded = document["payload"]
    payload = decode_base64(encoded) if isinstance(encoded, str) else None
    if payload is None or len(payload) > MAX_PAYLOAD_BYTES:
        raise VerificationError(
            f"the payload is not base64 of at most {MAX_PAYLOAD_BYTES} bytes", code="envelope-payload-invalid"
        )
    return Envelope(payload, _parse_signatures(document["signatures"]))


def verify_envelope(envelope: Envelope, trusted: Iterable[VerifyingKey], threshold: int = 1) -> None:
    """Check that ``threshold`` of the trusted keys signed, and that no trusted key's signature is false.

    Signatures by other keys are ignored: they say nothing to this verifier.
    """
    keys = {key.key_id: key for key in trusted}
    if not 1 <= threshold <= len(keys):
        raise InputError(f"a threshold of {threshold} cannot be met by {len(keys)} trusted keys")
    message = _pre_authentication_encoding(envelope.payload)
    signers = set()
    for entry in envelope.signatures:
        key = keys.get(entry.key_id)
        if key is None:
            continue
        if not key.verifies(entry.signature, message):
            raise VerificationError(
                f"the signature by key {entry.key_id} is not over this payload", code="envelope-signature-invalid"
            )
        signers.add(entry.key_id)
    if not signers:
        raise VerificationError("no signature on the envelope is by a trusted key", code="envelope-signer-unknown")
    if len(signers) < threshold:
        raise VerificationError(
            f"{len(signers)} trusted keys signed; {threshold} are needed", code="envelope-threshold-missed"
        )


def open_statement(
    data: bytes, trusted: Iterable[VerifyingKey], predicate_type: str | None = None, *, threshold: int = 1
) -> Statement:
    """Return the statement in an envelope, after its signatures have been verified."""
    envelope = parse_envelope(data)
    verify_envelope(envelope, trusted, threshold)
    return parse_statement(envelope.payload, predicate_type)


def _parse_signatures(value: Json) -> tuple[EnvelopeSignature, ...]:
    if not isinstance(value, tuple) or not all(isinstance(item, Mapping) for item in value):
        raise VerificationError(
            "the signatures of an envelope are a list of objects", code="envelope-signature-list-invalid"
        )
    if not value:
        raise VerificationError("the envelope has no signature", code="envelope-unsigned")
    if len(value) > _MAX_SIGNATURES:
        raise VerificationError(
            f"{len(value)} signatures exceed the limit of {_MAX_SIGNATURES}", code="envelope-too-many-signatures"
        )
    signatures: dict[str, EnvelopeSignature] = {}
    for item in value:
        _check_fields(item, _SIGNATURE_FIELDS, "signature")
        key_id, encoded = item["keyid"], item["sig"]
        if not is_sha256_hex(key_id):
            raise VerificationError(f"{repr(key_id)[:80]} is not the id of a key", code="envelope-key-id-invalid")
        if key_id in signatures:
            raise VerificationError(f"two signatures are by key {key_id}", code="envelope-duplicate-key-id")
        signature = decode_base64(encoded) if isinstance(encoded, str) else None
        if signature is None or len(signature) != SIGNATURE_SIZE:
            raise VerificationError(
                f"the signature by {key_id} is not base64 of 64 bytes", code="envelope-signature-encoding-invalid"
            )
        signatures[key_id] = EnvelopeSignature(key_id, signature)
    return tuple(signatures.values())


def _check_fields(value: Mapping[str, Json], fields: frozenset[str], what: str) -> None:
    if missing := sorted(fields - value.keys()):
        raise VerificationError(f"the {what} has no {missing[0]}", code="envelope-field-missing")
    if unknown := sorted(value.keys() - fields):
        raise VerificationError(
            f"the {what} has an unknown field {repr(unknown[0])[:80]}", code="envelope-field-unknown"
        )


def _pre_authentication_encoding(payload: bytes) -> bytes:
    """Return DSSEv1 PAE: each part behind its length, so that type and payload cannot run into each other."""
    kind = PAYLOAD_TYPE.encode("ascii")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
