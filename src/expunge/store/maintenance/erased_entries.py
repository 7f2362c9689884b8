"""The entries that a ledger says were erased, by commitment: what must be in no store that continues the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import select

from expunge.errors import VerificationError
from expunge.ledger.event import Event, parse_event
from expunge.ledger.receipt_format import PREDICATE_TYPE, Listed, Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, forgotten

__all__ = ["ErasedEntries"]


@dataclass
class ErasedEntries:
    """Commitments of entries that were deleted, forgotten (their content is gone), or went with a dropped memory."""

    deleted: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    # By request id: the set that a list belongs to which follows a receipt or an event in leaves of its own.
    _listed: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, statements: Iterable[Statement]) -> ErasedEntries:
        """Those that some leaves tell of."""
        erased = cls()
        for statement in statements:
            if statement.predicate_type == PREDICATE_TYPE:
                erased.add_receipt(parse_predicate(statement))
            else:
                erased.add_event(parse_event(statement))
        return erased

    @property
    def content(self) -> set[str]:
        """Entries whose content is erased."""
        return self.deleted | self.forgotten | self.dropped

    def add_receipt(self, receipt: Predicate) -> None:
        """Take up what a receipt says."""
        if receipt.action == "deletion":
            self._add(self.deleted, receipt.applied, receipt.request.id)
        elif receipt.pruning is not None and receipt.pruning.mode == "forget":
            self._add(self.forgotten, receipt.applied, receipt.request.id)

    def add_event(self, event: Event) -> None:
        """Take up what an event says."""
        if event.kind == "dropped" and event.listed is not None:
            self._add(self.dropped, event.listed, event.request.id)
        elif event.kind == "listed" and event.facts["list"] in ("applied", "entries"):
            wanted = self._listed.get(cast(str, event.facts["receipt"]), set())
            wanted.update(cast("tuple[str, ...]", event.facts["commitments"]))

    def left_in(self, connection: CheckedConnection) -> set[str]:
        """Those that rows of a store, or of a backup, still hold: the content, or the record of a deleted entry."""
        rows = set(connection.values(select(entries.c.number)))
        records = set(connection.values(select(forgotten.c.number)))
        gone = {digest for digest in self.content if _number(digest) in rows}
        return gone | {digest for digest in self.deleted | self.dropped if _number(digest) in records}

    def require_none_in(self, connection: CheckedConnection) -> int:
        """Check *erasures re-applied*: none of them is left; return how many there are."""
        # A dropped memory is looked for as a whole.
        left, total = self.left_in(connection) - self.dropped, len(self.deleted | self.forgotten)
        if left:
            raise VerificationError(
                f"erasures re-applied: {total - len(left)} of {total}; the store has entries that its ledger says were "
                "erased: erase them again"
            )
        return total

    def _add(self, gone: set[str], named: Listed, request: str) -> None:
        gone.update(named.commitments)
        if named.root is not None:
            self._listed[request] = gone


def _number(digest: str) -> int:
    return int(digest[:16], 16) >> 1
