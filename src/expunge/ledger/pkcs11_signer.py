"""A key in a PKCS#11 token: Ed25519, or ECDSA over P-256. It never leaves the token.

``securesystemslib`` has a signer for ECDSA keys in a token and none for Ed25519, which heads need; this one has both,
with CKM_ECDSA over SHA-256 and CKM_EDDSA (PKCS#11 3.0, §2.3.14). ``$PYKCS11LIB`` names the library of the token.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from expunge.errors import InputError, MissingExtra, StoreError
from expunge.ledger.verifying_key import PUBLIC_KEY_SIZE, KeyAlgorithm, VerifyingKey

if TYPE_CHECKING:
    import pkcs11

__all__ = ["Pkcs11Signer", "open_pkcs11_signer"]

LIBRARY_VARIABLE = "PYKCS11LIB"
# A token logs in an application, not a session: two threads that log in at once are in each other's way.
_TURN = threading.Lock()
_P256_POINT = 65


@dataclass(frozen=True, slots=True)
class Pkcs11Signer:
    """One private key in a token, by its id and the token's label."""

    public: VerifyingKey
    key_id: int
    label: str | None
    pin: str = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """Return the token's signature over ``message``."""
        with _session(self.label, self.pin) as session:
            return _sign(session, self.public.algorithm, self.key_id, message)


def open_pkcs11_signer(key_id: int, label: str | None, pin: str) -> Pkcs11Signer:
    """Find a key in a token.

    Parameters
    ----------
    key_id
        CKA_ID of both halves, as a number.
    label
        The token's label; None where there is one token only.
    pin
        The user PIN.

    """
    with _session(label, pin) as session:
        return Pkcs11Signer(_public_key(session, key_id), key_id, label, pin)


@contextmanager
def _session(label: str | None, pin: str) -> Iterator[pkcs11.Session]:
    try:
        import pkcs11
    except ImportError:
        raise MissingExtra("a key in a PKCS#11 token needs python-pkcs11: pip install 'expunge[hsm]'") from None
    path = os.environ.get(LIBRARY_VARIABLE)
    if not path:
        raise InputError(
            f"${LIBRARY_VARIABLE} names the token's PKCS#11 library, as in /usr/lib/softhsm/libsofthsm2.so; set it"
        )
    with _TURN:
        try:
            token = pkcs11.lib(path).get_token(token_label=label, token_flags=pkcs11.TokenFlag.TOKEN_INITIALIZED)
            with token.open(user_pin=pin) as session:
                yield session
        except (pkcs11.PKCS11Error, RuntimeError, OSError) as problem:
            what = str(problem) or type(problem).__name__
            raise StoreError(f"the PKCS#11 token {label or ''} did not answer: {what}", code="signer-failed") from None


def _public_key(session: pkcs11.Session, key_id: int) -> VerifyingKey:
    import pkcs11

    for kind, algorithm in (
        (pkcs11.KeyType.EC_EDWARDS, KeyAlgorithm.ED25519),
        (pkcs11.KeyType.EC, KeyAlgorithm.ECDSA_P256),
    ):
        for key in session.get_objects(
            {
                pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PUBLIC_KEY,
                pkcs11.Attribute.KEY_TYPE: kind,
                pkcs11.Attribute.ID: _id(key_id),
            }
        ):
            point = bytes(key[pkcs11.Attribute.EC_POINT])
            # CKA_EC_POINT is the DER of an octet string; of short length, as these are.
            size = PUBLIC_KEY_SIZE if algorithm is KeyAlgorithm.ED25519 else _P256_POINT
            if point[:2] != bytes([4, size]) or len(point) != size + 2:
                raise InputError(
                    f"key {key_id} in the token is neither an Ed25519 nor a P-256 key", code="signing-key-wrong-type"
                )
            return VerifyingKey(point[2:], algorithm)
    raise StoreError(f"the token has no Ed25519 or P-256 key with the id {key_id}", code="signing-key-missing")


def _sign(session: pkcs11.Session, algorithm: KeyAlgorithm, key_id: int, message: bytes) -> bytes:
    import pkcs11

    edwards = algorithm is KeyAlgorithm.ED25519
    kind = pkcs11.KeyType.EC_EDWARDS if edwards else pkcs11.KeyType.EC
    key = session.get_key(pkcs11.ObjectClass.PRIVATE_KEY, kind, id=_id(key_id))
    if not isinstance(key, pkcs11.SignMixin):
        raise StoreError(f"key {key_id} in the token does not sign", code="signer-failed")
    if edwards:
        return bytes(key.sign(message, mechanism=pkcs11.Mechanism.EDDSA))
    both = bytes(key.sign(hashlib.sha256(message).digest(), mechanism=pkcs11.Mechanism.ECDSA))
    return encode_dss_signature(int.from_bytes(both[:32], "big"), int.from_bytes(both[32:], "big"))


def _id(number: int) -> bytes:
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")
