"""Certificate documents before a verifier: what it finds that the script in the file cannot."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from attestation.certificate_ledger import (
    LOG_KEY,
    ORIGIN,
    SIGNER,
    STRANGER,
    WITNESS_KEY,
    document,
    full_ledger,
)
from expunge.attestation.certificate_document import certificate_html, certificate_pdf
from expunge.errors import VerificationError
from expunge.ledger.certificate import qr_code
from expunge.ledger.certificate.contents import Contents, OpenContents, open_contents, parse_contents
from expunge.ledger.certificate.html import html_file
from expunge.ledger.certificate.page import page_of, qr_text
from expunge.ledger.encoding import dump_canonical
from expunge.ledger.note import NoteKey
from expunge.verify.certificate_document import VerifiedCertificate, find_contents, verify_certificate

LEDGER, LEAVES = full_ledger()
COMPLETE = document(LEDGER, "complete", LEAVES["complete"])
HTML = certificate_html(COMPLETE)


def verify(file: bytes, **more: Any) -> VerifiedCertificate:
    return verify_certificate(file, [SIGNER.public], [LOG_KEY], ORIGIN, **more)


def code(file: bytes, **more: Any) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(file, **more)
    return caught.value.code


@pytest.mark.parametrize("name", LEAVES)
def test_every_document_verifies(name: str) -> None:
    opened = document(LEDGER, name, LEAVES[name])
    found = verify(certificate_html(opened), witnesses=[WITNESS_KEY], quorum=1)
    assert (found.page, found.qr) == (True, True)
    assert found.facts == page_of(opened)
    assert parse_contents(find_contents(certificate_html(opened))).to_bytes() == opened.contents.to_bytes()


def test_the_data_in_a_pdf_verify() -> None:
    pdf = certificate_pdf(COMPLETE)
    found = verify(pdf)
    assert (found.page, found.qr, found.facts) == (False, False, page_of(COMPLETE))
    assert find_contents(pdf) == COMPLETE.contents.to_bytes()


def test_a_forged_document_is_refused() -> None:
    forged, leaves = full_ledger(STRANGER)
    opened = document(forged, "complete", leaves["complete"])
    assert page_of(opened).title == page_of(COMPLETE).title
    assert code(certificate_html(opened)) == "envelope-signer-unknown"
    assert code(certificate_pdf(opened)) == "envelope-signer-unknown"


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "date": lambda file: file.replace(b"1 March 2026", b"2 March 2026"),
    "title": lambda file: file.replace(b"<title>Certificate", b"<title>certificate"),
    "hidden by the style": lambda file: file.replace(b"</style>", b".excludes{display:none}</style>"),
    "text outside the page": lambda file: file.replace(b"<main", b"<p>Everything was erased.</p><main"),
    "script": lambda file: file.replace(b"</script></body>", b"document.title='x'</script></body>"),
    "policy": lambda file: file.replace(b"default-src 'none'; ", b""),
    "code": lambda file: re.sub(rb'<path d="M[0-9]+ ', b'<path d="M9 ', file),
    "after the end": lambda file: file + b"<p>and more</p>",
}


@pytest.mark.parametrize("name", ALTERED)
def test_a_page_that_shows_something_else_is_refused(name: str) -> None:
    altered = ALTERED[name](HTML)
    assert altered != HTML
    assert code(altered) == "certificate-page-mismatch"


def test_without_the_library_the_code_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "segno", None)
    assert verify(HTML).qr is False
    assert code(ALTERED["date"](HTML)) == "certificate-page-mismatch"


def _made(contents: Contents | bytes, *, of: OpenContents = COMPLETE) -> bytes:
    """A file whose page is that of other data, for what is found before the page is compared."""
    data = contents if isinstance(contents, bytes) else contents.to_bytes()
    return html_file(page_of(of), data, qr_code.qr_code(qr_text(of)))


def _with(**fields: Any) -> bytes:
    return dump_canonical({**json.loads(COMPLETE.contents.to_bytes()), **fields})


DATA = json.loads(COMPLETE.contents.to_bytes())
SHOWN = DATA["revealed"]
OTHER = LEDGER.inclusion(
    LEAVES["complete"] - 1, replace(LEDGER.checkpoint(), signatures=LEDGER.checkpoint().signatures[:1])
)
WRONG: dict[str, tuple[bytes, str]] = {
    "format": (_with(format="urn:expunge:certificate:v0"), "certificate-format-unsupported"),
    "list": (b"[]", "certificate-format-unsupported"),
    "spaces": (COMPLETE.contents.to_bytes() + b" ", "json-not-canonical"),
    "field": (_with(more=1), "certificate-field-invalid"),
    "leaf": (_with(leaf={"envelope": ""}), "certificate-field-invalid"),
    "leaf type": (_with(leaf={"envelope": 1, "inclusion": ""}), "certificate-field-invalid"),
    "names": (_with(names={"no uuid": "x"}), "certificate-field-invalid"),
    "name": (_with(names=dict.fromkeys(DATA["names"], "x" * 33)), "certificate-field-invalid"),
    "revealed": (_with(revealed={}), "certificate-field-invalid"),
    "salt": (_with(revealed=SHOWN | {"case": {"salt": "00", "text": "x"}}), "certificate-field-invalid"),
    "direction": (_with(revealed=SHOWN | {"case": SHOWN["case"] | {"text": "\u202ex"}}), "certificate-field-invalid"),
    "stamps": (_with(timestamps=["AAAA"] * 9), "certificate-field-invalid"),
    "stamp": (_with(timestamps=["?"]), "certificate-field-invalid"),
    "unknown name": (_with(names={"0" * 8 + "-0000-0000-0000-" + "0" * 12: "x"}), "certificate-name-unknown"),
    "subject": (_with(revealed=SHOWN | {"subject": SHOWN["subject"] | {"text": "x"}}), "certificate-subject-mismatch"),
    "case": (_with(revealed=SHOWN | {"case": SHOWN["case"] | {"text": "x"}}), "certificate-case-mismatch"),
    "actor": (_with(revealed=SHOWN | {"actor": SHOWN["actor"] | {"text": "x"}}), "certificate-actor-mismatch"),
    "left out": (_with(counted=DATA["counted"][1:]), "certificate-counted-mismatch"),
    "twice": (_with(counted=DATA["counted"][:1] + DATA["counted"]), "certificate-counted-mismatch"),
    "order": (_with(counted=DATA["counted"][::-1]), "certificate-counted-mismatch"),
    "exchanged": (
        _with(counted=[
            {"envelope": two["envelope"], "inclusion": one["inclusion"]}
            for one, two in zip(DATA["counted"], DATA["counted"][::-1], strict=True)
        ]),
        "certificate-counted-mismatch",
    ),
    "head": (
        _with(counted=[*DATA["counted"][:-1], DATA["counted"][-1] | {"inclusion": OTHER.to_bytes().decode()}]),
        "certificate-head-mismatch",
    ),
    "place": (
        _with(leaf=DATA["leaf"] | {"inclusion": re.sub(r"index [0-9]+", "index 3", DATA["leaf"]["inclusion"])}),
        "inclusion-root-mismatch",
    ),
}  # fmt: skip


COPIES = document(LEDGER, "copies", LEAVES["copies"])
ABOUT_COPIES = json.loads(COPIES.contents.to_bytes())["copies"]
# Two mirrors, and what was found in each: leaves in another order, twice, without their mirror, or of another leaf.
WRONG_COPIES = {
    "order": ABOUT_COPIES[::-1],
    "twice": [*ABOUT_COPIES[:3], ABOUT_COPIES[2], *ABOUT_COPIES[3:]],
    "no mirror": ABOUT_COPIES[2:],
    "other leaf": [json.loads(COPIES.contents.to_bytes())["leaf"]],
}


@pytest.mark.parametrize("name", WRONG_COPIES)
def test_findings_that_do_not_belong_to_the_erasures_are_refused(name: str) -> None:
    data = dump_canonical({**json.loads(COPIES.contents.to_bytes()), "copies": WRONG_COPIES[name]})
    assert code(_made(data, of=COPIES)) == "certificate-copies-mismatch"
    nothing = dump_canonical({**json.loads(COPIES.contents.to_bytes()), "copies": []})
    assert code(_made(nothing, of=COPIES)) == "certificate-field-invalid"
    # Erasures that no mirror was to follow.
    foreign = dump_canonical({**DATA, "copies": ABOUT_COPIES})
    assert code(_made(foreign)) == "certificate-copies-mismatch"


@pytest.mark.parametrize("name", WRONG)
def test_data_that_do_not_belong_together_are_refused(name: str) -> None:
    data, expected = WRONG[name]
    assert code(_made(data)) == expected


def test_a_leaf_that_is_no_edit_is_refused() -> None:
    leaf = LEDGER.leaf(0)
    asked = {"envelope": leaf.envelope.decode(), "inclusion": LEDGER.inclusion(0).to_bytes().decode()}
    assert code(_made(_with(leaf=asked, counted=[], names={}))) == "certificate-leaf-unsupported"


def test_files_without_data_are_refused() -> None:
    assert code(b"<p>nothing</p>") == "certificate-data-missing"
    assert code(b"%PDF-1.7\nnothing") == "certificate-data-missing"
    block = re.search(rb"<script id=.data.*?</script>", HTML)
    assert block is not None
    assert code(HTML + block[0]) == "certificate-data-missing"
    assert code(HTML.replace(b"</script>", b"=</script>", 1)) == "certificate-data-invalid"
    pdf = certificate_pdf(COMPLETE)
    for broken in (
        pdf.replace(b"/FlateDecode/Length", b"/LZWDecode/Length"),
        re.sub(rb"(EmbeddedFile[ -~]*/Length )[0-9]+", rb"\g<1>9", pdf),
    ):
        assert code(broken) == "certificate-data-invalid"
    assert code(pdf + b"/Type /EmbeddedFile/Length 2>>\nstream\n{}\nendstream") == "certificate-data-missing"


def test_another_ledger_and_missing_witnesses_are_refused() -> None:
    other = NoteKey("ledger.example/other", SIGNER.public)
    with pytest.raises(VerificationError) as caught:
        verify_certificate(HTML, [SIGNER.public], [other], other.name)
    assert caught.value.code in ("note-unsigned", "note-signer-unknown", "checkpoint-origin-mismatch")
    stranger = NoteKey("witness.example/w2", STRANGER.public, WITNESS_KEY.algorithm)
    assert code(HTML, witnesses=[stranger], quorum=1) == "cosignature-quorum-missed"


def test_time_stamps_are_given_to_whoever_can_check_them() -> None:
    stamped = replace(COMPLETE.contents, timestamps=(b"one", b"two"))
    opened = open_contents(stamped)
    file = certificate_html(opened)
    assert verify(file).timestamps == 0
    seen = []
    assert verify(file, check_timestamp=lambda head, token: seen.append((head, token))).timestamps == 2
    assert seen == [(LEDGER.checkpoint().to_bytes(), token) for token in (b"one", b"two")]


def test_base64_of_the_data_has_one_spelling() -> None:
    encoded = base64.b64encode(COMPLETE.contents.to_bytes())
    assert encoded in HTML
    for spelled in (encoded + b"=", encoded[:-4] + b"A" + encoded[-3:]):
        with pytest.raises(VerificationError):
            verify(HTML.replace(encoded, spelled))
