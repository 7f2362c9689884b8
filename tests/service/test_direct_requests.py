"""A request that is answered without FastAPI gets what it would get with it."""

from __future__ import annotations

from typing import Any

import pytest

from expunge.service.direct_requests import DirectRequests

from .service_client import ServiceClient

# Paths, bodies and headers; what follows no rule goes the ordinary way, and is answered by its messages.
REQUESTS: dict[str, tuple[str, Any, dict[str, str]]] = {
    "admission": ("icu/admit", {"key": [0.1] * 4, "value": [1.0, 2.0], "id": "new"}, {}),
    "id that is taken": ("icu/admit", {"key": [0.1] * 4, "value": [1.0, 2.0], "id": "new"}, {}),
    "wrong dimension": ("icu/admit", {"key": [0.1], "value": [1.0, 2.0]}, {}),
    "unknown field": ("icu/admit", {"key": [0.1] * 4, "value": [1.0, 2.0], "colour": 1}, {}),
    "text for a number": ("icu/admit", {"key": ["0.1"] * 4, "value": [1.0, 2.0]}, {}),
    "not JSON": ("icu/admit", b"{", {}),
    "not a number": ("icu/admit", b'{"key": [NaN], "value": [1.0, 2.0]}', {}),
    "a list": ("icu/admit", [1], {}),
    "nothing": ("icu/admit", b"", {}),
    "deep": ("icu/admit", b"[" * 100_000, {}),
    "empty key of a request": ("icu/admit", {"key": [0.1] * 4, "value": [1.0, 2.0]}, {"Idempotency-Key": ""}),
    "long key of a request": ("icu/admit", {"key": [0.1] * 4, "value": [1.0, 2.0]}, {"Idempotency-Key": "k" * 1001}),
    "deletion": ("icu/delete", {"id": "new"}, {"Idempotency-Key": "once"}),
    "repeated deletion": ("icu/delete", {"id": "new"}, {"Idempotency-Key": "once"}),
    "unknown id": ("icu/delete", {"id": "nobody"}, {}),
    "readout": ("icu/read", {"queries": [[0.1] * 4]}, {}),
    "search": ("icu/search", {"query": [0.1] * 4}, {}),
    "unknown memory": ("nowhere/read", {"queries": [[0.1] * 4]}, {}),
    "no token": ("icu/read", {"queries": [[0.1] * 4]}, {"Authorization": "Bearer nobody"}),
    "scope": ("icu/admit", {"key": [0.1] * 4, "value": [1.0, 2.0]}, {"scope": "read"}),
    "media type": ("icu/admit", b"key", {"Content-Type": "text/plain"}),
}
# Of each answer, and of each edit.
OWN = {"instance", "index", "edit", "state_before", "state_after", "details", "digest", "receipt"}


@pytest.fixture
def answers(service: ServiceClient) -> dict[str, list[tuple[int, Any]]]:
    """Each request the direct way, and, with a media type that says the same at more length, the ordinary way."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for media in ("application/json", "application/json; charset=utf-8"):
        for what, (path, body, headers) in REQUESTS.items():
            scopes = (headers["scope"],) if "scope" in headers else ()
            given = service.headers(*scopes) | {"Content-Type": media}
            given |= {name: text for name, text in headers.items() if name != "scope"}
            if given.get("Idempotency-Key") == "once":
                given["Idempotency-Key"] += media
            sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
            response = service.client.post(f"/v1/memories/{path}", headers=given, **sent)
            content = {name: value for name, value in response.json().items() if name not in OWN}
            found.setdefault(what, []).append((response.status_code, content))
            assert response.headers["X-Request-Id"]
    return found


def test_both_ways_give_the_same_answers(answers: dict[str, list[tuple[int, Any]]]) -> None:
    for what, (direct, ordinary) in answers.items():
        assert direct == ordinary, what
    statuses = {what: direct[0] for what, (direct, _) in answers.items()}
    assert {statuses[what] for what in ("admission", "deletion", "repeated deletion", "readout", "search")} == {
        200,
        201,
    }
    assert all(400 <= statuses[what] < 500 for what in ("unknown field", "not JSON", "no token", "scope", "deep"))


def test_plain_requests_do_not_pass_through_the_routes(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []
    stack = service.client.app.middleware_stack  # type: ignore[attr-defined]
    while not isinstance(stack, DirectRequests):
        stack = getattr(stack, "_app", None) or stack.app
    behind = stack._app

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["path"])
        await behind(scope, receive, send)

    monkeypatch.setattr(stack, "_app", counted)
    for what in ("admission", "deletion", "readout", "search", "unknown memory"):
        path, body, _ = REQUESTS[what]
        service.request("POST", f"/v1/memories/{path}", body)
    assert passed == []
    service.request("POST", "/v1/memories/icu/read", REQUESTS["readout"][1], Content_Type="application/json; a=b")
    assert passed == ["/v1/memories/icu/read"]
