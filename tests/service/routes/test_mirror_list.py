"""Mirrors over HTTP: background tasks keep them in step with what was asked for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from service.service_client import ServiceClient
from store.mirroring.test_mirrors import ids_in


def listed(service: ServiceClient) -> dict[str, Any]:
    (found,) = service.request("GET", "/v1/mirrors", status=200)["items"]
    return dict(found)


def in_step(service: ServiceClient) -> bool:
    """Whether the mirror has everything, within a minute."""
    for _ in range(600):
        found = listed(service)
        if found["writes_pending"] + found["erasures_pending"] == 0:
            return True
        time.sleep(0.1)
    return False


def test_mirrors_are_listed_measured_and_kept_in_step(service: ServiceClient, tmp_path: Path) -> None:
    url = f"lancedb://{tmp_path / 'lance'}#notes"
    mirror = service.store.mirror(url, memory="icu")
    assert (listed(service)["mirror"], listed(service)["url"]) == (mirror.leaf, url)
    assert in_step(service)
    before = ids_in(url)
    assert len(before) == len(service.store["icu"])
    name = service.store["icu"].ids[0]
    service.request("POST", "/v1/memories/icu/delete", {"ids": [name]}, status=200)
    assert service.request("GET", "/v1/mirrors", scopes=("admin",), memory="other", status=200) == {"items": []}
    assert in_step(service)
    assert ids_in(url) == before - {name}
    text = service.request("GET", "/metrics", scopes=("audit",)).text
    assert "expunge_mirrors 1.0" in text
    assert 'expunge_mirror_edits_pending{kind="erase"} 0.0' in text
    service.store.verify()


def test_a_mirror_is_synced_at_once_and_removed(service: ServiceClient, tmp_path: Path) -> None:
    url = f"lancedb://{tmp_path / 'lance'}#notes"
    mirror = service.store.mirror(url, memory="icu")
    done = service.request("POST", f"/v1/mirrors/{mirror.leaf}/sync", status=200)
    # A background task may be at it already, and one pass at a time is made.
    assert done["problem"] is None
    assert done["pending"] == 0 or in_step(service)
    assert len(ids_in(url)) == len(service.store["icu"])
    assert service.request("DELETE", f"/v1/mirrors/{mirror.leaf}", status=200)["kind"] == "mirror_removed"
    assert service.request("GET", "/v1/mirrors", status=200) == {"items": []}
    for method, path in (("POST", f"/v1/mirrors/{mirror.leaf}/sync"), ("DELETE", "/v1/mirrors/12345")):
        assert service.request(method, path).status_code == 404
