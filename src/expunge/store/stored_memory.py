"""A memory in a store: the verbs of `Memory`, each edit durable, signed and exclusive.

An edit takes the memory's lock in the database, makes sure that the loaded version is the stored one, and lets the
memory prepare the next. The memory's journal then writes rows, ledger leaf and erasure in one transaction; only after
its commit does the new version count here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypedDict, Unpack, overload

from sqlalchemy import select

from expunge.certificates.warranty import Mode
from expunge.display.card import Card
from expunge.errors import Busy, ExpungeError, InputError, Refused, Stale, StoreError
from expunge.memory.active_entries import ActiveEntries
from expunge.memory.attributes import DerivedChoice, Source
from expunge.memory.entries import check_ids, check_subject, check_subjects, listed
from expunge.memory.memory import Memory
from expunge.memory.reader import Found, MemoryReader
from expunge.memory.receipt import Action, Receipt
from expunge.memory.version import Version
from expunge.memory.version_table import version_card
from expunge.preprocessing.measurements import key_coordinates, value_numbers
from expunge.problem.check import StateCheck
from expunge.problem.problem import as_count, as_points, as_values
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import memories
from expunge.store.cases import Case
from expunge.store.derivations import Node
from expunge.store.edits.edit_preview import Edit, Preview, preview_edit
from expunge.store.edits.edit_queue import EditQueue
from expunge.store.edits.edit_transaction import (
    AskedEdit,
    EditTransaction,
    MemoryContext,
    check_closure,
    check_expected,
    commit_together,
    write_together,
)
from expunge.store.edits.group_commit import Moment, WaitingEdit
from expunge.store.edits.idempotency import Request, same_entry
from expunge.store.edits.signed_receipt import SignedReceipt
from expunge.store.erasure_plan import Part, closure_digest, part_request, plan_of
from expunge.store.joint_erasure import delete_closure, preview_parts, refuse_derived
from expunge.store.legal_holds import Hold, holds_on_entries, read_holds
from expunge.store.partial_reads import StateSummary, read_summary
from expunge.store.rows import LoadedMemory
from expunge.store.stated_entries import StatedEntries
from expunge.store.version_cache import VersionCache, refuse_direct_edit
from expunge.types import Progress, Rows

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["AdmitManyOptions", "AdmitOptions", "DeleteOptions", "EditOptions", "PruneOptions", "StoredMemory"]


class EditOptions(TypedDict, total=False):
    """Options of every edit of a stored memory: see `StoredMemory.delete`."""

    expected: str | None
    idempotency_key: str | None
    case: str | None
    actor: str | None


class AdmitOptions(EditOptions, total=False):
    """Options of `StoredMemory.admit`."""

    id: str | None
    subject: str | None
    payload: Any
    expires: datetime | None
    derived_from: Sequence[Source]
    on_expiry: Literal["report", "refuse"]


class AdmitManyOptions(EditOptions, total=False):
    """Options of `StoredMemory.admit_many`."""

    ids: Sequence[str] | None
    subjects: Sequence[str | None] | None
    payloads: Sequence[Any] | None
    expires: Sequence[datetime | None] | None
    derived_from: Sequence[Sequence[Source]] | None
    on_expiry: Literal["report", "refuse"]


class DeleteOptions(EditOptions, total=False):
    """Options of `StoredMemory.delete`."""

    subject: str | None
    derived: DerivedChoice
    closure: str | None


class PruneOptions(EditOptions, total=False):
    """Options of `StoredMemory.prune`."""

    sketch: SupportsIndex
    progress: Progress | None


class _MadeElsewhere(ExpungeError):
    """Raised under the lock of a memory, before anything is written: a deletion takes entries of other memories."""


class StoredMemory(MemoryReader):
    """One memory of a store. Get it from `Store.create` or ``store[name]``."""

    def __init__(self, context: MemoryContext, name: str, store: Store) -> None:
        self.number = context.number
        self.uuid = context.uuid
        self.name = name
        self.context = context
        self._store = store
        self.versions = VersionCache(context, name, store.budget)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two handles would edit one loaded version."""
        raise StoreError(
            f"a stored memory is not copied or pickled: get {self.name!r} from its store again, or save() it to a file"
        )

    def __repr__(self) -> str:
        return f"<StoredMemory {self.name!r} of {self.describe()}>"

    def _card(self) -> Card:
        return self.look(lambda version: version_card(f"Memory {self.name!r} of a store", version))

    @property
    def queue(self) -> EditQueue[WaitingEdit]:
        """Where edits of this memory wait, with those of others."""
        return self._store.group_commits.queue_of(self.uuid)

    @property
    def initial_size(self) -> int | None:
        """Number of entries that the cap was set for, as the ledger has it."""
        return self._current().initial_size

    @property
    def edit(self) -> int:
        """How many edits led to the current state."""
        return self.version.edit

    @property
    def version(self) -> Version:
        """The current version, brought up to date."""
        return self._current().version

    def look(self, at: Callable[[Version], Found]) -> Found:
        """Return what `at` makes of the current version; `at` is called again if an edit comes in between."""
        return self._current().look(at)

    def ask(self, at: Callable[[ActiveEntries], Found]) -> Found:
        """Return what `at` makes of the entries with a weight.

        Of a memory with more than 10,000 entries these are opened without the others, and answer until the memory is
        edited, or asked for more. They are checked against their commitments, and the state against its secrets and the
        last receipt. The digest, which covers every entry, is checked when the memory is loaded, by `digest` and
        others; that the weights are the optimum before its first edit, by `check`, and by `Store.verify`.
        """
        opened = self.versions.opened()
        return super().ask(at) if opened is None else at(opened)

    def check(self) -> StateCheck:
        """As `Memory.check`: edits in this process wait until it is done."""
        return self._current().check()

    def preload(self) -> bool:
        """Load the memory, if there is room for it in the store's memory budget; whether there is."""
        if not self._store.budget.has_room:
            return False
        self._current()
        return True

    def make_ready(self) -> None:
        """Build what edits start from, and find out whether the weights are the optimum. See `Memory.make_ready`."""
        self._current().make_ready()

    def summary(self, *, entries: bool = False) -> StateSummary:
        """Sizes, cap, width, offset and digest, from the stored state: no entry is loaded, and none is checked.

        With `entries`, every entry is opened and checked against its commitment, the digest is recomputed from the
        entries and their weights, and subjects are counted; that the weights are the optimum is for `check` to say.
        Raises VerificationError where the state is not that of the entries in the tables, or of the last receipt.
        """
        with self._reading() as connection:
            return read_summary(connection, self.number, opened=entries)

    def save(self, path: str | Path) -> None:
        """Write the current version to one file, content and all."""
        self._current().save(path)

    def refit(self) -> Memory:
        """Fresh memory, not stored, with the same entries and cap."""
        return self._current().refit()

    @overload
    def admit(
        self,
        key: Rows,
        value: Rows,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[AdmitOptions],
    ) -> SignedReceipt: ...
    @overload
    def admit(self, key: Rows, value: Rows, *, dry_run: Literal[True], **options: Unpack[AdmitOptions]) -> Preview: ...
    @overload
    def admit(
        self, key: Rows, value: Rows, *, dry_run: bool, **options: Unpack[AdmitOptions]
    ) -> SignedReceipt | Preview: ...
    def admit(
        self,
        key: Rows,
        value: Rows,
        *,
        id: str | None = None,  # noqa: A002 — the public word
        subject: str | None = None,
        payload: Any = None,
        expires: datetime | None = None,
        derived_from: Sequence[Source] = (),
        on_expiry: Literal["report", "refuse"] = "report",
        dry_run: bool = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
        case: str | None = None,
        actor: str | None = None,
    ) -> SignedReceipt | Preview:
        """Add one entry. See `Memory.admit`; the other options are those of `delete`."""
        owner, asked = check_subject(subject), Case.of(case, actor)
        request = self._request(idempotency_key, case, verb="admit", id=id, subject=owner, on_expiry=on_expiry)
        stated = StatedEntries.of(self._store, self.name, [payload], [expires], [derived_from], 1)

        def edit(memory: Memory) -> Receipt:
            stated.require_to_come(self.context.identity.clock())
            return memory.admit(key, value, id=id, subject=subject, payload=stated.payloads[0], on_expiry=on_expiry)

        if dry_run:
            stated.require_outside(stated.memories(self._store))
            return self._preview(edit, expected)

        def same(version: Version, name: str, row: int) -> bool:
            return same_entry(version, name, key, value, stated.payloads[row])

        return self._apply(edit, "admission", request, expected, asked, same=same, stated=stated)

    @overload
    def admit_many(
        self,
        keys: Rows,
        values: Rows,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[AdmitManyOptions],
    ) -> SignedReceipt: ...
    @overload
    def admit_many(
        self, keys: Rows, values: Rows, *, dry_run: Literal[True], **options: Unpack[AdmitManyOptions]
    ) -> Preview: ...
    @overload
    def admit_many(
        self, keys: Rows, values: Rows, *, dry_run: bool, **options: Unpack[AdmitManyOptions]
    ) -> SignedReceipt | Preview: ...
    def admit_many(
        self,
        keys: Rows,
        values: Rows,
        *,
        ids: Sequence[str] | None = None,
        subjects: Sequence[str | None] | None = None,
        payloads: Sequence[Any] | None = None,
        expires: Sequence[datetime | None] | None = None,
        derived_from: Sequence[Sequence[Source]] | None = None,
        on_expiry: Literal["report", "refuse"] = "report",
        dry_run: bool = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
        case: str | None = None,
        actor: str | None = None,
    ) -> SignedReceipt | Preview:
        """Add entries in one edit with one receipt. See `Memory.admit_many`; other options are those of `delete`."""
        columns = self.preprocessing
        points = as_points(key_coordinates(keys, columns), "keys", dimension=self.dimension, empty=True)
        size = points.shape[0]
        contents = as_values(value_numbers(values, columns), size)
        names = None if ids is None else check_ids(ids, size)
        owners, asked = check_subjects(subjects, size), Case.of(case, actor)
        stated = StatedEntries.of(self._store, self.name, payloads, expires, derived_from, size)
        request = self._request(
            idempotency_key, case, verb="admit_many", count=size, ids=names, subjects=owners, on_expiry=on_expiry
        )

        def edit(memory: Memory) -> Receipt:
            stated.require_to_come(self.context.identity.clock())
            return memory.admit_many(
                points, contents, ids=names, subjects=owners, payloads=stated.payloads, on_expiry=on_expiry
            )

        if dry_run:
            stated.require_outside(stated.memories(self._store))
            return self._preview(edit, expected)

        def same(version: Version, name: str, row: int) -> bool:
            return same_entry(version, name, points[row], contents[row], stated.payloads[row])

        return self._apply(edit, "admission", request, expected, asked, same=same, stated=stated)

    @overload
    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[DeleteOptions],
    ) -> SignedReceipt: ...
    @overload
    def delete(
        self, ids: str | Iterable[str] | None = None, *, dry_run: Literal[True], **options: Unpack[DeleteOptions]
    ) -> Preview: ...
    @overload
    def delete(
        self, ids: str | Iterable[str] | None = None, *, dry_run: bool, **options: Unpack[DeleteOptions]
    ) -> SignedReceipt | Preview: ...
    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        subject: str | None = None,
        derived: DerivedChoice = "erase",
        dry_run: bool = False,
        expected: str | None = None,
        closure: str | None = None,
        idempotency_key: str | None = None,
        case: str | None = None,
        actor: str | None = None,
    ) -> SignedReceipt | Preview:
        """Remove entries by id, by several ids, or by subject, in one transaction. See `Memory.delete`.

        What was made from them goes with them, in other memories of the store, too: each of these is edited before
        this one, and a summary counts the receipts; ``elsewhere`` of the receipt has them. With ``derived="refuse"``
        Conflict (``derived-entries``) is raised instead. A memory with a hold on one of its entries that would go keeps
        all of them.

        ``dry_run`` tells what would happen and writes nothing. ``expected`` is the digest of the state that the
        caller has seen; if it is no longer the stored one, Conflict is raised; so it is if other entries would go than
        those of ``closure``, as the method `closure` told them. A request repeated under its ``idempotency_key`` gets
        the first answer again, receipt or refusal, and is not applied twice. The receipt commits to ``case``, the
        reference that the edit was asked for under, and to ``actor``, who asked; the store keeps both texts until they
        are erased (`Store.erase_cases`). Neither should name a subject.
        """
        kept = Case.of(case, actor)
        if derived not in ("erase", "refuse"):
            raise InputError(f'derived must be "erase" or "refuse", not {derived!r}')
        names = ids if ids is None or isinstance(ids, str) else listed(ids, "ids")
        if dry_run:
            return self._preview_deletion(names, subject, derived, expected, closure)
        asked = names if names is None else sorted([names] if isinstance(names, str) else map(str, names))
        told = {} if derived == "erase" else {"derived": derived}
        request = self._request(idempotency_key, case, verb="delete", ids=asked, subject=subject, **told)

        def check(moment: Moment, memory: Memory) -> None:
            """Raise _MadeElsewhere where the edits of other memories come first, or a first try was at them."""
            if request is not None and moment.begun(request):
                raise _MadeElsewhere
            check_expected(expected, memory.newest.digest)
            going = memory.newest.names_of(names, subject)
            if self._made_elsewhere(moment, memory.newest, going):
                raise _MadeElsewhere
            check_closure(closure, closure_digest(self._closure_here(memory.newest, going)))

        def edit(memory: Memory) -> Receipt:
            return memory.delete(names, subject=subject, derived=derived)

        try:
            return self._apply(edit, "deletion", request, expected, kept, check=check)
        except _MadeElsewhere:
            part = Part(self.name, self.uuid, subject, tuple(asked or ()))
        return delete_closure(
            self._store,
            self.context.database,
            self.context.identity,
            part,
            derived=derived,
            expected=expected,
            closure=closure,
            request=request,
            asked=kept,
        )

    def closure(self, ids: Iterable[str]) -> str:
        """A digest of what a deletion of these entries takes: them, and what was made from them, in any memory.

        It changes where such an entry is made or erased. Give it to `delete`.
        """
        return plan_of(self._store, [Part(self.name, self.uuid, ids=tuple(dict.fromkeys(ids)))]).digest

    @overload
    def prune(
        self, mode: Mode = "archive", *, dry_run: Literal[False] = False, **options: Unpack[PruneOptions]
    ) -> SignedReceipt: ...
    @overload
    def prune(self, mode: Mode = "archive", *, dry_run: Literal[True], **options: Unpack[PruneOptions]) -> Preview: ...
    @overload
    def prune(
        self, mode: Mode = "archive", *, dry_run: bool, **options: Unpack[PruneOptions]
    ) -> SignedReceipt | Preview: ...
    def prune(
        self,
        mode: Mode = "archive",
        *,
        sketch: SupportsIndex = 0,
        dry_run: bool = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
        case: str | None = None,
        actor: str | None = None,
        progress: Progress | None = None,
    ) -> SignedReceipt | Preview:
        """Drop every entry whose weight is proved zero, under warranty. See `Memory.prune`."""
        most, asked = as_count(sketch, 0, "sketch must be a number of neighbours"), Case.of(case, actor)

        def edit(memory: Memory) -> Receipt:
            return memory.prune(mode, sketch=most, progress=progress)

        if dry_run:
            return self._preview(edit, expected)
        request = self._request(idempotency_key, case, verb="prune", mode=mode, sketch=most)
        return self._apply(edit, "pruning", request, expected, asked)

    def rebuild(
        self,
        *,
        nu: float | None = None,
        cap: float | None = None,
        sigma: float | Literal["auto"] | None = None,
        expected: str | None = None,
        idempotency_key: str | None = None,
        case: str | None = None,
        actor: str | None = None,
        progress: Progress | None = None,
    ) -> SignedReceipt:
        """Solve afresh at a new cap or width, archived entries included. See `Memory.rebuild`."""

        def edit(memory: Memory) -> Receipt:
            return memory.rebuild(nu=nu, cap=cap, sigma=sigma, progress=progress)

        asked = {"nu": str(nu), "cap": str(cap)} | ({} if sigma is None else {"sigma": str(sigma)})
        request = self._request(idempotency_key, case, verb="rebuild", **asked)
        return self._apply(edit, "rebuild", request, expected, Case.of(case, actor))

    def holds_on(self, names: Iterable[str]) -> dict[str, Hold]:
        """Which of these entries must not be erased, and by which hold."""
        holds = self._holds()
        return self.look(lambda version: holds_on_entries(holds, version, names))

    def has_subject(self, subject: str) -> bool:
        """Whether an entry of a subject is here, live, archived or forgotten."""
        return self.version.has_subject(subject)

    def due(self, now: datetime | None = None) -> list[str]:
        """Ids of the entries, archived ones included, whose end has come by ``now``, or by the store's clock."""
        return super().due(self.context.identity.clock() if now is None else now)

    def holds_entry(self, name: str, connection: CheckedConnection | None = None) -> bool:
        """Whether the content of an entry is here, live or archived, as a connection sees it that has the lock."""
        if connection is None:
            return self.look(lambda version: version.holds(name))
        return self.versions.stored_in(connection).memory.version.holds(name)

    def locked(self) -> AbstractContextManager[CheckedConnection]:
        """Hold the memory's lock, whether or not its stored version can be loaded."""
        return self.versions.locked()

    def locked_version(self) -> AbstractContextManager[tuple[CheckedConnection, LoadedMemory, bool]]:
        """Hold the memory's lock, with its stored version, and whether there are holds on it."""
        return self.versions.locked_version()

    def set_loaded(self, loaded: LoadedMemory) -> None:
        """Take a version that was just written as the loaded one."""
        self.versions.replace(loaded)

    def let_go(self) -> None:
        """Drop the loaded version: the memory is there no more."""
        self.versions.let_go()

    def refuse_drop(self, connection: CheckedConnection, holds: list[Hold], asked: Case | None) -> Refused:
        """Write the refusal of a drop that holds forbid, commit it, and return what to raise."""
        started, loaded = time.perf_counter(), self.versions.load(connection)
        transaction = EditTransaction(self.context, connection, loaded)
        edit = AskedEdit("deletion", case=asked)
        problem = transaction.refuse(edit, {hold.id or hold.subject or "": hold for hold in holds}, started, holds)
        write_together(connection, [transaction])
        commit_together(connection, [transaction])
        return problem

    def erase_part(
        self,
        part: Part,
        known: Collection[Node],
        key: str | None,
        asked: Case | None,
        expected: str | None = None,
        *,
        bound: bool = False,
    ) -> SignedReceipt:
        """Remove what an erasure takes from this memory. Raises Busy where more than is ``known`` was made from it.

        What was made from it in this memory goes with it; where that is not ``known``, an erasure that is ``bound`` to
        what its caller has seen raises Stale.
        """

        def check(moment: Moment, memory: Memory) -> None:
            names = part.names_in(memory.newest)
            more = self._made_elsewhere(moment, memory.newest, names, known)
            if bound and (more or not self._closure_here(memory.newest, names) <= set(known)):
                raise Stale(f"more would go from {self.name!r} than the caller has seen: look again")
            if not part.exact and more:
                raise Busy(f"something was made from entries of {self.name!r} meanwhile; try again")

        def edit(memory: Memory) -> Receipt:
            return memory.delete(part.names_in(memory.newest), derived="keep" if part.exact else "erase")

        request = part_request(self.context.identity.pepper, key, self.uuid)
        return self._apply(edit, "deletion", request, expected, asked, check=check)

    def preview_part(self, part: Part) -> Preview:
        """What an erasure would do here."""
        choice: Literal["keep", "erase"] = "keep" if part.exact else "erase"
        return self._preview(lambda memory: memory.delete(part.names_in(memory.version), derived=choice), None)

    @contextmanager
    def _reading(self) -> Iterator[CheckedConnection]:
        """A snapshot of the database in which the memory exists."""
        with self.context.database.reading() as connection:
            if connection.first(select(memories.c.number).where(memories.c.uuid == self.uuid)) is None:
                raise StoreError(f"the memory {self.name!r} was dropped")
            yield connection

    def _current(self) -> Memory:
        return self.versions.current()

    def _request(self, key: str | None, case: str | None, **asked: Any) -> Request | None:
        named = asked if case is None else asked | {"case": case}
        return Request.of(self.uuid, self.context.identity.pepper, key, **named)

    def _made_elsewhere(
        self, moment: Moment, version: Version, names: Sequence[str], known: Collection[Node] = ()
    ) -> bool:
        """Whether an entry of another memory that is not ``known`` was made from these, or from what was made from
        these here.
        """
        made = moment.derivations.directly((self.uuid, name) for name in (*names, *version.made_from(names)))
        return not {node for node in made if node[0] != self.uuid} <= set(known)

    def _closure_here(self, version: Version, names: Sequence[str]) -> set[Node]:
        """These entries, and what was made from them in this memory."""
        return {(self.uuid, name) for name in (*names, *version.made_from(names))}

    def _preview_deletion(
        self,
        names: str | list[Any] | None,
        subject: str | None,
        derived: DerivedChoice,
        expected: str | None,
        closure: str | None,
    ) -> Preview:
        """What a deletion would do here and in other memories."""
        given = self.look(lambda version: version.names_of(names, subject))
        if not given:
            return self._preview(lambda memory: memory.delete([]), expected)
        plan = plan_of(self._store, [Part(self.name, self.uuid, subject, () if subject else tuple(given))])
        refuse_derived(plan, derived, len(given))
        check_closure(closure, plan.digest)
        mine = plan.parts[self.uuid]
        preview = self._preview(lambda memory: memory.delete(mine.names_in(memory.version)), expected)
        others = preview_parts(self._store, plan, without=self.uuid)
        return replace(preview, derived=plan.derived_in(self.uuid), elsewhere=others)

    def _holds(self) -> list[Hold]:
        with self.context.database.reading() as connection:
            return read_holds(connection, self.number)

    def _apply(
        self,
        edit: Edit,
        action: Action,
        request: Request | None,
        expected: str | None,
        asked: Case | None,
        *,
        same: Callable[[Version, str, int], bool] | None = None,
        stated: StatedEntries | None = None,
        check: Callable[[Moment, Memory], None] | None = None,
    ) -> SignedReceipt:
        """One edit, committed with others that wait. ``check`` may raise under the lock."""
        waiting = WaitingEdit(
            scope=self.uuid,
            memory=self,
            # A source in another memory is locked with it; what solves afresh is not to keep others waiting.
            alone=action in ("pruning", "rebuild") or (stated is not None and bool(stated.outside)),
            key=None if request is None else request.key,
            edit=edit,
            asked=AskedEdit(action, request, asked),
            expected=expected,
            same=same,
            check=check,
            stated=stated,
            sources=[] if stated is None else stated.memories(self._store),
        )
        self._store.group_commits.carry_out(waiting)
        self._store.mirror_keeper.follow()
        if waiting.problem is not None:
            raise waiting.problem
        if waiting.result is None:
            raise StoreError(f"the edit of {self.name!r} left no receipt")
        return waiting.result

    def _preview(self, edit: Edit, expected: str | None) -> Preview:
        """What an edit would do; it is prepared and discarded."""
        with self.versions.only_editor():
            memory = self._current()
            check_expected(expected, memory.digest)
            holds = self._holds()
            with memory.held():
                try:
                    return preview_edit(memory, edit, holds)
                finally:
                    memory.journal, memory.guard = refuse_direct_edit, None
