"""Edits that wait in this process are prepared one after the other, and written and committed together.

A group has edits of one memory or of several. Each is solved, checked and rounded by itself, after the one before it in
its memory, and has a receipt of its own; the group has one transaction, one commit on disk and one lock on the ledger.
Memories share a queue where the database has one writer at a time: there they wait for each other in any case. Where it
has more, each memory has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import SQLAlchemyError

from expunge.attestation.statements import commitment_of
from expunge.errors import Busy, Conflict, ExpungeError, Refused, StoreError
from expunge.memory.memory import Memory
from expunge.memory.version import Version
from expunge.preprocessing.outdated import OutdatedChoice
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.derivations import Derivations
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_preview import Edit
from expunge.store.edits.edit_queue import EditQueue, QueuedEdit, Take
from expunge.store.edits.edit_transaction import (
    AskedEdit,
    EditTransaction,
    ForbiddenByHold,
    check_expected,
    commit_together,
    finish_erasures,
    write_together,
)
from expunge.store.edits.idempotency import Request, read_answers
from expunge.store.edits.signed_receipt import SignedReceipt, receipt_from_json, refusal_from_json
from expunge.store.erasure_plan import closure_mark
from expunge.store.erasure_summary import erasure_from_answer
from expunge.store.ledger_tables import read_leaf
from expunge.store.rows import LoadedMemory
from expunge.store.stated_entries import StatedEntries
from expunge.store.version_cache import VersionCache, refuse_direct_edit

if TYPE_CHECKING:
    from expunge.store.store import Store
    from expunge.store.stored_memory import StoredMemory

__all__ = ["GroupCommits", "Moment", "WaitingEdit"]


@dataclass(eq=False, kw_only=True)
class WaitingEdit(QueuedEdit):
    """An edit that was asked for, and what became of it: a signed receipt, or what is to be raised."""

    memory: StoredMemory
    edit: Edit
    asked: AskedEdit
    expected: str | None
    same: Callable[[Version, str, int], bool] | None
    check: Callable[[Moment, Memory], None] | None
    stated: StatedEntries | None
    sources: list[StoredMemory]
    outdated: tuple[OutdatedChoice, ...] | None = ()
    result: SignedReceipt | None = None
    problem: BaseException | None = None

    def conclude(self) -> None:
        """Take over the receipt of the committed edit."""
        if self.asked.signed is not None and self.problem is None:
            self.result = replace(self.asked.signed, outdated=self.outdated)

    def begin_again(self) -> None:
        """Forget what became of the edit: nothing was done, and it is to be carried out anew."""
        self.asked = replace(self.asked, problem=None, signed=None)
        self.problem, self.result, self.outdated = None, None, ()

    def fail(self, problem: BaseException, *, own: bool) -> None:
        """Keep what was raised while edits were committed together, of which this one may not be the reason."""
        if own and not isinstance(problem, Exception):
            self.problem = problem
        elif self.result is None and (self.problem is None or self.asked.problem is not None):
            # Neither answered before nor wrong by itself: it was to be committed.
            self.problem = problem
            if not (own or isinstance(problem, ExpungeError)):
                self.problem = StoreError(
                    "another edit that it was to be committed with was interrupted; find out whether it was done, or "
                    "repeat it under its idempotency key"
                )


class Moment:
    """What edits that are committed together read once, while their memories are locked."""

    def __init__(self, store: Store, connection: CheckedConnection, group: Sequence[WaitingEdit]) -> None:
        self._store = store
        self.connection = connection
        asked = [one.asked.request for one in group if one.asked.request is not None]
        marks = [
            closure_mark(one.asked.request) for one in group if one.asked.request and one.asked.action == "deletion"
        ]
        self.answers = read_answers(connection, [*asked, *marks])

    def begun(self, request: Request) -> bool:
        """Whether a first try of a deletion has begun with other memories."""
        return closure_mark(request).key_hash in self.answers

    @cached_property
    def derivations(self) -> Derivations:
        """Sources of the entries of the store. None can be made from an entry of a memory while that is locked."""
        return self._store.derivations.read(self.connection)


@dataclass(eq=False)
class _Part:
    """The edits of one memory in a group."""

    versions: VersionCache
    memory: Memory
    transaction: EditTransaction
    edits: list[WaitingEdit]


class GroupCommits:
    """Carries out the edits of a store's memories, in groups."""

    def __init__(self, store: Store, database: Database) -> None:
        self._store = store
        self._database = database
        self._queues: dict[str, EditQueue[WaitingEdit]] = {}

    def queue_of(self, uuid: str) -> EditQueue[WaitingEdit]:
        """Where edits of a memory wait."""
        name = "" if self._database.one_writer else uuid
        # Two threads that come first get the same one.
        queue = self._queues.get(name)
        return self._queues.setdefault(name, EditQueue()) if queue is None else queue

    def carry_out(self, waiting: WaitingEdit) -> None:
        """Wait until an edit is carried out, by this thread or by another; it has what became of it then."""
        self.queue_of(waiting.scope).carry_out(waiting, self._commit, self._database.timeout)

    def _commit(self, leader: WaitingEdit, take: Take[WaitingEdit]) -> None:
        """Commit edits together; where something fails that may be the fault of one of them, one by one."""
        problem = self._commit_group(leader, take)
        if problem is None:
            return
        group = take()
        if len(group) > 1 and isinstance(problem, Exception) and not isinstance(problem, Busy):
            for waiting in group:
                waiting.begin_again()
                problem = self._commit_group(waiting, lambda joins=None, one=waiting: [one])
                if problem is not None:
                    waiting.fail(problem, own=True)
        else:
            for waiting in group:
                waiting.fail(problem, own=waiting is leader)

    def _commit_group(self, leader: WaitingEdit, take: Take[WaitingEdit]) -> BaseException | None:
        """Lock, agree on the versions, prepare the edits one after the other, write, commit, publish.

        Returns what was raised before the commit, so that nothing was done. What is raised later is raised to the
        callers.
        """
        committing = False
        group: list[WaitingEdit] = []
        parts: list[_Part] = []
        try:
            with ExitStack() as stack:
                connection = stack.enter_context(
                    leader.memory.versions.locked([source.versions for source in leader.sources])
                )
                group = take(partial(self._join, stack))
                moment = Moment(self._store, connection, group)
                try:
                    for memory in dict.fromkeys(waiting.memory for waiting in group):
                        mine = [waiting for waiting in group if waiting.memory is memory]
                        self._prepare_part(memory, mine, moment, stack, parts)
                    transactions = [part.transaction for part in parts]
                    write_together(connection, transactions)
                    committing = True
                    commit_together(connection, transactions)
                finally:
                    for part in parts:
                        self._publish(part)
                finish_erasures(connection, transactions)
                if any(transaction.mirrored for transaction in transactions):
                    self._store.mirror_keeper.owe()
                crash_point("published")
                for waiting in group:
                    waiting.conclude()
        except BaseException as problem:
            if not committing:
                return problem
            done = any(part.transaction.forgotten is not None for part in parts)
            for waiting in group:
                if done:
                    waiting.conclude()
                    waiting.problem = problem if waiting is leader else waiting.problem
                else:
                    waiting.fail(problem, own=waiting is leader)
        return None

    def _join(self, stack: ExitStack, others: Sequence[WaitingEdit]) -> set[str]:
        """Keep other threads from editing these memories, as far as none does, until the group is over; their UUIDs."""
        mine = set()
        for versions in (waiting.memory.versions for waiting in others):
            if versions.try_only_editor():
                stack.callback(versions.end_only_editor)
                mine.add(versions.uuid)
        return mine

    def _prepare_part(
        self,
        memory: StoredMemory,
        edits: list[WaitingEdit],
        moment: Moment,
        stack: ExitStack,
        parts: list[_Part],
    ) -> None:
        """Prepare the edits of one memory; where it cannot be loaded, that is the problem of these alone."""
        try:
            loaded, has_holds = stack.enter_context(memory.versions.edited_in(moment.connection))
        except ExpungeError as problem:
            for waiting in edits:
                waiting.fail(problem, own=True)
            return
        transaction = EditTransaction(memory.context, moment.connection, loaded, has_holds=has_holds)
        part = _Part(memory.versions, loaded.memory, transaction, edits)
        loaded.memory.begin_group()
        parts.append(part)
        for waiting in edits:
            self._prepare(waiting, moment, part)

    def _prepare(self, waiting: WaitingEdit, moment: Moment, part: _Part) -> None:
        """Prepare one edit of a group. Whatever goes wrong with it is kept for its caller, and the others go on."""
        memory, transaction = part.memory, part.transaction
        asked, started, before = waiting.asked, time.perf_counter(), memory.newest
        try:
            answer = None if asked.request is None else asked.request.answer_among(moment.answers)
            if answer is not None:
                waiting.result = _repeated(self._database.waiting()[1], moment.connection, memory, answer, waiting.same)
                return
            if waiting.check is not None:
                waiting.check(moment, memory)
            check_expected(waiting.expected, before.digest)
            if waiting.stated is not None:
                waiting.stated.require_outside(waiting.sources, moment.connection)
            # The guard comes first: a hold is the reason, whatever else stands in the way.
            memory.journal, memory.guard = partial(transaction.prepare, asked), transaction.require_no_hold
            waiting.edit(memory)
            if asked.action == "deletion":
                waiting.outdated = memory.newest.outdated_at_once
        except ForbiddenByHold as problem:
            waiting.problem = transaction.refuse(asked, problem.held, started)
        except Refused as problem:
            waiting.problem = asked.problem = problem
        except SQLAlchemyError:
            # The transaction is not to be gone on with.
            raise
        except Exception as problem:
            if transaction.has(asked):
                # Its receipt is among those to be signed, and the version is not there, or not whole.
                raise
            waiting.problem = problem
        finally:
            memory.journal, memory.guard = refuse_direct_edit, None
            memory.settle()

    def _publish(self, part: _Part) -> None:
        """Publish what was committed. What was prepared and is not committed is dropped with the memory."""
        memory, transaction = part.memory, part.transaction
        if transaction.forgotten is not None:
            memory.end_group()
            part.versions.replace(LoadedMemory(memory, transaction.forgotten))
            if transaction.erased:
                self._store.subjects.follow(part.versions.uuid, memory)
        elif transaction.empty:
            memory.end_group()
        else:
            # The next caller takes the memory from the database.
            part.versions.replace(None)


def _repeated(
    waiting: str | None,
    connection: CheckedConnection,
    memory: Memory,
    answer: dict[str, Any],
    same: Callable[[Version, str, int], bool] | None,
) -> SignedReceipt:
    """The answer to a repeated request; what was refused is refused again."""
    envelope = read_leaf(connection, answer["receipt"]["index"]).envelope
    deleted = answer["receipt"]["action"] == "deletion"
    outdated = memory.version.outdated_at_once if deleted else ()
    receipt = receipt_from_json(answer["receipt"], envelope, waiting, outdated)
    if answer["refusal"] is not None:
        raise refusal_from_json(answer["refusal"], receipt)
    if "elsewhere" in answer:
        receipt = replace(receipt, elsewhere=erasure_from_answer(connection, answer["elsewhere"], waiting))
    if same is not None:
        version = memory.version
        for row, (name, admitted) in enumerate(zip(receipt.applied, answer["commitments"], strict=True)):
            digest = commitment_of(version, name)
            if digest is not None and digest.hex() == admitted and not same(version, name, row):
                raise Conflict(f"this idempotency key was used to admit another entry than {name!r}; nothing was done")
    return receipt
