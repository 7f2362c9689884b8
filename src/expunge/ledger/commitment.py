"""Salted commitments to entries, and the digest of a whole state. Format: ``docs/formats/commitment.md``.

An entry is committed to in two steps. Its *blind* hashes the 32 random bytes of its salt with id, subject and
payload; its *commitment* hashes the blind with key and value. Salt and blind are destroyed with the entry:
afterwards nobody can confirm a guess at its content, however good. While it lives, its blind opens the
commitment for key and value alone, so that an auditor can recompute the numbers without learning whose they are.

A state digest covers cap, width, every commitment in ascending order, the *weights digest* of offset and
coefficients, and the columns where the memory has them. The weights digest is blinded by every entry of the state.
Otherwise a digest would confirm guesses: whoever holds the other entries could add a guess at an erased one, solve, and
compare bits.

Whoever still has the salt and the whole entry shows with `verify_commitment` which entry a receipt named; whoever was
given the blind checks key and value alone with `verify_vectors`, and learns nothing of id, subject or payload.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import is_sha256_hex

if TYPE_CHECKING:
    from expunge.types import AnyArray, Vector

__all__ = [
    "DIGEST_BYTES",
    "SALT_BYTES",
    "blind",
    "blind_rows",
    "combined",
    "commit",
    "commit_rows",
    "new_salts",
    "state_digest",
    "verify_commitment",
    "verify_vectors",
    "weights_digest",
]

SALT_BYTES = 32
DIGEST_BYTES = 32
_BLIND = b"expunge/blind/v1\n"
_ENTRY = b"expunge/entry/v1\n"
_WEIGHTS = b"expunge/weights/v1\n"
_STATE = b"expunge/state/v1\n"
_LENGTH = struct.Struct("<Q")
_WEIGHTS_HEAD = struct.Struct("<dQ")
_STATE_HEAD = struct.Struct("<ddQ")


def new_salts(count: int) -> bytes:
    """Fresh secrets, 32 bytes for each entry; one salt an entry, never reused."""
    return secrets.token_bytes(SALT_BYTES * count)


def blind(salt: bytes, name: str, subject: str | None, payload: bytes | None) -> bytes:
    """SHA-256 of an entry's salt, id, subject and payload (as stored: its first byte tells bytes from JSON)."""
    if len(salt) != SALT_BYTES:
        raise InputError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    try:
        label = name.encode()
        owner = b"" if subject is None else b"s" + subject.encode()
    except UnicodeEncodeError:
        raise InputError("ids and subjects must be valid Unicode") from None
    if payload == b"":
        raise InputError("a payload has a first byte that tells what it is, so it is never empty")
    # An absent subject or payload is the empty field, which a present one never is.
    extra = b"" if payload is None else payload
    pack = _LENGTH.pack
    parts = (_BLIND, salt, pack(len(label)), label, pack(len(owner)), owner, pack(len(extra)), extra)
    return hashlib.sha256(b"".join(parts)).digest()


def blind_rows(rows: Iterable[tuple[bytes, str, str | None, bytes | None]]) -> list[bytes]:
    """`blind` of every row of salt, id, subject and payload."""
    return [blind(*row) for row in rows]


def commit(blind: bytes, key: bytes, value: bytes) -> bytes:
    """SHA-256 of an entry's blind, key and value, the vectors as little-endian float64."""
    return commit_rows([(blind, key, value)])[0]


def commit_rows(rows: Iterable[tuple[bytes, bytes, bytes]]) -> list[bytes]:
    """`commit` of every row of blind, key and value."""
    pack, sha256 = _LENGTH.pack, hashlib.sha256
    return [
        sha256(b"".join((_ENTRY, blind, pack(len(key)), key, pack(len(value)), value))).digest()
        for blind, key, value in rows
    ]


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
        raise VerificationError("a commitment is 64 lowercase hexadecimal digits", code="commitment-malformed")
    if len(blind) != DIGEST_BYTES:
        raise InputError(f"a blind has {DIGEST_BYTES} bytes, not {len(blind)}")
    if not hmac.compare_digest(commitment, commit(blind, key, value).hex()):
        raise VerificationError(f"this entry does not open commitment {commitment}", code="commitment-mismatch")


def combined(blinds: AnyArray) -> bytes:
    """Exclusive or of blinds (n, 32): random to whoever lacks any one of them, and 32 bytes however many there are."""
    veil = 0
    for row in blinds:
        veil ^= int.from_bytes(row.tobytes(), "little")
    return veil.to_bytes(DIGEST_BYTES, "little")


def weights_digest(offset: float, coefficients: Vector, veil: bytes) -> bytes:
    """SHA-256 of the offset and the coefficients (n,), by ascending commitment, behind the combined blinds."""
    digest = hashlib.sha256(_WEIGHTS + _WEIGHTS_HEAD.pack(offset, coefficients.size) + veil)
    digest.update(_contiguous(coefficients.astype("<f8", copy=False)))
    return digest.digest()


def state_digest(cap: float, sigma: float, commitments: AnyArray, weights: bytes, columns: bytes = b"") -> str:
    """SHA-256, in hex, of a state: commitments (n, 32) in ascending order, the weights digest, and that of the columns
    where there are any. The columns of an empty memory are left out: its state is a function of the width alone, so
    that whoever replays a ledger knows it.
    """
    digest = hashlib.sha256(_STATE + _STATE_HEAD.pack(cap, sigma, commitments.shape[0]))
    digest.update(_contiguous(commitments))
    digest.update(weights)
    if commitments.shape[0]:
        digest.update(columns)
    return digest.hexdigest()


def _contiguous(array: AnyArray) -> memoryview:
    """The bytes of an array in row order, copied only where they do not lie so already."""
    return (array if array.flags.c_contiguous else array.copy()).data
