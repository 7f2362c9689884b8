"""Measurements by column name over HTTP: what the library makes of them, and refusals that name the column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.service_client import ServiceClient

COLUMNS: dict[str, Any] = {
    "keys": [{"name": "HR", "unit": "1/min", "centre": 84, "scale": 16, "fill": 84}, {"name": "SpO2", "centre": 97.0}],
    "values": [{"name": "MAP", "fill": 75.0}],
}


def ward(service: ServiceClient) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    hours = [{"HR": 84.0 + 16.0 * a, "SpO2": 97.0 + b} for a, b in rng.standard_normal((20, 2)).tolist()]
    pressures = [{"MAP": value} for value in rng.normal(80.0, 9.0, 20).tolist()]
    body = {"name": "ward", "keys": hours, "values": pressures, "nu": 0.3, "preprocessing": COLUMNS}
    told: dict[str, Any] = service.request("POST", "/v1/memories", body, status=201)
    return told


def test_objects_by_name_are_what_their_coordinates_are(service: ServiceClient) -> None:
    told = ward(service)
    assert service.request("GET", "/v1/memories/ward", status=200) == told
    assert told["chosen_width"] is True
    first, second = told["preprocessing"]["keys"]
    assert first == {"name": "HR", "unit": "1/min", "centre": 84.0, "scale": 16.0, "fill": 84.0}
    assert second["fill"] is None
    assert told["preprocessing"]["learned"] is False
    named, point = {"SpO2": 98.0, "HR": 100.0}, [1.0, 1.0]
    for path, field in (("read", "queries"), ("search", "query"), ("nearest", "query"), ("explain", "query")):
        answers = [
            service.request("POST", f"/v1/memories/ward/{path}", {field: [at] if path == "read" else at}, status=200)
            for at in (named, point)
        ]
        assert answers[0] == answers[1]
        assert answers[0]["filled"] == ([[]] if path == "read" else [])
        partial = {"SpO2": 98.0}
        filled = service.request("POST", f"/v1/memories/ward/{path}", {field: [partial] if path == "read" else partial})
        assert filled.json()["filled"] == ([["HR"]] if path == "read" else ["HR"])
    service.request("POST", "/v1/memories/ward/admit", {"key": named, "value": {"MAP": 80}, "id": "a"}, status=201)
    entries = [{"key": {"SpO2": 97}, "value": {"MAP": None}, "id": "b"}, {"key": point, "value": 70, "id": "c"}]
    service.request("POST", "/v1/memories/ward/entries", {"entries": entries[:1]}, status=201)
    service.request("POST", "/v1/memories/ward/admit/batch", {"entries": entries[1:]}, status=200)
    memory = service.store["ward"]
    assert memory.keys[-3:].tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    assert memory.values[-3:].tolist() == [[80.0], [75.0], [70.0]]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"HR": 80.0, "spo2": 97.0}, "no key column 'spo2'; the key columns are HR, SpO2"),
        ({"HR": 80.0}, "key column 'SpO2' is missing"),
        ({"HR": "80", "SpO2": 97.0}, None),
        ({}, None),
    ],
)
def test_what_does_not_fit_is_named(service: ServiceClient, query: dict[str, Any], said: str | None) -> None:
    ward(service)
    problem = service.request("POST", "/v1/memories/ward/search", {"query": query}, status=422)
    assert said is None or said in problem["detail"]


def test_without_columns_an_object_is_refused_with_the_reason(service: ServiceClient) -> None:
    problem = service.request("POST", "/v1/memories/icu/search", {"query": {"HR": 80.0}}, status=422)
    assert "this memory has no columns" in problem["detail"]


def test_columns_that_do_not_fit_the_keys(service: ServiceClient) -> None:
    body = {"name": "ward", "keys": [[1.0]], "values": [1.0], "cap": 1.0, "preprocessing": COLUMNS}
    assert "do not fit 2 key columns" in service.request("POST", "/v1/memories", body, status=422)["detail"]
