"""The verifier's half: every true proof is accepted, every altered one fails under its own name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.ledger.merkle.hashing import EMPTY_ROOT, leaf_hash
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.merkle.tree_proof import verify_consistency, verify_inclusion
from raising import raises_code

LEAVES = [leaf_hash(b"%d" % number) for number in range(520)]
TREE = HashTree(LEAVES)
SIZES = st.integers(1, 520)


def flip(digest: bytes, bit: int) -> bytes:
    changed = bytearray(digest)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def turns(index: int, size: int) -> list[bool]:
    """Say, from the leaf up, on which side each sibling lies: all that a path knows of index and size."""
    if size == 1:
        return []
    k = 1 << ((size - 1).bit_length() - 1)
    return [*turns(index, k), False] if index < k else [*turns(index - k, size - k), True]


def test_every_proof_in_every_small_tree() -> None:
    for size in range(1, 66):
        root = TREE.root(size)
        for index in range(size):
            verify_inclusion(LEAVES[index], index, size, TREE.inclusion_path(index, size), root)
        for old in range(size + 1):
            verify_consistency(old, TREE.root(old), size, root, TREE.consistency_path(old, size))


@given(st.data())
def test_an_altered_inclusion_proof_fails(data: st.DataObject) -> None:
    size = data.draw(SIZES)
    index = data.draw(st.integers(0, size - 1))
    leaf, path, root = LEAVES[index], TREE.inclusion_path(index, size), TREE.root(size)
    bit = data.draw(st.integers(0, 255))
    verify_inclusion(leaf, index, size, path, root)
    with raises_code("inclusion-root-mismatch"):
        verify_inclusion(flip(leaf, bit), index, size, path, root)
    with raises_code("inclusion-root-mismatch"):
        verify_inclusion(leaf, index, size, path, flip(root, bit))
    for at in range(len(path)):
        altered = (*path[:at], flip(path[at], bit), *path[at + 1 :])
        with raises_code("inclusion-root-mismatch"):
            verify_inclusion(leaf, index, size, altered, root)
        with raises_code("inclusion-path-length"):
            verify_inclusion(leaf, index, size, path[:at] + path[at + 1 :], root)
    with raises_code("inclusion-path-length"):
        verify_inclusion(leaf, index, size, (*path, root), root)


@given(st.data())
def test_another_index_or_size_fails_unless_the_path_has_the_same_shape(data: st.DataObject) -> None:
    size = data.draw(SIZES)
    index = data.draw(st.integers(0, size - 1))
    other_size = data.draw(SIZES)
    other_index = data.draw(st.integers(0, other_size - 1))
    path, root = TREE.inclusion_path(index, size), TREE.root(size)
    if turns(index, size) == turns(other_index, other_size):
        # A path does not bind the size (see the module's docstring); the checkpoint's signature does.
        verify_inclusion(LEAVES[index], other_index, other_size, path, root)
    else:
        with raises_code("inclusion-path-length", "inclusion-root-mismatch"):
            verify_inclusion(LEAVES[index], other_index, other_size, path, root)
    if other_size == size and other_index != index:
        assert turns(index, size) != turns(other_index, size)


@given(st.data())
def test_an_altered_consistency_proof_fails(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, 520))
    old = data.draw(st.integers(1, new - 1))
    bit = data.draw(st.integers(0, 255))
    old_root, new_root, path = TREE.root(old), TREE.root(new), TREE.consistency_path(old, new)
    verify_consistency(old, old_root, new, new_root, path)
    # An older tree that is one complete subtree seeds both foldings with its own root.
    wrong_old = "consistency-new-root-mismatch" if old & (old - 1) == 0 else "consistency-old-root-mismatch"
    with raises_code(wrong_old):
        verify_consistency(old, flip(old_root, bit), new, new_root, path)
    with raises_code("consistency-new-root-mismatch"):
        verify_consistency(old, old_root, new, flip(new_root, bit), path)
    for at in range(len(path)):
        altered = (*path[:at], flip(path[at], bit), *path[at + 1 :])
        with raises_code("consistency-old-root-mismatch", "consistency-new-root-mismatch"):
            verify_consistency(old, old_root, new, new_root, altered)
        with raises_code("consistency-path-length"):
            verify_consistency(old, old_root, new, new_root, path[:at] + path[at + 1 :])
    with raises_code("consistency-path-length"):
        verify_consistency(old, old_root, new, new_root, (*path, new_root))


@given(st.data())
def test_a_rewritten_log_is_found_by_whoever_kept_an_older_head(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, 200))
    old = data.draw(st.integers(1, new))
    at = data.draw(st.integers(0, old - 1))
    rewritten = HashTree([*LEAVES[:at], leaf_hash(b"another story"), *LEAVES[at + 1 : new]])
    with raises_code("inclusion-*", "consistency-*", "empty-root-*", "tree-size-*", "hash-length-*", "frontier-*"):
        verify_consistency(old, TREE.root(old), new, rewritten.root(), rewritten.consistency_path(old))
    with raises_code("inclusion-*", "consistency-*", "empty-root-*", "tree-size-*", "hash-length-*", "frontier-*"):
        verify_consistency(old, TREE.root(old), new, rewritten.root(), TREE.consistency_path(old, new))


def test_a_truncated_log_is_found() -> None:
    with raises_code("consistency-sizes-reversed"):
        verify_consistency(5, TREE.root(5), 4, TREE.root(4), ())


def test_two_heads_of_one_size_must_agree() -> None:
    verify_consistency(5, TREE.root(5), 5, TREE.root(5), ())
    with raises_code("consistency-fork"):
        verify_consistency(5, TREE.root(5), 5, TREE.root(6), ())
    with raises_code("consistency-path-length"):
        verify_consistency(5, TREE.root(5), 5, TREE.root(5), (LEAVES[0],))


def test_the_empty_tree_is_a_prefix_of_every_tree_but_has_one_root() -> None:
    verify_consistency(0, EMPTY_ROOT, 7, TREE.root(7), ())
    verify_consistency(0, EMPTY_ROOT, 0, EMPTY_ROOT, ())
    with raises_code("empty-root-mismatch"):
        verify_consistency(0, LEAVES[0], 7, TREE.root(7), ())
    with raises_code("empty-root-mismatch"):
        verify_consistency(0, EMPTY_ROOT, 0, LEAVES[0], ())
    with raises_code("consistency-path-length"):
        verify_consistency(0, EMPTY_ROOT, 7, TREE.root(7), (LEAVES[0],))


@pytest.mark.parametrize("size", [-1, 2**63])
def test_sizes_out_of_range(size: int) -> None:
    with raises_code("tree-size-out-of-range"):
        verify_inclusion(LEAVES[0], 0, size, (), LEAVES[0])
    with raises_code("tree-size-out-of-range"):
        verify_consistency(size, LEAVES[0], 1, LEAVES[0], ())
    with raises_code("tree-size-out-of-range"):
        verify_consistency(1, LEAVES[0], size, LEAVES[0], ())


@pytest.mark.parametrize(("index", "size"), [(-1, 4), (4, 4), (0, 0)])
def test_indices_out_of_range(index: int, size: int) -> None:
    with raises_code("inclusion-index-out-of-range"):
        verify_inclusion(LEAVES[0], index, size, (), TREE.root(4))


@pytest.mark.parametrize("digest", [b"", b"h" * 31, b"h" * 33])
def test_hashes_have_32_bytes(digest: bytes) -> None:
    path = TREE.inclusion_path(0, 4)
    for arguments in (
        (digest, path, TREE.root(4)),
        (LEAVES[0], (digest, path[1]), TREE.root(4)),
        (LEAVES[0], path, digest),
    ):
        leaf, altered, root = arguments
        with raises_code("hash-length-invalid"):
            verify_inclusion(leaf, 0, 4, altered, root)
    with raises_code("hash-length-invalid"):
        verify_consistency(1, digest, 4, TREE.root(4), path)
    with raises_code("hash-length-invalid"):
        verify_consistency(1, LEAVES[0], 4, digest, path)


def test_a_node_cannot_pose_as_a_leaf() -> None:
    entry = LEAVES[0] + LEAVES[1]
    with raises_code("inclusion-root-mismatch"):
        verify_inclusion(leaf_hash(entry), 0, 1, (), TREE.root(2))


def test_huge_sizes_need_no_more_than_their_path() -> None:
    with raises_code("inclusion-path-length", match="63"):
        verify_inclusion(LEAVES[0], 0, 2**63 - 1, (), TREE.root(4))
    with raises_code("inclusion-root-mismatch"):
        verify_inclusion(LEAVES[0], 0, 2**63 - 1, LEAVES[:63], TREE.root(4))
