"""Certificate documents: what one can be made of, what its page says, and that paper takes it."""

from __future__ import annotations

import io
import re

import pikepdf
import pytest

from attestation.certificate_ledger import (
    ACTOR,
    CASE,
    ORIGIN,
    PERSON,
    SALT,
    SHOWN,
    SIGNER,
    SUMMARIES,
    TONES,
    WITNESS,
    document,
    full_ledger,
)
from cosigning import cosign_checkpoint
from expunge.attestation.certificate_document import certificate_contents, certificate_html, certificate_pdf
from expunge.errors import InputError, VerificationError
from expunge.ledger.certificate.contents import Revealed, What
from expunge.ledger.certificate.page import page_of, qr_text, words
from expunge.ledger.event import subject_commitment

LEDGER, LEAVES = full_ledger()


@pytest.mark.parametrize("name", LEAVES)
def test_only_an_erasure_is_a_certificate_of_erasure(name: str) -> None:
    page = page_of(document(LEDGER, name, LEAVES[name]))
    assert page.tone == TONES[name]
    certified = page.title == words()["title"]["erased"]
    assert certified == (TONES[name] == "erased")
    assert ("no certificate of erasure" in page.lead) == (not certified)


def test_the_page_says_who_what_when_by_whom_and_under_which_case() -> None:
    page = page_of(document(LEDGER, "complete", LEAVES["complete"]))
    facts = dict(page.facts)
    assert facts["Whose data"] == PERSON
    assert facts["By whom"] == ACTOR
    assert facts["Case number"] == CASE
    assert facts["From which store"] == ORIGIN
    assert facts["When"].startswith("1 March 2026, 12:30:05 UTC")
    assert facts["What"] == "9 entries (stored items) were removed from 3 collections."
    assert len(page.memories) == 4
    assert page.names is not None


def test_what_is_not_revealed_is_not_on_the_page_and_not_in_the_file() -> None:
    opened = document(LEDGER, "complete", LEAVES["complete"], shown=False)
    texts = str(page_of(opened)) + opened.contents.to_bytes().decode()
    for secret in (PERSON, CASE, ACTOR, SALT.hex(), "memory 0"):
        assert secret not in texts


def test_a_summary_shows_first_what_was_kept_and_counts_the_rest() -> None:
    page = page_of(document(LEDGER, "many", LEAVES["many"]))
    assert page.memories[0][1] == "REFUSED: a legal hold forbids it"
    assert len(page.memories) == 5
    assert page.more is not None
    assert "5" in page.more


def test_copies_in_other_systems_are_covered_or_named_as_what_is_left() -> None:
    """Seven entries in two mirrors: five absent, two in files, two not checkable, and five that one still has."""
    opened = document(LEDGER, "copies", LEAVES["copies"])
    assert opened.copies_by_finding == {"absent": 5, "in_files": 2, "not_checkable": 2, "pending": 5}
    page, without = page_of(opened), page_of(document(LEDGER, "complete", LEAVES["complete"]))
    assert page.covers[-2].startswith("5 copies in other systems")
    assert [text.split()[0] for text in page.excludes[2:5]] == ["2", "2", "5"]
    assert "STILL TO BE DELETED" in page.excludes[4]
    assert len(page.excludes) == len(without.excludes) + 3
    assert page.excludes[1] != without.excludes[1]
    # The mirrors were added after the other erasures, and one was removed before these.
    assert without.excludes[1] == words()["excludes"][1]
    dropped = document(LEDGER, "copies_dropped", LEAVES["copies_dropped"])
    assert dropped.copies_by_finding == {"absent": 0, "in_files": 0, "not_checkable": 0, "pending": 8}


def test_what_the_store_still_knows_is_added() -> None:
    ledger, leaves = full_ledger()
    ledger.kept[leaves["decrement"]] = {"case": Revealed(CASE, SALT)}
    page = page_of(certificate_contents(ledger, leaves["decrement"]))
    assert dict(page.facts)["Case number"] == CASE


def test_leaves_that_are_no_edits_are_refused_with_the_one_to_use() -> None:
    ledger, leaves = full_ledger()
    digest = subject_commitment(SALT, PERSON)
    with pytest.raises(InputError, match=f"leaf {leaves['requested']}") as requested:
        certificate_contents(ledger, 0)
    assert requested.value.code == "certificate-leaf-unsuitable"
    asked = ledger.event("erasure_requested", None, "subject", digest, due="2026-03-02T00:00:00Z")
    with pytest.raises(InputError, match="has not been carried out"):
        certificate_contents(ledger, asked)
    memory = ledger.leaf(leaves["pruned"]).memory
    held = ledger.event("held", memory, "state", digest, hold=1, entry=None)
    with pytest.raises(InputError, match="use the leaf of a deletion"):
        certificate_contents(ledger, held)
    listed = ledger.event(
        "listed", memory, "state", digest, receipt="0" * 8 + "-0000-0000-0000-" + "0" * 12, list="applied",
        part=1, parts=1, commitments=(digest,),
    )  # fmt: skip
    with pytest.raises(InputError, match=f"leaf {held}"):
        certificate_contents(ledger, listed)
    with pytest.raises(InputError, match=f"the summary that counts it does: leaf {leaves['requested']}"):
        certificate_contents(ledger, leaves["requested"] - 1, revealed={"subject": SHOWN["subject"]})
    with pytest.raises(InputError, match="only the summary"):
        certificate_contents(ledger, leaves["decrement"], revealed={"subject": SHOWN["subject"]})


@pytest.mark.parametrize("what", ["subject", "case", "actor"])
def test_another_text_or_salt_is_refused(what: What) -> None:
    for wrong in (Revealed("somebody else", SALT), Revealed(SHOWN[what].text, bytes(32))):
        with pytest.raises(VerificationError) as caught:
            certificate_contents(LEDGER, LEAVES["complete"], revealed={what: wrong})
        assert caught.value.code == f"certificate-{what}-mismatch"


@pytest.mark.parametrize("text", ["", "x" * 121, "Ada\n", "\N{RIGHT-TO-LEFT OVERRIDE}adA", "a\N{LINE SEPARATOR}b"])
def test_text_that_could_mislead_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot be shown"):
        certificate_contents(LEDGER, LEAVES["complete"], revealed={"case": Revealed(text, SALT)})


def test_the_file_is_one_and_names_no_address() -> None:
    html = certificate_html(document(LEDGER, "complete", LEAVES["complete"])).decode()
    assert html.count("<script") == 2
    assert "<b>" not in html
    assert not re.search(r"https?://|src=|href=|@import|url\(", html)


@pytest.mark.parametrize("name", ["complete", "many", "refused"])
def test_the_pdf_is_one_page_of_archive_pdf_with_the_data_attached(name: str) -> None:
    opened = document(LEDGER, name, LEAVES[name])
    with pikepdf.open(io.BytesIO(certificate_pdf(opened))) as pdf:
        assert len(pdf.pages) == 1
        assert [round(float(side)) for side in pdf.pages[0].MediaBox[2:]] == [595, 842]
        assert list(pdf.attachments) == ["receipt.json"]
        spec = pdf.attachments["receipt.json"]
        assert spec.get_file().read_bytes() == opened.contents.to_bytes()
        assert str(pdf.Root.AF[0].AFRelationship) == "/Data"
        with pdf.open_metadata() as metadata:
            assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("3", "B")
        assert str(pdf.Root.OutputIntents[0].S) == "/GTS_PDFA1"
        assert "/DestOutputProfile" in pdf.Root.OutputIntents[0]
        fonts = pdf.pages[0].Resources.Font
        assert len(fonts) >= 1
        for font in fonts.values():
            (inner,) = font.DescendantFonts
            assert any(key in inner.FontDescriptor for key in ("/FontFile2", "/FontFile3"))


def test_the_longest_names_still_take_one_sheet() -> None:
    ledger, leaves = full_ledger()
    ledger.names = dict.fromkeys(ledger.names, "W" * 200)
    opened = document(ledger, "many", leaves["many"])
    with pikepdf.open(io.BytesIO(certificate_pdf(opened))) as pdf:
        assert len(pdf.pages) == 1


def test_what_takes_more_than_a_sheet_is_refused() -> None:
    head = LEDGER.checkpoint()
    for number in range(3):
        head = cosign_checkpoint(head, f"{'w' * 1500}{number}", WITNESS, 1)
    with pytest.raises(InputError) as caught:
        certificate_pdf(certificate_contents(LEDGER, LEAVES["many"], head=head))
    assert caught.value.code == "certificate-too-long"


def test_the_code_holds_what_a_reader_looks_up() -> None:
    opened = document(LEDGER, "complete", LEAVES["complete"])
    lines = qr_text(opened).split("\n")
    assert lines[1] == f"key {SIGNER.key_id}"
    assert lines[3:] == [f"number {LEAVES['complete']}", f"ledger {ORIGIN}"]
    assert set(SUMMARIES) <= set(LEAVES)
