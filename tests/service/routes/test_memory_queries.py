"""Queries over HTTP give what the library gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.service_client import ServiceClient


def test_checks_and_bounds_are_the_librarys(service: ServiceClient) -> None:
    memory = service.store["icu"]
    told = service.request("GET", "/v1/memories/icu/check", scopes=("audit",), status=200)
    assert told["worst"] == memory.check().worst
    assert told["passed"] is True
    bounds = service.request("GET", "/v1/memories/icu/bounds", scopes=("audit",), status=200)
    assert bounds["proved_zero"] == int(memory.bounds().zero.sum())
    assert bounds["centre"] == memory.bounds().centre


@pytest.mark.parametrize("asked", [{"at": [0.2, 0.1]}, {"like": "e1"}, {"query": [0.1, 0.2, 0.3, 0.4]}])
def test_an_explanation_adds_up(service: ServiceClient, asked: dict[str, Any]) -> None:
    told = service.request("POST", "/v1/memories/icu/explain", asked | {"k": 3}, status=200)
    memory = service.store["icu"]
    np.testing.assert_allclose(told["readout"], memory.read(told["query"])[0], rtol=1e-12)
    assert told["score"] == pytest.approx(float(memory.score(told["query"])[0]), rel=1e-12)
    assert sum(hit["share"] for hit in told["hits"]) + told["rest"] == pytest.approx(1.0)
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in memory.search(told["query"], 3)]
    everything = service.request("POST", "/v1/memories/icu/explain", asked | {"k": 1000}, status=200)
    carried = sum(np.array(hit["value"]) * hit["share"] for hit in everything["hits"])
    np.testing.assert_allclose(carried, told["readout"], rtol=1e-9, atol=1e-12)
    if "at" in asked:
        assert [told["x"], told["y"]] == pytest.approx(asked["at"])
