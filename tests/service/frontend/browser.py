"""A real Chromium before the real service: what the tests of the page, and the pictures in its guide, are made with."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from expunge.service.app import create_app
from expunge.service.settings import Settings
from expunge.service.tokens import SCOPES, Tokens
from expunge.store import Store
from expunge.store import open as open_store

__all__ = [
    "AXE",
    "ORIGIN",
    "PATIENCE",
    "RunningService",
    "Visitor",
    "axe_findings",
    "chromium",
    "confirm",
    "create_memories",
    "fact",
    "launched",
    "look_at",
    "map_of",
    "mark_positions",
    "press",
    "serving",
    "tab_to",
    "visiting",
]

ORIGIN = "page.example/ward"
# A sandbox needs rights that a container seldom gives; the other switches keep the browser off the network.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 15_000  # milliseconds; for a machine that has other things to do
expect.set_options(timeout=PATIENCE)


def chromium() -> str | None:
    """Where Chromium is: $EXPUNGE_CHROMIUM, or on the path; None leaves it to Playwright's own."""
    given = os.environ.get("EXPUNGE_CHROMIUM")
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class RunningService:
    """A running service and a token that may do everything."""

    url: str
    token: str
    tokens: Tokens
    store: Store

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Ask the service itself, past the page."""
        request = urllib.request.Request(  # noqa: S310 — the address is ours
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"} | headers,
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return json.load(answer)


@contextmanager
def serving(
    folder: Path,
    url: str | None = None,
    *,
    with_memories: bool = True,
    report: Path | None = None,
    key: Path | None = None,
) -> Iterator[RunningService]:
    """The service on a port of its own, over a database or ``page.db``, with a new store; and memories in it, unless
    there are to be none.
    """
    url = url or f"sqlite:///{folder / 'page.db'}"
    with open_store(url, key, origin=ORIGIN) as store:
        if with_memories:
            create_memories(store)
        token, _ = Tokens(store).create(SCOPES)
    # What has ended is erased when a test asks for it, and not by itself in between.
    app = create_app(Settings(url, key, report=report, retain_seconds=0.0))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 30
        while not server.started and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        store = app.state.context.store
        yield RunningService(f"http://127.0.0.1:{port}", token, Tokens(store), store)
    finally:
        server.should_exit = True
        thread.join(30)


def create_memories(store: Store) -> None:
    """Memories with entries of every kind.

    ``ward`` has two coordinates and, after prunings and an erasure, every group; ``icu`` has six. ``practice`` is there
    to be erased from, and ``cold`` has certificates that later admissions use up.
    """
    rng = np.random.default_rng(5)
    angle, reach = rng.uniform(0.0, 2.0 * np.pi, 140), np.sqrt(rng.uniform(0.0, 1.0, 140))
    keys = np.column_stack([2.2 * np.cos(angle) * reach, 1.3 * np.sin(angle) * reach])
    keys[:40] += [3.2, 1.2]
    ward = store.create(
        "ward",
        keys,
        np.column_stack([rng.uniform(90.0, 99.0, 140), rng.uniform(0.0, 1.0, 140)]),
        sigma=1.6,
        nu=0.2,
        ids=[f"hour-{row:03d}" for row in range(140)],
        subjects=[f"patient-{row % 17}" for row in range(140)],
        payloads=[{"note": f"Round {row}: stable, slept well.", "spo2": 92 + row % 7} for row in range(140)],
    )
    ward.prune("forget")
    for row in range(30):
        place = [0.6 * np.cos(row) + 0.2, 0.5 * np.sin(1.7 * row)]
        ward.admit(place, [95.0, 0.5], id=f"late-{row}", subject=f"patient-{row % 17}", payload=f"Late note {row}")
    ward.prune("archive")
    for row in range(14):
        place = [0.5 * np.cos(row) + 3.2, 0.3 * np.sin(1.7 * row) + 1.2]
        ward.admit(place, [94.0, 0.2], id=f"night-{row}", subject=f"patient-{row % 5}", payload=f"Night note {row}")
    ward.delete(subject="patient-9")
    store.create("icu", **_rows(60, 6, seed=1, label="e"), sigma=2.0, nu=0.4)
    store.create("practice", **_rows(90, 3, seed=2, label="p"), sigma=2.0, nu=0.3)
    cold = store.create("cold", **_rows(70, 5, seed=3, label="c"), sigma=4.0, nu=0.3)
    cold.prune("forget", sketch=4)


def _rows(size: int, dimension: int, *, seed: int, label: str) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "keys": rng.standard_normal((size, dimension)),
        "values": rng.standard_normal((size, 2)),
        "ids": [f"{label}{row}" for row in range(size)],
        # Every fourth entry of two memories belongs to somebody who is in both.
        "subjects": [
            f"person-{row % 12}" if row % 4 == 0 and label != "c" else f"{label}-{row % 9}" for row in range(size)
        ],
        "payloads": [f"{label} note {row}" for row in range(size)],
    }


@dataclass
class Visitor:
    """One visit: the page, and what the browser asked for and complained about meanwhile."""

    page: Page
    service: RunningService
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, route: str) -> None:
        """To a view, once it is drawn."""
        self.page.goto(f"{self.service.url}/{route}")
        # A change of the route is noticed in a task of its own.
        self.page.evaluate("() => new Promise((resolve) => setTimeout(resolve))")
        self.page.wait_for_selector("main[aria-busy=false]")

    def on_console(self, message: ConsoleMessage) -> None:
        """Note what the console says; that a request failed is said in the page, and is not a fault."""
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def check_traffic(self) -> None:
        """Raise if the browser sent a request elsewhere, or reported an error or a breach of the policy."""
        elsewhere = [url for url in self.requests if not url.startswith((self.service.url, "blob:", "data:"))]
        if elsewhere or self.complaints:
            raise AssertionError(f"requests {elsewhere}, console {self.complaints}")

    def on_request(self, request: Request) -> None:
        """Note a request."""
        self.requests.append(request.url)


@contextmanager
def visiting(
    browser: Browser,
    service: RunningService,
    *,
    width: int = 1280,
    scheme: Any = "light",
    token: str | None = "",
    **more: Any,
) -> Iterator[Visitor]:
    """A fresh visit, signed in with the service's token unless another, or None, is given."""
    height = 740 if width < 500 else 900
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **more)
    context.set_default_timeout(PATIENCE)
    visitor = Visitor(context.new_page(), service)
    context.on("request", visitor.on_request)
    context.on("console", visitor.on_console)
    visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    try:
        if token is not None:
            visitor.go(f"#token={token or service.token}")
            visitor.page.wait_for_selector("main[aria-busy=false] h1")
        yield visitor
    finally:
        context.close()


def press(visit: Visitor, *keys: str) -> None:
    """Press keys."""
    for key in keys:
        visit.page.keyboard.press(key)


def tab_to(visit: Visitor, name: str, role: str = "button") -> None:
    """Move the focus with the keyboard alone until it is there, and see that one can see it."""
    wanted = visit.page.get_by_role(role, name=name)  # type: ignore[arg-type]
    for _ in range(40):
        visit.page.keyboard.press("Tab")
        if wanted.count() and wanted.first.evaluate("(one) => one === document.activeElement"):
            assert wanted.first.evaluate("(one) => getComputedStyle(one).outlineStyle") == "solid"
            return
    raise AssertionError(f"the keyboard does not reach {name!r}")


def map_of(service: RunningService, name: str) -> Any:
    """The map of a memory, as the service has it."""
    return service.call("GET", f"/v1/memories/{name}/map")


def fact(place: Locator, name: str) -> Locator:
    """What a description list says under a name."""
    return place.locator("dl > div").filter(has=place.page.get_by_text(name, exact=True)).locator("dd").first


def confirm(page: Page, name: str) -> None:
    """Type the name of who or what goes, and press the button that only then can be pressed."""
    button = page.get_by_role("button", name=re.compile("^Erase .* for good$"))
    expect(button).to_be_disabled()
    page.get_by_label(re.compile("^Type the (name|id) to confirm")).fill(name)
    button.click()


def look_at(page: Page, name: str, *, search: str | None = None) -> Locator:
    """Find a person on the officer's view, and look at what there is of them."""
    page.get_by_label("Who is to be erased?").fill(search or name)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("button", name=f"See what there is of {name}", exact=True).click()
    person = page.get_by_role("region", name="Person")
    expect(person.locator(".large-name")).to_be_visible()
    return person


def mark_positions(visit: Visitor, group: str) -> list[tuple[float, float]]:
    """Where the map on screen has a mark of a group, in pixels of the map."""
    drawn = visit.page.locator(f"svg.chart path.mark.{group}")
    paths = [drawn.nth(at).get_attribute("d") or "" for at in range(drawn.count())]
    return [(float(x), float(y)) for path in paths for x, y in re.findall(r"M([\d.-]+) ([\d.-]+)", path)]


AXE = files("axe_playwright_python").joinpath("axe.min.js")


def axe_findings(page: Page) -> list[str]:
    """What the accessibility checker finds wrong with what is on screen, by all of its rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]
