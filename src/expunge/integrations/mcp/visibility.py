"""What a caller may see and be told: whose notes, which receipts, and why something had to stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from expunge.display.card import counted
from expunge.errors import DeletionRefused, InputError
from expunge.integrations.mcp.answers import LeafReceipt, StoredNote
from expunge.integrations.mcp.note_fields import check_name, metadata_of, text_of
from expunge.integrations.note_view import visible_ids
from expunge.integrations.notebook import Note, Notebook, NotebookEdit

__all__ = ["Caller", "Visibility"]

_HELD = "these notes, or some that were made from them, must be kept: a hold is on them"
_STAYS = "another memory has something that was made from these notes, and keeps it for now"


@dataclass(frozen=True)
class Caller:
    """Who calls over HTTP: the name of the token, its scopes, and whether it is for the whole store."""

    name: str
    scopes: frozenset[str]
    whole_store: bool = True


@dataclass(frozen=True)
class Visibility:
    """What is visible to one caller of a server that may be bound to one subject, or require one with each call.

    ``told`` has the leaves that callers of the server were told; a bound server checks no others by number.
    """

    notebook: Notebook
    bound_to: str | None = None
    require_subject: bool = False
    caller: Caller | None = None
    told: set[int] = field(default_factory=set)

    @property
    def whole(self) -> bool:
        """Whether the caller may know of other people's notes, and of other memories."""
        return self.bound_to is None and (self.caller is None or self.caller.whole_store)

    def scope(self, subject: str | None) -> str | None:
        """The subject whose notes a call sees and touches, or None for all notes."""
        named = None if subject is None else check_name(subject, "subject")
        if self.bound_to is not None:
            if named not in (None, self.bound_to):
                raise InputError(f"this server is for one subject, and {named!r} is another", code="forbidden")
            return self.bound_to
        if named is None and self.require_subject:
            raise InputError("say whose notes the call is about: give subject, a user's id")
        return named

    def count(self, *subjects: str | None) -> int:
        """Notes that a call about these subjects may see: all, unless the server is bound to one, or requires one."""
        if self.bound_to is None and not self.require_subject:
            return self.notebook.count(subject=None)
        return sum(self.notebook.count(subject=scope) for scope in {self.scope(subject) for subject in subjects})

    def known(self, names: Sequence[str], scope: str | None) -> list[str]:
        """Those of the ids that have a note in the scope."""
        return self.notebook.inspect(lambda version: visible_ids(version, names, scope), [])

    def going(self, names: list[str], scope: str | None) -> list[str]:
        """Ids of these notes and of what was made from them, as far as the scope has them."""
        return self.known([*names, *self.notebook.made_from(names)], scope)

    def stored(self, notes: list[Note], scope: str | None) -> list[StoredNote]:
        """Notes as the caller may read them: a source that they do not see, or in another memory, is left out."""
        sources = [source for note in notes for source in note.attributes.derived_from if isinstance(source, str)]
        seen = set(self.known(sources, scope))
        return [
            StoredNote(
                note.id,
                text_of(note.payload),
                note.subject,
                metadata_of(note.payload),
                None if note.attributes.expires is None else f"{note.attributes.expires:%Y-%m-%dT%H:%M:%SZ}",
                [str(source) for source in note.attributes.derived_from if source in seen] or None,
            )
            for note in notes
        ]

    def require_sources(self, sources: list[str], owner: str | None, earlier: Collection[str | None] = ()) -> None:
        """Raise InputError where a note is made from one that the caller does not see, as if there were none.

        ``earlier`` has the ids of notes of the same owner that are kept in the same call.
        """
        if self.bound_to is None and not self.require_subject:
            return
        seen = {*self.known(sources, owner), *earlier}
        if hidden := [source for source in sources if source not in seen]:
            raise InputError(
                f"a note is made from {hidden[0]!r}, which is not there: keep the source first, or leave it out",
                code="source-unknown",
            )

    def receipts(self, edits: Iterable[NotebookEdit]) -> list[LeafReceipt]:
        """Receipts of edits, with those of other memories for a caller who may know of them."""
        receipts = []
        for edit in edits:
            receipts.append(LeafReceipt.of(edit))
            if edit.elsewhere is not None and self.whole:
                parts = edit.elsewhere.memories
                receipts += [LeafReceipt(part.outcome, part.receipt.index) for part in parts if part.receipt]
                receipts += [] if edit.elsewhere.index is None else [LeafReceipt("erased", edit.elsewhere.index)]
        self.told.update(receipt.leaf for receipt in receipts)
        return receipts

    def require_told(self, leaf: int) -> None:
        """Raise InputError where a leaf is not this caller's to check by its number."""
        if self.bound_to is not None and leaf not in self.told:
            raise InputError(
                "this server is bound to one subject, and answers for the leaves that it told since it was started: "
                "give the text of the receipt",
                code="forbidden",
            )
        if self.caller is not None and not self.caller.whole_store:
            memory = self.notebook.memory
            if memory is None or self.notebook.store.leaf(leaf).memory != memory.uuid:
                raise InputError("this token is for one memory, and the leaf is of another", code="forbidden")

    def would(self, names: list[str]) -> tuple[str | None, list[str] | None]:
        """Why an erasure would be refused, and what it would take in other memories."""
        preview = self.notebook.preview_erasure(names)
        if preview is None:
            return None, None
        parts = [(memory, one.reason, len(one.applied)) for memory, one in preview.elsewhere.items()]
        return preview.reason and self._reason(preview.reason), self._elsewhere(parts)

    def elsewhere(self, edits: Iterable[NotebookEdit]) -> list[str] | None:
        """What went in other memories, and what had to stay there."""
        found = [part for edit in edits if edit.elsewhere is not None for part in edit.elsewhere.memories]
        return self._elsewhere([(part.memory, part.reason, len(part.applied)) for part in found])

    def refused(self, parts: Iterable[tuple[str, str | None]]) -> list[str]:
        """Memories that refuse, and why."""
        refused = [(name, reason) for name, reason in parts if reason is not None]
        if self.whole:
            return [f"{name}: {reason}" for name, reason in refused]
        return [_HELD if name == self.notebook.name else _STAYS for name, _ in refused]

    @contextmanager
    def discreet(self) -> Iterator[None]:
        """Tell the refusal of an erasure as this caller may know it."""
        try:
            yield
        except DeletionRefused as problem:
            raise DeletionRefused(self._reason(problem.reason), receipt=problem.receipt) from None

    def _elsewhere(self, parts: list[tuple[str, str | None, int]]) -> list[str] | None:
        """By memory, why it keeps what was to go, or how much went; others learn only that something had to stay."""
        if self.whole:
            return [f"{memory}: {reason or counted(size, 'entry')}" for memory, reason, size in parts] or None
        return [_STAYS] if any(reason is not None for _, reason, _ in parts) else None

    def _reason(self, reason: str) -> str:
        """Whose entry a hold keeps is not for a caller who sees one person's notes."""
        return reason if self.bound_to is None else _HELD
