"""The three hashes of an RFC 6962 tree: the only code that the writer and the verifier share.

RFC 6962 §2.1 with SHA-256. A leaf is hashed behind ``0x00`` and an interior node behind ``0x01``, so no
leaf can be passed off as a node (second-preimage resistance); the empty tree is the hash of nothing.
"""

from __future__ import annotations

import hashlib

__all__ = ["EMPTY_ROOT", "HASH_SIZE", "MAX_TREE_SIZE", "leaf_hash", "node_hash"]

HASH_SIZE = 32
MAX_TREE_SIZE = 2**63 - 1
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one log entry, ``SHA-256(0x00 || data)``."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an interior node, ``SHA-256(0x01 || left || right)``."""
    return hashlib.sha256(b"\x01" + left + right).digest()
