"""The page's own files, readiness, and the report."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from expunge.errors import StoreError
from expunge.memory.warm_up import warm_up
from expunge.service import preparation
from expunge.service.settings import Settings
from service.service_client import ServiceClient


def test_content_is_not_to_be_cached_and_the_page_is_asked_about(service: ServiceClient) -> None:
    assert service.request("GET", "/v1/memories/icu").headers["cache-control"] == "no-store"
    page = service.client.get("/")
    assert page.headers["cache-control"] == "no-cache"
    assert page.headers["content-type"].startswith("text/html")
    script = service.client.get("/page/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = service.client.get("/page/app.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304


def test_the_page_gives_nothing_but_its_own_files(service: ServiceClient) -> None:
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page/", "/page//etc/passwd"):
        response = service.client.get(path)
        assert response.status_code == 404, path


def eventually_ready(service: ServiceClient) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if service.client.get("/ready").status_code == 200:
            return True
        time.sleep(0.02)
    return False


def loaded(service: ServiceClient) -> list[bool]:
    return [service.store.loaded(one.uuid, one.edit) is not None for one in service.store.memories()]


def test_a_worker_is_ready_once_it_is_prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before compiled code and memories are loaded, and also where that fails; it is alive all the time."""
    begun, goes_on, known = threading.Event(), threading.Event(), warm_up

    def slow(**options: Any) -> None:
        begun.set()
        assert goes_on.wait(60)
        known(**options)

    monkeypatch.setattr(preparation, "warm_up", slow)
    service = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}"))
    with service.client:
        assert begun.wait(60)
        answer = service.client.get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
        assert answer.headers["Retry-After"] == "1"
        assert service.client.get("/health").status_code == 200
        assert not any(loaded(service))
        goes_on.set()
        assert eventually_ready(service)
        assert all(loaded(service))
        assert service.store.subjects.built


def test_a_worker_that_cannot_be_prepared_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(preparation, "warm_up", broken)
    service = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}"))
    with service.client:
        assert eventually_ready(service)


def test_readiness_is_that_of_the_store(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert eventually_ready(service)

    def gone(*_: Any) -> Any:
        raise StoreError("the database could not do it")

    monkeypatch.setattr(type(service.store._database), "reading", gone)
    assert service.client.get("/ready").status_code == 503
    assert service.client.get("/health").status_code == 200


def test_a_report_is_shown_to_whoever_has_a_ticket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = folder / "report"
    report.mkdir()
    (report / "index.html").write_text("<h1>Audit</h1>", encoding="utf-8")
    (report / "figure.svg").write_text("<svg/>", encoding="utf-8")
    service = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}", report=report))
    with service.client:
        url = service.request("GET", "/v1/report", scopes=("audit",), status=200)["url"]
        shown = service.client.get(url)
        assert shown.text == "<h1>Audit</h1>"
        assert shown.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert service.client.get(f"{url}figure.svg").status_code == 200
        for path in (f"{url}../ward.db", f"{url}..%2fward.db", f"{url}%2fetc%2fpasswd", f"{url}nothing", f"{url}%00"):
            assert service.client.get(path).status_code == 404, path
        changed = url.replace(url.split(".")[0][-1] + ".", "9.")
        assert changed == url or service.client.get(changed).status_code == 404
        end = int(url.split("/")[2].split(".")[0])
        monkeypatch.setattr(time, "time", lambda: end + 1.0)
        assert service.client.get(url).status_code == 404
