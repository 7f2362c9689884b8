"""A memory in a store: the verbs of `Memory`, each edit durable, signed and exclusive.

An edit takes the memory's lock in the database, makes sure that the version in hand is the stored one, and lets the
memory prepare the next. The memory's journal then writes rows, ledger leaf and erasure in one transaction; only after
its commit does the new version count here. Readers use the version in hand, replaced when the stored edit number has
moved on; they never wait for a writer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, func, select

from expunge.attestation.statements import commitment_of
from expunge.certificates.warranty import Mode, Warranty
from expunge.errors import Busy, Conflict, Refused, Stale, StoreError
from expunge.memory.entries import check_subject, encode_payload, listed
from expunge.memory.memory import Hit, Memory
from expunge.memory.receipt import Action, Receipt
from expunge.memory.version import View
from expunge.problem.check import StateCheck
from expunge.problem.problem import as_count, as_point
from expunge.store.backends.database import Database
from expunge.store.backends.tables import holds, states
from expunge.store.crash_points import reach
from expunge.store.edit_preview import Act, Preview, look_ahead
from expunge.store.edit_transaction import Held, Place, Scribe
from expunge.store.idempotency import Request
from expunge.store.identity import Identity
from expunge.store.ledger_tables import leaf_at
from expunge.store.legal_holds import Hold, holds_of, matching
from expunge.store.rows import Image, load_image
from expunge.store.signed_receipt import SignedReceipt, read_receipt, read_refusal
from expunge.types import Matrix, Vector

if TYPE_CHECKING:
    from expunge.certificates.bounds import Bounds
    from expunge.certificates.certificate import Certificate
    from expunge.certificates.proof import Proof
    from expunge.problem.partition import Partition
    from expunge.problem.solution import Solution

__all__ = ["StoredMemory", "check_expected"]

Seen = TypeVar("Seen")


class StoredMemory:
    """One memory of a store. Get it from `Store.create` or ``store[name]``."""

    def __init__(self, database: Database, identity: Identity, number: int, uuid: str, name: str) -> None:
        self._database = database
        self._identity = identity
        self.number = number
        self.uuid = uuid
        self.name = name
        self._place = Place(database, identity, number, uuid)
        self._image: Image | None = None
        self._editing = False
        self._held = False  # whether there are holds, known while an edit has the lock
        self._turn = threading.Lock()  # one edit at a time in this process
        self._swap = threading.Lock()  # replacing the version in hand
        self._head = select(states.c.edit, states.c.digest).where(states.c.memory == number)
        held = select(func.count()).select_from(holds).where(holds.c.memory == number).scalar_subquery()
        self._head_and_holds = self._head.add_columns(held.label("held"))

    def __len__(self) -> int:
        return len(self._current())

    def __contains__(self, name: object) -> bool:
        return name in self._current()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two handles would edit one version in hand."""
        raise StoreError(
            f"a stored memory is not copied or pickled: get {self.name!r} from its store again, or save() it to a file"
        )

    def __repr__(self) -> str:
        return f"<StoredMemory {self.name!r}: {self._current()!r}>"

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
    def nu(self) -> float | None:
        """What the cap was derived from, where it was not given itself."""
        return self._current().nu

    @property
    def initial_size(self) -> int:
        """Number of entries that the cap was set for."""
        return self._current().initial_size

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
    def edit(self) -> int:
        """How many edits led to the current state."""
        return self._current()._view.edit

    @property
    def solution(self) -> Solution:
        """Coefficients and offset with the problem that they solve."""
        return self._current().solution

    @property
    def view(self) -> View:
        """The current version, for evidence: what a verifier recomputes numbers from."""
        return self._current()._view

    def look(self, at: Callable[[View], Seen]) -> Seen:
        """What `at` makes of the current version, whole: it is called again if an edit comes in between."""
        return self._current().look(at)

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

    def refit(self) -> Memory:
        """Fresh memory, not stored, with the same entries and cap."""
        return self._current().refit()

    def save(self, path: str | Path) -> None:
        """Write the current version to one file, content and all."""
        self._current().save(path)

    @overload
    def admit(
        self,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
        *,
        id: str | None = None,
        subject: str | None = None,
        payload: Any = None,
        on_expiry: Literal["report", "refuse"] = "report",
        dry_run: Literal[False] = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> SignedReceipt: ...

    @overload
    def admit(
        self,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
        *,
        id: str | None = None,
        subject: str | None = None,
        payload: Any = None,
        on_expiry: Literal["report", "refuse"] = "report",
        dry_run: Literal[True],
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> Preview: ...

    @overload
    def admit(
        self,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
        *,
        id: str | None = None,
        subject: str | None = None,
        payload: Any = None,
        on_expiry: Literal["report", "refuse"] = "report",
        dry_run: bool,
        expected: str | None = None,
        idempotency_key: str | None = None,
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
        request = Request.of(
            self.uuid,
            self._identity.pepper,
            idempotency_key,
            verb="admit",
            id=id,
            subject=check_subject(subject),
            on_expiry=on_expiry,
        )

        def act(memory: Memory) -> Receipt:
            return memory.admit(key, value, id=id, subject=subject, payload=payload, on_expiry=on_expiry)

        if dry_run:
            return self._preview(act, expected)

        def same(memory: Memory, name: str) -> bool:
            """Whether the entry that was admitted under the key, as far as it still exists, is the one given now."""
            view = memory._view
            point = as_point(key, "key", memory.dimension)
            content = as_point(value, "value", view.entries.values.shape[1])
            slot, kept = view.slot(name), view.warranties.archive.get(name)
            if slot is not None:
                found = (view.state.gram.keys[view.entries.site[slot]], view.entries.values[slot])
                extra = view.entries.payloads[slot]
            elif kept is not None:
                found, extra = (kept.key, kept.value), kept.payload
            else:
                return True
            alike = all(np.array_equal(one, other) for one, other in zip(found, (point, content), strict=True))
            return alike and extra == encode_payload(payload)

        return self._edit(act, "admission", request, expected, same=same)

    @overload
    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        subject: str | None = None,
        dry_run: Literal[False] = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> SignedReceipt: ...

    @overload
    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        subject: str | None = None,
        dry_run: Literal[True],
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> Preview: ...

    @overload
    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        subject: str | None = None,
        dry_run: bool,
        expected: str | None = None,
        idempotency_key: str | None = None,
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

        def act(memory: Memory) -> Receipt:
            return memory.delete(names, subject=subject)

        def doomed(memory: Memory) -> list[str]:
            view = memory._view
            slots, pruned = view.named(names, subject)
            return [*(view.entries.ids[slot] or "" for slot in slots), *pruned]

        if dry_run:
            return self._preview(act, expected, doomed)
        asked = names if names is None else sorted([names] if isinstance(names, str) else map(str, names))
        request = Request.of(
            self.uuid, self._identity.pepper, idempotency_key, verb="delete", ids=asked, subject=subject
        )
        return self._edit(act, "deletion", request, expected, doomed=doomed)

    @overload
    def prune(
        self,
        mode: Mode = "archive",
        *,
        sketch: SupportsIndex = 0,
        dry_run: Literal[False] = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> SignedReceipt: ...

    @overload
    def prune(
        self,
        mode: Mode = "archive",
        *,
        sketch: SupportsIndex = 0,
        dry_run: Literal[True],
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> Preview: ...

    @overload
    def prune(
        self,
        mode: Mode = "archive",
        *,
        sketch: SupportsIndex = 0,
        dry_run: bool,
        expected: str | None = None,
        idempotency_key: str | None = None,
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

        def act(memory: Memory) -> Receipt:
            return memory.prune(mode, sketch=most)

        if dry_run:
            return self._preview(act, expected)
        request = Request.of(self.uuid, self._identity.pepper, idempotency_key, verb="prune", mode=mode, sketch=most)
        return self._edit(act, "pruning", request, expected)

    def rebuild(
        self,
        *,
        nu: float | None = None,
        cap: float | None = None,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> SignedReceipt:
        """Solve afresh at a new cap, archived entries included. See `Memory.rebuild`."""

        def act(memory: Memory) -> Receipt:
            return memory.rebuild(nu=nu, cap=cap)

        request = Request.of(
            self.uuid, self._identity.pepper, idempotency_key, verb="rebuild", nu=str(nu), cap=str(cap)
        )
        return self._edit(act, "rebuild", request, expected, new_nu=nu)

    def held(self, names: Iterable[str]) -> dict[str, Hold]:
        """Which of these entries must not be erased, and by which hold."""
        with self._database.reading() as connection:
            found = holds_of(connection, self.number)
        return self.look(lambda view: matching(found, view, names))

    def knows(self, subject: str) -> bool:
        """Whether an entry of a subject is here, live, archived or forgotten."""
        view = self._current()._view
        live = any(view.alive[slot] for slot in view.entries.slots_of.get(subject, ()) if slot < view.count)
        return live or any(record.subject == subject for record in view.warranties.records.values())

    def adopt(self, image: Image) -> None:
        """Take a version that was just written as the one in hand."""
        image.memory.journal = _outside
        with self._swap:
            self._image = image

    def refusal(self, connection: Connection, held: dict[str, Hold]) -> Refused:
        """Write the refusal of an erasure that holds forbid, commit it, and return what to raise."""
        image = self._fresh(connection, gone=False)
        return Scribe(self._place, connection, image, "deletion", None).refuse(held, time.perf_counter())

    def _edit(
        self,
        act: Act,
        action: Action,
        request: Request | None,
        expected: str | None,
        *,
        same: Callable[[Memory, str], bool] | None = None,
        new_nu: float | None = None,
        doomed: Callable[[Memory], list[str]] | None = None,
    ) -> SignedReceipt:
        """One edit: lock, agree on the version, prepare, write, commit, publish."""
        started = time.perf_counter()
        with self.writing() as (connection, image):
            memory = image.memory
            if request is not None:
                answer = request.answered(connection)
                if answer is not None:
                    return self._again(connection, memory, answer, same)
            check_expected(expected, memory.digest)
            scribe = Scribe(self._place, connection, image, action, request, new_nu=new_nu, held=self._held)
            memory.journal = scribe.write
            try:
                if doomed is not None:
                    # A hold is the reason, whatever else stands in the way.
                    scribe.require_free(memory._view, doomed(memory))
                receipt = act(memory)
            except Held as problem:
                raise scribe.refuse(problem.held, started) from None
            except Refused as problem:
                scribe.commit(problem)
                raise
            finally:
                memory.journal = _outside
                if scribe.numbering is not None and scribe.after is not None:
                    # Committed, and yet not published: whoever comes next takes it from the database.
                    published = memory._view.edit == scribe.after.edit
                    self._image = Image(memory, scribe.numbering) if published else None
            reach("published")
            if scribe.signed is None:
                raise StoreError(f"the edit of {self.name!r} left no receipt: {receipt!r}")
            return scribe.signed

    def _again(
        self,
        connection: Connection,
        memory: Memory,
        answer: dict[str, Any],
        same: Callable[[Memory, str], bool] | None,
    ) -> SignedReceipt:
        """Answer a repeated request."""
        receipt = read_receipt(answer["receipt"], leaf_at(connection, answer["receipt"]["index"]).envelope)
        if answer["refusal"] is not None:
            raise read_refusal(answer["refusal"], receipt)
        if same is not None:
            name = receipt.applied[0]
            digest = commitment_of(memory._view, name)
            if digest is not None and digest.hex() == answer["commitment"] and not same(memory, name):
                raise Conflict("this idempotency key was used to admit another entry; nothing was done")
        return receipt

    def _preview(self, act: Act, expected: str | None, doomed: Callable[[Memory], list[str]] | None = None) -> Preview:
        """Prepare an edit, look at it, and throw it away."""
        with self._mine():
            memory = self._current()
            check_expected(expected, memory.digest)
            with self._database.reading() as connection:
                known = holds_of(connection, self.number)
            try:
                return look_ahead(memory, act, known, [] if doomed is None else doomed(memory))
            finally:
                memory.journal = _outside

    @contextmanager
    def _mine(self) -> Iterator[None]:
        """Be the only thread of this process that edits this memory."""
        if not self._turn.acquire(timeout=self._database.timeout):
            raise Busy(f"another thread has been editing {self.name!r} for {self._database.timeout:g} s; try again")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def locked(self) -> Iterator[Connection]:
        """Hold the memory's lock, whether or not its stored version can be loaded."""
        with self._mine(), self._database.writing(self.uuid) as connection:
            reach("locked")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[tuple[Connection, Image]]:
        """Hold the memory's lock, with the stored version in hand."""
        with self.locked() as connection:
            with self._swap:
                row = connection.execute(self._head_and_holds).first()
                image = self._image
                if image is None or row is None or not _is_current(image, row):
                    image = self._image = self._fresh(connection, gone=row is None)
                self._held = row is not None and row.held > 0
                self._editing = True
            reach("loaded")
            try:
                yield connection, image
            finally:
                self._editing = False

    def _current(self) -> Memory:
        """The version in hand, brought up to date; an edit of this process that is under way is not waited for."""
        image = self._image
        if image is not None and self._editing:
            return image.memory
        row = self._database.glance(self._head)
        if image is not None and row is not None and _is_current(image, row):
            return image.memory
        with self._swap:
            image = self._image
            if image is None or not self._editing:
                with self._database.reading() as connection:
                    row = connection.execute(self._head).first()
                    if image is None or row is None or not _is_current(image, row):
                        image = self._image = self._fresh(connection, gone=row is None)
            return image.memory

    def _fresh(self, connection: Connection, *, gone: bool) -> Image:
        if gone:
            raise StoreError(f"the memory {self.name!r} was dropped")
        image = load_image(connection, self.number)
        image.memory.journal = _outside
        return image


def _outside(before: View, after: View, receipt: Receipt) -> None:
    """The journal of a stored memory between its edits."""
    raise StoreError("edit a stored memory through its store")


def _is_current(image: Image, row: Any) -> bool:
    view = image.memory._view
    return bool(view.edit == row.edit and bytes.fromhex(view.digest) == bytes(row.digest))


def check_expected(expected: str | None, digest: str) -> None:
    """Raise Stale if the stored state is not the one that the caller has seen."""
    if expected is not None and expected != digest:
        raise Stale(f"the stored state is {digest}, not {expected}: somebody edited it; nothing was done")
