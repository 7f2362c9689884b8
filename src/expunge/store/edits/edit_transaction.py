"""Edits of a stored memory: rows, ledger leaves and erasure in one transaction, then its commit.

A transaction may hold several edits of one memory, each prepared after the other and with a receipt of its own, as if
they had been committed one by one. What is written of the memory is the version that the last one leads to: rows are a
function of it, whatever the states between. Edits of several memories, each locked, are written and committed together
(`write_together`): the database has one commit on disk to wait for, and the ledger's row is locked once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from expunge.attestation.statements import Clock, commitment_of, edit_predicate, expiry_predicate, statements_of
from expunge.errors import DeletionRefused, ExpungeError, Refused, Stale
from expunge.ledger.receipt_format import Predicate
from expunge.memory.receipt import Action, Receipt, RefusalReason
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.cases import Case, write_cases
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.idempotency import Request, save_answers
from expunge.store.edits.signed_receipt import SignedReceipt, refusal_to_json
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Leaf, LedgerClock, LedgerWriter, SignedStatement, read_time, sign_all
from expunge.store.legal_holds import Hold, hold_reason, holds_on_entries, read_holds
from expunge.store.mirroring.copies_owed import owe_copies
from expunge.store.row_writer import RowWriter, SecretChanges, erased_ids
from expunge.store.rows import ForgottenRows, LoadedMemory

__all__ = [
    "AskedEdit",
    "EditTransaction",
    "ForbiddenByHold",
    "MemoryContext",
    "check_expected",
    "commit_together",
    "finish_erasures",
    "write_together",
]


class ForbiddenByHold(ExpungeError):
    """Raised in a journal, before anything is written: holds forbid this erasure."""

    def __init__(self, held: dict[str, Hold]) -> None:
        super().__init__("held")
        self.held = held


@dataclass(frozen=True)
class MemoryContext:
    """The database and the store's identity, and the memory's number and UUID in them."""

    database: Database
    identity: Identity
    number: int
    uuid: str


@dataclass
class AskedEdit:
    """What was asked of a memory, and what became of it: a signed receipt once it is committed, a refusal."""

    action: Action
    request: Request | None = None
    case: Case | None = None
    problem: Refused | None = None
    signed: SignedReceipt | None = None
    # By the clock of `time.perf_counter`.
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True)
class _Prepared:
    """An edit that is part of a transaction: its record, and what its signed receipt and the notice are to state."""

    edit: AskedEdit
    receipt: Receipt
    number: int
    stated: Predicate
    notice: Predicate | None
    admitted: tuple[bytes | None, ...]
    # Ids and commitments of the entries whose content, or record, it erases.
    gone: tuple[tuple[str, bytes], ...]


# A receipt or a notice, and its statements.
_Signed: TypeAlias = tuple[Predicate, list[SignedStatement]]


class EditTransaction:
    """Collects edits of one memory, for `write_together` and `commit_together`."""

    def __init__(
        self,
        context: MemoryContext,
        connection: CheckedConnection,
        loaded: LoadedMemory,
        *,
        has_holds: bool = False,
    ) -> None:
        self._context = context
        self._connection = connection
        self._loaded = loaded
        self._has_holds = has_holds
        self._before = loaded.memory.newest
        self._prepared: list[_Prepared] = []
        self._rows: ForgottenRows | None = None
        # Set by the commit.
        self.forgotten: ForgottenRows | None = None
        self.erased = False
        # Whether a mirror has to follow.
        self.mirrored = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not self._prepared

    def has(self, edit: AskedEdit) -> bool:
        """Whether an edit was taken into the transaction."""
        return any(one.edit is edit for one in self._prepared)

    def prepare(self, edit: AskedEdit, before: Version, after: Version, receipt: Receipt) -> None:
        """Take an edit into the transaction, as its memory's journal; ForbiddenByHold where it would erase too much."""
        crash_point("solved")
        if self._has_holds and after is not before:
            self.require_no_hold(before, erased_ids(before, after))
        identity, memory = self._context.identity, self._loaded.memory
        new_cap = receipt.outcome == "rebuilt" and after.state.cap != before.state.cap
        initial_size, forgotten = after.size if new_cap else memory.initial_size, self._loaded.forgotten.commitments
        stated, notice = (
            edit_predicate(
                receipt,
                before,
                after,
                memory=self._context.uuid,
                edit=after.edit,
                clock=identity.clock,
                initial_size=initial_size,
                forgotten=forgotten,
                request=None if edit.case is None else edit.case.stated(),
            ),
            None,
        )
        if receipt.details.get("expired") or receipt.details.get("ended"):
            notice = expiry_predicate(
                receipt,
                before,
                after,
                memory=self._context.uuid,
                edit=after.edit,
                clock=identity.clock,
                initial_size=initial_size,
                forgotten=forgotten,
            )
        admitted = receipt.applied if edit.action == "admission" else ()
        digests = tuple(commitment_of(after, name) for name in admitted)
        erases = after is not before and (
            edit.action == "deletion" or (edit.action == "pruning" and receipt.details["mode"] == "forget")
        )
        gone = tuple(
            (name, commitment_of(before, name) or self._loaded.forgotten.commitments[name])
            for name in (receipt.applied if erases else ())
        )
        self._prepared.append(_Prepared(edit, receipt, after.edit, stated, notice, digests, gone))

    def require_no_hold(self, version: Version, names: Sequence[str]) -> None:
        """Raise ForbiddenByHold if one of these entries must be kept."""
        if names and self._has_holds:
            held = holds_on_entries(read_holds(self._connection, self._context.number), version, names)
            if held:
                raise ForbiddenByHold(held)

    def refuse(self, edit: AskedEdit, held: dict[str, Hold], started: float, holds: Sequence[Hold] = ()) -> Refused:
        """Take the refusal of an erasure that holds forbid into the transaction; return what to raise after the commit.

        It counts the entries that are held, or, where a drop is refused, the ``holds`` of the memory.
        """
        version = self._loaded.memory.newest
        numbers = tuple(sorted({hold.number for hold in holds or held.values()}))
        reason = RefusalReason("legal_hold", float(len(holds or held)), 0.0, numbers)
        receipt = Receipt(
            action=edit.action,
            outcome="refused",
            applied=(),
            check=version.check,
            attempts=(),
            covers=f"nothing: the {edit.action} was refused",
            state_before=version.digest,
            state_after=version.digest,
            seconds=time.perf_counter() - started,
            refusal=reason,
            details={"held": sorted(held)},
        )
        self._loaded.memory.outcomes["refused"] += 1
        edit.problem = DeletionRefused(hold_reason(held), receipt=receipt)
        self.prepare(edit, version, version, receipt)
        return edit.problem

    def _write_rows(self, changes: SecretChanges) -> None:
        """Write the version that the last edit leads to."""
        context, after = self._context, self._loaded.memory.newest
        writer = RowWriter(context.database, self._connection, context.identity.secret, context.number, changes)
        rows = self._loaded.forgotten
        self._rows = rows if after is self._before else writer.update_memory(rows, self._before, after)
        self.erased = writer.erased

    def _sign(self, clock: Clock) -> list[_Signed]:
        """Sign the receipts and notices of the edits, in order."""
        identity = self._context.identity
        return [
            (predicate, sign_all(identity, statements_of(predicate, clock)))
            for one in self._prepared
            for predicate in (one.stated, one.notice)
            if predicate is not None
        ]

    def _append(self, ledger_writer: LedgerWriter, signed: Sequence[_Signed]) -> list[Leaf]:
        """Append what was signed; the leaves of the receipts."""
        context, receipts, leaves = self._context, {id(one.stated) for one in self._prepared}, []
        for predicate, statements in signed:
            leaf = ledger_writer.append_signed(
                context.identity, statements, predicate.outcome, context.uuid, predicate.edit
            )
            leaves += [leaf] if id(predicate) in receipts else []
        return leaves

    def _owe_copies(self, leaves: Sequence[Leaf]) -> None:
        for one, leaf in zip(self._prepared, leaves, strict=True):
            self.mirrored |= owe_copies(
                self._context.database,
                self._connection,
                self._context.uuid,
                leaf.index,
                admitted=bool(one.admitted),
                gone=one.gone,
            )

    def _committed(self) -> None:
        self.forgotten = self._rows

    def _say_waiting(self, waiting: str | None) -> None:
        """Have the receipts say why the files still hold what was erased."""
        for edit in (one.edit for one in self._prepared):
            if edit.signed is not None and (edit.action == "deletion" or len(self._prepared) == 1):
                edit.signed = replace(edit.signed, waiting=waiting)

    def _answer(self, prepared: _Prepared, leaf: Leaf) -> dict[str, Any] | None:
        """Give an edit its signed receipt; the row that keeps it as the answer to its request."""
        edit, problem = prepared.edit, prepared.edit.problem
        edit.signed = SignedReceipt.of(
            prepared.receipt, index=leaf.index, memory=self._context.uuid, edit=prepared.number, envelope=leaf.envelope
        )
        if problem is not None:
            problem.receipt = edit.signed
        signed = edit.signed
        self._connection.after_commit(
            lambda observer: observer.observe_edit(signed, time.perf_counter() - edit.started)
        )
        if edit.request is None or not (problem is None or edit.request.keeps_refusals):
            return None
        return edit.request.answer_row(
            {
                "receipt": edit.signed.to_json(),
                "refusal": None if problem is None else refusal_to_json(problem),
                "commitments": [None if digest is None else digest.hex() for digest in prepared.admitted],
            }
        )


def write_together(connection: CheckedConnection, transactions: Sequence[EditTransaction]) -> None:
    """Write the edits that there are. Each has its signed receipt then, a refusal as well.

    The transactions are of different memories of one store, all locked by this connection.
    """
    taken = [one for one in transactions if not one.empty]
    if not taken:
        return
    context = taken[0]._context
    changes = SecretChanges(context.database, connection)
    for one in taken:
        one._write_rows(changes)
    # Everything that takes long comes before the lock on the ledger, for which the writers of all memories wait.
    clock = LedgerClock(context.identity.clock, read_time(connection))
    began = clock()
    signed = [one._sign(clock) for one in taken]
    ledger_writer = LedgerWriter(connection)
    if ledger_writer.time > began:
        # Another process, whose clock is ahead, has appended meanwhile.
        signed = [one._sign(ledger_writer.dated(context.identity.clock)) for one in taken]
    else:
        ledger_writer.skip_times_before(clock.time)
    changes.write()
    leaves = [one._append(ledger_writer, mine) for one, mine in zip(taken, signed, strict=True)]
    crash_point("signed")
    ledger_writer.flush()
    write_cases(context.database, connection, [edit.edit.case for one in taken for edit in one._prepared])
    answers = [
        one._answer(edit, leaf)
        for one, mine in zip(taken, leaves, strict=True)
        for edit, leaf in zip(one._prepared, mine, strict=True)
    ]
    save_answers(connection, [answer for answer in answers if answer is not None])
    crash_point("ledger_written")
    if ledger_writer.mirrors:
        for one, mine in zip(taken, leaves, strict=True):
            one._owe_copies(mine)
    crash_point("answer_saved")


def commit_together(connection: CheckedConnection, transactions: Sequence[EditTransaction]) -> None:
    """Commit what `write_together` has written."""
    taken = [one for one in transactions if not one.empty]
    if taken:
        connection.commit()
        for one in taken:
            one._committed()
        crash_point("committed")


def finish_erasures(connection: CheckedConnection, transactions: Sequence[EditTransaction]) -> None:
    """Remove what the committed edits erased from the database's files; the receipts say whether that waits."""
    erased = [one for one in transactions if one.erased]
    if erased:
        waiting = erased[0]._context.database.finish_erasure(connection)
        for one in erased:
            one._say_waiting(waiting)
        crash_point("log_truncated")


def check_closure(expected: str | None, digest: str) -> None:
    """Raise Stale if other entries would go than those that the caller has seen."""
    if expected is not None and expected != digest:
        raise Stale("what was made from these entries has changed since the caller looked: ask again")


def check_expected(expected: str | None, digest: str) -> None:
    """Raise Stale if the stored state is not the one that the caller has seen."""
    if expected is not None and expected != digest:
        raise Stale(f"the stored state is {digest}, not {expected}: somebody edited it; nothing was done")
