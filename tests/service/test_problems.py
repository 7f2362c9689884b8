"""Every error has a status, a shape, and no more to say than it should."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import expunge.certificates.proof
import expunge.ledger.errors
import expunge.service.problems
import expunge.service.request_errors
import expunge.store.errors
import expunge.verify.errors
from expunge.error_codes import CODES, DEFECT, code_of
from expunge.errors import ExpungeError, Refused, StoreError, VerificationError
from expunge.memory.receipt import Receipt
from expunge.problem.check import StateCheck
from expunge.service.problems import problem_of
from expunge.service.request_errors import Damaged
from expunge.service.schemas import responses as shapes
from expunge.store import Busy
from service.asking import Service

MODULES = ("expunge.errors", "expunge.ledger.errors", "expunge.verify.errors", "expunge.store.errors")
SHOWN = [getattr(importlib.import_module(name), "__all__", []) for name in MODULES]


def descendants(kind: type) -> Iterator[type]:
    below: type
    for below in kind.__subclasses__():
        yield below
        yield from descendants(below)


PUBLIC = sorted(
    {
        kind
        for module in (*map(importlib.import_module, MODULES), expunge.service.request_errors, expunge.service.problems)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, ExpungeError) and kind is not ExpungeError
    },
    key=lambda kind: kind.__name__,
)


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
        )
        return kind("no", receipt=receipt, measured=float("inf"), allowed=1.0)
    if kind is expunge.service.problems.Unusable:
        return kind([{"where": ["body", "key", 0], "message": "is wrong"}])  # type: ignore[no-any-return]
    return kind("it is wrong")  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_every_class_has_its_status_and_the_one_shape(kind: type[Any]) -> None:
    problem = made(kind)
    code = code_of(problem)
    assert code is not DEFECT
    content = problem_of(problem, "5f0e")
    shapes.Problem.model_validate(content | {key: str(content[key]) for key in ("measured",) if key in content})
    assert content["status"] == code.status
    assert content["exit_code"] == code.exit
    assert content["error"] == kind.__name__
    assert content["type"].startswith("urn:expunge:problem:")
    assert len(content["title"]) > 5
    assert ("receipt" in content) == isinstance(problem, Refused)


def test_the_table_has_no_class_that_is_not_there() -> None:
    known = {kind.__name__ for kind in descendants(ExpungeError)}
    assert set(CODES) <= known
    # Everything that exists is covered, whether or not it is public.
    assert all(
        any(base.__name__ in CODES for base in kind.__mro__)
        for kind in descendants(ExpungeError)
        if not kind.__name__.startswith("_") and kind.__name__ not in ("ForbiddenByHold", "Stopped")
    )


def test_the_nearest_class_decides() -> None:
    assert code_of(Busy("x")).status == 503
    assert code_of(Damaged("x")) == CODES["Damaged"]
    assert code_of(ValueError("x")) is DEFECT


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "error"),
    [
        ("GET", "/nowhere", {}, 404, "NotFound"),
        ("GET", "/v1/", {}, 404, "NotFound"),
        ("PUT", "/v1/memories", {}, 405, "MethodNotAllowed"),
        ("GET", "/v1/memories/nobody", {}, 404, "NotFound"),
        ("GET", "/v1/memories/icu/entries/nobody", {}, 404, "NotFound"),
        ("GET", "/v1/memories/icu/certificates/nobody", {}, 404, "NotFound"),
        ("GET", "/v1/receipts/99999", {}, 404, "NotFound"),
        ("GET", "/v1/receipts/-1", {}, 404, "NotFound"),
        ("GET", "/v1/receipts/99999999999999999999999999", {}, 404, "NotFound"),
        ("GET", "/v1/log/inclusion/99999", {}, 404, "NotFound"),
        ("GET", "/v1/log/consistency?since=99999", {}, 422, "InputError"),
        ("GET", "/v1/jobs/nothing", {}, 404, "NotFound"),
        ("DELETE", "/v1/holds/99999", {}, 404, "NotFound"),
        ("POST", "/v1/memories/icu/read", {"content": b"{", "type": "application/json"}, 400, "Malformed"),
        ("POST", "/v1/memories/icu/read", {"content": b"\xff\xfe", "type": "application/json"}, 400, "Malformed"),
        ("POST", "/v1/memories/icu/read", {"content": b"[" * 100_000, "type": "application/json"}, 400, "Malformed"),
        ("POST", "/v1/memories/icu/read", {"content": b"{}", "type": "text/plain"}, 415, "UnsupportedMediaType"),
        ("POST", "/v1/memories/icu/read", {"content": b"{}", "type": ""}, 415, "UnsupportedMediaType"),
        ("POST", "/v1/memories/icu/read", {"content": b"{}", "type": "application/json"}, 422, "Unusable"),
        ("POST", "/v1/memories/icu/read", {"content": b"", "type": "application/json"}, 422, "Unusable"),
        ("GET", "/v1/memories?limit=0", {}, 422, "Unusable"),
        ("GET", "/v1/memories?cursor=!!", {}, 422, "InputError"),
    ],
)
def test_what_goes_wrong_is_a_problem(
    service: Service, method: str, path: str, given: dict[str, Any], status: int, error: str
) -> None:
    headers = service.headers()
    if given:
        headers = headers | {"Content-Type": given["type"]}
    response = service.client.request(method, path, headers=headers, content=given.get("content"))
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    content = response.json()
    shapes.Problem.model_validate(content)
    assert content["error"] == error
    assert content["status"] == status
    assert content["instance"] == f"urn:uuid:{response.headers['x-request-id']}"
    assert ("fields" in content) == (error == "Unusable")


def test_a_taken_name_and_names_that_do_not_fit_into_a_path(service: Service) -> None:
    creation = {"name": "icu", "keys": [[0.0], [1.0]], "values": [1.0, 2.0], "sigma": 1.0, "cap": 1.0}
    assert service.ask("POST", "/v1/memories", creation, status=409)["error"] == "Taken"
    for name in ("a/b", ".", "..", "uuid:x", "line\nbreak"):
        assert service.ask("POST", "/v1/memories", creation | {"name": name}).status_code == 422
    # One that the library has made is reached by its UUID.
    made = service.store.create("ward/7", [[0.0], [1.0]], [1.0, 2.0], sigma=1.0, cap=1.0)
    assert service.ask("GET", f"/v1/memories/uuid:{made.uuid}", status=200)["name"] == "ward/7"


def test_a_damaged_store_is_not_the_clients_fault(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: Any) -> Any:
        raise VerificationError("a stored entry does not open under its secret: it was altered")

    monkeypatch.setattr(type(service.store), "names", damaged)
    assert service.ask("GET", "/v1/memories", status=500)["error"] == "Damaged"


def test_a_damaged_memory_hides_no_other(service: Service, folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "ward.db")) as database, database:
        other = "(SELECT number FROM expunge_memories WHERE name = 'other')"
        database.execute(f"UPDATE expunge_states SET state = zeroblob(length(state)) WHERE memory = {other}")  # noqa: S608
    listed = service.ask("GET", "/v1/memories", status=200)
    assert [one["name"] for one in listed["items"]] == ["icu", "plane"]
    assert listed["damaged"] == ["other"]
    assert "expunge_memories_damaged 1.0" in service.ask("GET", "/metrics").text
    assert service.ask("GET", "/v1/memories/other", status=500)["error"] == "Damaged"


def test_a_busy_store_says_when_to_come_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any) -> Any:
        raise Busy("another writer is at work")

    monkeypatch.setattr(type(service.store), "names", busy)
    response = service.ask("GET", "/v1/memories")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_a_defect_says_nothing_of_its_cause(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("planted-secret")

    monkeypatch.setattr(type(service.store), "names", broken)
    with caplog.at_level(logging.INFO):
        response = service.ask("GET", "/v1/memories")
    assert response.status_code == 500
    assert response.json()["error"] == "Defect"
    assert response.json()["exit_code"] == 70
    assert "planted-secret" not in response.text + caplog.text
    (line,) = [record for record in caplog.records if record.getMessage() == "defect"]
    assert line.about["at"][0] == "RuntimeError"  # type: ignore[attr-defined]
    assert any("broken" in place for place in line.about["at"])  # type: ignore[attr-defined]


def test_a_memory_that_vanishes_in_the_middle_is_not_found(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = service.store["icu"]
    real = type(stored).delete

    def slow(self: Any, *args: Any, **kwargs: Any) -> Any:
        service.store.drop("icu")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(type(stored), "delete", slow)
    assert service.ask("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=404)["error"] == "NotFound"
    assert issubclass(StoreError, ExpungeError)
