"""The LangGraph store beside LangGraph's own `InMemoryStore`, sync and async, and what only this one has: receipts."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, cast

import pytest
from langgraph.store.base import (
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import expunge
from expunge import DeletionRefused, InputError, StoreError
from expunge.integrations.embedding import words
from expunge.integrations.langgraph import ExpungeStore, ItemReceipt
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.store import Store


def embed(texts: Sequence[str]) -> list[list[float]]:
    return cast(list[list[float]], words(texts, 32).tolist())


INDEX: IndexConfig = {"dims": 32, "embed": embed, "fields": ["text", "tags[*]"]}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        yield store


@pytest.fixture(params=["plain", "indexed"])
def both(request: pytest.FixtureRequest, ledger: Store) -> tuple[ExpungeStore, InMemoryStore]:
    index = INDEX if request.param == "indexed" else None
    return ExpungeStore(ledger, index=index), InMemoryStore(index=index)


def tidy(reference: InMemoryStore) -> None:
    """Take away what the reference lists though nothing is in it (deviation 2)."""
    for namespace in [namespace for namespace, items in reference._data.items() if not items]:
        del reference._data[namespace]


def shown(item: Any) -> Any:
    return None if item is None else (item.namespace, item.key, item.value)


WORDS = ["tea", "green", "train", "noon", "office", "peanut", "garden", "violin"]


def some_value(rng: random.Random) -> dict[str, Any]:
    return {
        "text": " ".join(rng.choices(WORDS, k=3)),
        # Never the same text twice in a batch, nor an empty list: the reference cannot tell which vector is whose.
        "tags": [f"{rng.choice(WORDS)} {rng.random()}" for _ in range(2)],
        "score": rng.randrange(5),
        "kind": rng.choice(["a", "b", None]),
        "deep": {"n": rng.randrange(3), "list": [1, {"x": rng.randrange(2)}]},
    }


NAMESPACES = [("users", "ann"), ("users", "bob"), ("users", "ann", "old"), ("docs",), ("a/b",), ("a", "b")]
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"kind": "a"},
    {"kind": None},
    {"score": {"$gt": 2}},
    {"score": {"$gte": 1, "$lt": 4}, "kind": {"$ne": "b"}},
    {"score": {"$lte": 0}},
    {"score": {"$eq": 3}},
    {"deep": {"n": 1}},
    {"deep": {"list": [1, {"x": 1}]}},
    {"missing": 1},
]


def some_op(rng: random.Random) -> Op:
    namespace, key = rng.choice(NAMESPACES), rng.choice(["k1", "k2", "ü/…", "k@3"])
    kind = rng.choice(["put", "put", "put", "delete", "get", "search", "list"])
    if kind == "put":
        return PutOp(namespace, key, some_value(rng))
    if kind == "delete":
        return PutOp(namespace, key, None)
    if kind == "get":
        return GetOp(namespace, key)
    if kind == "search":
        prefix = namespace[: rng.randrange(len(namespace) + 1)]
        query = rng.choice([None, "green tea", "violin in the garden"])
        return SearchOp(prefix, rng.choice(FILTERS), limit=1000, query=query)
    condition = rng.choice(
        [
            (),
            (MatchCondition("prefix", ("users",)),),
            (MatchCondition("prefix", ("*", "ann")),),
            (MatchCondition("suffix", ("b",)),),
            (MatchCondition("prefix", ("users", "*")), MatchCondition("suffix", ("old",))),
        ]
    )
    return ListNamespacesOp(condition, rng.choice([None, 1, 2]), limit=rng.choice([100, 2]), offset=rng.choice([0, 1]))


def same(op: Op, ours: Any, theirs: Any) -> None:
    if isinstance(op, SearchOp):
        by_name = {(item.namespace, item.key): item for item in theirs}
        assert [item.namespace for item in ours if (item.namespace, item.key) not in by_name] == []
        assert len(ours) == len(theirs)
        for item in ours:
            other = by_name[item.namespace, item.key]
            assert shown(item) == shown(other)
            assert item.score == (other.score if other.score is None else pytest.approx(other.score, abs=1e-12))
        scores = [item.score for item in ours if item.score is not None]
        assert scores == sorted(scores, reverse=True)
    elif isinstance(op, GetOp):
        assert shown(ours) == shown(theirs)
    else:
        assert ours == theirs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", ["sync", "async"])
def test_random_batches_beside_the_reference(
    both: tuple[ExpungeStore, InMemoryStore], ledger: Store, seed: int, way: str
) -> None:
    ours, theirs = both
    rng = random.Random(seed)
    for _ in range(12):
        ops = [some_op(rng) for _ in range(rng.randrange(1, 5))]
        for op in ops:
            if isinstance(op, PutOp):
                # Deviation 3: the reference keeps vectors of fields that are gone.
                theirs._vectors[op.namespace].pop(op.key, None)
        tidy(theirs)
        expected = theirs.batch(ops)
        found = ours.batch(ops) if way == "sync" else asyncio.run(ours.abatch(ops))
        for op, mine, other in zip(ops, found, expected, strict=True):
            same(op, mine, other)
    tidy(theirs)
    everything = SearchOp((), limit=1000)
    same(everything, ours.batch([everything])[0], theirs.batch([everything])[0])
    assert ours.list_namespaces() == theirs.list_namespaces()
    # Every put and deletion is in the ledger, and nothing of old versions is left in the memory.
    assert len(ours.notebook) == len(ours.search((), limit=1000))
    ledger.verify()


def test_the_verbs(both: tuple[ExpungeStore, InMemoryStore]) -> None:
    for store in both:
        store.put(("users", "ann"), "prefs", {"theme": "dark", "text": "x"})
        first = store.get(("users", "ann"), "prefs")
        assert first is not None
        assert first.value["theme"] == "dark"
        store.put(("users", "ann"), "prefs", {"theme": "light", "text": "y"})
        second = store.get(("users", "ann"), "prefs")
        assert second is not None
        assert second.value["theme"] == "light"
        assert second.updated_at >= first.updated_at
        assert store.get(("users", "ann"), "none") is None
        store.delete(("users", "ann"), "prefs")
        store.delete(("users", "ann"), "prefs")
        assert store.get(("users", "ann"), "prefs") is None
        assert store.search(("users",)) == []
    ours, _ = both
    ours.put(("x",), "k", {"text": "one"})
    made = ours.get(("x",), "k")
    ours.put(("x",), "k", {"text": "two"})
    again = ours.get(("x",), "k")
    assert made is not None
    assert again is not None
    assert again.created_at == made.created_at <= made.updated_at < again.updated_at
    for wrong in ((), ("a.b",), ("",), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            ours.put(wrong, "k", {})
    with pytest.raises(InvalidNamespaceError):
        ours.batch([GetOp(("a.b",), "k")])
    with pytest.raises(NotImplementedError):
        ours.put(("x",), "k", {}, ttl=5)
    with pytest.raises(ValueError, match="Unknown operation"):
        ours.batch([cast(Op, "put")])
    with pytest.raises(ValueError, match="Unsupported operator"):
        ours.search((), filter={"text": {"$like": "t"}})


def test_the_async_verbs(ledger: Store) -> None:
    async def work() -> None:
        async def later(texts: Sequence[str]) -> list[list[float]]:
            await asyncio.sleep(0)
            return embed(texts)

        store = ExpungeStore(ledger, index={"dims": 32, "embed": later, "fields": ["text"]})
        await asyncio.gather(*(store.aput(("m", f"u{n % 2}"), f"k{n}", {"text": WORDS[n]}) for n in range(6)))
        assert (await store.asearch(("m",), query="garden", limit=1))[0].score is not None
        item = await store.aget(("m", "u1"), "k3")
        assert item is not None
        assert item.value == {"text": "noon"}
        await store.adelete(("m", "u1"), "k3")
        assert await store.aget(("m", "u1"), "k3") is None
        assert await store.alist_namespaces(prefix=("m",)) == [("m", "u0"), ("m", "u1")]

    asyncio.run(work())
    ledger.verify()


def test_search_pages_from_scored_to_unscored_items(ledger: Store) -> None:
    store = ExpungeStore(ledger, index=INDEX)
    for number, word in enumerate(WORDS):
        store.put(("docs",), f"k{number}", {"text": word}, index=None if number % 2 else False)
    pages = [store.search(("docs",), query="violin", limit=3, offset=start) for start in (0, 3, 6)]
    assert [item.score is None for page in pages for item in page] == [False] * 4 + [True] * 4
    assert len({item.key for page in pages for item in page}) == 8
    assert pages[0][0].value == {"text": "violin"}
    # Indexed by other fields than the store's, and not at all any more.
    store.put(("docs",), "k1", {"text": "zebra", "title": "violin"}, index=["title"])
    assert {item.key for item in store.search((), query="violin", limit=2)} == {"k1", "k7"}
    store.put(("docs",), "k1", {"text": "violin"}, index=False)
    assert [item.score for item in store.search((), query="violin", limit=100) if item.key == "k1"] == [None]


def test_an_update_leaves_the_cap(ledger: Store) -> None:
    """For a moment there are four versions, for which the cap is another: nothing is rebuilt for it."""
    store = ExpungeStore(ledger)
    for key in ("a", "b", "c", "a"):
        store.put(("memories", "ann"), key, {"text": f"the text of {key}"})
    assert [edit.outcome for edit in store.receipts][:4] == ["created", "admitted", "admitted", "admitted"]
    assert len(store.receipts) == 5
    assert ledger["langgraph"].cap == 1.0


def test_receipts_on_the_side(ledger: Store) -> None:
    heard: list[ItemReceipt] = []
    store = ExpungeStore(ledger, on_receipt=heard.append)
    store.put(("memories", "ann"), "tea", {"text": "green tea"})
    store.put(("memories", "ann"), "tea", {"text": "black tea"})
    store.put(("memories", "bob"), "train", {"text": "noon"})
    store.delete(("memories", "bob"), "train")
    assert [(edit.outcome, edit.index) for edit in store.receipts] == [
        (receipt.edit.outcome, receipt.edit.index) for receipt in heard
    ]
    outcomes = [(receipt.key, receipt.edit.outcome) for receipt in heard]
    assert outcomes[:2] == [("tea", "created"), ("tea", "admitted")]
    for receipt in heard:
        leaf = ledger.leaf(receipt.edit.index)
        assert leaf.kind == receipt.edit.outcome
        assert parse_predicate(leaf.statement).outcome == receipt.edit.outcome
    assert [receipt.namespace for receipt in heard if receipt.key == "train"][-1] == ("memories", "bob")


def strings_reached_from(root: object) -> Iterator[str]:
    """Every text, and the text of all bytes, that the process reaches from an object; classes and modules aside."""
    seen: set[int] = set()
    left = [root]
    while left:
        found = left.pop()
        if id(found) in seen or isinstance(found, type | ModuleType | FunctionType | BuiltinFunctionType | FrameType):
            continue
        seen.add(id(found))
        if isinstance(found, str):
            yield found
        elif isinstance(found, bytes | bytearray | memoryview):
            yield bytes(found).decode("latin-1")
        left += gc.get_referents(found)


@pytest.mark.parametrize("how", ["delete", "update", "erase_subject"])
def test_nothing_of_an_erased_item_is_kept_in_the_process(ledger: Store, how: str) -> None:
    """Neither its key and namespace nor its value: not in the receipts, not in the catalogue of items."""
    store = ExpungeStore(ledger, index=INDEX)
    store.put(("memories", "bob"), "train", {"text": "noon"})
    store.put(("memories", "user-Penthesilea"), "key-Penthesilea", {"text": "value-Penthesilea"})
    assert len(store.search(("memories",), query="noon")) == 2
    assert any("Penthesilea" in text for text in strings_reached_from(store))
    if how == "delete":
        store.delete(("memories", "user-Penthesilea"), "key-Penthesilea")
    elif how == "update":
        store.put(("memories", "user-Penthesilea"), "key-Penthesilea", {"text": "other"})
    else:
        store.erase_subject("user-Penthesilea")
    word = "value-Penthesilea" if how == "update" else "Penthesilea"
    gc.collect()
    assert [text for text in strings_reached_from(store) if word in text] == []
    assert store.receipts


def test_forgetting_a_user(ledger: Store) -> None:
    store = ExpungeStore(ledger, index=INDEX)
    for user in ("ann", "bob"):
        for number in range(4):
            store.put(("memories", user), f"k{number}", {"text": f"{user} {WORDS[number]}"})
    done = store.erase_subject("ann")
    assert (done.complete, done.count) == (True, 4)
    assert store.search(("memories", "ann")) == []
    assert len(store.search(("memories",), query="ann tea")) == 4
    assert store.list_namespaces() == [("memories", "bob")]
    assert store.erase_subject("bob").count == 4
    assert store.list_namespaces() == []
    with pytest.raises(InputError):
        store.erase_subject("bob")


def test_what_is_pruned_aside_is_still_an_item(ledger: Store) -> None:
    store = ExpungeStore(ledger, index=INDEX, sigma=3.0, nu=0.3)
    for number in range(20):
        store.put(("docs",), f"k{number}", {"text": f"{WORDS[number % 8]} {number % 3}"})
    assert ledger["langgraph"].prune("archive").applied
    assert len(store.search(("docs",), limit=100)) == 20
    assert all(store.get(("docs",), f"k{number}") for number in range(20))
    for number in range(20):
        store.delete(("docs",), f"k{number}")
    assert store.list_namespaces() == []


def test_a_held_item_is_not_erased(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    store.put(("memories", "ann"), "k", {"text": "one"})
    store.put(("memories", "bob"), "k", {"text": "two"})
    ledger.hold("langgraph", subject="ann", reason="court")
    with pytest.raises(DeletionRefused, match="court"):
        store.delete(("memories", "ann"), "k")
    assert store.get(("memories", "ann"), "k") is not None
    # An update would erase the version before it.
    told = list(store.receipts)
    with pytest.raises(DeletionRefused, match="court"):
        store.put(("memories", "ann"), "k", {"text": "three"})
    held = store.get(("memories", "ann"), "k")
    assert held is not None
    assert held.value == {"text": "one"}
    assert len(ledger["langgraph"]) == 2
    assert list(store.receipts) == told
    store.put(("memories", "bob"), "k", {"text": "four"})
    store.put(("memories", "ann"), "other", {"text": "five"})


def test_a_receipt_is_told_though_the_next_step_fails(ledger: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ExpungeStore(ledger)
    store.put(("memories", "ann"), "k", {"text": "one"})

    def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(store.notebook, "erase", broken)
    with pytest.raises(StoreError):
        store.put(("memories", "ann"), "k", {"text": "two"})
    assert [edit.index for edit in store.receipts] == [0, 1]
    found = store.get(("memories", "ann"), "k")
    assert found is not None
    assert found.value == {"text": "two"}


def test_a_listener_that_fails_leaves_no_old_version(ledger: Store) -> None:
    def deaf(_: ItemReceipt) -> None:
        raise OSError("nobody listens")

    for text in ("one", "two"):
        with pytest.raises(OSError, match="nobody"):
            ExpungeStore(ledger, on_receipt=deaf).put(("memories", "ann"), "k", {"text": text})
    assert len(ledger["langgraph"]) == 1


def test_bad_values_and_embeddings(ledger: Store) -> None:
    store = ExpungeStore(ledger)
    with pytest.raises(InputError):
        store.put(("x",), "k", {"bad": object()})
    with pytest.raises(InputError):
        store.put(("x",), "k", {"bad": float("nan")})
    assert ledger.size == 0
    for rows in ([[1.0]], [], [[float("inf")] * 32], [[1.0] * 31]):
        broken = ExpungeStore(ledger, index={"dims": 32, "embed": lambda texts, rows=rows: rows, "fields": ["text"]})
        with pytest.raises(InputError):
            broken.put(("x",), "k", {"text": "a"})
    assert ledger.size == 0


def test_many_hands(ledger: Store, tmp_path: Path) -> None:
    """Threads and a second handle put and delete the same keys; each ends with what somebody put last."""
    problems: list[BaseException] = []

    def work(hand: int) -> None:
        try:
            with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as mine:
                store = ExpungeStore(mine)
                for number in range(6):
                    store.put(("shared",), f"k{number % 2}", {"hand": hand, "number": number})
                    store.put((f"own-{hand}",), f"k{number}", {"number": number})
                    if number % 3 == 2:
                        store.delete((f"own-{hand}",), f"k{number}")
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(hand,)) for hand in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    store = ExpungeStore(ledger)
    assert sorted(item.key for item in store.search(("shared",))) == ["k0", "k1"]
    for hand in range(3):
        found = {item.key: item.value["number"] for item in store.search((f"own-{hand}",))}
        assert found == {f"k{number}": number for number in (0, 1, 3, 4)}
    ledger.verify()
