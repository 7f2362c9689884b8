"""Who asks for an erasure, and what the answer gives away to a token that may not read."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from expunge.store.erasure_plan import closure_digest
from service.service_client import ServiceClient

WAIT: dict[str, Any] = {"Prefer": "wait=30"}
ERASE, BOTH = ("erase",), ("erase", "read")
DECOMPOSED = unicodedata.normalize("NFD", "José")


@pytest.fixture
def clinic(service: ServiceClient) -> ServiceClient:
    """José under two spellings, in two memories."""
    service.store["icu"].admit([9.0] * 4, [0.0, 0.0], subject=DECOMPOSED)
    service.store["other"].admit([9.0] * 4, [0.0, 0.0], subject="jose")
    return service


@contextmanager
def statements(service: ServiceClient) -> Iterator[list[str]]:
    """Statements about entries that the database is sent meanwhile."""
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if "expunge_entries" in statement or "expunge_forgotten" in statement:
            sent.append(statement)

    engine = service.store._database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


def answered(service: ServiceClient, scopes: tuple[str, ...], **body: Any) -> tuple[str, str, list[str]]:
    """The dry run, the job without its random id and its times, and what was asked of the database."""
    with statements(service) as sent:
        told = service.request("POST", "/v1/erasures?dry_run=true", body, scopes=scopes)
        job = service.request("POST", "/v1/erasures", body, scopes=scopes, status=200, **WAIT)
    assert told.status_code == 200
    for name in ("id", "created", "updated"):
        del job[name]
    return told.text, json.dumps(job), sent


def test_a_token_that_may_only_erase_is_told_of_nobody_else(clinic: ServiceClient) -> None:
    """Guesses near a person, at a person who was erased, and at nobody have the same answer after the same work."""
    clinic.request("POST", "/v1/erasures", {"subject": "patient-1"}, scopes=ERASE, status=200, **WAIT)
    size = clinic.store.size
    guesses = ("nobody", "José", "JOSE", " jose", "Patient-3", "patient-03", "patient_3", "patient-1")
    answers = [answered(clinic, ERASE, subject=guess) for guess in guesses]
    assert len({answer[:2] for answer in answers}) == 1
    assert all(sent == answers[0][2] for *_, sent in answers)
    told, job = (json.loads(text) for text in answers[0][:2])
    assert told.pop("digest") == closure_digest([])
    nothing = dict.fromkeys(("not_searched", "look_alikes", "holds", "mirrors"))
    assert told == {"memories": {}, "order": [], **nothing}
    assert (job["state"], job["result"]["complete"], job["result"]["memories"]) == ("done", True, [])
    assert [job["result"][name] for name in ("index", "salt", "earlier", "not_searched", "look_alikes")] == [None] * 5
    assert clinic.store.size == size
    # Nor from an erasure that does find somebody, or a job that a better token began.
    for scopes in (ERASE, BOTH):
        job = clinic.request("POST", "/v1/erasures", {"subject": "patient-2"}, scopes=scopes, status=200, **WAIT)
        seen = clinic.request("GET", f"/v1/jobs/{job['id']}", scopes=ERASE, status=200)["result"]
        assert (seen["not_searched"], seen["look_alikes"]) == (None, None)


def test_a_delayed_erasure_says_the_same_of_everybody(clinic: ServiceClient) -> None:
    forms = set()
    for subject in ("patient-3", "patient-9", "JOSE"):
        body = {"subject": subject, "after": 3600}
        waiting = clinic.request("POST", "/v1/erasures", body, scopes=ERASE, status=201)
        assert (waiting["subject"], waiting["not_searched"], waiting["look_alikes"]) == (subject, None, None)
        forms.add(tuple(waiting))
    assert len(forms) == 1


def test_without_the_salt_no_leaf_is_named(clinic: ServiceClient) -> None:
    body = {"subject": "patient-1"}
    first = clinic.request("POST", "/v1/erasures", body, scopes=ERASE, status=200, Idempotency_Key="ticket", **WAIT)[
        "result"
    ]
    wrong = "00" * 32
    alike = [answered_job(clinic, body), answered_job(clinic, body | {"salt": wrong})]
    alike += [answered_job(clinic, {"subject": "patient-9", "salt": salt}) for salt in (wrong, first["salt"])]
    assert all(one == alike[0] for one in alike)
    assert answered_job(clinic, body | {"salt": first["salt"]})["earlier"] == first["index"]
    again = clinic.request("POST", "/v1/erasures", body, scopes=ERASE, status=200, Idempotency_Key="ticket", **WAIT)
    assert again["result"] == first
    for malformed in ("", "xyz", first["salt"].upper(), first["salt"][:-2]):
        clinic.request("POST", "/v1/erasures", body | {"salt": malformed}, status=422)
    clinic.request("POST", "/v1/erasures?dry_run=true", body | {"salt": wrong}, status=422)
    clinic.request("POST", "/v1/erasures", body | {"salt": wrong, "after": 60}, status=422)


def answered_job(service: ServiceClient, body: dict[str, Any]) -> dict[str, Any]:
    job: dict[str, Any] = service.request("POST", "/v1/erasures", body, scopes=ERASE, status=200, **WAIT)
    result: dict[str, Any] = job["result"]
    return result


def test_a_token_that_may_only_read_or_reaches_one_memory_erases_and_previews_nothing(clinic: ServiceClient) -> None:
    for path in ("/v1/erasures", "/v1/erasures?dry_run=true"):
        assert clinic.request("POST", path, {"subject": "José"}, scopes=("read",)).status_code == 403
        assert clinic.request("POST", path, {"subject": "José"}, scopes=BOTH, memory="icu").status_code == 403


def test_who_may_read_and_erase_is_helped(clinic: ServiceClient, folder: Path) -> None:
    """The user's way: José is not found, two look-alikes are offered, each is erased by its own name."""
    told = clinic.request("POST", "/v1/erasures?dry_run=true", {"subject": "José"}, scopes=BOTH, status=200)
    assert told["memories"] == {}
    assert [one["memory"] for one in told["not_searched"]] == ["icu", "other", "plane"]
    assert told["look_alikes"] == [
        {"subject": DECOMPOSED, "entries": 1, "memories": ["icu"]},
        {"subject": "jose", "entries": 1, "memories": ["other"]},
    ]
    waiting = clinic.request("POST", "/v1/erasures", {"subject": "José", "after": 60}, scopes=BOTH, status=201)
    assert waiting["look_alikes"] == told["look_alikes"]
    offered = told["look_alikes"]
    while offered:
        body = {"subject": offered[0]["subject"]}
        job = clinic.request("POST", "/v1/erasures", body, scopes=BOTH, status=200, **WAIT)
        assert sum(len(part["applied"]) for part in job["result"]["memories"]) == 1
        assert job["result"]["look_alikes"] == offered[1:]
        offered = job["result"]["look_alikes"]
    clinic.store["icu"].admit([9.0] * 4, [0.0, 0.0], subject="Penthesilea Quux")
    clinic.request("POST", "/v1/erasures", {"subject": "penthesilea quux"}, scopes=BOTH, status=200, **WAIT)
    clinic.store._database.close()
    for file in folder.iterdir():
        assert b"Penthesilea" not in file.read_bytes(), "a job keeps no look-alike"
