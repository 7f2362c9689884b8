"""Many named memories in one database, one ledger for all of them.

Every edit is durable before it counts, and its receipt is a leaf of the ledger. What concerns more than one memory is
here: creating and dropping them, erasing a data subject everywhere, legal holds, proofs of the ledger, backup and
restore.
"""

from __future__ import annotations

import json
import re
import threading
import uuid as uuids
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, overload

import numpy.typing as npt
from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from expunge.attestation.statements import attest_creation
from expunge.errors import InputError, Refused, StoreError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint
from expunge.ledger.commitment import new_salts
from expunge.ledger.envelope import open_statement
from expunge.ledger.event import Event, subject_commitment
from expunge.ledger.merkle.proof_file import ExtensionProof, InclusionProof
from expunge.ledger.merkle.tree import consistency_path, inclusion_path
from expunge.ledger.merkle.tree_proof import verify_consistency
from expunge.ledger.note import NoteKey, SignedNote, parse_note
from expunge.ledger.receipt_format import Predicate, parse_predicate
from expunge.ledger.signing import VerifyingKey
from expunge.ledger.statement import Subject
from expunge.memory.entries import check_subject
from expunge.memory.memory import Memory
from expunge.store.backends.connect import displayed
from expunge.store.backends.database import Database, Vacuumed
from expunge.store.backends.tables import checkpoints, entries, memories, pruned, secrets
from expunge.store.crash_points import reach
from expunge.store.edit_preview import Preview
from expunge.store.encryption import subject_tag, tag_mark
from expunge.store.idempotency import Request
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Head, Leaf, frontier_of, last_edit, leaf_at, leaves_from, node_reader
from expunge.store.legal_holds import Hold, check_terms, hold_reason, holds_of
from expunge.store.maintenance.backup import Restored, export_ledger, restore_store, write_backup
from expunge.store.maintenance.integrity import Verified, verify_store
from expunge.store.row_writer import Pen
from expunge.store.rows import Facts, Image
from expunge.store.signed_receipt import SignedReceipt
from expunge.store.stored_memory import StoredMemory, check_expected
from expunge.store.subject_erasure import Erased, SubjectErasure, part_key, part_of, read_erasure, write_erasure

__all__ = ["Store", "check_name"]

_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}")


class Store:
    """An open store. Make one with `expunge.open`."""

    def __init__(self, database: Database, identity: Identity) -> None:
        self._database = database
        self._identity = identity
        self._known: dict[str, StoredMemory] = {}
        self._lock = threading.Lock()
        self._open = True

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.origin} at {displayed(self._database.engine.url)}>"

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
        return self._memory(row.number, row.uuid, name)

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
        with self._reading() as connection:
            return sorted(connection.execute(select(memories.c.name)).scalars())

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
        view, uuid = memory._view, str(uuids.uuid4())
        statement = attest_creation(
            view,
            memory=uuid,
            clock=self._identity.clock,
            initial_size=memory.initial_size,
            attempts=memory._attempts,
        )
        envelope = self._identity.sign(statement)
        with self._writing(f"name {name}") as connection:
            reach("locked")
            head = Head(connection)
            number = head.take(1)
            pen = Pen(self._database, connection, head, self._identity.secret, number)
            try:
                numbering = pen.create(uuid, name, view, Facts.of(memory))
            except IntegrityError:
                raise InputError(f"there is a memory {name!r} already; somebody was faster") from None
            reach("entered")
            head.append(envelope, "created", uuid, view.edit)
            head.write()
            reach("logged")
            connection.commit()
            reach("committed")
        stored = self._memory(number, uuid, name)
        stored.adopt(Image(memory, numbering))
        return stored

    def drop(self, name: str, *, expected: str | None = None, idempotency_key: str | None = None) -> Leaf:
        """Take a memory away with all its content. Raises DeletionRefused while it has a hold.

        The memory is not loaded, so one that is damaged can be dropped as well: its last receipt says what it was.
        ``expected`` is the digest of the state that the caller has seen; if it is no longer the stored one, Stale is
        raised and the memory stays.
        """
        request = Request.of(self.uuid, self._identity.pepper, idempotency_key, verb="drop", name=check_name(name))
        if request is not None:
            with self._reading() as connection:
                answer = request.answered(connection)
                if answer is not None:
                    return leaf_at(connection, answer["leaf"])
        stored = self[name]
        with stored.locked() as connection:
            answer = None if request is None else request.answered(connection)
            if answer is not None:
                return leaf_at(connection, answer["leaf"])
            if connection.execute(select(memories).where(memories.c.number == stored.number)).first() is None:
                raise StoreError(f"the memory {name!r} was dropped")
            last = self._last(connection, stored)
            check_expected(expected, last.state_after)
            if holds := holds_of(connection, stored.number):
                held = {hold.id or hold.subject or "": hold for hold in holds}
                try:
                    refusal = stored.refusal(connection, held)
                except VerificationError as problem:
                    raise StoreError(
                        f"{hold_reason(held)}. No receipt says so, since the memory cannot be loaded ({problem}); "
                        "to drop it, release its holds"
                    ) from problem
                raise refusal
            head = Head(connection)
            pen = Pen(self._database, connection, head, self._identity.secret, stored.number)
            pen.drop()
            event = Event.at(
                self._identity.clock,
                "dropped",
                stored.uuid,
                Subject("state", last.state_after),
                live=last.after.live,
                pruned=last.after.pruned,
            )
            leaf = head.append(self._identity.sign(event.to_statement()), "dropped", stored.uuid)
            head.write()
            reach("logged")
            if request is not None:
                request.note(connection, {"leaf": leaf.index})
            reach("noted")
            connection.commit()
            reach("committed")
            self._database.settle(connection)
            reach("settled")
        with self._lock:
            self._known.pop(stored.uuid, None)
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
            return {name: self[name].delete(subject=owner, dry_run=True) for name in self._memories_of(owner)}
        request = Request.of(self.uuid, self._identity.pepper, idempotency_key, verb="erase_subject", subject=owner)
        if request is not None:
            with self._reading() as connection:
                answer = request.answered(connection)
                if answer is not None:
                    return read_erasure(connection, answer)
        names = self._memories_of(owner, also=request)
        told = progress or (lambda done, total: None)
        parts = []
        for done, name in enumerate(names):
            told(done, len(names))
            parts.append(self._erase_in(name, owner, request))
        told(len(names), len(names))
        return self._summarise(owner, [part for part in parts if part is not None], request)

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
        terms = check_terms(id, subject, reason)
        stored = self[name]
        with stored.writing() as (connection, image):
            view = image.memory._view
            if id is not None and view.slot(id) is None and id not in view.warranties.records:
                raise InputError(f"no entry has id {id!r}")
            head = Head(connection)
            pen = Pen(self._database, connection, head, self._identity.secret, stored.number)
            number = pen.place_hold(json.dumps(terms).encode())
            self._tell(head, "held", stored.uuid, view.digest, number)
            connection.commit()
        return Hold(number, name, terms["id"], terms["subject"], reason)

    def release(self, hold: Hold | int) -> Leaf:
        """End a hold. The memory is not loaded, so a damaged one can be released, and then dropped."""
        number = hold.number if isinstance(hold, Hold) else hold
        found = next((known for known in self.holds() if known.number == number), None)
        if found is None:
            raise InputError(f"there is no hold {number}")
        stored = self[found.memory]
        with stored.locked() as connection:
            if all(known.number != number for known in holds_of(connection, stored.number)):
                raise InputError(f"there is no hold {number} any more")
            head = Head(connection)
            pen = Pen(self._database, connection, head, self._identity.secret, stored.number)
            pen.lift_hold(number)
            digest = self._last(connection, stored).state_after
            leaf = self._tell(head, "released", stored.uuid, digest, number)
            connection.commit()
            self._database.settle(connection)
        return leaf

    def holds(self, name: str | None = None) -> list[Hold]:
        """Holds in order of placement, of one memory or of all."""
        number = None if name is None else self[name].number
        with self._reading() as connection:
            return holds_of(connection, number)

    def receipts(self, name: str | None = None, *, start: int = 0, limit: int | None = None) -> list[Leaf]:
        """Leaves of the ledger in order, from index `start`, of one memory or of all, at most `limit`."""
        uuid = None if name is None else self[name].uuid
        with self._reading() as connection:
            return list(leaves_from(connection, start=start, memory=uuid, limit=limit))

    def leaf(self, index: int) -> Leaf:
        """One leaf of the ledger."""
        with self._reading() as connection:
            return leaf_at(connection, index)

    @property
    def size(self) -> int:
        """Number of leaves in the ledger."""
        with self._reading() as connection:
            return frontier_of(connection).size

    def checkpoint(self) -> SignedNote:
        """The signed head of the ledger as it stands. Hand it out: whoever keeps it holds the ledger to it."""
        with self._reading() as connection:
            frontier = frontier_of(connection)
            kept = connection.execute(select(checkpoints.c.note).where(checkpoints.c.size == frontier.size)).scalar()
        if kept is not None:
            return parse_note(bytes(kept))
        note = self._identity.sign_head(frontier)
        with self._writing("checkpoints") as connection:
            if (
                connection.execute(select(checkpoints.c.size).where(checkpoints.c.size == frontier.size)).first()
                is None
            ):
                connection.execute(insert(checkpoints), {"size": frontier.size, "note": note.to_bytes()})
                connection.commit()
        return note

    def inclusion(self, index: int, head: SignedNote | None = None) -> InclusionProof:
        """Proof that a leaf is in the ledger, with the head that it leads to: a new one, or an earlier ``head`` of this
        ledger with whatever cosignatures it has since been given.
        """
        with self._reading() as connection:
            frontier, read = frontier_of(connection), node_reader(connection)
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < frontier.size:
                raise InputError(f"the ledger has leaves 0 to {frontier.size - 1}, not {index!r}")
            size = frontier.size
            if head is not None:
                verify_checkpoint(head, [self.log_key], self.origin)
                stated = parse_checkpoint(head.text)
                size = stated.size
                grown = consistency_path(read, size, frontier.size) if size <= frontier.size else ()
                verify_consistency(size, stated.root, frontier.size, frontier.root, grown)
                if index >= size:
                    raise InputError(f"that head has {size} leaves, and leaf {index} came later: give a newer one")
            path = inclusion_path(read, index, size)
        return InclusionProof(index, path, self._identity.sign_head(frontier) if head is None else head)

    def consistency(self, old_size: int) -> ExtensionProof:
        """Proof that the ledger only grew since it had `old_size` leaves, with the head that it leads to."""
        with self._reading() as connection:
            frontier = frontier_of(connection)
            if isinstance(old_size, bool) or not isinstance(old_size, int) or not 0 <= old_size <= frontier.size:
                raise InputError(f"the ledger has had 0 to {frontier.size} leaves, not {old_size!r}")
            path = consistency_path(node_reader(connection), old_size, frontier.size)
        return ExtensionProof(old_size, path, self._identity.sign_head(frontier))

    def verify(self) -> Verified:
        """Check everything: the database, every memory, every receipt and signature, the whole ledger.

        Raises VerificationError at the first thing that is wrong.
        """
        self._require_open()
        return verify_store(self._database, self._identity)

    def vacuum(self) -> Vacuumed:
        """Remove what earlier erasures left in the database's files; on PostgreSQL it is this that completes them."""
        self._require_open()
        return self._database.vacuum()

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the whole store to a new SQLite file, without the signing key."""
        with self._reading() as connection:
            write_backup(connection, Path(path))

    def export_ledger(self, path: str | Path) -> SignedNote:
        """Write every leaf to a new file, one envelope a line, and return the head that covers them."""
        with self._reading() as connection:
            frontier = export_ledger(connection, Path(path))
        return self._identity.sign_head(frontier)

    def restore(
        self, path: str | Path, *, ledger: Store | str | Path | None = None, checkpoint: SignedNote | None = None
    ) -> Restored:
        """Fill this store, which must be empty and opened by nobody else, from a backup; erase again what was since.

        `ledger` is the newest ledger there is: a store that still has it, or a file by `export_ledger`. It must
        extend the backup's, and reach `checkpoint` where one was kept; the restored store continues it. Entries are
        matched by their commitments. Content that was erased after the backup never reaches this database. Edits
        since then other than erasures are lost; so is a memory that its erasures leave with too few entries.
        """
        self._require_open()
        source: Path | list[bytes] | None
        if isinstance(ledger, Store):
            with ledger._reading() as connection:
                source = [leaf.envelope for leaf in leaves_from(connection)]
        else:
            source = None if ledger is None else Path(ledger)
        with self._writing("restore") as connection:
            identity, restored = restore_store(
                self._database, connection, self._identity, Path(path), source, checkpoint
            )
            connection.commit()
            self._database.settle(connection)
        with self._lock:
            self._identity = identity
            self._known.clear()
        return restored

    def close(self) -> None:
        """Finish what an erasure may have left to do, and give the connections back."""
        if not self._open:
            return
        self._open = False
        self._database.finish()

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        self._require_open()
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def _writing(self, lock: str) -> Iterator[Any]:
        self._require_open()
        with self._database.writing(f"{self.uuid} {lock}") as connection:
            yield connection

    def _require_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")

    def _row(self, name: str) -> Any:
        self._require_open()
        return self._database.glance(select(memories.c.number, memories.c.uuid).where(memories.c.name == name))

    def _memory(self, number: int, uuid: str, name: str) -> StoredMemory:
        with self._lock:
            if uuid not in self._known:
                self._known[uuid] = StoredMemory(self._database, self._identity, number, uuid, name)
            return self._known[uuid]

    def _memories_of(self, subject: str, also: Request | None = None) -> list[str]:
        """Names of the memories with an entry of a subject, live, archived or forgotten."""
        tag = subject_tag(self._identity.secret, subject)
        with self._reading() as connection:
            names = set()
            for table in (entries, pruned):
                # A mark is under the secret of its row, so that every row has to be tried.
                marks = (
                    select(memories.c.name, table.c.mark, secrets.c.secret)
                    .join(table, table.c.memory == memories.c.number)
                    .join(secrets, secrets.c.number == table.c.number)
                    .where(table.c.mark.is_not(None))
                )
                names |= {row.name for row in connection.execute(marks) if row.mark == tag_mark(row.secret, tag)}
            if also is not None:
                # Memories that a first try under the same key has already been through.
                for row in connection.execute(select(memories.c.uuid, memories.c.name)):
                    if part_of(also, self._identity.pepper, row.uuid, subject).answered(connection) is not None:
                        names.add(row.name)
        if not names:
            raise InputError(f"no entry belongs to subject {subject!r}; nothing was deleted")
        return sorted(names)

    def _erase_in(self, name: str, subject: str, request: Request | None) -> Erased | None:
        if name not in self:
            return None
        stored = self[name]
        key = None if request is None else part_key(request, stored.uuid)
        try:
            receipt = stored.delete(subject=subject, idempotency_key=key)
            return Erased(name, stored.uuid, receipt.outcome, receipt)
        except Refused as problem:
            refusal = problem.receipt if isinstance(problem.receipt, SignedReceipt) else None
            return Erased(name, stored.uuid, "refused", refusal, problem.reason)
        except (InputError, StoreError) as problem:
            if name not in self or not stored.knows(subject):
                # Somebody else erased the subject, or dropped the memory, in the meantime.
                return None
            return Erased(name, stored.uuid, "failed", None, str(problem))
        except VerificationError as problem:
            # It is damaged and cannot be edited; the others can.
            return Erased(name, stored.uuid, "failed", None, str(problem))

    def _summarise(self, subject: str, parts: list[Erased], request: Request | None) -> SubjectErasure:
        salt = new_salts(1)
        with self._writing("subjects") as connection:
            answer = None if request is None else request.answered(connection)
            if answer is not None:
                return read_erasure(connection, answer)
            head = Head(connection)
            event = Event.at(
                self._identity.clock,
                "subject_erased",
                None,
                Subject("subject", subject_commitment(salt, subject)),
                memories=[
                    {
                        "memory": part.uuid,
                        "outcome": part.outcome,
                        "leaf": None if part.receipt is None else part.receipt.index,
                        "entries": len(part.applied),
                    }
                    for part in parts
                ],
            )
            leaf = head.append(self._identity.sign(event.to_statement()), "subject_erased")
            head.write()
            done = SubjectErasure(tuple(parts), leaf.index, leaf.envelope, salt)
            # Under the same key a failed part is to be tried again, so only a final answer is remembered.
            if request is not None and all(part.outcome != "failed" for part in parts):
                request.note(connection, write_erasure(done))
            connection.commit()
        return done

    def _last(self, connection: Connection, stored: StoredMemory) -> Predicate:
        """What the ledger says last of a memory, whether or not that can be loaded."""
        return parse_predicate(open_statement(last_edit(connection, stored.uuid).envelope, [self.public_key]))

    def _tell(self, head: Head, kind: Literal["held", "released"], memory: str, digest: str, number: int) -> Leaf:
        event = Event.at(self._identity.clock, kind, memory, Subject("state", digest), hold=number)
        leaf = head.append(self._identity.sign(event.to_statement()), kind, memory)
        head.write()
        return leaf


def check_name(name: Any) -> str:
    """A memory's name has 1 to 200 printable characters."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"a memory's name has 1 to 200 printable characters, not {name!r:.80}")
    return name
