"""A server for one person: what it answers is what it would answer if there were nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import expunge
from expunge import DeletionRefused, InputError
from expunge.integrations.embedding import words
from expunge.integrations.mcp import Caller, Tools, make_server
from expunge.integrations.mcp.tools import NewNote
from expunge.store import Store
from integrations.mcp_clients import call, fails, run

ANN = ("Ann drinks tea", "Ann's divorce is in court", "Ann and Bob are colleagues", "Ann's bicycle is green")
BOB = ("Bob's PIN is 4471", "Bob's divorce was quick", "Bob drinks coffee, never tea", "Ann, says Bob, is late")
# What the answers to edits have of the ledger, which is that of the whole store, and what is random.
SHARED = {"receipts", "confirm", "summary_leaf", "summary_salt"}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """A store with notes of several people, and its twin with Ann's alone."""
    with ExitStack() as stack:
        made = []
        for name in ("shared", "twin"):
            store = stack.enter_context(expunge.open(f"sqlite:///{tmp_path / name}.db"))
            tools = Tools(store, embed=words)
            for number, text in enumerate(ANN):
                if name == "shared":
                    other = "b-private" if number == 0 else None
                    tools.remember(BOB[number], subject="bob", id=other, metadata={"topic": "secret-topic"})
                    tools.remember(f"nobody's note {number}", id=f"nobody-{number}")
                    tools.remember("Ànn's twin likes tea", subject=f"Ann{' ' * number}", id=f"look-alike-{number}")
                tools.remember(text, subject="ann", id=f"a{number}", metadata={"topic": "tea"})
            if name == "shared":
                tools.remember("of Ann's and Bob's", subject="bob", id="b-derived", derived_from=["a0", "b-private"])
                tools.remember("of Ann's and Bob's", subject="ann", id="a-mixed", derived_from=["a1", "b-private"])
            else:
                tools.remember("of Ann's and Bob's", subject="ann", id="a-mixed", derived_from=["a1"])
            made.append(store)
        yield made[0], made[1]


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    *(("recall", {"query": "who drinks tea?", "mode": mode, "k": 3}) for mode in ("text", "meaning", "hybrid", None)),
    ("recall", {"query": "Bob PIN 4471 secret", "k": 100}),
    ("recall", {"query": "tea", "offset": 3, "k": 1, "mode": "meaning"}),
    ("recall", {"query": "tea", "filter": {"topic": "secret-topic"}}),
    ("recall", {"query": "tea", "filter": {"topic": {"$ne": "tea"}}}),
    ("recall", {"query": "tea", "subject": "ann"}),
    ("get", {"ids": ["a0", "b-private", "nobody-0", "look-alike-1", "a-mixed", "no such id"]}),
    ("list", {}),
    ("list", {"k": 2}),
    ("list", {"k": 2, "after": "a1"}),
    ("list", {"after": "b-"}),
    ("list", {"filter": {"topic": "secret-topic"}}),
    ("forget", {"about": "the divorce"}),
    ("forget", {"about": "Bob's PIN", "k": 100}),
    ("forget", {"about": "Bob's PIN", "filter": {"topic": "secret-topic"}}),
    ("forget", {"ids": ["b-private", "nobody-0", "a0"], "dry_run": True}),
    ("forget", {"ids": ["b-private", "b-derived", "no such id"]}),
    ("forget_subject", {"dry_run": True}),
    ("warranties", {}),
    ("update", {"id": "b-private", "text": "mine now"}),
    ("update", {"id": "b-private", "text": "mine now", "dry_run": True}),
    ("update", {"id": "a0", "derived_from": ["b-private"]}),
    ("remember", {"text": "x", "derived_from": ["b-private"]}),
    ("remember", {"text": "x", "derived_from": ["b-private"], "dry_run": True}),
    ("remember", {"text": "x", "id": "b-private"}),
    ("remember", {"text": "x", "id": "free"}),
    ("remember", {"text": "x", "dry_run": True}),
    *(
        (tool, {"subject": subject} | arguments)
        for subject in ("bob", "Ann", "ann ", "", "*", "%", "ann\x00", "Ànn")
        for tool, arguments in (
            ("recall", {"query": "tea"}),
            ("list", {}),
            ("get", {"ids": ["b-private"]}),
            ("forget", {"ids": ["b-private"]}),
            ("forget", {"about": "PIN"}),
            ("forget_subject", {}),
            ("remember", {"text": "x"}),
            ("update", {"id": "b-private", "text": "x"}),
            ("warranties", {}),
        )
    ),
    ("remember", {"notes": [{"text": "mine"}, {"text": "his", "subject": "bob"}]}),
    # Edits of Ann's own, and the questions after them.
    ("remember", {"text": "one more of Ann's"}),
    ("recall", {"query": "one more", "k": 100, "mode": "hybrid"}),
    ("forget", {"ids": ["a0"]}),
    ("recall", {"query": "tea"}),
    ("forget_subject", {}),
    ("list", {}),
]


def plain(told: Any, names: dict[str, str]) -> Any:
    """An answer without what is shared or random; ids that were made are numbered."""
    if isinstance(told, dict):
        return {key: plain(part, names) for key, part in told.items() if key not in SHARED}
    if isinstance(told, list):
        return [plain(part, names) for part in told]
    if isinstance(told, str) and len(told) == 32 and told.isalnum():
        return names.setdefault(told, f"made {len(names)}")
    return told


def test_every_answer_is_that_of_a_store_without_the_others(stores: tuple[Store, Store]) -> None:
    shared, _ = stores

    async def answers(store: Store) -> list[Any]:
        names: dict[str, str] = {}
        given = []
        async with Client(make_server(store, embed=words, subject="ann")) as client:
            for tool, arguments in QUESTIONS:
                answer: Any = await client.call_tool(tool, arguments)
                told = answer.content[0].text if answer.is_error else plain(answer.structured_content, names)
                given.append((answer.is_error, told))
        return given

    before = {note.id for note in Tools(shared, embed=words).list_notes(k=100).notes}
    found = [run(answers(store)) for store in stores]
    for question, mine, twin in zip(QUESTIONS, *found, strict=True):
        assert mine == twin, question
        if "4471" not in str(question):
            assert "4471" not in str(mine), question
    # Nobody else's note is gone, but for the one that was made from Ann's.
    after = {note.id for note in Tools(shared, embed=words).list_notes(k=100).notes}
    assert before - after == {"a0", "a1", "a2", "a3", "a-mixed", "b-derived"}
    assert after < before
    for store in stores:
        store.verify()


def test_no_tool_tells_whether_an_id_or_a_subject_is_there(stores: tuple[Store, Store]) -> None:
    async def work() -> None:
        async with Client(make_server(stores[0], embed=words, subject="ann")) as client:
            for tool, there, nowhere in (
                ("get", {"ids": ["b-private"]}, {"ids": ["b-nowhere"]}),
                ("forget", {"ids": ["b-private"]}, {"ids": ["b-nowhere"]}),
                ("update", {"id": "b-private", "text": "x"}, {"id": "b-nowhere", "text": "x"}),
                ("remember", {"text": "x", "id": "b-private"}, {"text": "x", "id": "b-nowhere"}),
                (
                    "remember",
                    {"text": "x", "derived_from": ["b-private"]},
                    {"text": "x", "derived_from": ["b-nowhere"]},
                ),
                ("forget_subject", {"subject": "bob"}, {"subject": "tom"}),
                ("list", {"subject": "bob"}, {"subject": "tom"}),
            ):
                answers = [str(await client.call_tool(tool, arguments)) for arguments in (there, nowhere)]
                known = answers[0].replace("b-private", "b-nowhere").replace("bob", "tom")
                assert known == answers[1], tool

    run(work())


def test_what_goes_or_stays_of_others_is_not_told(stores: tuple[Store, Store]) -> None:
    """A note of Bob's that was made from Ann's goes with hers; where a hold keeps it, her server does not say whose."""
    shared, _ = stores
    bound = Tools(shared, embed=words, subject="ann")
    hold = shared.hold("notes", reason="Bob's lawsuit", id="b-derived")
    tried: list[Any] = [
        bound.forget(["a0"], dry_run=True),
        bound.forget_subject(dry_run=True),
        bound.update("a0", "x", dry_run=True),
    ]
    for told in tried:
        assert told.refused
        assert not {"lawsuit", "b-derived", "bob", "others"} & set(re.findall(r"[\w-]+", str(told)))
    for act in (lambda: bound.forget(["a0"]), lambda: bound.update("a0", text="x")):
        with pytest.raises(DeletionRefused) as caught:
            act()
        assert not {"lawsuit", "b-derived"} & set(re.findall(r"[\w-]+", str(caught.value)))
    assert bound.forget_subject().complete is False
    shared.release(hold)
    gone = bound.forget_subject()
    assert (gone.complete, gone.entries, gone.refused) == (True, len(ANN) + 1, [])
    assert Tools(shared, embed=words).get(["b-derived", "b-private"]).missing == ["b-derived"]
    shared.verify()


def test_receipts_of_others_are_not_checked_by_number(stores: tuple[Store, Store]) -> None:
    async def work() -> None:
        async with Client(make_server(stores[0], embed=words, subject="ann")) as client:
            for leaf in (0, 1, 5):
                assert (await fails(client, "verify_receipt", leaf=leaf)).startswith("forbidden")
            kept = await call(client, "remember", text="mine")
            leaf = kept["receipts"][0]["leaf"]
            assert (await call(client, "verify_receipt", leaf=leaf))["verified"]
            assert (await fails(client, "verify_receipt", leaf=leaf + 1)).startswith("forbidden")
            text = stores[0].leaf(0).envelope.decode()
            assert (await call(client, "verify_receipt", receipt=text))["verified"]

    run(work())


def test_a_token_of_a_preview_is_of_one_server_and_one_caller(stores: tuple[Store, Store]) -> None:
    shared, _ = stores
    ann, bob = (Tools(shared, embed=words, subject=name) for name in ("ann", "bob"))
    shown = ann.forget(about="divorce")
    assert shown.confirm is not None
    with pytest.raises(expunge.StoreError, match="confirms nothing"):
        bob.forget(confirm=shown.confirm)
    scopes = frozenset({"read", "erase"})
    first, second = (ann.acting_for(Caller(name, scopes)) for name in ("first", "second"))
    token = first.forget(about="divorce").confirm
    for other in (second, ann):
        with pytest.raises(expunge.StoreError, match="confirms nothing"):
            other.forget(confirm=token)
    assert set(first.forget(confirm=token).ids) == {"a1", "a-mixed"}
    assert Tools(shared, embed=words).get(["b-private"]).missing == []


def test_a_server_that_requires_a_subject(stores: tuple[Store, Store]) -> None:
    tools = Tools(stores[0], embed=words, require_subject=True)
    for act in (
        lambda: tools.recall("tea"),
        lambda: tools.get(["a0"]),
        lambda: tools.list_notes(),
        lambda: tools.remember("x"),
        lambda: tools.update("a0", text="x"),
        lambda: tools.forget(ids=["a0"]),
        lambda: tools.forget(about="tea"),
        lambda: tools.forget_subject(),
        lambda: tools.warranties(),
    ):
        with pytest.raises(InputError, match="subject"):
            act()
    assert tools.get(["a0", "b-private"], subject="ann").missing == ["b-private"]
    assert tools.forget(["b-private"], subject="ann").ids == []
    with pytest.raises(InputError, match="not there"):
        tools.remember("x", subject="ann", derived_from=["b-private"])
    assert tools.remember("x", subject="ann", derived_from=["a0"]).notes == len(ANN) + 2
    # Each note says whose it is: what is told of is theirs, and a note that does not is refused with all the others.
    named = [NewNote("tea", subject="dan"), NewNote("trains", subject="eve"), NewNote("walks", subject="dan")]
    assert tools.remember(notes=named[:2], dry_run=True).notes == 0
    assert tools.remember(notes=named).notes == 3
    leaves = stores[0].size
    with pytest.raises(InputError, match="subject"):
        tools.remember(notes=[*named, NewNote("whose?")])
    assert stores[0].size == leaves


def test_a_token_of_one_memory_reaches_no_other(stores: tuple[Store, Store]) -> None:
    shared, _ = stores
    Tools(shared, memory="others", embed=words).remember("elsewhere", subject="ann")
    elsewhere = shared.size - 1
    caller = Caller("0123456789ab", frozenset({"read", "write", "erase"}), whole_store=False)
    tools = Tools(shared, embed=words).acting_for(caller)
    with pytest.raises(InputError, match="whole store"):
        tools.forget_subject("ann")
    assert tools.verify_receipt(leaf=0).verified
    for leaf in (elsewhere, 10_000):
        with pytest.raises(InputError):
            tools.verify_receipt(leaf=leaf)
    made = tools.remember("mine")
    case = shared.case_of(made.receipts[0].leaf)
    assert case is not None
    assert case.actor == caller.name
