"""Keys that this process does not hold: in a token, at AWS (simulated), at Vault (its documented answers)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import boto3
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from moto import mock_aws
from moto.kms.utils import ECDSAPrivateKey

from expunge.errors import InputError, MissingExtra
from expunge.ledger.envelope import open_statement, sign_statement
from expunge.ledger.signer_uri import file_of, open_signer
from expunge.ledger.signing import save_signing_key
from expunge.ledger.verifying_key import KeyAlgorithm, Signer
from raising import raises_code
from softhsm import HEADS, RECEIPTS, make_token

from .make_vectors import LOG_KEY, sample_statement


def check(signer: Signer, algorithm: KeyAlgorithm) -> None:
    assert signer.public.algorithm is algorithm
    data = sign_statement(sample_statement(), signer).to_bytes()
    assert open_statement(data, [signer.public]) == sample_statement()


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "hsm.pem"
    save_signing_key(LOG_KEY, path, "long and random")
    for uri in (str(path), f"file:{path}"):
        assert file_of(uri) == path
        check(open_signer(uri, "long and random"), KeyAlgorithm.ED25519)
    assert file_of("C:key.pem") == Path("C:key.pem")
    assert file_of("hsm:1") is None


def test_keys_in_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_token(tmp_path, monkeypatch)
    check(open_signer(RECEIPTS), KeyAlgorithm.ECDSA_P256)
    check(open_signer(HEADS), KeyAlgorithm.ED25519)
    with raises_code("signing-key-missing"):
        open_signer("hsm:3?label=ward")
    with raises_code("signer-failed"):
        open_signer("hsm:1?label=other")
    for uri in ("hsm:", "hsm:two"):
        with pytest.raises(InputError):
            open_signer(uri)
    monkeypatch.setenv("EXPUNGE_PIN", "4321")
    with raises_code("signer-failed", match="PinIncorrect"):
        open_signer(HEADS)
    monkeypatch.delenv("EXPUNGE_PIN")
    with raises_code("signing-key-locked"):
        open_signer(HEADS)
    monkeypatch.setenv("EXPUNGE_PIN", "1234")
    monkeypatch.delenv("PYKCS11LIB")
    with pytest.raises(InputError, match="PYKCS11LIB"):
        open_signer(HEADS)


@mock_aws
def test_keys_at_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    client = boto3.client("kms")
    made = client.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]["KeyId"]
    client.create_alias(AliasName="alias/ward", TargetKeyId=made)
    signer = open_signer(f"awskms:{made}")
    # The simulation hashes a digest once more, so nothing that it signs is right; AWS signs the digest.
    with raises_code("signer-failed", match="replaced"):
        signer.sign(b"message")

    def sign(self: ECDSAPrivateKey, message: bytes, signing_algorithm: str) -> bytes:
        assert (len(message), signing_algorithm) == (32, "ECDSA_SHA_256")
        made: bytes = self.private_key.sign(message, ECDSA(Prehashed(SHA256())))
        return made

    monkeypatch.setattr(ECDSAPrivateKey, "sign", sign)
    check(signer, KeyAlgorithm.ECDSA_P256)
    assert open_signer("awskms:alias/ward").public == signer.public
    other = client.create_key(KeyUsage="SIGN_VERIFY", KeySpec="RSA_2048")["KeyMetadata"]["KeyId"]
    for key in (other, "alias/none"):
        with raises_code("signer-failed"):
            open_signer(f"awskms:{key}")


class Transit(BaseHTTPRequestHandler):
    """Vault's transit engine, as its API pages have it: GET /v1/transit/keys/NAME, POST /v1/transit/sign/NAME."""

    keys: ClassVar[dict[str, Ed25519PrivateKey | EllipticCurvePrivateKey]] = {}
    sealed: ClassVar[bool] = False

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the base class's word
        """Say nothing."""

    def do_GET(self) -> None:
        if self.sealed or self.headers["X-Vault-Token"] != "s.token" or self.path != "/v1/transit/keys/ward":
            self.answer(503 if self.sealed else 403, {"errors": ["no"]})
            return
        told = {}
        for version, key in self.keys.items():
            text = (
                base64.b64encode(key.public_key().public_bytes_raw()).decode()
                if isinstance(key, Ed25519PrivateKey)
                else key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
            )
            told[version] = {"creation_time": "2026-01-01T00:00:00Z", "name": "x", "public_key": text}
        self.answer(200, {"data": {"name": "ward", "latest_version": len(told), "keys": told, "type": "ed25519"}})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.sealed or self.path != "/v1/transit/sign/ward":
            self.answer(503, {"errors": ["Vault is sealed"]})
            return
        key, message = self.keys[str(asked["key_version"])], base64.b64decode(asked["input"])
        made = key.sign(message) if isinstance(key, Ed25519PrivateKey) else key.sign(message, ECDSA(SHA256()))
        text = f"vault:v{asked['key_version']}:{base64.b64encode(made).decode()}"
        self.answer(200, {"data": {"signature": text, "key_version": asked["key_version"]}})

    def answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Transit]]:
    keys = {"1": Ed25519PrivateKey.generate(), "2": generate_private_key(SECP256R1())}
    kind = type("Served", (Transit,), {"keys": keys})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("VAULT_ADDR", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("VAULT_TOKEN", "s.token")
    yield kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_keys_at_vault(vault: type[Transit]) -> None:
    signer = open_signer("hv:ward/1")
    check(signer, KeyAlgorithm.ED25519)
    check(open_signer("hv:ward/2"), KeyAlgorithm.ECDSA_P256)
    with raises_code("signing-key-missing"):
        open_signer("hv:ward/3")
    for uri in ("hv:ward", "hv:/1", "hv:ward/new"):
        with pytest.raises(InputError):
            open_signer(uri)
    with raises_code("signer-failed"):
        open_signer("hv:other/1")
    vault.keys["1"] = Ed25519PrivateKey.generate()
    with raises_code("signer-failed", match="replaced"):
        signer.sign(b"message")
    vault.sealed = True
    with raises_code("signer-failed"):
        signer.sign(b"message")


@pytest.mark.parametrize(("uri", "module", "extra"), [("awskms:k", "boto3", "aws"), ("hv:ward/1", "hvac", "vault"),
                                                      ("hsm:1", "pkcs11", "hsm")])  # fmt: skip
def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch, uri: str, module: str, extra: str) -> None:
    import securesystemslib.signer._aws_signer as aws

    monkeypatch.setitem(__import__("sys").modules, module, None)
    monkeypatch.setattr(aws, "AWS_IMPORT_ERROR", "not there")
    monkeypatch.setenv("EXPUNGE_PIN", "1")
    with pytest.raises(MissingExtra, match=extra):
        open_signer(uri)
