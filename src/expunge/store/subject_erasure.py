"""Erasing a data subject in every memory of a store, with one summary in the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from expunge.errors import InputError, Refused, StoreError, VerificationError
from expunge.ledger.commitment import new_salts
from expunge.ledger.event import subject_commitment
from expunge.ledger.statement import Subject
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, forgotten, memories, secrets
from expunge.store.edits.idempotency import Request
from expunge.store.edits.signed_receipt import SignedReceipt, receipt_from_json
from expunge.store.encryption import row_mark, subject_tag
from expunge.store.identity import Identity
from expunge.store.ledger_tables import LedgerWriter, read_leaf

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["MemoryErasure", "SubjectErasure", "erase_subject", "erasure_from_json", "memories_of_subject"]


@dataclass(frozen=True)
class MemoryErasure:
    """What a subject erasure did in one memory, by name and UUID: the receipt, or why there is none.

    ``outcome`` is the receipt's, or ``failed`` where the store could not do it and another try may.
    """

    memory: str
    uuid: str
    outcome: str
    receipt: SignedReceipt | None
    reason: str | None = None

    @property
    def applied(self) -> tuple[str, ...]:
        """Ids that were erased."""
        return () if self.receipt is None else self.receipt.applied


@dataclass(frozen=True)
class SubjectErasure:
    """An erasure over all memories of a store; leaf ``index`` of the ledger, signed as ``envelope``, sums it up.

    Each memory is edited in a transaction of its own: a memory where the erasure is refused keeps all its entries, and
    does not keep the others from theirs. ``salt`` opens the summary's commitment to the subject. The store
    keeps it only in the answer to a request with an idempotency key, encrypted under that key, until it expires.
    """

    memories: tuple[MemoryErasure, ...]
    index: int
    envelope: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    @property
    def complete(self) -> bool:
        """Whether nothing of the subject is left in the store."""
        return all(part.outcome not in ("refused", "failed") for part in self.memories)

    @property
    def waiting(self) -> str | None:
        """None, or the reason why the database's files still hold erased secrets: see `SignedReceipt`."""
        reasons = (part.receipt.waiting for part in self.memories if part.receipt is not None)
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def applied(self) -> dict[str, tuple[str, ...]]:
        """Ids that were erased, by memory."""
        return {part.memory: part.applied for part in self.memories if part.applied}


def memories_of_subject(
    connection: CheckedConnection, identity: Identity, subject: str, request: Request | None = None
) -> list[str]:
    """Names of the memories with an entry of a subject, live, archived or forgotten.

    With a request also those that a first try of the same request has been through.
    """
    tag = subject_tag(identity.secret, subject)
    names = set()
    for table in (entries, forgotten):
        # A mark is under the secret of its row, so that every row has to be tried.
        marks = (
            select(memories.c.name, table.c.mark, secrets.c.secret)
            .join(table, table.c.memory == memories.c.number)
            .join(secrets, secrets.c.number == table.c.number)
            .where(table.c.mark.is_not(None))
        )
        names |= {row.name for row in connection.rows(marks) if row.mark == row_mark(row.secret, tag)}
    if request is not None:
        for row in connection.rows(select(memories.c.uuid, memories.c.name)):
            key = _key_in_memory(request, row.uuid)
            deletion = Request.of(row.uuid, identity.pepper, key, verb="delete", ids=None, subject=subject)
            if deletion is not None and deletion.earlier_answer(connection) is not None:
                names.add(row.name)
    if not names:
        raise InputError(f"no entry belongs to subject {subject!r}; nothing was deleted")
    return sorted(names)


def erase_subject(
    store: Store,
    identity: Identity,
    subject: str,
    request: Request | None,
    progress: Callable[[int, int], None] | None,
) -> SubjectErasure:
    """Delete everything of a subject, memory by memory, and write the summary."""
    with store.reading() as connection:
        answer = None if request is None else request.earlier_answer(connection)
        if answer is not None:
            return erasure_from_json(connection, answer, store.waiting())
        names = memories_of_subject(connection, identity, subject, request)
    parts = []
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names))
        parts.append(_erase_in_memory(store, name, subject, request))
    if progress is not None:
        progress(len(names), len(names))
    return _write_summary(store, identity, subject, [part for part in parts if part is not None], request)


def _key_in_memory(request: Request, uuid: str) -> str:
    """The idempotency key of the deletion that an erasure makes in one memory."""
    return hashlib.sha256(f"expunge/part/v1\n{uuid}\n{request.key}".encode()).hexdigest()


def _erase_in_memory(store: Store, name: str, subject: str, request: Request | None) -> MemoryErasure | None:
    """What became of a subject in one memory; None if others have erased it, or dropped the memory, meanwhile."""
    if name not in store:
        return None
    stored = store[name]
    key = None if request is None else _key_in_memory(request, stored.uuid)
    try:
        receipt = stored.delete(subject=subject, idempotency_key=key)
        return MemoryErasure(name, stored.uuid, receipt.outcome, receipt)
    except Refused as problem:
        refusal = problem.receipt if isinstance(problem.receipt, SignedReceipt) else None
        return MemoryErasure(name, stored.uuid, "refused", refusal, problem.reason)
    except (InputError, StoreError) as problem:
        if name not in store or not stored.has_subject(subject):
            return None
        return MemoryErasure(name, stored.uuid, "failed", None, str(problem))
    except VerificationError as problem:
        # It is damaged and cannot be edited; the others can.
        return MemoryErasure(name, stored.uuid, "failed", None, str(problem))


def _write_summary(
    store: Store, identity: Identity, subject: str, parts: list[MemoryErasure], request: Request | None
) -> SubjectErasure:
    salt = new_salts(1)
    with store.writing("subjects") as connection:
        answer = None if request is None else request.earlier_answer(connection)
        if answer is not None:
            return erasure_from_json(connection, answer, store.waiting())
        ledger_writer = LedgerWriter(connection)
        leaf = ledger_writer.append_event(
            identity,
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
        ledger_writer.flush()
        done = SubjectErasure(tuple(parts), leaf.index, leaf.envelope, salt)
        # Under the same key a failed part is to be tried again, so only a final answer is kept.
        if request is not None and all(part.outcome != "failed" for part in parts):
            request.save_answer(connection, _erasure_to_json(done))
        connection.commit()
    return done


def _erasure_to_json(done: SubjectErasure) -> dict[str, Any]:
    """As the answer to a request keeps it: receipts by their leaves."""
    return {
        "index": done.index,
        "salt": done.salt.hex(),
        "memories": [
            {
                "memory": part.memory,
                "uuid": part.uuid,
                "outcome": part.outcome,
                "receipt": None if part.receipt is None else part.receipt.to_json(),
                "reason": part.reason,
            }
            for part in done.memories
        ],
    }


def erasure_from_json(
    connection: CheckedConnection, answer: dict[str, Any], waiting: str | None = None
) -> SubjectErasure:
    """The erasure that an earlier answer tells of, with what the files hold now."""
    parts = tuple(
        MemoryErasure(
            part["memory"],
            part["uuid"],
            part["outcome"],
            None
            if part["receipt"] is None
            else receipt_from_json(part["receipt"], read_leaf(connection, part["receipt"]["index"]).envelope, waiting),
            part["reason"],
        )
        for part in answer["memories"]
    )
    envelope = read_leaf(connection, answer["index"]).envelope
    return SubjectErasure(parts, answer["index"], envelope, bytes.fromhex(answer["salt"]))
