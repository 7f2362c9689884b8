"""Erasing a data subject in every memory of a store, with one summary in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from expunge.display.card import Card, Displayed, counted
from expunge.display.outcomes import OUTCOMES
from expunge.errors import ExpungeError, InputError, Stale, StoreError
from expunge.ledger.commitment import new_salts
from expunge.ledger.event import subject_commitment
from expunge.ledger.statement import Subject
from expunge.memory.attributes import DerivedChoice
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import memories
from expunge.store.cases import Case, write_case
from expunge.store.due_erasures import (
    PendingErasure,
    append_cancelled,
    begin_erasure,
    due_erasures,
    end_erasure,
    hold_back,
    read_erasures,
)
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_preview import Preview
from expunge.store.edits.idempotency import Request
from expunge.store.erasure_plan import Part, Plan, closure_digest, parts_begun, plan_of
from expunge.store.erasure_summary import (
    MemoryErasure,
    leaves_counted,
    parts_from_json,
    parts_to_json,
    stated_part,
    still_true,
)
from expunge.store.identity import Identity
from expunge.store.joint_erasure import erase_parts, preview_parts, refuse_derived
from expunge.store.ledger_tables import LedgerWriter, newest_leaves, read_leaf
from expunge.store.subject_search import LookAlike, SubjectSearch, Unsearched

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = [
    "SubjectErasure",
    "SubjectPreview",
    "carry_out",
    "erase_subject",
    "erasure_from_json",
    "find_summary",
    "preview_subject",
]


@dataclass(frozen=True, eq=False)
class SubjectPreview(Mapping[str, Preview]):
    """What an erasure of a subject would do, by the name of each memory with an entry of theirs, or one made from it.

    ``search`` says which memories were not searched, and which subjects look like this one. ``digest`` stands for the
    entries that would go, or would but for a hold; ``order`` has the memories in the order in which they are edited.
    """

    previews: dict[str, Preview]
    search: SubjectSearch
    digest: str
    order: tuple[str, ...]

    def __getitem__(self, name: str) -> Preview:
        return self.previews[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.previews)

    def __len__(self) -> int:
        return len(self.previews)


@dataclass(frozen=True)
class SubjectErasure(Displayed):
    """An erasure over all memories of a store; leaf ``index`` of the ledger, signed as ``envelope``, sums it up.

    Each memory is edited in a transaction of its own: a memory where the erasure is refused keeps all its entries, and
    does not keep the others from theirs. ``salt`` opens the summary's commitment to the subject. The store
    keeps it only in the answer to a request with an idempotency key, encrypted under that key, until it expires.

    Where no entry belonged to the subject, nothing was written: ``memories`` is empty, and ``index``, ``envelope`` and
    ``salt`` are None, whether the subject was erased before or never there. ``earlier`` is the leaf of the summary that
    the salt given with the request opens for this subject.

    ``not_searched`` has the memories with entries that belong to no subject, and ``look_alikes`` the subjects that look
    like this one and were not touched, as they were when the erasure began. ``not_read`` has damaged memories, of which
    nobody can tell whether something there was made from what went.
    """

    memories: tuple[MemoryErasure, ...]
    index: int | None
    envelope: bytes | None = field(repr=False)
    salt: bytes | None = field(repr=False)
    earlier: int | None = None
    not_searched: tuple[Unsearched, ...] = field(default=(), compare=False)
    not_read: tuple[str, ...] = field(default=(), compare=False)
    look_alikes: tuple[LookAlike, ...] = field(default=(), compare=False)

    @property
    def complete(self) -> bool:
        """Whether nothing of the subject is left in the store."""
        return not any(part.kept for part in self.memories)

    @property
    def waiting(self) -> str | None:
        """None, or the reason why the database's files still hold erased secrets: see `SignedReceipt`."""
        reasons = (part.receipt.waiting for part in self.memories if part.receipt is not None)
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def applied(self) -> dict[str, tuple[str, ...]]:
        """Ids that were erased, by memory."""
        return {part.memory: part.applied for part in self.memories if part.applied}

    def _card(self) -> Card:
        """What became of the erasure, by memory. It counts entries and names no subject."""
        gone = sum(len(part.applied) for part in self.memories)
        rest = "nothing of the subject is left in the store" if self.complete else "NOT COMPLETE: see below"
        alike = f"{counted(len(self.look_alikes), 'subject')}, not touched: see look_alikes" if self.look_alikes else ""
        return Card(
            title="Erasure of a subject",
            sentence=f"{counted(gone, 'entry')} removed in {counted(len(self.memories), 'memory')}; {rest}",
            rows=(
                ("still in files", self.waiting or ""),
                ("not searched", ", ".join(map(str, self.not_searched))),
                ("not read", ", ".join(self.not_read)),
                ("look alike", alike),
            ),
            columns=("memory", "entries removed", "what was done"),
            listing=tuple(
                (part.memory, str(len(part.applied)), part.reason or OUTCOMES.get(part.outcome, part.outcome))
                for part in self.memories
            ),
            details=(("ledger", "nothing was written" if self.index is None else f"leaf {self.index}"),),
        )


def erase_subject(
    store: Store,
    database: Database,
    identity: Identity,
    subject: str,
    request: Request | None,
    progress: Callable[[int, int], None] | None = None,
    *,
    asked: Case | None = None,
    pending: PendingErasure | None = None,
    derived: DerivedChoice = "erase",
    expected: str | None = None,
) -> SubjectErasure | None:
    """Delete everything of a subject and what was made from it, memory by memory, and write the summary.

    For a ``pending`` request the summary states its salt's commitment, and ends it unless a memory refuses: then the
    request is held back. The result is None where another process has ended the request, or where there is no memory
    left that a summary could speak of. Without a pending request there is no summary of nothing: a summary states what
    was done. ``expected`` is the digest of the preview that the caller has seen. A call that takes up what an earlier
    one under its key has begun is not held to it: that one was, and some of it is gone.
    """
    key = pending.key if pending is not None else None if request is None else request.key
    with store.reading() as connection:
        answer = None if request is None else request.earlier_answer(connection)
        if answer is not None:
            return erasure_from_json(connection, answer, store.waiting())
        names = store.current_subjects(connection).memories_of(subject)
        begun = key is not None and bool(parts_begun(connection, identity.pepper, key))
    # What a hold kept at an earlier try may have lost its source since.
    repeated = pending is not None and pending.repeated
    plan = plan_of_subject(store, subject, names, identity.pepper, key, orphans=repeated)
    refuse_derived(plan, derived)
    if expected is not None:
        plan = replace(plan, known=plan.seen(store))
        if not begun and plan.digest != expected:
            raise Stale("other entries would go than those of the preview: nothing was done; look again")
    found = erase_parts(store, plan, key, asked, progress, bound=expected is not None)
    _require_none_failed(found, pending)
    if pending is not None and repeated and plan.graph.not_read:
        damaged = ", ".join(plan.graph.not_read)
        raise StoreError(
            f"the erasure requested at leaf {pending.leaf} is not over: {damaged} cannot be read, and may have entries "
            "that a hold kept; restore or drop it, and the erasure is tried again"
        )
    done = _write_summary(store, database, identity, subject, found, request, asked, pending)
    return None if done is None else replace(done, not_read=plan.graph.not_read)


def plan_of_subject(
    store: Store,
    subject: str,
    names: Iterable[str],
    pepper: bytes = b"",
    key: str | None = None,
    *,
    orphans: bool = False,
) -> Plan:
    """What goes with the entries of a subject, in memories by name and in others."""
    parts = []
    for name in names:
        # Others may have dropped it meanwhile.
        with suppress(InputError):
            parts.append(Part(name, store[name].uuid, subject))
    return plan_of(store, parts, pepper, key, orphans=orphans)


def preview_subject(store: Store, subject: str, derived: DerivedChoice, *, look_alikes: bool = True) -> SubjectPreview:
    """What erasing a subject would do now."""
    search = store.find_subject(subject, look_alikes=look_alikes)
    plan = plan_of_subject(store, subject, search.memories)
    refuse_derived(plan, derived)
    order = tuple(part.name for part in plan.order())
    return SubjectPreview(preview_parts(store, plan), search, closure_digest(plan.seen(store)), order)


def carry_out(store: Store, database: Database, identity: Identity) -> list[SubjectErasure]:
    """Carry out the erasures that are due.

    Raises what kept one of them from it, after the others were tried; that one stays open.
    """
    with store.reading() as connection:
        due = due_erasures(connection, identity.clock())
    carried_out, problem = [], None
    for waiting in due:
        try:
            with store.writing("subjects") as connection:
                pending = begin_erasure(connection, waiting)
            crash_point("begun")
            if pending is None:
                continue
            done = erase_subject(store, database, identity, pending.subject, None, asked=pending.asked, pending=pending)
            carried_out += [] if done is None else [done]
        except ExpungeError as error:
            problem = error
    if problem is not None:
        raise problem
    return carried_out


def _write_summary(
    store: Store,
    database: Database,
    identity: Identity,
    subject: str,
    found: list[MemoryErasure],
    request: Request | None,
    asked: Case | None,
    pending: PendingErasure | None,
) -> SubjectErasure | None:
    salt = new_salts(1) if pending is None else pending.salt
    with store.writing("subjects") as connection:
        answer = None if request is None else request.earlier_answer(connection)
        if answer is not None:
            return erasure_from_json(connection, answer, store.waiting())
        ledger_writer = LedgerWriter(connection)
        found = still_true(connection, identity, found)
        _require_none_failed(found, pending)
        if not found and pending is None:
            done = SubjectErasure((), None, None, None)
            if request is not None:
                request.save_answer(connection, _erasure_to_json(done))
                connection.commit()
            return done
        # Nothing is left that a request was about: the summary that ends it says so of every memory.
        parts = found or [
            MemoryErasure(row.name, row.uuid, "noop", None)
            for row in connection.rows(select(memories).order_by(memories.c.name))
        ]
        if pending is not None:
            if not read_erasures(connection, pending.leaf):
                return None
            if any(part.outcome == "refused" for part in parts):
                hold_back(connection, pending)
            elif parts:
                end_erasure(database, connection, pending)
            else:
                append_cancelled(database, connection, identity, pending, None)
        if not parts:
            connection.commit()
            database.finish_erasure(connection)
            return None
        counted = leaves_counted(connection, parts)
        leaf = ledger_writer.append_event(
            identity,
            "subject_erased",
            None,
            Subject("subject", subject_commitment(salt, subject)),
            None if asked is None else asked.stated(),
            memories=[stated_part(part, counted) for part in parts],
            complete=not any(part.kept for part in parts),
            requested=None if pending is None else pending.leaf,
        )
        ledger_writer.flush()
        write_case(database, connection, asked)
        crash_point("summary_written")
        done = SubjectErasure(tuple(parts), leaf.index, leaf.envelope, salt)
        # Under the same key a failed part is to be tried again, so only a final answer is kept.
        if request is not None and all(part.outcome != "failed" for part in parts):
            request.save_answer(connection, _erasure_to_json(done))
        connection.commit()
        crash_point("summary_committed")
        if pending is not None:
            database.finish_erasure(connection)
    return done


def _require_none_failed(parts: list[MemoryErasure], pending: PendingErasure | None) -> None:
    """A request that waits is not over, and has no summary, while a memory could not be edited."""
    failed = next((part for part in parts if part.outcome == "failed"), None)
    if pending is not None and failed is not None:
        raise StoreError(
            f"the erasure requested at leaf {pending.leaf} is not over: {failed.memory!r} could not be edited "
            f"({failed.reason}); it is tried again"
        )


def _erasure_to_json(done: SubjectErasure) -> dict[str, Any]:
    """As the answer to a request keeps it."""
    salt = None if done.salt is None else done.salt.hex()
    return {"index": done.index, "salt": salt, "memories": parts_to_json(done.memories)}


def erasure_from_json(
    connection: CheckedConnection, answer: dict[str, Any], waiting: str | None = None
) -> SubjectErasure:
    """The erasure that an earlier answer tells of, with what the files hold now."""
    parts = parts_from_json(connection, answer["memories"], waiting)
    if answer["index"] is None:
        return SubjectErasure(parts, None, None, None)
    envelope = read_leaf(connection, answer["index"]).envelope
    return SubjectErasure(parts, answer["index"], envelope, bytes.fromhex(answer["salt"]))


def find_summary(connection: CheckedConnection, subject: str, salt: bytes) -> int | None:
    """The newest summary whose commitment a salt opens for a subject: only who was given the salt finds it."""
    commitment = subject_commitment(salt, subject)
    summaries = newest_leaves(connection, kinds=["subject_erased"])
    return next((leaf.index for leaf in summaries if leaf.statement.subjects[0].sha256 == commitment), None)
