"""Lists go on where they stopped, whatever their ids are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.service_client import ServiceClient


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/v1/log", "index"),
        ("/v1/memories/icu/receipts", "index"),
        ("/v1/memories", "name"),
        ("/v1/memories/icu/entries", "id"),
        ("/v1/memories/other/warranties", "id"),
    ],
)
def test_pages_put_together_are_the_whole(service: ServiceClient, path: str, what: str) -> None:
    for number in range(3):
        service.request("POST", "/v1/memories/icu/delete", {"id": f"e{number}"}, status=200)
    whole = service.request("GET", path, status=200)
    assert whole["next"] is None
    for size in (1, 2, len(whole["items"])):
        found: list[Any] = []
        cursor = ""
        while True:
            page = service.request("GET", f"{path}?limit={size}{cursor}", status=200)
            assert len(page["items"]) <= size
            found += page["items"]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert found == whole["items"]
    order = [row[what] for row in whole["items"]]
    assert order == sorted(order, reverse=what == "index")
    assert len(order) == len(set(order)) > 2


@pytest.mark.parametrize("path", ["entries", "warranties"])
def test_pages_go_on_behind_ids_of_any_length(service: ServiceClient, path: str) -> None:
    memory = service.store["icu"]
    names = ["z" * 7000 + end for end in ("a", "b", "")] + ["☃" * 3000, "😀" * 900, "z" * 256, "z" * 257]
    for name in names:
        memory.admit(np.zeros(4), np.zeros(2), id=name)
    if path == "warranties":
        memory.prune("archive")
    found: list[str] = []
    cursor = ""
    while True:
        page = service.request("GET", f"/v1/memories/icu/{path}?limit=1{cursor}", status=200)
        found += [row["id"] for row in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    whole = memory.ids if path == "entries" else [row.id for row in memory.warranties()]
    assert sorted(found) == sorted(whole)
    assert set(names) <= set(found)


def test_a_page_goes_on_although_its_last_item_is_gone(service: ServiceClient) -> None:
    first = service.request("GET", "/v1/memories/icu/entries?limit=5", status=200)
    last = first["items"][-1]["id"]
    service.request("POST", "/v1/memories/icu/delete", {"id": last}, status=200)
    second = service.request("GET", f"/v1/memories/icu/entries?limit=50&cursor={first['next']}", status=200)
    rest = sorted(service.store["icu"].ids)
    assert [row["id"] for row in second["items"]] == [name for name in rest if name > last]


@pytest.mark.parametrize("cursor", ["x", "%FF", "bnVsbA", "W10", "MQ", "InRydWUi", "LTE", "MWU5OQ", "A" * 9000])
def test_a_cursor_of_ones_own_making_is_refused(service: ServiceClient, cursor: str) -> None:
    for path in ("/v1/log", "/v1/memories/icu/entries"):
        response = service.request("GET", f"{path}?cursor={cursor}")
        assert response.status_code in (422, 200)
        if (path, cursor) not in (("/v1/log", "MQ"), ("/v1/memories/icu/entries", "InRydWUi")):
            assert response.status_code == 422, (path, cursor)
