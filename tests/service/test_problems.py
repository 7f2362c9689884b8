"""Every error has a status, a shape, and no more to say than it should."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from expunge import errors
from expunge.error_codes import outside_of
from expunge.errors import ExpungeError, Refused, StoreError, VerificationError
from expunge.memory.receipt import Receipt, RefusalReason
from expunge.problem.check import StateCheck
from expunge.service.problems import Unusable, problem_details
from expunge.service.schemas import responses
from expunge.store import Busy
from service.service_client import ServiceClient

PUBLIC = [getattr(errors, name) for name in errors.__all__ if name != "ExpungeError"]


def made(kind: type[Any]) -> ExpungeError:
    """An error of a class, however it is made."""
    if issubclass(kind, Refused):
        receipt = Receipt(
            action="deletion",
            outcome="refused",
            applied=(),
            check=StateCheck(0.0, 0.0, float("inf")),
            attempts=(),
            covers="nothing",
            state_before="0" * 64,
            state_after="0" * 64,
            seconds=0.0,
            refusal=RefusalReason("no_acceptable_state", float("inf"), 1.0),
        )
        return kind("no", receipt=receipt)
    if kind is Unusable:
        return kind([{"where": ["body", "key", 0], "message": "is wrong"}])  # type: ignore[no-any-return]
    return kind("it is wrong")  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", [*PUBLIC, Unusable], ids=lambda kind: kind.__name__)
def test_every_class_has_its_status_and_the_one_shape(kind: type[Any]) -> None:
    problem = made(kind)
    outside = outside_of(problem)
    content = problem_details(problem, "5f0e")
    responses.Problem.model_validate(content)
    assert content["status"] == outside.status
    assert content["exit_code"] == outside.exit
    assert content["error"] == kind.__name__
    assert content["type"].startswith("urn:expunge:problem:")
    assert len(content["title"]) > 5
    assert ("receipt" in content) == isinstance(problem, Refused)


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "error"),
    [
        ("GET", "/nowhere", {}, 404, "not-found"),
        ("GET", "/v1/", {}, 404, "not-found"),
        ("PUT", "/v1/memories", {}, 405, "method-not-allowed"),
        ("GET", "/v1/memories/nobody", {}, 404, "not-found"),
        ("GET", "/v1/memories/icu/entries/nobody", {}, 404, "not-found"),
        ("GET", "/v1/memories/icu/certificates/nobody", {}, 404, "not-found"),
        ("GET", "/v1/receipts/99999", {}, 404, "not-found"),
        ("GET", "/v1/receipts/-1", {}, 404, "not-found"),
        ("GET", "/v1/receipts/99999999999999999999999999", {}, 404, "not-found"),
        ("GET", "/v1/log/inclusion/99999", {}, 404, "not-found"),
        ("GET", "/v1/log/consistency?since=99999", {}, 422, "input-error"),
        ("GET", "/v1/jobs/nothing", {}, 404, "not-found"),
        ("DELETE", "/v1/holds/99999", {}, 404, "not-found"),
        ("POST", "/v1/memories/icu/read", {"content": b"{", "type": "application/json"}, 400, "malformed"),
        ("POST", "/v1/memories/icu/read", {"content": b"\xff\xfe", "type": "application/json"}, 400, "malformed"),
        ("POST", "/v1/memories/icu/read", {"content": b"[" * 100_000, "type": "application/json"}, 400, "malformed"),
        ("POST", "/v1/memories/icu/read", {"content": b"{}", "type": "text/plain"}, 415, "unsupported-media-type"),
        ("POST", "/v1/memories/icu/read", {"content": b"{}", "type": ""}, 415, "unsupported-media-type"),
        ("POST", "/v1/memories/icu/read", {"content": b"{}", "type": "application/json"}, 422, "unusable"),
        ("POST", "/v1/memories/icu/read", {"content": b"", "type": "application/json"}, 422, "unusable"),
        ("GET", "/v1/memories?limit=0", {}, 422, "unusable"),
        ("GET", "/v1/memories?cursor=!!", {}, 422, "input-error"),
    ],
)
def test_what_goes_wrong_is_a_problem(
    service: ServiceClient, method: str, path: str, given: dict[str, Any], status: int, error: str
) -> None:
    headers = service.headers()
    if given:
        headers = headers | {"Content-Type": given["type"]}
    response = service.client.request(method, path, headers=headers, content=given.get("content"))
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    content = response.json()
    responses.Problem.model_validate(content)
    assert content["code"] == error
    assert content["status"] == status
    assert content["instance"] == f"urn:uuid:{response.headers['x-request-id']}"
    assert ("fields" in content) == (error == "unusable")


def test_a_taken_name_and_names_that_do_not_fit_into_a_path(service: ServiceClient) -> None:
    creation = {"name": "icu", "keys": [[0.0], [1.0]], "values": [1.0, 2.0], "sigma": 1.0, "cap": 1.0}
    assert service.request("POST", "/v1/memories", creation, status=409)["code"] == "taken"
    for name in ("a/b", ".", "..", "uuid:x", "line\nbreak"):
        assert service.request("POST", "/v1/memories", creation | {"name": name}).status_code == 422
    # One that the library has made is reached by its UUID.
    made = service.store.create("ward/7", [[0.0], [1.0]], [1.0, 2.0], sigma=1.0, cap=1.0)
    assert service.request("GET", f"/v1/memories/uuid:{made.uuid}", status=200)["name"] == "ward/7"


def test_a_damaged_store_is_not_the_clients_fault(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: Any) -> Any:
        raise VerificationError("a stored entry does not open under its secret: it was altered")

    monkeypatch.setattr(type(service.store), "names", damaged)
    assert service.request("GET", "/v1/memories", status=500)["code"] == "damaged"


def test_a_damaged_memory_hides_no_other(service: ServiceClient, folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "ward.db")) as database, database:
        other = "(SELECT number FROM expunge_memories WHERE name = 'other')"
        database.execute(f"UPDATE expunge_states SET state = zeroblob(length(state)) WHERE memory = {other}")  # noqa: S608
    listed = service.request("GET", "/v1/memories", status=200)
    assert [one["name"] for one in listed["items"]] == ["icu", "plane"]
    assert listed["damaged"] == ["other"]
    assert "expunge_memories_damaged 1.0" in service.request("GET", "/metrics").text
    assert service.request("GET", "/v1/memories/other", status=500)["code"] == "damaged"


def test_a_busy_store_says_when_to_come_back(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any) -> Any:
        raise Busy("another writer is at work")

    monkeypatch.setattr(type(service.store), "names", busy)
    response = service.request("GET", "/v1/memories")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_a_defect_says_nothing_of_its_cause(
    service: ServiceClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("planted-secret")

    monkeypatch.setattr(type(service.store), "names", broken)
    with caplog.at_level(logging.INFO):
        response = service.request("GET", "/v1/memories")
    assert response.status_code == 500
    assert response.json()["error"] == "Defect"
    assert response.json()["exit_code"] == 70
    assert "planted-secret" not in response.text + caplog.text
    (line,) = [record for record in caplog.records if record.getMessage() == "defect"]
    assert line.about["at"][0] == "RuntimeError"  # type: ignore[attr-defined]
    assert any("broken" in place for place in line.about["at"])  # type: ignore[attr-defined]


def test_a_memory_that_vanishes_in_the_middle_is_not_found(
    service: ServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = service.store["icu"]
    real = type(stored).delete

    def slow(self: Any, *args: Any, **kwargs: Any) -> Any:
        service.store.drop("icu")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(type(stored), "delete", slow)
    assert service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=404)["code"] == "not-found"
    assert issubclass(StoreError, ExpungeError)
