"""DSSE envelopes: whatever is altered, its own error says so."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from expunge.errors import InputError, VerificationError
from expunge.ledger.canonical import dump_canonical
from expunge.ledger.encoding import encode_base64
from expunge.ledger.envelope import (
    MAX_ENVELOPE_BYTES,
    Envelope,
    EnvelopeSignature,
    open_statement,
    parse_envelope,
    sign_statement,
    verify_envelope,
)
from expunge.ledger.errors import (
    EnvelopeDuplicateKeyId,
    EnvelopeFieldMissing,
    EnvelopeFieldUnknown,
    EnvelopeKeyIdInvalid,
    EnvelopeNotObject,
    EnvelopePayloadInvalid,
    EnvelopePayloadTypeUnsupported,
    EnvelopeSignatureEncodingInvalid,
    EnvelopeSignatureInvalid,
    EnvelopeSignatureListInvalid,
    EnvelopeSignerUnknown,
    EnvelopeThresholdMissed,
    EnvelopeTooManySignatures,
    EnvelopeUnsigned,
    JsonNotCanonical,
    JsonTooLarge,
    StatementPredicateTypeMismatch,
    StatementTypeUnsupported,
)
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import MAX_PAYLOAD_BYTES

from .make_vectors import LOG_KEY, WITNESS_KEY, sample_statement
from .tamper import cuts, flips

ENVELOPE = sign_statement(sample_statement(), LOG_KEY)
DATA = ENVELOPE.to_bytes()
TRUSTED = [LOG_KEY.public]


def test_round_trip() -> None:
    assert parse_envelope(DATA) == ENVELOPE
    assert parse_envelope(DATA).to_bytes() == DATA
    assert open_statement(DATA, TRUSTED) == sample_statement()
    assert sign_statement(sample_statement(), LOG_KEY) == ENVELOPE


def test_no_bit_of_an_envelope_can_change_or_be_missing() -> None:
    for changed in itertools.chain(flips(DATA), cuts(DATA)):
        with pytest.raises(VerificationError):
            open_statement(changed, TRUSTED)


def test_no_bit_of_the_payload_can_change() -> None:
    for changed in flips(ENVELOPE.payload):
        with pytest.raises(EnvelopeSignatureInvalid):
            verify_envelope(replace(ENVELOPE, payload=changed), TRUSTED)


def test_no_bit_of_a_signature_can_change() -> None:
    entry = ENVELOPE.signatures[0]
    for changed in flips(entry.signature):
        altered = replace(ENVELOPE, signatures=(replace(entry, signature=changed),))
        with pytest.raises(EnvelopeSignatureInvalid):
            verify_envelope(altered, TRUSTED)


def entry(**fields: Any) -> dict[str, Any]:
    signature: dict[str, Any] = json.loads(DATA)["signatures"][0]
    return signature | fields


def put(**fields: Any) -> Callable[[Any], Any]:
    return lambda document: document | fields


def drop(field: str) -> Callable[[Any], Any]:
    return lambda document: {key: value for key, value in document.items() if key != field}


def relabel(payload: str) -> str:
    return payload[:40] + ("A" if payload[40] != "A" else "B") + payload[41:]


@pytest.mark.parametrize(
    ("alter", "error"),
    [
        (lambda document: [document], EnvelopeNotObject),
        (lambda document: None, EnvelopeNotObject),
        (drop("payload"), EnvelopeFieldMissing),
        (drop("payloadType"), EnvelopeFieldMissing),
        (drop("signatures"), EnvelopeFieldMissing),
        (put(extra=1), EnvelopeFieldUnknown),
        (put(payload="!"), EnvelopePayloadInvalid),
        (put(payload=7), EnvelopePayloadInvalid),
        (put(payload=encode_base64(b"x" * (MAX_PAYLOAD_BYTES + 1))), EnvelopePayloadInvalid),
        (lambda document: document | {"payload": relabel(document["payload"])}, EnvelopeSignatureInvalid),
        (put(payload=""), EnvelopeSignatureInvalid),
        (put(payloadType="application/json"), EnvelopePayloadTypeUnsupported),
        (put(payloadType=None), EnvelopePayloadTypeUnsupported),
        (put(signatures={}), EnvelopeSignatureListInvalid),
        (put(signatures="text"), EnvelopeSignatureListInvalid),
        (put(signatures=["text"]), EnvelopeSignatureListInvalid),
        (put(signatures=[]), EnvelopeUnsigned),
        (put(signatures=[entry(keyid=f"{n:064x}") for n in range(17)]), EnvelopeTooManySignatures),
        (put(signatures=[drop("keyid")(entry())]), EnvelopeFieldMissing),
        (put(signatures=[drop("sig")(entry())]), EnvelopeFieldMissing),
        (put(signatures=[entry(cert="x")]), EnvelopeFieldUnknown),
        (put(signatures=[entry(keyid="short")]), EnvelopeKeyIdInvalid),
        (put(signatures=[entry(keyid=None)]), EnvelopeKeyIdInvalid),
        (put(signatures=[entry(), entry()]), EnvelopeDuplicateKeyId),
        (put(signatures=[entry(sig="AAAA")]), EnvelopeSignatureEncodingInvalid),
        (put(signatures=[entry(sig=None)]), EnvelopeSignatureEncodingInvalid),
        (put(signatures=[entry(sig="-")]), EnvelopeSignatureEncodingInvalid),
        (put(signatures=[entry(keyid="0" * 64)]), EnvelopeSignerUnknown),
        (put(signatures=[entry(sig=encode_base64(bytes(64)))]), EnvelopeSignatureInvalid),
    ],
)
def test_each_altered_field_has_its_name(alter: Callable[[Any], Any], error: type[VerificationError]) -> None:
    data = dump_canonical(alter(json.loads(DATA)))
    with pytest.raises(error) as caught:
        open_statement(data, TRUSTED)
    assert type(caught.value) is error


def test_other_layouts_of_the_same_envelope_are_refused() -> None:
    for data in (DATA + b"\n", json.dumps(json.loads(DATA)).encode()):
        with pytest.raises(JsonNotCanonical):
            parse_envelope(data)
    with pytest.raises(JsonTooLarge):
        parse_envelope(b" " * (MAX_ENVELOPE_BYTES + 1))


def test_a_stranger_does_not_suffice_and_does_not_disturb() -> None:
    stranger = SigningKey.generate()
    with pytest.raises(EnvelopeSignerUnknown):
        open_statement(sign_statement(sample_statement(), stranger).to_bytes(), TRUSTED)
    open_statement(sign_statement(sample_statement(), stranger, LOG_KEY).to_bytes(), TRUSTED)


def test_a_trusted_keys_id_does_not_make_a_strangers_signature_true() -> None:
    forged = sign_statement(sample_statement(), WITNESS_KEY).signatures[0]
    envelope = replace(ENVELOPE, signatures=(EnvelopeSignature(LOG_KEY.key_id, forged.signature),))
    with pytest.raises(EnvelopeSignatureInvalid):
        verify_envelope(envelope, [LOG_KEY.public, WITNESS_KEY.public])


def test_thresholds() -> None:
    both = [LOG_KEY.public, WITNESS_KEY.public]
    verify_envelope(sign_statement(sample_statement(), LOG_KEY, WITNESS_KEY), both, 2)
    with pytest.raises(EnvelopeThresholdMissed):
        verify_envelope(ENVELOPE, both, 2)
    for keys, threshold in ((both, 0), (both, 3), ([LOG_KEY.public] * 2, 2), ([], 1)):
        with pytest.raises(InputError):
            verify_envelope(ENVELOPE, keys, threshold)


def test_sixteen_signatures_are_read() -> None:
    keys = [SigningKey.generate() for _ in range(16)]
    envelope = sign_statement(sample_statement(), *keys)
    assert parse_envelope(envelope.to_bytes()) == envelope
    verify_envelope(envelope, [key.public for key in keys], 16)


def test_the_payload_is_read_only_after_its_signature() -> None:
    envelope = Envelope(b"not even JSON", ENVELOPE.signatures)
    with pytest.raises(EnvelopeSignatureInvalid):
        open_statement(envelope.to_bytes(), TRUSTED)


def test_a_truly_signed_statement_of_another_kind_is_refused() -> None:
    with pytest.raises(StatementPredicateTypeMismatch):
        open_statement(DATA, TRUSTED, "https://example.org/another")
    payload = ENVELOPE.payload.replace(b"Statement/v1", b"Statement/v2")
    message = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload
    signed = Envelope(payload, (EnvelopeSignature(LOG_KEY.key_id, LOG_KEY.sign(message)),))
    with pytest.raises(StatementTypeUnsupported):
        open_statement(signed.to_bytes(), TRUSTED)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError):
        sign_statement(sample_statement())
    with pytest.raises(InputError):
        sign_statement(sample_statement(), LOG_KEY, LOG_KEY)
    with pytest.raises(InputError):
        sign_statement(sample_statement(), *(SigningKey.generate() for _ in range(17)))
