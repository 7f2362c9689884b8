"""Checking what a commitment speaks of. Format: ``docs/formats/commitment.md``.

The commitment itself is made by :mod:`expunge.commitment`, for memories and receipts alike. Whoever still has the
salt and the whole entry shows with :func:`verify_commitment` which entry a receipt named; whoever was given
the blind checks key and value alone with :func:`verify_vectors`, and learns nothing of id, subject or payload.
"""

from __future__ import annotations

import hmac

from expunge.commitment import DIGEST_BYTES, blind, commit
from expunge.errors import InputError
from expunge.ledger.encoding import is_sha256_hex
from expunge.ledger.errors import CommitmentMalformed, CommitmentMismatch

__all__ = ["verify_commitment", "verify_vectors"]


def verify_commitment(
    commitment: str,
    salt: bytes,
    name: str,
    subject: str | None,
    key: bytes,
    value: bytes,
    payload: bytes | None,
) -> None:
    """Check that ``commitment`` is to this entry under this salt.

    ``key`` and ``value`` are the vectors as little-endian float64, ``payload`` is as stored.
    """
    verify_vectors(commitment, blind(salt, name, subject, payload), key, value)


def verify_vectors(commitment: str, blind: bytes, key: bytes, value: bytes) -> None:
    """Check that ``commitment`` is to this key and value under this blind."""
    if not is_sha256_hex(commitment):
        raise CommitmentMalformed("a commitment is 64 lowercase hexadecimal digits")
    if len(blind) != DIGEST_BYTES:
        raise InputError(f"a blind has {DIGEST_BYTES} bytes, not {len(blind)}")
    if not hmac.compare_digest(commitment, commit(blind, key, value).hex()):
        raise CommitmentMismatch(f"this entry does not open commitment {commitment}")
