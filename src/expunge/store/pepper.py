"""The pepper of a store: what makes idempotency keys unguessable to whoever has the database.

Design: ``docs/design/0016-keys-elsewhere.md``. While the store signs with a private key in a file, the pepper is a
function of that key. A key in a token or service gives no such function, and a key that is rotated gives another one:
then the pepper is 32 random bytes, or the old ones, in a file of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets as randomness
from pathlib import Path

from expunge.errors import InputError, StoreError
from expunge.ledger.signing import SigningKey, read_key_file, write_key_file
from expunge.ledger.verifying_key import Signer

__all__ = ["load_pepper", "pepper_hash", "save_pepper"]

_SIZE = 32


def load_pepper(path: Path | None, signer: Signer, *, create: bool) -> bytes:
    """The pepper in a file that is there, else that of the key; with `create` a new file where neither is.

    Parameters
    ----------
    path
        The file; None where the store has no place for one and none was named.
    signer
        What signs the store's receipts.
    create
        Whether the store is new.

    """
    if path is not None and path.exists():
        data = read_key_file(path, private=True)
        if len(data) != _SIZE:
            raise InputError(f"{path} has {len(data)} bytes; a pepper has {_SIZE}", code="pepper-malformed")
        return data
    if isinstance(signer, SigningKey):
        return hmac.digest(signer.private.private_bytes_raw(), b"expunge/pepper/v1", "sha256")
    if path is None or not create:
        where = "--pepper, $EXPUNGE_PEPPER or pepper= names its file" if path is None else f"it should be in {path}"
        raise StoreError(
            f"a store whose key is not in a file needs a pepper of its own, and there is none: {where}",
            code="pepper-missing",
        )
    made = randomness.token_bytes(_SIZE)
    save_pepper(path, made)
    return made


def save_pepper(path: Path, pepper: bytes) -> None:
    """Write a pepper to a new file with mode 0600."""
    write_key_file(path, pepper, 0o600)


def pepper_hash(pepper: bytes) -> bytes:
    """What the database keeps, so that another pepper is noticed; it tells nothing of these 32 bytes."""
    return hashlib.sha256(b"expunge/pepper-check/v1\n" + pepper).digest()
