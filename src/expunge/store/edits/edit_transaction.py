"""One edit of a stored memory: rows, ledger leaf and erasure in one transaction, then its commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from expunge.attestation.statements import attest, attest_expiry, commitment_of
from expunge.errors import DeletionRefused, ExpungeError, Refused, Stale
from expunge.memory.receipt import Action, Receipt, RefusalReason
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.idempotency import Request
from expunge.store.edits.signed_receipt import SignedReceipt, refusal_to_json
from expunge.store.identity import Identity
from expunge.store.ledger_tables import LedgerWriter
from expunge.store.legal_holds import Hold, hold_reason, holds_on_entries, read_holds
from expunge.store.row_writer import RowWriter, erased_ids
from expunge.store.rows import ForgottenRows, LoadedMemory

__all__ = ["EditTransaction", "ForbiddenByHold", "MemoryContext", "check_expected"]


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


class EditTransaction:
    """Writes one edit and commits it. `write` is the memory's journal meanwhile."""

    def __init__(
        self,
        context: MemoryContext,
        connection: CheckedConnection,
        loaded: LoadedMemory,
        action: Action,
        request: Request | None,
        *,
        has_holds: bool = False,
    ) -> None:
        self._context = context
        self._connection = connection
        self._loaded = loaded
        self._action = action
        self._request = request
        self._has_holds = has_holds
        self._written: tuple[SignedReceipt, ForgottenRows, Version, bool] | None = None
        # Set by the commit.
        self.signed: SignedReceipt | None = None
        self.forgotten: ForgottenRows | None = None
        self.after: Version | None = None

    def write(self, before: Version, after: Version, receipt: Receipt) -> None:
        """State, leaf and erasure, in one transaction; a refusal is committed when its reason is known."""
        crash_point("solved")
        self.require_no_hold(before, erased_ids(before, after) if after is not before else [])
        self._write(before, after, receipt)
        if receipt.outcome != "refused":
            self.commit(None)

    def require_no_hold(self, version: Version, names: Sequence[str]) -> None:
        """Raise ForbiddenByHold if one of these entries must be kept."""
        if names and self._has_holds:
            held = holds_on_entries(read_holds(self._connection, self._context.number), version, names)
            if held:
                raise ForbiddenByHold(held)

    def refuse(self, held: dict[str, Hold], started: float) -> Refused:
        """Write the refusal of an erasure that holds forbid, and commit it; return what to raise."""
        version = self._loaded.memory.version
        reason = RefusalReason("legal_hold", float(len(held)), 0.0)
        receipt = Receipt(
            action=self._action,
            outcome="refused",
            applied=(),
            check=version.check,
            attempts=(),
            covers=f"nothing: the {self._action} was refused",
            state_before=version.digest,
            state_after=version.digest,
            seconds=time.perf_counter() - started,
            refusal=reason,
            details={"held": sorted(held)},
        )
        self._loaded.memory.outcomes["refused"] += 1
        problem = DeletionRefused(hold_reason(held), receipt=receipt)
        self._write(version, version, receipt)
        self.commit(problem)
        return problem

    def commit(self, problem: Refused | None) -> None:
        """Make what was written durable; a refusal gets its signed receipt."""
        if self._written is None:
            return
        signed, forgotten, after, erased = self._written
        if self._request is not None:
            admits = self._action == "admission" and signed.applied
            admitted = commitment_of(after, signed.applied[0]) if admits else None
            self._request.save_answer(
                self._connection,
                {
                    "receipt": signed.to_json(),
                    "refusal": None if problem is None else refusal_to_json(problem),
                    "commitment": None if admitted is None else admitted.hex(),
                },
            )
        crash_point("answer_saved")
        self._connection.commit()
        self.signed, self.forgotten, self.after = signed, forgotten, after
        crash_point("committed")
        if problem is not None:
            problem.receipt = signed
        if erased:
            self.signed = replace(signed, waiting=self._context.database.finish_erasure(self._connection))
            crash_point("log_truncated")

    def _write(self, before: Version, after: Version, receipt: Receipt) -> None:
        context, identity, rows = self._context, self._context.identity, self._loaded.forgotten
        initial_size = after.size if receipt.outcome == "rebuilt" else self._loaded.memory.initial_size
        ledger_writer = LedgerWriter(self._connection)
        writer = RowWriter(context.database, self._connection, ledger_writer, identity.secret, context.number)
        new_rows = writer.update_memory(rows, before, after) if after is not before else rows
        forgotten = rows.commitments | new_rows.commitments
        statement = attest(
            receipt,
            before,
            after,
            memory=context.uuid,
            edit=after.edit,
            clock=identity.clock,
            initial_size=initial_size,
            forgotten=forgotten,
        )
        envelope = identity.sign(statement)
        crash_point("signed")
        leaf = ledger_writer.append(envelope, receipt.recorded_outcome, context.uuid, after.edit)
        if receipt.details.get("expired") or receipt.details.get("ended"):
            notice = attest_expiry(
                receipt,
                before,
                after,
                memory=context.uuid,
                edit=after.edit,
                clock=identity.clock,
                initial_size=initial_size,
                forgotten=forgotten,
            )
            ledger_writer.append(identity.sign(notice), "expired", context.uuid, after.edit)
        ledger_writer.flush()
        crash_point("ledger_written")
        signed = SignedReceipt.of(receipt, index=leaf.index, memory=context.uuid, edit=after.edit, envelope=envelope)
        self._written = signed, new_rows, after, writer.erased


def check_expected(expected: str | None, digest: str) -> None:
    """Raise Stale if the stored state is not the one that the caller has seen."""
    if expected is not None and expected != digest:
        raise Stale(f"the stored state is {digest}, not {expected}: somebody edited it; nothing was done")
