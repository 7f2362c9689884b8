"""What a certificate document embeds: a leaf, the leaves that it counts, their proofs, and what is revealed.

:func:`parse_contents` reads the bytes strictly. :func:`open_contents` reads what the leaves state and checks that the
parts belong together. Neither looks at a signature: that is :mod:`expunge.verify.certificate_document`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, cast

from expunge.errors import InputError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, parse_checkpoint
from expunge.ledger.encoding import Json, decode_base64, dump_canonical, encode_base64, is_sha256_hex, parse_canonical
from expunge.ledger.envelope import Envelope, parse_envelope
from expunge.ledger.event import (
    ERASED,
    EVENT_TYPE,
    FOUND,
    Event,
    actor_commitment,
    case_commitment,
    parse_event,
    subject_commitment,
)
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import InclusionProof, parse_inclusion_proof
from expunge.ledger.receipt_format import PREDICATE_TYPE, Predicate
from expunge.ledger.receipt_parsing import UUID, parse_predicate
from expunge.ledger.statement import parse_statement

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "MAX_NAME",
    "MAX_TEXT",
    "MAX_TIMESTAMPS",
    "MAX_TIMESTAMP_BYTES",
    "Contents",
    "OpenContents",
    "OpenLeaf",
    "Proved",
    "Revealed",
    "What",
    "findings_of",
    "is_text",
    "open_contents",
    "parse_contents",
    "summary_parts",
]

FORMAT: Final = "urn:expunge:certificate:v1"
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_TEXT: Final = 120
MAX_NAME: Final = 32
MAX_TIMESTAMPS: Final = 8
MAX_TIMESTAMP_BYTES: Final = 64 * 1024
# Control and format characters, surrogates, private use, line and paragraph separators; but some names need joiners.
_UNSEEN: Final = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_JOINERS: Final = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
_FIELDS: Final = {"counted", "format", "leaf", "names", "revealed", "timestamps"}

What = Literal["subject", "case", "actor"]
REVEALABLE: Final[tuple[What, ...]] = ("subject", "case", "actor")
_COMMIT: Final[dict[What, Callable[[bytes, str], str]]] = {
    "subject": subject_commitment,
    "case": case_commitment,
    "actor": actor_commitment,
}


@dataclass(frozen=True)
class Proved:
    """A leaf of the ledger: its envelope, and the proof that it is there."""

    envelope: bytes
    inclusion: bytes


@dataclass(frozen=True)
class Revealed:
    """A text and the salt, 32 bytes, under which a leaf commits to it."""

    text: str
    salt: bytes


@dataclass(frozen=True)
class Contents:
    """The data of a document. ``revealed`` has texts by ``subject``, ``case`` and ``actor``; ``names`` go by UUID.

    ``copies`` are the leaves about mirrors: those that were to follow, and what was found there.
    """

    leaf: Proved
    counted: tuple[Proved, ...] = ()
    names: Mapping[str, str] | None = None
    revealed: Mapping[What, Revealed] | None = None
    timestamps: tuple[bytes, ...] = ()
    copies: tuple[Proved, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the canonical bytes. Raises InputError if they exceed the limit."""
        revealed = self.revealed or {}
        document: dict[str, Json] = {
            "format": FORMAT,
            "leaf": _to_json(self.leaf),
            "counted": [_to_json(part) for part in self.counted],
            "names": dict(self.names or {}),
            "revealed": {
                what: None if (shown := revealed.get(what)) is None else {"salt": shown.salt.hex(), "text": shown.text}
                for what in REVEALABLE
            },
            "timestamps": [encode_base64(token) for token in self.timestamps],
        }
        if self.copies:
            document["copies"] = [_to_json(part) for part in self.copies]
        data = dump_canonical(document)
        if len(data) > MAX_BYTES:
            raise InputError(f"the document would embed {len(data)} bytes; the limit is {MAX_BYTES}")
        return data


@dataclass(frozen=True)
class OpenLeaf:
    """What one leaf states, and where it is. Exactly one of ``receipt`` and ``event`` is there."""

    proved: Proved
    envelope: Envelope
    proof: InclusionProof
    receipt: Predicate | None
    event: Event | None

    @property
    def index(self) -> int:
        """The leaf's number."""
        return self.proof.index

    @cached_property
    def hash(self) -> bytes:
        """The leaf's hash in the tree."""
        return leaf_hash(self.proved.envelope)

    @property
    def stated(self) -> Predicate | Event:
        """The receipt or the event."""
        return cast("Predicate | Event", self.event if self.receipt is None else self.receipt)


@dataclass(frozen=True)
class OpenContents:
    """A document's data, read and found to belong together; no signature was checked."""

    contents: Contents
    leaf: OpenLeaf
    counted: tuple[OpenLeaf, ...]
    copies: tuple[OpenLeaf, ...] = ()

    @property
    def erasures(self) -> dict[int, tuple[str | None, int]]:
        """The erasures that the document is about, by leaf: the memory, and how many entries went."""
        found: dict[int, tuple[str | None, int]] = {}
        for leaf in (self.leaf, *self.counted):
            receipt, event = leaf.receipt, leaf.event
            if receipt is not None and receipt.outcome in ERASED:
                found[leaf.index] = receipt.memory, receipt.applied.count
            elif event is not None and event.kind == "dropped":
                found[leaf.index] = event.memory, cast(int, event.facts["live"]) + cast(int, event.facts["pruned"])
        return found

    @cached_property
    def copies_by_finding(self) -> dict[str, int]:
        """How many copies in mirrors each finding is about; ``pending`` is of those that no leaf is about yet."""
        due: dict[tuple[str, int], int] = {}
        counts = dict.fromkeys((*FOUND, "pending"), 0)
        for leaf in self.copies:
            event = cast(Event, leaf.event)
            mirror = event.subject.sha256
            if event.kind == "mirror_added":
                for index, (memory, entries) in self.erasures.items():
                    if index > leaf.index and entries and event.facts["of"] in (None, memory):
                        due[mirror, index] = entries
                continue
            for part in findings_of(event):
                if due.pop((mirror, part["leaf"]), 0):
                    for word in FOUND:
                        counts[word] += part[word]
        return counts | {"pending": sum(due.values())}

    @cached_property
    def head(self) -> Checkpoint:
        """The head that every proof leads to."""
        return parse_checkpoint(self.leaf.proof.checkpoint.text)

    @property
    def summary(self) -> Event | None:
        """The event, where the leaf sums up the erasure of a subject."""
        event = self.leaf.event
        return event if event is not None and event.kind == "subject_erased" else None

    def revealed(self, what: What) -> Revealed | None:
        """The text that is shown, if any."""
        return (self.contents.revealed or {}).get(what)

    def name(self, uuid: str) -> str | None:
        """Name of a memory, as the issuer gave it."""
        return (self.contents.names or {}).get(uuid)


def parse_contents(data: bytes) -> Contents:
    """Read the data of a document, strictly."""
    document = parse_canonical(data, limit=MAX_BYTES)
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise VerificationError(f"the data are not of the format {FORMAT}", code="certificate-format-unsupported")
    copies = document.get("copies", ())
    _require(document.keys() - {"copies"} == _FIELDS, "the document")
    _require(isinstance(copies, tuple) and ("copies" not in document or len(copies) > 0), "copies")
    names, revealed, counted, stamps = (document[name] for name in ("names", "revealed", "counted", "timestamps"))
    _require(
        isinstance(names, Mapping) and all(UUID.fullmatch(uuid) and _is_name(name) for uuid, name in names.items()),
        "names",
    )
    _require(isinstance(revealed, Mapping) and revealed.keys() == set(REVEALABLE), "revealed")
    _require(isinstance(counted, tuple) and isinstance(stamps, tuple) and len(stamps) <= MAX_TIMESTAMPS, "timestamps")
    shown = {what: _parse_revealed(value) for what, value in cast("Mapping[What, Json]", revealed).items()}
    return Contents(
        _parse_proved(document["leaf"]),
        tuple(_parse_proved(part) for part in cast("tuple[Json, ...]", counted)),
        cast("Mapping[str, str]", names),
        {what: value for what, value in shown.items() if value is not None},
        tuple(_parse_timestamp(stamp) for stamp in cast("tuple[Json, ...]", stamps)),
        tuple(_parse_proved(part) for part in cast("tuple[Json, ...]", copies)),
    )


def open_contents(contents: Contents) -> OpenContents:
    """Read what the leaves state, and check that the parts of the document belong together."""
    leaf = _open(contents.leaf)
    receipt, event = leaf.receipt, leaf.event
    if receipt is not None and receipt.action == "expiry":
        raise VerificationError("a notice of certificates is no edit", code="certificate-leaf-unsupported")
    if event is not None and event.kind not in ("dropped", "subject_erased"):
        raise VerificationError(f"a leaf of the kind {event.kind} is no edit", code="certificate-leaf-unsupported")
    counted, copies = (tuple(map(_open, parts)) for parts in (contents.counted, contents.copies))
    opened = OpenContents(contents, leaf, counted, copies)
    if any(part.proof.checkpoint != leaf.proof.checkpoint for part in (*counted, *copies)):
        raise VerificationError("the proofs lead to different heads", code="certificate-head-mismatch")
    _check_counted(opened)
    _check_copies(opened)
    _check_revealed(opened)
    known = {leaf.stated.memory} if opened.summary is None else {part["memory"] for part in summary_parts(event)}
    if unknown := sorted(set(contents.names or ()) - known):
        raise VerificationError(
            f"memory {unknown[0]} is named and is not in the document", code="certificate-name-unknown"
        )
    return opened


def summary_parts(event: Event | None) -> tuple[Mapping[str, Any], ...]:
    """What a summary says of each memory."""
    return () if event is None else cast("tuple[Mapping[str, Any], ...]", event.facts["memories"])


def findings_of(event: Event) -> tuple[Mapping[str, Any], ...]:
    """What an event says was found in a mirror, by erasure; nothing where it is of another kind."""
    return cast("tuple[Mapping[str, Any], ...]", event.facts["findings"]) if event.kind == "mirror_checked" else ()


def _check_copies(opened: OpenContents) -> None:
    """Leaves about mirrors are in order, each of a mirror that was to follow, and count what the erasures do."""
    mirrors: dict[str, tuple[int, Json]] = {}
    found: set[tuple[str, int]] = set()
    erasures = opened.erasures
    last = -1
    for leaf in opened.copies:
        event, fits = leaf.event, False
        if event is not None and leaf.index > last:
            name, of = event.subject.sha256, event.facts.get("of")
            if event.kind == "mirror_added" and name not in mirrors:
                mirrors[name] = leaf.index, of
                fits = any(at > leaf.index and of in (None, memory) for at, (memory, _) in erasures.items())
            elif event.kind == "mirror_checked" and name in mirrors:
                since, of = mirrors[name]
                about = [part for part in findings_of(event) if part["leaf"] in erasures]
                keys = {(name, part["leaf"]) for part in about}
                fits = (
                    bool(about)
                    and not keys & found
                    and all(
                        since < part["leaf"] < leaf.index
                        and of in (None, erasures[part["leaf"]][0])
                        and part["entries"] == erasures[part["leaf"]][1]
                        for part in about
                    )
                )
                found |= keys
        if not fits:
            raise VerificationError(
                f"leaf {leaf.index} is about no mirror that was to follow these erasures, or miscounts them",
                code="certificate-copies-mismatch",
            )
        last = leaf.index


def _check_counted(opened: OpenContents) -> None:
    parts = [] if opened.summary is None else summary_parts(opened.summary)
    wanted = {part["leaf"]: part for part in parts if part["leaf"] is not None}
    found = [leaf.index for leaf in opened.counted]
    if found != sorted(wanted):
        raise VerificationError(
            f"the summary counts leaves {sorted(wanted)}, and the document has {found}",
            code="certificate-counted-mismatch",
        )
    for leaf in opened.counted:
        part, receipt = wanted[leaf.index], leaf.receipt
        if (
            receipt is None
            or receipt.action != "deletion"
            or (receipt.memory, receipt.outcome) != (part["memory"], part["outcome"])
            or (receipt.applied.count != part["entries"])
        ):
            raise VerificationError(
                f"leaf {leaf.index} is not what the summary says of it", code="certificate-counted-mismatch"
            )


def _check_revealed(opened: OpenContents) -> None:
    stated = opened.leaf.stated
    subject = None if opened.summary is None else opened.summary.subject.sha256
    for what, digest in (("subject", subject), ("case", stated.request.case), ("actor", stated.request.actor)):
        shown = opened.revealed(cast(What, what))
        if shown is not None and _COMMIT[cast(What, what)](shown.salt, shown.text) != digest:
            reason = f"commits to no {what}" if digest is None else f"commits to another {what}, or the salt is another"
            raise VerificationError(f"leaf {opened.leaf.index} {reason}", code=_MISMATCH[cast(What, what)])


_MISMATCH: Final[dict[What, str]] = {
    "subject": "certificate-subject-mismatch",
    "case": "certificate-case-mismatch",
    "actor": "certificate-actor-mismatch",
}


def _open(part: Proved) -> OpenLeaf:
    envelope = parse_envelope(part.envelope)
    statement = parse_statement(envelope.payload)
    proof = parse_inclusion_proof(part.inclusion)
    if statement.predicate_type == EVENT_TYPE:
        return OpenLeaf(part, envelope, proof, None, parse_event(statement))
    if statement.predicate_type != PREDICATE_TYPE:
        raise VerificationError(
            f"a leaf of the type {statement.predicate_type[:80]} is no edit", code="certificate-leaf-unsupported"
        )
    return OpenLeaf(part, envelope, proof, parse_predicate(statement), None)


def _to_json(part: Proved) -> Json:
    return {"envelope": part.envelope.decode(), "inclusion": part.inclusion.decode()}


def _parse_proved(value: Json) -> Proved:
    _require(isinstance(value, Mapping) and value.keys() == {"envelope", "inclusion"}, "a leaf")
    found = cast("Mapping[str, Json]", value)
    _require(all(isinstance(text, str) for text in found.values()), "a leaf")
    return Proved(cast(str, found["envelope"]).encode(), cast(str, found["inclusion"]).encode())


def _parse_revealed(value: Json) -> Revealed | None:
    if value is None:
        return None
    _require(isinstance(value, Mapping) and value.keys() == {"salt", "text"}, "what is revealed")
    found = cast("Mapping[str, Json]", value)
    _require(is_sha256_hex(found["salt"]) and is_text(found["text"]), "what is revealed")
    return Revealed(cast(str, found["text"]), bytes.fromhex(cast(str, found["salt"])))


def _parse_timestamp(value: Json) -> bytes:
    token = decode_base64(value) if isinstance(value, str) else None
    _require(token is not None and 0 < len(token) <= MAX_TIMESTAMP_BYTES, "a time stamp")
    return cast(bytes, token)


def is_text(value: Json) -> bool:
    """Say whether a text may be shown: nothing in it can make the page read differently than it is."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_TEXT
        and all(character in _JOINERS or unicodedata.category(character) not in _UNSEEN for character in value)
    )


def _is_name(value: Json) -> bool:
    return is_text(value) and len(cast(str, value)) <= MAX_NAME


def _require(valid: bool, what: str) -> None:
    if not valid:
        raise VerificationError(f"{what} is not as the format has it", code="certificate-field-invalid")
