"""What every answer carries, what every request is held to, and what nothing writes down."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from expunge.service.log_format import JsonLines
from expunge.service.middleware import security_headers
from service.service_client import ServiceClient

PLANTED = "Penthesilea"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Everything that any logger writes, at every level, as the service would write it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def test_nothing_of_the_content_is_logged_or_measured(service: ServiceClient, written: io.StringIO) -> None:
    """A name that is in every place where content can be is in no log line and no metric, whatever went wrong."""
    key = [7.251953125, 0.125, 3.5, 1.062744140625]  # longer than a clock can show by chance
    entry = {"key": key, "value": [7.251953125, 0.0], "id": PLANTED, "subject": PLANTED, "payload": {"text": PLANTED}}
    creation = {
        "name": PLANTED,
        "keys": [[0.0], [1.0]],
        "values": [0.0, 1.0],
        "sigma": 1.0,
        "cap": 1.0,
        "ids": [PLANTED, "b"],
    }
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/v1/memories", creation),
        ("POST", "/v1/memories", creation),
        ("GET", f"/v1/memories/{PLANTED}", None),
        ("GET", f"/v1/memories/{PLANTED}-not", None),
        ("POST", "/v1/memories/icu/admit", entry),
        ("POST", "/v1/memories/icu/admit", entry),
        ("POST", "/v1/memories/icu/admit", {PLANTED: 1}),
        ("POST", "/v1/memories/icu/admit", entry | {"key": PLANTED}),
        ("POST", "/v1/memories/icu/admit/batch", {"entries": [entry]}),
        ("GET", f"/v1/memories/icu/entries/{PLANTED}", None),
        ("GET", f"/v1/memories/icu/certificates/{PLANTED}", None),
        ("GET", f"/v1/memories/icu/entries?cursor={PLANTED}", None),
        ("GET", f"/v1/memories/icu/entries?{PLANTED}=1", None),
        ("GET", "/v1/memories/icu/map", None),
        ("POST", "/v1/memories/icu/explain", {"like": PLANTED}),
        ("POST", "/v1/memories/icu/read", {"queries": [key]}),
        ("POST", "/v1/memories/icu/search", {"query": key}),
        ("POST", "/v1/memories/icu/holds", {"id": PLANTED, "reason": PLANTED}),
        ("POST", "/v1/memories/icu/delete", {"id": PLANTED}),
        ("POST", "/v1/memories/icu/delete", {"subject": f"{PLANTED}-not"}),
        ("POST", "/v1/memories/icu/delete?dry_run=true", {"subject": PLANTED}),
        ("POST", "/v1/erasures", {"subject": f"{PLANTED}-not"}),
        ("POST", "/v1/erasures", {"subject": PLANTED}),
        ("POST", "/v1/verify/receipt", {"envelope": PLANTED}),
        ("GET", f"/{PLANTED}", None),
        ("GET", f"/v1/jobs/{PLANTED}", None),
        ("GET", f"/report/{PLANTED}/", None),
        ("GET", f"/page/{PLANTED}.js", None),
        (PLANTED.upper(), "/v1", None),
    ]
    seen = set()
    for place, (method, path, body) in enumerate(asked):
        response = service.request(method, path, body, Prefer="wait=20", Idempotency_Key=f"{PLANTED}-{place}")
        seen.add(response.status_code)
    assert {200, 201, 404, 405, 409, 422} <= seen
    service.client.get("/v1", headers={"Authorization": f"Bearer {PLANTED}"})
    token = service.headers()["Authorization"].removeprefix("Bearer ")
    metrics = service.request("GET", "/metrics").text
    lines = [line for line in written.getvalue().splitlines() if '"logger": "httpx' not in line]
    ours = [json.loads(line) for line in lines if '"event": "request"' in line]
    assert len(ours) >= len(asked)
    assert {line["route"] for line in ours} >= {"/v1/memories/{name}/entries/{entry:path}", "(none)", "/page"}
    for text in ("\n".join(lines), metrics):
        assert PLANTED.lower() not in text.lower()
        assert token not in text
        assert token.split("_", 2)[2][:20] not in text
        assert "7.251953125" not in text
        assert "1.062744140625" not in text


def test_an_auditor_sees_no_content(service: ServiceClient) -> None:
    """Neither ids nor subjects nor vectors, in anything that the scope opens."""
    service.store["icu"].admit([0.5] * 4, [7.251953125, 7.251953125], id=PLANTED, subject=PLANTED, payload=PLANTED)
    service.request("POST", "/v1/memories/icu/prune", {}, status=200)
    service.store["icu"].delete(subject=PLANTED)
    seen = 0
    for method, path in (
        ("GET", "/v1"),
        ("GET", "/v1/memories"),
        ("GET", "/v1/memories/icu"),
        ("GET", "/v1/memories/icu/check"),
        ("GET", "/v1/memories/icu/bounds"),
        ("GET", "/v1/memories/icu/fit"),
        ("GET", "/v1/memories/icu/receipts"),
        ("GET", "/v1/log"),
        *(("GET", f"/v1/receipts/{index}") for index in range(service.store.size)),
        ("GET", "/metrics"),
        ("POST", "/v1/memories/icu/prove"),
        ("POST", "/v1/verify"),
    ):
        response = service.request(method, path, scopes=("audit",), Prefer="wait=30")
        assert response.status_code == 200, path
        assert PLANTED not in response.text
        assert "patient-" not in response.text
        assert "7.251953125" not in response.text
        seen += 1
    assert seen > 12


def test_a_log_line_says_who_what_and_how_long(service: ServiceClient, written: io.StringIO) -> None:
    receipt = service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200)
    (line,) = [json.loads(line) for line in written.getvalue().splitlines() if '"event": "request"' in line]
    assert line["method"] == "POST"
    assert line["route"] == "/v1/memories/{name}/delete"
    assert line["status"] == 200
    assert line["memory"] == service.store["icu"].uuid
    assert line["outcome"] == receipt["outcome"]
    assert line["leaf"] == receipt["index"]
    assert line["token"] in service.headers()["Authorization"]
    assert line["ms"] > 0


@pytest.mark.parametrize("path", ["/v1", "/health", "/", "/page/app.js", "/nowhere", "/report/x/y", "/v1/memories/icu"])
def test_every_answer_has_its_security_headers(service: ServiceClient, path: str) -> None:
    response = service.client.get(path)
    for name, value in security_headers(path, tls=False).items():
        assert response.headers[name] == value, name
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy or path.startswith("/report/")
    assert "http" not in policy
    assert "server" not in response.headers
    assert "access-control-allow-origin" not in response.headers


def test_with_tls_browsers_are_told_to_stay_with_it() -> None:
    assert "Strict-Transport-Security" in security_headers("/", tls=True)
    assert "Strict-Transport-Security" not in security_headers("/", tls=False)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_its_limit(service: ServiceClient, chunked: bool) -> None:
    body = b'{"queries": [[' + b"0," * 150_000 + b"0]]}"

    def parts() -> Iterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    response = service.client.post(
        "/v1/memories/icu/read",
        content=parts() if chunked else body,
        headers=service.headers() | {"Content-Type": "application/json"},
    )
    assert response.status_code == 413
    assert response.json()["code"] == "too-large"
