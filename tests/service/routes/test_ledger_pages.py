"""Receipts over HTTP verify without the service."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from rfc3161_client import TimestampRequestBuilder

from cosigning import cosign_checkpoint
from expunge.ledger.certificate.contents import Revealed
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.ledger.signing import SigningKey, VerifyingKey
from expunge.verify import verify_consistency, verify_inclusion, verify_receipt
from expunge.verify.certificate_document import verify_certificate
from expunge.verify.evidence import verify_evidence
from expunge.verify.timestamp import read_roots, verify_timestamp
from service.service_client import ServiceClient
from witnessing.stamping_authority import make_authority, stamp


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


def test_lines_are_filtered_and_paged(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    store = service.store
    first = store.size

    def lines(query: str = "", **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = service.request("GET", f"/v1/log?limit=2{query}{cursor}", status=200, **more)
            found += page["items"]
            if page["next"] is None:
                return found
            cursor = f"&cursor={page['next']}"

    service.request("POST", "/v1/erasures", {"subject": "patient-1"}, Expunge_Case="DSR-7 (asked)", Prefer="wait=30")
    service.request("POST", "/v1/memories/icu/delete", {"id": "e2"}, Expunge_Case="DSR-8", status=200)
    hold = store.hold("other", "e4", reason="a case", actor="legal")
    everything = lines()
    assert [line["index"] for line in everything] == list(range(store.size - 1, -1, -1))
    summary = next(line for line in everything if line["kind"] == "subject_erased")
    assert summary["case"] == "DSR-7 (asked)"
    assert sorted(summary["parts"]) == [line["index"] for line in reversed(lines("&case=dsr-7")[1:])]
    assert [line["index"] for line in lines("&kind=subject_erased&kind=held")] == [store.size - 1, summary["index"]]
    assert {line["name"] for line in lines("&memory=icu")} == {"icu"}
    assert lines(f"&memory=uuid:{store['icu'].uuid}") == lines("&memory=icu")
    assert [line["kind"] for line in lines("&actor=LEGAL")] == ["held"]
    assert lines("&case=DSR-8&memory=other") == []
    store.release(hold)
    late, early = store.leaf(store.size - 1), store.leaf(0)
    after = str(late.statement.predicate["time"]).replace("+", "%2B")
    assert lines(f"&since={after}")[-1]["time"] == late.statement.predicate["time"]
    assert {line["time"] for line in lines(f"&until={early.statement.predicate['time']}")} == set()
    assert len(lines("&since=2020-01-01T00:00:00Z")) == store.size > first
    for wrong in ("since=13050", "since=2026-02-30T00:00:00Z", "until=2026-01-01", "memory=icu&memory=other"):
        assert service.request("GET", f"/v1/log?{wrong}").status_code == 422
    # A token of one memory is told its own lines, and no cases.
    mine = lines(scopes=("read",), memory="icu")
    assert {(line["name"], line["case"], line["actor"]) for line in mine} == {("icu", None, None)}
    assert lines("&memory=other", scopes=("read",), memory="icu") == []
    response = service.request("GET", "/v1/log?case=DSR", scopes=("read",), memory="icu")
    assert response.status_code == 422


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


def test_a_certificate_is_a_file_that_verifies_without_the_service(service: ServiceClient) -> None:
    done = service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200)
    path = f"/v1/receipts/{done['index']}/certificate"
    asked = (("", "text/html", False), ("?names=true", "text/html", True), ("?format=pdf", "pdf", False))
    for query, kind, named in asked:
        response = service.client.get(path + query, headers=service.headers("audit"))
        assert response.status_code == 200
        assert kind in response.headers["content-type"]
        assert response.headers["content-disposition"].startswith("attachment")
        found = verify_certificate(
            response.content, [service.store.public_key], [service.store.log_key], service.store.origin
        )
        assert found.facts.tone == "erased"
        assert ("icu (" in found.facts.memories[0][0]) == named
    other = service.client.get(path, headers=service.headers("audit", memory="other"))
    assert other.status_code == 404
    held = service.store.hold("icu", "e2", reason="case")
    assert held is not None
    problem = service.request("GET", f"/v1/receipts/{service.store.size - 1}/certificate", status=422)
    assert problem["code"] == "certificate-leaf-unsuitable"


def test_a_certificate_names_the_person_under_a_cosigned_and_stamped_head(
    service: ServiceClient, tmp_path: Path
) -> None:
    witness = SigningKey.from_seed(bytes(range(9, 41)))
    watching = NoteKey("witness.example", witness.public, NoteAlgorithm.COSIGNATURE_V1)
    done = service.store.erase_subject("patient-3")
    assert done.salt is not None
    note = cosign_checkpoint(service.store.checkpoint(), watching.name, witness, 1_772_000_000)
    # The ledger grows on: the document's proofs lead to the head that was given.
    service.store["icu"].admit([0.0] * 4, [0.0, 0.0])
    authority = make_authority(tmp_path / "tsa")
    query = TimestampRequestBuilder(data=note.text, cert_req=True).build().as_bytes()
    root = read_roots((authority / "root.pem").read_bytes())
    body = {
        "subject": "patient-3",
        "salt": done.salt.hex(),
        "head": note.to_bytes().decode(),
        "timestamps": [base64.b64encode(stamp(authority, query)).decode()],
    }
    path = f"/v1/receipts/{done.index}/certificate"
    asked: tuple[tuple[dict[str, str], dict[str, str], str], ...] = (
        ({}, {}, "text/html"),
        ({"Accept": "application/pdf"}, {}, "application/pdf"),
        ({"Accept": "application/json"}, {"format": "pdf"}, "application/pdf"),
        ({"Accept": "text/html, application/pdf;q=0.5"}, {}, "text/html"),
    )
    for headers, form, kind in asked:
        response = service.client.post(path, json=body | form, headers=service.headers("audit") | headers)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith(kind)
        assert response.headers["content-disposition"].startswith("attachment")
        found = verify_certificate(
            response.content,
            [service.store.public_key],
            [service.store.log_key],
            service.store.origin,
            witnesses=[watching],
            quorum=1,
            check_timestamp=lambda head, token: verify_timestamp(head, token, root),
        )
        assert (found.contents.contents.revealed or {})["subject"].text == "patient-3"
        assert (found.facts.tone, found.timestamps) == ("erased", 1)
        assert b"patient-3" in response.content or kind == "application/pdf"
    assert "patient-3" not in service.client.get(path, headers=service.headers("audit")).text
    problems = (
        (body | {"salt": "00" * 32}, 422, "certificate-subject-mismatch"),
        (body | {"subject": "patient-4"}, 422, "certificate-subject-mismatch"),
        (body | {"head": f"other.{body['head']}"}, 422, "note-signature-invalid"),
        (body | {"timestamps": ["?"]}, 422, "input-error"),
        ({"timestamps": body["timestamps"]}, 422, "input-error"),
        ({"subject": "patient-3"}, 422, "unusable"),
    )
    for wrong, status, error in problems:
        assert service.request("POST", path, wrong, status=status)["code"] == error
    assert service.request("POST", path, body, memory="icu", status=404)["code"] == "not-found"


def test_texts_of_cases_are_for_those_who_may_read(service: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(service.store), "revealed", lambda self, index: {"case": Revealed("DSR-1", bytes(32))})
    # The leaf commits to no case, so that showing one fails.
    for scope, done in (("audit", True), ("read", False)):
        response = service.client.get("/v1/receipts/0/certificate", headers=service.headers(scope))
        assert (response.status_code == 200) == done


@pytest.mark.parametrize("proof", ["false", "true"])
def test_evidence_of_the_latest_edit_verifies_elsewhere(service: ServiceClient, proof: str) -> None:
    index = service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200)["index"]
    answer = service.request("GET", f"/v1/memories/icu/evidence?proof={proof}")
    assert answer.headers["content-disposition"] == f'attachment; filename="evidence-{index}.zip"'
    keys, store = [service.store.public_key], service.store
    verify_evidence(answer.content, keys, log_keys=store.log_keys, origin=store.origin, require_prior=False)
    assert b"patient" not in answer.content
