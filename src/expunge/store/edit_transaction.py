"""The journal of one edit of a stored memory: rows, leaf and erasure in one transaction, then its commit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Connection

from expunge.attestation.statements import attest, attest_expiry, commitment_of
from expunge.errors import DeletionRefused, ExpungeError, Refused
from expunge.memory.receipt import Action, Receipt, RefusalReason
from expunge.memory.version import View
from expunge.store.backends.database import Database
from expunge.store.crash_points import reach
from expunge.store.idempotency import Request
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Head
from expunge.store.legal_holds import Hold, hold_reason, holds_of, matching
from expunge.store.row_writer import Pen, erased_content
from expunge.store.rows import Facts, Image, Numbering
from expunge.store.signed_receipt import SignedReceipt, write_receipt, write_refusal

__all__ = ["Held", "Place", "Scribe"]


class Held(ExpungeError):
    """Raised in a journal, before anything is written: a hold forbids this erasure."""

    def __init__(self, held: dict[str, Hold]) -> None:
        super().__init__("held")
        self.held = held


@dataclass(frozen=True)
class Place:
    """Where a memory is kept, and under which number and UUID."""

    database: Database
    identity: Identity
    number: int
    uuid: str


class Scribe:
    """The journal of one edit: writes it, commits it, and remembers what it wrote."""

    def __init__(
        self,
        place: Place,
        connection: Connection,
        image: Image,
        action: Action,
        request: Request | None,
        *,
        new_nu: float | None = None,
        held: bool = False,
    ) -> None:
        self._place = place
        self._connection = connection
        self._image = image
        self._action = action
        self._request = request
        self._new_nu = new_nu
        self._held = held
        self._written: tuple[SignedReceipt, Numbering, View, bool] | None = None
        self.signed: SignedReceipt | None = None
        self.numbering: Numbering | None = None
        self.after: View | None = None

    def write(self, before: View, after: View, receipt: Receipt) -> None:
        """State, leaf and erasure, in one transaction; a refusal is committed when its reason is known."""
        reach("solved")
        self.require_free(before, erased_content(before, after) if after is not before else [])
        self._write(before, after, receipt)
        if receipt.outcome != "refused":
            self.commit(None)

    def require_free(self, view: View, names: list[str]) -> None:
        """Raise Held if one of these entries must be kept."""
        if names and self._held:
            held = matching(holds_of(self._connection, self._place.number), view, names)
            if held:
                raise Held(held)

    def refuse(self, held: dict[str, Hold], started: float) -> Refused:
        """Write the refusal of an erasure that a hold forbids; return what to raise."""
        view = self._image.memory._view
        grounds = RefusalReason("legal_hold", float(len(held)), 0.0)
        receipt = Receipt(
            action=self._action,
            outcome="refused",
            applied=(),
            check=view.check,
            attempts=(),
            covers=f"nothing: the {self._action} was refused",
            state_before=view.digest,
            state_after=view.digest,
            seconds=time.perf_counter() - started,
            refusal=grounds,
            details={"held": sorted(held)},
        )
        self._image.memory.outcomes["refused"] += 1
        problem = DeletionRefused(hold_reason(held), receipt=receipt)
        self._write(view, view, receipt)
        self.commit(problem)
        return problem

    def commit(self, problem: Refused | None) -> None:
        """Make what was written durable; a refusal gets its signed receipt."""
        if self._written is None:
            return
        signed, numbering, after, erased = self._written
        if self._request is not None:
            admits = self._action == "admission" and signed.applied
            admitted = commitment_of(after, signed.applied[0]) if admits else None
            self._request.note(
                self._connection,
                {
                    "receipt": write_receipt(signed),
                    "refusal": None if problem is None else write_refusal(problem),
                    "commitment": None if admitted is None else admitted.hex(),
                },
            )
        reach("noted")
        self._connection.commit()
        self.signed, self.numbering, self.after = signed, numbering, after
        reach("committed")
        if problem is not None:
            problem.receipt = signed
        if erased:
            self._place.database.settle(self._connection)
            reach("settled")

    def _write(self, before: View, after: View, receipt: Receipt) -> None:
        place, identity, numbering = self._place, self._place.identity, self._image.numbering
        facts = Facts.of(self._image.memory)
        if receipt.outcome == "rebuilt":
            facts = Facts(after.size, None if self._new_nu is None else float(self._new_nu), facts.next_id)
        head = Head(self._connection)
        pen = Pen(place.database, self._connection, head, identity.secret, place.number)
        if after is not before:
            numbering = pen.edit(numbering, before, after, facts)
        forgotten = self._image.numbering.forgotten | numbering.forgotten
        statement = attest(
            receipt,
            before,
            after,
            memory=place.uuid,
            edit=after.edit,
            clock=identity.clock,
            initial_size=facts.initial_size,
            forgotten=forgotten,
        )
        envelope = identity.sign(statement)
        reach("signed")
        leaf = head.append(envelope, receipt.outcome, place.uuid, after.edit)
        if receipt.details.get("expired"):
            notice = attest_expiry(
                receipt,
                before,
                after,
                memory=place.uuid,
                edit=after.edit,
                clock=identity.clock,
                initial_size=facts.initial_size,
                forgotten=forgotten,
            )
            head.append(identity.sign(notice), "expired", place.uuid, after.edit)
        head.write()
        reach("logged")
        signed = SignedReceipt.of(receipt, index=leaf.index, memory=place.uuid, edit=after.edit, envelope=envelope)
        self._written = signed, numbering, after, pen.erased
