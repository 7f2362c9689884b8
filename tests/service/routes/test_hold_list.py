"""Holds over HTTP."""

from __future__ import annotations

from service.service_client import ServiceClient


def test_holds_come_and_go(service: ServiceClient) -> None:
    hold = service.request("POST", "/v1/memories/icu/holds", {"subject": "patient-1", "reason": "case 1"}, status=201)
    assert service.request("GET", "/v1/holds", status=200)["items"] == [hold]
    assert service.request("POST", "/v1/memories/icu/delete", {"subject": "patient-1"}).status_code == 409
    assert service.request("DELETE", "/v1/memories/icu").status_code == 409
    ended = service.request("DELETE", f"/v1/holds/{hold['number']}", status=200)
    assert ended["kind"] == "released"
    service.request("POST", "/v1/memories/icu/delete", {"subject": "patient-1"}, status=200)
    service.store.verify()
