"""Which key signs, by its URI: a file, a key in a PKCS#11 token, or one that a key service holds.

==========================================  ================================================================
``ward.pem``, ``file:ward.pem``             a private key in a file: :mod:`expunge.ledger.signing`
``hsm:2?label=ward``                        a key in a PKCS#11 token: :mod:`expunge.ledger.pkcs11_signer`
``awskms:alias/ward``                       AWS KMS, ECDSA
``hv:ward/1``                               HashiCorp Vault's transit engine: key and version
``gcpkms:projects/…/cryptoKeyVersions/1``   Google Cloud KMS, ECDSA; untested
``azurekms://ward.vault.azure.net/keys/k``  Azure Key Vault, ECDSA; untested
==========================================  ================================================================

The services are reached through ``securesystemslib.signer`` with the credentials that each of their libraries finds.
The public key is asked for once, when the signer is opened, and every signature is verified with it before it is used:
a service that has changed the key, or answers with something else, is found at once.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from expunge.errors import ExpungeError, InputError, MissingExtra, StoreError
from expunge.ledger.pkcs11_signer import open_pkcs11_signer
from expunge.ledger.signing import load_signing_key
from expunge.ledger.verifying_key import KeyAlgorithm, Signer, VerifyingKey

__all__ = ["PIN_VARIABLE", "CheckedSigner", "file_of", "open_signer"]

PIN_VARIABLE = "EXPUNGE_PIN"
_EXTRAS = {"awskms": "aws", "hv": "vault"}
_SCHEMES = ("file", "hsm", "awskms", "hv", "gcpkms", "azurekms")


class _Signature(Protocol):
    signature: str


class _ServiceSigner(Protocol):
    """What we use of ``securesystemslib.signer.Signer``."""

    def sign(self, payload: bytes) -> _Signature: ...


@dataclass(frozen=True, slots=True)
class CheckedSigner:
    """A key that a service holds. A signature that its public key does not verify is not handed on."""

    public: VerifyingKey
    uri: str
    service: Callable[[bytes], bytes] = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """Return the service's signature over ``message``."""
        with _Answering(self.uri):
            signature = self.service(message)
        if not self.public.verifies(signature, message):
            raise StoreError(
                f"{self.uri} answered with a signature that the public key {self.public.key_id} does not verify: "
                "was its key replaced?",
                code="signer-failed",
            )
        return signature


def file_of(uri: str) -> Path | None:
    """The file of the private key that a URI names; None where it names no file.

    Whatever begins with none of the known schemes is the path of a file.
    """
    scheme, separator, rest = uri.partition(":")
    if separator and scheme in _SCHEMES:
        return Path(rest) if scheme == "file" else None
    return Path(uri)


def open_signer(uri: str, passphrase: str | None = None) -> Signer:
    """Open the signer of a URI; ask a token or service for the public key.

    Parameters
    ----------
    uri
        See the module's docstring.
    passphrase
        Opens an encrypted key file.

    Raises
    ------
    InputError
        The URI is malformed, or its key is neither an Ed25519 nor a P-256 key.
    StoreError
        There is no such key, or token or service did not answer (``signer-failed``).
    MissingExtra
        The library of the token or service is not installed.

    """
    path = file_of(uri)
    if path is not None:
        return load_signing_key(path, passphrase)
    scheme, _, rest = uri.partition(":")
    if scheme == "hsm":
        return _open_hsm(uri)
    with _Answering(uri):
        public, service = _SERVICES[scheme](rest)
    return CheckedSigner(public, uri, lambda message: bytes.fromhex(service.sign(message).signature))


def _open_hsm(uri: str) -> Signer:
    parts = urlsplit(uri)
    if not parts.path.isdecimal():
        raise InputError(f"{uri} names no key: hsm:NUMBER?label=TOKEN, where NUMBER is the key's id in the token")
    pin = os.environ.get(PIN_VARIABLE)
    if not pin:
        raise InputError(f"${PIN_VARIABLE} has the PIN of the token; set it", code="signing-key-locked")
    signer = open_pkcs11_signer(int(parts.path), dict(parse_qsl(parts.query)).get("label"), pin)
    return CheckedSigner(signer.public, uri, signer.sign)


def _open_aws(rest: str) -> tuple[VerifyingKey, _ServiceSigner]:
    from securesystemslib.signer._aws_signer import AWSSigner

    _, key = AWSSigner.import_(rest, "ecdsa-sha2-nistp256")
    return VerifyingKey.from_pem(key.keyval["public"].encode()), AWSSigner(rest, key)


def _open_vault(rest: str) -> tuple[VerifyingKey, _ServiceSigner]:
    import hvac
    from securesystemslib.signer._key import SSlibKey
    from securesystemslib.signer._vault_signer import VaultSigner

    name, _, version = rest.partition("/")
    if not name or not version.isdecimal():
        raise InputError(f"hv:{rest} is not hv:NAME/VERSION: a key that is rotated in Vault keeps its versions")
    # The library reads the newest version, and no other.
    versions = hvac.Client().secrets.transit.read_key(name)["data"]["keys"]
    if version not in versions:
        raise StoreError(f"Vault has no version {version} of the key {name}", code="signing-key-missing")
    text: str = versions[version]["public_key"]
    if text.startswith("-----BEGIN"):
        public = VerifyingKey.from_pem(text.encode())
    else:
        public = VerifyingKey(base64.b64decode(text))
    kind = ("ed25519", "ed25519") if public.algorithm is KeyAlgorithm.ED25519 else ("ecdsa", "ecdsa-sha2-nistp256")
    return public, VaultSigner(name, SSlibKey(public.key_id, *kind, {"public": text}), int(version))


def _open_gcp(rest: str) -> tuple[VerifyingKey, _ServiceSigner]:
    from securesystemslib.signer._gcp_signer import GCPSigner

    _, key = GCPSigner.import_(rest)
    return VerifyingKey.from_pem(key.keyval["public"].encode()), GCPSigner(rest, key)


def _open_azure(rest: str) -> tuple[VerifyingKey, _ServiceSigner]:
    from securesystemslib.signer._azure_signer import AzureSigner

    parts = urlsplit(rest)
    vault, name = parts.netloc.partition(".")[0], parts.path.removeprefix("/keys/").partition("/")[0]
    uri, key = AzureSigner.import_(vault, name)
    return VerifyingKey.from_pem(key.keyval["public"].encode()), AzureSigner(uri.partition(":")[2], key)


_SERVICES: dict[str, Callable[[str], tuple[VerifyingKey, _ServiceSigner]]] = {
    "awskms": _open_aws,
    "hv": _open_vault,
    "gcpkms": _open_gcp,
    "azurekms": _open_azure,
}


class _Answering:
    """Turns whatever a service's library raises into an error of ours; the libraries have no root in common."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> None:
        if problem is None or isinstance(problem, ExpungeError) or not isinstance(problem, Exception):
            return
        from securesystemslib.exceptions import UnsupportedLibraryError

        scheme = self._uri.partition(":")[0]
        if isinstance(problem, ImportError | UnsupportedLibraryError):
            extra = f"'expunge[{_EXTRAS[scheme]}]'" if scheme in _EXTRAS else f"'securesystemslib[{scheme}]'"
            raise MissingExtra(f"a key at {scheme}: needs a library that is not there: pip install {extra}") from None
        raise StoreError(f"{self._uri} did not answer: {problem}", code="signer-failed") from None
