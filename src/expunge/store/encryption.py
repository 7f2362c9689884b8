"""Content under the secret that dies with it.

SQLite leaves copies of moved cells in unused parts of pages, even with `secure_delete`; PostgreSQL leaves dead rows
and holes. What has to be destroyed is therefore made small and kept apart: an entry's content is stored sealed under
a key derived from the entry's own 32-byte salt, and only the salt has to vanish. This is for erasure, not for
confidentiality: whoever has the whole database has the salts of everything that still exists.

Format: ``docs/formats/store.md``. AES-256-GCM; one secret seals one plaintext, so its nonce is fixed at zero.
Requests are sealed under the caller's idempotency key instead, with a random nonce, because a retried request may
seal twice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from expunge.errors import VerificationError
from expunge.types import Vector

__all__ = ["SECRET_BYTES", "Content", "new_secret", "seal", "seal_content", "subject_tag", "token", "unseal"]
__all__ += ["open_content", "seal_request", "tag_mark", "unseal_request"]

SECRET_BYTES = 32
_ONCE = bytes(12)
_NONCE_BYTES = 12
_TAG_BYTES = 16
_LENGTHS = struct.Struct("<IiIIi")


def new_secret() -> bytes:
    """32 fresh random bytes."""
    return secrets.token_bytes(SECRET_BYTES)


def seal(secret: bytes, purpose: str, plain: bytes) -> bytes:
    """Encrypt under a key derived for this purpose; each secret seals one plaintext a purpose."""
    return AESGCM(_derived(secret, purpose)).encrypt(_ONCE, plain, None)


def unseal(secret: bytes, purpose: str, sealed: bytes) -> bytes:
    """What `seal` was given."""
    try:
        return AESGCM(_derived(secret, purpose)).decrypt(_ONCE, sealed, None)
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


def seal_content(salt: bytes, content: Content) -> bytes:
    """Id, subject, key, value and payload, each behind its length, under the salt; vectors little-endian float64."""
    name, key, value = content.id.encode(), _packed(content.key), _packed(content.value)
    subject = None if content.subject is None else content.subject.encode()
    lengths = _LENGTHS.pack(len(name), _length(subject), len(key), len(value), _length(content.payload))
    plain = b"".join((lengths, name, subject or b"", key, value, content.payload or b""))
    return seal(salt, "entry", plain)


def open_content(salt: bytes, sealed: bytes) -> Content:
    """What `seal_content` was given."""
    plain = unseal(salt, "entry", sealed)
    try:
        lengths = _LENGTHS.unpack_from(plain)
        fields, at = [], _LENGTHS.size
        for length in lengths:
            fields.append(None if length < 0 else plain[at : at + length])
            at += max(length, 0)
        name, subject, key, value, payload = fields
        if at != len(plain) or name is None or key is None or value is None:
            raise ValueError(f"{len(plain)} bytes")
        return Content(
            name.decode(),
            None if subject is None else subject.decode(),
            np.frombuffer(key, dtype="<f8"),
            np.frombuffer(value, dtype="<f8"),
            payload,
        )
    except (ValueError, struct.error) as problem:
        raise VerificationError(f"a stored entry is not well formed ({problem})") from None


def subject_tag(store_secret: bytes, subject: str | None) -> bytes | None:
    """A subject without its name: HMAC-SHA-256 under the store's secret. The secret stays, so no tag is ever stored."""
    if subject is None:
        return None
    return hmac.digest(store_secret, b"expunge/subject/v1\n" + subject.encode(), "sha256")[:16]


def tag_mark(secret: bytes, tag: bytes | None) -> bytes | None:
    """What a row keeps of its subject's tag: HMAC-SHA-256 under the row's own secret, and noise without it."""
    return None if tag is None else hmac.digest(secret, b"expunge/mark/v1\n" + tag, "sha256")[:16]


def token(scope: str, idempotency_key: str) -> bytes:
    """What finds a request by its idempotency key, which is not itself stored."""
    return hashlib.sha256(b"expunge/request/v1\n" + scope.encode() + b"\n" + idempotency_key.encode()).digest()


def seal_request(scope: str, idempotency_key: str, document: dict[str, Any]) -> bytes:
    """A request and its answer, readable only to who repeats the idempotency key."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(_request_key(scope, idempotency_key)).encrypt(nonce, json.dumps(document).encode(), None)


def unseal_request(scope: str, idempotency_key: str, sealed: bytes) -> dict[str, Any]:
    """What `seal_request` was given."""
    try:
        plain = AESGCM(_request_key(scope, idempotency_key)).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
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
