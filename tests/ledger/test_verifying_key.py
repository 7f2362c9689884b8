"""Public keys: which are taken, what they are called, and what verifies under them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from expunge.errors import InputError
from expunge.ledger.ed25519_point import check_point
from expunge.ledger.encoding import encode_base64
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import SigningKey
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey
from raising import raises_code

from .edwards import small_order
from .make_vectors import FOLDER

VECTORS: dict[str, Any] = json.loads((FOLDER / "public-keys.json").read_text())
MESSAGE: bytes = json.loads((FOLDER / "envelope.json").read_text())["pre_authentication_encoding"].encode()
SPKI = bytes.fromhex("302a300506032b6570032100")


def pem(raw: bytes) -> bytes:
    return b"-----BEGIN PUBLIC KEY-----\n%b\n-----END PUBLIC KEY-----\n" % base64.b64encode(SPKI + raw)


@pytest.mark.parametrize(("text", "code"), VECTORS["refused"].items())
def test_a_key_that_proves_nothing_is_refused_wherever_it_is_read(text: str, code: str) -> None:
    raw = bytes.fromhex(text)
    for read in (
        VerifyingKey,
        lambda raw: VerifyingKey.from_pem(pem(raw)),
        lambda raw: NoteKey.from_text(f"w.example+00000000+{encode_base64(bytes([4]) + raw)}"),
    ):
        with raises_code(code):
            read(raw)


def test_all_eight_points_of_small_order_are_among_them() -> None:
    assert len(set(small_order())) == 8
    assert sum(code == "signing-key-small-order" for code in VECTORS["refused"].values()) == 8 + 2
    assert sum(code == "signing-key-not-canonical" for code in VECTORS["refused"].values()) == 2 * 19


@settings(max_examples=50)
@given(st.binary(min_size=32, max_size=32))
def test_no_real_key_is_refused(seed: bytes) -> None:
    check_point(SigningKey.from_seed(seed).public.raw)


def test_ecdsa_by_openssl() -> None:
    sample = VECTORS["ecdsa"]
    key = VerifyingKey.from_pem(sample["public_pem"].encode())
    assert key.algorithm is KeyAlgorithm.ECDSA_P256
    assert key.key_id == sample["key_id"]
    assert key.to_pem().decode() == sample["public_pem"]
    signature = base64.b64decode(sample["signature"])
    assert key.verifies(signature, MESSAGE)
    assert not key.verifies(signature, MESSAGE + b".")
    r, s = decode_dss_signature(signature)
    for other in (
        r.to_bytes(32, "big") + s.to_bytes(32, "big"),
        signature + b"\0",
        b"\x30\x81" + signature[1:],
        signature[:-1],
        b"",
        b"\x30\x06\x02\x01\x00\x02\x01\x00",
    ):
        assert not key.verifies(other, MESSAGE)


def test_p256_keys() -> None:
    private = generate_private_key(SECP256R1())
    raw = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    short = private.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    key = VerifyingKey(raw, KeyAlgorithm.ECDSA_P256)
    assert VerifyingKey(short, KeyAlgorithm.ECDSA_P256) == key
    assert key.verifies(private.sign(b"m", ECDSA(SHA256())), b"m")
    for wrong in (raw[:-1], b"", raw[:-1] + bytes([raw[-1] ^ 1]), b"\0"):
        with raises_code("signing-key-not-a-point"):
            VerifyingKey(wrong, KeyAlgorithm.ECDSA_P256)
    with raises_code("signing-key-wrong-type", match="Ed25519"):
        NoteKey("log.example", key)
    with pytest.raises(InputError):
        VerifyingKey(raw)
