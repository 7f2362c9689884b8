"""What an erasure of a subject did, over all memories of a store; and how a repeated request finds it again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from expunge.store.idempotency import Request
from expunge.store.ledger_tables import leaf_at
from expunge.store.signed_receipt import SignedReceipt, read_receipt, write_receipt

__all__ = ["Erased", "SubjectErasure", "part_key", "part_of", "read_erasure", "write_erasure"]


@dataclass(frozen=True)
class Erased:
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
    does not keep the others from theirs. ``salt`` opens the summary's commitment to the subject; it is stored nowhere.
    """

    memories: tuple[Erased, ...]
    index: int
    envelope: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    @property
    def complete(self) -> bool:
        """Whether nothing of the subject is left in the store."""
        return all(part.outcome not in ("refused", "failed") for part in self.memories)

    @property
    def applied(self) -> dict[str, tuple[str, ...]]:
        """Ids that were erased, by memory."""
        return {part.memory: part.applied for part in self.memories if part.applied}


def part_key(request: Request, uuid: str) -> str:
    """The idempotency key of the deletion that an erasure makes in one memory."""
    return hashlib.sha256(f"expunge/part/v1\n{uuid}\n{request.key}".encode()).hexdigest()


def part_of(request: Request, pepper: bytes, uuid: str, subject: str) -> Request:
    """The request that an erasure makes to one memory."""
    asked = {"verb": "delete", "ids": None, "subject": subject}
    return Request.under(uuid, pepper, part_key(request, uuid), asked)


def write_erasure(done: SubjectErasure) -> dict[str, Any]:
    """As a request remembers it: receipts by their leaves."""
    return {
        "index": done.index,
        "salt": done.salt.hex(),
        "memories": [
            {
                "memory": part.memory,
                "uuid": part.uuid,
                "outcome": part.outcome,
                "receipt": None if part.receipt is None else write_receipt(part.receipt),
                "reason": part.reason,
            }
            for part in done.memories
        ],
    }


def read_erasure(connection: Any, answer: dict[str, Any]) -> SubjectErasure:
    """What `write_erasure` was given."""
    parts = tuple(
        Erased(
            part["memory"],
            part["uuid"],
            part["outcome"],
            None
            if part["receipt"] is None
            else read_receipt(part["receipt"], leaf_at(connection, part["receipt"]["index"]).envelope),
            part["reason"],
        )
        for part in answer["memories"]
    )
    envelope = leaf_at(connection, answer["index"]).envelope
    return SubjectErasure(parts, answer["index"], envelope, bytes.fromhex(answer["salt"]))
