"""The MCP server, used by the official client: in process, over standard input and output, over HTTP."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

import expunge
from cli.command_runner import call as run_command
from expunge import InputError, MissingExtra
from expunge.integrations.mcp import MAX_TEXT, Tools, make_server
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey
from expunge.store import Store
from expunge.verify import verify_inclusion, verify_receipt

TOOLS = {"remember", "recall", "forget", "forget_subject", "warranties", "verify_receipt"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with expunge.open(url) as store:
        yield store


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """The structured answer of a tool that works; lists come in a field called result."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    found = answer.structured_content
    return found["result"] if set(found) == {"result"} else found


async def fails(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer.structured_content
    return str(answer.content[0].text)  # type: ignore[union-attr]


async def day_of_an_agent(client: Client) -> None:
    """What an agent does, from an empty memory to one that was asked to forget somebody."""
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
    assert await call(client, "recall", query="anything") == []
    tea = await call(client, "remember", text="Ada prefers green tea in the morning", subject="ada")
    assert (tea["notes"], tea["receipts"]) == (1, [{"outcome": "created", "leaf": 0}])
    await call(client, "remember", text="Ben is allergic to peanuts", subject="ben", id="allergy")
    await call(client, "remember", text="Ben's train leaves at noon", subject="ben")
    await call(client, "remember", text="The office closes at six")
    found = await call(client, "recall", query="what tea does Ada like?", k=2)
    assert [found[0]["id"], found[0]["subject"], len(found)] == [tea["id"], "ada", 2]
    assert 0.0 <= found[1]["similarity"] < found[0]["similarity"] <= 1.0
    gone = await call(client, "forget", ids=[tea["id"]])
    assert (gone["ids"], gone["notes"]) == ([tea["id"]], 3)
    assert all(note["id"] != tea["id"] for note in await call(client, "recall", query="tea", k=100))
    # From four notes to three the cap changes: the erasure's receipt, then that of the rebuild.
    assert [receipt["outcome"] for receipt in gone["receipts"]] == ["decrement", "rebuilt"]
    checked = await call(client, "verify_receipt", leaf=gone["receipts"][0]["leaf"])
    assert (checked["verified"], checked["entries"]) == (True, 1)
    erased = await call(client, "forget_subject", subject="ben")
    assert (erased["complete"], erased["entries"], erased["refused"]) == (True, 2, [])
    assert [note["text"] for note in await call(client, "recall", query="Ben", k=9)] == ["The office closes at six"]
    assert await call(client, "warranties") == []
    assert "input-error: no entry" in await fails(client, "forget", ids=["allergy"])


def test_in_process(store: Store) -> None:
    async def work() -> None:
        async with Client(make_server(store)) as client:
            await day_of_an_agent(client)

    run(work())
    store.verify()


@pytest.mark.slow
def test_over_standard_input_and_output(url: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "expunge", "--store", url, "mcp"])

    async def work() -> None:
        async with Client(server) as client:
            await day_of_an_agent(client)

    run(work())
    with expunge.open(url) as store:
        assert store.verify().entries == 1
        assert store["notes"].payload(store["notes"].ids[0]) == "The office closes at six"


@contextmanager
def served(url: str) -> Iterator[str]:
    """The address of a server that `expunge mcp` runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--store", url, "mcp", "--transport", "http", "--port", str(port)]
    process = subprocess.Popen([sys.executable, "-m", "expunge", *words], stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        for _ in range(600):
            with socket.socket() as door:
                if door.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_over_http_with_many_clients_at_once(url: str) -> None:
    async def one(address: str, name: str) -> list[str]:
        async with Client(address) as client:
            made = []
            for number in range(5):
                answer = await call(client, "remember", text=f"{name} said {number}", subject=name)
                made.append(answer["id"])
            await call(client, "forget", ids=[made.pop(0)])
            await call(client, "recall", query=f"{name} said 3", k=3)
            return made

    async def work(address: str) -> set[str]:
        async with Client(address) as client:
            await day_of_an_agent(client)
        kept = await asyncio.gather(*(one(address, name) for name in ("ann", "bob", "cat", "dan")))
        async with Client(address) as client:
            assert (await call(client, "forget_subject", subject="dan"))["entries"] == 4
        return {name for names in kept[:3] for name in names}

    with served(url) as address, expunge.open(url) as store:
        # A second process has the store open all the while.
        kept = run(work(address))
        assert kept < set(store["notes"].ids)
        assert len(store["notes"]) == len(kept) + 1
        store.verify()


def test_bad_input_is_told_and_changes_nothing(store: Store) -> None:
    async def work() -> None:
        async with Client(make_server(store)) as client:
            await call(client, "remember", text="first", id="first")
            before = store.size
            for tool, arguments, told in (
                ("remember", {"text": ""}, "input-error"),
                ("remember", {"text": " \n"}, "input-error"),
                ("remember", {"text": "x" * (MAX_TEXT + 1)}, "input-error"),
                ("remember", {"text": "a", "id": "first"}, "input-error.*taken"),
                ("remember", {"text": "a", "id": ""}, "input-error"),
                ("remember", {"text": "a", "subject": ""}, "input-error"),
                ("remember", {"text": 5}, "validation error"),
                ("remember", {}, "validation error"),
                ("recall", {"query": "a", "k": 0}, "input-error"),
                ("recall", {"query": "a", "k": 10**9}, "input-error"),
                ("recall", {"query": ""}, "input-error"),
                ("forget", {"ids": ["nobody"]}, "input-error"),
                ("forget", {"ids": "first"}, "validation error"),
                ("forget", {"ids": ["first", "first"]}, "input-error"),
                ("forget_subject", {"subject": "nobody"}, "input-error"),
                ("forget_subject", {"subject": ""}, "input-error"),
                ("verify_receipt", {}, "input-error"),
                ("verify_receipt", {"leaf": 0, "receipt": "x"}, "input-error"),
                ("verify_receipt", {"leaf": 99}, "input-error"),
                ("verify_receipt", {"leaf": -1}, "input-error"),
                ("verify_receipt", {"leaf": 1 << 70}, "input-error"),
            ):
                message = await fails(client, tool, **arguments)
                assert re.search(told, message), (tool, arguments, message)
            assert store.size == before

    run(work())


def test_a_receipt_can_be_verified_without_the_server(store: Store) -> None:
    tools = Tools(store)
    tools.remember("one")
    leaf = tools.remember("two").receipts[0].leaf
    found = tools.verify_receipt(leaf)
    assert found.signed_receipt is not None
    assert found.inclusion_proof is not None
    key = NoteKey.from_text(found.log_key)
    assert isinstance(key.public, VerifyingKey)
    verify_receipt(found.signed_receipt.encode(), [key.public])
    verify_inclusion(found.signed_receipt.encode(), found.inclusion_proof.encode(), [key], key.name)
    assert tools.verify_receipt(receipt=found.signed_receipt) == found


def test_a_receipt_that_was_changed_or_is_not_here_is_told(store: Store, tmp_path: Path) -> None:
    tools = Tools(store)
    tools.remember("one", subject="ann")
    tools.remember("two", subject="ann")
    text = store.leaf(0).envelope.decode()
    changed = tools.verify_receipt(receipt=text.replace('"payload":"ey', '"payload":"ez'))
    assert (changed.verified, changed.outcome) == (False, None)
    assert changed.problem is not None
    for junk in ("not a receipt", "\ud800"):
        assert not tools.verify_receipt(receipt=junk).verified
    with expunge.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        Tools(other).remember("one")
        stranger = other.leaf(0).envelope.decode()
    assert "envelope-signer-unknown" in (tools.verify_receipt(receipt=stranger).problem or "")
    with expunge.open(f"sqlite:///{tmp_path / 'fork.db'}", tmp_path / "agent.db.key") as fork:
        Tools(fork).remember("elsewhere")
        forked = fork.leaf(0).envelope.decode()
    assert "not in its ledger" in (tools.verify_receipt(receipt=forked).problem or "")
    # A summary is an event of the store and no receipt of a memory: it verifies too.
    summary = tools.forget_subject("ann")
    event = tools.verify_receipt(summary.receipts[-1].leaf)
    assert (event.verified, event.outcome) == (True, "dropped")


def test_warranties_of_pruned_notes(store: Store) -> None:
    tools = Tools(store, embed=lambda texts: [[float(text), 0.0] for text in texts], sigma=2.0, nu=0.3)
    for number in range(20):
        tools.remember(str(number / 10))
    store["notes"].prune("forget")
    rows = tools.warranties()
    assert rows
    assert {row.status for row in rows} == {"valid"}
    tools.remember("9")
    assert {row.status for row in tools.warranties()} >= {"expired"}


def test_another_embedding_than_the_memory_was_made_with(store: Store) -> None:
    Tools(store).remember("one")
    other = Tools(store, embed=lambda texts: [[1.0, 2.0] for _ in texts])
    for act in (lambda: other.remember("two"), lambda: other.recall("two")):
        with pytest.raises(InputError, match="256"):
            act()


def test_a_failure_that_nobody_foresaw_tells_the_client_nothing(store: Store) -> None:
    def broken(texts: Any) -> Any:
        raise RuntimeError(f"secret {texts}")

    async def work() -> None:
        async with Client(make_server(store, embed=broken)) as client:
            assert "secret" not in await fails(client, "remember", text="mine")

    run(work())
    assert store.size == 0


@pytest.mark.parametrize(
    "words", [("--nu", 3), ("--sigma", 0), ("--embed", "nope"), ("--transport", "pigeon"), ("--port", 0)]
)
def test_a_command_that_cannot_serve_leaves_no_store(url: str, tmp_path: Path, words: tuple[object, ...]) -> None:
    run_command("--store", url, "mcp", *words, code=2)
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(MissingExtra, match=r"expunge\[mcp\]"):
        make_server(store)
