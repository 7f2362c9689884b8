"""Erasures that a reader delays are said to wait, and are completed; what has expired is deleted, unasked."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

import expunge
from expunge.service import background_tasks
from expunge.service.executor import Executor
from expunge.service.job_kinds import JOB_KINDS
from expunge.service.jobs import Jobs
from expunge.service.settings import Settings
from expunge.store import Store
from expunge.store.backends import tables
from expunge.store.maintenance.expiry import KEPT_SECONDS
from service.service_client import ServiceClient
from store.byte_search import files_under, needles_of, traces

WAIT: dict[str, Any] = {"Prefer": "wait=30"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr("expunge.store.backends.sqlite._TRUNCATE_WAIT", 0.3)


@contextmanager
def open_reader(folder: Path) -> Iterator[None]:
    """A read transaction of somebody else."""
    with closing(sqlite3.connect(folder / "ward.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM expunge_secrets").fetchone()
        yield


def waiting_by_metric(service: ServiceClient) -> float:
    text = service.request("GET", "/metrics", scopes=("audit",)).text
    found = re.search(r"^expunge_erasures_waiting ([0-9.]+)$", text, re.M)
    assert found is not None, text
    return float(found.group(1))


def eventually(true: Callable[[], bool]) -> bool:
    for _ in range(200):
        if true():
            return True
        time.sleep(0.05)
    return False


def test_a_delayed_erasure_is_in_the_answer_and_the_metrics_and_is_completed(
    service: ServiceClient, folder: Path
) -> None:
    salts = needles_of(service.store["icu"], ["e1", "e2"])
    with open_reader(folder):
        told = service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200, Idempotency_Key="k")
        assert "reader" in told["waiting"]
        job = service.request("POST", "/v1/erasures", {"subject": "patient-7"}, status=200, **WAIT)
        assert "reader" in job["result"]["waiting"]
        assert waiting_by_metric(service) >= 2
        assert traces(files_under(folder), salts)
    assert eventually(lambda: waiting_by_metric(service) == 0)
    assert "salt of e1" not in traces(files_under(folder), salts)
    again = service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200, Idempotency_Key="k")
    assert again == told | {"waiting": None}
    job = service.request("GET", f"/v1/jobs/{job['id']}", scopes=("erase",), status=200)
    assert job["result"]["waiting"] is None


def test_a_dropped_memory_waits_as_well(service: ServiceClient, folder: Path) -> None:
    with open_reader(folder):
        number = service.request("POST", "/v1/memories/icu/holds", {"id": "e2", "reason": "court"}, status=201)[
            "number"
        ]
        assert "reader" in service.request("DELETE", f"/v1/holds/{number}", status=200)["waiting"]
        assert "reader" in service.request("DELETE", "/v1/memories/plane", status=200)["waiting"]
    assert eventually(lambda: service.store.waiting() is None)


@pytest.mark.long
def test_whoever_verifies_without_end_keeps_no_salt_on_disk(service: ServiceClient, folder: Path) -> None:
    """An audit token in a loop: an answer that does not say that it waits is true, and what waits is completed."""
    salts = needles_of(service.store["icu"], [f"e{number}" for number in range(1, 9)])
    over, rounds = threading.Event(), []

    def loop() -> None:
        while not over.is_set():
            rounds.append(service.request("POST", "/v1/verify", scopes=("audit",), status=200, **WAIT)["state"])

    service.headers("audit")
    threads = [threading.Thread(target=loop) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, 9):
            told = service.request("POST", "/v1/memories/icu/delete", {"id": f"e{number}"}, status=200)
            found = traces(files_under(folder), salts)
            assert told["waiting"] is not None or f"salt of e{number}" not in found
        assert eventually(lambda: traces(files_under(folder), salts) == set())
        assert eventually(lambda: service.store.waiting() is None)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert len(rounds) > 2
    assert set(rounds) == {"done"}


def counts(store: Store) -> dict[str, int]:
    with store.reading() as connection:
        return {
            table.name: connection.value(select(func.count()).select_from(table))
            for table in (tables.requests, tables.jobs, tables.tokens)
        }


def test_what_has_expired_is_deleted_while_the_service_runs(
    service: ServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = service.app.state.background
    # The first round looks, too: what is written before it ends may be gone at once.
    assert eventually(lambda: background._next_expiry > 0.0)
    old = Jobs(service.store, Executor(5.0), clock=lambda: 1000.0)
    old._insert("old", JOB_KINDS["verification"], {})
    assert old._find("old") is not None
    background._next_expiry = 0.0
    assert eventually(lambda: old._find("old") is None)


def test_answers_are_kept_for_seven_days(folder: Path) -> None:
    """Sealed, and no longer: they hold ids, and the salt of an erasure's summary."""
    url = f"sqlite:///{folder / 'ward.db'}"
    with expunge.open(url) as store:
        done = store.erase_subject("patient-1", idempotency_key="k")
        assert store.erase_subject("patient-1", idempotency_key="k") == done
        kept = counts(store)["expunge_requests"]
        assert kept == len(done.memories) + 1
        assert store.delete_expired(time.time() + KEPT_SECONDS - 60.0) == 0
        assert store.erase_subject("patient-1", idempotency_key="k").salt == done.salt
        assert store.delete_expired(time.time() + KEPT_SECONDS + 60.0) == kept
        assert counts(store)["expunge_requests"] == 0
        store.verify()


def test_requests_and_jobs_hold_no_salt_of_a_summary_in_clear(service: ServiceClient, folder: Path) -> None:
    told = service.request(
        "POST", "/v1/erasures", {"subject": "patient-1"}, status=200, Idempotency_Key="key-of-the-caller", **WAIT
    )
    salt = bytes.fromhex(told["result"]["salt"])
    needles = {"salt": salt, "text": salt.hex().encode(), "subject": b"patient-1", "key": b"key-of-the-caller"}
    service.store.vacuum()
    assert traces(files_under(folder), needles) == set()


def test_no_token_names_a_memory_that_was_dropped(service: ServiceClient, folder: Path) -> None:
    """Nor does any other row: the name is nowhere in the files."""
    store, name = service.store, "ward-Penthesilea"
    store.create(name, [[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]], sigma=1.0, nu=0.5)
    text, token = service.context.tokens.create(["read"], memory=name, note="for the ward")
    _, other = service.context.tokens.create(["read"], memory="icu")
    store[name].delete("1", idempotency_key="k")
    service.request("DELETE", f"/v1/memories/{name}", status=200, Idempotency_Key="drop")
    assert service.context.tokens.find(text) is None
    names = {known.name for known in service.context.tokens.all()}
    assert token.name not in names
    assert other.name in names
    store.vacuum()
    assert traces(files_under(folder), {"name": name.encode()}) == set()


def sweeps_of(monkeypatch: pytest.MonkeyPatch) -> list[Store]:
    """The stores that are swept from now on; nothing is erased."""
    swept: list[Store] = []
    monkeypatch.setattr(Store, "retain", swept.append)
    return swept


def test_what_has_ended_is_erased_while_the_service_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}", retain_seconds=0.1))
    with made.client:
        store = made.store
        # The first edit of a process may compile.
        store["icu"].admit([0.25] * store["icu"].dimension, [1.0] * store["icu"].values.shape[1], id="before")
        ends = datetime.now(UTC) + timedelta(seconds=6)
        key = [0.5] * store["icu"].dimension
        store["icu"].admit(key, [1.0] * store["icu"].values.shape[1], id="ends", expires=ends)
        store["other"].admit(
            [0.5] * store["other"].dimension,
            [1.0] * store["other"].values.shape[1],
            id="made from it",
            derived_from=[("icu", "ends")],
        )
        assert eventually(lambda: "ends" not in store["icu"] and "made from it" not in store["other"])
        assert datetime.now(UTC) >= ends.replace(microsecond=0)
        text = made.request("GET", "/metrics", scopes=("audit",)).text
        assert "expunge_retention_entries_total 2.0" in text
        # Nothing has changed: nothing is looked for, and nothing is written.
        time.sleep(0.3)  # until the sweep has been noted
        size, sweeps = store.size, sweeps_of(monkeypatch)
        time.sleep(0.5)
        assert (store.size, sweeps) == (size, [])


def test_a_service_may_leave_sweeps_to_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}", retain_seconds=0.0))
    sweeps = sweeps_of(monkeypatch)
    with made.client:
        time.sleep(0.3)
        assert sweeps == []
