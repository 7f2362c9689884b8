"""Clients of the MCP server that the project did not write: the official ones in Python and TypeScript."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PACKAGE = "@modelcontextprotocol/sdk@1.32.2"
HERE = Path(__file__).parent


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def call(client: Any, tool: str, **arguments: Any) -> Any:
    """The structured answer of a tool that works, which its text says, too."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert json.loads(answer.content[0].text) == answer.structured_content
    return answer.structured_content


async def fails(client: Any, tool: str, **arguments: Any) -> str:
    """The text of a tool's error."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer.structured_content
    return str(answer.content[0].text)


def command(url: str, *words: str) -> list[str]:
    """The command line of a server, without the interpreter."""
    return ["-m", "expunge", "--store", url, "mcp", "--embed", "words", *words]


def stdio(url: str, *words: str) -> StdioServerParameters:
    """A server that a client starts itself."""
    return StdioServerParameters(command=sys.executable, args=command(url, *words), env=dict(os.environ))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def served(url: str, *words: str, host: str = "127.0.0.1") -> Iterator[str]:
    """The address of a server that `expunge mcp` runs over HTTP."""
    port = free_port()
    words = ("--transport", "http", "--host", host, "--port", str(port), *words)
    process = subprocess.Popen([sys.executable, *command(url, *words)], stderr=subprocess.DEVNULL)  # noqa: S603
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


@asynccontextmanager
async def with_token(address: str, token: str) -> AsyncIterator[Any]:
    """A transport of the Python client that sends a token."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        yield streamable_http_client(address, http_client=http)


def node_client(folder: Path) -> list[str] | None:
    """The command of the TypeScript client, installed into a folder; None where npm cannot do that.

    Where there is an npm, and `CI` is true, it has to.
    """
    npm = shutil.which("npm")
    node = shutil.which("node")
    if npm is None or node is None:
        return None
    (folder / "package.json").write_text('{"private": true}')
    made = subprocess.run(  # noqa: S603
        [npm, "install", "--no-audit", "--no-fund", "--silent", PACKAGE], cwd=folder, capture_output=True, check=False
    )
    if made.returncode:
        assert os.environ.get("CI") != "true", made.stderr.decode(errors="replace")
        return None
    # Where it lies decides where it finds the package.
    return [node, str(shutil.copy(HERE / "mcp_client.mjs", folder))]


class NodeClient:
    """The TypeScript client, with the two methods of the Python client that the tests use."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def list_tools(self) -> Any:
        told = await self._ask({"list": True})
        return SimpleNamespace(tools=[SimpleNamespace(**tool) for tool in told["tools"]])

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        told = await self._ask({"name": name, "arguments": arguments})
        content = [SimpleNamespace(**part) for part in told["content"]]
        return SimpleNamespace(
            is_error=told.get("isError", False), content=content, structured_content=told.get("structuredContent")
        )

    async def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        told = json.loads(line)
        assert "failed" not in told, told
        return told


@asynccontextmanager
async def running_node_client(client: list[str], *server: str) -> AsyncIterator[NodeClient]:
    """The TypeScript client, connected to an address, with a token or without, or to a server by its command."""
    process = await asyncio.create_subprocess_exec(
        *client, *server, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    try:
        yield NodeClient(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 30)
