"""Salted commitments to entries, and the digest of a whole state.

A commitment hides an entry behind 32 random bytes that are destroyed with it: afterwards nobody can test a
guess at its content against a receipt. A state digest covers the problem, every entry's commitment in row
order, the coefficients and the offset, bit for bit.
"""

from __future__ import annotations

import hashlib
import secrets
import struct

from expunge.types import AnyArray, Vector

__all__ = ["SALT_BYTES", "commit", "new_salt", "state_digest"]

SALT_BYTES = 32
_ENTRY = b"expunge/entry/v1\n"
_STATE = b"expunge/state/v1\n"


def new_salt() -> bytes:
    """Fresh secret for one entry."""
    return secrets.token_bytes(SALT_BYTES)


def commit(salt: bytes, *fields: bytes) -> bytes:
    """SHA-256 of the salt and the length-prefixed fields (id, subject, key, value, payload)."""
    digest = hashlib.sha256(_ENTRY)
    digest.update(salt)
    for field in fields:
        digest.update(struct.pack("<Q", len(field)))
        digest.update(field)
    return digest.digest()


def state_digest(cap: float, sigma: float, offset: float, commitments: AnyArray, coefficients: Vector) -> str:
    """SHA-256, in hex, of a state; commitments are (n, 32) bytes and coefficients (n,), in row order."""
    digest = hashlib.sha256(_STATE)
    digest.update(struct.pack("<dddQ", cap, sigma, offset, coefficients.size))
    digest.update(commitments.tobytes())
    digest.update(coefficients.astype("<f8", copy=False).tobytes())
    return digest.hexdigest()
