"""DSSE envelopes: whatever is altered, its own error says so."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import dump_canonical, encode_base64
from expunge.ledger.envelope import (
    MAX_ENVELOPE_BYTES,
    Envelope,
    EnvelopeSignature,
    open_statement,
    parse_envelope,
    read_envelope,
    sign_statement,
    verify_envelope,
)
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import MAX_PAYLOAD_BYTES
from raising import raises_code

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
        with raises_code("envelope-signature-invalid"):
            verify_envelope(replace(ENVELOPE, payload=changed), TRUSTED)


def test_no_bit_of_a_signature_can_change() -> None:
    entry = ENVELOPE.signatures[0]
    for changed in flips(entry.signature):
        altered = replace(ENVELOPE, signatures=(replace(entry, signature=changed),))
        with raises_code("envelope-signature-invalid"):
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
        (lambda document: [document], "envelope-not-object"),
        (lambda document: None, "envelope-not-object"),
        (drop("payload"), "envelope-field-missing"),
        (drop("payloadType"), "envelope-field-missing"),
        (drop("signatures"), "envelope-field-missing"),
        (put(extra=1), "envelope-field-unknown"),
        (put(payload="!"), "envelope-payload-invalid"),
        (put(payload=7), "envelope-payload-invalid"),
        (put(payload=encode_base64(b"x" * (MAX_PAYLOAD_BYTES + 1))), "envelope-payload-invalid"),
        (lambda document: document | {"payload": relabel(document["payload"])}, "envelope-signature-invalid"),
        (put(payload=""), "envelope-signature-invalid"),
        (put(payloadType="application/json"), "envelope-payload-type-unsupported"),
        (put(payloadType=None), "envelope-payload-type-unsupported"),
        (put(signatures={}), "envelope-signature-list-invalid"),
        (put(signatures="text"), "envelope-signature-list-invalid"),
        (put(signatures=["text"]), "envelope-signature-list-invalid"),
        (put(signatures=[]), "envelope-unsigned"),
        (put(signatures=[entry(keyid=f"SHA256:{n:043}") for n in range(17)]), "envelope-too-many-signatures"),
        (put(signatures=[drop("keyid")(entry())]), "envelope-field-missing"),
        (put(signatures=[drop("sig")(entry())]), "envelope-field-missing"),
        (put(signatures=[entry(cert="x")]), "envelope-field-unknown"),
        (put(signatures=[entry(keyid="short")]), "envelope-key-id-invalid"),
        (put(signatures=[entry(keyid=None)]), "envelope-key-id-invalid"),
        (put(signatures=[entry(), entry()]), "envelope-duplicate-key-id"),
        (put(signatures=[entry(sig="AAAA")]), "envelope-signature-encoding-invalid"),
        (put(signatures=[entry(sig=None)]), "envelope-signature-encoding-invalid"),
        (put(signatures=[entry(sig="-")]), "envelope-signature-encoding-invalid"),
        (put(signatures=[entry(keyid="SHA256:" + "0" * 43)]), "envelope-signer-unknown"),
        (put(signatures=[entry(sig=encode_base64(bytes(64)))]), "envelope-signature-invalid"),
    ],
)
def test_each_altered_field_has_its_name(alter: Callable[[Any], Any], error: str) -> None:
    data = dump_canonical(alter(json.loads(DATA)))
    with raises_code(error):
        open_statement(data, TRUSTED)


def test_other_layouts_of_the_same_envelope_are_refused() -> None:
    for data in (DATA + b"\n", json.dumps(json.loads(DATA)).encode()):
        with raises_code("json-not-canonical"):
            parse_envelope(data)
    with raises_code("json-too-large"):
        parse_envelope(b" " * (MAX_ENVELOPE_BYTES + 1))


def test_a_stranger_does_not_suffice_and_does_not_disturb() -> None:
    stranger = SigningKey.generate()
    with raises_code("envelope-signer-unknown"):
        open_statement(sign_statement(sample_statement(), stranger).to_bytes(), TRUSTED)
    open_statement(sign_statement(sample_statement(), stranger, LOG_KEY).to_bytes(), TRUSTED)


def test_as_many_as_are_asked_for_suffice_whatever_else_is_there() -> None:
    """DSSE: a false signature does not count, and does no harm where enough others are true."""
    both = [LOG_KEY.public, WITNESS_KEY.public]
    third = SigningKey.generate()
    signed = sign_statement(sample_statement(), third, LOG_KEY, WITNESS_KEY)
    spoilt = replace(signed, signatures=(replace(signed.signatures[0], signature=bytes(64)), *signed.signatures[1:]))
    verify_envelope(spoilt, [*both, third.public], 2)
    with raises_code("envelope-signature-invalid"):
        verify_envelope(spoilt, [*both, third.public], 3)


def anew(**fields: Any) -> dict[str, Any]:
    return {**json.loads(DATA), **fields}


def test_an_envelope_is_read_as_the_specification_has_it() -> None:
    plain = json.loads(DATA)
    url = {"payload": plain["payload"].replace("+", "-").replace("/", "_")}
    mark = entry()["sig"].replace("+", "-").replace("/", "_")
    assert mark != entry()["sig"]
    same = (
        plain,
        dict(reversed(plain.items())),
        anew(**url),
        anew(extra={"any": [1.5, None]}),
        anew(signatures=[entry(cert="x")]),
        anew(signatures=[entry(sig=mark)]),
    )
    for document in same:
        read = read_envelope(json.dumps(document, indent=1).encode())
        verify_envelope(read, TRUSTED)
        assert read.to_bytes() == DATA
        with pytest.raises(VerificationError):
            parse_envelope(json.dumps(document).encode())
    unnamed = (drop("keyid")(entry()), entry(keyid=""), entry(keyid=None), entry(keyid="my key"))
    for signature in unnamed:
        data = json.dumps(anew(signatures=[signature])).encode()
        verify_envelope(read_envelope(data), TRUSTED)
        with raises_code("envelope-signer-unknown"):
            verify_envelope(read_envelope(data), [WITNESS_KEY.public])
    twice = json.dumps(anew(signatures=[unnamed[0], unnamed[0]])).encode()
    with raises_code("envelope-threshold-missed"):
        verify_envelope(read_envelope(twice), [*TRUSTED, WITNESS_KEY.public], 2)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"[]", "envelope-not-object"),
        (b"\xff", "json-not-utf8"),
        (b"{", "json-syntax-invalid"),
        (b"9" * 5000, "envelope-not-object"),
        (b"[" * 100_000, "json-too-deep"),
        (b" " * (MAX_ENVELOPE_BYTES + 1), "json-too-large"),
        (DATA[:-1] + b',"payload":""}', "json-duplicate-key"),
        (json.dumps(drop("payload")(json.loads(DATA))).encode(), "envelope-field-missing"),
        (json.dumps(anew(payload="?")).encode(), "envelope-payload-invalid"),
        (json.dumps(anew(payloadType=1)).encode(), "envelope-payload-type-unsupported"),
        (json.dumps(anew(signatures=[1])).encode(), "envelope-signature-list-invalid"),
        (json.dumps(anew(signatures=1)).encode(), "envelope-signature-list-invalid"),
        (json.dumps(anew(signatures=[{"sig": 1}])).encode(), "envelope-signature-encoding-invalid"),
        (json.dumps(anew(signatures=[{"keyid": 1, "sig": ""}])).encode(), "envelope-key-id-invalid"),
        (json.dumps(anew(signatures=[{}])).encode(), "envelope-field-missing"),
        (json.dumps(anew(signatures=[entry()] * 17)).encode(), "envelope-too-many-signatures"),
    ],
)
def test_what_is_no_envelope_at_all(data: bytes, error: str) -> None:
    with raises_code(error):
        read_envelope(data)


def test_a_trusted_keys_id_does_not_make_a_strangers_signature_true() -> None:
    forged = sign_statement(sample_statement(), WITNESS_KEY).signatures[0]
    envelope = replace(ENVELOPE, signatures=(EnvelopeSignature(LOG_KEY.key_id, forged.signature),))
    with raises_code("envelope-signature-invalid"):
        verify_envelope(envelope, [LOG_KEY.public, WITNESS_KEY.public])


def test_thresholds() -> None:
    both = [LOG_KEY.public, WITNESS_KEY.public]
    verify_envelope(sign_statement(sample_statement(), LOG_KEY, WITNESS_KEY), both, 2)
    with raises_code("envelope-threshold-missed"):
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
    with raises_code("envelope-signature-invalid"):
        open_statement(envelope.to_bytes(), TRUSTED)


def test_a_truly_signed_statement_of_another_kind_is_refused() -> None:
    with raises_code("statement-predicate-type-mismatch"):
        open_statement(DATA, TRUSTED, "https://example.org/another")
    payload = ENVELOPE.payload.replace(b"Statement/v1", b"Statement/v2")
    message = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload
    signed = Envelope(payload, (EnvelopeSignature(LOG_KEY.key_id, LOG_KEY.sign(message)),))
    with raises_code("statement-type-unsupported"):
        open_statement(signed.to_bytes(), TRUSTED)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError):
        sign_statement(sample_statement())
    with pytest.raises(InputError):
        sign_statement(sample_statement(), LOG_KEY, LOG_KEY)
    with pytest.raises(InputError):
        sign_statement(sample_statement(), *(SigningKey.generate() for _ in range(17)))
