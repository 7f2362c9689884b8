"""The catalogue of items that follows each edit is the one that would be made anew; scores are those of numpy."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp

import expunge
from expunge import InputError
from expunge.integrations.langgraph import ExpungeStore
from expunge.integrations.langgraph.catalogue import Catalogue, Catalogues
from expunge.integrations.langgraph.distances import Distance, scores
from expunge.integrations.langgraph.items import ItemVersion, item_id
from expunge.memory.version import Version
from expunge.store import Store


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        yield store


def content(catalogue: Catalogue) -> Any:
    return {
        namespace: {key: [version.id for version in versions] for key, versions in keys.items()}
        for namespace, keys in catalogue.items.items()
    }


@pytest.mark.parametrize("seed", range(3))
def test_it_follows_every_edit(ledger: Store, seed: int) -> None:
    """Puts, deletions, prunings, and so many deletions that the entries are moved together."""
    rng, store, catalogues = random.Random(seed), ExpungeStore(ledger, sigma=3.0, nu=0.3), Catalogues()
    namespaces = [("a",), ("a", "b"), ("c",)]
    kept: Version | None = None
    for turn in range(40):
        namespace, key = rng.choice(namespaces), f"k{rng.randrange(30)}"
        kind = rng.choice(["put", "put", "delete", "many", "prune"])
        if kind == "put":
            store.put(namespace, key, {"n": turn})
        elif kind == "delete":
            store.delete(namespace, key)
        elif kind == "many":
            for number in range(5):
                store.put(namespace, f"k{number}", {"n": turn, "at": number})
        elif "langgraph" in ledger:
            ledger["langgraph"].prune("archive")
        if "langgraph" not in ledger:
            continue
        view = ledger["langgraph"].version
        assert content(catalogues.of(view)) == content(Catalogue().after(view))
        # The version before is kept in some turns only, so that the catalogue is made anew in the others.
        kept = view if turn % 3 else None
        del view
    del kept


def test_one_that_is_read_stays_as_it_was(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    store.put(("a",), "k", {"n": 1})
    view = ledger["langgraph"].version
    catalogues = Catalogues()
    first = catalogues.of(view)
    shown = content(first)
    store.put(("a",), "k2", {"n": 2})
    store.delete(("a",), "k")
    after = catalogues.of(ledger["langgraph"].version)
    assert content(first) == shown
    assert list(after.items[("a",)]) == ["k2"]
    # Somebody who read an older version makes its catalogue again.
    assert catalogues.of(view) is not after
    assert catalogues.of(ledger["langgraph"].version).versions(("a",), "k2")


def test_it_goes_with_its_version(ledger: Store) -> None:
    """An edit that was not made through the store leaves no catalogue that names what it erased."""
    store = ExpungeStore(ledger)
    store.put(("memories", "ann"), "Penthesilea", {"n": 1})
    store.put(("memories", "bob"), "k", {"n": 1})
    assert store.get(("memories", "bob"), "k") is not None
    assert store._catalogues._last is not None
    ledger.erase_subject("ann")
    gc.collect()
    assert store._catalogues._last is None
    assert store.list_namespaces() == [("memories", "bob")]


def test_entries_of_others_are_no_items(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    store.put(("a",), "k", {"n": 1})
    point = np.ones(ledger["langgraph"].dimension)
    for name, payload in (("plain", None), ("[]", None), ('[["a"], "k2", 1, 2]', {"text": "no vectors"}), ("7", "x")):
        ledger["langgraph"].admit(point, point, id=name, payload=payload)
    assert [item.key for item in store.search(())] == ["k"]
    assert store.list_namespaces() == [("a",)]


def test_the_newest_version_is_the_item(ledger: Store) -> None:
    """By when it was put, then by when its end was put off, whatever the order of admission."""
    store = ExpungeStore(ledger)
    store.put(("a",), "other", {"n": 0})
    point = np.ones(ledger["langgraph"].dimension)
    for updated, refreshed, number in ((5, 9, 3), (5, 0, 2), (4, 99, 1)):
        name = item_id((("a",), "k"), 1, updated, refreshed)
        assert ItemVersion.of(name, 0, None) is None
        payload = {"value": {"n": number}, "vectors": None}
        ledger["langgraph"].admit(point * number, point, id=name, payload=payload)
    found = store.get(("a",), "k")
    assert found is not None
    assert found.value == {"n": 3}


@pytest.mark.parametrize("dimension", [1, 3, 4, 7, 64, 385])
@pytest.mark.parametrize("distance", ["cosine", "inner_product", "l2"])
def test_scores_are_those_of_numpy(dimension: int, distance: Distance) -> None:
    rng = np.random.default_rng(dimension)
    table, query = rng.standard_normal((20, dimension)), rng.standard_normal(dimension)
    table[3] = 0.0
    rows = np.array([5, 3, 19, 0])
    found = scores(distance, table, rows, query)
    chosen = table[rows]
    if distance == "inner_product":
        expected = chosen @ query
    elif distance == "l2":
        expected = -np.linalg.norm(chosen - query, axis=1)
    else:
        sizes = np.linalg.norm(chosen, axis=1) * np.linalg.norm(query)
        expected = np.divide(chosen @ query, sizes, out=np.zeros(4), where=sizes > 0)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # Each by itself, to the bit: a score tells nothing of the vectors beside it.
    for place, row in enumerate(rows.tolist()):
        alone = scores(distance, np.ascontiguousarray(table[row : row + 1]), np.zeros(1, np.int64), query)
        assert alone[0] == found[place]


@pytest.mark.parametrize("distance", ["cosine", "inner_product", "l2"])
def test_a_search_by_each_distance(ledger: Store, distance: Distance) -> None:
    """An item's score is that of the best of its vectors, live or in the archive."""
    rng = np.random.default_rng(7)
    table = {f"t{number}": (rng.standard_normal(6) * rng.uniform(0.2, 2.0)) for number in range(60)}

    def embed(texts: Any) -> list[list[float]]:
        return [table[text].tolist() for text in texts]

    index: Any = {"dims": 6, "embed": embed, "fields": ["one", "more[*]"], "distance_type": distance}
    store = ExpungeStore(ledger, index=index, sigma=2.0, nu=0.3)
    words = {}
    for number in range(15):
        words[f"k{number}"] = [f"t{3 * number}", f"t{3 * number + 1}", f"t{3 * number + 2}"][: 1 + number % 3]
        first, *more = words[f"k{number}"]
        store.put(("docs",), f"k{number}", {"one": first, "more": more})
    assert ledger["langgraph"].prune("archive").applied
    query = table["t59"]

    def score(text: str) -> float:
        row = table[text]
        if distance == "l2":
            return -float(np.linalg.norm(row - query))
        return float(row @ query) / (
            1.0 if distance == "inner_product" else float(np.linalg.norm(row) * np.linalg.norm(query))
        )

    expected = sorted(((max(map(score, texts)), key) for key, texts in words.items()), reverse=True)
    found = [(item.score, item.key) for item in store.search(("docs",), query="t59", limit=20)]
    assert [key for _, key in found] == [key for _, key in expected]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=1e-12)


def test_an_unknown_distance(ledger: Store) -> None:
    index: Any = {"dims": 6, "embed": lambda texts: [], "distance_type": "hamming"}
    with pytest.raises(InputError, match="cosine, inner_product, l2"):
        ExpungeStore(ledger, index=index)


def test_items_without_a_query_come_newest_first(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    for key in "abc":
        store.put(("docs",), key, {"n": 1})
    store.put(("docs",), "a", {"n": 2})
    assert [item.key for item in store.search(("docs",))] == ["a", "c", "b"]
    assert [item.key for item in store.search(("docs",), filter={"n": 1}, limit=1, offset=1)] == ["b"]


NAMESPACES = [
    ("test", "documents", "public"),
    ("test", "documents", "private"),
    ("test", "images", "public"),
    ("prod", "documents", "some", "nesting", "public"),
    ("prod",),
    ("production", "x"),
    ("star*", "starX"),
    ("user_1",),
    ("userX1",),
    ("users", "alice\n"),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, sorted(NAMESPACES)),
        ({"prefix": ("test",)}, [NAMESPACES[1], NAMESPACES[0], NAMESPACES[2]]),
        ({"prefix": ["prod"]}, [("prod",), NAMESPACES[3]]),
        ({"suffix": ("public",)}, [NAMESPACES[3], NAMESPACES[0], NAMESPACES[2]]),
        ({"prefix": ("*", "documents")}, [NAMESPACES[3], NAMESPACES[1], NAMESPACES[0]]),
        ({"suffix": ("some", "*", "public")}, [NAMESPACES[3]]),
        ({"prefix": ("test",), "suffix": ("public",)}, [NAMESPACES[0], NAMESPACES[2]]),
        ({"prefix": ("test",), "max_depth": 2}, [("test", "documents"), ("test", "images")]),
        ({"max_depth": 1, "limit": 2, "offset": 1}, [("production",), ("star*",)]),
        ({"prefix": ("star*",)}, [("star*", "starX")]),
        ({"prefix": ("user_1",)}, [("user_1",)]),
        ({"suffix": ("alice",)}, []),
        ({"prefix": ("test", "documents", "public", "deeper")}, []),
    ],
)
def test_namespaces(ledger: Store, options: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    store = ExpungeStore(ledger)
    store.batch([PutOp(namespace, "k", {"n": 1}) for namespace in NAMESPACES])
    assert store.list_namespaces(**options) == expected


def test_a_prefix_ends_with_a_label(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    store.batch([PutOp(namespace, "k", {"n": 1}) for namespace in [("foo",), ("foo", "child"), ("foobar",), ("Foo",)]])
    assert {item.namespace for item in store.search(("foo",))} == {("foo",), ("foo", "child")}
    assert store.search(("fo",)) == []
    assert len(store.search(())) == 4
