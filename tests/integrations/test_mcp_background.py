"""What an MCP server does beside its answers: mirrors follow, and no call of a tool waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import expunge
from expunge.integrations.embedding import words
from expunge.integrations.mcp import Tools
from expunge.integrations.mcp.background import working
from expunge.mirrors import open_mirror
from expunge.store import Store
from expunge.store.mirroring import mirror_pass

SLOW = 4.0


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[tuple[Store, Tools]]:
    """A store whose notes have copies in LanceDB."""
    pytest.importorskip("lancedb")
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        tools = Tools(store, embed=words)
        for number in range(3):
            tools.remember(f"note {number} of Ann", subject="ann", id=f"a{number}")
        store.mirror(f"lancedb://{tmp_path / 'copies'}#notes", memory="notes")
        yield store, tools


def until(true: Any) -> None:
    """Wait until something is true."""
    ends = time.monotonic() + 300
    while not true():
        assert time.monotonic() < ends, "it did not become true within five minutes"
        time.sleep(0.1)


def test_no_call_waits_for_a_mirror(mirrored: tuple[Store, Tools], monkeypatch: pytest.MonkeyPatch) -> None:
    store, tools = mirrored
    plain, opened, retried = open_mirror, threading.Event(), list[float]()

    @contextmanager
    def slow(url: str) -> Iterator[Any]:
        opened.set()
        time.sleep(SLOW)
        with plain(url) as system:
            yield system

    def retry() -> None:
        retried.append(time.monotonic())
        plain_retry()

    plain_retry = store.retry_erasures
    monkeypatch.setattr(mirror_pass, "open_mirror", slow)
    monkeypatch.setattr(store, "retry_erasures", retry)
    with working(store, seconds=0.5):
        for act in (
            lambda: tools.forget(["a0"]),
            lambda: tools.remember("one more of Ann", subject="ann"),
            lambda: tools.forget_subject("ann"),
        ):
            started = time.monotonic()
            act()
            assert time.monotonic() - started < SLOW / 2
        # Nor does the overwriting of what was erased: it goes on while a pass is under way.
        until(opened.is_set)
        before = len(retried)
        until(lambda: len(retried) > before + 2)
        assert store.mirrors()[0].pending
        until(lambda: not store.mirrors()[0].pending)
    assert store.check_mirror(store.mirrors()[0].leaf).copies == 0
    assert store.mirror_keeper.at_once
    store.verify()


def test_a_server_that_ends_gives_its_mirrors_one_more_pass(mirrored: tuple[Store, Tools]) -> None:
    store, tools = mirrored
    with working(store, seconds=3600):
        until(lambda: not store.mirrors()[0].pending)
        tools.forget(["a1"])
        assert store.mirrors()[0].pending
    assert not store.mirrors()[0].pending
    assert store.check_mirror(store.mirrors()[0].leaf).copies == 2
