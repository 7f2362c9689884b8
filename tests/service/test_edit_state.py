"""How far an edit went, in one word, from what was recorded of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from expunge.service.edit_state import state_of_parts
from service.service_client import ServiceClient


@pytest.mark.parametrize(
    ("outcomes", "held", "state"),
    [
        (("decrement", "noop"), False, "applied"),
        (("certified_zero", "refused"), False, "partly_refused"),
        (("emptied",), True, "partly_refused"),
        (("refitted", "failed"), False, "partly_refused"),
        (("refused", "noop"), False, "refused"),
        ((), True, "refused"),
        (("noop",), False, "nothing"),
        ((), False, "nothing"),
    ],
)
def test_one_word_for_several_memories(outcomes: Sequence[str], held: bool, state: str) -> None:
    assert state_of_parts(outcomes, held=held) == state


def test_a_refused_erasure_is_called_one_wherever_it_is_told(service: ServiceClient) -> None:
    """In the job, and in the ledger: a hold in every memory, then in one, then nobody left."""
    holds = [service.store.hold(name, subject="patient-1", reason="a case") for name in list(service.store)]
    for left, state in ((3, "refused"), (1, "partly_refused"), (0, "applied"), (0, "nothing")):
        while len(holds) > left:
            service.store.release(holds.pop())
        before = service.store.size
        job = service.request("POST", "/v1/erasures", {"subject": "patient-1"}, status=200, Prefer="wait=30")
        assert (job["state"], job["result"]["state"]) == ("done", state)
        index = job["result"]["index"]
        if state == "nothing":
            assert (index, service.store.size) == (None, before)
            continue
        assert service.request("GET", f"/v1/receipts/{index}", status=200)["state"] == state
        lines = service.request("GET", f"/v1/log?limit={service.store.size - before}", status=200)["items"]
        assert lines[0]["state"] == state
        parts = {line["index"]: line["state"] for line in lines[1:]}
        expected = {part["index"]: part["outcome"] for part in job["result"]["memories"]}
        assert parts == {leaf: "refused" if done == "refused" else "applied" for leaf, done in expected.items()}


def test_edits_that_did_nothing_and_events_that_are_no_edits(service: ServiceClient) -> None:
    memory = service.store["icu"]
    outcomes = [memory.prune("forget").outcome, memory.prune("forget").outcome]
    assert outcomes == ["pruned", "noop"]
    service.store.hold("icu", "e2", reason="a case")
    lines = service.request("GET", "/v1/log?limit=3", status=200)["items"]
    assert [(line["kind"], line["state"]) for line in lines] == [
        ("held", "event"),
        ("noop", "nothing"),
        ("pruned", "applied"),
    ]


def test_a_sweep_says_how_far_it_went(service: ServiceClient) -> None:
    job = service.request("POST", "/v1/retention", status=200, Prefer="wait=30")
    assert job["result"]["state"] == "nothing"
