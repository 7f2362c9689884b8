"""Metrics count edits, and say what the store holds."""

from __future__ import annotations

import json
import logging
import re

import pytest

from metrics_ledger import play
from service.service_client import ServiceClient
from verify.cases import PATH, broken


def test_metrics_count_what_happened(service: ServiceClient) -> None:
    service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200)
    service.store.hold("icu", "e2", reason="case")
    service.request("POST", "/v1/memories/icu/delete", {"id": "e2"}, status=409)
    service.request("POST", "/v1/memories/icu/prune", {"mode": "forget"}, status=409)
    service.request("POST", "/v1/memories/plane/prune", {"mode": "forget"}, status=200)
    text = service.request("GET", "/metrics", scopes=("audit",)).text
    values = dict(re.findall(r"^(\w+(?:\{.*\})?) ([-+0-9.e]+)$", text, re.M))
    deleted = [name for name in values if name.startswith('expunge_edits_total{action="deletion"')]
    assert sum(float(values[name]) for name in deleted) == 2
    assert values['expunge_refusals_total{action="deletion"}'] == "1.0"
    assert values['expunge_refusals_total{action="pruning"}'] == "1.0"
    assert values["expunge_residual_count"] == "2.0"
    assert float(values['expunge_residual_bucket{le="1e-09"}']) == 2
    assert values['expunge_edit_seconds_count{action="deletion"}'] == "2.0"
    rows = [row for name in service.store for row in service.store[name].warranties()]
    assert float(values['expunge_certificates{status="valid"}']) == sum(row.status == "valid" for row in rows) > 0
    assert float(values["expunge_log_size"]) == service.store.size
    assert float(values["expunge_entries"]) == sum(len(service.store[name]) for name in service.store)
    assert values["expunge_rescues_total"] == "0.0"
    route = 'method="POST",route="/v1/memories/{name}/delete",status="409"'
    assert values[f"expunge_request_seconds_count{{{route}}}"] == "1.0"
    assert "icu" not in text


def test_a_rescue_and_ended_certificates_are_counted(service: ServiceClient) -> None:
    """A receipt does not tell of a rescue; the metrics do."""
    service.request("POST", "/v1/memories/icu/prune", {"mode": "forget"}, status=200)
    memory = service.store["icu"]
    victim = memory.ids[int(memory.partition.bound[0])]
    with broken(*PATH):
        answer = service.request("POST", "/v1/memories/icu/delete", {"id": victim}, status=200, Idempotency_Key="k")
    assert answer["outcome"] == "decrement"
    again = service.request("POST", "/v1/memories/icu/delete", {"id": victim}, status=200, Idempotency_Key="k")
    assert again == answer
    text = service.request("GET", "/metrics", scopes=("audit",)).text
    values = dict(re.findall(r"^(\w+(?:\{.*\})?) ([-+0-9.e]+)$", text, re.M))
    assert values["expunge_rescues_total"] == "1.0"
    assert values['expunge_edits_total{action="deletion",outcome="decrement"}'] == "1.0"
    rows = [row for name in service.store for row in service.store[name].warranties()]
    for status in ("valid", "expired", "ended"):
        assert float(values[f'expunge_certificates{{status="{status}"}}']) == sum(row.status == status for row in rows)
    assert any(row.status == "ended" for row in rows)


def test_erasures_beyond_the_cap_are_counted_by_their_outcome(service: ServiceClient) -> None:
    names = list(service.store["icu"].ids)
    for some in (names[20:], names[4:20], names[:4]):
        service.request("POST", "/v1/memories/icu/delete", {"ids": some}, status=200)
    text = service.request("GET", "/metrics", scopes=("audit",)).text
    for outcome in ("refitted", "emptied"):
        assert f'expunge_edits_total{{action="deletion",outcome="{outcome}"}} 1.0' in text


def test_metrics_and_logs_equal_the_ledger(service: ServiceClient, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever asked for an edit: a request, a job, a sweep, an erasure that was due, the library."""
    start = service.store.size
    with caplog.at_level(logging.INFO, logger="expunge.service"):
        ledger, metrics, asked = play(service, 60, seed=1)
    assert metrics == ledger
    assert {"erasure", "held", "prune", "repeat", "sweep"} <= asked.keys()
    assert {"edits refused", "edits decrement", "edits certified_zero"} <= ledger.keys()
    assert sum(value for name, value in ledger.items() if "leaves" in name) == service.store.size - start
    logged = [record.about for record in caplog.records if record.message == "edit"]  # type: ignore[attr-defined]
    assert len(logged) == sum(value for name, value in ledger.items() if name.startswith("edits "))
    for about in logged:
        assert service.store.leaf(about["leaf"]).kind == about["outcome"]
        assert "patient" not in json.dumps(about)
