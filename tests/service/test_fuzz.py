"""Whatever is sent, the answer is never a 500, and never anything but JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from expunge.service.auth import AuthorizedRoute
from expunge.service.settings import Settings
from service.conftest import SMALL
from service.service_client import ServiceClient, fill_store, routes_of

NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([10**400, -(10**400), 1e308, 1e149, 1e151, 5e-324, float("nan"), float("inf"), True]),
)
WORDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["e1", "icu", "patient-1", "\x00", "\ud800", "\ud83d", "a" * 300, "archive", "forget", "../x"]),
)
VECTORS = st.one_of(
    st.lists(NUMBERS, max_size=6), st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4), st.just([0.0] * 4)
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(WORDS, below, max_size=4),
    max_leaves=12,
)
FIELDS = {
    "name": WORDS,
    "keys": st.lists(VECTORS, max_size=4),
    "values": st.lists(st.one_of(VECTORS, NUMBERS), max_size=4),
    "sigma": NUMBERS,
    "nu": NUMBERS,
    "cap": NUMBERS,
    "ids": st.lists(WORDS, max_size=4),
    "subjects": st.lists(WORDS | st.none(), max_size=4),
    "payloads": st.lists(ANYTHING, max_size=4),
    "key": VECTORS,
    "value": st.one_of(VECTORS, NUMBERS),
    "id": WORDS,
    "subject": WORDS,
    "payload": ANYTHING,
    "entries": st.lists(ANYTHING, max_size=3),
    "mode": WORDS,
    "sketch": NUMBERS,
    "queries": st.lists(VECTORS, max_size=3),
    "query": VECTORS,
    "k": NUMBERS,
    "like": WORDS,
    "at": VECTORS,
    "reason": WORDS,
    "envelope": WORDS,
    "inclusion": WORDS,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceClient]:
    url = f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'fuzz.db'}"
    fill_store(url)
    made = ServiceClient(Settings(url=url, limits=SMALL, timeout=5.0))
    with made.client:
        yield made


def bodies(fields: list[str]) -> st.SearchStrategy[Any]:
    """Bodies with some of the fields that a route knows, each with something like what belongs there, or not."""
    known = {name: st.one_of(FIELDS.get(name, ANYTHING), ANYTHING) for name in fields}
    return st.one_of(ANYTHING, st.fixed_dictionaries({}, optional=known))


def routes_with_bodies(service: ServiceClient) -> list[tuple[str, list[str]]]:
    found = [
        route for route in routes_of(service.app) if isinstance(route, AuthorizedRoute) and route.body_field is not None
    ]
    return [(route.path.replace("{name}", "icu"), list(_body_model(route).model_fields)) for route in found]


def _body_model(route: Any) -> Any:
    return route.body_field.field_info.annotation


def answered(service: ServiceClient, method: str, path: str, content: bytes | None, **headers: str) -> None:
    sent = service.headers() | {"Content-Type": "application/json"} | headers
    response = service.client.request(method, path, content=content, headers=sent)
    assert response.status_code < 500, (path, content, response.text)
    if response.url.path == "/":
        # A client resolves dots by itself, and asks for the page.
        return
    assert response.headers["content-type"] in ("application/json", "application/problem+json")
    response.json()


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_bodies(service: ServiceClient, data: st.DataObject) -> None:
    for path, fields in routes_with_bodies(service):
        body = data.draw(bodies(fields))
        answered(service, "POST", path, json.dumps(body).encode("utf-8", "surrogatepass"))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.binary(max_size=40))
@example(b"[" * 50_000)
@example(b'{"queries": [[' + b"1" * 5000 + b"]]}")
@example(b'{"queries": [[1e999]]}')
@example(b'{"queries": [[NaN, 0, 0, 0]]}')
@example(b'"\\ud800"')
@example(b"\xef\xbb\xbf{}")
@example("{}".encode("utf-16"))
def test_bytes(service: ServiceClient, content: bytes) -> None:
    for path in ("/v1/memories/icu/read", "/v1/memories/icu/delete", "/v1/verify/receipt"):
        answered(service, "POST", path, content)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.text(max_size=20), st.text(max_size=12))
@example("..", "..")
@example("\x00", "\x00")
@example("a/b", "")
@example("uuid:\x00", "\udcff")
def test_paths_and_parameters(service: ServiceClient, name: str, other: str) -> None:
    from urllib.parse import quote

    first, second = (quote(text.encode("utf-8", "surrogatepass"), safe="") for text in (name, other))
    for path in (
        f"/v1/memories/{first}",
        f"/v1/memories/icu/entries/{first}",
        f"/v1/memories/icu/entries?cursor={first}&limit={second}",
        f"/v1/log?limit={first}&cursor={second}",
        f"/v1/jobs/{first}",
        f"/v1/receipts/{first}",
        f"/v1/{first}/{second}",
    ):
        answered(service, "GET", path, None)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30))
@example('"')
@example('W/"x", "y"')
@example("wait=999999999999")
def test_headers(service: ServiceClient, text: str) -> None:
    """The entry is under a hold, so it is not deleted, whatever the bodies before have left of the memory."""
    kept = service.store["icu"].ids[0]
    if not service.store.holds():
        service.store.hold("icu", kept, reason="kept for the test")
    for name in ("If-Match", "Idempotency-Key", "Prefer", "Content-Type", "Accept", "Content-Length-X"):
        answered(service, "POST", "/v1/memories/icu/delete", json.dumps({"id": kept}).encode(), **{name: text})


def test_the_store_is_whole_afterwards(service: ServiceClient) -> None:
    service.store.verify()
