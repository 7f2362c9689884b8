"""Salted commitments: how a receipt names an entry without holding any of it.

Format: ``docs/formats/commitment.md``. The commitment is SHA-256 over a preimage that has one parse only: a
fixed domain line, the 32-byte salt, the number of fields, then each field behind its length. While the salt
exists, its holder can show which entry a receipt spoke of. Once it is destroyed, nobody can confirm even a
correct guess of the content: that takes guessing 256 random bits.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from expunge.errors import InputError
from expunge.ledger.encoding import is_sha256_hex
from expunge.ledger.errors import CommitmentMalformed, CommitmentMismatch

__all__ = ["SALT_SIZE", "commit", "new_salt", "verify_commitment"]

SALT_SIZE = 32
_DOMAIN = b"expunge/commitment/v1\n"


def new_salt() -> bytes:
    """Return 32 fresh random bytes; one salt an entry, never reused."""
    return secrets.token_bytes(SALT_SIZE)


def commit(salt: bytes, entry_id: str, key: bytes, value: bytes, payload: bytes | None = None) -> str:
    """Return the commitment to one entry in lowercase hexadecimal.

    ``key`` and ``value`` are the vectors as little-endian float64; ``payload`` is the stored original,
    where None (there is none) and empty bytes are different things.
    """
    if len(salt) != SALT_SIZE:
        raise InputError(f"a salt has {SALT_SIZE} bytes, not {len(salt)}")
    try:
        name = entry_id.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("an entry's id is not Unicode text") from None
    fields = (name, key, value) if payload is None else (name, key, value, payload)
    digest = hashlib.sha256(_DOMAIN + salt + bytes([len(fields)]))
    for field in fields:
        digest.update(len(field).to_bytes(8, "big"))
        digest.update(field)
    return digest.hexdigest()


def verify_commitment(
    commitment: str, salt: bytes, entry_id: str, key: bytes, value: bytes, payload: bytes | None = None
) -> None:
    """Check that ``commitment`` is to this entry under this salt."""
    if not is_sha256_hex(commitment):
        raise CommitmentMalformed("a commitment is 64 lowercase hexadecimal digits")
    if not hmac.compare_digest(commitment, commit(salt, entry_id, key, value, payload)):
        raise CommitmentMismatch(f"the salt and content do not open commitment {commitment}")
