"""Many named memories in one database, one ledger for all of them.

Every edit is durable before it counts, and its receipt is a leaf of the ledger. What concerns more than one memory is
here: creating and dropping them, erasing a data subject everywhere, legal holds, proofs of the ledger, backup and
restore.
"""

from __future__ import annotations

import hmac
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, overload

import numpy.typing as npt
from sqlalchemy import Select, select

from expunge.errors import InputError, StoreError
from expunge.ledger.merkle.proof_file import ExtensionProof, InclusionProof
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.signing import VerifyingKey
from expunge.memory.entries import check_subject
from expunge.memory.memory import Memory
from expunge.store.backends.connect import url_without_password
from expunge.store.backends.database import CheckedConnection, Database, VacuumResult
from expunge.store.backends.schema_version import check_schema, schema_version
from expunge.store.backends.tables import memories
from expunge.store.edits.edit_preview import Preview
from expunge.store.edits.edit_transaction import MemoryContext
from expunge.store.edits.idempotency import Request, peppered_key
from expunge.store.identity import Identity
from expunge.store.ledger_proofs import prove_extension, prove_inclusion, sign_checkpoint_of
from expunge.store.ledger_tables import (
    Leaf,
    newest_leaves,
    read_frontier,
    read_leaf,
    read_leaves,
)
from expunge.store.legal_holds import Hold, check_hold_terms, place_hold, read_holds, release_hold
from expunge.store.maintenance.backup import export_ledger, write_backup
from expunge.store.maintenance.expiry import delete_expired
from expunge.store.maintenance.integrity import VerifyResult, verify_store
from expunge.store.maintenance.restore import RestoreResult, restore_store
from expunge.store.memory_lifecycle import create_memory, drop_memory
from expunge.store.rows import LoadedMemory, MemorySummary, last_edits, read_summaries
from expunge.store.stored_memory import StoredMemory
from expunge.store.subject_erasure import SubjectErasure, erase_subject, memories_of_subject

__all__ = ["Store", "check_name"]

_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}")


class Store:
    """An open store. Make one with `expunge.open`."""

    def __init__(self, database: Database, identity: Identity) -> None:
        self._database = database
        self._identity = identity
        self._opened: dict[str, StoredMemory] = {}
        self._lock = threading.Lock()
        self._open = True

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.origin} at {url_without_password(self._database.engine.url)}>"

    def __len__(self) -> int:
        return len(self.names())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _NAME.fullmatch(name) is not None and self._row(name) is not None

    def __getitem__(self, name: str) -> StoredMemory:
        """The memory of this name; InputError if there is none."""
        row = self._row(check_name(name))
        if row is None:
            raise InputError(f"there is no memory {name!r} in this store")
        return self._memory(MemoryContext(self._database, self._identity, row.number, row.uuid), name)

    @property
    def uuid(self) -> str:
        """The store's own id."""
        return self._identity.uuid

    @property
    def origin(self) -> str:
        """The identity of its ledger."""
        return self._identity.origin

    @property
    def public_key(self) -> VerifyingKey:
        """The key that its receipts verify under."""
        return self._identity.signing_key.public

    @property
    def log_key(self) -> NoteKey:
        """The key that its checkpoints verify under, with the origin as its name."""
        return self._identity.log_key

    def names(self) -> list[str]:
        """Names of the memories, sorted."""
        with self.reading() as connection:
            return sorted(connection.values(select(memories.c.name)))

    def memories(self) -> list[MemorySummary]:
        """Name, UUID, edit number and size of every memory; none is loaded."""
        with self.reading() as connection:
            return read_summaries(connection)

    def name_of(self, uuid: str) -> str | None:
        """Name of the memory with a UUID, or None."""
        row = self.read_row(select(memories.c.name).where(memories.c.uuid == uuid))
        return None if row is None else row.name

    def create(
        self,
        name: str,
        keys: npt.ArrayLike,
        values: npt.ArrayLike,
        *,
        sigma: float,
        nu: float | None = None,
        cap: float | None = None,
        ids: Sequence[str] | None = None,
        subjects: Sequence[str | None] | None = None,
        payloads: Sequence[Any] | None = None,
    ) -> StoredMemory:
        """Fit a memory (see `Memory.fit`) and keep it under a name that is not taken."""
        if check_name(name) in self:
            raise InputError(f"there is a memory {name!r} already; drop it first, or take another name")
        memory = Memory.fit(keys, values, sigma=sigma, nu=nu, cap=cap, ids=ids, subjects=subjects, payloads=payloads)
        context, forgotten = create_memory(self._database, self._identity, name, memory)
        stored = self._memory(context, name)
        stored.set_loaded(LoadedMemory(memory, forgotten))
        return stored

    def drop(self, name: str, *, expected: str | None = None, idempotency_key: str | None = None) -> Leaf:
        """Delete a memory with all its content. Raises DeletionRefused while it has a hold.

        The memory is not loaded, so one that is damaged can be dropped as well: its last receipt says what it was.
        ``expected`` is the digest of the state that the caller has seen; if it is no longer the stored one, Stale is
        raised and the memory stays.
        """
        request = Request.of(self.uuid, self._identity.pepper, idempotency_key, verb="drop", name=check_name(name))
        if request is not None:
            with self.reading() as connection:
                answer = request.earlier_answer(connection)
                if answer is not None:
                    return read_leaf(connection, answer["leaf"])
        leaf = drop_memory(self._database, self._identity, self[name], expected, request)
        self._forget_dropped(leaf.memory or "")
        return leaf

    @overload
    def erase_subject(
        self,
        subject: str,
        *,
        dry_run: Literal[False] = False,
        idempotency_key: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SubjectErasure: ...
    @overload
    def erase_subject(
        self, subject: str, *, dry_run: Literal[True], idempotency_key: str | None = None
    ) -> dict[str, Preview]: ...
    @overload
    def erase_subject(
        self, subject: str, *, dry_run: bool, idempotency_key: str | None = None
    ) -> SubjectErasure | dict[str, Preview]: ...
    def erase_subject(
        self,
        subject: str,
        *,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SubjectErasure | dict[str, Preview]:
        """Delete everything of a data subject, in every memory, with one summary in the ledger.

        Each memory is one transaction with its own receipt: all of the subject's entries in it go, or, where that is
        refused, none. The summary says which. Raises InputError when no memory has an entry of the subject. If the
        process dies on the way, repeat the call under the same idempotency key: what was done is not done again, the
        rest is, and the summary covers both. `progress` is told how many memories are done, and of how many, before
        each and at the end; what it raises ends the erasure there, to be taken up again in the same way.
        """
        owner = check_subject(subject)
        if owner is None:
            raise InputError("whose entries? a subject is a non-empty string")
        if dry_run:
            with self.reading() as connection:
                names = memories_of_subject(connection, self._identity, owner)
            return {name: self[name].delete(subject=owner, dry_run=True) for name in names}
        request = Request.of(self.uuid, self._identity.pepper, idempotency_key, verb="erase_subject", subject=owner)
        return erase_subject(self, self._identity, owner, request, progress)

    def hold(
        self,
        name: str,
        id: str | None = None,  # noqa: A002 — the public word
        *,
        subject: str | None = None,
        reason: str,
    ) -> Hold:
        """Forbid the erasure of an entry, or of every entry of a subject, present and to come, in one memory.

        An erasure that would touch it is refused with the reason, and the refusal has its receipt. The reason is kept
        with the hold and not in the ledger.
        """
        terms = check_hold_terms(id, subject, reason)
        number = place_hold(self._database, self._identity, self[name], terms)
        return Hold(number, name, terms["id"], terms["subject"], reason)

    def release(self, hold: Hold | int) -> Leaf:
        """End a hold. The memory is not loaded, so a damaged one can be released, and then dropped."""
        number = hold.number if isinstance(hold, Hold) else hold
        found = next((known for known in self.holds() if known.number == number), None)
        if found is None:
            raise InputError(f"there is no hold {number}")
        return release_hold(self._database, self._identity, self[found.memory], number)

    def holds(self, name: str | None = None) -> list[Hold]:
        """Holds in order of placement, of one memory or of all."""
        number = None if name is None else self[name].number
        with self.reading() as connection:
            return read_holds(connection, number)

    def receipts(self, name: str | None = None, *, start: int = 0, limit: int | None = None) -> list[Leaf]:
        """Leaves of the ledger in order, from index `start`, of one memory or of all, at most `limit`."""
        uuid = None if name is None else self[name].uuid
        with self.reading() as connection:
            return list(read_leaves(connection, start=start, memory=uuid, limit=limit))

    def newest_leaves(
        self,
        *,
        memories: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[Leaf]:
        """Leaves from the newest back, with an index below `before`; of memories by UUID and of kinds where given."""
        with self.reading() as connection:
            return newest_leaves(connection, memories=memories, kinds=kinds, before=before, limit=limit)

    def leaf(self, index: int) -> Leaf:
        """One leaf of the ledger."""
        with self.reading() as connection:
            return read_leaf(connection, index)

    @property
    def size(self) -> int:
        """Number of leaves in the ledger."""
        with self.reading() as connection:
            return read_frontier(connection).size

    def checkpoint(self) -> SignedNote:
        """The signed head of the ledger as it stands. Hand it out: whoever keeps it holds the ledger to it."""
        self._require_open()
        return sign_checkpoint_of(self._database, self._identity)

    def inclusion(self, index: int, head: SignedNote | None = None) -> InclusionProof:
        """Proof that a leaf is in the ledger, with the head that it leads to: a new one, or an earlier ``head`` of this
        ledger with whatever cosignatures it has since been given.
        """
        with self.reading() as connection:
            return prove_inclusion(connection, self._identity, index, head)

    def consistency(self, old_size: int) -> ExtensionProof:
        """Proof that the ledger only grew since it had `old_size` leaves, with the head that it leads to."""
        with self.reading() as connection:
            return prove_extension(connection, self._identity, old_size)

    def verify(self) -> VerifyResult:
        """Check everything: the database, every memory, every receipt and signature, the whole ledger.

        Raises VerificationError at the first thing that is wrong.
        """
        self._require_open()
        return verify_store(self._database, self._identity)

    def vacuum(self) -> VacuumResult:
        """Remove what earlier erasures left in the database's files; on PostgreSQL it is this that completes them."""
        self._require_open()
        return self._database.vacuum()

    def waiting(self) -> str | None:
        """The reason why the database's files still hold erased secrets, as far as is known; None if they hold none."""
        return self.erasures_waiting()[1]

    def erasures_waiting(self) -> tuple[int, str | None]:
        """How many erasures (on PostgreSQL: erased secrets) the files still hold, as far as is known, and why."""
        self._require_open()
        return self._database.waiting()

    def retry_erasures(self) -> None:
        """Try once more to remove erased secrets that a reader has kept in the files; the next edit does so, too.

        Of the memories that this process has loaded, versions that another process has edited since are let go, and
        overwritten once no reader has them in hand.
        """
        self._require_open()
        self._database.retry_erasures()
        with self._lock:
            opened = dict(self._opened)
        if not opened:
            return
        with self.reading() as connection:
            edits = last_edits(connection, opened)
        for uuid, stored in opened.items():
            if uuid in edits:
                stored.let_go(edits[uuid])
            else:
                self._forget_dropped(uuid)

    def delete_expired(self, now: float | None = None) -> int:
        """Delete what is kept for a limited time and is older: see `expunge.store.maintenance.expiry`.

        ``now`` is in seconds since 1970. Returns how many rows were deleted.
        """
        self._require_open()
        return delete_expired(self._database, f"{self.uuid} expiry", time.time() if now is None else now)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the whole store to a new SQLite file, without the signing key."""
        with self.reading() as connection:
            write_backup(connection, Path(path))

    def export_ledger(self, path: str | Path) -> SignedNote:
        """Write every leaf to a new file, one envelope per line, and return the head that covers them."""
        with self.reading() as connection:
            frontier = export_ledger(connection, Path(path))
        return self._identity.sign_head(frontier)

    def restore(
        self, path: str | Path, *, ledger: Store | str | Path | None = None, checkpoint: SignedNote | None = None
    ) -> RestoreResult:
        """Fill this store, which must be empty and opened by nobody else, from a backup; erase again what was since.

        `ledger` is the newest ledger there is: a store that still has it, or a file by `export_ledger`. It must
        extend the backup's, and reach `checkpoint` where one was kept; the restored store continues it. Entries are
        matched by their commitments. Content that was erased after the backup never reaches this database. Edits
        since then other than erasures are lost; so is a memory that its erasures leave with too few entries.
        """
        self._require_open()
        source: Path | list[bytes] | None
        if isinstance(ledger, Store):
            source = [leaf.envelope for leaf in ledger.receipts()]
        else:
            source = None if ledger is None else Path(ledger)
        with self.writing("restore") as connection:
            identity, restored = restore_store(
                self._database, connection, self._identity, Path(path), source, checkpoint
            )
            connection.commit()
            self._database.finish_erasure(connection)
        with self._lock:
            self._identity = identity
            opened, self._opened = self._opened, {}
        for stored in opened.values():
            stored.let_go(None)
        return restored

    def close(self) -> None:
        """Finish what an erasure may have left to do, and give the connections back."""
        if not self._open:
            return
        self._open = False
        self._database.close()

    @contextmanager
    def reading(self) -> Iterator[CheckedConnection]:
        """One consistent snapshot of the database, for whoever has tables of its own in it, such as the service."""
        self._require_open()
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def writing(self, lock: str) -> Iterator[CheckedConnection]:
        """A transaction under a lock of the store with this name; nothing counts unless the caller commits."""
        self._require_open()
        with self._database.writing(f"{self.uuid} {lock}") as connection:
            yield connection

    def read_row(self, query: Select[Any]) -> Any:
        """First row of one query by itself, or None."""
        self._require_open()
        return self._database.read_row(query)

    def check_schema(self) -> None:
        """Raise StoreError if the tables are no longer those that this program reads."""
        with self.reading() as connection:
            check_schema(schema_version(connection), "this store")

    def mac(self, message: bytes) -> bytes:
        """HMAC-SHA-256 of a message under the store's secret; begin the message with its purpose."""
        return hmac.digest(self._identity.secret, message, "sha256")

    def peppered_key(self, key: str) -> str:
        """An idempotency key as the store uses it: nobody without the signing key finds it by trying."""
        return peppered_key(self._identity.pepper, key)

    def _require_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")

    def _row(self, name: str) -> Any:
        return self.read_row(select(memories.c.number, memories.c.uuid).where(memories.c.name == name))

    def _memory(self, context: MemoryContext, name: str) -> StoredMemory:
        with self._lock:
            if context.uuid not in self._opened:
                self._opened[context.uuid] = StoredMemory(context, name)
            return self._opened[context.uuid]

    def _forget_dropped(self, uuid: str) -> None:
        with self._lock:
            stored = self._opened.pop(uuid, None)
        if stored is not None:
            stored.let_go(None)


def check_name(name: Any) -> str:
    """A memory's name has 1 to 200 printable characters."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"a memory's name has 1 to 200 printable characters, not {name!r:.80}")
    return name
