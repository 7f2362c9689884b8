"""Entries and the map of them over HTTP."""

from __future__ import annotations

from service.service_client import ServiceClient


def test_entries_with_and_without_content(service: ServiceClient) -> None:
    memory = service.store["icu"]
    plain = service.request("GET", "/v1/memories/icu/entries", status=200)["items"]
    full = service.request("GET", "/v1/memories/icu/entries?content=true", status=200)["items"]
    assert all("key" not in row for row in plain)
    for row in full:
        at = memory.ids.index(row["id"])
        assert row["key"] == memory.keys[at].tolist()
        assert row["value"] == memory.values[at].tolist()
        assert row["payload"] == memory.payload(row["id"])
        assert service.request("GET", f"/v1/memories/icu/entries/{row['id']}", status=200) == row
    archived = next(iter(service.store["other"].version.warranties.archive))
    shown = service.request("GET", f"/v1/memories/other/entries/{archived}", status=200)
    assert shown["group"] == "archived"
    assert len(shown["key"]) == 4


def test_ids_with_slashes_and_bytes_as_payloads(service: ServiceClient) -> None:
    service.store["icu"].admit([0.0] * 4, [0.0, 0.0], id="stay/7 ü?", payload=b"\x00\xff")
    shown = service.request("GET", "/v1/memories/icu/entries/stay%2F7%20%C3%BC%3F", status=200)
    assert shown["id"] == "stay/7 ü?"
    assert shown["payload"] == {"base64": "AP8="}
    certificate = service.request("GET", "/v1/memories/icu/certificates/stay%2F7%20%C3%BC%3F", status=200)
    assert certificate["id"] == "stay/7 ü?"


def test_the_map_over_http(service: ServiceClient) -> None:
    chart = service.request("GET", "/v1/memories/other/map", scopes=("read",), status=200)
    memory = service.store["other"]
    assert [point["id"] for point in chart["entries"]] == list(memory.ids)
    archived = {row["id"] for row in chart["archived"]}
    assert archived == set(memory.version.warranties.archive)
    assert archived
    assert all(0.0 <= row["fraction"] <= 1.0 and "x" in row for row in chart["archived"])
    assert chart["boundary"] is None
    assert chart["erased"] == []


def test_erased_and_forgotten_entries_have_no_place(service: ServiceClient) -> None:
    commitment = bytes(service.store["plane"].version.entries.commitments[0]).hex()
    service.request("POST", "/v1/memories/plane/delete", {"id": "e0"}, status=200)
    service.request("POST", "/v1/memories/plane/prune", {"mode": "forget"}, status=200)
    chart = service.request("GET", "/v1/memories/plane/map", status=200)
    assert [row["commitment"] for row in chart["erased"]] == [commitment]
    assert chart["erased_total"] == 1
    assert chart["forgotten"]
    assert all("x" not in row for row in chart["erased"] + chart["forgotten"])
