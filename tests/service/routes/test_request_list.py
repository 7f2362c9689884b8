"""Around a person's request, over HTTP: export, case and actor, erasures that wait."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from expunge.service.background_tasks import BackgroundTasks
from expunge.service.schemas import erasure_responses, responses
from service.service_client import ServiceClient


def test_every_edit_has_the_token_as_its_actor(service: ServiceClient) -> None:
    name = service.headers()["Authorization"].split("_")[1]
    asked: dict[str, Any] = {"Expunge_Case": "DSR-2026-114"}
    post = ("POST", "/v1/memories/icu")
    entry = {"key": [0.1] * service.store["icu"].dimension, "value": [1.0] * service.store["icu"].values.shape[1]}
    calls: list[tuple[str, str, Any]] = [
        (post[0], f"{post[1]}/admit", entry | {"id": "new"}),
        (post[0], f"{post[1]}/admit/batch", {"entries": [entry | {"id": "newer"}]}),
        (post[0], f"{post[1]}/delete", {"id": "new"}),
        (post[0], f"{post[1]}/prune", {"mode": "archive"}),
        (post[0], f"{post[1]}/rebuild", {"nu": 0.5}),
        (post[0], f"{post[1]}/holds", {"subject": "patient-1", "reason": "case 1"}),
    ]
    for method, path, body in calls:
        before = service.store.size
        assert service.request(method, path, body, **asked).status_code in (200, 201)
        case = service.store.case_of(before)
        assert case is not None, path
        assert (case.case, case.actor) == ("DSR-2026-114", name), path
    hold = service.request("GET", "/v1/holds", status=200)["items"][0]["number"]
    ended = service.request("DELETE", f"/v1/holds/{hold}", status=200)
    (found,) = service.request("GET", f"/v1/cases?leaf={ended['index']}", status=200)["items"]
    assert (found["case"], found["actor"]) == (None, name)
    job = service.request("POST", "/v1/erasures", {"subject": "patient-1"}, status=200, Prefer="wait=30", **asked)
    (found,) = service.request("GET", f"/v1/cases?leaf={job['result']['index']}", status=200)["items"]
    assert found["case"] == "DSR-2026-114"
    erasure_responses.Case.model_validate(found)
    dropped = service.request("DELETE", "/v1/memories/icu", status=200, **asked)
    assert service.store.case_of(dropped["index"]) is not None
    every = service.request("GET", "/v1/cases", status=200)["items"]
    assert len(every) == len(service.store.cases())
    erased = service.request("POST", "/v1/cases/erase", {"case": "DSR-2026-114"}, status=200)
    assert erased["erased"] == len(every) - 1
    assert service.request("POST", "/v1/cases/erase", {"older_than_days": 1}, status=200)["erased"] == 0
    assert service.request("POST", "/v1/cases/erase", {"leaf": ended["index"]}, status=200)["erased"] == 1
    assert service.request("POST", "/v1/cases/erase", {}).status_code == 422
    assert service.request("POST", "/v1/memories/other/prune", {}, Expunge_Case="x" * 201).status_code == 422
    service.store.verify()


def test_another_token_may_repeat_an_erasure(service: ServiceClient) -> None:
    asked: dict[str, Any] = {"Idempotency_Key": "k", "Prefer": "wait=30"}
    first = service.request("POST", "/v1/erasures", {"subject": "patient-1"}, status=200, scopes=("erase",), **asked)
    again = service.request(
        "POST", "/v1/erasures", {"subject": "patient-1"}, status=200, scopes=("erase", "write"), **asked
    )
    assert again["result"] == first["result"]
    other = service.request("POST", "/v1/erasures", {"subject": "patient-1"}, Expunge_Case="x", **asked)
    assert other.status_code == 409


def test_export_of_a_person(service: ServiceClient) -> None:
    response = service.request("POST", "/v1/subjects/export", {"subject": "patient-1"}, scopes=("read",))
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    document = response.json()
    responses.ExportedSubject.model_validate(document)
    expected = [entry.to_json() for entry in service.store.export_subject("patient-1").entries()]
    assert document["entries"] == json.loads(json.dumps(expected))
    assert len(expected) > 0
    nobody = service.request("POST", "/v1/subjects/export", {"subject": "nobody"}, status=200)
    assert nobody["entries"] == []
    assert service.request("POST", "/v1/subjects/export", {"subject": ""}).status_code == 422


def test_a_person_is_found_by_a_part_of_the_name(service: ServiceClient) -> None:
    store = service.store
    for name, subject in (("icu", "Anna Lena Meyer"), ("other", "anna-lena meyer"), ("icu", "Anna Lena Meier")):
        memory = store[name]
        memory.admit(memory.keys[0] + 0.01, memory.values[0], subject=subject)

    def found(text: str) -> list[str]:
        content = service.request("POST", "/v1/subjects/search", {"text": text}, scopes=("read",), status=200)
        assert not content["more"]
        return [one["subject"] for one in content["items"]]

    assert found("anna-lena meyer") == ["anna-lena meyer", "Anna Lena Meyer", "Anna Lena Meier"]
    assert found("Meyer") == ["Anna Lena Meyer", "anna-lena meyer"]
    assert found("nobody of this name") == []
    many = service.request("POST", "/v1/subjects/search", {"text": "patient"}, status=200)["items"]
    assert all(one["entries"] == sum(one["memories"].values()) > 0 for one in many)
    assert service.request("POST", "/v1/subjects/search", {"text": "x"}, scopes=("erase",)).status_code == 403


def test_an_erasure_waits_and_is_cancelled_or_carried_out(
    service: ServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"Idempotency_Key": "k", "Expunge_Case": "DSR-1"}
    body = {"subject": "patient-1", "after": 3600}
    waiting = service.request("POST", "/v1/erasures", body, status=201, **asked)
    erasure_responses.NewPendingErasure.model_validate(waiting)
    assert service.request("POST", "/v1/erasures", body, status=201, **asked) == waiting
    (listed,) = service.request("GET", "/v1/erasures", status=200)["items"]
    assert listed == {name: waiting[name] for name in listed}
    cancelled = service.request("DELETE", f"/v1/erasures/{waiting['leaf']}", status=200)
    assert cancelled["kind"] == "erasure_cancelled"
    assert service.request("DELETE", f"/v1/erasures/{waiting['leaf']}").status_code == 404
    for wrong in (0, -1, "72h", 1e9):
        assert service.request("POST", "/v1/erasures", {"subject": "patient-1", "after": wrong}).status_code == 422
    assert service.request("POST", "/v1/erasures?dry_run=true", body).status_code == 422
    service.request("POST", "/v1/erasures", body, status=201)
    later = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setitem(vars(service.store._identity), "clock", lambda: later)
    leaf = service.request("GET", "/v1/erasures", status=200)["items"][0]["leaf"]
    assert service.request("DELETE", f"/v1/erasures/{leaf}").status_code == 409
    context = service.context
    BackgroundTasks(context.store, context.executor, context.metrics).step()
    assert service.request("GET", "/v1/erasures", status=200)["items"] == []
    assert not service.store["icu"].has_subject("patient-1")


def test_a_worker_erases_cases_by_age(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    service.request("POST", "/v1/memories/icu/prune", {"mode": "archive"}, status=200)
    context = service.context
    BackgroundTasks(context.store, context.executor, context.metrics, keep_cases=30).step()
    assert len(service.store.cases()) == 1
    later = datetime.now(UTC) + timedelta(days=31)
    monkeypatch.setitem(vars(service.store._identity), "clock", lambda: later)
    BackgroundTasks(context.store, context.executor, context.metrics, keep_cases=30).step()
    assert service.store.cases() == []
