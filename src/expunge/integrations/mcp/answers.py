"""What each tool answers. A field that is null is left out of the answer that a client gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from expunge.integrations.notebook import NotebookEdit

__all__ = [
    "ForgetResult",
    "ForgetSubjectResult",
    "GetResult",
    "LeafReceipt",
    "ListResult",
    "PreviewedNote",
    "RecallResult",
    "RecalledNote",
    "ReceiptCheck",
    "RememberResult",
    "StoredNote",
    "UpdateResult",
    "WarrantiesResult",
    "WarrantyStatus",
]


@dataclass(frozen=True)
class LeafReceipt:
    """The outcome of an edit, and the leaf of the ledger with its signed receipt."""

    outcome: str
    leaf: int

    @classmethod
    def of(cls, edit: NotebookEdit) -> LeafReceipt:
        """The receipt of one edit."""
        return cls(edit.outcome, edit.index)


@dataclass(frozen=True)
class RememberResult:
    """Ids of the notes that were kept, in order; after a dry run, no receipt, and ids only where they were given.

    ``notes`` counts the notes that the caller may see. A second receipt is that of a rebuild at the cap for the new
    size. Where ``refused`` is given, a dry run found why the notes would be refused.
    """

    ids: list[str]
    notes: int
    receipts: list[LeafReceipt]
    dry_run: bool = False
    refused: str | None = None

    @property
    def id(self) -> str:
        """The id of the first note."""
        return self.ids[0]


@dataclass(frozen=True)
class RecalledNote:
    """One note that was found.

    ``score`` is what the order is by, and is not to be compared between queries. ``similarity`` is κ of the two
    embeddings, from 0 to 1; a search by words alone embeds nothing and has none.
    """

    id: str
    text: str
    score: float
    similarity: float | None = None
    subject: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class RecallResult:
    """Notes, best first, and the offset to ask with for the next ones; no offset where there are no more."""

    notes: list[RecalledNote]
    next_offset: int | None = None


@dataclass(frozen=True)
class StoredNote:
    """One note as it is kept. ``derived_from`` has the ids of the notes that it was made from."""

    id: str
    text: str
    subject: str | None = None
    metadata: dict[str, Any] | None = None
    expires: str | None = None
    derived_from: list[str] | None = None


@dataclass(frozen=True)
class GetResult:
    """The notes that there are, in the order of the ids, and the ids that have none.

    Where all notes would be too long an answer, ``ids_left`` are to be asked for again.
    """

    notes: list[StoredNote]
    missing: list[str]
    ids_left: list[str] | None = None


@dataclass(frozen=True)
class ListResult:
    """A page of notes in order of their ids, and the id to give as ``after`` for the next; none after the last page."""

    notes: list[StoredNote]
    total: int
    next_after: str | None = None


@dataclass(frozen=True)
class UpdateResult:
    """The note's new id, and the ids that were erased: that of the old note, and of what was made from it.

    ``elsewhere`` says what went, or had to stay, in other memories, because it was made from the old note.
    """

    erased: list[str]
    notes: int
    receipts: list[LeafReceipt]
    id: str | None = None
    dry_run: bool = False
    elsewhere: list[str] | None = None
    refused: str | None = None
    waiting: str | None = None


@dataclass(frozen=True)
class PreviewedNote:
    """A note that would be erased, in its own words; long texts are cut, and say so.

    ``similarity`` is κ of its embedding to that of what was asked about. Where ``made_from`` is given, the note goes
    because it was made from these. A note without a text was pruned for good: its certificate is left.
    """

    id: str
    text: str | None = None
    subject: str | None = None
    similarity: float | None = None
    score: float | None = None
    made_from: list[str] | None = None


@dataclass(frozen=True)
class ForgetResult:
    """Ids of the notes that were erased; of a preview or a dry run, of those that would be, and nothing was erased.

    ``confirm`` is the token that erases exactly the previewed notes, as they are now, within ten minutes. ``notes``
    counts the notes that the caller may see. A second receipt is that of a rebuild at the cap for the new size.
    ``elsewhere`` says what went, or had to stay, in other memories, because it was made from these notes. Where
    ``waiting`` is given, it says why the database's files still hold what was erased; where ``refused`` is, a dry run
    found why the erasure would be refused.
    """

    erased: bool
    ids: list[str]
    notes: int
    receipts: list[LeafReceipt]
    preview: list[PreviewedNote] | None = None
    confirm: str | None = None
    advice: str | None = None
    elsewhere: list[str] | None = None
    refused: str | None = None
    waiting: str | None = None


@dataclass(frozen=True)
class ForgetSubjectResult:
    """What was erased of a person in every memory. Where ``complete`` is false, some memory refused, and says why.

    Where nothing belonged to the subject, ``entries`` is 0 and there is no summary, whether the subject was erased
    before or never there. ``look_alikes`` are subjects of this server's notes that look like the one named and were
    kept; ``not_searched`` are memories with entries that have no subject. Where ``waiting`` is given, it says why the
    database's files still hold what was erased.
    """

    complete: bool
    entries: int
    receipts: list[LeafReceipt]
    refused: list[str]
    look_alikes: list[str]
    not_searched: list[str]
    summary_leaf: int | None = None
    summary_salt: str | None = None
    dry_run: bool = False
    waiting: str | None = None


@dataclass(frozen=True)
class WarrantyStatus:
    """One pruned entry: what is proved to remain of its slack, and whether its certificate holds."""

    id: str
    mode: str
    status: str
    remaining: float | None = None


@dataclass(frozen=True)
class WarrantiesResult:
    """Certificates of pruned notes."""

    warranties: list[WarrantyStatus]


@dataclass(frozen=True)
class ReceiptCheck:
    """Whether a receipt verifies. For a check that does not rest on this server, use the three texts offline."""

    verified: bool
    log_key: str
    problem: str | None = None
    outcome: str | None = None
    time: str | None = None
    entries: int | None = None
    signed_receipt: str | None = None
    inclusion_proof: str | None = None
