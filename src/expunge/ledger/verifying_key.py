"""Public keys: Ed25519, and ECDSA over P-256 for receipts that a hardware module or a key service signs.

Format: ``docs/formats/signing-key.md``. An Ed25519 signature is 64 bytes (RFC 8032). An ECDSA signature is over SHA-256
and in DER (RFC 3279 §2.2.3); another spelling of the same two numbers does not verify.
"""

from __future__ import annotations

import base64
import enum
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from expunge.errors import InputError
from expunge.ledger.ed25519_point import check_point

__all__ = ["PUBLIC_KEY_SIZE", "SIGNATURE_SIZE", "KeyAlgorithm", "Signer", "VerifyingKey"]

PUBLIC_KEY_SIZE = 32
SIGNATURE_SIZE = 64


class KeyAlgorithm(enum.Enum):
    """What a key signs with."""

    ED25519 = "ed25519"
    ECDSA_P256 = "ecdsa-p256"


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key.

    ``raw`` is its 32 bytes by RFC 8032, or for P-256 the 65 bytes of the uncompressed point (SEC 1 §2.3.3).
    """

    raw: bytes
    algorithm: KeyAlgorithm = KeyAlgorithm.ED25519

    def __post_init__(self) -> None:
        if self.algorithm is KeyAlgorithm.ED25519:
            if len(self.raw) != PUBLIC_KEY_SIZE:
                raise InputError(f"an Ed25519 public key has {PUBLIC_KEY_SIZE} bytes, not {len(self.raw)}")
            check_point(self.raw)
            return
        try:
            point = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), self.raw)
        except ValueError:
            raise InputError(
                f"{self.raw.hex()[:140]} is not a point of P-256", code="signing-key-not-a-point"
            ) from None
        object.__setattr__(self, "raw", point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    @property
    def digest(self) -> str:
        """SHA-256 of the key as SSH writes it, in hexadecimal: the key's id in events of the ledger."""
        return _digest(self)

    @property
    def key_id(self) -> str:
        """The key's fingerprint as OpenSSH has it: ``SHA256:`` and the digest in base64 without padding."""
        return "SHA256:" + base64.b64encode(bytes.fromhex(self.digest)).decode("ascii").rstrip("=")

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Say whether this key's private half made ``signature`` over ``message``."""
        key = self._loaded()
        try:
            if isinstance(key, Ed25519PublicKey):
                key.verify(signature, message)
            else:
                if encode_dss_signature(*decode_dss_signature(signature)) != signature:
                    return False
                key.verify(signature, message, ECDSA(SHA256()))
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_pem(self) -> bytes:
        """Return the PEM SubjectPublicKeyInfo."""
        return self._loaded().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @classmethod
    def from_pem(cls, pem: bytes) -> VerifyingKey:
        """Read a PEM SubjectPublicKeyInfo."""
        try:
            loaded = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise InputError("not a PEM public key", code="signing-key-malformed") from None
        if isinstance(loaded, Ed25519PublicKey):
            return cls(loaded.public_bytes_raw())
        if isinstance(loaded, EllipticCurvePublicKey) and isinstance(loaded.curve, SECP256R1):
            raw = loaded.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
            return cls(raw, KeyAlgorithm.ECDSA_P256)
        raise InputError("the public key is neither an Ed25519 nor a P-256 key", code="signing-key-wrong-type")

    def _loaded(self) -> Ed25519PublicKey | EllipticCurvePublicKey:
        if self.algorithm is KeyAlgorithm.ED25519:
            return Ed25519PublicKey.from_public_bytes(self.raw)
        return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), self.raw)


@lru_cache(maxsize=64)
def _digest(key: VerifyingKey) -> str:
    """See `VerifyingKey.digest`: every signature states it, and a store signs with few keys."""
    text = key._loaded().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return hashlib.sha256(base64.b64decode(text.split()[1])).hexdigest()


class Signer(Protocol):
    """Something that signs with one private key: a :class:`~expunge.ledger.signing.SigningKey`, or a service."""

    @property
    def public(self) -> VerifyingKey:
        """The public half."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the signature over ``message``, in the form that :meth:`VerifyingKey.verifies` takes."""
        ...
