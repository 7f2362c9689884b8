"""ML-DSA-44 keys (FIPS 204), with which witnesses of new deployments cosign (c2sp.org/tlog-cosignature).

The implementation is that of ``cryptography``, from 47 on; with an older one MissingExtra says so. A private key is
PEM PKCS #8, as OpenSSL 3.5 writes it (``openssl genpkey -algorithm ML-DSA-44``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from expunge.errors import InputError, MissingExtra
from expunge.ledger.signing import SigningKey, read_key_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey, MLDSA44PublicKey

__all__ = ["PUBLIC_KEY_SIZE", "SIGNATURE_SIZE", "MldsaSigningKey", "MldsaVerifyingKey", "load_witness_key"]

PUBLIC_KEY_SIZE = 1312
SIGNATURE_SIZE = 2420


@dataclass(frozen=True, slots=True)
class MldsaVerifyingKey:
    """The public half of an ML-DSA-44 key: ``raw`` is its 1,312 bytes by FIPS 204."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != PUBLIC_KEY_SIZE:
            raise InputError(f"an ML-DSA-44 public key has {PUBLIC_KEY_SIZE} bytes, not {len(self.raw)}")

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Say whether this key's private half made ``signature`` over ``message``, with the empty context."""
        try:
            self._loaded().verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def _loaded(self) -> MLDSA44PublicKey:
        try:
            found: MLDSA44PublicKey = _implementation().MLDSA44PublicKey.from_public_bytes(self.raw)
        except UnsupportedAlgorithm:
            raise _missing() from None
        return found


@dataclass(frozen=True, slots=True, eq=False)
class MldsaSigningKey:
    """An ML-DSA-44 private key. Its ``repr`` shows the public half only."""

    private: MLDSA44PrivateKey = field(repr=False)
    public: MldsaVerifyingKey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "public", MldsaVerifyingKey(self.private.public_key().public_bytes_raw()))

    @classmethod
    def generate(cls) -> MldsaSigningKey:
        """Make a new key from the system's randomness."""
        try:
            return cls(_implementation().MLDSA44PrivateKey.generate())
        except UnsupportedAlgorithm:
            raise _missing() from None

    @classmethod
    def from_seed(cls, seed: bytes) -> MldsaSigningKey:
        """Rebuild the key of a 32-byte seed."""
        try:
            return cls(_implementation().MLDSA44PrivateKey.from_seed_bytes(seed))
        except UnsupportedAlgorithm:
            raise _missing() from None
        except ValueError:
            raise InputError(f"an ML-DSA-44 seed has 32 bytes, not {len(seed)}") from None

    def sign(self, message: bytes) -> bytes:
        """Return the 2,420-byte signature over ``message``, with the empty context."""
        return self.private.sign(message)

    def to_pem(self, passphrase: str | None = None) -> bytes:
        """Return PEM PKCS #8, encrypted when there is a passphrase."""
        encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def load_witness_key(path: str | os.PathLike[str], passphrase: str | None = None) -> SigningKey | MldsaSigningKey:
    """Read a witness's private key, Ed25519 or ML-DSA-44, from a file that nobody else can touch."""
    pem = read_key_file(Path(path), private=True)
    try:
        return SigningKey.from_pem(pem, passphrase)
    except InputError as problem:
        if problem.code != "signing-key-wrong-type":
            raise
    loaded = load_pem_private_key(pem, None if passphrase is None else passphrase.encode("utf-8", "surrogatepass"))
    if not isinstance(loaded, _implementation().MLDSA44PrivateKey):
        raise InputError(
            f"{path} is neither an Ed25519 nor an ML-DSA-44 key; a witness has one of them",
            code="signing-key-wrong-type",
        )
    return MldsaSigningKey(loaded)


def _implementation() -> Any:
    try:
        return import_module("cryptography.hazmat.primitives.asymmetric.mldsa")
    except ImportError:
        raise _missing() from None


def _missing() -> MissingExtra:
    return MissingExtra("ML-DSA-44 needs a newer library: pip install 'cryptography>=48'")
