"""Checking inclusion and consistency in an RFC 6962 tree: the verifier's half.

Both functions return nothing or raise a VerificationError. They fold a path from
the bottom up (RFC 9162 §2.1.3.2 and §2.1.4.2) and import nothing of the writer in
:mod:`expunge.ledger.merkle.tree` but the hash functions.

An inclusion path binds a leaf to a *root*. It does not bind the size: leaf 0 has the same path shape in
trees of 3 and of 4 leaves, so a size is worth what the signature on its checkpoint is worth. Take ``size``
and ``root`` from one verified checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

from expunge.errors import VerificationError
from expunge.ledger.merkle.hashing import EMPTY_ROOT, HASH_SIZE, MAX_TREE_SIZE, node_hash

__all__ = ["verify_consistency", "verify_inclusion"]


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that the leaf *hash* ``leaf`` is number ``index`` of the ``size`` leaves under ``root``."""
    _check_size(size)
    _check_hashes(leaf, root, *path)
    if not 0 <= index < size:
        raise VerificationError(f"there is no leaf {index} in a tree of {size}", code="inclusion-index-out-of-range")
    # The path turns at every level below the point where the ways to this leaf and to the last leaf part;
    # above it, a level has a sibling only where the leaf lies to the right.
    inner = (index ^ (size - 1)).bit_length()
    needed = inner + (index >> inner).bit_count()
    if len(path) != needed:
        raise VerificationError(
            f"leaf {index} of {size} needs {needed} hashes, not {len(path)}", code="inclusion-path-length"
        )

    node, last, digest = index, size - 1, leaf
    for sibling in path:
        while node == last and node & 1 == 0:
            node, last = node >> 1, last >> 1
        digest = node_hash(sibling, digest) if node & 1 else node_hash(digest, sibling)
        node, last = node >> 1, last >> 1
    if digest != root:
        raise VerificationError(
            f"leaf {index} leads to root {digest.hex()}, not {root.hex()}", code="inclusion-root-mismatch"
        )


def verify_consistency(old_size: int, old_root: bytes, new_size: int, new_root: bytes, path: Sequence[bytes]) -> None:
    """Check that the tree under ``old_root`` is a prefix of the tree under ``new_root``.

    The empty tree is a prefix of every tree and needs an empty path; so do two heads of one size.
    """
    _check_size(old_size)
    _check_size(new_size)
    _check_hashes(old_root, new_root, *path)
    for size, root in ((old_size, old_root), (new_size, new_root)):
        if size == 0 and root != EMPTY_ROOT:
            raise VerificationError(
                f"an empty tree has root {EMPTY_ROOT.hex()}, not {root.hex()}", code="empty-root-mismatch"
            )
    if old_size > new_size:
        raise VerificationError(
            f"the log shrank from {old_size} to {new_size} leaves", code="consistency-sizes-reversed"
        )
    if old_size in (0, new_size):
        if path:
            raise VerificationError(
                f"sizes {old_size} and {new_size} need no hashes, not {len(path)}", code="consistency-path-length"
            )
        if old_size == new_size and old_root != new_root:
            raise VerificationError(
                f"two roots at size {old_size}: {old_root.hex()} and {new_root.hex()}", code="consistency-fork"
            )
        return
    _fold_consistency(old_size, old_root, new_size, new_root, path)


def _fold_consistency(old_size: int, old_root: bytes, new_size: int, new_root: bytes, path: Sequence[bytes]) -> None:
    """Rebuild both roots from one path; ``0 < old_size < new_size``."""
    node, last = old_size - 1, new_size - 1
    # Climb to the widest complete subtree that ends the older tree.
    while node & 1:
        node, last = node >> 1, last >> 1
    # One hash a level until the two ways meet, one a left neighbour above, and the seed unless known.
    inner = (node ^ last).bit_length()
    needed = inner + (node >> inner).bit_count() + (1 if node else 0)
    if len(path) != needed:
        raise VerificationError(
            f"sizes {old_size} and {new_size} need {needed} hashes, not {len(path)}", code="consistency-path-length"
        )

    hashes = iter(path)
    old_digest = new_digest = next(hashes) if node else old_root
    for sibling in hashes:
        while node == last and node & 1 == 0:
            node, last = node >> 1, last >> 1
        if node & 1:
            old_digest = node_hash(sibling, old_digest)
            new_digest = node_hash(sibling, new_digest)
        else:
            new_digest = node_hash(new_digest, sibling)
        node, last = node >> 1, last >> 1
    if old_digest != old_root:
        raise VerificationError(
            f"the path leads to old root {old_digest.hex()}, not {old_root.hex()}", code="consistency-old-root-mismatch"
        )
    if new_digest != new_root:
        raise VerificationError(
            f"the path leads to new root {new_digest.hex()}, not {new_root.hex()}", code="consistency-new-root-mismatch"
        )


def _check_size(size: int) -> None:
    if not 0 <= size <= MAX_TREE_SIZE:
        raise VerificationError(f"a tree has 0 to 2^63 - 1 leaves, not {size}", code="tree-size-out-of-range")


def _check_hashes(*hashes: bytes) -> None:
    for digest in hashes:
        if len(digest) != HASH_SIZE:
            raise VerificationError(f"a hash has {HASH_SIZE} bytes, not {len(digest)}", code="hash-length-invalid")
