"""Certificate documents: the page that a data subject, a regulator or a data-protection officer gets about one leaf.

Format: ``docs/formats/certificate.md``. :func:`certificate_contents` collects what the document embeds from a ledger,
:func:`certificate_html` and :func:`certificate_pdf` make the file. Both need the extra ``certificate``. A document is
no proof by itself; :mod:`expunge.verify.certificate_document` checks one against a key that did not come with it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from typing import Any, Final, Protocol

from expunge.errors import InputError, MissingExtra
from expunge.ledger.certificate.contents import (
    MAX_NAME,
    MAX_TEXT,
    MAX_TIMESTAMP_BYTES,
    MAX_TIMESTAMPS,
    Contents,
    OpenContents,
    Proved,
    Revealed,
    What,
    findings_of,
    is_text,
    open_contents,
    summary_parts,
)
from expunge.ledger.certificate.html import html_file, main_html, paper_style
from expunge.ledger.certificate.page import page_of, qr_text
from expunge.ledger.certificate.qr_code import qr_code
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.event import EVENT_TYPE, Event, parse_event
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.note import SignedNote
from expunge.ledger.statement import parse_statement

__all__ = ["ATTACHMENT", "LedgerLeaf", "LedgerReader", "certificate_contents", "certificate_html", "certificate_pdf"]

ATTACHMENT: Final = "receipt.json"
# The kinds of leaves that are about an edit without being its record.
_ABOUT_AN_EDIT: Final = ("listed", "expired")


class LedgerLeaf(Protocol):
    """One leaf: its number, its kind, its memory's UUID, and the signed envelope."""

    @property
    def index(self) -> int:
        """The leaf's number."""

    @property
    def kind(self) -> str:
        """Outcome of an edit, or name of an event."""

    @property
    def memory(self) -> str | None:
        """UUID of the memory."""

    @property
    def envelope(self) -> bytes:
        """The signed bytes."""


class LedgerReader(Protocol):
    """What this module asks of a store."""

    def leaf(self, index: int) -> LedgerLeaf:
        """One leaf; InputError if there is none."""

    def newest_leaves(self, *, kinds: Any = None) -> Sequence[LedgerLeaf]:
        """Leaves from the newest back."""

    def checkpoint(self) -> SignedNote:
        """The signed head as it stands."""

    def inclusion(self, index: int, head: SignedNote | None = None) -> InclusionProof:
        """Proof that a leaf is under a head."""

    def name_of(self, uuid: str) -> str | None:
        """Name of a memory that exists."""

    def revealed(self, index: int) -> Mapping[What, Revealed]:
        """Texts and salts of the case and the actor of a leaf, as far as the store has them."""


def certificate_contents(
    ledger: LedgerReader,
    index: int,
    *,
    revealed: Mapping[What, Revealed] | None = None,
    names: bool = False,
    known: Collection[What] = ("case", "actor"),
    timestamps: Sequence[bytes] = (),
    head: SignedNote | None = None,
) -> OpenContents:
    """Collect what a document about leaf ``index`` embeds.

    ``revealed`` has a text and its salt by ``subject``, ``case`` and ``actor``. ``known`` names what is added where the
    store itself still has it: ``case``, ``actor``, both, or none. ``names`` shows the names of memories that exist.
    ``head`` is a signed head of this ledger, by default one of now; ``timestamps`` are answers of RFC 3161 authorities
    about the text of ``head``. Raises InputError if there is no such leaf, if it is no edit, with the leaf to use where
    there is one, or if there are time stamps without a head, or too many; VerificationError if a salt or a text is
    another than the leaf's, or the head is not one of this ledger.
    """
    _check_timestamps(timestamps, head)
    leaf = ledger.leaf(index)
    statement = parse_statement(parse_envelope(leaf.envelope).payload)
    event = parse_event(statement) if statement.predicate_type == EVENT_TYPE else None
    if leaf.kind == "expired" or (event is not None and event.kind not in ("dropped", "subject_erased")):
        raise InputError(
            f"leaf {index} ({leaf.kind}) is no edit; {_fitting_leaf(ledger, leaf)}", code="certificate-leaf-unsuitable"
        )
    kept: Mapping[What, Revealed] = {what: found for what, found in ledger.revealed(index).items() if what in known}
    shown: dict[What, Revealed] = {**kept, **(revealed or {})}
    for what, given in shown.items():
        if not is_text(given.text):
            raise InputError(
                f"the {what} {given.text[:40]!r} cannot be shown: give 1 to {MAX_TEXT} characters without control or "
                "format characters"
            )
    summary = event is not None and event.kind == "subject_erased"
    if "subject" in shown and not summary:
        raise InputError(
            f"leaf {index} ({leaf.kind}) does not name a person; {_summary_of(ledger, index)}",
            code="certificate-leaf-unsuitable",
        )
    parts = summary_parts(event) if summary else ()
    counted = sorted(part["leaf"] for part in parts if part["leaf"] is not None)
    uuids = [part["memory"] for part in parts] or ([leaf.memory] if leaf.memory is not None else [])
    note = ledger.checkpoint() if head is None else head

    def proved(number: int) -> Proved:
        return Proved(ledger.leaf(number).envelope, ledger.inclusion(number, note).to_bytes())

    known_names = {uuid: ledger.name_of(uuid) for uuid in uuids if names}
    named = {uuid: _shortened(name) for uuid, name in known_names.items() if name is not None}
    contents = Contents(
        proved(index),
        tuple(map(proved, counted)),
        {uuid: name for uuid, name in named.items() if is_text(name)},
        shown,
        tuple(timestamps),
    )
    opened = open_contents(contents)
    copies = tuple(proved(number) for number in _leaves_about_copies(ledger, opened.erasures, opened.head.size))
    return open_contents(replace(contents, copies=copies)) if copies else opened


def _check_timestamps(timestamps: Sequence[bytes], head: SignedNote | None) -> None:
    if timestamps and head is None:
        raise InputError("a time stamp is of one head: give that head, too")
    if len(timestamps) > MAX_TIMESTAMPS or not all(0 < len(token) <= MAX_TIMESTAMP_BYTES for token in timestamps):
        raise InputError(f"a document takes {MAX_TIMESTAMPS} time stamps of at most {MAX_TIMESTAMP_BYTES} bytes")


def _leaves_about_copies(
    ledger: LedgerReader, erasures: Mapping[int, tuple[str | None, int]], size: int
) -> Sequence[int]:
    """Leaves below ``size`` about mirrors that were to follow these erasures: of their addition, and of findings."""
    added: dict[str, Event] = {}
    found = []
    for leaf in reversed(ledger.newest_leaves(kinds=["mirror_added", "mirror_checked", "mirror_removed"])):
        event = parse_event(parse_statement(parse_envelope(leaf.envelope).payload))
        mirror = event.subject.sha256
        if leaf.index >= size:
            continue
        if event.kind == "mirror_added":
            covered = [at for at, (memory, _) in erasures.items() if event.facts["of"] in (None, memory)]
            if any(at > leaf.index for at in covered):
                added[mirror] = event
                found.append((leaf.index, mirror))
        elif event.kind == "mirror_removed" and not any(at < leaf.index for at in erasures):
            # It was no mirror any more when the entries went.
            found = [(index, name) for index, name in found if name != mirror]
            added.pop(mirror, None)
        elif mirror in added and any(part["leaf"] in erasures for part in findings_of(event)):
            found.append((leaf.index, mirror))
    return [index for index, _ in found]


def certificate_html(opened: OpenContents) -> bytes:
    """The document as one HTML file that needs no network."""
    return html_file(page_of(opened), opened.contents.to_bytes(), qr_code(qr_text(opened)))


def certificate_pdf(opened: OpenContents) -> bytes:
    """The document as PDF/A-3b of one page, with its data as an attachment.

    Raises InputError (``certificate-too-long``) where the texts take more than a page.
    """
    document = _layout(opened)
    if len(document.pages) != 1:
        raise InputError(
            f"the page would take {len(document.pages)} sheets; show fewer or shorter texts",
            code="certificate-too-long",
        )
    buffer = io.BytesIO()
    attachment = import_module("weasyprint").Attachment(
        string=opened.contents.to_bytes(),
        name=ATTACHMENT,
        description="The data that the page follows from",
        relationship="Data",
        created=datetime.fromisoformat(opened.leaf.stated.time),
        modified=datetime.fromisoformat(opened.leaf.stated.time),
    )
    document.metadata.attachments = [attachment]
    with warnings.catch_warnings():
        # WeasyPrint leaves the colour profile's file to the interpreter to close.
        warnings.simplefilter("ignore", ResourceWarning)
        document.write_pdf(buffer, pdf_variant="pdf/a-3b")
    return buffer.getvalue()


def _layout(opened: OpenContents) -> Any:
    """The sheets of paper, as WeasyPrint lays them out."""
    try:
        weasyprint = import_module("weasyprint")
    except (ImportError, OSError) as problem:
        # OSError: the library is there, and Pango, which it draws text with, is not.
        raise MissingExtra(
            f"a PDF needs weasyprint and Pango: pip install 'expunge[certificate]' ({problem})"
        ) from problem
    page = page_of(opened)
    main = main_html(page, qr_code(qr_text(opened)))
    head = f'<meta charset="utf-8"><title>{page.title}</title><style>{paper_style()}</style>'
    text = f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{main}</body></html>'
    return weasyprint.HTML(string=text, url_fetcher=_fetch_nothing).render()


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _fetch_nothing(url: str, *_: object, **__: object) -> dict[str, object]:
    raise ValueError(f"a certificate document loads nothing, and not {url}")


def _fitting_leaf(ledger: LedgerReader, leaf: LedgerLeaf) -> str:
    """Which leaf to use instead."""
    if leaf.kind in _ABOUT_AN_EDIT:
        for index in range(leaf.index - 1, -1, -1):
            other = ledger.leaf(index)
            if other.memory == leaf.memory and other.kind not in _ABOUT_AN_EDIT:
                return f"it belongs to leaf {index} ({other.kind}): use that"
    if leaf.kind == "erasure_requested":
        for other in ledger.newest_leaves(kinds=["subject_erased"]):
            stated = parse_event(parse_statement(parse_envelope(other.envelope).payload))
            if stated.facts["requested"] == leaf.index:
                return f"the request was carried out at leaf {other.index}: use that"
        return "the request has not been carried out"
    return "use the leaf of a deletion, of a drop, or of the summary of an erasure (expunge log lists them)"


def _summary_of(ledger: LedgerReader, index: int) -> str:
    for other in ledger.newest_leaves(kinds=["subject_erased"]):
        stated = parse_event(parse_statement(parse_envelope(other.envelope).payload))
        if any(part["leaf"] == index for part in summary_parts(stated)):
            return f"the summary that counts it does: leaf {other.index}"
    return "only the summary of an erasure of a person does"
