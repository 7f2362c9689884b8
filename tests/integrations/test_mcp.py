"""The tools of the MCP server, used by the official client over the protocol, in process."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

import expunge
from cli.command_runner import call as run_command
from expunge import InputError, MissingExtra
from expunge.integrations.embedding import words
from expunge.integrations.mcp import Tools, make_server
from expunge.integrations.mcp.background import working
from expunge.integrations.mcp.note_fields import MAX_ANSWER, MAX_TEXT
from expunge.ledger.note import NoteKey
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import VerifyingKey
from expunge.store import Store
from expunge.store.stored_memory import StoredMemory
from expunge.verify import verify_inclusion, verify_receipt
from integrations.mcp_clients import call, fails, run
from store.plain_families import Clock

TOOLS = {
    "remember": "text",
    "recall": "query",
    "get": "ids",
    "list": "subject",
    "update": "id",
    "forget": "ids",
    "forget_subject": "subject",
    "warranties": "subject",
    "verify_receipt": "leaf",
}
# Texts that a server which parses arguments as JSON would take for something else.
LOOK_LIKE_JSON = ["null", "true", "123", "1e3", '{"a": 1}', "[1]", '["a"]', '"quoted"', "NaN", "[]"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        yield store


def client_of(store: Store, **options: Any) -> Client:
    return Client(make_server(store, **({"embed": words} | options)))


def texts(answer: dict[str, Any]) -> list[str]:
    return [note["text"] for note in answer["notes"]]


async def day_of_an_agent(client: Any) -> None:
    """What an agent does for two users, from an empty memory to one that was asked to forget."""
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS.keys()
    assert (await call(client, "recall", query="anything"))["notes"] == []
    tea = await call(client, "remember", text="Ada prefers green tea in the morning", subject="ada")
    assert (tea["notes"], tea["receipts"]) == (1, [{"outcome": "created", "leaf": 0}])
    several: list[dict[str, Any]] = [
        {"text": "Ada's divorce hearing is in June", "metadata": {"topic": "law"}},
        {"text": "The divorce lawyer is Ms. Keller", "metadata": {"topic": "law"}, "expires": "30d"},
        {"text": "Ben is allergic to peanuts", "subject": "ben", "id": "allergy"},
        {"text": "Ben's divorce was last year", "subject": "ben"},
    ]
    kept = await call(client, "remember", notes=several, subject="ada")
    assert (len(kept["ids"]), kept["ids"][2], kept["receipts"][0]["outcome"]) == (4, "allergy", "admitted")
    summary = await call(
        client, "remember", text="In short: a separation, in court", subject="ada", derived_from=kept["ids"][:2]
    )
    # Scoped: a search for one user sees nothing of the other.
    found = await call(client, "recall", query="the divorce", subject="ada")
    assert set(texts(found)) == {several[0]["text"], several[1]["text"]}
    law = await call(client, "recall", query="the lawyer", subject="ada", filter={"topic": "law"}, k=1)
    assert texts(law) == [several[1]["text"]]
    # By meaning: shown, agreed to, erased, with what was made from it.
    shown = await call(client, "forget", about="everything about the divorce", subject="ada")
    assert (shown["erased"], shown["receipts"]) == (False, [])
    assert {note["text"] for note in shown["preview"]} == {*texts(found), "In short: a separation, in court"}
    assert all(0 < note["similarity"] <= 1 for note in shown["preview"])
    gone = await call(client, "forget", confirm=shown["confirm"])
    assert (gone["erased"], sorted(gone["ids"])) == (True, sorted([*kept["ids"][:2], *summary["ids"]]))
    assert texts(await call(client, "list", subject="ada")) == ["Ada prefers green tea in the morning"]
    assert len((await call(client, "list", subject="ben"))["notes"]) == 2
    # The receipt verifies without this server.
    checked = await call(client, "verify_receipt", leaf=gone["receipts"][0]["leaf"])
    assert (checked["verified"], checked["entries"]) == (True, 3)
    verifies_offline(checked)
    again = await call(client, "verify_receipt", receipt=checked["signed_receipt"])
    assert again == checked
    assert (await call(client, "forget", ids=gone["ids"]))["ids"] == []
    erased = await call(client, "forget_subject", subject="ben")
    assert (erased["complete"], erased["entries"], erased["refused"]) == (True, 2, [])
    verifies_offline(await call(client, "verify_receipt", leaf=erased["summary_leaf"]))
    assert texts(await call(client, "list")) == ["Ada prefers green tea in the morning"]


def verifies_offline(checked: dict[str, Any]) -> None:
    key = NoteKey.from_text(checked["log_key"])
    assert isinstance(key.public, VerifyingKey)
    envelope, proof = checked["signed_receipt"].encode(), checked["inclusion_proof"].encode()
    if checked["outcome"] != "subject_erased":
        verify_receipt(envelope, [key.public])
    verify_inclusion(envelope, proof, [key], key.name)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_day_of_an_agent(store: Store, mode: Any) -> None:
    async def work() -> None:
        async with Client(make_server(store, embed=words), mode=mode) as client:
            await day_of_an_agent(client)

    run(work())
    store.verify()


def test_every_tool_refuses_an_argument_that_it_does_not_have(store: Store) -> None:
    async def work() -> None:
        async with client_of(store) as client:
            await call(client, "remember", text="the PIN is 4471", subject="ann", id="pin")
            size = store.size
            for tool in (await client.list_tools()).tools:
                assert tool.input_schema["additionalProperties"] is False, tool.name
                told = await fails(client, tool.name, **{TOOLS[tool.name]: "x", "subject2": "x"})
                assert f"{tool.name} has no argument 'subject2'" in told
            told = await fails(client, "remember", notes=[{"text": "x", "topic": "y"}])
            assert "a note has no argument 'topic'" in told
            assert "4471" not in await fails(client, "recall", query="PIN", user="bob")
            assert store.size == size

    run(work())


def test_texts_that_look_like_json_stay_texts(store: Store) -> None:
    """As text, subject, id, query, metadata and about, in every tool that takes them."""

    async def work() -> None:
        async with client_of(store) as client:
            for value in LOOK_LIKE_JSON:
                kept = await call(
                    client, "remember", text=value, subject=value, id=value, metadata={"value": value, "none": None}
                )
                assert kept["ids"] == [value]
                note = {"id": value, "text": value, "subject": value, "metadata": {"value": value, "none": None}}
                assert (await call(client, "get", ids=[value], subject=value))["notes"] == [note]
                assert (await call(client, "list", subject=value, filter={"value": value}))["notes"] == [note]
                found = await call(client, "recall", query=value, subject=value, mode="meaning")
                assert [one["text"] for one in found["notes"]] == [value]
                assert (await call(client, "list", subject=value, after=value))["notes"] == []
                made = await call(client, "update", id=value, text=f"{value}{value}", subject=value)
                assert made["erased"] == [value]
                derived = await call(client, "remember", text=value, subject=value, derived_from=[made["id"]])
                told = await fails(client, "forget", confirm=value)
                assert told.startswith("preview-ended")
                await call(client, "forget", about=value, subject=value)
                assert (await call(client, "forget", ids=[value]))["ids"] == []
                assert (await call(client, "forget_subject", subject=value, dry_run=True))["entries"] == 2
                gone = await call(client, "forget", ids=[made["id"]], subject=value)
                assert sorted(gone["ids"]) == sorted([made["id"], *derived["ids"]])
                assert not (await call(client, "verify_receipt", receipt=value))["verified"]
            assert (await call(client, "list"))["total"] == 0
            assert await fails(client, "recall", query="x", k="5") == "input-error: k must be a valid integer, not '5'"
            assert "ids must be" in await fails(client, "get", ids='["a"]')
            assert "dry_run must be" in await fails(client, "forget", ids=["a"], dry_run="true")

    run(work())
    store.verify()


def test_pages_hold_every_note_once(store: Store) -> None:
    async def work() -> None:
        async with client_of(store) as client:
            many = [{"text": f"tea number {number}", "subject": "ann" if number % 3 else "bob"} for number in range(23)]
            kept = (await call(client, "remember", notes=many))["ids"]
            mine = {name for name, note in zip(kept, many, strict=True) if note["subject"] == "ann"}
            listed, after = [], None
            while True:
                page = await call(client, "list", subject="ann", k=4, **({} if after is None else {"after": after}))
                assert page["total"] == len(mine)
                listed += [note["id"] for note in page["notes"]]
                after = page.get("next_after")
                if after is None:
                    break
                # What is erased, or kept, between two pages shifts none of the rest.
                await call(client, "forget", ids=[listed[0]])
                mine.discard(listed[0])
                listed.pop(0)
            assert listed == sorted(mine)
            found, offset = [], 0
            while offset is not None:
                page = await call(client, "recall", query="tea number", subject="ann", k=4, offset=offset)
                found += [note["id"] for note in page["notes"]]
                offset = page.get("next_offset")
            assert sorted(found) == sorted(mine)

    run(work())


def test_an_answer_is_never_too_long_for_a_client(store: Store) -> None:
    async def work() -> None:
        async with client_of(store) as client:
            long = [{"text": f"{number} " + "tea " * 20_000} for number in range(6)]
            ids = (await call(client, "remember", notes=long))["ids"]
            for tool, arguments in (("recall", {"query": "tea", "k": 9}), ("list", {}), ("get", {"ids": ids})):
                answer = await call(client, tool, **arguments)
                size = sum(len(note["text"]) for note in answer["notes"])
                assert 0 < size <= MAX_ANSWER, tool
                assert answer.get("next_offset") or answer.get("next_after") or answer.get("ids_left"), tool
            shown = await call(client, "forget", about="tea")
            assert len(shown["preview"]) == 6
            assert all("more characters" in note["text"] for note in shown["preview"])

    run(work())


def test_several_notes_are_kept_together_or_not_at_all(store: Store) -> None:
    async def work() -> None:
        async with client_of(store) as client:
            await call(client, "remember", text="first", id="first")
            size = store.size
            for wrong in (
                {"text": "again", "id": "first"},
                {"text": " "},
                {"text": "a summary", "derived_from": ["nothing"]},
                {"text": "past", "expires": "2001-01-01T00:00:00Z"},
                {"text": "never", "expires": "tomorrow"},
                {"text": "no zone", "expires": "2037-01-01T00:00:00"},
                {"text": "deep", "metadata": {"a": [[[[[[[]]]]]]] * 9} | {"b": "x" * MAX_TEXT}},
            ):
                for dry_run in (True, False):
                    await fails(client, "remember", notes=[{"text": "good"}, wrong], dry_run=dry_run)
            assert "id, metadata" in await fails(client, "remember", notes=[{"text": "good"}], id="x")
            assert "text, or notes" in await fails(client, "remember", text="a", notes=[{"text": "b"}])
            assert "1 to 100" in await fails(client, "remember", notes=[])
            tried = await call(client, "remember", notes=[{"text": "good"}, {"text": "too", "id": "too"}], dry_run=True)
            assert (tried["dry_run"], tried["ids"], tried["notes"], tried["receipts"]) == (True, ["too"], 1, [])
            assert store.size == size

    run(work())


def test_updating_replaces_a_note_and_what_was_made_from_it(store: Store) -> None:
    async def work() -> None:
        async with client_of(store) as client:
            old = await call(client, "remember", text="lives in Oslo", subject="ann", metadata={"a": 1}, expires="9d")
            name = old["ids"][0]
            made = await call(client, "remember", text="a Norwegian", subject="ann", derived_from=[name])
            await call(client, "remember", text="somebody else", subject="bob")
            size = store.size
            tried = await call(client, "update", id=name, text="lives in Rome", dry_run=True)
            assert (tried["erased"], store.size) == ([name, *made["ids"]], size)
            done = await call(client, "update", id=name, text="lives in Rome")
            assert (done["erased"], done["notes"]) == ([name, *made["ids"]], 2)
            assert [receipt["outcome"] for receipt in done["receipts"]][:2] == ["admitted", "decrement"]
            found = (await call(client, "get", ids=[done["id"], name]))["notes"]
            before = {"subject": "ann", "metadata": {"a": 1}}
            assert [note | {"expires": ""} for note in found] == [
                {"id": done["id"], "text": "lives in Rome", "expires": ""} | before
            ]
            bare = await call(client, "update", id=done["id"], metadata={}, expires="never")
            note = (await call(client, "get", ids=[bare["id"]]))["notes"][0]
            assert note == {"id": bare["id"], "text": "lives in Rome", "subject": "ann"}
            assert await fails(client, "update", id=name, text="x") == f"not-found: there is no note '{name}'"
            assert "goes with" in await fails(client, "update", id=bare["id"], derived_from=[bare["id"]])
            assert "what is to change" in await fails(client, "update", id=bare["id"])
            assert (await call(client, "list"))["total"] == 2

    run(work())
    store.verify()


def test_a_note_that_has_ended_is_not_found(tmp_path: Path) -> None:
    clock = Clock()
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}", clock=clock) as store:
        tools = Tools(store, embed=words)
        name = tools.remember("tea with Bob", subject="ann", expires="1d").id
        tools.remember("tea with Cat", subject="ann")
        clock.turn(days=2)
        assert [note.text for note in tools.recall("tea").notes] == ["tea with Cat"]
        assert [note.text for note in tools.recall("tea", mode="hybrid", subject="ann").notes] == ["tea with Cat"]
        assert tools.list_notes().total == len(tools.list_notes().notes) == 1
        assert tools.get([name]).notes[0].text == "tea with Bob"
        assert tools.forget([name]).ids == [name]


def test_what_has_ended_is_swept_while_a_server_runs(tmp_path: Path) -> None:
    clock = Clock()
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}", clock=clock) as store:
        tools = Tools(store, embed=words)
        name = tools.remember("tea with Bob", subject="ann", expires="1d").id
        tools.remember("made from it", subject="ann", derived_from=[name])
        kept = tools.remember("tea with Cat", subject="ann").id
        with working(store, seconds=0.05, sweep_seconds=0.05):
            time.sleep(0.2)
            assert len(store["notes"]) == 3
            clock.turn(days=2)
            for _ in range(600):
                if len(store["notes"]) == 1:
                    break
                time.sleep(0.05)
        assert store["notes"].ids == (kept,)
        store.verify()


def test_what_was_made_from_a_note_elsewhere_goes_with_it(store: Store) -> None:
    tools, other = (Tools(store, memory=name, embed=words) for name in ("notes", "summaries"))
    source = tools.remember("the divorce", subject="ann").id
    made = other.remember("about Ann", subject="bob").id
    key = other.notebook.keys_of(["a summary"])[0]
    other.notebook.write(key, id="made", subject="bob", payload="a summary", derived_from=[("notes", source)])
    shown = tools.forget(about="divorce")
    assert shown.elsewhere == ["summaries: 1 entry"]
    # Whom the store is not to be told of learns nothing of it, unless something stays.
    bound = Tools(store, embed=words, subject="ann")
    assert bound.forget(about="divorce").elsewhere is None
    hold = store.hold("summaries", reason="Bob's lawsuit", id="made")
    kept = tools.forget([source], dry_run=True)
    assert kept.elsewhere is not None
    assert "lawsuit" in kept.elsewhere[0]
    told = bound.forget([source], dry_run=True)
    assert told.elsewhere is not None
    assert "lawsuit" not in told.elsewhere[0]
    store.release(hold)
    gone = tools.forget(confirm=tools.forget(about="divorce").confirm)
    assert (gone.ids, gone.elsewhere) == ([source], ["summaries: 1 entry"])
    assert [receipt.outcome for receipt in gone.receipts][-1] == "erased"
    assert all(tools.verify_receipt(leaf=receipt.leaf).verified for receipt in gone.receipts)
    assert store["summaries"].ids == (made,)
    store.verify()


def test_a_note_that_is_held_is_not_updated(store: Store) -> None:
    async def work() -> None:
        async with client_of(store) as client:
            kept = await call(client, "remember", text="evidence", subject="ann", id="kept")
            store.hold("notes", reason="a lawsuit", id="kept")
            told = await fails(client, "update", id="kept", text="other")
            assert told.startswith("deletion-refused")
            assert "lawsuit" in (await call(client, "forget", ids=["kept"], dry_run=True))["refused"]
            assert "lawsuit" in (await call(client, "update", id="kept", text="b", dry_run=True))["refused"]
            assert (await fails(client, "forget", ids=["kept"])).startswith("deletion-refused")
            assert texts(await call(client, "list")) == ["evidence"]
            assert kept["ids"] == ["kept"]

    run(work())


def test_a_preview_is_confirmed_once_in_the_state_that_it_showed(store: Store) -> None:
    tools = Tools(store, embed=words)
    now = [0.0]
    tools.erasing.previews.clock = lambda: now[0]
    for text in ("the divorce", "divorce papers", "tea"):
        tools.remember(text, subject="ann")
    tools.remember("divorce", subject="bob")

    def preview(**options: Any) -> Any:
        shown = tools.forget(about="divorce", **options)
        assert shown.confirm is not None
        return shown

    # Somebody else's notes do not matter to a preview of Ann's; her own do.
    shown = preview(subject="ann")
    tools.remember("more of Bob", subject="bob")
    tried = tools.forget(confirm=shown.confirm, dry_run=True)
    assert (tried.erased, sorted(tried.ids)) == (False, sorted(shown.ids))
    tools.remember("the divorce is over", subject="ann")
    for _ in range(2):
        with pytest.raises(expunge.StoreError, match="about again") as caught:
            tools.forget(confirm=shown.confirm)
        assert caught.value.code == "preview-ended"
    # Ten minutes, and not longer.
    shown, late = preview(subject="ann"), preview(subject="ann")
    now[0] += 599.0
    assert sorted(tools.forget(confirm=shown.confirm).ids) == sorted(shown.ids)
    with pytest.raises(expunge.StoreError, match="about again"):
        tools.forget(confirm=shown.confirm)
    with pytest.raises(expunge.StoreError, match="edited since"):
        tools.forget(confirm=late.confirm)
    everybody = preview()
    now[0] += 600.0
    with pytest.raises(expunge.StoreError, match="ten minutes"):
        tools.forget(confirm=everybody.confirm)
    assert tools.forget(about="nothing like it").confirm is None
    wrong: list[dict[str, Any]] = [{"confirm": "x", "subject": "ann"}, {"ids": ["a"], "about": "b"}, {}]
    for arguments in [*wrong, {"ids": [], "filter": {}}]:
        with pytest.raises(InputError):
            tools.forget(**arguments)
    assert {note.text for note in tools.list_notes().notes} == {"divorce", "tea", "more of Bob"}
    store.verify()


def test_a_preview_confirms_what_it_showed_in_other_peoples_notes_and_other_memories_too(store: Store) -> None:
    """What was made since from a note that was shown, whosever and wherever it is, is not erased unseen."""
    tools, other = (Tools(store, memory=name, embed=words) for name in ("notes", "summaries"))
    bound = Tools(store, embed=words, subject="ann")
    source = tools.remember("the divorce", subject="ann").id
    other.remember("something else", subject="bob")
    key = other.notebook.keys_of(["a summary"])[0]

    def made(number: int) -> str:
        """One more entry made from the note: of another person here, or in another memory."""
        name = f"bobs-{number}"
        if number % 2:
            other.notebook.write(key, id=name, subject="bob", payload="a summary", derived_from=[("notes", source)])
        else:
            tools.remember(f"Bob's view {number}", id=name, subject="bob", derived_from=[source])
        return name

    there: list[str] = []
    for _ in range(4):
        for using in (tools, bound):
            shown = using.forget(about="the divorce", subject="ann")
            again = using.forget(about="the divorce", subject="ann")
            there.append(made(len(there)))
            for token, dry_run in ((shown.confirm, True), (again.confirm, False)):
                assert token is not None
                with pytest.raises(expunge.StoreError, match="about again") as caught:
                    using.forget(confirm=token, dry_run=dry_run)
                assert caught.value.code == "preview-ended"
                assert "bob" not in str(caught.value).lower()
                assert "summaries" not in str(caught.value)
    assert {*store["notes"].ids, *store["summaries"].ids} >= {source, *there}
    # Without the ones that came, what was shown goes, and nothing else.
    token = tools.forget(about="the divorce", subject="ann").confirm
    tools.remember("another note of Bob's", subject="bob", id="kept")
    assert sorted(tools.forget(confirm=token).ids) == sorted([source])
    assert {*store["notes"].ids, *store["summaries"].ids}.isdisjoint({source, *there})
    assert "kept" in store["notes"].ids
    store.verify()


@pytest.mark.parametrize("where", ["notes", "summaries", "beside"])
def test_what_is_made_while_a_preview_is_confirmed_is_not_erased_unseen(
    store: Store, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A note is made between the last look of the confirmation and the lock of the memory that it is in."""
    tools, other = (Tools(store, memory=name, embed=words) for name in ("notes", "summaries"))
    source = tools.remember("the divorce", subject="ann").id
    other.remember("something else", subject="bob")
    key = other.notebook.keys_of(["a summary"])[0]
    if where == "beside":
        other.notebook.write(key, id="first", subject="bob", payload="a", derived_from=[("notes", source)])
    token = tools.forget(about="the divorce", subject="ann").confirm
    method = "erase_part" if where == "beside" else "_apply"
    plain, pending = getattr(StoredMemory, method), [True]

    def late(stored: StoredMemory, *given: Any, **options: Any) -> Any:
        if pending:
            pending.clear()
            sources: dict[str, list[Any]] = {"notes": [source], "summaries": [("notes", source)], "beside": ["first"]}
            # Another server's: the notebook that erases is locked by the erasure.
            written = Tools(store, embed=words).notebook if where == "notes" else other.notebook
            written.write(key, id="late", subject="bob", payload="made meanwhile", derived_from=sources[where])
        return plain(stored, *given, **options)

    monkeypatch.setattr(StoredMemory, method, late)
    with pytest.raises(expunge.StoreError, match="about again") as caught:
        tools.forget(confirm=token)
    assert caught.value.code == "preview-ended"
    assert not pending
    assert source in store["notes"].ids
    assert "late" in {*store["notes"].ids, *store["summaries"].ids}
    store.verify()


def test_two_clients_at_once_edit_a_note_once(store: Store) -> None:
    """Of updates of one note, and of confirmations of one preview, one is made."""
    tools = Tools(store, embed=words)

    def together(act: Callable[[int], object]) -> list[object]:
        def attempt(number: int) -> object:
            try:
                return act(number)
            except expunge.ExpungeError as problem:
                return problem

        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(attempt, range(3)))

    tools.remember("somebody else's", subject="bob")
    for _ in range(3):
        name = tools.remember("the address", subject="ann").id
        done = together(lambda number, name=name: tools.update(name, text=f"address {number}"))  # type: ignore[misc]
        assert sum(isinstance(one, expunge.InputError) for one in done) == 2
        shown = tools.forget(about="the address", subject="ann")
        assert len(shown.ids) == 1
        done = together(lambda _, token=shown.confirm: tools.forget(confirm=token))  # type: ignore[misc]
        assert sum(isinstance(one, expunge.StoreError) for one in done) == 2
    assert tools.list_notes().total == 1
    store.verify()


def test_a_preview_leaves_nothing_on_disk(store: Store, tmp_path: Path) -> None:
    tools = Tools(store, embed=words)
    kept = tools.remember("the divorce", subject="ann").id
    before = store.size
    shown = tools.forget(about="quarrelsome divorce", subject="ann")
    assert store.size == before
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert shown.confirm is not None
    for text in (shown.confirm, "quarrelsome"):
        assert text.encode() not in content
    assert [note.id for note in shown.preview or ()] == [kept]


def test_forgetting_again_is_success_and_tells_nothing(store: Store) -> None:
    """The same as for somebody who was never there; look-alikes are those of the client's own notes."""

    async def work() -> None:
        async with client_of(store) as client:
            await call(client, "remember", text="likes tea", subject="Jose")
            await call(client, "remember", text="a note of nobody")
            await call(client, "remember", text="likes coffee", subject="Ben", id="coffee")
            await call(client, "forget_subject", subject="Ben")
            size = store.size
            answers = [await call(client, "forget_subject", subject=name) for name in ("Ben", "Tom")]
            assert answers[0] == answers[1]
            assert (answers[0]["complete"], answers[0]["entries"]) == (True, 0)
            assert (answers[0]["look_alikes"], answers[0]["not_searched"]) == ([], ["notes"])
            answers = [await call(client, "forget", ids=[name]) for name in ("coffee", "never")]
            assert answers[0] == answers[1]
            assert (answers[0]["ids"], answers[0]["receipts"]) == ([], [])
            assert (await call(client, "forget_subject", subject="José"))["look_alikes"] == ["Jose"]
            assert store.size == size

    rows = np.random.default_rng(0).standard_normal((4, 2))
    store.create("others", rows, rows, sigma=1.0, nu=0.5, subjects=["JOSE"] * 4)
    run(work())
    assert len(store["notes"]) == 2


def test_forgetting_most_notes_and_the_only_ones_elsewhere(store: Store) -> None:
    """Eight of 20 notes cannot keep the cap, so they are fitted afresh; a memory of one person alone is empty then."""

    async def work() -> None:
        async with client_of(store, nu=1.0) as client:
            notes = [{"text": f"note {at}", "subject": "ada" if at < 12 else "ben"} for at in range(20)]
            await call(client, "remember", notes=notes)
            gone = await call(client, "forget_subject", subject="ada")
            assert (gone["complete"], gone["entries"], gone["refused"]) == (True, 14, [])
            assert {"refitted", "emptied"} <= {receipt["outcome"] for receipt in gone["receipts"]}
            for receipt in gone["receipts"]:
                assert (await call(client, "verify_receipt", leaf=receipt["leaf"]))["verified"]
            verifies_offline(await call(client, "verify_receipt", leaf=gone["summary_leaf"]))
            assert (await call(client, "list"))["total"] == 8
            assert (await call(client, "list", subject="ada"))["total"] == 0

    rows = np.random.default_rng(0).standard_normal((2, 2))
    store.create("others", rows, rows, sigma=1.0, nu=1.0, subjects=["ada", "ada"])
    run(work())
    assert (len(store["notes"]), len(store["others"])) == (8, 0)
    refitted, emptied = (
        [parse_predicate(leaf.statement).applied.count for leaf in store.receipts() if leaf.kind == kind]
        for kind in ("refitted", "emptied")
    )
    assert (refitted, emptied) == ([12], [2])
    store.verify()


def test_bad_input_is_told_and_changes_nothing(store: Store) -> None:
    deep: Any = {"$gt": 1}
    for _ in range(150):
        deep = {"a": deep}

    async def work() -> None:
        async with client_of(store) as client:
            await call(client, "remember", text="first", id="first", metadata={"year": 2024})
            before = store.size
            for tool, arguments, told in (
                ("remember", {"text": ""}, "input-error"),
                ("remember", {"text": " \n"}, "input-error"),
                ("remember", {"text": "x" * (MAX_TEXT + 1)}, "input-error"),
                ("remember", {"notes": [{"text": "x" * MAX_TEXT}] * 6}, "input-error.*split"),
                ("remember", {"text": "a", "id": "first"}, "input-error.*taken"),
                ("remember", {"text": "a", "id": ""}, "input-error"),
                ("remember", {"text": "a", "id": "x" * 2000}, "input-error.*1000"),
                ("remember", {"text": "a", "subject": ""}, "input-error"),
                ("remember", {"text": 5}, "input-error: text must be"),
                ("remember", {"text": "a", "metadata": "b"}, "input-error: metadata must be"),
                ("remember", {"text": "a", "expires": "9" * 50}, "input-error: expires is"),
                ("remember", {}, "input-error"),
                ("recall", {"query": "a", "k": 0}, "input-error"),
                ("recall", {"query": "a", "k": 10**9}, "input-error"),
                ("recall", {"query": "a", "k": 10**400}, "input-error"),
                ("recall", {"query": "a", "offset": -1}, "input-error"),
                ("recall", {"query": "a", "mode": "magic"}, "input-error: mode must be"),
                ("recall", {"query": "a", "filter": {"a": {"$no": 1}}}, "Unsupported operator"),
                ("recall", {"query": ""}, "input-error"),
                ("get", {"ids": ["a"] * 1001}, "input-error.*1000"),
                ("list", {"k": 101}, "input-error"),
                ("forget", {"ids": "first"}, "input-error: ids must be"),
                ("forget", {"ids": [""]}, "input-error"),
                ("forget_subject", {"subject": ""}, "input-error"),
                ("forget_subject", {}, "input-error.*subject"),
                ("verify_receipt", {}, "input-error"),
                ("verify_receipt", {"leaf": 0, "receipt": "x"}, "input-error"),
                ("verify_receipt", {"leaf": 99}, "input-error"),
                ("verify_receipt", {"leaf": -1}, "input-error"),
                ("verify_receipt", {"leaf": 1 << 70}, "input-error"),
            ):
                message = await fails(client, tool, **arguments)
                assert re.search(told, message), (tool, arguments, message)
            assert (await call(client, "recall", query="a", filter=deep))["notes"] == []
            assert (await call(client, "list", filter={"year": {"$lt": 10**400}}))["total"] == 0
            assert (await call(client, "list", filter={"year": {"$gte": 2024}}))["total"] == 1
            with pytest.raises(MCPError, match="there is no tool 'recal'"):
                await client.call_tool("recal", {})
            assert store.size == before

    run(work())


def test_what_a_terminal_would_obey_is_escaped_in_the_text_of_an_answer(store: Store) -> None:
    nasty = "a\x1b[2J\x9b31m\u202eevil\u2028\x07"

    async def work() -> None:
        async with client_of(store) as client:
            await call(client, "remember", text=nasty, subject=nasty, id=nasty)
            answer: Any = await client.call_tool("list", {"subject": nasty})
            text = answer.content[0].text
            assert text.isprintable(), ascii(text)
            assert answer.structured_content["notes"][0]["text"] == nasty
            for tool, arguments in (
                ("remember", {"text": "b", "id": nasty}),
                ("update", {"id": nasty * 2, "text": "b"}),
                ("recall", {"query": "b", nasty: 1}),
                ("forget", {"ids": [nasty], "filter": {nasty: 1}}),
                ("recall", {"query": "b", "filter": {"a": {f"${nasty}": 1}}}),
            ):
                assert (await fails(client, tool, **arguments)).isprintable()
            with pytest.raises(MCPError) as caught:
                await client.call_tool(nasty, {})
            assert str(caught.value).isprintable()

    run(work())


def test_a_receipt_that_was_changed_or_is_not_here_is_told(store: Store, tmp_path: Path) -> None:
    tools = Tools(store, embed=words)
    tools.remember("one", subject="ann")
    tools.remember("two", subject="ann")
    text = store.leaf(0).envelope.decode()
    changed = tools.verify_receipt(receipt=text.replace('"payload":"ey', '"payload":"ez'))
    assert (changed.verified, changed.outcome) == (False, None)
    assert changed.problem is not None
    for junk in ("not a receipt", "\ud800"):
        assert not tools.verify_receipt(receipt=junk).verified
    with expunge.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        Tools(other, embed=words).remember("one")
        stranger = other.leaf(0).envelope.decode()
    assert "envelope-signer-unknown" in (tools.verify_receipt(receipt=stranger).problem or "")
    with expunge.open(f"sqlite:///{tmp_path / 'fork.db'}", tmp_path / "agent.db.key") as fork:
        Tools(fork, embed=words).remember("elsewhere")
        forked = fork.leaf(0).envelope.decode()
    assert "not in its ledger" in (tools.verify_receipt(receipt=forked).problem or "")
    # A summary is an event of the store and no receipt of a memory: it verifies too.
    summary = tools.forget_subject("ann")
    event = tools.verify_receipt(summary.receipts[-1].leaf)
    assert (event.verified, event.outcome) == (True, "emptied")
    told = tools.verify_receipt(summary.summary_leaf)
    assert (told.verified, told.outcome) == (True, "subject_erased")


def test_warranties_of_pruned_notes(store: Store) -> None:
    tools = Tools(store, embed=lambda texts: [[float(text), 0.0] for text in texts], sigma=2.0, nu=0.3)
    for number in range(20):
        tools.remember(str(number / 10), subject=f"user-{number % 2}")
    store["notes"].prune("forget")
    rows = tools.warranties().warranties
    assert rows
    assert {row.status for row in rows} == {"valid"}
    parts = [{row.id for row in tools.warranties(f"user-{number}").warranties} for number in range(2)]
    assert set.union(*parts) == {row.id for row in rows}
    assert not set.intersection(*parts)
    # What was pruned for good has no text any more, and can be forgotten.
    shown = tools.forget([rows[0].id], dry_run=True)
    assert [(note.id, note.text) for note in shown.preview or ()] == [(rows[0].id, None)]
    tools.remember("9")
    assert {row.status for row in tools.warranties().warranties} >= {"expired"}
    assert tools.forget([rows[0].id]).ids == [rows[0].id]


def test_another_embedding_than_the_memory_was_made_with(store: Store) -> None:
    Tools(store, embed=words).remember("one")
    other = Tools(store, embed=lambda texts: [[1.0, 2.0] for _ in texts])
    for act in (lambda: other.remember("two"), lambda: other.recall("two")):
        with pytest.raises(InputError, match="embedded by words"):
            act()
    # Who names none gets that of the notes.
    assert [note.text for note in Tools(store).recall("one").notes] == ["one"]


def test_a_failure_that_nobody_foresaw_tells_the_client_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def broken(texts: Any) -> Any:
        raise RuntimeError(f"secret {texts}")

    async def work() -> None:
        async with client_of(store, embed=broken) as client:
            assert "secret" not in await fails(client, "remember", text="mine")

    run(work())
    assert store.size == 0
    assert "remember failed: RuntimeError at" in caplog.text
    assert "secret" not in caplog.text
    assert "mine" not in caplog.text


@pytest.mark.parametrize(
    "words",
    [
        ("--nu", 3),
        ("--sigma", 0),
        ("--embed", "nope"),
        ("--transport", "pigeon"),
        ("--port", -1),
        ("--subject", ""),
        ("--subject", "ann", "--require-subject"),
        ("--transport", "http", "--host", "0.0.0.0"),  # noqa: S104
        ("--transport", "http", "--tls-cert", "nowhere.crt"),
    ],
)
def test_a_command_that_cannot_serve_leaves_no_store(store: Store, tmp_path: Path, words: tuple[object, ...]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    run_command("--store", f"sqlite:///{folder / 'agent.db'}", "mcp", *words, code=2)
    assert list(folder.iterdir()) == []


def test_without_the_extra(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    with pytest.raises(MissingExtra, match=r"expunge\[mcp\]"):
        make_server(store)


def test_receipts_commit_to_the_actor(tmp_path: Path) -> None:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        tools = Tools(store, embed=words, actor="agents of ward 7")
        first = tools.remember("the lift is out of order", subject="ana")
        second = tools.remember("the lift works again", subject="ben")
        changed = tools.update(second.id, text="the lift is slow")
        gone = tools.forget([first.id])
        last = tools.forget_subject("ben")
        leaves = [receipt.leaf for one in (first, second, changed, gone, last) for receipt in one.receipts]
        for leaf in [*leaves, last.summary_leaf]:
            assert leaf is not None
            case = store.case_of(leaf)
            assert case is not None, leaf
            assert case.actor == "agents of ward 7"
        store.verify()
