"""One memory of a store as a notebook: it begins with nothing, grows, and may become empty again.

An agent's first note is one entry, and a user may ask for all of them back. So the cap follows the notebook, in
recorded edits. For n notes it is that of ν for the largest power of two that is at most n, whatever the number was
before: a notebook that erased a note has the cap of one that never had it.

- The first note creates the memory, with its dimension and the width σ.
- A note or an erasure after which another cap is due is followed by a rebuild at that cap.
- An erasure of the last note leaves the memory empty. A note of another dimension, under another σ or from another
  embedder replaces an empty memory.

A rebuild is a *different* reference and has its own receipt; it ends the certificates of entries pruned in the mode
*forget* and brings archived ones back. While such a certificate holds, its entry counts as a note. Growing from 1 to n
takes log₂ n rebuilds. Several threads and processes may use one notebook.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np

from expunge.errors import ExpungeError, InputError, SolveError, Stale, StoreError, VerificationError
from expunge.integrations.embedding import Embed, Embedder, embed_texts, embedder_of, require_same
from expunge.integrations.filters import check_filter
from expunge.integrations.note_search import Hit, SearchMode, check_mode, search_notes
from expunge.integrations.note_view import note_slot, page_slots, state_of, visible_ids, visible_slots
from expunge.memory.attributes import NO_ATTRIBUTES, Attributes, Source, decode_attributes
from expunge.memory.entries import check_id, check_subject, decode_payload
from expunge.memory.memory import Memory
from expunge.memory.queries import Neighbour, nearest
from expunge.memory.version import Version
from expunge.preprocessing import EmbedderIdentity, Preprocessing
from expunge.problem.problem import Problem, as_count, as_points, cap_from
from expunge.store import Conflict, JointErasure, Preview, Store, StoredMemory, SubjectErasure
from expunge.types import Matrix, Vector

__all__ = ["Erasure", "Note", "Notebook", "NotebookEdit"]

log = logging.getLogger("expunge")

Result = TypeVar("Result")

# Another writer may come in between; each time means that its own edit went through.
_MAX_TRIES = 100


class _Columns(TypedDict):
    """What notes have beside their keys."""

    ids: list[str]
    subjects: Sequence[str | None] | None
    payloads: Sequence[Any] | None
    expires: Sequence[datetime | None] | None
    derived_from: Sequence[Sequence[Source]] | None


@dataclass(frozen=True)
class NotebookEdit:
    """One edit of a notebook: its outcome, the leaf of the ledger with its receipt, and the ids it was applied to.

    ``elsewhere`` has what went in other memories of the store, because it was made from these notes.
    """

    outcome: str
    index: int
    applied: tuple[str, ...] = ()
    elsewhere: JointErasure | None = None


@dataclass(frozen=True)
class Erasure:
    """An erasure of a subject: the store's summary, and the rebuilds that followed in this notebook."""

    summary: SubjectErasure
    edits: tuple[NotebookEdit, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing of the subject is left in the store."""
        return self.summary.complete

    @property
    def count(self) -> int:
        """Entries erased, over all memories."""
        return sum(len(names) for names in self.summary.applied.values())


@dataclass(frozen=True, eq=False)
class Note:
    """One note; ``weight`` is its coefficient, zero where it is archived; ``attributes`` has its end and sources."""

    id: str
    subject: str | None
    payload: Any
    key: Vector
    weight: float
    attributes: Attributes = NO_ATTRIBUTES


class Notebook:
    """Notes under one name in a store."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        sigma: float = 1.0,
        nu: float = 0.5,
        actor: str | None = None,
        embed: Embedder | Embed | None = None,
    ) -> None:
        """Open a notebook; its memory is created with the first note.

        `embed` is what the keys are made with. Its name and digest are part of the memory, and another one is refused
        there as long as it has a note. Without it nothing is known of where keys come from, and nothing is checked.
        """
        # A width or a sparsity that cannot be is found out now, and not with the first note.
        Problem.of([[0.0]], sigma=sigma, nu=nu)
        self.store = store
        self.name = name
        self.sigma = sigma
        self.nu = nu
        # Who asks for its edits, for their receipts to commit to.
        self.actor = actor
        self.embedder = None if embed is None else embedder_of(embed)
        self._lock = threading.Lock()

    @property
    def memory(self) -> StoredMemory | None:
        """The memory, once there was a note."""
        return self.store[self.name] if self.name in self.store else None  # noqa: SIM401 — a store is no dict

    @property
    def dimension(self) -> int | None:
        """Coordinates of a key; None while there is no note."""
        return self.inspect(lambda version: _made_by(version)[0], None)

    def __len__(self) -> int:
        return self.inspect(_size, 0)

    def keys_of(self, texts: Sequence[str], embed: Embedder | Embed | None = None) -> Matrix:
        """Keys (n, d) of texts, by the notebook's embedder or the one that is given.

        Raises InputError for an embedder that the notes here were not made with.
        """
        embedder = self.embedder if embed is None else embedder_of(embed)
        if embedder is None:
            raise InputError("a text has a key by an embedder: give embed")
        nothing: tuple[int | None, EmbedderIdentity | None] = (None, None)
        dimension, known = self.inspect(_made_by, nothing)
        require_same(embedder, known)
        return embed_texts(embedder, texts, dimension)

    def write(
        self,
        key: Vector,
        *,
        id: str | None = None,  # noqa: A002 — the public word
        subject: str | None = None,
        payload: Any = None,
        expires: datetime | None = None,
        derived_from: Sequence[Source] = (),
    ) -> tuple[NotebookEdit, ...]:
        """Add a note; its value is its key. Without an id it gets one that no other note has or had.

        ``expires`` and ``derived_from`` are as for `Memory.admit`; a source may be in another memory of the store.
        """
        return self.write_many(
            [np.asarray(key)],
            ids=None if id is None else [id],
            subjects=[subject],
            payloads=[payload],
            expires=[expires],
            derived_from=[derived_from],
        )

    def write_many(
        self,
        keys: Sequence[Vector],
        *,
        ids: Sequence[str] | None = None,
        subjects: Sequence[str | None] | None = None,
        payloads: Sequence[Any] | None = None,
        expires: Sequence[datetime | None] | None = None,
        derived_from: Sequence[Sequence[Source]] | None = None,
        settle: bool = True,
    ) -> tuple[NotebookEdit, ...]:
        """Add notes in one edit: all of them, or none. See `write`.

        Without `settle` the cap stays as it is: for a caller who erases the notes that these replace.
        """
        points = as_points(keys, "keys")
        names = [uuid.uuid4().hex for _ in range(points.shape[0])] if ids is None else list(ids)
        columns: _Columns = {
            "ids": names,
            "subjects": subjects,
            "payloads": payloads,
            "expires": expires,
            "derived_from": derived_from,
        }
        with self._lock:
            for _ in range(_MAX_TRIES):
                memory = self.memory
                if memory is None:
                    created = self._create(points, columns)
                    if created is not None:
                        return (created,)
                    continue
                try:
                    unfit = memory.look(lambda version: self._unfit(version, points.shape[1]))
                    if unfit is None and self.embedder is not None:
                        require_same(self.embedder, memory.embedder)
                    if unfit is not None:
                        self.store.drop(self.name, expected=unfit, actor=self.actor)
                        continue
                    receipt = memory.admit_many(points, points, **columns, actor=self.actor)
                except Conflict:
                    continue
                except StoreError:
                    if self._is_current(memory):
                        raise
                    continue
                return (
                    NotebookEdit(receipt.outcome, receipt.index, receipt.applied),
                    *(self._settle(memory) if settle else ()),
                )
        raise self._conflict()

    def preview_many(self, keys: Sequence[Vector], **columns: Unpack[_Columns]) -> str | None:
        """Why `write_many` would refuse these notes, or None; nothing is written. It raises what that raises."""
        points, memory = as_points(keys, "keys"), self.memory
        if memory is None or memory.look(lambda version: self._unfit(version, points.shape[1])) is not None:
            # The notes would be the first: they are fitted aside.
            Memory.fit(points, points, sigma=self.sigma, cap=self._cap(points.shape[0]), **columns)
            return None
        if self.embedder is not None:
            require_same(self.embedder, memory.embedder)
        preview: Preview = memory.admit_many(points, points, **columns, dry_run=True)
        return preview.reason

    def preview_erasure(self, ids: Iterable[str]) -> Preview | None:
        """What `erase` would do to these notes and to what was made from them; None where there is none of them."""
        memory, known = self._known(ids)
        if memory is None or not known:
            return None
        preview: Preview = memory.delete(known, dry_run=True)
        return preview

    def closure(self, ids: Iterable[str]) -> str:
        """A digest of what `erase` would take with these notes, in whatever memory, whosever it is; "" for nothing."""
        memory, known = self._known(ids)
        return memory.closure(known) if memory is not None and known else ""

    def _known(self, ids: Iterable[str]) -> tuple[StoredMemory | None, list[str]]:
        """The memory, and those of the ids that it has."""
        names, nothing = list(ids), list[str]()
        return self.memory, self.inspect(lambda version: visible_ids(version, names), nothing)

    def replace(
        self,
        name: str,
        key: Vector,
        *,
        subject: str | None = None,
        owner: str | None = None,
        payload: Any = None,
        expires: datetime | None = None,
        derived_from: Sequence[Source] = (),
    ) -> tuple[NotebookEdit, ...]:
        """Write a note in place of another, which is erased: the new one is admitted first, under an id of its own.

        The first edit is the admission. With `subject` only a note of this subject is there to be replaced; `owner` is
        the new note's subject. If the old note cannot be erased, the new one is erased again.
        """
        if self.held([name]) or not self.get([name], subject=subject):
            # It raises what stands in the way, before anything is written.
            self.erase([name], subject=subject)
        columns = {"subjects": [owner], "payloads": [payload], "expires": [expires], "derived_from": [derived_from]}
        written = self.write_many([np.asarray(key)], settle=False, **columns)
        try:
            return *written, *self.erase([name], subject=subject)
        except ExpungeError:
            self.erase(written[0].applied, missing_ok=True)
            raise

    def erase(
        self,
        ids: str | Iterable[str],
        *,
        missing_ok: bool = False,
        subject: str | None = None,
        expected: str | None = None,
        closure: str | None = None,
    ) -> tuple[NotebookEdit, ...]:
        """Erase notes, the last one included, and what was made from them, in other memories of the store, too.

        With `missing_ok` what is already gone is no error. With `subject` only notes of this subject count as there.
        `expected` is the state that the caller has seen (`state`), `closure` what they have seen to go with the notes
        (the method `closure`); Stale is raised if it is another now.
        """
        names = [check_id(name) for name in ([ids] if isinstance(ids, str) else ids)]

        def choice(version: Version) -> tuple[list[str], str, str | None]:
            known = visible_ids(version, names, subject)
            if not missing_ok and len(known) < len(set(names)):
                missing = next(name for name in names if name not in known)
                raise InputError(f"no entry has id {missing!r}; nothing was erased")
            state = None if expected is None else state_of(version, subject)
            return known if missing_ok else names, version.digest, state

        with self._lock:
            for _ in range(_MAX_TRIES):
                memory = self.memory
                if memory is None:
                    if expected is not None:
                        raise Stale("there are no notes any more; nothing was erased")
                    if missing_ok:
                        return ()
                    raise InputError(f"nothing is remembered in {self.name!r}")
                try:
                    listed, digest, state = memory.look(choice)
                    if state == expected:
                        if not listed:
                            return self._settle(memory)
                        if closure is not None and memory.closure(listed) != closure:
                            break
                        # What is chosen is erased in the state that it was chosen in, or chosen again.
                        receipt = memory.delete(listed, expected=digest, closure=closure, actor=self.actor)
                        made = NotebookEdit(receipt.outcome, receipt.index, receipt.applied, receipt.elsewhere)
                        return made, *self._settle(memory)
                except Conflict:
                    continue
                except StoreError:
                    if self._is_current(memory):
                        raise
                    continue
                raise Stale(f"the notes are in the state {state}, not {expected}; nothing was erased")
            else:
                raise self._conflict()
        raise Stale("what was made from these notes is not what was seen; ask again")

    def erase_subject(self, subject: str) -> Erasure:
        """Erase everything of a subject: the notes here, and whatever other memories of the store have."""
        summary = self.store.erase_subject(subject, actor=self.actor)
        memory = self.memory
        return Erasure(summary, () if memory is None else self._settle(memory))

    def held(self, ids: list[str]) -> bool:
        """Whether a hold forbids to erase one of these notes."""
        memory = self.memory
        return memory is not None and bool(memory.holds_on(ids))

    def notes(self) -> tuple[Note, ...]:
        """Every note, those in the archive included, and those that have ended and are not swept yet."""
        return self.inspect(lambda version: tuple(_notes(version)), ())

    def get(self, ids: Iterable[str], *, subject: str | None = None) -> list[Note]:
        """Notes by id, in the order of the ids; with `subject` those of this subject alone. Others are left out."""
        names = [check_id(name) for name in dict.fromkeys(ids)]

        def found(version: Version) -> list[Note]:
            slots = [note_slot(version, name, subject) for name in names]
            return _notes_at(version, [slot for slot in slots if slot is not None])

        return self.inspect(found, [])

    def page(
        self, count: int, *, after: str = "", subject: str | None = None, where: Mapping[str, Any] | None = None
    ) -> list[Note]:
        """At most `count` notes that have not ended, in order of their ids, from the first id behind `after` on."""
        if where is not None:
            check_filter(where)

        def found(version: Version) -> list[Note]:
            return _notes_at(
                version, page_slots(version, count, after=after, subject=subject, where=where, now=self.store.now())
            )

        return self.inspect(found, [])

    def count(self, *, subject: str | None = None, where: Mapping[str, Any] | None = None) -> int:
        """How many notes there are that have not ended, of one subject or of all, and have what the filter asks for."""
        return self.inspect(lambda version: int(visible_slots(version, subject, where, self.store.now()).size), 0)

    def state(self, *, subject: str | None = None) -> str:
        """A digest of the notes there are, of one subject or of all; it changes with every edit of one of them."""
        return self.inspect(lambda version: state_of(version, subject), "")

    def made_from(self, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Notes that were made from these, directly or not, and that go with them: by id, with their sources."""
        names = [check_id(name) for name in ids]
        return self.inspect(lambda version: version.made_from(names), {})

    def nearest(self, query: Vector, count: int) -> list[Neighbour]:
        """Notes by distance to a query, whatever they weigh; those in the archive included."""

        def found(version: Version) -> list[Neighbour]:
            if not _size(version):
                return []
            return nearest(version, as_points(query, "query", dimension=version.keys.shape[1]), count)

        return self.inspect(found, [])

    def search(
        self,
        text: str,
        *,
        embed: Embedder | Embed | None = None,
        count: int = 10,
        offset: int = 0,
        mode: SearchMode | None = None,
        subject: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """Notes for a text, best first: by its words, by its meaning, or by both. Notes that have ended are left out.

        Parameters
        ----------
        text : str
            The query.
        embed : Embedder or callable, optional
            What the notes' keys were made with, where it is not the notebook's; not needed for the mode ``text``.
        count, offset : int
            How many notes to return, and how many of the best to pass over.
        mode : {"hybrid", "text", "meaning"}, optional
            What to rank by (`expunge.integrations.note_search.search_notes`); the embedder's own mode where it is not
            given.
        subject : str, optional
            Whose notes the search sees. Nothing of any other note is in the answer, nor in its scores.
        where : mapping, optional
            What the metadata of a note must have, such as ``{"topic": "tea", "year": {"$gte": 2024}}``.

        Returns
        -------
        list of Hit
            At most `count` notes, those in the archive included; of equal scores the smaller id is first.

        Raises
        ------
        InputError
            For an unknown mode or operator, and for an embedder that the notes' keys were not made with.

        """
        if not isinstance(text, str):
            raise InputError(f"a search is for a text, not {text!r:.80}")
        least, most = as_count(offset, 0, "offset counts notes"), as_count(count, 1, "count is at least one note")
        embedder = self.embedder if embed is None else embedder_of(embed)
        ranking = check_mode(mode or ("text" if embedder is None else embedder.mode))
        owner = check_subject(subject)
        if where is not None:
            check_filter(where)
        point = None
        if ranking != "text":
            if embedder is None:
                raise InputError("a search by meaning needs the notes' embedder: give embed, or mode='text'")
            if self.dimension is None:
                return []
            point = self.keys_of([text], embedder)[0]

        def found(version: Version) -> list[Hit]:
            if point is not None and embedder is not None:
                # Another process may have put other notes in place of these since their key was made.
                require_same(embedder, version.preprocessing.embedder)
            return search_notes(
                version,
                text,
                point,
                count=most,
                offset=least,
                mode=ranking,
                subject=owner,
                where=where,
                now=self.store.now(),
            )

        return self.inspect(found, [])

    def inspect(self, function: Callable[[Version], Result], empty: Result) -> Result:
        """What `function` makes of the memory as it is now, whole; `empty` where there is none."""
        memory = self.memory
        if memory is None:
            return empty
        try:
            return memory.look(function)
        except StoreError:
            if self._is_current(memory):
                raise
            return empty

    def _create(self, points: Matrix, columns: _Columns) -> NotebookEdit | None:
        """Create the memory with its first notes; None if another writer created it first."""
        try:
            memory = self.store.create(
                self.name,
                points,
                points,
                sigma=self.sigma,
                cap=self._cap(points.shape[0]),
                preprocessing=Preprocessing(embedder=self._identity),
                **columns,
                actor=self.actor,
            )
        except InputError:
            if self.memory is None:
                raise
            return None
        return NotebookEdit("created", self.store.receipts(memory.name, limit=1)[0].index, tuple(columns["ids"]))

    @property
    def _identity(self) -> EmbedderIdentity | None:
        return None if self.embedder is None else self.embedder.identity

    def _unfit(self, version: Version, dimension: int) -> str | None:
        """The digest of an empty memory that was made for other notes; None of any other.

        Those are notes of another dimension or width, or from another embedder.
        """
        gram = version.state.gram
        here = (int(gram.keys.shape[1]), gram.sigma, version.preprocessing.embedder)
        return None if _size(version) or here == (dimension, self.sigma, self._identity) else version.digest

    def _cap(self, count: int) -> float:
        """The cap for a number of notes: ν for the largest power of two that is at most as many."""
        return cap_from(1 << (count.bit_length() - 1), nu=self.nu)

    def _settle(self, memory: StoredMemory) -> tuple[NotebookEdit, ...]:
        """Rebuild where another cap is due for the notes there are; that of no notes is 1 in any case."""
        try:
            for _ in range(_MAX_TRIES):
                size, certified, digest = memory.look(
                    lambda version: (_size(version), _certified(version), version.digest)
                )
                if not size or memory.cap == self._cap(size + certified):
                    return ()
                try:
                    # It ends the certificates, so that their entries do not count any more.
                    receipt = memory.rebuild(cap=self._cap(size), expected=digest, actor=self.actor)
                except Conflict:
                    continue
                return (NotebookEdit(receipt.outcome, receipt.index),)
        except (StoreError, SolveError, VerificationError) as problem:
            # The edit is made; the cap can follow with a later one.
            log.info("%s keeps its cap for now: %s", self.name, problem)
        return ()

    def _is_current(self, memory: StoredMemory) -> bool:
        """Whether the name still means this memory; somebody may have dropped it."""
        now = self.memory
        return now is not None and now.uuid == memory.uuid

    def _conflict(self) -> StoreError:
        return StoreError(f"{self.name!r} was edited by others {_MAX_TRIES} times in a row; try again")


def _size(version: Version) -> int:
    return version.size + len(version.warranties.archive)


def _made_by(version: Version) -> tuple[int | None, EmbedderIdentity | None]:
    """Dimension of the keys, and what made them; None for both while there is no note."""
    if not _size(version):
        return None, None
    return int(version.state.gram.keys.shape[1]), version.preprocessing.embedder


def _certified(version: Version) -> int:
    """Forgotten entries whose certificates hold at this cap."""
    return sum(record.anchor is not None for record in version.warranties.forgotten.values())


def _notes_at(version: Version, slots: Iterable[int]) -> list[Note]:
    """The notes in these slots, live or archived."""
    data, archive = version.entries, version.warranties.archive
    found = []
    for slot in slots:
        name = data.ids[slot] or ""
        live = bool(version.alive[slot])
        row = int(np.searchsorted(version.slots, slot))
        key = version.keys[row] if live else archive[name].key
        weight = float(version.coefficients[row]) if live else 0.0
        found.append(_note(name, data.subjects[slot], data.payloads[slot], key, weight))
    return found


def _notes(version: Version) -> Iterable[Note]:
    """Every note: live ones first, then the archive."""
    data = version.entries
    columns = zip(version.slots.tolist(), version.keys, version.coefficients.tolist(), strict=True)
    for slot, key, weight in columns:
        yield _note(data.ids[slot] or "", data.subjects[slot], data.payloads[slot], key, weight)
    for name, entry in version.warranties.archive.items():
        yield _note(name, entry.subject, entry.payload, entry.key, 0.0)


def _note(name: str, subject: str | None, encoded: bytes | None, key: Vector, weight: float) -> Note:
    return Note(name, subject, decode_payload(encoded), key, weight, decode_attributes(encoded))
