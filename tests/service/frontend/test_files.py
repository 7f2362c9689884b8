"""The page's own files, readiness, and the report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from expunge.errors import StoreError
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


def test_readiness_is_that_of_the_store(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert service.client.get("/ready").status_code == 200

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
