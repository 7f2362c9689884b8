"""Root of an RFC 6962 tree, leaf by leaf, recomputed without the writer's trees."""

from __future__ import annotations

from expunge.ledger.merkle.hashing import EMPTY_ROOT, leaf_hash, node_hash

__all__ = ["TreeRoot"]


class TreeRoot:
    """The complete subtrees so far, the largest first."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def add(self, leaf: bytes) -> bytes:
        """Append a leaf, and return its hash."""
        hashed = node = leaf_hash(leaf)
        size = self.size
        while size & 1:
            node, size = node_hash(self._peaks.pop(), node), size >> 1
        self._peaks.append(node)
        self.size += 1
        return hashed

    def digest(self) -> bytes:
        """The root of the leaves so far."""
        if not self._peaks:
            return EMPTY_ROOT
        *rest, node = self._peaks
        for peak in reversed(rest):
            node = node_hash(peak, node)
        return node
