"""A memory in a store: the verbs of `Memory`, each edit durable, signed and exclusive.

An edit takes the memory's lock in the database, makes sure that the loaded version is the stored one, and lets the
memory prepare the next. The memory's journal then writes rows, ledger leaf and erasure in one transaction; only after
its commit does the new version count here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NoReturn, SupportsIndex, TypedDict, Unpack, overload

import numpy.typing as npt

from expunge.attestation.statements import commitment_of
from expunge.certificates.warranty import Mode
from expunge.errors import Conflict, Refused, StoreError
from expunge.memory.entries import check_subject, listed
from expunge.memory.memory import Memory
from expunge.memory.reader import Found, MemoryReader
from expunge.memory.receipt import Action, Receipt
from expunge.memory.version import Version
from expunge.problem.problem import as_count
from expunge.store.backends.database import CheckedConnection
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_preview import Edit, Preview, preview_edit
from expunge.store.edits.edit_transaction import EditTransaction, ForbiddenByHold, MemoryContext, check_expected
from expunge.store.edits.idempotency import Request, same_entry
from expunge.store.edits.signed_receipt import SignedReceipt, receipt_from_json, refusal_from_json
from expunge.store.ledger_tables import read_leaf
from expunge.store.legal_holds import Hold, holds_on_entries, read_holds
from expunge.store.rows import LoadedMemory
from expunge.store.version_cache import VersionCache, refuse_direct_edit

__all__ = ["AdmitOptions", "DeleteOptions", "EditOptions", "PruneOptions", "StoredMemory"]


class EditOptions(TypedDict, total=False):
    """Options of every edit of a stored memory."""

    expected: str | None
    idempotency_key: str | None


class AdmitOptions(EditOptions, total=False):
    """Options of `StoredMemory.admit`."""

    id: str | None
    subject: str | None
    payload: Any
    on_expiry: Literal["report", "refuse"]


class DeleteOptions(EditOptions, total=False):
    """Options of `StoredMemory.delete`."""

    subject: str | None


class PruneOptions(EditOptions, total=False):
    """Options of `StoredMemory.prune`."""

    sketch: SupportsIndex


class StoredMemory(MemoryReader):
    """One memory of a store. Get it from `Store.create` or ``store[name]``."""

    def __init__(self, context: MemoryContext, name: str) -> None:
        self.number = context.number
        self.uuid = context.uuid
        self.name = name
        self._context = context
        self._versions = VersionCache(context, name)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two handles would edit one loaded version."""
        raise StoreError(
            f"a stored memory is not copied or pickled: get {self.name!r} from its store again, or save() it to a file"
        )

    def __repr__(self) -> str:
        return f"<StoredMemory {self.name!r} of {self.describe()}>"

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

    def save(self, path: str | Path) -> None:
        """Write the current version to one file, content and all."""
        self._current().save(path)

    def refit(self) -> Memory:
        """Fresh memory, not stored, with the same entries and cap."""
        return self._current().refit()

    @overload
    def admit(
        self,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[AdmitOptions],
    ) -> SignedReceipt: ...
    @overload
    def admit(
        self, key: npt.ArrayLike, value: npt.ArrayLike, *, dry_run: Literal[True], **options: Unpack[AdmitOptions]
    ) -> Preview: ...
    @overload
    def admit(
        self, key: npt.ArrayLike, value: npt.ArrayLike, *, dry_run: bool, **options: Unpack[AdmitOptions]
    ) -> SignedReceipt | Preview: ...
    def admit(
        self,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
        *,
        id: str | None = None,  # noqa: A002 — the public word
        subject: str | None = None,
        payload: Any = None,
        on_expiry: Literal["report", "refuse"] = "report",
        dry_run: bool = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> SignedReceipt | Preview:
        """Add one entry. See `Memory.admit`; the other options are those of `delete`."""
        owner = check_subject(subject)
        request = self._request(idempotency_key, verb="admit", id=id, subject=owner, on_expiry=on_expiry)

        def edit(memory: Memory) -> Receipt:
            return memory.admit(key, value, id=id, subject=subject, payload=payload, on_expiry=on_expiry)

        if dry_run:
            return self._preview(edit, expected)

        def same(version: Version, name: str) -> bool:
            return same_entry(version, name, key, value, payload)

        return self._apply(edit, "admission", request, expected, same=same)

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
        dry_run: bool = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> SignedReceipt | Preview:
        """Remove entries by id, by several ids, or by subject, in one transaction. See `Memory.delete`.

        ``dry_run`` tells what would happen and writes nothing. ``expected`` is the digest of the state that the
        caller has seen; if it is no longer the stored one, Conflict is raised. A request repeated under its
        ``idempotency_key`` gets the first answer again, receipt or refusal, and is not applied twice.
        """
        names = ids if ids is None or isinstance(ids, str) else listed(ids, "ids")

        def edit(memory: Memory) -> Receipt:
            return memory.delete(names, subject=subject)

        if dry_run:
            return self._preview(edit, expected)
        asked = names if names is None else sorted([names] if isinstance(names, str) else map(str, names))
        request = self._request(idempotency_key, verb="delete", ids=asked, subject=subject)
        return self._apply(edit, "deletion", request, expected)

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
    ) -> SignedReceipt | Preview:
        """Drop every entry whose weight is proved zero, under warranty. See `Memory.prune`."""
        most = as_count(sketch, 0, "sketch must be a number of neighbours")

        def edit(memory: Memory) -> Receipt:
            return memory.prune(mode, sketch=most)

        if dry_run:
            return self._preview(edit, expected)
        request = self._request(idempotency_key, verb="prune", mode=mode, sketch=most)
        return self._apply(edit, "pruning", request, expected)

    def rebuild(
        self,
        *,
        nu: float | None = None,
        cap: float | None = None,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> SignedReceipt:
        """Solve afresh at a new cap, archived entries included. See `Memory.rebuild`."""

        def edit(memory: Memory) -> Receipt:
            return memory.rebuild(nu=nu, cap=cap)

        request = self._request(idempotency_key, verb="rebuild", nu=str(nu), cap=str(cap))
        return self._apply(edit, "rebuild", request, expected)

    def holds_on(self, names: Iterable[str]) -> dict[str, Hold]:
        """Which of these entries must not be erased, and by which hold."""
        holds = self._holds()
        return self.look(lambda version: holds_on_entries(holds, version, names))

    def has_subject(self, subject: str) -> bool:
        """Whether an entry of a subject is here, live, archived or forgotten."""
        version = self.version
        live = any(version.alive[slot] for slot in version.entries.slots_of.get(subject, ()) if slot < version.count)
        return live or bool(version.warranties.of_subject(subject))

    def locked(self) -> AbstractContextManager[CheckedConnection]:
        """Hold the memory's lock, whether or not its stored version can be loaded."""
        return self._versions.locked()

    def locked_version(self) -> AbstractContextManager[tuple[CheckedConnection, LoadedMemory, bool]]:
        """Hold the memory's lock, with its stored version, and whether there are holds on it."""
        return self._versions.locked_version()

    def set_loaded(self, loaded: LoadedMemory) -> None:
        """Take a version that was just written as the loaded one."""
        self._versions.replace(loaded)

    def let_go(self, edit: int | None) -> None:
        """Drop the loaded version if it is behind this edit, or if there is none any more: None."""
        self._versions.let_go(edit)

    def refuse(self, connection: CheckedConnection, held: dict[str, Hold]) -> Refused:
        """Write the refusal of an erasure that holds forbid, commit it, and return what to raise."""
        loaded = self._versions.load(connection)
        return EditTransaction(self._context, connection, loaded, "deletion", None).refuse(held, time.perf_counter())

    def _current(self) -> Memory:
        return self._versions.current()

    def _request(self, key: str | None, **asked: Any) -> Request | None:
        return Request.of(self.uuid, self._context.identity.pepper, key, **asked)

    def _holds(self) -> list[Hold]:
        with self._context.database.reading() as connection:
            return read_holds(connection, self.number)

    def _apply(
        self,
        edit: Edit,
        action: Action,
        request: Request | None,
        expected: str | None,
        *,
        same: Callable[[Version, str], bool] | None = None,
    ) -> SignedReceipt:
        """One edit: lock, agree on the version, prepare, write, commit, publish."""
        started = time.perf_counter()
        with self._versions.locked_version() as (connection, loaded, has_holds):
            memory = loaded.memory
            answer = None if request is None else request.earlier_answer(connection)
            if answer is not None:
                return _repeated(self._context.database.waiting()[1], connection, memory, answer, same)
            check_expected(expected, memory.digest)
            transaction = EditTransaction(self._context, connection, loaded, action, request, has_holds=has_holds)
            # The guard comes first: a hold is the reason, whatever else stands in the way.
            memory.journal, memory.guard = transaction.write, transaction.require_no_hold
            before = memory.version
            try:
                receipt = edit(memory)
            except ForbiddenByHold as problem:
                raise transaction.refuse(problem.held, started) from None
            except Refused as problem:
                transaction.commit(problem)
                raise
            finally:
                if memory.version is before:
                    memory.settle()
                memory.journal, memory.guard = refuse_direct_edit, None
                if transaction.forgotten is not None and transaction.after is not None:
                    # Committed, and yet not published: the next caller takes it from the database.
                    published = memory.version.edit == transaction.after.edit
                    self._versions.replace(LoadedMemory(memory, transaction.forgotten) if published else None)
            crash_point("published")
            if transaction.signed is None:
                raise StoreError(f"the edit of {self.name!r} left no receipt: {receipt!r}")
            return transaction.signed

    def _preview(self, edit: Edit, expected: str | None) -> Preview:
        """What an edit would do; it is prepared and discarded."""
        with self._versions.only_editor():
            memory = self._current()
            check_expected(expected, memory.digest)
            holds = self._holds()
            try:
                return preview_edit(memory, edit, holds)
            finally:
                memory.journal, memory.guard = refuse_direct_edit, None


def _repeated(
    waiting: str | None,
    connection: CheckedConnection,
    memory: Memory,
    answer: dict[str, Any],
    same: Callable[[Version, str], bool] | None,
) -> SignedReceipt:
    """The answer to a repeated request; what was refused is refused again."""
    envelope = read_leaf(connection, answer["receipt"]["index"]).envelope
    receipt = receipt_from_json(answer["receipt"], envelope, waiting)
    if answer["refusal"] is not None:
        raise refusal_from_json(answer["refusal"], receipt)
    if same is not None:
        version, name = memory.version, receipt.applied[0]
        digest = commitment_of(version, name)
        if digest is not None and digest.hex() == answer["commitment"] and not same(version, name):
            raise Conflict("this idempotency key was used to admit another entry; nothing was done")
    return receipt
