"""Long jobs: their progress, what survives a worker, and what they leave in the database."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import expunge
from expunge.service import jobs
from expunge.service.executor import Executor
from expunge.service.job_kinds import JOB_KINDS
from expunge.service.jobs import Jobs
from expunge.store import Store, subject_commitment
from expunge.verify import verify_proof
from service.service_client import ServiceClient

WAIT: dict[str, Any] = {"Prefer": "wait=30"}


def test_a_proof_is_a_resource_with_a_proof_in_it(service: ServiceClient) -> None:
    response = service.request("POST", "/v1/memories/icu/prove", scopes=("audit",), **WAIT)
    assert response.status_code == 200
    job = response.json()
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["state"], job["progress"]) == ("done", {"done": 1, "total": 1})
    result, memory = job["result"], service.store["icu"]
    assert result["outcome"] == "proved"
    assert result["digest"] == memory.digest
    proof = base64.b64decode(result["proof"])
    verify_proof(proof, memory.keys, cap=memory.cap, sigma=memory.sigma)
    assert service.request("GET", f"/v1/jobs/{job['id']}", scopes=("audit",), status=200) == job


def test_an_erasure_goes_through_every_memory(service: ServiceClient) -> None:
    job = service.request("POST", "/v1/erasures", {"subject": "patient-1"}, scopes=("erase",), status=200, **WAIT)
    assert job["state"] == "done"
    result = job["result"]
    assert (result["state"], result["complete"]) == ("applied", True)
    assert {part["memory"] for part in result["memories"]} == {"icu", "other", "plane"}
    assert job["progress"] == {"done": 3, "total": 3}
    for name in service.store:
        assert not service.store[name].has_subject("patient-1")
    # The salt, which is stored nowhere in the clear, opens the commitment in the ledger's summary.
    stated = service.store.leaf(result["index"]).statement.subjects[0].sha256
    assert stated == subject_commitment(bytes.fromhex(result["salt"]), "patient-1")
    service.store.verify()


def test_a_dry_run_of_an_erasure(service: ServiceClient) -> None:
    size = service.store.size
    found = service.request(
        "POST", "/v1/erasures?dry_run=true", {"subject": "patient-1"}, scopes=("erase",), status=200
    )
    assert set(found["memories"]) == {"icu", "other", "plane"}
    assert service.store.size == size
    nobody = service.request("POST", "/v1/erasures?dry_run=true", {"subject": "nobody"}, status=200)
    assert nobody["memories"] == {}


def test_an_erasure_takes_what_was_previewed_or_nothing(service: ServiceClient) -> None:
    """`If-Match` with the tag of the preview: another entry of the person is noticed, and other people's are not."""
    body, store = {"subject": "patient-1"}, service.store
    seen = service.request("POST", "/v1/erasures?dry_run=true", body)
    tag = seen.headers["etag"]
    assert tag == f'"{seen.json()["digest"]}"'
    assert seen.json()["order"] == ["icu", "other", "plane"]
    store["plane"].admit([0.1, 0.2], [1.0] * store["plane"].values.shape[1], subject="patient-2")
    assert service.request("POST", "/v1/erasures?dry_run=true", body).headers["etag"] == tag
    store["plane"].admit([0.2, 0.1], [1.0] * store["plane"].values.shape[1], subject="patient-1", id="late")
    size = store.size
    stale = service.request("POST", "/v1/erasures", body, If_Match=tag, Idempotency_Key="one", **WAIT)
    assert (stale.status_code, stale.json()["code"], store.size) == (412, "stale", size)
    tag = service.request("POST", "/v1/erasures?dry_run=true", body).headers["etag"]
    done = service.request("POST", "/v1/erasures", body, If_Match=tag, Idempotency_Key="two", status=200, **WAIT)
    assert done["result"]["complete"]
    # The same request again gets the same answer, though its preview is long gone.
    assert service.request("POST", "/v1/erasures", body, If_Match=tag, Idempotency_Key="two", **WAIT).json() == done
    assert service.request("POST", "/v1/erasures?dry_run=true", body, If_Match=tag).status_code == 422


def test_what_comes_in_on_the_way_stays_and_is_told(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    store, number = service.store, 0
    digest = store.erase_subject("patient-1", dry_run=True).digest

    def admit(done: int, total: int) -> None:
        nonlocal number
        number += 1
        if done == 2:
            store["plane"].admit([0.2, 0.1], [1.0] * store["plane"].values.shape[1], subject="patient-1", id="late")

    done = store.erase_subject("patient-1", expected=digest, progress=admit)
    assert [part.outcome == "failed" for part in done.memories] == [False, False, True]
    assert not done.complete
    assert store["plane"].has_subject("patient-1")
    assert not store["icu"].has_subject("patient-1")
    store.verify()


def test_a_preview_tells_what_is_in_the_way_to_those_who_may_read(service: ServiceClient) -> None:
    hold = service.store.hold("icu", subject="patient-1", reason="a case")
    path, body = "/v1/erasures?dry_run=true", {"subject": "patient-1"}
    seen = service.request("POST", path, body, status=200)
    assert seen["holds"] == {"icu": [hold.number], "other": [], "plane": []}
    assert seen["mirrors"] == {"icu": [], "other": [], "plane": []}
    told = service.request("POST", path, body, scopes=("erase",), status=200)
    assert (told["holds"], told["mirrors"]) == (None, None)


def test_a_repeated_erasure_is_the_same_job(service: ServiceClient) -> None:
    first = service.request(
        "POST", "/v1/erasures", {"subject": "patient-1"}, status=200, Idempotency_Key="once", **WAIT
    )
    size = service.store.size
    again = service.request(
        "POST", "/v1/erasures", {"subject": "patient-1"}, status=200, Idempotency_Key="once", **WAIT
    )
    assert again == first
    assert service.store.size == size
    other = service.request("POST", "/v1/erasures", {"subject": "patient-2"}, Idempotency_Key="once")
    assert other.status_code == 409
    # The library gives the same answer under the same key.
    done = service.store.erase_subject("patient-1", idempotency_key="once")
    assert done.index == first["result"]["index"]


def test_a_job_that_cannot_be_done_says_why(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise expunge.StoreError("the disk is full")

    monkeypatch.setattr(Store, "erase_subject", fail)
    job = service.request("POST", "/v1/erasures", {"subject": "patient-1"}, status=200, **WAIT)
    assert (job["state"], job["result"]) == ("failed", None)
    assert job["problem"]["error"] == "StoreError"
    assert "the disk is full" in job["problem"]["detail"]


def test_verification_and_vacuum(service: ServiceClient) -> None:
    job = service.request("POST", "/v1/verify", scopes=("audit",), status=200, **WAIT)
    assert job["result"] == vars(service.store.verify())
    job = service.request("POST", "/v1/vacuum", scopes=("admin",), status=200, **WAIT)
    assert job["result"]["files"] is True


def test_jobs_are_for_those_who_may_start_them(service: ServiceClient) -> None:
    job = service.request("POST", "/v1/memories/icu/prove", scopes=("read",), status=200, **WAIT)
    path = f"/v1/jobs/{job['id']}"
    assert service.request("GET", path, scopes=("erase",)).status_code == 403
    assert service.request("GET", path, scopes=("read",), memory="other").status_code == 403
    assert service.request("GET", path, scopes=("read",), memory="icu").status_code == 200
    erasure = service.request("POST", "/v1/erasures", {"subject": "patient-1"}, scopes=("erase",), status=200, **WAIT)
    assert service.request("GET", f"/v1/jobs/{erasure['id']}", scopes=("erase",), memory="icu").status_code == 403


def test_what_jobs_leave_does_not_name_anybody(service: ServiceClient, folder: Path) -> None:
    """Neither the subject nor an erased id is in the files, and the job cannot be opened without its id."""
    subject, name = "patient-Penthesilea", "entry-Penthesilea"
    service.store["icu"].admit([9.0] * 4, [0.0, 0.0], id=name, subject=subject)
    job = service.request("POST", "/v1/erasures", {"subject": subject}, status=200, **WAIT)
    assert job["result"]["memories"][0]["applied"] == [name]
    again = service.request("POST", "/v1/erasures", {"subject": subject}, status=200, **WAIT)
    assert (again["state"], again["result"]["memories"]) == ("done", [])
    service.store._database.close()
    for file in folder.iterdir():
        raw = file.read_bytes()
        assert b"Penthesilea" not in raw
        assert job["id"].encode() not in raw


def test_a_finished_job_needs_no_waiting(service: ServiceClient) -> None:
    """And one that is not finished is accepted, with when to come back."""
    response = service.request("POST", "/v1/verify")
    assert response.status_code in (200, 202)
    path = response.headers["location"]
    for _ in range(200):
        job = service.request("GET", path, status=200)
        if job["state"] == "done":
            break
        time.sleep(0.05)
    assert job["state"] == "done"


def patient(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Erasures that wait in front of their second memory until they are let on."""
    gate, real = threading.Event(), Store.erase_subject

    def held(self: Store, subject: str, **given: Any) -> Any:
        progress: Callable[[int, int], None] = given["progress"]

        def slow(done: int, total: int) -> None:
            if done == 1:
                gate.wait(20)
            progress(done, total)

        return real(self, subject, **given | {"progress": slow})

    monkeypatch.setattr(Store, "erase_subject", held)
    return gate


def test_a_stopped_worker_leaves_its_job_to_the_next(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, gate = f"sqlite:///{folder / 'ward.db'}", patient(monkeypatch)

    async def first(store: Store) -> str:
        jobs = Jobs(store, Executor(5.0))
        job = await jobs.start("subject_erasure", {"subject": "patient-1", "key": "k"})
        while (found := await jobs.find(job.id)) is None or found.state != "running":
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        stopping = asyncio.create_task(jobs.stop(20.0))
        await asyncio.sleep(0.05)
        gate.set()
        await stopping
        return job.id

    async def second(store: Store, name: str) -> Any:
        jobs = Jobs(store, Executor(5.0))
        before = jobs._find(name)
        assert before is not None
        assert before.state == "interrupted"
        job = await jobs.find(name)
        assert job is not None
        return await jobs.wait(job, 30.0)

    with expunge.open(url) as store:
        name = asyncio.run(first(store))
        left = [one for one in store if store[one].has_subject("patient-1")]
        assert len(left) == 2, "it stopped between two memories"
    with expunge.open(url) as store:
        job = asyncio.run(second(store, name))
        assert job.state == "done"
        assert job.result["complete"] is True
        assert {part["memory"] for part in job.result["memories"]} == {"icu", "other", "plane"}
        assert not any(store[one].has_subject("patient-1") for one in store)
        store.verify()


def test_the_job_of_a_dead_worker_is_taken_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row says running, and nobody signs on to it any more."""
    url = f"sqlite:///{folder / 'ward.db'}"

    async def story(store: Store) -> None:
        dead, alive = Jobs(store, Executor(5.0)), Jobs(store, Executor(5.0))
        job, made = dead._insert("the-id", JOB_KINDS["verification"], {})
        assert made
        dead._update(job.id, state="running")
        found = await alive.find(job.id)
        assert found is not None
        assert found.state == "running", "it may just be slow"
        monkeypatch.setattr(jobs, "ORPHAN_SECONDS", 0.0)
        await asyncio.sleep(0.01)
        found = await alive.find(job.id)
        assert found is not None
        found = await alive.wait(found, 20.0)
        assert found.state == "done"
        # Whoever was thought dead cannot overwrite the result.
        dead._update(job.id, state="failed")
        assert (await alive.find(job.id)).state == "done"  # type: ignore[union-attr]

    with expunge.open(url) as store:
        asyncio.run(story(store))


def test_two_workers_do_not_take_up_the_same_job(folder: Path) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        one, other = Jobs(store, Executor(5.0)), Jobs(store, Executor(5.0))
        one._insert("the-id", JOB_KINDS["verification"], {})
        one._update("the-id", state="interrupted")
        seen = one._find("the-id")
        assert seen is not None
        assert [one._claim(seen), other._claim(seen)] == [True, False]


def test_old_jobs_are_forgotten(folder: Path) -> None:
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        Jobs(store, Executor(5.0), clock=lambda: 1000.0)._insert("old", JOB_KINDS["verification"], {})
        jobs = Jobs(store, Executor(5.0))
        jobs._insert("new", JOB_KINDS["verification"], {})
        assert jobs._find("old") is not None
    # Nothing else has to happen than that the store is opened.
    with expunge.open(f"sqlite:///{folder / 'ward.db'}") as store:
        jobs = Jobs(store, Executor(5.0))
        assert jobs._find("old") is None
        assert jobs.counts() == {"queued": 1}
