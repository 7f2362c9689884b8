"""Reads do not wait for edits, and an edit waits only so long."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from expunge.errors import InputError
from expunge.service.settings import Settings
from service.service_client import ServiceClient


def test_reads_do_not_wait_for_an_edit(service: ServiceClient) -> None:
    """One edit holds its memory and three more wait for it; whoever reads is answered at once."""
    inside, leave = threading.Event(), threading.Event()

    def stall(*_: Any, **__: Any) -> Any:
        inside.set()
        leave.wait(20)
        raise InputError("that was long enough")

    results: list[int] = []

    def edit() -> None:
        results.append(service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}).status_code)

    stored = service.store["icu"]
    stored.delete = stall  # type: ignore[method-assign]
    service.headers()
    threads = [threading.Thread(target=edit) for _ in range(12)]
    for thread in threads:
        thread.start()
    assert inside.wait(10)
    try:
        for _ in range(20):
            assert service.request("POST", "/v1/memories/icu/read", {"queries": [[0.0] * 4]}).status_code == 200
        # Nor does an edit of another memory.
        assert service.request("POST", "/v1/memories/plane/delete", {"id": "e1"}).status_code == 200
        assert results == []
    finally:
        leave.set()
        for thread in threads:
            thread.join(30)
    assert results == [422] * 12


def test_an_edit_that_waits_too_long_is_busy(folder: Path) -> None:
    service = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}", timeout=0.3))
    with service.client:
        service.headers()
        with service.store["icu"].versions.only_editor():
            response = service.request("POST", "/v1/memories/icu/delete", {"id": "e1"})
        assert (response.status_code, response.json()["error"]) == (503, "Busy")
        assert response.headers["retry-after"] == "1"
        assert service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}).status_code == 200
