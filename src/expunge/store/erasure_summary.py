"""Summaries: what an erasure did in each of several memories, and the leaf that counts their receipts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import select

from expunge.display.card import Card, Displayed, counted
from expunge.display.outcomes import OUTCOMES
from expunge.ledger.commitment import new_salts
from expunge.ledger.encoding import Json
from expunge.ledger.event import ERASED, SUMMARIES
from expunge.ledger.statement import Subject
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import holds, memories
from expunge.store.cases import Case, write_case
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.signed_receipt import SignedReceipt, receipt_from_json
from expunge.store.identity import Identity
from expunge.store.ledger_tables import LedgerWriter, last_receipt, read_leaf, read_leaves

if TYPE_CHECKING:
    from expunge.store.edits.idempotency import Request
    from expunge.store.store import Store

__all__ = [
    "JointErasure",
    "MemoryErasure",
    "append_erased",
    "erasure_from_answer",
    "leaves_counted",
    "parts_from_json",
    "parts_to_json",
    "stated_part",
    "still_true",
    "time_text",
]


@dataclass(frozen=True)
class MemoryErasure:
    """What an erasure did in one memory, by name and UUID: the receipt, or why there is none.

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

    @property
    def kept(self) -> bool:
        """Whether the memory has what was to be erased."""
        return self.outcome in ("refused", "failed")

    def to_json(self) -> dict[str, Any]:
        """What was erased, with its leaf; numbers of the ``holds`` that forbid it."""
        refusal = None if self.receipt is None else self.receipt.refusal
        return {
            "memory": self.memory,
            "uuid": self.uuid,
            "outcome": self.outcome,
            "index": None if self.receipt is None else self.receipt.index,
            "applied": list(self.applied),
            "holds": [] if refusal is None else list(refusal.holds),
            "reason": self.reason,
        }


@dataclass(frozen=True)
class JointErasure(Displayed):
    """An erasure in several memories, or a sweep; leaf ``index`` of the ledger, signed as ``envelope``, sums it up.

    A sweep erases everything that ended by the time ``due``. ``held`` has the entries that it left out because holds
    keep them, by memory; ``next_end`` is when the next entry ends. ``not_read`` names damaged memories, of which nobody
    can tell what their entries were made from. Where nothing was to be erased there is no leaf, and where one memory
    alone was edited, and by no sweep, its receipt says everything.
    """

    memories: tuple[MemoryErasure, ...]
    index: int | None = None
    envelope: bytes | None = field(default=None, repr=False)
    due: datetime | None = None
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_read: tuple[str, ...] = field(default=(), compare=False)
    next_end: datetime | None = field(default=None, compare=False)

    @property
    def complete(self) -> bool:
        """Whether nothing that was to go is left."""
        return not self.held and not any(part.kept for part in self.memories)

    @property
    def waiting(self) -> str | None:
        """None, or the reason why the database's files still hold erased secrets: see `SignedReceipt`."""
        reasons = (part.receipt.waiting for part in self.memories if part.receipt is not None)
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def applied(self) -> dict[str, tuple[str, ...]]:
        """Ids that were erased, by memory."""
        return {part.memory: part.applied for part in self.memories if part.applied}

    def to_json(self) -> dict[str, Any]:
        """What was erased where, with receipts; the envelopes are left out."""
        return {
            "complete": self.complete,
            "index": self.index,
            "due": None if self.due is None else time_text(self.due),
            "held": {name: list(ids) for name, ids in self.held.items()},
            "not_read": list(self.not_read),
            "memories": [part.to_json() for part in self.memories],
        }

    @property
    def sentence(self) -> str:
        """What was done, for a person."""
        gone = sum(len(part.applied) for part in self.memories)
        rest = "" if self.complete else "; NOT COMPLETE: see below"
        return f"{counted(gone, 'entry')} removed in {counted(len(self.memories), 'memory')}{rest}"

    def _card(self) -> Card:
        kept = sum(map(len, self.held.values()))
        return Card(
            title="Erasure in several memories" if self.due is None else "Erasure of what has ended",
            sentence=self.sentence,
            rows=(
                ("held", f"{counted(kept, 'entry')} kept by holds" if kept else ""),
                ("not read", ", ".join(self.not_read)),
                ("still in files", self.waiting or ""),
            ),
            columns=("memory", "entries removed", "what was done"),
            listing=tuple(
                (part.memory, str(len(part.applied)), part.reason or OUTCOMES.get(part.outcome, part.outcome))
                for part in self.memories
            ),
            details=(("ledger", "" if self.index is None else f"leaf {self.index}"),),
        )


def append_erased(
    store: Store,
    database: Database,
    identity: Identity,
    erasure: JointErasure,
    parts: Iterable[MemoryErasure],
    asked: Case | None,
    request: Request | None = None,
    named: MemoryErasure | None = None,
) -> JointErasure:
    """Write the summary of an erasure that is about no subject.

    The answer to a ``request`` is the receipt of the memory that it ``named``, with the erasure elsewhere; it is kept
    unless another try may do more.
    """
    with store.writing("subjects") as connection:
        ledger_writer = LedgerWriter(connection)
        found = still_true(connection, identity, list(parts))
        if found:
            held, before = sum(map(len, erasure.held.values())), leaves_counted(connection, found)
            facts = [stated_part(part, before) for part in found]
            leaf = ledger_writer.append_event(
                identity,
                "erased",
                None,
                Subject("erasure", new_salts(1).hex()),
                None if asked is None else asked.stated(),
                memories=facts,
                complete=not held and not any(part.kept for part in found),
                held=held,
                due=None if erasure.due is None else time_text(erasure.due),
            )
            ledger_writer.flush()
            write_case(database, connection, asked)
            erasure = replace(erasure, index=leaf.index, envelope=leaf.envelope)
        crash_point("summary_written")
        if request is not None and named is not None and not any(part.kept for part in found):
            receipt = None if named.receipt is None else named.receipt.to_json()
            kept = {"index": erasure.index, "memories": parts_to_json(erasure.memories)}
            answer: dict[str, Any] = {"receipt": receipt, "refusal": None, "commitments": [], "elsewhere": kept}
            if request.earlier_answer(connection) is None:
                request.save_answer(connection, answer)
        connection.commit()
        crash_point("summary_committed")
    return erasure


def erasure_from_answer(connection: CheckedConnection, answer: dict[str, Any], waiting: str | None) -> JointErasure:
    """What went elsewhere, as the answer to a request keeps it."""
    envelope = None if answer["index"] is None else read_leaf(connection, answer["index"]).envelope
    return JointErasure(parts_from_json(connection, answer["memories"], waiting), answer["index"], envelope)


def still_true(connection: CheckedConnection, identity: Identity, found: list[MemoryErasure]) -> list[MemoryErasure]:
    """What became of a subject, as it is now that nobody else can write: others may have dropped a memory that had
    failed, emptied it, or released the hold that it was refused for.
    """
    there = {row.uuid for row in connection.rows(select(memories.c.uuid))}
    in_force = {row.number for row in connection.rows(select(holds.c.number))}
    parts = []
    for part in found:
        refusal = None if part.receipt is None else part.receipt.refusal
        if part.outcome in ERASED:
            parts.append(part)
        elif part.uuid not in there:
            continue
        elif last_receipt(connection, identity.known("receipts"), part.uuid).after.total == 0:
            parts.append(replace(part, outcome="noop", receipt=None, reason=None))
        elif refusal is not None and refusal.holds and in_force.isdisjoint(refusal.holds):
            parts.append(replace(part, outcome="failed", receipt=None, reason="its hold was released; try again"))
        else:
            parts.append(part)
    return parts


def leaves_counted(connection: CheckedConnection, parts: list[MemoryErasure]) -> set[Json]:
    """Leaves of receipts that an earlier summary counts, because the same request was tried before."""
    receipts = [part.receipt.index for part in parts if part.receipt is not None]
    later = read_leaves(connection, start=min(receipts)) if receipts else ()
    facts = [leaf.statement.predicate["facts"] for leaf in later if leaf.kind in SUMMARIES]
    return {part["leaf"] for fact in facts for part in cast(Any, fact)["memories"]}


def stated_part(part: MemoryErasure, counted: set[Json]) -> dict[str, Json]:
    """What a summary says of one memory; a receipt that was counted before is not counted again."""
    outcome, leaf = part.outcome, None if part.receipt is None else part.receipt.index
    if leaf in counted:
        leaf, outcome = None, "noop"
    return {"memory": part.uuid, "outcome": outcome, "leaf": leaf, "entries": 0 if leaf is None else len(part.applied)}


def parts_to_json(parts: Iterable[MemoryErasure]) -> list[dict[str, Any]]:
    """As the answer to a request keeps them: receipts by their leaves."""
    return [
        {
            "memory": part.memory,
            "uuid": part.uuid,
            "outcome": part.outcome,
            # What was outdated then was found from entries that may be erased since.
            "receipt": None if part.receipt is None else part.receipt.to_json() | {"outdated": []},
            "reason": part.reason,
        }
        for part in parts
    ]


def parts_from_json(
    connection: CheckedConnection, stated: Iterable[dict[str, Any]], waiting: str | None
) -> tuple[MemoryErasure, ...]:
    """The parts that an earlier answer tells of, with what the files hold now."""
    return tuple(
        MemoryErasure(
            part["memory"],
            part["uuid"],
            part["outcome"],
            None
            if part["receipt"] is None
            else receipt_from_json(part["receipt"], read_leaf(connection, part["receipt"]["index"]).envelope, waiting),
            part["reason"],
        )
        for part in stated
    )


def time_text(time: datetime) -> str:
    """A time as leaves state it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
