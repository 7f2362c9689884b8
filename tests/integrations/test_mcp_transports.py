"""The MCP server as `expunge mcp` runs it, over standard input and HTTP, with the official clients."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from starlette.types import Message, Scope

import expunge
from expunge.integrations.embedding import words
from expunge.integrations.mcp import Caller, Tools, make_server
from expunge.integrations.mcp.http_server import http_app
from expunge.integrations.mcp.server import make_protocol_server
from expunge.service.tokens import Tokens
from integrations.mcp_clients import (
    call,
    command,
    fails,
    node_client,
    run,
    running_node_client,
    served,
    stdio,
    with_token,
)
from integrations.test_mcp import LOOK_LIKE_JSON, day_of_an_agent

GOOD = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'agent.db'}"


async def keeps_texts(client: Any) -> None:
    """Strings arrive as they were sent, over this transport, too."""
    for value in LOOK_LIKE_JSON[::3]:
        await call(client, "remember", text=value, subject=value, id=value)
        assert (await call(client, "get", ids=[value], subject=value))["notes"][0]["text"] == value
        assert (await call(client, "forget_subject", subject=value))["entries"] == 1
    assert "no argument 'subject2'" in await fails(client, "recall", query="x", subject2="y")


@pytest.mark.slow
def test_the_python_client_over_standard_input(url: str) -> None:
    async def work() -> None:
        async with Client(stdio(url)) as client:
            await day_of_an_agent(client)
            await keeps_texts(client)
        async with Client(stdio(url, "--subject", "ada")) as client:
            assert (await call(client, "list"))["total"] == 1
            assert (await fails(client, "list", subject="ben")).startswith("forbidden")

    run(work())
    with expunge.open(url) as store:
        store.verify()


@pytest.mark.slow
def test_the_typescript_client(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "client"
    folder.mkdir()
    client = node_client(folder)
    if client is None:
        pytest.skip("npm cannot install the TypeScript client here")

    async def over_stdio() -> None:
        async with running_node_client(client, sys.executable, *command(url)) as node:
            await day_of_an_agent(node)
            await keeps_texts(node)
            await call(node, "forget_subject", subject="ada")

    async def over_http(address: str, token: str) -> None:
        async with running_node_client(client, address, token) as node:
            await day_of_an_agent(node)
            await keeps_texts(node)

    run(over_stdio())
    other = f"sqlite:///{tmp_path / 'other.db'}"
    with expunge.open(other) as store:
        token, _ = Tokens(store).create(["read", "write", "erase"])
    with served(other, "--require-token") as address:
        run(over_http(address, token))
    for name in (url, other):
        with expunge.open(name) as store:
            store.verify()


@pytest.mark.slow
def test_many_python_clients_over_http(url: str) -> None:
    async def one(address: str, name: str) -> list[str]:
        async with Client(address) as client:
            made = []
            for number in range(4):
                made += (await call(client, "remember", text=f"{name} said {number}", subject=name))["ids"]
            await call(client, "forget", ids=[made.pop(0)])
            shown = await call(client, "forget", about="said 1", subject=name, k=1)
            gone = await call(client, "forget", confirm=shown["confirm"])
            made = [kept for kept in made if kept not in gone["ids"]]
            changed = await call(client, "update", id=made.pop(), text=f"{name} said it")
            found = await call(client, "recall", query="said", subject=name, k=100)
            assert {note["subject"] for note in found["notes"]} == {name}
            return [*made, changed["id"]]

    async def work(address: str) -> set[str]:
        async with Client(address) as client:
            await day_of_an_agent(client)
            await keeps_texts(client)
        kept = await asyncio.gather(*(one(address, name) for name in ("ann", "bob", "cat", "dan")))
        async with Client(address) as client:
            assert (await call(client, "forget_subject", subject="dan"))["entries"] == 2
        return {name for names in kept[:3] for name in names}

    with served(url) as address, expunge.open(url) as store:
        # A second process has the store open all the while.
        kept = run(work(address))
        assert kept < set(store["notes"].ids)
        assert len(store["notes"]) == len(kept) + 1
        store.verify()


async def only_reads(client: Any) -> None:
    """What a token with the scope read can do."""
    offered = {tool.name for tool in (await client.list_tools()).tools}
    assert offered == {"recall", "get", "list", "warranties", "verify_receipt"}
    assert len((await call(client, "recall", query="tea"))["notes"]) == 1
    for tool, arguments in (
        ("remember", {"text": "x"}),
        ("forget", {"about": "tea"}),
        ("forget", {"ids": []}),
        ("forget_subject", {"subject": "ann", "dry_run": True}),
        ("update", {"id": "x", "text": "y"}),
    ):
        assert (await fails(client, tool, **arguments)).startswith("forbidden: ")


@pytest.mark.slow
def test_other_machines_need_a_token(url: str) -> None:
    with expunge.open(url) as store:
        tokens = Tokens(store)
        reader, _ = tokens.create(["read"])
        writer, ended = tokens.create(["read", "write", "erase"], note="agents")

    async def work(address: str) -> None:
        async with httpx2.AsyncClient() as http:
            for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {reader}"}):
                for method in ("POST", "GET", "DELETE"):
                    answer = await http.request(method, address, headers=GOOD | headers, json=HELLO)
                    assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
        async with with_token(address, writer) as transport, Client(transport) as client:
            leaf = (await call(client, "remember", text="tea", subject="ann"))["receipts"][0]["leaf"]
            with expunge.open(url) as store:
                case = store.case_of(leaf)
                assert case is not None
                assert case.actor == ended.name
        for mode in ("auto", "legacy"):
            async with with_token(address, reader) as transport, Client(transport, mode=mode) as client:
                await only_reads(client)
        # A session goes on with the token that began it.
        async with httpx2.AsyncClient(headers=GOOD) as http:
            begun = await http.post(address, headers={"Authorization": f"Bearer {writer}"}, json=HELLO)
            session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            other = await http.post(address, headers={"Authorization": f"Bearer {reader}"} | session, json=listing)
            assert other.status_code == 404
            mine = {"Authorization": f"Bearer {writer}"} | session
            assert (await http.post(address, headers=mine, json=listing)).status_code == 200
            with expunge.open(url) as store:
                Tokens(store).revoke(ended.name)
            assert (await http.post(address, headers=mine, json=listing)).status_code == 401

    with served(url, "--insecure", host="0.0.0.0") as address:  # noqa: S104 — to be asked for a token
        run(work(address))


@pytest.mark.parametrize(
    ("server", "headers", "status"),
    [
        ("127.0.0.1", {"host": "127.0.0.1:8000"}, 200),
        ("127.0.0.1", {"host": "localhost:8000"}, 200),
        ("127.0.0.1", {"host": "LocalHost.:8000"}, 200),
        ("::1", {"host": "[::1]:8000"}, 200),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
        ("127.0.0.1", {"host": "proxy.example", "origin": "https://proxy.example"}, 200),
        ("10.1.2.3", {"host": "10.1.2.3:8000"}, 200),
        ("10.1.2.3", {"host": "notes.internal:8000", "origin": "http://notes.internal:8000"}, 200),
        # A name that was made to point here.
        ("127.0.0.1", {"host": "evil.example:8000", "origin": "http://evil.example:8000"}, 421),
        ("127.0.0.1", {"host": "evil.example"}, 421),
        ("127.0.0.1", {"host": "127.0.0.1.evil.example:8000"}, 421),
        ("127.0.0.1", {"host": "127.0.0.1:8000@evil.example"}, 421),
        ("127.0.0.1", {"host": "localhost:8000/evil"}, 421),
        ("127.0.0.1", {"host": "10.1.2.3:8000"}, 421),
        ("10.1.2.3", {"host": "localhost:8000"}, 421),
        ("10.1.2.3", {"host": "evil.example:8000"}, 421),
        ("10.1.2.3", {"host": "0.0.0.0:8000"}, 421),
        ("127.0.0.1", {}, 421),
        ("127.0.0.1", {"host": ""}, 421),
        ("127.0.0.1", {"host": "localhost:x"}, 421),
        # A page of another site, or of another program on this machine.
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://evil.example"}, 403),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://localhost:6274"}, 403),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://127.0.0.1:8000"}, 403),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://localhost:8000.evil.example"}, 403),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://localhost:8000@evil.example"}, 403),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "file://localhost:8000"}, 403),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "null"}, 403),
        ("127.0.0.1", {"host": "localhost:8000", "origin": ""}, 403),
        ("10.1.2.3", {"host": "10.1.2.3:8000", "origin": "http://evil.example"}, 403),
    ],
)
def test_foreign_hosts_and_origins_are_refused(
    tmp_path: Path, server: str, headers: dict[str, str], status: int
) -> None:
    """Whether or not the request has a good token."""
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        app = http_app(
            make_server(store, embed=words),
            host="notes.internal",
            names=["proxy.example"],
            find_caller=lambda text: Caller("name", frozenset()) if text == "good" else None,
        )
        asked = {"authorization": "Bearer bad"} | headers
        # What passes comes to the check of the token.
        assert run(status_of(app, server, asked)) == (401 if status == 200 else status)
        assert run(status_of(app, server, headers | {"authorization": "Bearer good"}, path="/no")) == (
            404 if status == 200 else status
        )


async def status_of(app: Any, server: str, headers: dict[str, str], path: str = "/mcp") -> int:
    """What one request over HTTP is answered with."""
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "http_version": "1.1",
        "scheme": "http",
        "server": (server, 8000),
        "client": ("203.0.113.9", 5000),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    told: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            told.append(message["status"])

    await app(scope, receive, send)
    return told[0]


def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async def work(app: Any) -> int:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answer = await http.post("/mcp", headers=GOOD, content=b"x" * (5 << 20))
        return answer.status_code

    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        assert run(work(http_app(make_server(store, embed=words), host="127.0.0.1"))) == 413


def test_a_server_with_callers_answers_nobody_else(tmp_path: Path) -> None:
    """Should a request come past the check of its token, it is not taken for one from standard input."""

    async def work(server: Any) -> None:
        async with Client(server) as client:
            for ask in (client.list_tools, lambda: client.call_tool("list", {})):
                with pytest.raises(MCPError, match="token"):
                    await ask()

    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        run(work(make_protocol_server(Tools(store, embed=words), callers=True)))
