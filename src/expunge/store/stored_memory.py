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
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypedDict, TypeVar, Unpack, overload

import numpy.typing as npt

from expunge.attestation.statements import commitment_of
from expunge.certificates.warranty import Mode, Warranty
from expunge.errors import Refused, StoreError
from expunge.memory.entries import check_subject, listed
from expunge.memory.memory import Hit, Memory
from expunge.memory.receipt import Action, Receipt
from expunge.memory.version import View
from expunge.problem.check import StateCheck
from expunge.problem.problem import as_count
from expunge.store.backends.database import CheckedConnection
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_preview import Edit, Preview, preview_edit
from expunge.store.edits.edit_transaction import EditTransaction, ForbiddenByHold, MemoryContext, check_expected
from expunge.store.edits.idempotency import Request, same_entry
from expunge.store.edits.signed_receipt import SignedReceipt, receipt_from_json, refusal_from_json
from expunge.store.errors import Conflict
from expunge.store.ledger_tables import read_leaf
from expunge.store.legal_holds import Hold, holds_on_entries, read_holds
from expunge.store.rows import LoadedMemory
from expunge.store.version_cache import VersionCache, refuse_direct_edit
from expunge.types import Matrix, Vector

if TYPE_CHECKING:
    from expunge.certificates.bounds import Bounds
    from expunge.certificates.certificate import Certificate
    from expunge.certificates.proof import Proof
    from expunge.problem.partition import Partition
    from expunge.problem.solution import Solution

__all__ = ["AdmitOptions", "DeleteOptions", "EditOptions", "PruneOptions", "StoredMemory"]

Seen = TypeVar("Seen")


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


class StoredMemory:
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
        return f"<StoredMemory {self.name!r}: {self._current()!r}>"

    @property
    def nu(self) -> float | None:
        """What the cap was derived from, where it was not given itself."""
        return self._current().nu

    @property
    def initial_size(self) -> int:
        """Number of entries that the cap was set for."""
        return self._current().initial_size

    @property
    def edit(self) -> int:
        """How many edits led to the current state."""
        return self.view.edit

    @property
    def view(self) -> View:
        """The current version, for evidence: what a verifier recomputes numbers from."""
        return self._current()._view

    def look(self, at: Callable[[View], Seen]) -> Seen:
        """What `at` makes of the current version, whole: it is called again if an edit comes in between."""
        return self._current()._seen(at)

    def __len__(self) -> int:
        return len(self._current())

    def __contains__(self, name: object) -> bool:
        return name in self._current()

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in row order."""
        return self._current().ids

    @property
    def subjects(self) -> tuple[str | None, ...]:
        """Subjects in row order."""
        return self._current().subjects

    @property
    def keys(self) -> Matrix:
        """Keys in row order, (n, d) float64, read-only."""
        return self._current().keys

    @property
    def values(self) -> Matrix:
        """Values in row order, (n, dv) float64, read-only."""
        return self._current().values

    @property
    def coefficients(self) -> Vector:
        """Coefficients α in row order, (n,) float64, read-only."""
        return self._current().coefficients

    @property
    def offset(self) -> float:
        """Offset ρ."""
        return self._current().offset

    @property
    def cap(self) -> float:
        """Cap C."""
        return self._current().cap

    @property
    def sigma(self) -> float:
        """Kernel width σ."""
        return self._current().sigma

    @property
    def dimension(self) -> int:
        """Coordinates of a key."""
        return self._current().dimension

    @property
    def partition(self) -> Partition:
        """Rows on the margin, at the bound and in reserve."""
        return self._current().partition

    @property
    def inverse(self) -> Matrix:
        """Inverse of the margin system."""
        return self._current().inverse

    @property
    def deletable(self) -> int:
        """How many more entries can be deleted at this cap."""
        return self._current().deletable

    @property
    def digest(self) -> str:
        """Digest of the current state, as receipts name it; what `expected` is compared with."""
        return self._current().digest

    @property
    def solution(self) -> Solution:
        """Coefficients and offset with the problem that they solve."""
        return self._current().solution

    def payload(self, name: str) -> Any:
        """Payload of an entry."""
        return self._current().payload(name)

    def read(self, queries: npt.ArrayLike, *, projection: float | None = None) -> Matrix:
        """Normalized readout at queries (m, d) or (d,) → (m, dv)."""
        return self._current().read(queries, projection=projection)

    def score(self, points: npt.ArrayLike) -> Vector:
        """Gate score at points (m, d) or (d,) → (m,)."""
        return self._current().score(points)

    def search(self, query: npt.ArrayLike, k: SupportsIndex = 5) -> list[Hit]:
        """Entries that carry the readout at a query, largest share first."""
        return self._current().search(query, k)

    def check(self) -> StateCheck:
        """Mass, box and stationarity errors, recomputed from the keys themselves."""
        return self._current().check()

    def prove(self) -> Proof:
        """Prove the partition in ball arithmetic."""
        return self._current().prove()

    def bounds(self) -> Bounds:
        """Rigorous upper bounds on the errors of this state."""
        return self._current().bounds()

    def certificate(self, name: str) -> Certificate:
        """What removing an entry now would be."""
        return self._current().certificate(name)

    def warranties(self) -> list[Warranty]:
        """Where each pruned entry stands."""
        return self._current().warranties()

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

        def same(view: View, name: str) -> bool:
            return same_entry(view, name, key, value, payload)

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

        def erases(memory: Memory) -> list[str]:
            view = memory._view
            slots, pruned = memory._victims(view, names, subject)
            return [*(view.entries.ids[slot] or "" for slot in slots), *pruned]

        if dry_run:
            return self._preview(edit, expected, erases)
        asked = names if names is None else sorted([names] if isinstance(names, str) else map(str, names))
        request = self._request(idempotency_key, verb="delete", ids=asked, subject=subject)
        return self._apply(edit, "deletion", request, expected, erases=erases)

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
        return self._apply(edit, "rebuild", request, expected, new_nu=nu)

    def holds_on(self, names: Iterable[str]) -> dict[str, Hold]:
        """Which of these entries must not be erased, and by which hold."""
        holds = self._holds()
        return self.look(lambda view: holds_on_entries(holds, view, names))

    def has_subject(self, subject: str) -> bool:
        """Whether an entry of a subject is here, live, archived or forgotten."""
        view = self.view
        live = any(view.alive[slot] for slot in view.entries.slots_of.get(subject, ()) if slot < view.count)
        return live or any(record.subject == subject for record in view.warranties.records.values())

    def locked(self) -> AbstractContextManager[CheckedConnection]:
        """Hold the memory's lock, whether or not its stored version can be loaded."""
        return self._versions.locked()

    def locked_version(self) -> AbstractContextManager[tuple[CheckedConnection, LoadedMemory, bool]]:
        """Hold the memory's lock, with its stored version, and whether there are holds on it."""
        return self._versions.locked_version()

    def set_loaded(self, loaded: LoadedMemory) -> None:
        """Take a version that was just written as the loaded one."""
        self._versions.replace(loaded)

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
        same: Callable[[View, str], bool] | None = None,
        new_nu: float | None = None,
        erases: Callable[[Memory], list[str]] | None = None,
    ) -> SignedReceipt:
        """One edit: lock, agree on the version, prepare, write, commit, publish."""
        started = time.perf_counter()
        with self._versions.locked_version() as (connection, loaded, has_holds):
            memory = loaded.memory
            answer = None if request is None else request.earlier_answer(connection)
            if answer is not None:
                return _repeated(connection, memory, answer, same)
            check_expected(expected, memory.digest)
            transaction = EditTransaction(
                self._context, connection, loaded, action, request, new_nu=new_nu, has_holds=has_holds
            )
            memory.journal = transaction.write
            try:
                if erases is not None:
                    # A hold is the reason, whatever else stands in the way.
                    transaction.require_no_hold(memory._view, erases(memory))
                receipt = edit(memory)
            except ForbiddenByHold as problem:
                raise transaction.refuse(problem.held, started) from None
            except Refused as problem:
                transaction.commit(problem)
                raise
            finally:
                memory.journal = refuse_direct_edit
                if transaction.row_numbers is not None and transaction.after is not None:
                    # Committed, and yet not published: the next caller takes it from the database.
                    published = memory._view.edit == transaction.after.edit
                    self._versions.replace(LoadedMemory(memory, transaction.row_numbers) if published else None)
            crash_point("published")
            if transaction.signed is None:
                raise StoreError(f"the edit of {self.name!r} left no receipt: {receipt!r}")
            return transaction.signed

    def _preview(
        self, edit: Edit, expected: str | None, erases: Callable[[Memory], list[str]] | None = None
    ) -> Preview:
        """What an edit would do; it is prepared and discarded."""
        with self._versions.only_editor():
            memory = self._current()
            check_expected(expected, memory.digest)
            holds = self._holds()
            try:
                return preview_edit(memory, edit, holds, [] if erases is None else erases(memory))
            finally:
                memory.journal = refuse_direct_edit


def _repeated(
    connection: CheckedConnection,
    memory: Memory,
    answer: dict[str, Any],
    same: Callable[[View, str], bool] | None,
) -> SignedReceipt:
    """The answer to a repeated request; what was refused is refused again."""
    receipt = receipt_from_json(answer["receipt"], read_leaf(connection, answer["receipt"]["index"]).envelope)
    if answer["refusal"] is not None:
        raise refusal_from_json(answer["refusal"], receipt)
    if same is not None:
        view, name = memory._view, receipt.applied[0]
        digest = commitment_of(view, name)
        if digest is not None and digest.hex() == answer["commitment"] and not same(view, name):
            raise Conflict("this idempotency key was used to admit another entry; nothing was done")
    return receipt
