"""The browser's verifier and the package's agree on public keys and on ECDSA."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Page

from expunge.ledger.note import NoteKey
from expunge.ledger.signing import SigningKey
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey
from ledger.make_vectors import FOLDER

VECTORS: dict[str, Any] = json.loads((FOLDER / "public-keys.json").read_text())
MESSAGE = json.loads((FOLDER / "envelope.json").read_text())["pre_authentication_encoding"]
KEYS = """async (texts) => {
  const { parseTrust } = await import("/page/verify/signing.js");
  const told = [];
  for (const text of texts) {
    try { told.push((await parseTrust(text)).map((key) => key.keyId)); } catch (error) { told.push(error.name); }
  }
  return told;
}"""
SIGNATURES = """async ({ trust, signatures, message }) => {
  const { parseTrust, verifies } = await import("/page/verify/signing.js");
  const [key] = await parseTrust(trust);
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const over = new TextEncoder().encode(message);
  return Promise.all(signatures.map((signature) => verifies(key, bytes(signature), over)));
}"""
SPKI = bytes.fromhex("302a300506032b6570032100")
P256_SPKI = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")


def pem(der: bytes) -> str:
    return f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"


def test_keys_are_refused_by_the_same_name_and_called_by_the_same_id(page: Page) -> None:
    weak = {pem(SPKI + bytes.fromhex(text)): code for text, code in VECTORS["refused"].items()}
    assert page.evaluate(KEYS, list(weak)) == list(weak.values())
    one, other = SigningKey.generate().public, SigningKey.generate().public
    point = generate_private_key(SECP256R1()).public_key()
    raw = point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    third = VerifyingKey(raw, KeyAlgorithm.ECDSA_P256)
    named = NoteKey("log.example", other).to_text()
    texts = [one.to_pem().decode(), third.to_pem().decode(), f"{third.to_pem().decode()}\n{named}\n"]
    assert page.evaluate(KEYS, texts) == [[one.key_id], [third.key_id], [third.key_id, other.key_id]]
    off = [raw[:-1] + bytes([raw[-1] ^ 1]), b"\2" + raw[1:]]
    assert page.evaluate(KEYS, [pem(P256_SPKI + point) for point in off]) == ["signing-key-not-a-point"] * 2
    foreign = generate_private_key(SECP256R1()).private_numbers().private_value.to_bytes(32, "big")
    assert page.evaluate(KEYS, [pem(foreign)]) == ["signing-key-wrong-type"]


def test_ecdsa_signatures_in_der(page: Page) -> None:
    sample = VECTORS["ecdsa"]
    good = base64.b64decode(sample["signature"])
    r, s = decode_dss_signature(good)
    cases = [
        good,
        good + b"\0",
        good[:-1],
        b"",
        bytes(8),
        b"\x30\x81" + good[1:],
        encode_dss_signature(s, r),
        r.to_bytes(32, "big") + s.to_bytes(32, "big"),
        encode_dss_signature(r, 0),
        encode_dss_signature(0, 0),
    ]
    cases += [good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :] for at in range(len(good)) for bit in (1, 128)]
    key = VerifyingKey.from_pem(sample["public_pem"].encode())
    expected = [key.verifies(case, MESSAGE.encode()) for case in cases]
    arguments = {"trust": sample["public_pem"], "message": MESSAGE}
    found = page.evaluate(SIGNATURES, {**arguments, "signatures": [base64.b64encode(case).decode() for case in cases]})
    assert found == expected
    assert found.count(True) == 1


def test_short_numbers(page: Page) -> None:
    """One signature in 128 has a number of fewer bytes, one in two a leading zero."""
    private = generate_private_key(SECP256R1())
    signatures = [private.sign(b"m", ECDSA(SHA256())) for _ in range(300)]
    assert len({len(signature) for signature in signatures}) > 2
    trust = pem(private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    made = [base64.b64encode(signature).decode() for signature in signatures]
    assert all(page.evaluate(SIGNATURES, {"trust": trust, "signatures": made, "message": "m"}))
