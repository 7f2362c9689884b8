"""Who gets in: every route with every scope, tokens of one memory, tokens that are no longer good."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request

from expunge.service.auth import AuthorizedRoute, needs, router
from expunge.service.tokens import SCOPES
from service.service_client import ServiceClient, routes_of

READ, WRITE, ERASE, AUDIT, ADMIN = ({str(scope)} for scope in SCOPES)
ALL: set[str] = set(SCOPES)

# The decision for every route. A new one has to be decided here too.
DECIDED: dict[tuple[str, str], set[str]] = {
    ("GET", "/v1"): ALL,
    ("GET", "/openapi.json"): ALL,
    ("GET", "/metrics"): AUDIT | ADMIN,
    ("GET", "/v1/report"): READ | AUDIT,
    ("GET", "/v1/memories"): READ | AUDIT | ADMIN,
    ("POST", "/v1/memories"): WRITE,
    ("GET", "/v1/memories/{name}"): READ | AUDIT | ADMIN,
    ("DELETE", "/v1/memories/{name}"): ADMIN,
    ("GET", "/v1/memories/{name}/entries"): READ,
    ("GET", "/v1/memories/{name}/entries/{entry:path}"): READ,
    ("GET", "/v1/memories/{name}/certificates/{entry:path}"): READ,
    ("GET", "/v1/memories/{name}/map"): READ,
    ("GET", "/v1/memories/{name}/warranties"): READ,
    ("POST", "/v1/memories/{name}/read"): READ,
    ("POST", "/v1/memories/{name}/nearest"): READ,
    ("POST", "/v1/memories/{name}/search"): READ,
    ("POST", "/v1/memories/{name}/explain"): READ,
    ("GET", "/v1/memories/{name}/check"): READ | AUDIT,
    ("GET", "/v1/memories/{name}/bounds"): READ | AUDIT,
    ("GET", "/v1/memories/{name}/fit"): READ | AUDIT,
    ("POST", "/v1/memories/{name}/prove"): READ | AUDIT,
    ("POST", "/v1/memories/{name}/entries"): WRITE,
    ("POST", "/v1/memories/{name}/admit"): WRITE,
    ("POST", "/v1/memories/{name}/admit/batch"): WRITE,
    ("POST", "/v1/memories/{name}/delete"): ERASE,
    ("POST", "/v1/memories/{name}/prune"): ERASE,
    ("POST", "/v1/memories/{name}/rebuild"): ADMIN,
    ("POST", "/v1/erasures"): ERASE,
    ("GET", "/v1/erasures"): ERASE,
    ("DELETE", "/v1/erasures/{leaf}"): ERASE,
    ("POST", "/v1/retention"): ERASE,
    ("POST", "/v1/subjects/export"): READ,
    ("POST", "/v1/subjects/search"): READ,
    ("GET", "/v1/cases"): AUDIT | ADMIN,
    ("POST", "/v1/cases/erase"): ADMIN,
    ("POST", "/v1/verify"): AUDIT | ADMIN,
    ("POST", "/v1/vacuum"): ADMIN,
    ("GET", "/v1/jobs/{job}"): ALL,
    ("GET", "/v1/log"): READ | AUDIT,
    ("GET", "/v1/memories/{name}/receipts"): READ | AUDIT,
    ("GET", "/v1/receipts/{index}"): READ | AUDIT,
    ("GET", "/v1/receipts/{index}/certificate"): READ | AUDIT,
    ("POST", "/v1/receipts/{index}/certificate"): READ | AUDIT,
    ("GET", "/v1/log/checkpoint"): READ | AUDIT,
    ("GET", "/v1/log/inclusion/{index}"): READ | AUDIT,
    ("GET", "/v1/log/consistency"): READ | AUDIT,
    ("POST", "/v1/verify/receipt"): READ | AUDIT,
    ("GET", "/v1/holds"): ADMIN,
    ("GET", "/v1/mirrors"): ADMIN,
    ("POST", "/v1/mirrors/{mirror}/sync"): ADMIN,
    ("DELETE", "/v1/mirrors/{mirror}"): ADMIN,
    ("GET", "/v1/tokens"): ADMIN,
    ("POST", "/v1/tokens"): ADMIN,
    ("DELETE", "/v1/tokens/{token}"): ADMIN,
    ("GET", "/v1/memories/{name}/evidence"): READ,
    ("POST", "/v1/memories/{name}/holds"): ADMIN,
    ("DELETE", "/v1/holds/{number}"): ADMIN,
}
OPEN = {"/docs", "/docs/style.css", "/health", "/ready", "/", "/page", "/report/{ticket}/{path:path}"}
STORE_WIDE = {
    *("/metrics", "/v1/erasures", "/v1/erasures/{leaf}", "/v1/verify", "/v1/vacuum"),
    *("/v1/retention", "/v1/subjects/export", "/v1/subjects/search", "/v1/cases", "/v1/cases/erase"),
    *("/v1/mirrors/{mirror}/sync", "/v1/mirrors/{mirror}", "/v1/tokens", "/v1/tokens/{token}"),
}
FILLED = {"{name}": "icu", "{entry:path}": "e1", "{index}": "0", "{job}": "x", "{number}": "12345", "{leaf}": "999"}
FILLED |= {"{mirror}": "999", "{token}": "0" * 12}


def authorized_routes(service: ServiceClient) -> dict[tuple[str, str], APIRoute]:
    found = [route for route in routes_of(service.app) if isinstance(route, AuthorizedRoute)]
    return {(method, route.path): route for route in found for method in route.methods or ()}


def test_the_guide_has_every_route_and_its_scopes(service: ServiceClient) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "service.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z]+) (/\S*)` \| ([a-z, ]+?)(; whole store)? \|$", guide, re.MULTILINE)
    declared = {
        (method, path): (ALL if who == "any" else set(who.split(", ")), bool(wide)) for method, path, who, wide in rows
    }
    assert declared == {
        (method, path.replace(":path", "")): (allowed, path in STORE_WIDE)
        for (method, path), allowed in DECIDED.items()
    }


def path_of(template: str, **other: str) -> str:
    for part, value in (FILLED | other).items():
        template = template.replace(part, value)
    return template


def test_every_route_is_decided(service: ServiceClient) -> None:
    assert set(authorized_routes(service)) == set(DECIDED)
    others = {
        getattr(route, "path", None) for route in routes_of(service.app) if not isinstance(route, AuthorizedRoute)
    }
    assert others == OPEN


@pytest.mark.parametrize("scope", [None, *SCOPES])
def test_every_route_with_every_scope(service: ServiceClient, scope: str | None) -> None:
    """Bodies are empty, so that nothing happens: what counts is who gets as far as being told so."""
    for (method, template), allowed in DECIDED.items():
        given: dict[str, Any] = {"json": {"no": "such field"}} if method == "POST" else {}
        if method == "DELETE":
            # A hold keeps the memory; what is asked to be released is not there.
            given = {}
        headers = {} if scope is None else service.headers(scope)
        path = path_of(template, **{"{name}": "nobody"} if method == "DELETE" else {})
        response = service.client.request(method, path, headers=headers, **given)
        if scope is None:
            assert response.status_code == 401, (method, template)
            assert response.headers["www-authenticate"].startswith("Bearer")
        elif scope in allowed:
            assert response.status_code not in (401, 403, 500), (method, template, scope, response.text)
        else:
            assert response.status_code == 403, (method, template, scope)
            assert response.json()["code"] == "forbidden"


def test_a_token_of_one_memory_reaches_no_other(service: ServiceClient) -> None:
    mine: dict[str, Any] = {"memory": "icu"}
    for (method, template), allowed in DECIDED.items():
        scope = sorted(allowed)[0]
        body = {"no": "such field"} if method == "POST" else None
        if template in STORE_WIDE:
            assert service.request(method, path_of(template), body, scopes=(scope,), **mine).status_code == 403, (
                template
            )
        elif "{name}" in template:
            for name in ("other", "nobody", f"uuid:{service.store['other'].uuid}", "uuid:nothing"):
                response = service.request(method, path_of(template, **{"{name}": name}), body, scopes=(scope,), **mine)
                assert response.status_code == 403, (template, name)
                assert response.json()["detail"] == "this token is for another memory"
    own = service.request("GET", f"/v1/memories/uuid:{service.store['icu'].uuid}", scopes=("read",), **mine, status=200)
    assert own["name"] == "icu"
    listed = service.request("GET", "/v1/memories", scopes=("read",), **mine, status=200)
    assert [row["name"] for row in listed["items"]] == ["icu"]
    creation = {"name": "new", "keys": [[0.0], [1.0]], "values": [1.0, 2.0], "sigma": 1.0, "cap": 1.0}
    assert service.request("POST", "/v1/memories", creation, scopes=("write",), **mine).status_code == 403


def test_a_token_of_one_memory_sees_its_receipts_only(service: ServiceClient) -> None:
    about = {leaf.index: leaf.memory for leaf in service.store.receipts()}
    icu = service.store["icu"].uuid
    assert {uuid == icu for uuid in about.values()} == {True, False}
    for index, uuid in about.items():
        response = service.request("GET", f"/v1/receipts/{index}", scopes=("audit",), memory="icu")
        assert response.status_code == (200 if uuid == icu else 404)
        proof = service.request("GET", f"/v1/log/inclusion/{index}", scopes=("audit",), memory="icu")
        assert proof.status_code == response.status_code
    # What is not there looks like what is another's.
    assert service.request("GET", "/v1/receipts/999", scopes=("audit",), memory="icu").status_code == 404
    listed = service.request("GET", "/v1/log", scopes=("audit",), memory="icu", status=200)
    assert {row["memory"] for row in listed["items"]} == {icu}


def test_a_token_of_one_memory_ends_no_hold_on_another(service: ServiceClient) -> None:
    hold = service.store.hold("other", subject="patient-1", reason="case 1")
    assert service.request("GET", "/v1/holds", scopes=("admin",), memory="icu", status=200) == {"items": []}
    # A hold on another memory is answered as one that does not exist.
    answers = [
        service.request("DELETE", f"/v1/holds/{number}", scopes=("admin",), memory="icu").json() | {"instance": None}
        for number in (hold.number, 99999)
    ]
    assert answers[0] == answers[1]
    assert answers[0]["status"] == 404
    assert service.store.holds() == [hold]


def test_a_token_that_only_erases_reads_no_reason_and_no_held_id(service: ServiceClient) -> None:
    """By a deletion, a dry run, a batch of them, a job, a sweep, and what was made from an entry."""
    icu = service.store["icu"]
    # The first edit of a process may compile.
    icu.admit(np.ones(4), np.zeros(2), id="secret-id-9", derived_from=["e7"])
    ends = datetime.now(UTC) + timedelta(seconds=8)
    icu.admit_many(
        np.eye(4)[:3],
        np.zeros((3, 2)),
        ids=[f"secret-id-{row}" for row in range(3)],
        subjects=["somebody"] * 3,
        expires=[ends] * 3,
    )
    hold = service.store.hold("icu", subject="somebody", reason="the secret reason")
    time.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds() + 1.0))

    def answers(*scopes: str) -> str:
        asked: dict[str, Any] = {"scopes": scopes, "Prefer": "wait=30"}
        found = [
            service.request("POST", "/v1/memories/icu/delete", {"subject": "somebody"}, status=409, **asked),
            service.request("POST", "/v1/memories/icu/delete", {"id": "e7", "derived": "refuse"}, status=409, **asked),
            service.request(
                "POST", "/v1/memories/icu/delete?dry_run=true", {"subject": "somebody"}, status=200, **asked
            ),
            service.request("POST", "/v1/erasures", {"subject": "somebody"}, status=200, **asked),
            service.request("POST", "/v1/erasures?dry_run=true", {"subject": "somebody"}, status=200, **asked),
            service.request("POST", "/v1/retention", status=200, **asked),
            service.request("POST", "/v1/retention?dry_run=true", status=200, **asked),
        ]
        assert found[0]["measured"] == 3.0
        assert found[0]["receipt"]["refusal"]["holds"] == [hold.number]
        assert found[3]["result"]["memories"][0]["holds"] == [hold.number]
        return json.dumps(found)

    told = answers("erase")
    assert "secret" not in told
    assert f"hold {hold.number}" in told
    assert "the secret reason" not in answers("erase", "read")
    assert "secret-id-1" in answers("erase", "read")
    assert "secret" not in answers("erase", "admin")
    assert "the secret reason" in answers("erase", "admin", "read")


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer x", "Bearer expunge_000000000000_" + "A" * 43, "Bearer é"],
)
def test_other_headers_do_not_open(service: ServiceClient, header: str) -> None:
    response = service.client.get("/v1", headers={b"Authorization": header.encode("latin-1")})
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"


def test_half_of_a_token_does_not_open(service: ServiceClient) -> None:
    text = service.headers("read")["Authorization"]
    other = text[:-1] + ("A" if text[-1] != "A" else "B")
    for changed in (text[:-1], other, text.upper(), text + "A"):
        assert service.client.get("/v1", headers={"Authorization": changed}).status_code == 401


def test_revoked_and_expired_tokens_end_at_once(service: ServiceClient) -> None:
    tokens = service.context.tokens
    text, token = tokens.create(["read"], lifetime=1000.0)
    header = {"Authorization": f"Bearer {text}"}
    assert service.client.get("/v1", headers=header).status_code == 200
    tokens._clock = lambda: time.time() + 1001.0
    assert service.client.get("/v1", headers=header).status_code == 401
    tokens._clock = time.time
    assert service.client.get("/v1", headers=header).status_code == 200
    tokens.revoke(token.name)
    assert service.client.get("/v1", headers=header).status_code == 401


def test_the_body_of_a_stranger_is_not_read(service: ServiceClient) -> None:
    """Neither parsed nor even waited for: the answer comes before the body is asked for."""
    asked = []

    async def receive() -> dict[str, Any]:
        asked.append(1)
        return {"type": "http.request", "body": b"{", "more_body": True}

    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/memories/icu/admit",
        "raw_path": b"/v1/memories/icu/admit",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "http_version": "1.1",
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    assert service.client.portal is not None
    service.client.portal.call(service.app, scope, receive, send)
    assert answers[0]["status"] == 401
    assert asked == []


def test_a_route_that_says_nothing_cannot_be_made() -> None:
    routes = router("test")

    async def anything(request: Request) -> None: ...

    unsaid: list[Any] = [None, {}, {"x-scopes": []}, {"x-scopes": ["everything"]}]
    for said in unsaid:
        with pytest.raises(TypeError, match="scopes"):
            routes.get("/anything", openapi_extra=said)(anything)
    routes.get("/anything", openapi_extra=needs("read"))(anything)
