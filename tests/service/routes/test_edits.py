"""Edits over HTTP do what the library does, once, and only to the state that was meant."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
import pytest

from expunge import Memory
from expunge.preprocessing.width import choose_width
from expunge.service import auth
from service.service_client import ServiceClient
from store.sample_memory import appearance, arrival, entries

ICU = "/v1/memories/icu"


def new(number: int) -> dict[str, Any]:
    """An entry to admit, as JSON."""
    given = arrival(number)
    return given | {"key": given["key"].tolist(), "value": given["value"].tolist()}


def twin(service: ServiceClient) -> Memory:
    """The stored memory's entries, fitted afresh at the same cap, outside any store."""
    return service.store["icu"].refit()


def test_an_admission_is_the_librarys(service: ServiceClient) -> None:
    beside = twin(service)
    beside.admit(**arrival(1))
    response = service.request("POST", f"{ICU}/admit", new(1), scopes=("write",))
    assert response.status_code == 201
    receipt, memory = response.json(), service.store["icu"]
    assert (receipt["outcome"], receipt["applied"]) == ("admitted", ["new-1"])
    assert receipt["state_after"] == memory.digest
    assert response.headers["etag"] == f'"{memory.digest}"'
    assert memory.ids == beside.ids
    np.testing.assert_allclose(memory.coefficients, beside.coefficients, atol=1e-12)
    assert memory.payload("new-1") == "arrival 1"
    assert service.store.leaf(receipt["index"]).kind == "admitted"


@pytest.mark.parametrize(
    ("asked", "gone"),
    [
        ({"id": "e3"}, {"e3"}),
        ({"ids": ["e3", "e7"]}, {"e3", "e7"}),
        ({"subject": "patient-1"}, {f"e{row}" for row in range(40) if row % 8 == 1 and row % 5}),
    ],
)
def test_a_deletion_is_the_librarys(service: ServiceClient, asked: dict[str, Any], gone: set[str]) -> None:
    beside = twin(service)
    beside.delete(sorted(gone))
    receipt = service.request("POST", f"{ICU}/delete", asked, scopes=("erase",), status=200)
    assert set(receipt["applied"]) == gone
    memory = service.store["icu"]
    assert memory.ids == beside.ids
    np.testing.assert_allclose(memory.coefficients, beside.coefficients, atol=1e-12)
    service.store.verify()


def test_pruning_and_rebuilding(service: ServiceClient) -> None:
    queries = np.random.default_rng(3).standard_normal((10, 4))
    before = service.store["icu"].read(queries)
    receipt = service.request("POST", f"{ICU}/prune", {"mode": "forget"}, scopes=("erase",), status=200)
    assert receipt["outcome"] == "pruned"
    assert np.array_equal(service.store["icu"].read(queries), before)
    rebuilt = service.request("POST", f"{ICU}/rebuild", {"nu": 0.5}, scopes=("admin",), status=200)
    assert rebuilt["outcome"] == "rebuilt"
    chosen = choose_width(service.store["icu"].keys)
    good: list[tuple[dict[str, Any], float]] = [({"sigma": 3.5}, 3.5), ({"sigma": "auto", "nu": 0.3}, chosen)]
    for body, width in good:
        assert service.request("POST", f"{ICU}/rebuild", body, scopes=("admin",), status=200)["outcome"] == "rebuilt"
        assert service.request("GET", ICU, status=200)["sigma"] == width
    bad: list[dict[str, Any]] = [{}, {"sigma": "wide"}, {"sigma": 0.0}, {"nu": 0.5, "cap": 0.5}]
    for wrong in bad:
        assert service.request("POST", f"{ICU}/rebuild", wrong, scopes=("admin",)).status_code == 422
    service.store.verify()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("admit", new(1)),
        ("delete", {"subject": "patient-2"}),
        ("prune", {"mode": "archive"}),
        ("rebuild", {"nu": 0.4}),
    ],
)
def test_a_repeated_request_is_applied_once(service: ServiceClient, path: str, body: dict[str, Any]) -> None:
    key = str(uuid.uuid4())
    first = service.request("POST", f"{ICU}/{path}", body, Idempotency_Key=key)
    size, leaves = len(service.store["icu"]), service.store.size
    again = service.request("POST", f"{ICU}/{path}", body, Idempotency_Key=key)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert first.status_code in (200, 201)
    assert (len(service.store["icu"]), service.store.size) == (size, leaves)
    other = {"admit": new(2), "delete": {"subject": "patient-3"}, "prune": {"sketch": 1}, "rebuild": {"nu": 0.45}}
    problem = service.request("POST", f"{ICU}/{path}", other[path], status=409, Idempotency_Key=key)
    assert problem["error"] == "Conflict"


def test_a_repeated_refusal_is_the_same_refusal(service: ServiceClient) -> None:
    service.store.hold("plane", "e1", reason="case 12")
    first = service.request("POST", "/v1/memories/plane/delete", {"id": "e1"}, status=409, Idempotency_Key="k")
    service.store.release(service.store.holds()[0])
    again = service.request("POST", "/v1/memories/plane/delete", {"id": "e1"}, status=409, Idempotency_Key="k")
    assert first["error"] == "DeletionRefused"
    assert {**first, "instance": None} == {**again, "instance": None}
    assert "case 12" in first["detail"]
    assert first["receipt"]["outcome"] == "refused"
    assert "e1" in service.store["plane"]


def test_a_dropped_memory_stays_dropped(service: ServiceClient) -> None:
    first = service.request("DELETE", ICU, scopes=("admin",), status=200, Idempotency_Key="drop")
    assert service.request("DELETE", ICU, scopes=("admin",), status=200, Idempotency_Key="drop") == first
    assert service.request("DELETE", ICU, scopes=("admin",)).status_code == 404
    assert service.request("DELETE", ICU, scopes=("admin",), Idempotency_Key="another").status_code == 404
    assert service.request("GET", ICU).status_code == 404
    assert "icu" not in service.store


@pytest.mark.parametrize(
    ("method", "path", "body"), [("POST", "/delete", {"id": "e1"}), ("DELETE", "", None), ("GET", "", None)]
)
def test_a_memory_asked_for_by_its_uuid_is_no_other_of_its_name(
    service: ServiceClient, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    """Between finding the name and using it, somebody drops the memory and puts another under the name."""
    store, named, known = service.store, auth._name_of_uuid, service.store["icu"].uuid

    def slowly(*given: Any) -> str | None:
        name = named(*given)
        store.drop("icu")
        store.create("icu", **entries(40, seed=7), sigma=2.0, nu=0.3)
        return name

    monkeypatch.setattr(auth, "_name_of_uuid", slowly)
    assert service.request(method, f"/v1/memories/uuid:{known}{path}", body).status_code == 404
    assert len(store["icu"]) == 40


def test_a_batch_stays_with_its_memory(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    store, edit = service.store, service.context.executor.edit_memory

    async def once(*given: Any) -> Any:
        done = await edit(*given)
        store.drop("icu")
        store.create("icu", **entries(40, seed=7), sigma=2.0, nu=0.3)
        return done

    monkeypatch.setattr(service.context.executor, "edit_memory", once)
    batch = {"entries": [new(1), new(2)]}
    assert service.request("POST", f"{ICU}/admit/batch", batch).status_code == 404
    assert len(store["icu"]) == 40


def test_an_edit_of_another_state_is_refused(service: ServiceClient) -> None:
    tag = service.request("GET", ICU).headers["etag"]
    assert tag == f'"{service.store["icu"].digest}"'
    service.request("POST", f"{ICU}/admit", new(1), status=201, If_Match=tag)
    problem = service.request("POST", f"{ICU}/delete", {"id": "e1"}, status=412, If_Match=tag)
    assert problem["error"] == "Stale"
    assert "e1" in service.store["icu"]
    preview = service.request("POST", f"{ICU}/delete?dry_run=true", {"id": "e1"}, If_Match=tag)
    assert preview.status_code == 412
    now = f'"{service.store["icu"].digest}"'
    for header in (f'"x", {now}', f"{now} , {tag}", "*"):
        service.request("POST", f"{ICU}/delete?dry_run=true", {"id": "e1"}, status=200, If_Match=header)
    assert service.request("POST", f"{ICU}/delete", {"id": "e1"}, If_Match=f"W/{now}").status_code == 412
    assert service.request("POST", f"{ICU}/delete", {"id": "e1"}, If_Match="unquoted").status_code == 422
    service.request("POST", f"{ICU}/delete", {"id": "e1"}, status=200, If_Match=now)


def test_a_batch_and_a_drop_depend_on_the_state_too(service: ServiceClient) -> None:
    stale = service.request("GET", ICU).headers["etag"]
    batch = {"entries": [new(1), new(2)]}
    service.request("POST", f"{ICU}/admit/batch", batch, status=200, If_Match=stale)
    # An entry that is there already is that entry's problem, whatever state was asked for.
    seen = f'"{service.store["icu"].digest}"'
    again = service.request("POST", f"{ICU}/admit/batch", {"entries": [new(1)]}, status=200, If_Match=seen)
    assert (again["failed"], again["items"][0]["problem"]["error"]) == (1, "InputError")
    size = len(service.store["icu"])
    for header, status in ((stale, 412), ("unquoted", 422)):
        answer = service.request("POST", f"{ICU}/admit/batch", {"entries": [new(3)]}, If_Match=header)
        assert answer.status_code == status
        assert service.request("DELETE", ICU, If_Match=header).status_code == status
    assert len(service.store["icu"]) == size
    now = f'"{service.store["icu"].digest}"'
    service.request("DELETE", ICU, status=200, If_Match=f"{stale}, {now}")
    assert "icu" not in service.store


def test_a_retry_is_answered_although_the_state_has_moved_on(service: ServiceClient) -> None:
    """Its own edit has moved it: a client that did not hear the answer asks again with both headers."""
    tag = service.request("GET", ICU).headers["etag"]
    first = service.request("POST", f"{ICU}/admit", new(1), status=201, If_Match=tag, Idempotency_Key="once")
    assert service.request("POST", f"{ICU}/admit", new(1), status=201, If_Match=tag, Idempotency_Key="once") == first


@pytest.mark.parametrize(
    ("path", "body"),
    [("admit", new(1)), ("delete", {"subject": "patient-2"}), ("prune", {}), ("delete", {"id": "e0"})],
)
def test_a_dry_run_says_what_comes_and_changes_nothing(service: ServiceClient, path: str, body: dict[str, Any]) -> None:
    memory = service.store["icu"]
    seen, leaves = appearance(memory), service.store.size
    preview = service.request("POST", f"{ICU}/{path}?dry_run=true", body, status=200, Idempotency_Key="unused")
    assert (appearance(memory), service.store.size) == (seen, leaves)
    receipt = service.request("POST", f"{ICU}/{path}", body, Idempotency_Key="unused").json()
    assert preview["dry_run"] is True
    assert preview["outcome"] == receipt["outcome"]
    assert sorted(preview["applied"]) == sorted(receipt["applied"])
    assert preview["size"] == len(memory)


def test_a_preview_of_a_refusal_is_an_answer(service: ServiceClient) -> None:
    service.store.hold("icu", "e1", reason="case 12")
    preview = service.request("POST", f"{ICU}/delete?dry_run=true", {"id": "e1"}, status=200)
    assert preview["outcome"] == "refused"
    assert "case 12" in preview["reason"]


@pytest.mark.parametrize("levels", [65, 480, 900])
def test_a_payload_that_is_nested_too_deep_is_refused(service: ServiceClient, levels: int) -> None:
    before, payload = service.store["icu"].digest, f"{'[' * levels}{']' * levels}"
    for path, body in (("admit", "{entry}"), ("admit/batch", '{{"entries": [{entry}]}}')):
        entry = json.dumps(new(1)).replace('"arrival 1"', payload)
        headers = service.headers("write", "read") | {"Content-Type": "application/json"}
        response = service.client.post(f"{ICU}/{path}", content=body.format(entry=entry), headers=headers)
        problem = response.json() if path == "admit" else response.json()["items"][0]["problem"]
        assert (problem["status"], "64 levels" in problem["detail"]) == (422, True)
    assert service.store["icu"].digest == before
    service.request("GET", f"{ICU}/entries?content=true", scopes=("read",), status=200)


def test_a_payload_as_deep_as_it_may_be_is_listed(service: ServiceClient) -> None:
    payload: Any = "deep"
    for _ in range(64):
        payload = [payload]
    service.request("POST", f"{ICU}/admit", new(1) | {"payload": payload}, scopes=("write",), status=201)
    listed = service.request("GET", f"{ICU}/entries?content=true", scopes=("read",), status=200)
    assert payload in [item["payload"] for item in listed["items"]]


def test_a_batch_reports_each_entry(service: ServiceClient) -> None:
    batch = {"entries": [new(1), new(1), new(2)]}
    done = service.request("POST", f"{ICU}/admit/batch", batch, scopes=("write",), status=200, Idempotency_Key="b")
    assert (done["admitted"], done["failed"], done["skipped"]) == (1, 1, 1)
    assert done["items"][0]["receipt"]["applied"] == ["new-1"]
    assert done["items"][1]["problem"]["status"] == 422
    assert "new-2" not in service.store["icu"]
    # The same again, and further: what was admitted is not admitted twice.
    mended = {"entries": [new(1), new(3), new(2)], "on_error": "continue"}
    done = service.request("POST", f"{ICU}/admit/batch", mended, scopes=("write",), status=200, Idempotency_Key="b")
    assert (done["admitted"], done["failed"], done["skipped"]) == (3, 0, 0)
    assert {"new-1", "new-2", "new-3"} <= set(service.store["icu"].ids)
    assert len(service.store["icu"]) == 43


def test_a_certificate_that_would_end_can_refuse_the_admission(service: ServiceClient) -> None:
    keys = [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]]
    creation = {"name": "small", "keys": keys, "values": [1.0, 2.0, 9.0], "sigma": 5.0, "cap": 1.0}
    service.request("POST", "/v1/memories", creation, status=201)
    service.request("POST", "/v1/memories/small/prune", {"mode": "forget"}, status=200)
    far = {"key": [0.0, -10.0], "value": 3.0}
    problem = service.request("POST", "/v1/memories/small/admit", far | {"on_expiry": "refuse"}, status=409)
    assert problem["error"] == "AdmissionRefused"
    receipt = service.request("POST", "/v1/memories/small/admit", far, status=201)
    assert receipt["details"]["expired"] == ["2"]
    (row,) = service.request("GET", "/v1/memories/small/warranties", status=200)["items"]
    assert (row["id"], row["status"], row["fraction"]) == ("2", "expired", 0.0)


def test_what_ends_the_certificates_of_forgotten_entries_is_told_before(service: ServiceClient) -> None:
    prune, delete = f"{ICU}/prune", f"{ICU}/delete"
    told = service.request("POST", f"{prune}?dry_run=true", {"mode": "forget"}, scopes=("erase",), status=200)
    assert "first erasure of an entry" in told["notice"]
    plain = service.request("POST", f"{prune}?dry_run=true", {}, scopes=("erase",), status=200)
    assert plain["notice"] is None
    service.request("POST", prune, {"mode": "forget"}, scopes=("erase",), status=200)
    victim = {"ids": [service.store["icu"].ids[0]]}
    seen = service.request("POST", f"{delete}?dry_run=true", victim, scopes=("erase",), status=200)
    assert set(seen["ended"]) == set(told["applied"])
    receipt = service.request("POST", delete, victim, scopes=("erase",), status=200)
    assert receipt["details"]["ended"] == seen["ended"]
    assert not {"check", "attempts", "seconds", "pivots"} & receipt.keys()


def test_several_entries_in_one_edit(service: ServiceClient) -> None:
    """All of them with one receipt, or none; a repeated request is answered again."""
    beside = twin(service)
    rows = [new(number) for number in range(3)]
    columns: dict[str, Any] = {f"{field}s": [row[field] for row in rows] for field in rows[0]}
    beside.admit_many(**columns)
    leaves, body = service.store.size, {"entries": rows}
    preview = service.request("POST", f"{ICU}/entries?dry_run=true", body, scopes=("write",), status=200)
    assert (preview["outcome"], preview["applied"], service.store.size) == (
        "admitted",
        [f"new-{n}" for n in range(3)],
        leaves,
    )
    response = service.request("POST", f"{ICU}/entries", body, scopes=("write",), Idempotency_Key="k")
    assert response.status_code == 201
    receipt, memory = response.json(), service.store["icu"]
    assert (receipt["applied"], memory.ids, service.store.size) == (preview["applied"], beside.ids, leaves + 1)
    assert response.headers["etag"] == f'"{memory.digest}"'
    assert service.request("POST", f"{ICU}/entries", body, Idempotency_Key="k").json() == receipt
    other = {"entries": [rows[0], rows[1], rows[2] | {"payload": "other"}]}
    service.request("POST", f"{ICU}/entries", other, status=409, Idempotency_Key="k")
    service.request("POST", f"{ICU}/entries", body, status=412, If_Match=f'"{"0" * 64}"')
    leaves = service.store.size
    wrong: dict[str, Any]
    for wrong in (
        {"entries": []},
        {"entries": [rows[0], {"key": [0.0] * 4, "value": [0.0, 0.0]}]},
        {"entries": [{"key": [0.0] * 4, "value": [0.0, 0.0]}, {"key": [0.0] * 3, "value": [0.0, 0.0]}]},
        {"entries": [{"key": [0.0] * 4, "value": 1.0}]},
        body,
    ):
        assert service.request("POST", f"{ICU}/entries", wrong).status_code == 422
    assert service.store.size == leaves
    service.store.verify()


def test_an_erasure_beyond_the_cap_and_to_nothing(service: ServiceClient) -> None:
    memory = service.store["icu"]
    service.request("POST", f"{ICU}/delete", {"ids": list(memory.ids[20:])}, status=200)
    cap, names = memory.cap, list(memory.ids)
    preview = service.request("POST", f"{ICU}/delete?dry_run=true", {"ids": names[5:]}, status=200)
    assert (preview["outcome"], preview["size"], preview["cap_before"]) == ("refitted", 5, cap)
    receipt = service.request("POST", f"{ICU}/delete", {"ids": names[5:]}, status=200)
    assert (receipt["outcome"], memory.cap, len(memory)) == ("refitted", preview["cap"], 5)
    preview = service.request("POST", f"{ICU}/delete?dry_run=true", {"ids": names[:5]}, status=200)
    assert (preview["outcome"], preview["size"], preview["cap"], preview["probes"]) == ("emptied", 0, 1.0, 0)
    assert service.request("POST", f"{ICU}/delete", {"ids": names[:5]}, status=200)["outcome"] == "emptied"
    for edit, body in (("prune", {}), ("rebuild", {"nu": 0.5})):
        assert service.request("POST", f"{ICU}/{edit}", body, status=200)["outcome"] == "noop"
    assert service.request("POST", f"{ICU}/admit", new(1)).json()["outcome"] == "admitted"
    service.store.verify()


def test_a_subject_is_erased_though_it_is_all_there_is(service: ServiceClient) -> None:
    service.store.create("only", [[0.0, 1.0]], [1.0], sigma=1.0, nu=0.5, subjects=["somebody"])
    told = service.request("POST", "/v1/erasures?dry_run=true", {"subject": "somebody"}, status=200)
    assert told["memories"]["only"]["outcome"] == "emptied"
    done = service.request("POST", "/v1/erasures", {"subject": "somebody"}, Prefer="wait=30").json()
    assert (done["state"], done["result"]["complete"]) == ("done", True)
    assert [part["outcome"] for part in done["result"]["memories"]] == ["emptied"]
    assert len(service.store["only"]) == 0


def test_a_creation_under_a_key_is_done_once(service: ServiceClient) -> None:
    body = {"name": "new", "keys": [[0.0], [1.0], [3.0]], "values": [1.0, 2.0, 3.0], "sigma": 1.0, "cap": 1.0}
    body |= {"ids": ["a", "b", "c"], "subjects": ["p", "q", "q"]}
    made = service.request("POST", "/v1/memories", body, Idempotency_Key="k", status=201)
    size = service.store.size
    assert service.request("POST", "/v1/memories", body, Idempotency_Key="k", status=201) == made
    service.request("POST", "/v1/memories/new/delete", {"subject": "p"}, status=200)
    again = service.request("POST", "/v1/memories", body, Idempotency_Key="k", status=201)
    assert (again["uuid"], again["size"]) == (made["uuid"], 2)
    assert service.store.size == size + 1
    other = body | {"keys": [[0.0], [1.5], [3.0]]}
    for changed, key in ((other, "k"), (body | {"name": "newer"}, "k"), (body, "another"), (body, None)):
        headers: dict[str, Any] = {} if key is None else {"Idempotency_Key": key}
        assert service.request("POST", "/v1/memories", changed, **headers).status_code == 409
    service.request("DELETE", "/v1/memories/new", status=200)
    assert service.request("POST", "/v1/memories", body, Idempotency_Key="k").status_code == 409
    assert "new" not in service.store


def test_a_creation_takes_no_more_entries_than_a_batch(service: ServiceClient) -> None:
    """The rows of a fit grow with the square of its entries: 20,000 of one coordinate fit into a small body."""
    many = {"name": "many", "keys": [[float(row)] for row in range(21)], "values": [0.0] * 21, "sigma": 1.0, "nu": 0.5}
    refused = service.request("POST", "/v1/memories", many, status=422)
    assert "at most 20" in refused["detail"]
    assert "many" not in service.store


@pytest.mark.parametrize("body", ['{"id": "e1", "id": "e2"}', '{"id": "e1", "\\u0069d": "e2"}'])
def test_a_name_that_stands_twice_in_a_body_is_refused(service: ServiceClient, body: str) -> None:
    sent = service.headers() | {"Content-Type": "application/json"}
    answer = service.client.post("/v1/memories/icu/delete", content=body, headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert "twice" in answer.json()["detail"]
    assert {"e1", "e2"} <= set(service.store["icu"].ids)
