"""One memory of a store as a notebook: it begins with nothing, grows, and may become empty again.

A fit at a cap C needs n ≥ ⌈1/C⌉ entries, and a memory needs one. An agent's first note is one entry, and a user may
ask for all of them back. So the cap follows the notebook, in recorded edits. For n notes it is that of ν for the
largest power of two that is at most n, whatever the number was before: a notebook that erased a note has the cap of
one that never had it.

- The first note creates the memory.
- A note or an erasure after which another cap is due is followed by a rebuild at that cap.
- An erasure that would leave too few for the cap is preceded by the rebuild instead.
- An erasure that leaves none drops the memory, and the next note creates another, under the same name.

A rebuild is a *different* reference and has its own receipt; it ends the certificates of entries pruned in the mode
*forget* and brings archived ones back. While such a certificate holds, its entry counts as a note. Growing from 1 to n
takes log₂ n rebuilds. Several threads and processes may use one notebook.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from expunge.errors import DeletionRefused, InputError, SolveError, StoreError, VerificationError
from expunge.memory.entries import check_id, decode_payload
from expunge.memory.version import Version
from expunge.problem.kernel import kernel_block
from expunge.problem.problem import Problem, cap_from, fewest_keys
from expunge.store import Conflict, Store, StoredMemory, SubjectErasure
from expunge.types import Vector

__all__ = ["Erasure", "Note", "Notebook", "NotebookEdit"]

log = logging.getLogger("expunge")

Result = TypeVar("Result")

# Another writer may come in between; each time means that its own edit went through.
_MAX_TRIES = 100


@dataclass(frozen=True)
class NotebookEdit:
    """One edit of a notebook: its outcome, the leaf of the ledger with its receipt, and the ids it was applied to."""

    outcome: str
    index: int
    applied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Erasure:
    """An erasure of a subject: the edits in this notebook, and the store's summary where other entries were left."""

    edits: tuple[NotebookEdit, ...]
    summary: SubjectErasure | None

    @property
    def complete(self) -> bool:
        """Whether nothing of the subject is left in the store."""
        return self.summary is None or self.summary.complete

    @property
    def count(self) -> int:
        """Entries erased, over all memories."""
        dropped = sum(len(edit.applied) for edit in self.edits if edit.outcome == "dropped")
        return dropped + (0 if self.summary is None else sum(len(names) for names in self.summary.applied.values()))


@dataclass(frozen=True, eq=False)
class Note:
    """One note; ``similarity`` is κ to what was asked, ``weight`` its coefficient, zero where it is archived."""

    id: str
    subject: str | None
    payload: Any
    key: Vector
    weight: float
    similarity: float = 1.0


class Notebook:
    """Notes under one name in a store."""

    def __init__(self, store: Store, name: str, *, sigma: float = 1.0, nu: float = 0.5) -> None:
        # A width or a sparsity that cannot be is found out now, and not with the first note.
        Problem.of([[0.0]], sigma=sigma, nu=nu)
        self.store = store
        self.name = name
        self.sigma = sigma
        self.nu = nu
        self._lock = threading.Lock()

    @property
    def memory(self) -> StoredMemory | None:
        """The memory, while there is a note."""
        return self.store[self.name] if self.name in self.store else None  # noqa: SIM401 — a store is no dict

    @property
    def dimension(self) -> int | None:
        """Coordinates of a key, once there is one."""
        return self.inspect(lambda version: int(version.state.gram.keys.shape[1]), None)

    def __len__(self) -> int:
        return self.inspect(_size, 0)

    def write(
        self,
        key: Vector,
        *,
        id: str | None = None,  # noqa: A002 — the public word
        subject: str | None = None,
        payload: Any = None,
        settle: bool = True,
    ) -> tuple[NotebookEdit, ...]:
        """Add a note; its value is its key. Without an id it gets one that no other note has or had.

        Without `settle` the cap stays as it is: for a caller who erases the note that this one replaces.
        """
        name = uuid.uuid4().hex if id is None else check_id(id)
        with self._lock:
            for _ in range(_MAX_TRIES):
                memory = self.memory
                if memory is None:
                    created = self._create(key, name, subject, payload)
                    if created is not None:
                        return (created,)
                    continue
                try:
                    receipt = memory.admit(key, key, id=name, subject=subject, payload=payload)
                except StoreError:
                    if self._is_current(memory):
                        raise
                    continue
                return (
                    NotebookEdit(receipt.outcome, receipt.index, receipt.applied),
                    *(self._settle(memory) if settle else ()),
                )
        raise self._conflict()

    def erase(self, ids: str | Iterable[str], *, missing_ok: bool = False) -> tuple[NotebookEdit, ...]:
        """Erase notes; the memory goes with the last of them. With `missing_ok` what is already gone is no error."""
        names = [ids] if isinstance(ids, str) else list(ids)
        with self._lock:
            return self._erase(lambda version: _known_ids(version, names, missing_ok), missing_ok=missing_ok)

    def erase_subject(self, subject: str) -> Erasure:
        """Erase everything of a subject: the notes here, and whatever other memories of the store have."""
        with self._lock:
            try:
                edits = self._erase(lambda version: _of_subject(version, subject), missing_ok=True, only_make_room=True)
            except (DeletionRefused, VerificationError):
                # The notebook is held or damaged; other memories may not be, and the summary tells of both.
                edits = ()
        try:
            summary = self.store.erase_subject(subject)
        except InputError:
            # Dropping the notebook may have taken the last of them.
            if not any(edit.outcome == "dropped" for edit in edits):
                raise
            return Erasure(edits, None)
        memory = self.memory
        return Erasure(edits if memory is None else (*edits, *self._settle(memory)), summary)

    def held(self, ids: list[str]) -> bool:
        """Whether a hold forbids to erase one of these notes."""
        memory = self.memory
        return memory is not None and bool(memory.holds_on(ids))

    def notes(self) -> tuple[Note, ...]:
        """Every note, those in the archive included."""
        return self.inspect(lambda version: tuple(_notes(version, range(_size(version)))), ())

    def nearest(self, query: Vector, count: int) -> tuple[Note, ...]:
        """Notes by similarity to a query, whatever they weigh; those in the archive included."""

        def found(version: Version) -> tuple[Note, ...]:
            similarity = kernel_block(query[None, :], _keys(version), version.state.gram.sigma)[0]
            rows = np.argsort(-similarity, kind="stable")[:count].tolist()
            return tuple(_notes(version, rows, similarity))

        return self.inspect(found, ())

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

    def _create(self, key: Vector, name: str, subject: str | None, payload: Any) -> NotebookEdit | None:
        try:
            memory = self.store.create(
                self.name,
                [key],
                [key],
                sigma=self.sigma,
                nu=self.nu,
                ids=[name],
                subjects=[subject],
                payloads=[payload],
            )
        except InputError:
            if self.memory is None:
                raise
            return None
        return NotebookEdit("created", self.store.receipts(memory.name, limit=1)[0].index, (name,))

    def _cap(self, count: int) -> float:
        """The cap for a number of notes: ν for the largest power of two that is at most as many."""
        return cap_from(1 << (count.bit_length() - 1), nu=self.nu)

    def _settle(self, memory: StoredMemory) -> tuple[NotebookEdit, ...]:
        """Rebuild where another cap is due for the notes there are."""
        try:
            for _ in range(_MAX_TRIES):
                size, certified, digest = memory.look(
                    lambda version: (_size(version), _certified(version), version.digest)
                )
                if memory.cap == self._cap(size + certified):
                    return ()
                try:
                    # It ends the certificates, so that their entries do not count any more.
                    receipt = memory.rebuild(cap=self._cap(size), expected=digest)
                except Conflict:
                    continue
                return (NotebookEdit(receipt.outcome, receipt.index),)
        except (StoreError, SolveError, VerificationError) as problem:
            # The edit is made; the cap can follow with a later one.
            log.info("%s keeps its cap for now: %s", self.name, problem)
        return ()

    def _erase(
        self, choose: Callable[[Version], list[str]], *, missing_ok: bool, only_make_room: bool = False
    ) -> tuple[NotebookEdit, ...]:
        """Erase what `choose` picks, or only make it possible to: the cap follows, or the memory goes.

        Each edit is taken on the state that the choice was made on, or the choice is made again. None is taken for what
        is held.
        """
        edits: list[NotebookEdit] = []
        for _ in range(_MAX_TRIES):
            memory = self.memory
            if memory is None:
                if missing_ok:
                    return tuple(edits)
                raise InputError(f"nothing is remembered in {self.name!r}")
            try:
                names, left, digest = memory.look(lambda version: (*_split(version, choose(version)), version.digest))
                held = bool(memory.holds_on(names))
                if held and only_make_room:
                    return tuple(edits)
                if names and not held and left == 0:
                    leaf = self.store.drop(self.name, expected=digest)
                    return (*edits, NotebookEdit("dropped", leaf.index, tuple(names)))
                if names and not held and left < fewest_keys(memory.cap):
                    receipt = memory.rebuild(cap=self._cap(left), expected=digest)
                    edits.append(NotebookEdit(receipt.outcome, receipt.index))
                    if not only_make_room:
                        continue
                if only_make_room:
                    return tuple(edits)
                if names or not missing_ok:
                    receipt = memory.delete(names, expected=digest)
                    edits.append(NotebookEdit(receipt.outcome, receipt.index, receipt.applied))
                return (*edits, *self._settle(memory))
            except Conflict:
                continue
            except DeletionRefused as problem:
                grounds = problem.receipt.refusal
                if grounds is None or grounds.reason != "too_few_entries":
                    raise
            except StoreError:
                if self._is_current(memory):
                    raise
        raise self._conflict()

    def _is_current(self, memory: StoredMemory) -> bool:
        """Whether the name still means this memory; somebody may have dropped it."""
        now = self.memory
        return now is not None and now.uuid == memory.uuid

    def _conflict(self) -> StoreError:
        return StoreError(f"{self.name!r} was edited by others {_MAX_TRIES} times in a row; try again")


def _size(version: Version) -> int:
    return version.size + len(version.warranties.archive)


def _certified(version: Version) -> int:
    """Forgotten entries whose certificates hold at this cap."""
    return sum(record.anchor is not None for record in version.warranties.forgotten.values())


def _keys(version: Version) -> Any:
    return np.vstack([version.keys, *(entry.key for entry in version.warranties.archive.values())])


def _notes(version: Version, rows: Iterable[int], similarity: Vector | None = None) -> Iterable[Note]:
    """Notes by row: live ones first, then the archive."""
    archive: Sequence[str] = list(version.warranties.archive)
    for row in rows:
        near = 1.0 if similarity is None else float(similarity[row])
        if row < version.size:
            slot, data = int(version.slots[row]), version.entries
            payload = decode_payload(data.payloads[slot])
            weight = float(version.coefficients[row])
            yield Note(data.ids[slot] or "", data.subjects[slot], payload, version.keys[row], weight, near)
        else:
            name = archive[row - version.size]
            entry = version.warranties.archive[name]
            yield Note(name, entry.subject, decode_payload(entry.payload), entry.key, 0.0, near)


def _known_ids(version: Version, names: list[str], missing_ok: bool) -> list[str]:
    if len(set(names)) < len(names):
        raise InputError("an id is listed twice; nothing was deleted")
    known = [version.slot(check_id(name)) is not None or name in version.warranties for name in names]
    if not missing_ok and not all(known):
        raise InputError(f"no entry has id {names[known.index(False)]!r}; nothing was deleted")
    return [name for name, there in zip(names, known, strict=True) if there]


def _of_subject(version: Version, subject: str) -> list[str]:
    live = [name for name, owner in zip(version.ids, version.subjects, strict=True) if owner == subject]
    return live + version.warranties.of_subject(subject)


def _split(version: Version, names: list[str]) -> tuple[list[str], int]:
    """What is to go, and how many notes stay."""
    gone = set(names)
    live = sum(name not in gone for name in version.ids)
    return names, live + sum(name not in gone for name in version.warranties.archive)
