"""The document in a browser: the script makes the same page from the data, and finds damage."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pikepdf
import pytest
from playwright.sync_api import Browser, Page

from attestation.certificate_ledger import SALT, STRANGER, TONES, document, full_ledger
from attestation.flipped_bytes import covered, undetected
from expunge.attestation.certificate_document import certificate_html, certificate_pdf
from expunge.ledger.certificate.contents import MAX_TEXT, REVEALABLE, Revealed
from expunge.ledger.certificate.html import html_file, main_html
from expunge.ledger.certificate.page import page_of, qr_text, words
from expunge.ledger.certificate.qr_code import qr_code
from service.frontend.browser import axe_findings, launched

LEDGER, LEAVES = full_ledger()
LONG, LONG_LEAVES = full_ledger(texts={what: Revealed("W" * MAX_TEXT, SALT) for what in REVEALABLE})
LONG.names = {uuid: f"{number} {'w' * 200}" for number, uuid in enumerate(LONG.names)}
FOLDER = Path(html_file.__code__.co_filename).parent


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    found = browser.new_page(viewport={"width": 900, "height": 1200})
    yield found
    found.close()


def open_file(page: Page, folder: Path, file: bytes) -> str | None:
    """The state of the self-check of a file that is opened from a disk."""
    path = folder / "document.html"
    path.write_bytes(file)
    page.goto(path.as_uri())
    found = page.locator("#self-check")
    return found.get_attribute("data-state") if found.count() else None


def test_a_browser_makes_the_same_page_from_the_data(page: Page) -> None:
    page.goto("about:blank")
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    cases = []
    for name, index in LEAVES.items():
        for shown in (True, False):
            opened = document(LEDGER, name, index, shown=shown)
            code = qr_code(qr_text(opened))
            cases.append((json.loads(opened.contents.to_bytes()), code, main_html(page_of(opened), code)))
    made = page.evaluate(
        """async ([script, words, cases]) => {
            const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
            const { pageOf, mainOf } = await import(address);
            return cases.map(([data, code]) => mainOf(pageOf(data, words), code, words));
        }""",
        [script, words(), [case[:2] for case in cases]],
    )
    assert made == [expected for *_, expected in cases]


@pytest.mark.parametrize("name", ["complete", "incomplete", "refused", "dropped", "created"])
def test_a_file_from_a_disk_is_undamaged_and_prints_on_one_sheet(page: Page, tmp_path: Path, name: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    assert open_file(page, tmp_path, certificate_html(document(LEDGER, name, LEAVES[name]))) == "undamaged"
    assert len([url for url in asked if not url.startswith("file:")]) == 0
    green = page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(29, 107, 58)"
    assert green == (TONES[name] == "erased")
    assert _sheets(page) == 1


@pytest.mark.parametrize("name", LEAVES)
def test_the_longest_texts_leave_one_sheet(page: Page, tmp_path: Path, name: str) -> None:
    """Texts of the longest that a document shows, with nowhere to break, and names of collections that are longer."""
    opened = document(LONG, name, LONG_LEAVES[name])
    assert open_file(page, tmp_path, certificate_html(opened)) == "undamaged"
    assert _sheets(page) == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with pikepdf.open(io.BytesIO(certificate_pdf(opened))) as made:
        assert len(made.pages) == 1


def _sheets(page: Page) -> int:
    with pikepdf.open(io.BytesIO(page.pdf(prefer_css_page_size=True))) as printed:
        return len(printed.pages)


@pytest.mark.parametrize("width", [900, 360])
@pytest.mark.parametrize("name", ["complete", "incomplete"])
def test_the_page_is_accessible(browser: Browser, tmp_path: Path, name: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, bypass_csp=True)
    open_file(page, tmp_path, certificate_html(document(LEDGER, name, LEAVES[name])))
    assert axe_findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_what_is_altered_is_shown_as_damage(page: Page, tmp_path: Path) -> None:
    file = certificate_html(document(LEDGER, "complete", LEAVES["complete"]))
    for shown, instead in (
        (b"1 March 2026", b"2 March 2026"),
        (b"DSR-2026-0117</dd>", b"DSR-2026-0118</dd>"),
        (b"9 entries were removed.", b"8 entries were removed."),
        (b"<title>Certificate", b"<title>certificate"),
        (b"</style>", b".excludes{display:none}</style>"),
        (b'data-tone="erased"', b'data-tone="refused"'),
        (b"form-action 'none'", b"form-action *"),
    ):
        assert open_file(page, tmp_path, file.replace(shown, instead, 1)) == "damaged", instead
    # A script that is not the one of the policy does not run, and nothing says that the page is undamaged.
    assert (
        open_file(page, tmp_path, file.replace(b"showResult();\n</script>", b"showResult() \n</script>")) == "unchecked"
    )


def test_a_flipped_byte_of_data_or_page_is_shown_as_damage(page: Page, tmp_path: Path) -> None:
    """A sample; ``benchmarks/certificate_damage.py`` flips every byte."""
    file = certificate_html(document(LEDGER, "requested", LEAVES["requested"]))
    shown, _ = covered(file)
    chosen = random.Random(7)
    flips = [(at, 1 << chosen.randrange(8)) for at in chosen.sample(shown, 400)]
    assert undetected(page, file, flips) == []
    for at, mask in flips[:5]:
        flipped = bytearray(file)
        flipped[at] ^= mask
        assert open_file(page, tmp_path, bytes(flipped)) == "damaged", at


def test_a_forged_document_passes_its_own_check(page: Page, tmp_path: Path) -> None:
    """Which is why the document says that it is no proof: ``tests/verify`` shows that a verifier refuses this one."""
    forged, leaves = full_ledger(STRANGER)
    assert open_file(page, tmp_path, certificate_html(document(forged, "complete", leaves["complete"]))) == "undamaged"
    assert "only a verifier" in page.locator("#self-check").inner_text()
