"""A service over a small ward, and a way to ask it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

import expunge
from expunge.service.app import create_app
from expunge.service.context import ServiceContext
from expunge.service.settings import Settings
from expunge.service.tokens import SCOPES
from expunge.store import Store
from store.sample_memory import entries

__all__ = ["EVERYTHING", "ServiceClient", "fill_store", "routes_of", "running_service"]

EVERYTHING = SCOPES


def fill_store(url: str, key: Path | None = None) -> None:
    """Two memories of the same ward, one of them pruned, and one of two coordinates."""
    with expunge.open(url, key) as store:
        store.create("icu", **_with_payloads(entries(40)), sigma=2.0, nu=0.3)
        other = store.create("other", **_with_payloads(entries(30, seed=1)), sigma=2.0, nu=0.3)
        other.prune("archive")
        store.create("plane", **_with_payloads(entries(30, seed=2, dimension=2)), sigma=1.0, nu=0.2)


def _with_payloads(given: dict[str, Any]) -> dict[str, Any]:
    return given | {"payloads": [{"hour": row, "note": f"note {row}"} for row in range(len(given["ids"]))]}


class ServiceClient:
    """One worker, asked in this process."""

    def __init__(self, settings: Settings) -> None:
        self.app = create_app(settings)
        self.context: ServiceContext = self.app.state.context
        self.client = TestClient(self.app, raise_server_exceptions=False)
        self._headers: dict[Any, dict[str, str]] = {}

    @property
    def store(self) -> Store:
        return self.context.store

    def headers(self, *scopes: str, memory: str | None = None) -> dict[str, str]:
        """The header of a token with these scopes; of one with all of them by default."""
        wanted = (scopes or EVERYTHING, memory)
        if wanted not in self._headers:
            text, _ = self.context.tokens.create(wanted[0], memory=memory)
            self._headers[wanted] = {"Authorization": f"Bearer {text}"}
        return self._headers[wanted]

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        scopes: tuple[str, ...] = (),
        memory: str | None = None,
        status: int | None = None,
        **headers: Any,
    ) -> Any:
        """The response; its JSON where a status is expected."""
        named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        given: dict[str, Any] = {"headers": self.headers(*scopes, memory=memory) | named}
        if body is not None:
            given["json"] = body
        response = self.client.request(method, path, **given)
        if status is None:
            return response
        assert response.status_code == status, response.text
        return response.json()


def routes_of(app: Any) -> list[Any]:
    """Every route of an application, those of included routers too."""
    found: list[Any] = []
    for route in getattr(app, "routes", []):
        inner = getattr(route, "original_router", None)
        found += routes_of(inner) if inner is not None and not isinstance(route, APIRoute) else [route]
    return found


@contextmanager
def running_service(
    url: str, *words: str, key: Path | None = None, trusted: ssl.SSLContext | bool = True
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """`expunge serve` as a process of its own: the process, where it listens, and its log."""
    log = Path(f"/tmp/expunge-test-{os.getpid()}-{time.monotonic_ns()}.log")  # noqa: S108
    command = [sys.executable, "-m", "expunge", "serve", "--store", url, "--port", "0", "--json", *words]
    if key is not None:
        command += ["--signing-key", str(key)]
    with log.open("wb") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err)  # noqa: S603
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            address = json.loads(line)["url"]
            _await_ready(address, process, log, trusted)
            workers = int(words[words.index("--workers") + 1]) if "--workers" in words else 1
            while log.read_text().count("Application startup complete.") < workers:
                time.sleep(0.05)
            yield process, address, log
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(40)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            if process.stdout is not None:
                process.stdout.close()
            log.unlink(missing_ok=True)


def _await_ready(address: str, process: subprocess.Popen[bytes], log: Path, trusted: ssl.SSLContext | bool) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{address}ready", timeout=5, verify=trusted).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())
