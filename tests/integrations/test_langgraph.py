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
from expunge.integrations.embedding import Embedder, words
from expunge.integrations.langgraph import EmbedderIndexConfig, ExpungeStore, ItemReceipt
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


def test_a_batch_is_one_edit(ledger: Store) -> None:
    """All new versions have one receipt, which is told for each item; what they replace goes in one more."""
    heard: list[ItemReceipt] = []
    store = ExpungeStore(ledger, on_receipt=heard.append)

    def told() -> list[tuple[str, str]]:
        found = [(receipt.key, receipt.edit.outcome) for receipt in heard]
        heard.clear()
        return found

    namespace = ("memories", "ann")
    store.batch([PutOp(namespace, key, {"text": key}) for key in "abc"])
    assert told() == [(key, "created") for key in "abc"]
    assert [leaf.kind for leaf in ledger.receipts()] == ["created"]
    changes: list[tuple[str, dict[str, str] | None]] = [("a", None), ("b", {"text": "new"}), ("d", {"text": "d"})]
    store.batch([PutOp(namespace, key, value) for key, value in changes])
    admitted, erased = told()[:2], ledger.receipts()[2]
    assert admitted == [("b", "admitted"), ("d", "admitted")]
    assert parse_predicate(erased.statement).applied.count == 2
    assert ledger.size == 3
    assert {item.key: item.value["text"] for item in store.search(())} == {"b": "new", "c": "c", "d": "d"}
    store.batch([PutOp(namespace, key, None) for key in "bcd"])
    assert sorted(told()) == [(key, "emptied") for key in "bcd"]
    assert store.search(()) == []
    store.put(namespace, "e", {"text": "e"})
    assert told() == [("e", "admitted")]
    ledger.verify()


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


def test_receipts_name_nothing_that_went_elsewhere(ledger: Store) -> None:
    store = ExpungeStore(ledger, index=INDEX)
    store.put(("memories", "ann"), "tea", {"text": "green tea"})
    (source,) = ledger["langgraph"].ids
    facts = ledger.create("facts", [[0.0], [1.0]], [[0.0], [1.0]], sigma=1.0, nu=1.0)
    facts.admit([0.5], [0.5], id="fact-Penthesilea", derived_from=[("langgraph", source)])
    store.delete(("memories", "ann"), "tea")
    assert "fact-Penthesilea" not in facts
    gc.collect()
    assert [text for text in strings_reached_from(store.receipts) if "Penthesilea" in text] == []


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
    assert store.erase_subject("bob").count == 0


def test_forgetting_most_items_and_the_only_ones_elsewhere(ledger: Store) -> None:
    """Eight of 20 items cannot keep the cap, so they are fitted afresh; a memory of one person alone is empty then."""
    store = ExpungeStore(ledger, nu=1.0)
    puts = [PutOp(("memories", "ann" if number < 12 else "bob"), f"k{number}", {"n": number}) for number in range(20)]
    store.batch(puts)
    point = [[0.0, 1.0], [1.0, 0.0]]
    ledger.create("elsewhere", point, point, subjects=["ann", "ann"], nu=1.0)
    done = store.erase_subject("ann")
    assert (done.complete, done.count) == (True, 14)
    assert {part.memory: part.outcome for part in done.summary.memories} == {
        "langgraph": "refitted",
        "elsewhere": "emptied",
    }
    for part in done.summary.memories:
        assert part.receipt is not None
        stated = parse_predicate(ledger.leaf(part.receipt.index).statement)
        assert len(stated.applied.commitments) == len(part.applied)
    assert (len(ledger["elsewhere"]), len(store.search(("memories",), limit=20))) == (0, 8)
    assert store.search(("memories", "ann")) == []
    store.put(("memories", "ann"), "k0", {"n": 0})
    assert len(store.search(("memories", "ann"))) == 1
    ledger.verify()


def test_receipts_of_an_erased_subject(ledger: Store) -> None:
    """Each memory's receipt, the summary and a rebuild are on the side channel, and told for each erased item."""
    heard: list[ItemReceipt] = []
    store = ExpungeStore(ledger, on_receipt=heard.append)
    for number in range(4):
        store.put(("memories", "ann" if number % 2 else "bob"), f"k{number}", {"text": str(number)})
    point = [[0.0, 1.0], [1.0, 0.0]]
    ledger.create("elsewhere", point, point, subjects=["ann", None], nu=1.0)
    heard.clear()
    store.receipts.clear()
    done = store.erase_subject("ann")
    receipts = {part.memory: part.receipt for part in done.summary.memories}
    here, there = receipts["langgraph"], receipts["elsewhere"]
    assert here is not None
    assert there is not None
    assert done.summary.index is not None
    # A memory's own kind of outcome, then the summary, then what follows in this one.
    kept = {edit.index: edit.outcome for edit in store.receipts}
    assert kept.keys() >= {here.index, there.index, done.summary.index}
    assert kept[done.summary.index] == "subject_erased" == ledger.leaf(done.summary.index).kind
    assert all(edit.applied == () for edit in store.receipts)
    told = [(receipt.key, receipt.edit.index) for receipt in heard]
    assert {key for key, _ in told} == {"k1", "k3"}
    for index in (here.index, done.summary.index, *(edit.index for edit in done.edits)):
        assert [key for key, at in told if at == index] == ["k1", "k3"]
    assert there.index not in {at for _, at in told}
    assert store.erase_subject("ann").count == 0
    assert len(heard) == len(told)


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


def test_a_filter_names_a_path_with_dots(ledger: Store) -> None:
    """The name that is there as it is written comes first; without one the dots part the names of a path."""
    store, here = ExpungeStore(ledger), ("memories", "ann")
    store.put(here, "deep", {"user": {"access-level": "admin", "age": {"in.years": 41}}})
    store.put(here, "flat", {"user.access-level": "guest", "user": {"access-level": "admin"}})
    store.put(here, "none", {"user": "admin"})

    def found(wanted: dict[str, Any]) -> set[str]:
        return {item.key for item in store.search(here, filter=wanted)}

    assert found({"user.access-level": "admin"}) == {"deep"}
    assert found({"user.access-level": "guest"}) == {"flat"}
    assert found({"user.age.in.years": {"$gt": 40}}) == {"deep"}
    assert found({"user.access-level": {"$ne": "admin"}}) == {"flat", "none"}
    assert found({"user.name": None, "user.access-level": "admin"}) == {"deep"}


def test_items_of_another_embedder_are_refused(ledger: Store) -> None:
    """The name and the digest of an `Embedder` are those of the memory; of a plain function nothing is known."""
    mine = Embedder("mine", "a" * 64, embed)
    index: EmbedderIndexConfig = {"dims": 32, "embed": mine, "fields": ["text"]}
    store = ExpungeStore(ledger, index=index)
    store.put(("memories", "ann"), "tea", {"text": "green tea"})
    identity = ledger["langgraph"].embedder
    assert identity is not None
    assert (identity.name, identity.digest) == ("mine", "a" * 64)
    again = ExpungeStore(ledger, index={"dims": 32, "embed": Embedder("mine", "a" * 64, embed)})
    assert [item.key for item in again.search((), query="tea")] == ["tea"]
    for other in (Embedder("mine", "b" * 64, embed), Embedder("other", "a" * 64, embed)):
        with pytest.raises(InputError) as caught:
            ExpungeStore(ledger, index={"dims": 32, "embed": other})
        assert caught.value.code == "embedder-mismatch"
    # One that was opened before there was anything is refused when it is used.
    early = ExpungeStore(ledger, memory="later", index={"dims": 32, "embed": Embedder("other", None, embed)})
    ExpungeStore(ledger, memory="later", index=index).put(("memories", "ann"), "tea", {"text": "green tea"})
    for act in (
        lambda: early.put(("memories", "ann"), "more", {"text": "tea"}),
        lambda: early.search((), query="tea"),
    ):
        with pytest.raises(InputError) as caught:
            act()
        assert caught.value.code == "embedder-mismatch"
    assert len(ExpungeStore(ledger, memory="later", index=INDEX).search((), query="tea")) == 1


@pytest.mark.parametrize("index", [{"fields": ["a"]}, {"text_fields": ["a"]}, {"text_fields": "a"}])
def test_fields_of_the_index_by_both_of_langgraphs_words(ledger: Store, index: Any) -> None:
    named: Any = {"dims": 32, "embed": embed, **index}
    store = ExpungeStore(ledger, index=named)
    store.put(("x",), "k", {"a": "green tea", "b": "noon train"})
    (item,) = store.search(("x",), query="green tea")
    assert item.score == pytest.approx(1.0)
