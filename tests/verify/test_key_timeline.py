"""Keys come and go by events of the ledger, and no event may leave it without one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from expunge.ledger.encoding import Json, encode_base64
from expunge.ledger.event import Event, KeyUse, Kind, parse_event
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import Subject
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey
from expunge.verify.key_timeline import KeyTimeline
from raising import raises_code

FIRST, SECOND, THIRD = (SigningKey.generate().public for _ in range(3))
POINT = VerifyingKey(
    generate_private_key(SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
    KeyAlgorithm.ECDSA_P256,
)


def event(kind: Kind, subject: str, **facts: Json) -> Event:
    made = Event.at(lambda: datetime(2026, 1, 1, tzinfo=UTC), kind, None, Subject("key", subject), None, **facts)
    return parse_event(made.to_statement())


def added(of: VerifyingKey, use: KeyUse, subject: str | None = None, **changed: Json) -> Event:
    facts: dict[str, Json] = {"keyid": of.digest, "key": encode_base64(of.raw), "algorithm": of.algorithm.value}
    return event("key_added", subject or of.digest, **{**facts, "use": use, **changed})


def revoked(key: VerifyingKey, use: KeyUse, subject: str | None = None) -> Event:
    return event("key_revoked", subject or key.digest, keyid=key.digest, use=use, reason="rotated")


def test_a_key_is_replaced_by_another() -> None:
    timeline = KeyTimeline.of([FIRST], [FIRST])
    timeline.follow(3, added(SECOND, "receipts"))
    assert timeline.keys("receipts") == [FIRST, SECOND]
    assert timeline.keys("heads") == [FIRST]
    timeline.follow(4, revoked(FIRST, "receipts"))
    timeline.follow(5, added(POINT, "receipts"))
    timeline.follow(6, added(THIRD, "heads"))
    timeline.follow(7, revoked(FIRST, "heads"))
    assert (timeline.keys("receipts"), timeline.keys("heads")) == ([SECOND, POINT], [THIRD])
    assert set(timeline.keys("receipts", ever=True)) == {FIRST, SECOND, POINT}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (added(FIRST, "receipts"), "ledger-key-repeated"),
        (added(THIRD, "receipts"), "ledger-key-repeated"),
        (revoked(THIRD, "receipts"), "ledger-key-unknown"),
        (revoked(SECOND, "heads"), "ledger-key-unknown"),
        (revoked(FIRST, "heads"), "ledger-key-last"),
        (revoked(SECOND, "receipts", FIRST.digest), "ledger-key-malformed"),
        (added(POINT, "heads"), "ledger-key-malformed"),
        (added(POINT, "receipts", FIRST.digest), "ledger-key-malformed"),
        (added(POINT, "receipts", keyid=FIRST.digest), "ledger-key-malformed"),
        (added(POINT, "receipts", algorithm="ed25519"), "ledger-key-malformed"),
        (added(POINT, "receipts", key=encode_base64(bytes(65))), "ledger-key-malformed"),
        (added(POINT, "receipts", algorithm="ed25519", key=encode_base64(bytes(32))), "ledger-key-malformed"),
    ],
)
def test_an_event_that_cannot_be(wrong: Event, code: str) -> None:
    timeline = KeyTimeline.of([FIRST, THIRD], [FIRST])
    timeline.follow(0, revoked(THIRD, "receipts"))
    timeline.follow(1, added(SECOND, "receipts"))
    with raises_code(code):
        timeline.follow(2, wrong)
    assert timeline.keys("receipts") == [FIRST, SECOND]
