"""The digest of a state without entries: of cap 1 and a width alone, by ``docs/formats/commitment.md``."""

from __future__ import annotations

import hashlib
import struct
from functools import cache

__all__ = ["empty_state"]


@cache
def empty_state(sigma: float) -> str:
    """The digest of an empty state of this width, in hexadecimal."""
    weights = hashlib.sha256(b"expunge/weights/v1\n" + struct.pack("<dQ", 0.0, 0) + bytes(32)).digest()
    return hashlib.sha256(b"expunge/state/v1\n" + struct.pack("<ddQ", 1.0, sigma, 0) + weights).hexdigest()
