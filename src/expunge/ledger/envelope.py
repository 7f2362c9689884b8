"""DSSE envelopes: a statement and who signed it.

Format: ``docs/formats/envelope.md`` (github.com/secure-systems-lab/dsse, v1). What is signed is the
pre-authentication encoding of payload type and payload, so neither can be swapped. There are two readers.
:func:`parse_envelope` reads leaves of the ledger: RFC 8785 JSON without room for a second spelling, because the leaf's
hash is over these bytes. :func:`read_envelope` reads an envelope as the specification has it, whoever wrote it down.

The two halves are independent: the signer takes the message from ``securesystemslib``, the verifier encodes
it anew and asks ``cryptography``. :func:`open_statement` is the safe way in: it looks into the payload only
after a trusted key has vouched for it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import (
    Json,
    decode_base64,
    dump_canonical,
    encode_base64,
    freeze,
    parse_canonical,
    parse_json,
)
from expunge.ledger.signing import Signer, VerifyingKey
from expunge.ledger.statement import MAX_PAYLOAD_BYTES, Statement, parse_statement

__all__ = [
    "MAX_ENVELOPE_BYTES",
    "PAYLOAD_TYPE",
    "Envelope",
    "EnvelopeSignature",
    "open_statement",
    "parse_envelope",
    "read_envelope",
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
# Half of a character of UTF-16, which JSON can spell and UTF-8 cannot.
_LONE = re.compile("[\ud800-\udfff]")
_KEY_ID = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
# Two numbers in DER are 8 to 72 bytes where the curve is P-256; an Ed25519 signature is 64.
_SIGNATURE_SIZES = range(8, 73)


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


def sign_statement(statement: Statement, *keys: Signer) -> Envelope:
    """Sign a statement with one or more keys."""
    # Loaded here because a verifier needs none of it.
    from securesystemslib import dsse

    if not 1 <= len({key.public for key in keys}) == len(keys) <= _MAX_SIGNATURES:
        raise InputError(f"an envelope takes 1 to {_MAX_SIGNATURES} different signing keys")
    payload = statement.to_bytes()
    message = dsse.Envelope(payload, PAYLOAD_TYPE, {}).pae()
    return Envelope(payload, tuple(EnvelopeSignature(key.public.key_id, key.sign(message)) for key in keys))


def parse_envelope(data: bytes) -> Envelope:
    """Read a leaf of the ledger, whose bytes are the one spelling of the envelope, without looking into its payload."""
    document = parse_canonical(data, limit=MAX_ENVELOPE_BYTES, max_values=_MAX_VALUES)
    if not isinstance(document, Mapping):
        raise VerificationError("an envelope is a JSON object", code="envelope-not-object")
    return _read(document, key_ids=True)


def _read(document: Mapping[str, Json], *, key_ids: bool) -> Envelope:
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
    return Envelope(payload, _parse_signatures(freeze(document["signatures"]), key_ids=key_ids))


def read_envelope(data: bytes) -> Envelope:
    """Read an envelope as DSSE v1 has it, without looking into its payload.

    Fields may stand in any order, unknown ones are passed over, base64 is standard or URL-safe, and a signature need
    not name its key. If the envelope is a leaf that was written anew, and its signatures still name their keys, then
    :meth:`Envelope.to_bytes` of the result is the leaf.
    """
    document = parse_json(data, limit=MAX_ENVELOPE_BYTES)
    if not isinstance(document, dict):
        raise VerificationError("an envelope is a JSON object", code="envelope-not-object")
    known: dict[str, Any] = {field: document[field] for field in _FIELDS if field in document}
    payload = _any_base64(known.get("payload"))
    if payload is not None:
        known["payload"] = encode_base64(payload)
    if isinstance(listed := known.get("signatures"), list):
        known["signatures"] = [_standard(item) for item in listed]
    return _read(known, key_ids=False)


def verify_envelope(envelope: Envelope, trusted: Iterable[VerifyingKey], threshold: int = 1) -> None:
    """Check that ``threshold`` of the trusted keys signed.

    As DSSE has it: other signatures, whether by other keys or false, do not count and do no harm. A key id is a hint:
    with a trusted key's, that key is tried; with one of our form that is none of theirs, no key; without one, or with
    one of another form, every trusted key.
    """
    keys = {key.key_id: key for key in trusted}
    if not 1 <= threshold <= len(keys):
        raise InputError(f"a threshold of {threshold} cannot be met by {len(keys)} trusted keys")
    message = _pre_authentication_encoding(envelope.payload)
    signers: set[str] = set()
    false = None
    for entry in envelope.signatures:
        named = entry.key_id in keys
        tried = [entry.key_id] if named else [] if _KEY_ID.fullmatch(entry.key_id) else keys.keys() - signers
        found = next((name for name in tried if keys[name].verifies(entry.signature, message)), None)
        if found is not None:
            signers.add(found)
        elif named:
            false = entry.key_id
    if len(signers) >= threshold:
        return
    if false is not None:
        raise VerificationError(
            f"the signature by key {false} is not over this payload", code="envelope-signature-invalid"
        )
    if not signers:
        raise VerificationError("no signature on the envelope is by a trusted key", code="envelope-signer-unknown")
    raise VerificationError(
        f"{len(signers)} trusted keys signed; {threshold} are needed", code="envelope-threshold-missed"
    )


def open_statement(
    data: bytes,
    trusted: Iterable[VerifyingKey],
    predicate_type: str | None = None,
    *,
    threshold: int = 1,
) -> Statement:
    """Return the statement in a leaf of the ledger, after its signatures have been verified."""
    envelope = parse_envelope(data)
    verify_envelope(envelope, trusted, threshold)
    return parse_statement(envelope.payload, predicate_type)


def _parse_signatures(value: Json, *, key_ids: bool) -> tuple[EnvelopeSignature, ...]:
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
    signatures: list[EnvelopeSignature] = []
    named: set[str] = set()
    for item in value:
        _check_fields(item, _SIGNATURE_FIELDS, "signature")
        key_id, encoded = item["keyid"], item["sig"]
        if not isinstance(key_id, str) or (not _KEY_ID.fullmatch(key_id) if key_ids else _LONE.search(key_id)):
            raise VerificationError(f"{repr(key_id)[:80]} is not the id of a key", code="envelope-key-id-invalid")
        if key_ids and key_id in named:
            raise VerificationError(f"two signatures are by key {key_id}", code="envelope-duplicate-key-id")
        named.add(key_id)
        signature = decode_base64(encoded) if isinstance(encoded, str) else None
        if signature is None or len(signature) not in _SIGNATURE_SIZES:
            raise VerificationError(
                f"the signature by {key_id[:80]!r} is not base64 of {_SIGNATURE_SIZES.start} to "
                f"{_SIGNATURE_SIZES.stop - 1} bytes",
                code="envelope-signature-encoding-invalid",
            )
        signatures.append(EnvelopeSignature(key_id, signature))
    return tuple(signatures)


def _standard(item: Any) -> Any:
    """A signature object with the fields that we know, an empty key id where there is none, and standard base64."""
    if not isinstance(item, dict):
        return item
    known = {"keyid": "", **{field: item[field] for field in _SIGNATURE_FIELDS if field in item}}
    if known["keyid"] is None:
        known["keyid"] = ""
    signature = _any_base64(known.get("sig"))
    return known if signature is None else {**known, "sig": encode_base64(signature)}


def _any_base64(text: object) -> bytes | None:
    """The bytes of base64 in the standard or in the URL-safe alphabet, padded."""
    # The library takes padding that is too long.
    if not isinstance(text, str) or len(text) % 4:
        return None
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return None


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
