"""Receipts over HTTP verify without the service, and lists go on where they stopped."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey
from expunge.verify import verify_consistency, verify_inclusion, verify_receipt
from service.asking import Service


def test_a_receipt_has_all_that_a_verifier_needs(service: Service) -> None:
    service.store["icu"].admit([0.0] * 4, [0.0, 0.0], id="Penthesilea")
    done = service.ask("POST", "/v1/memories/icu/delete", {"id": "Penthesilea"}, status=200)
    told = service.ask("GET", f"/v1/receipts/{done['index']}", scopes=("audit",), status=200)
    envelope, key = told["envelope"].encode(), VerifyingKey(base64.b64decode(told["public_key"]))
    log_key = NoteKey.from_text(told["log_key"])
    assert (key, log_key) == (service.store.public_key, service.store.log_key)
    assert told["key_id"] == key.key_id
    verify_receipt(envelope, [key])
    verify_inclusion(envelope, told["inclusion"]["text"].encode(), [log_key], told["checkpoint"]["origin"])
    assert told["inclusion"]["size"] == told["checkpoint"]["size"] == service.store.size
    assert told["statement"]["predicate"]["outcome"] == done["outcome"]
    assert "Penthesilea" not in str(told)


def test_a_kept_head_is_extended(service: Service) -> None:
    kept = service.ask("GET", "/v1/log/checkpoint", status=200)
    service.ask("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200)
    proof = service.ask("GET", f"/v1/log/consistency?since={kept['size']}", status=200)
    assert (proof["old_size"], proof["size"]) == (kept["size"], kept["size"] + 1)
    verify_consistency(kept["note"].encode(), proof["text"].encode(), [service.store.log_key], service.store.origin)


def test_the_service_verifies_what_it_is_shown(service: Service) -> None:
    service.store.hold("icu", "e2", reason="case")
    for index in range(service.store.size):
        told = service.ask("GET", f"/v1/receipts/{index}", status=200)
        shown = {"envelope": told["envelope"], "inclusion": told["inclusion"]["text"]}
        assert service.ask("POST", "/v1/verify/receipt", shown, scopes=("audit",), status=200)["verified"] is True
    first = service.ask("GET", "/v1/receipts/0", status=200)
    altered: list[tuple[dict[str, Any], str]] = [
        ({"envelope": first["envelope"].replace('"payload":"ey', '"payload":"fy')}, "envelope-signature-invalid"),
        ({"envelope": "{}"}, "envelope-field-missing"),
        ({"envelope": "not JSON"}, "json-syntax-invalid"),
        ({"envelope": told["envelope"], "inclusion": first["inclusion"]["text"]}, "inclusion-root-mismatch"),
    ]
    for shown, error in altered:
        problem = service.ask("POST", "/v1/verify/receipt", shown, status=422)
        assert problem["code"] == error
        assert problem["exit_code"] == 1


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
def test_pages_put_together_are_the_whole(service: Service, path: str, what: str) -> None:
    for number in range(3):
        service.ask("POST", "/v1/memories/icu/delete", {"id": f"e{number}"}, status=200)
    whole = service.ask("GET", path, status=200)
    assert whole["next"] is None
    for size in (1, 2, len(whole["items"])):
        found: list[Any] = []
        cursor = ""
        while True:
            page = service.ask("GET", f"{path}?limit={size}{cursor}", status=200)
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
def test_pages_go_on_behind_ids_of_any_length(service: Service, path: str) -> None:
    memory = service.store["icu"]
    names = ["z" * 7000 + end for end in ("a", "b", "")] + ["☃" * 3000, "😀" * 900, "z" * 256, "z" * 257]
    for name in names:
        memory.admit(np.zeros(4), np.zeros(2), id=name)
    if path == "warranties":
        memory.prune("archive")
    found: list[str] = []
    cursor = ""
    while True:
        page = service.ask("GET", f"/v1/memories/icu/{path}?limit=1{cursor}", status=200)
        found += [row["id"] for row in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    whole = memory.ids if path == "entries" else [row.id for row in memory.warranties()]
    assert sorted(found) == sorted(whole)
    assert set(names) <= set(found)


def test_a_page_goes_on_although_its_last_item_is_gone(service: Service) -> None:
    first = service.ask("GET", "/v1/memories/icu/entries?limit=5", status=200)
    last = first["items"][-1]["id"]
    service.ask("POST", "/v1/memories/icu/delete", {"id": last}, status=200)
    second = service.ask("GET", f"/v1/memories/icu/entries?limit=50&cursor={first['next']}", status=200)
    rest = sorted(service.store["icu"].ids)
    assert [row["id"] for row in second["items"]] == [name for name in rest if name > last]


@pytest.mark.parametrize("cursor", ["x", "%FF", "bnVsbA", "W10", "MQ", "InRydWUi", "LTE", "MWU5OQ", "A" * 9000])
def test_a_cursor_of_ones_own_making_is_refused(service: Service, cursor: str) -> None:
    for path in ("/v1/log", "/v1/memories/icu/entries"):
        response = service.ask("GET", f"{path}?cursor={cursor}")
        assert response.status_code in (422, 200)
        if (path, cursor) not in (("/v1/log", "MQ"), ("/v1/memories/icu/entries", "InRydWUi")):
            assert response.status_code == 422, (path, cursor)


def test_entries_with_and_without_content(service: Service) -> None:
    memory = service.store["icu"]
    plain = service.ask("GET", "/v1/memories/icu/entries", status=200)["items"]
    full = service.ask("GET", "/v1/memories/icu/entries?content=true", status=200)["items"]
    assert all("key" not in row for row in plain)
    for row in full:
        at = memory.ids.index(row["id"])
        assert row["key"] == memory.keys[at].tolist()
        assert row["value"] == memory.values[at].tolist()
        assert row["payload"] == memory.payload(row["id"])
        assert service.ask("GET", f"/v1/memories/icu/entries/{row['id']}", status=200) == row
    archived = next(iter(service.store["other"].view.warranties.archive))
    shown = service.ask("GET", f"/v1/memories/other/entries/{archived}", status=200)
    assert shown["group"] == "archived"
    assert len(shown["key"]) == 4


def test_ids_with_slashes_and_bytes_as_payloads(service: Service) -> None:
    service.store["icu"].admit([0.0] * 4, [0.0, 0.0], id="stay/7 ü?", payload=b"\x00\xff")
    shown = service.ask("GET", "/v1/memories/icu/entries/stay%2F7%20%C3%BC%3F", status=200)
    assert shown["id"] == "stay/7 ü?"
    assert shown["payload"] == {"base64": "AP8="}
    certificate = service.ask("GET", "/v1/memories/icu/certificates/stay%2F7%20%C3%BC%3F", status=200)
    assert certificate["id"] == "stay/7 ü?"


def test_checks_and_bounds_are_the_librarys(service: Service) -> None:
    memory = service.store["icu"]
    told = service.ask("GET", "/v1/memories/icu/check", scopes=("audit",), status=200)
    assert told["worst"] == memory.check().worst
    assert told["passed"] is True
    bounds = service.ask("GET", "/v1/memories/icu/bounds", scopes=("audit",), status=200)
    assert bounds["proved_zero"] == int(memory.bounds().zero.sum())
    assert bounds["centre"] == memory.bounds().centre


def test_holds_come_and_go(service: Service) -> None:
    hold = service.ask("POST", "/v1/memories/icu/holds", {"subject": "patient-1", "reason": "case 1"}, status=201)
    assert service.ask("GET", "/v1/holds", status=200)["items"] == [hold]
    assert service.ask("POST", "/v1/memories/icu/delete", {"subject": "patient-1"}).status_code == 409
    assert service.ask("DELETE", "/v1/memories/icu").status_code == 409
    ended = service.ask("DELETE", f"/v1/holds/{hold['number']}", status=200)
    assert ended["kind"] == "released"
    service.ask("POST", "/v1/memories/icu/delete", {"subject": "patient-1"}, status=200)
    service.store.verify()
