"""The writer's half: roots, frontiers and paths against the published tree and against each other."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError, StoreError
from expunge.ledger.merkle.hashing import EMPTY_ROOT, leaf_hash, node_hash
from expunge.ledger.merkle.tree import (
    Frontier,
    HashTree,
    Node,
    consistency_path,
    inclusion_path,
    read_sparse,
    root_at,
)
from raising import raises_code

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "rfc6962.json").read_text())
LEAVES = [leaf_hash(bytes.fromhex(leaf)) for leaf in PUBLISHED["leaves"]]
MANY = [leaf_hash(b"%d" % number) for number in range(300)]


def grow(leaves: list[bytes]) -> tuple[Frontier, dict[tuple[int, int], bytes]]:
    """Append leaf by leaf, as a store does, keeping every node that became final."""
    frontier, nodes = Frontier(), {}
    for leaf in leaves:
        frontier, final = frontier.append(leaf)
        for node in final:
            assert (node.level, node.index) not in nodes
            nodes[node.level, node.index] = node.hash
    return frontier, nodes


def defined_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 §2.1, word for word."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + defined_root(leaves[:k]) + defined_root(leaves[k:])).digest()


def test_the_empty_tree_is_the_hash_of_nothing() -> None:
    assert EMPTY_ROOT.hex() == PUBLISHED["empty_root"]
    assert Frontier().root == HashTree().root() == root_at(HashTree().read, 0) == EMPTY_ROOT


@pytest.mark.parametrize("size", range(1, 9))
def test_published_roots(size: int) -> None:
    expected = PUBLISHED["roots"][size - 1]
    assert grow(LEAVES[:size])[0].root.hex() == expected
    assert HashTree(LEAVES).root(size).hex() == expected


@pytest.mark.parametrize("case", PUBLISHED["inclusion"])
def test_published_inclusion_paths(case: dict[str, Any]) -> None:
    path = HashTree(LEAVES).inclusion_path(case["index"], case["size"])
    assert [digest.hex() for digest in path] == case["path"]


@pytest.mark.parametrize("case", PUBLISHED["consistency"])
def test_published_consistency_paths(case: dict[str, Any]) -> None:
    path = HashTree(LEAVES).consistency_path(case["old_size"], case["new_size"])
    assert [digest.hex() for digest in path] == case["path"]


@given(st.integers(0, 300))
def test_frontier_and_tree_have_the_defined_root(size: int) -> None:
    frontier, _ = grow(MANY[:size])
    assert frontier.root == HashTree(MANY).root(size) == defined_root(MANY[:size])
    assert len(frontier.hashes) == size.bit_count()


@given(st.integers(0, 300))
def test_frontier_bytes_round_trip(size: int) -> None:
    frontier, _ = grow(MANY[:size])
    assert Frontier.from_bytes(frontier.to_bytes()) == frontier
    assert Frontier.from_bytes(frontier.to_bytes()).to_bytes() == frontier.to_bytes()


@given(st.data())
def test_stored_nodes_give_the_paths_of_the_whole_tree(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 300))
    index = data.draw(st.integers(0, size - 1))
    old_size = data.draw(st.integers(0, size))
    stride = data.draw(st.integers(1, 5))
    _, nodes = grow(MANY)
    kept = {place: digest for place, digest in nodes.items() if place[0] % stride == 0}
    read = read_sparse(lambda level, at: kept[level, at], stride)
    tree = HashTree(MANY)
    assert root_at(read, size) == tree.root(size)
    assert inclusion_path(read, index, size) == tree.inclusion_path(index, size)
    assert consistency_path(read, old_size, size) == tree.consistency_path(old_size, size)


def test_an_append_reports_each_subtree_that_it_closes() -> None:
    frontier, _ = grow(LEAVES[:3])
    _, final = frontier.append(LEAVES[3])
    pair = node_hash(LEAVES[2], LEAVES[3])
    assert final == (
        Node(0, 3, LEAVES[3]),
        Node(1, 1, pair),
        Node(2, 0, node_hash(node_hash(LEAVES[0], LEAVES[1]), pair)),
    )


def test_append_returns_the_index() -> None:
    tree = HashTree()
    assert [tree.append(leaf) for leaf in LEAVES] == list(range(8))
    assert len(tree) == 8


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 7,
        b"\x00" * 9,
        b"\x00" * 7 + b"\x01",
        b"\x00" * 7 + b"\x03" + b"h" * 32,
        b"\xff" * 8 + b"h" * 2048,
    ],
)
def test_damaged_frontier_bytes_are_refused(data: bytes) -> None:
    with raises_code("frontier-malformed"):
        Frontier.from_bytes(data)


def test_wrong_arguments_are_refused() -> None:
    tree = HashTree(LEAVES)
    for call in (
        lambda: tree.append(b"not a hash"),
        lambda: Frontier().append(b"not a hash"),
        lambda: Frontier(1, ()),
        lambda: Frontier(-1, ()),
        lambda: Frontier(1, (b"short",)),
        lambda: tree.root(9),
        lambda: tree.root(-1),
        lambda: tree.inclusion_path(8),
        lambda: tree.inclusion_path(-1),
        lambda: tree.inclusion_path(0, 0),
        lambda: tree.consistency_path(9),
        lambda: tree.consistency_path(-1),
        lambda: root_at(tree.read, -1),
        lambda: read_sparse(tree.read, 0),
    ):
        with pytest.raises(InputError):
            call()


def test_a_damaged_stored_node_is_the_stores_fault() -> None:
    with pytest.raises(StoreError):
        inclusion_path(lambda level, index: b"", 0, 2)
