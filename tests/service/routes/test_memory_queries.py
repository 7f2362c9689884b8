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


def test_the_report_on_the_fit_is_the_librarys(service: ServiceClient) -> None:
    memory = service.store["icu"]
    told = service.request("GET", "/v1/memories/icu/fit", scopes=("audit",), status=200)
    assert told == {"digest": memory.digest, **memory.report().to_json()}


@pytest.mark.parametrize("asked", [{"at": [0.2, 0.1]}, {"like": "e1"}, {"query": [0.1, 0.2, 0.3, 0.4]}])
def test_an_explanation_adds_up(service: ServiceClient, asked: dict[str, Any]) -> None:
    told = service.request("POST", "/v1/memories/icu/explain", asked | {"k": 3}, status=200)
    memory = service.store["icu"]
    np.testing.assert_allclose(told["readout"], memory.read(told["query"])[0], rtol=1e-12)
    assert told["score"] == pytest.approx(float(memory.score(told["query"])[0]), rel=1e-12)
    (judged,) = memory.judge(told["query"])
    assert [told["distance"], told["inside"], told["nearby"]] == [judged.distance, judged.inside, judged.nearby]
    assert [one["id"] for one in told["nearest"]] == [one.id for one in memory.nearest(told["query"], 3)]
    assert sum(hit["share"] for hit in told["hits"]) + told["rest"] == pytest.approx(1.0)
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in memory.search(told["query"], 3)]
    everything = service.request("POST", "/v1/memories/icu/explain", asked | {"k": 1000}, status=200)
    carried = sum(np.array(hit["value"]) * hit["share"] for hit in everything["hits"])
    np.testing.assert_allclose(carried, told["readout"], rtol=1e-9, atol=1e-12)
    if "at" in asked:
        assert [told["x"], told["y"]] == pytest.approx(asked["at"])


def test_where_a_query_lies(service: ServiceClient) -> None:
    """Inside or outside, how far from the boundary, and whether an entry is near: not the sign of the score."""
    memory = service.store["icu"]
    margin = memory.partition.margin[:9]
    queries = [*memory.keys[margin].tolist(), *memory.keys[memory.partition.bound[:9]].tolist(), [60.0] * 4]
    told = service.request("POST", "/v1/memories/icu/read", {"queries": queries}, status=200)
    judged = memory.judge(queries)
    assert told["boundary"] == memory.boundary
    assert told["scores"] == [one.score for one in judged]
    assert told["distances"] == [one.distance for one in judged]
    assert told["inside"] == [one.inside for one in judged]
    assert told["nearby"] == [one.nearby for one in judged]
    assert (told["inside"][-1], told["nearby"][-1]) == (False, False)
    assert all(told["inside"][: margin.size])
    assert not any(told["inside"][margin.size :])
    far = service.request("POST", "/v1/memories/icu/search", {"query": queries[-1]}, status=200)
    assert (far["inside"], far["nearby"], far["distance"]) == (False, False, judged[-1].distance)


def test_the_nearest_entries(service: ServiceClient) -> None:
    memory = service.store["icu"]
    query = memory.keys[int(memory.partition.reserve[0])].tolist()
    before = service.request("POST", "/v1/memories/icu/nearest", {"query": query, "k": 7}, status=200)["neighbours"]
    assert before[0]["id"] == memory.ids[int(memory.partition.reserve[0])]
    assert (before[0]["distance"], before[0]["weight"], before[0]["archived"]) == (0.0, 0.0, False)
    memory.prune()
    after = service.request("POST", "/v1/memories/icu/nearest", {"query": query, "k": 7}, status=200)["neighbours"]
    assert [one["id"] for one in after] == [one["id"] for one in before]
    assert after[0]["archived"] is True
    live = {"query": query, "k": 1000, "archived": False}
    found = service.request("POST", "/v1/memories/icu/nearest", live, status=200)["neighbours"]
    assert sorted(one["id"] for one in found) == sorted(memory.ids)


@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_an_empty_memory(service: ServiceClient, dimension: int) -> None:
    """It is made, shown and searched like any other; what it cannot answer has a code of its own."""
    empty = {"name": "later", "sigma": 2.0, "nu": 0.4, "dimension": dimension, "value_dimension": 2}
    told = service.request("POST", "/v1/memories", empty, status=201)
    assert (told["size"], told["dimension"], told["value_dimension"], told["cap"]) == (0, dimension, 2, 1.0)
    later, point = "/v1/memories/later", [0.0] * dimension
    assert service.request("GET", later, status=200) == told
    assert told in service.request("GET", "/v1/memories", status=200)["items"]
    for path in ("entries", "warranties"):
        assert service.request("GET", f"{later}/{path}", status=200)["items"] == []
    chart = service.request("GET", f"{later}/map", status=200)
    assert (chart["entries"], chart["archived"], chart["boundary"], chart["erased"]) == ([], [], None, [])
    assert np.shape(chart["projection"]["axes"]) == (2, dimension)
    assert service.request("GET", f"{later}/check", status=200)["worst"] == 0.0
    assert service.request("GET", f"{later}/fit", status=200)["healthy"] is False
    found = service.request("POST", f"{later}/search", {"query": point}, status=200)
    assert (found["hits"], found["distance"], found["inside"], found["nearby"]) == ([], None, None, None)
    assert service.request("POST", f"{later}/nearest", {"query": point}, status=200)["neighbours"] == []
    for method, path, body in (
        ("POST", "read", {"queries": [point]}),
        ("POST", "explain", {"query": point}),
        ("POST", "explain", {"at": [0.0, 0.0]}),
        ("GET", "bounds", None),
    ):
        problem = service.request(method, f"{later}/{path}", body, status=422)
        assert (problem["code"], "admit an entry first" in problem["detail"]) == ("memory-empty", True)
    job = service.request("POST", f"{later}/prove", Prefer="wait=30").json()
    assert (job["state"], job["problem"]["code"]) == ("failed", "memory-empty")
    value = {"key": point, "value": [1.0, 2.0], "id": "first"}
    service.request("POST", f"{later}/admit", value, status=201)
    assert len(service.request("GET", f"{later}/map", status=200)["entries"]) == 1
    service.request("POST", f"{later}/delete", {"id": "first"}, status=200)
    chart = service.request("GET", f"{later}/map", status=200)
    assert ([row["outcome"] for row in chart["erased"]], chart["erased_total"]) == (["emptied"], 1)


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"dimension": 0},
        {"dimension": 2, "keys": [[0.0, 1.0]], "values": [1.0]},
        {"keys": [[0.0, 1.0]], "values": [1.0], "value_dimension": 1},
        {"dimension": 10**6},
        {"dimension": 2, "ids": ["a"]},
        {"keys": [], "values": []},
    ],
)
def test_entries_or_coordinates(service: ServiceClient, shape: dict[str, Any]) -> None:
    service.request("POST", "/v1/memories", {"name": "later", "sigma": 2.0, "nu": 0.4, **shape}, status=422)
    assert "later" not in service.store
