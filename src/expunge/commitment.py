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

__all__ = ["SALT_BYTES", "commit", "new_salts", "state_digest"]

SALT_BYTES = 32
_ENTRY = b"expunge/entry/v1\n"
_STATE = b"expunge/state/v1\n"
_LENGTH = struct.Struct("<Q")


def new_salts(count: int) -> bytes:
    """Fresh secrets, 32 bytes for each entry."""
    return secrets.token_bytes(SALT_BYTES * count)


def commit(salt: bytes, *fields: bytes) -> bytes:
    """SHA-256 of the salt and the length-prefixed fields (id, subject, key, value, payload)."""
    parts = [_ENTRY, salt]
    for field in fields:
        parts += (_LENGTH.pack(len(field)), field)
    return hashlib.sha256(b"".join(parts)).digest()


def state_digest(cap: float, sigma: float, offset: float, commitments: AnyArray, coefficients: Vector) -> str:
    """SHA-256, in hex, of a state; commitments are (n, 32) bytes and coefficients (n,), in row order."""
    digest = hashlib.sha256(_STATE)
    digest.update(struct.pack("<dddQ", cap, sigma, offset, coefficients.size))
    digest.update(commitments.tobytes())
    digest.update(coefficients.astype("<f8", copy=False).tobytes())
    return digest.hexdigest()
