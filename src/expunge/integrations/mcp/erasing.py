"""Erasing notes for a caller: by id, by meaning with a preview, and everything of a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from expunge.errors import Conflict, InputError, Stale
from expunge.integrations.mcp.answers import ForgetResult, ForgetSubjectResult, PreviewedNote
from expunge.integrations.mcp.forget_previews import ForgetPreview, ForgetPreviews
from expunge.integrations.mcp.note_fields import MAX_ANSWER, cut_text, text_of
from expunge.integrations.mcp.visibility import Visibility
from expunge.integrations.notebook import Note, NotebookEdit
from expunge.problem.kernel import kernel_block
from expunge.store import SubjectErasure, SubjectSearch

__all__ = ["Erasing"]

# Characters of a note in a preview, at most and at least.
MAX_PREVIEW = 1000
MIN_PREVIEW = 80

_ADVICE = (
    "Nothing was erased. Show these notes to the person. If all of them are to go, call forget with confirm alone, "
    "within ten minutes; if only some, call forget with their ids."
)
_NOTHING = "Nothing was found, and nothing was erased. Try other words, a larger k, or list."
_EDITED = (
    "the notes, or something that was made from them, were edited since this preview, and it confirms nothing any "
    "more. Call forget with about again, and show the person the new preview"
)


@dataclass(frozen=True)
class Erasing:
    """The erasures of one caller, as far as they see; ``previews`` are the server's."""

    sight: Visibility
    previews: ForgetPreviews

    @property
    def _caller(self) -> str | None:
        return None if self.sight.caller is None else self.sight.caller.name

    def preview(self, about: str, scope: str | None, where: Mapping[str, Any] | None, count: int) -> ForgetResult:
        """Notes that an erasure by meaning would take, and the token that confirms it."""
        notebook = self.sight.notebook
        while True:
            state = notebook.state(subject=scope)
            hits = notebook.search(about, count=count, subject=scope, where=where)
            ids = [hit.id for hit in hits]
            closure = notebook.closure(ids)
            shown = self._previewed(ids, scope, {hit.id: hit.score for hit in hits}, about)
            reason, elsewhere = self.sight.would(ids)
            kept = ForgetPreview(self._caller, scope, tuple(self.sight.going(ids, scope)), state, closure)
            if (notebook.state(subject=scope), notebook.closure(kept.ids)) == (state, closure):
                break
        return ForgetResult(
            False,
            [note.id for note in shown],
            self.sight.count(scope),
            [],
            preview=shown,
            confirm=self.previews.keep(kept) if ids else None,
            advice=_ADVICE if ids else _NOTHING,
            elsewhere=elsewhere,
            refused=reason,
        )

    def confirm(self, token: str, *, dry_run: bool) -> ForgetResult:
        """Erase what a preview showed, if nothing that the caller sees has changed since, and nothing more would go."""
        kept, notebook = self.previews.find(token, self._caller), self.sight.notebook
        try:
            if dry_run:
                if (notebook.state(subject=kept.subject), notebook.closure(kept.ids)) != (kept.state, kept.closure):
                    raise Stale
                return self.erase(list(kept.ids), kept.subject, dry_run=True)
            result = self.erase(list(kept.ids), kept.subject, dry_run=False, expected=kept)
        except Stale:
            self.previews.end(token)
            raise Conflict(_EDITED, code="preview-ended") from None
        self.previews.end(token)
        return result

    def erase(
        self, names: list[str], scope: str | None, *, dry_run: bool, expected: ForgetPreview | None = None
    ) -> ForgetResult:
        """Erase those of the notes that are there, and what was made from them.

        With the preview that was ``expected``, Stale is raised where the notes or what goes with them are others now.
        """
        sight, going = self.sight, self.sight.going(names, scope)
        if dry_run:
            shown, (reason, elsewhere) = self._previewed(names, scope), sight.would(names)
            count = sight.count(scope)
            return ForgetResult(False, going, count, [], preview=shown, elsewhere=elsewhere, refused=reason)
        with sight.discreet():
            edits = sight.notebook.erase(
                names,
                missing_ok=True,
                subject=scope,
                expected=None if expected is None else expected.state,
                closure=None if expected is None else expected.closure,
            )
        applied = {name for edit in edits for name in edit.applied}
        return ForgetResult(
            True,
            [name for name in going if name in applied],
            sight.count(scope),
            sight.receipts(edits),
            elsewhere=sight.elsewhere(edits),
            waiting=sight.notebook.store.waiting(),
        )

    def erase_subject(self, subject: str | None, *, dry_run: bool) -> ForgetSubjectResult:
        """Erase everything of a person, in every memory of the store."""
        sight, store = self.sight, self.sight.notebook.store
        if sight.caller is not None and not sight.caller.whole_store:
            raise InputError(
                "this token is for one memory, and a person may have notes in others: list and forget by ids, or use a "
                "token for the whole store",
                code="forbidden",
            )
        owner = sight.scope(subject)
        if owner is None:
            raise InputError("say whose notes to erase: give subject")
        previews = store.erase_subject(owner, dry_run=True) if dry_run or not sight.whole else None
        # What was made from theirs, and is of others, goes, too, and is not theirs to count.
        own = sum(len(one.applied) - len(one.derived) for one in (previews or {}).values())
        if dry_run and previews is not None:
            reasons = [(name, one.reason) for name, one in previews.items()]
            return ForgetSubjectResult(
                complete=all(reason is None for _, reason in reasons),
                entries=sum(len(one.applied) for one in previews.values()) if sight.whole else own,
                receipts=[],
                refused=sight.refused(reasons),
                look_alikes=self._look_alikes(previews.search),
                not_searched=self._not_searched(previews.search),
                dry_run=True,
            )
        done = sight.notebook.erase_subject(owner)
        summary = done.summary
        parts = [NotebookEdit(part.outcome, part.receipt.index) for part in summary.memories if part.receipt]
        receipts = sight.receipts([*parts, *done.edits])
        if summary.index is not None:
            sight.told.add(summary.index)
        return ForgetSubjectResult(
            complete=done.complete,
            entries=done.count if sight.whole else own,
            receipts=sorted(receipts, key=lambda receipt: receipt.leaf),
            refused=sight.refused((part.memory, part.reason) for part in summary.memories if part.kept),
            look_alikes=self._look_alikes(summary),
            not_searched=self._not_searched(summary),
            summary_leaf=summary.index,
            summary_salt=None if summary.salt is None else summary.salt.hex(),
            waiting=store.waiting(),
        )

    def _look_alikes(self, found: SubjectErasure | SubjectSearch) -> list[str]:
        """Subjects that look alike; what others wrote in other memories is not this client's to read."""
        here = self.sight.notebook.name
        return [one.subject for one in found.look_alikes if self.sight.whole and here in one.memories]

    def _not_searched(self, found: SubjectErasure | SubjectSearch) -> list[str]:
        return [one.memory for one in found.not_searched if self.sight.whole]

    def _previewed(
        self, names: list[str], scope: str | None, scores: Mapping[str, float] | None = None, about: str | None = None
    ) -> list[PreviewedNote]:
        """The notes that an erasure of these would take, as far as the caller sees them."""
        sight = self.sight
        derived, ids = sight.notebook.made_from(names), sight.going(names, scope)
        found = {note.id: note for note in sight.notebook.get(ids, subject=scope)}
        alike = {} if about is None else self._similarities(about, list(found.values()))
        most = min(MAX_PREVIEW, max(MIN_PREVIEW, MAX_ANSWER // max(1, len(ids))))
        shown = []
        for name in ids:
            note = found.get(name)
            shown.append(
                PreviewedNote(
                    name,
                    None if note is None else cut_text(text_of(note.payload), most),
                    sight.bound_to if note is None else note.subject,
                    similarity=alike.get(name),
                    score=(scores or {}).get(name),
                    made_from=sight.known(derived[name], scope) if name in derived else None,
                )
            )
        return shown

    def _similarities(self, text: str, notes: list[Note]) -> dict[str, float]:
        """κ of each note's key and that of a text."""
        notebook = self.sight.notebook
        if not notes:
            return {}
        point, keys, memory = notebook.keys_of([text]), np.array([note.key for note in notes]), notebook.memory
        width = notebook.sigma if memory is None else memory.sigma
        return dict(zip((note.id for note in notes), kernel_block(point, keys, width)[0].tolist(), strict=True))
