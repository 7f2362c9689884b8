"""Ends and sources over HTTP: what goes with what, what a token of one memory is told, and sweeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.service_client import ServiceClient

WAIT: dict[str, Any] = {"Prefer": "wait=30"}
LATER = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")


def admit(service: ServiceClient, memory: str, name: str, *sources: Any, **about: Any) -> Any:
    dimension = service.store[memory].dimension
    key = [0.1 * len(name)] * dimension
    body = {"key": key, "value": [1.0] * service.store[memory].values.shape[1], "id": name, "derived_from": sources}
    return service.request("POST", f"/v1/memories/{memory}/admit", body | about)


@pytest.fixture
def family(service: ServiceClient) -> ServiceClient:
    assert admit(service, "icu", "talk", expires=LATER, subject="ann").status_code == 201
    assert admit(service, "other", "fact", ["icu", "talk"]).status_code == 201
    assert admit(service, "icu", "note", ["other", "fact"]).status_code == 201
    return service


def test_an_entry_shows_its_end_and_its_sources(family: ServiceClient) -> None:
    shown = family.request("GET", "/v1/memories/icu/entries/talk").json()
    assert (shown["expires"], shown["derived_from"]) == (LATER, [])
    icu = family.store["icu"].uuid
    assert family.request("GET", "/v1/memories/other/entries/fact").json()["derived_from"] == [[icu, "talk"]]
    scoped = family.request("GET", "/v1/memories/other/entries/fact", scopes=("read",), memory="other").json()
    assert scoped["derived_from"] == []


def test_a_deletion_says_what_goes_elsewhere_and_may_be_refused(family: ServiceClient) -> None:
    path = "/v1/memories/icu/delete"
    preview = family.request("POST", f"{path}?dry_run=true", {"id": "talk"}).json()
    assert {name: one["applied"] for name, one in preview["elsewhere"].items()} == {"other": ["fact"]}
    assert [one["id"] for one in preview["derived"]] == ["note"]
    refused = family.request("POST", path, {"id": "talk", "derived": "refuse"})
    assert (refused.status_code, refused.json()["code"]) == (409, "derived-entries")
    assert "fact" in refused.json()["detail"]
    done = family.request("POST", path, {"id": "talk"}, Idempotency_Key="k").json()
    assert sorted(done["applied"]) == ["note", "talk"]
    assert [(part["memory"], part["applied"]) for part in done["elsewhere"]["memories"]] == [("other", ["fact"])]
    again = family.request("POST", path, {"id": "talk"}, Idempotency_Key="k").json()
    assert again["elsewhere"] == done["elsewhere"]


def test_a_token_of_one_memory_is_told_of_its_memory_alone(family: ServiceClient) -> None:
    """What was made from its entries goes all the same: whoever made it has agreed to that."""
    path = "/v1/memories/icu/delete"
    scoped: dict[str, Any] = {"scopes": ("erase",), "memory": "icu"}
    preview = family.request("POST", f"{path}?dry_run=true", {"id": "talk"}, **scoped)
    refused = family.request("POST", path, {"id": "talk", "derived": "refuse"}, **scoped)
    assert (refused.status_code, refused.json()["code"]) == (409, "derived-entries")
    done = family.request("POST", path, {"id": "talk"}, **scoped)
    for response in (preview, refused, done):
        assert '"other"' not in response.text
        assert family.store["other"].uuid not in response.text
        assert "fact" not in response.text
    assert (preview.json()["elsewhere"], preview.json()["derived"][0]["sources"]) == ({}, [])
    assert done.json()["elsewhere"] is None
    assert "fact" not in family.store["other"]


@pytest.mark.parametrize("memory", ["other", "nowhere"])
def test_a_token_of_one_memory_names_no_source_in_another(family: ServiceClient, memory: str) -> None:
    """Else it could ask which memories and entries there are."""
    entry = {"key": [0.1] * 2, "value": [1.0], "derived_from": [[memory, "fact"]]}
    scoped: dict[str, Any] = {"scopes": ("write",), "memory": "icu"}
    bodies = [
        ("/v1/memories/icu/admit", entry),
        ("/v1/memories/icu/entries", {"entries": [entry]}),
        ("/v1/memories/icu/admit/batch", {"entries": [entry]}),
        (
            "/v1/memories",
            {"name": "icu", "keys": [[0.1]], "values": [[1.0]], "derived_from": [[[memory, "fact"]]], "cap": 1.0},
        ),
    ]
    for path, body in bodies:
        response = family.request("POST", path, body, **scoped)
        assert (response.status_code, response.json()["code"]) == (403, "forbidden"), path


@pytest.mark.parametrize("wrong", [1_900_000_000, "2030-01-01T00:00:00", "2001-01-01T00:00:00Z", "soon", True])
def test_an_end_is_a_time_to_come_with_a_zone(service: ServiceClient, wrong: Any) -> None:
    assert admit(service, "icu", "talk", expires=wrong).status_code == 422


def test_an_erasure_of_a_subject_previews_and_takes_what_was_made(family: ServiceClient) -> None:
    preview = family.request("POST", "/v1/erasures?dry_run=true", {"subject": "ann"}).json()
    assert {name: sorted(one["applied"]) for name, one in preview["memories"].items()} == {
        "icu": ["note", "talk"],
        "other": ["fact"],
    }
    refused = family.request("POST", "/v1/erasures", {"subject": "ann", "derived": "refuse"}, **WAIT).json()
    assert (refused["state"], refused["problem"]["code"]) == ("failed", "derived-entries")
    done = family.request("POST", "/v1/erasures", {"subject": "ann"}, **WAIT).json()["result"]
    assert done["complete"]
    assert {part["memory"]: sorted(part["applied"]) for part in done["memories"]} == {
        "icu": ["note", "talk"],
        "other": ["fact"],
    }


def test_a_sweep_is_a_job(family: ServiceClient) -> None:
    empty = family.request("POST", "/v1/retention", **WAIT).json()
    assert (empty["state"], empty["result"]["memories"], empty["result"]["index"]) == ("done", [], None)
    later = datetime.now(UTC) + timedelta(days=3)
    identity = family.store._identity
    family.store._identity = type(identity)(**vars(identity) | {"clock": lambda: later})
    preview = family.request("POST", "/v1/retention?dry_run=true").json()
    assert {name: sorted(one["applied"]) for name, one in preview["memories"].items()} == {
        "icu": ["note", "talk"],
        "other": ["fact"],
    }
    for scopes, memory in ((("erase",), "icu"), (("write", "read", "audit", "admin"), None)):
        assert family.request("POST", "/v1/retention", scopes=scopes, memory=memory).status_code == 403
    done = family.request("POST", "/v1/retention", **WAIT).json()["result"]
    assert {part["memory"]: sorted(part["applied"]) for part in done["memories"]} == {
        "icu": ["note", "talk"],
        "other": ["fact"],
    }
    assert done["index"] == family.store.size - 1
