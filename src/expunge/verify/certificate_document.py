"""A certificate document against keys that did not come with it. Steps: ``docs/formats/certificate.md``."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from expunge.errors import MissingExtra, VerificationError
from expunge.ledger.certificate.contents import MAX_BYTES, OpenContents, OpenLeaf, open_contents, parse_contents
from expunge.ledger.certificate.html import QR_PATTERN, html_file
from expunge.ledger.certificate.page import Page, page_of, qr_text
from expunge.ledger.certificate.qr_code import qr_code
from expunge.ledger.encoding import decode_base64
from expunge.ledger.envelope import verify_envelope
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey
from expunge.ledger.witness_policy import WitnessPolicy
from expunge.verify.receipt import verify_inclusion

__all__ = ["MAX_FILE_BYTES", "VerifiedCertificate", "find_contents", "verify_certificate"]

# The data in base64, and a page around them.
MAX_FILE_BYTES: Final = 2 * MAX_BYTES
_HTML_DATA: Final = re.compile(rb'<script id="data" type="text/plain"[^<>]*>([A-Za-z0-9+/=]*)</script>')
_PDF_STREAM: Final = re.compile(rb"/Type /EmbeddedFile(?!s)([ -~]{0,1000}?)>>\s*stream\r?\n")
_PDF_LENGTH: Final = re.compile(rb"/Length ([0-9]{1,9})(?![0-9 ]* R)")


@dataclass(frozen=True)
class VerifiedCertificate:
    """What a verified document states. ``page`` says whether the visible page was compared with the data, ``qr``
    whether the QR code was; ``timestamps`` is how many time stamps were verified.
    """

    contents: OpenContents
    facts: Page
    page: bool
    qr: bool
    timestamps: int


def verify_certificate(
    file: bytes,
    trusted: Iterable[VerifyingKey],
    log_keys: Iterable[NoteKey],
    origin: str,
    *,
    witnesses: Iterable[NoteKey] = (),
    quorum: int | WitnessPolicy = 0,
    now: int | None = None,
    max_age: int | None = None,
    check_timestamp: Callable[[bytes, bytes], object] | None = None,
) -> VerifiedCertificate:
    """Check a document: signatures, places in the ledger, that its parts belong together, and that its page follows.

    ``check_timestamp`` is called with the head and each time stamp, and raises if that does not hold; without it time
    stamps are not looked at. The page of a PDF is not compared: go by ``facts``.
    """
    keys, heads, watching = list(trusted), list(log_keys), list(witnesses)
    data = find_contents(file)
    opened = open_contents(parse_contents(data))
    for leaf in (opened.leaf, *opened.counted, *opened.copies):
        _verify_leaf(leaf, keys, heads, origin, watching, quorum, now, max_age)
    if check_timestamp is not None:
        for token in opened.contents.timestamps:
            check_timestamp(opened.leaf.proof.checkpoint.to_bytes(), token)
    facts = page_of(opened)
    paged = not file.startswith(b"%PDF-")
    seen = _compare_page(file, facts, data, opened) if paged else False
    stamps = 0 if check_timestamp is None else len(opened.contents.timestamps)
    return VerifiedCertificate(opened, facts, paged, seen, stamps)


def find_contents(file: bytes) -> bytes:
    """The data of a document, from its HTML or from the attachment of its PDF."""
    if len(file) > MAX_FILE_BYTES:
        raise VerificationError(f"the file has more than {MAX_FILE_BYTES} bytes", code="certificate-data-invalid")
    if file.startswith(b"%PDF-"):
        return _attachment(file)
    found = _HTML_DATA.findall(file)
    if len(found) != 1:
        raise VerificationError(
            f"the file has {len(found)} blocks of data, not 1, so it is no certificate document of expunge",
            code="certificate-data-missing",
        )
    data = decode_base64(found[0].decode("ascii"))
    if data is None:
        raise VerificationError("the data are not base64", code="certificate-data-invalid")
    return data


def _verify_leaf(
    leaf: OpenLeaf,
    trusted: list[VerifyingKey],
    log_keys: list[NoteKey],
    origin: str,
    witnesses: list[NoteKey],
    quorum: int | WitnessPolicy,
    now: int | None,
    max_age: int | None,
) -> None:
    verify_envelope(leaf.envelope, trusted)
    proved = leaf.proved
    verify_inclusion(
        proved.envelope,
        proved.inclusion,
        log_keys,
        origin,
        witnesses=witnesses,
        quorum=quorum,
        now=now,
        max_age=max_age,
    )


def _compare_page(file: bytes, facts: Page, data: bytes, opened: OpenContents) -> bool:
    """Compare the file with the one that its data make; return whether the QR code was computed, too."""
    text = file.decode("utf-8", "replace")
    drawn = QR_PATTERN.search(text)
    if drawn is None:
        raise VerificationError("the page has no QR code", code="certificate-page-mismatch")
    given = (int(drawn[1]), drawn[2])
    try:
        computed, seen = qr_code(qr_text(opened)), True
    except MissingExtra:
        computed, seen = given, False
    if html_file(facts, data, computed) != file:
        wrong = "QR code" if html_file(facts, data, given) == file else "page"
        raise VerificationError(
            f"the {wrong} is not the one that the signed data make: go by the data, not by what is shown",
            code="certificate-page-mismatch",
        )
    return seen


def _attachment(file: bytes) -> bytes:
    """The one embedded file of a PDF, where it is as we write it."""
    found = list(_PDF_STREAM.finditer(file))
    if len(found) != 1:
        raise VerificationError(
            f"the PDF has {len(found)} attachments that can be read here, not 1; a PDF that was saved anew by another "
            "program is not the one that was issued",
            code="certificate-data-missing",
        )
    entries, start = found[0][1], found[0].end()
    length = _PDF_LENGTH.search(entries)
    if length is None:
        raise VerificationError("the attachment has no length", code="certificate-data-invalid")
    stream = file[start : start + int(length[1])]
    if b"/Filter" not in entries:
        return stream
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(stream, MAX_BYTES + 1)
    except zlib.error:
        data = b""
    if b"/FlateDecode" not in entries or not inflater.eof or len(data) > MAX_BYTES:
        raise VerificationError("the attachment cannot be unpacked", code="certificate-data-invalid")
    return data
