"""Encryption of content under secrets that are destroyed with it.

SQLite leaves copies of moved cells in unused parts of pages, even with `secure_delete`; PostgreSQL leaves dead rows
and holes. What has to be destroyed is therefore made small and kept apart: an entry's content is encrypted under a
key derived from the entry's own 32-byte salt, and only the salt has to be destroyed. This is for erasure, not for
confidentiality: whoever has the whole database has the salts of everything that still exists.

Format: ``docs/formats/store.md``. AES-256-GCM; one secret encrypts one plaintext, so its nonce is fixed at zero. A
state is encrypted under all secrets of its memory together: destroying any of them destroys every copy of it. It may
change while they stay, so its nonce is derived from the plaintext, and equal states have equal ciphertexts. Requests
are encrypted under the caller's idempotency key instead, with a random nonce, because a retried request may be
encrypted twice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from expunge.errors import VerificationError
from expunge.types import Vector

__all__ = [
    "SECRET_BYTES",
    "Content",
    "decrypt",
    "decrypt_all",
    "decrypt_entries",
    "decrypt_request",
    "decrypt_state",
    "encrypt",
    "encrypt_entries",
    "encrypt_request",
    "encrypt_state",
    "new_secret",
    "request_key_hash",
    "row_mark",
    "subject_tag",
]

SECRET_BYTES = 32
_ZERO_NONCE = bytes(12)
_NONCE_BYTES = 12
_LENGTHS = struct.Struct("<IiIIi")


def new_secret() -> bytes:
    """32 fresh random bytes."""
    return secrets.token_bytes(SECRET_BYTES)


def encrypt(secret: bytes, purpose: str, plain: bytes) -> bytes:
    """Encrypt under a key derived for this purpose; each secret encrypts one plaintext per purpose."""
    return AESGCM(_derived(secret, purpose)).encrypt(_ZERO_NONCE, plain, None)


def decrypt(secret: bytes, purpose: str, encrypted: bytes) -> bytes:
    """What `encrypt` was given."""
    return decrypt_all(purpose, [(secret, encrypted)])[0]


def decrypt_all(purpose: str, rows: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """What `encrypt` was given, for each pair of secret and ciphertext."""
    try:
        return [AESGCM(_derived(secret, purpose)).decrypt(_ZERO_NONCE, encrypted, None) for secret, encrypted in rows]
    except (InvalidTag, ValueError):
        raise VerificationError(f"a stored {purpose} does not open under its secret: it was altered") from None


@dataclass(frozen=True, eq=False)
class Content:
    """Everything about one entry that its deletion erases, besides the salt itself."""

    id: str
    subject: str | None
    key: Vector
    value: Vector
    payload: bytes | None


def encrypt_entries(store_secret: bytes, entries: Iterable[tuple[bytes, Content]]) -> list[tuple[bytes | None, bytes]]:
    """Mark and ciphertext of each entry, given with its salt.

    The plaintext is id, subject, key, value and payload, each behind its length; vectors are little-endian float64.
    """
    rows = []
    for salt, content in entries:
        name, key, value = content.id.encode(), _packed(content.key), _packed(content.value)
        subject = None if content.subject is None else content.subject.encode()
        lengths = _LENGTHS.pack(len(name), _length(subject), len(key), len(value), _length(content.payload))
        plain = b"".join((lengths, name, subject or b"", key, value, content.payload or b""))
        mark = row_mark(salt, subject_tag(store_secret, content.subject))
        rows.append((mark, encrypt(salt, "entry", plain)))
    return rows


def decrypt_entries(rows: Iterable[tuple[bytes, bytes]]) -> list[Content]:
    """The content of each entry, from pairs of salt and ciphertext."""
    contents = []
    for plain in decrypt_all("entry", rows):
        try:
            fields, at = [], _LENGTHS.size
            for length in _LENGTHS.unpack_from(plain):
                fields.append(None if length < 0 else plain[at : at + length])
                at += max(length, 0)
            name, subject, key, value, payload = fields
            if at != len(plain) or name is None or key is None or value is None:
                raise ValueError(f"{len(plain)} bytes")
            vectors = np.frombuffer(key, dtype="<f8"), np.frombuffer(value, dtype="<f8")
            contents.append(Content(name.decode(), None if subject is None else subject.decode(), *vectors, payload))
        except (ValueError, struct.error) as problem:
            raise VerificationError(f"a stored entry is not well formed ({problem})") from None
    return contents


def subject_tag(store_secret: bytes, subject: str | None) -> bytes | None:
    """A subject without its name: HMAC-SHA-256 under the store's secret. The secret stays, so no tag is ever stored."""
    if subject is None:
        return None
    return hmac.digest(store_secret, b"expunge/subject/v1\n" + subject.encode(), "sha256")[:16]


def row_mark(secret: bytes, tag: bytes | None) -> bytes | None:
    """What a row keeps of its subject's tag: HMAC-SHA-256 under the row's own secret, and noise without it."""
    return None if tag is None else hmac.digest(secret, b"expunge/mark/v1\n" + tag, "sha256")[:16]


def encrypt_state(secrets_: bytes, plain: bytes) -> bytes:
    """A memory's state, under the secrets of all its entries and records together, 32 bytes each in any order."""
    key = _state_key(secrets_)
    nonce = hmac.digest(key, b"expunge/nonce/v1\n" + plain, "sha256")[:_NONCE_BYTES]
    return nonce + AESGCM(key).encrypt(nonce, plain, None)


def decrypt_state(secrets_: bytes, encrypted: bytes) -> bytes:
    """What `encrypt_state` was given."""
    try:
        return AESGCM(_state_key(secrets_)).decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], None)
    except (InvalidTag, ValueError):
        raise VerificationError("a stored state does not open under its secrets: it or they were altered") from None


def _state_key(secrets_: bytes) -> bytes:
    together = np.sort(np.frombuffer(secrets_, dtype=f"S{SECRET_BYTES}")).tobytes()
    return _derived(hashlib.sha256(together).digest(), "state")


def request_key_hash(scope: str, idempotency_key: str) -> bytes:
    """What a stored request is found by: a hash of its idempotency key, which is not itself stored."""
    return hashlib.sha256(b"expunge/request/v1\n" + scope.encode() + b"\n" + idempotency_key.encode()).digest()


def encrypt_request(scope: str, idempotency_key: str, document: dict[str, Any]) -> bytes:
    """A request and its answer, readable only to who repeats the idempotency key."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(_request_key(scope, idempotency_key)).encrypt(nonce, json.dumps(document).encode(), None)


def decrypt_request(scope: str, idempotency_key: str, encrypted: bytes) -> dict[str, Any]:
    """What `encrypt_request` was given."""
    try:
        plain = AESGCM(_request_key(scope, idempotency_key)).decrypt(
            encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], None
        )
        document: dict[str, Any] = json.loads(plain)
    except (InvalidTag, ValueError):
        raise VerificationError("a stored request does not open under its key: it was altered") from None
    return document


def _request_key(scope: str, idempotency_key: str) -> bytes:
    return _derived(idempotency_key.encode(), "request\n" + scope)


def _derived(secret: bytes, purpose: str) -> bytes:
    return hmac.digest(secret, b"expunge/seal/v1\n" + purpose.encode(), "sha256")


def _packed(vector: Vector) -> bytes:
    return vector.astype("<f8", copy=False).tobytes()


def _length(part: bytes | None) -> int:
    return -1 if part is None else len(part)
