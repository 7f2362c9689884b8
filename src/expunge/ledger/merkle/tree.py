"""Growing an RFC 6962 tree and proving things about it: the writer's half.

Guarantees: :class:`Frontier` holds at most ⌈log₂(n + 1)⌉ hashes, so an append costs O(log n) and the whole
state of the log fits in one small record; every hash it reports in :class:`Node` is final, because a
complete subtree never changes. Paths follow the definitions of RFC 6962 §2.1.1 (inclusion) and §2.1.2
(consistency) by splitting leaf ranges from the top. The verifier in :mod:`expunge.ledger.merkle.tree_proof`
works from the bottom up (RFC 9162 §2.1.3.2, §2.1.4.2) and shares only the hash functions, so one half
cannot hide a mistake of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from expunge.errors import InputError, StoreError, VerificationError
from expunge.ledger.merkle.hashing import EMPTY_ROOT, HASH_SIZE, MAX_TREE_SIZE, node_hash

__all__ = [
    "Frontier",
    "HashTree",
    "Node",
    "ReadNode",
    "consistency_path",
    "inclusion_path",
    "read_sparse",
    "root_at",
]

ReadNode: TypeAlias = Callable[[int, int], bytes]
"""``read(level, index)``: the hash over leaves ``[index·2^level, (index + 1)·2^level)``, all present."""


@dataclass(frozen=True, slots=True)
class Node:
    """The final hash of a complete subtree of ``2**level`` leaves; a leaf is level 0."""

    level: int
    index: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Frontier:
    """The compact state of an append-only tree.

    ``hashes`` are the roots of the complete subtrees that make up the tree, from left to right, one for each
    set bit of ``size`` and so from widest to narrowest.
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.size <= MAX_TREE_SIZE:
            raise InputError(f"a tree has 0 to 2^63 - 1 leaves, not {self.size}")
        if len(self.hashes) != self.size.bit_count():
            raise InputError(f"a tree of {self.size} leaves has {self.size.bit_count()} frontier hashes")
        if any(len(digest) != HASH_SIZE for digest in self.hashes):
            raise InputError(f"a frontier hash has {HASH_SIZE} bytes")

    def append(self, leaf: bytes) -> tuple[Frontier, tuple[Node, ...]]:
        """Add one leaf *hash*; return the new frontier and the nodes that became final, leaf first."""
        _check_hash(leaf)
        hashes = list(self.hashes)
        carry, level = leaf, 0
        nodes = [Node(0, self.size, leaf)]
        # Adding one to the size ripples through its trailing one bits; each carry closes a subtree.
        while self.size >> level & 1:
            carry = node_hash(hashes.pop(), carry)
            level += 1
            nodes.append(Node(level, self.size >> level, carry))
        hashes.append(carry)
        return Frontier(self.size + 1, tuple(hashes)), tuple(nodes)

    @property
    def root(self) -> bytes:
        """The root over all leaves so far; the hash of nothing for an empty tree."""
        if not self.hashes:
            return EMPTY_ROOT
        root = self.hashes[-1]
        for digest in reversed(self.hashes[:-1]):
            root = node_hash(digest, root)
        return root

    def to_bytes(self) -> bytes:
        """Return 8 bytes of size, big-endian, followed by the hashes."""
        return self.size.to_bytes(8, "big") + b"".join(self.hashes)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frontier:
        """Read what :meth:`to_bytes` wrote; anything else raises :class:`frontier-malformed`."""
        size = int.from_bytes(data[:8], "big")
        if len(data) != 8 + HASH_SIZE * size.bit_count() or size > MAX_TREE_SIZE:
            raise VerificationError(f"{len(data)} bytes are not the frontier of a tree", code="frontier-malformed")
        return cls(size, tuple(data[at : at + HASH_SIZE] for at in range(8, len(data), HASH_SIZE)))


class HashTree:
    """A tree that keeps every final node in memory: 64 bytes of hash a leaf, proofs in O(log n)."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        """Build from stored leaf hashes, in log order."""
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaves:
            self.append(leaf)

    def __len__(self) -> int:
        return len(self._levels[0])

    def append(self, leaf: bytes) -> int:
        """Add one leaf *hash*; return its index."""
        _check_hash(leaf)
        carry, level = leaf, 0
        self._levels[0].append(leaf)
        while len(self._levels[level]) % 2 == 0:
            carry = node_hash(self._levels[level][-2], carry)
            level += 1
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(carry)
        return len(self) - 1

    def read(self, level: int, index: int) -> bytes:
        """Return the final hash of one complete subtree: a :data:`ReadNode`."""
        return self._levels[level][index]

    def root(self, size: int | None = None) -> bytes:
        """Return the root over the first ``size`` leaves; over all of them by default."""
        return root_at(self.read, self._within(size))

    def inclusion_path(self, index: int, size: int | None = None) -> tuple[bytes, ...]:
        """Prove that leaf ``index`` is in the tree of the first ``size`` leaves."""
        return inclusion_path(self.read, index, self._within(size))

    def consistency_path(self, old_size: int, new_size: int | None = None) -> tuple[bytes, ...]:
        """Prove that the tree of ``old_size`` leaves is a prefix of the tree of ``new_size``."""
        return consistency_path(self.read, old_size, self._within(new_size))

    def _within(self, size: int | None) -> int:
        if size is None:
            return len(self)
        if not 0 <= size <= len(self):
            raise InputError(f"the tree has {len(self)} leaves, not {size}")
        return size


def root_at(read: ReadNode, size: int) -> bytes:
    """Return the root over the first ``size`` leaves: MTH(D[0:size]) of RFC 6962 §2.1."""
    _check_size(size)
    return _range_hash(read, 0, size) if size else EMPTY_ROOT


def inclusion_path(read: ReadNode, index: int, size: int) -> tuple[bytes, ...]:
    """Return PATH(index, D[0:size]) of RFC 6962 §2.1.1, from the leaf's sibling up to the root's child."""
    _check_size(size)
    if not 0 <= index < size:
        raise InputError(f"there is no leaf {index} in a tree of {size}")
    begin, end = 0, size
    path = []
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(_range_hash(read, middle, end))
            end = middle
        else:
            path.append(_range_hash(read, begin, middle))
            begin = middle
    return tuple(reversed(path))


def consistency_path(read: ReadNode, old_size: int, new_size: int) -> tuple[bytes, ...]:
    """Return PROOF(old_size, D[0:new_size]) of RFC 6962 §2.1.2; empty from size 0 or between equal sizes."""
    _check_size(new_size)
    if not 0 <= old_size <= new_size:
        raise InputError(f"a tree of {new_size} leaves has no older tree of {old_size}")
    if old_size == 0:
        return ()
    begin, end = 0, new_size
    path = []
    while end != old_size:
        middle = begin + _split(end - begin)
        if old_size <= middle:
            path.append(_range_hash(read, middle, end))
            end = middle
        else:
            path.append(_range_hash(read, begin, middle))
            begin = middle
    # When the older tree is one complete subtree at the left edge, the verifier already has its root.
    if begin:
        path.append(_range_hash(read, begin, end))
    return tuple(reversed(path))


def read_sparse(read: ReadNode, stride: int) -> ReadNode:
    """Read every level from a store that keeps only the levels divisible by ``stride``.

    A missing node is recomputed from at most ``2**(stride - 1)`` stored ones: with stride 4 the store keeps
    7% more hashes than it has leaves instead of 100%.
    """
    if stride < 1:
        raise InputError(f"stride must be at least 1, not {stride}")

    def derived(level: int, index: int) -> bytes:
        if level % stride == 0:
            return read(level, index)
        return node_hash(derived(level - 1, 2 * index), derived(level - 1, 2 * index + 1))

    return derived


def _range_hash(read: ReadNode, begin: int, end: int) -> bytes:
    """Return MTH(D[begin:end]) for a range met while splitting from the top."""
    width = end - begin
    if width & (width - 1) == 0:
        level = width.bit_length() - 1
        digest = read(level, begin >> level)
        if len(digest) != HASH_SIZE:
            raise StoreError(f"the stored hash of node {begin >> level} at level {level} is damaged")
        return digest
    middle = begin + _split(width)
    return node_hash(_range_hash(read, begin, middle), _range_hash(read, middle, end))


def _split(width: int) -> int:
    """Return the largest power of two below ``width``, where RFC 6962 cuts a range in two."""
    return 1 << ((width - 1).bit_length() - 1)


def _check_hash(leaf: bytes) -> None:
    if len(leaf) != HASH_SIZE:
        raise InputError(f"append takes a leaf hash of {HASH_SIZE} bytes, not {len(leaf)} bytes")


def _check_size(size: int) -> None:
    if not 0 <= size <= MAX_TREE_SIZE:
        raise InputError(f"a tree has 0 to 2^63 - 1 leaves, not {size}")
