"""The programs that agents talk to, each a process of its own, and the ways to ask them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil  # type: ignore[import-untyped]
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

__all__ = ["Place", "Programs", "ToolError", "running_programs"]

# With these a process overwrites what it frees, and Python and Arrow ask the C library for every block: what is found
# in its memory then is what it still holds.
OVERWRITING = {
    "PYTHONMALLOC": "malloc",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
}


class ToolError(Exception):
    """A program refused: its code, and what it said."""

    def __init__(self, code: str, told: str) -> None:
        super().__init__(told)
        self.code = code


@dataclass(frozen=True)
class Place:
    """Where one store is: its URL and key, the database of its threads, and a folder for logs."""

    kind: str
    url: str
    key: Path
    threads: str
    folder: Path
    environment: Mapping[str, str]

    def start(self, name: str, *command: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a program; what it says is kept."""
        with (self.folder / f"{name}.log").open("wb") as log:
            environment = {**os.environ, **self.environment}
            return subprocess.Popen([sys.executable, *command], stderr=log, env=environment, **options)  # noqa: S603

    def expunge(self, *words: str) -> list[str]:
        """The words of a command on this store."""
        return ["-m", "expunge", "--store", self.url, "--signing-key", str(self.key), *words]


class Programs:
    """Clients of the programs of one store."""

    def __init__(
        self, stdio: Client, http: Client, service: httpx2.AsyncClient, graph: subprocess.Popen[bytes]
    ) -> None:
        self.tools = {"stdio": stdio, "http": http}
        self._service = service
        self._graph = graph
        self.numbers: dict[str, int] = {}
        self.asked: dict[str, int] = {}

    async def tool(self, way: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers over the Model Context Protocol."""
        self._count(f"mcp over {way}")
        answer = await self.tools[way].call_tool(tool, arguments)
        if answer.is_error:
            told = answer.content[0].text  # type: ignore[union-attr]
            raise ToolError(told.partition(":")[0], told)
        return answer.structured_content or {}

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        """What the service answers."""
        self._count("service")
        answer = await self._service.request(method, path, json=body, headers=headers)
        content: dict[str, Any] = answer.json()
        if answer.status_code >= 400:
            raise ToolError(content["code"], str(content))
        return content

    async def agent(self, do: str, **asked: Any) -> dict[str, Any]:
        """What the LangGraph agent answers."""
        self._count("langgraph")
        answer = await asyncio.to_thread(self._exchange, json.dumps({"do": do, **asked}))
        if "error" in answer:
            raise ToolError(answer["error"], answer["detail"])
        return answer

    def _exchange(self, line: str) -> dict[str, Any]:
        assert self._graph.stdin is not None
        assert self._graph.stdout is not None
        self._graph.stdin.write(line.encode() + b"\n")
        self._graph.stdin.flush()
        told = self._graph.stdout.readline()
        if not told:
            raise RuntimeError("the LangGraph agent has ended; its log is in the folder of the store")
        answer: dict[str, Any] = json.loads(told)
        return answer

    def _count(self, way: str) -> None:
        self.asked[way] = self.asked.get(way, 0) + 1


@asynccontextmanager
async def running_programs(place: Place, token: str) -> AsyncIterator[Programs]:
    """Two MCP servers, the service and a LangGraph agent over one store, until the end of the block."""
    ports = _free_ports(2)
    http = place.start(
        "mcp-http",
        *place.expunge("mcp", "--embed", "words", "--transport", "http", "--port", str(ports[0])),
        "--require-token",
        "--require-subject",
    )
    service = place.start("service", *place.expunge("serve", "--port", str(ports[1])), stdout=subprocess.DEVNULL)
    graph = place.start(
        "graph",
        "-m",
        "agents.graph_process",
        place.url,
        str(place.key),
        place.threads,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    started = [http, service, graph]
    before = set(psutil.Process().children())
    try:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=place.expunge("mcp", "--embed", "words"),
            env={**os.environ, **place.environment},
        )
        headers = {"Authorization": f"Bearer {token}"}
        with (place.folder / "mcp-stdio.log").open("w") as log:
            async with (
                Client(stdio_client(parameters, errlog=log)) as over_stdio,
                httpx2.AsyncClient(headers=headers, timeout=120) as plain,
                httpx2.AsyncClient(headers=headers, timeout=120, base_url=f"http://127.0.0.1:{ports[1]}") as to_service,
            ):
                for port, process in zip(ports, (http, service), strict=True):
                    await asyncio.to_thread(_wait_for, port, process)
                over_http = streamable_http_client(f"http://127.0.0.1:{ports[0]}/mcp", http_client=plain)
                async with Client(over_http) as with_token:
                    programs = Programs(over_stdio, with_token, to_service, graph)
                    assert graph.stdout is not None
                    assert await asyncio.to_thread(graph.stdout.readline) == b"{}\n", (
                        "the LangGraph agent did not start"
                    )
                    own = set(psutil.Process().children()) - before
                    programs.numbers = {
                        "mcp over stdio": min(child.pid for child in own),
                        "mcp over http": http.pid,
                        "service": service.pid,
                        "langgraph": graph.pid,
                    }
                    yield programs
    finally:
        if graph.stdin is not None:
            graph.stdin.close()
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)
        if graph.stdout is not None:
            graph.stdout.close()


def _free_ports(count: int) -> list[int]:
    doors = [socket.socket() for _ in range(count)]
    try:
        for door in doors:
            door.bind(("127.0.0.1", 0))
        return [door.getsockname()[1] for door in doors]
    finally:
        for door in doors:
            door.close()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        with socket.socket() as door:
            if door.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise RuntimeError(f"a program has ended: {process.args!r}")
        time.sleep(0.1)
    raise RuntimeError("a program did not begin to listen")
