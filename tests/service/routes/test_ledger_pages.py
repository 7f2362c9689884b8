"""Receipts over HTTP verify without the service."""

from __future__ import annotations

import base64
from typing import Any

from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey
from expunge.verify import verify_consistency, verify_inclusion, verify_receipt
from service.service_client import ServiceClient


def test_a_receipt_has_all_that_a_verifier_needs(service: ServiceClient) -> None:
    service.store["icu"].admit([0.0] * 4, [0.0, 0.0], id="Penthesilea")
    done = service.request("POST", "/v1/memories/icu/delete", {"id": "Penthesilea"}, status=200)
    receipt = service.request("GET", f"/v1/receipts/{done['index']}", scopes=("audit",), status=200)
    envelope, key = receipt["envelope"].encode(), VerifyingKey(base64.b64decode(receipt["public_key"]))
    log_key = NoteKey.from_text(receipt["log_key"])
    assert (key, log_key) == (service.store.public_key, service.store.log_key)
    assert receipt["key_id"] == key.key_id
    verify_receipt(envelope, [key])
    verify_inclusion(envelope, receipt["inclusion"]["text"].encode(), [log_key], receipt["checkpoint"]["origin"])
    assert receipt["inclusion"]["size"] == receipt["checkpoint"]["size"] == service.store.size
    assert receipt["statement"]["predicate"]["outcome"] == done["outcome"]
    assert "Penthesilea" not in str(receipt)


def test_a_kept_head_is_extended(service: ServiceClient) -> None:
    kept = service.request("GET", "/v1/log/checkpoint", status=200)
    service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200)
    proof = service.request("GET", f"/v1/log/consistency?since={kept['size']}", status=200)
    assert (proof["old_size"], proof["size"]) == (kept["size"], kept["size"] + 1)
    verify_consistency(kept["note"].encode(), proof["text"].encode(), [service.store.log_key], service.store.origin)


def test_the_service_verifies_what_it_is_shown(service: ServiceClient) -> None:
    service.store.hold("icu", "e2", reason="case")
    for index in range(service.store.size):
        receipt = service.request("GET", f"/v1/receipts/{index}", status=200)
        shown = {"envelope": receipt["envelope"], "inclusion": receipt["inclusion"]["text"]}
        assert service.request("POST", "/v1/verify/receipt", shown, scopes=("audit",), status=200)["verified"] is True
    first = service.request("GET", "/v1/receipts/0", status=200)
    altered: list[tuple[dict[str, Any], str]] = [
        ({"envelope": first["envelope"].replace('"payload":"ey', '"payload":"fy')}, "envelope-signature-invalid"),
        ({"envelope": "{}"}, "envelope-field-missing"),
        ({"envelope": "not JSON"}, "json-syntax-invalid"),
        ({"envelope": receipt["envelope"], "inclusion": first["inclusion"]["text"]}, "inclusion-root-mismatch"),
    ]
    for shown, error in altered:
        problem = service.request("POST", "/v1/verify/receipt", shown, status=422)
        assert problem["code"] == error
        assert problem["exit_code"] == 1
