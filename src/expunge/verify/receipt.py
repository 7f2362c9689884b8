"""One receipt: who signed it, and whether it can be true. Steps: ``docs/formats/receipt.md``."""

from __future__ import annotations

from collections.abc import Iterable

from expunge.ledger.envelope import open_statement
from expunge.ledger.receipt_format import PREDICATE_TYPE, Predicate, parse_predicate
from expunge.ledger.signing import VerifyingKey

__all__ = ["open_receipt", "verify_receipt"]


def verify_receipt(envelope: bytes, trusted: Iterable[VerifyingKey], *, threshold: int = 1) -> None:
    """Check that trusted keys signed a receipt, and that it is well formed and does not contradict itself."""
    open_receipt(envelope, trusted, threshold=threshold)


def open_receipt(envelope: bytes, trusted: Iterable[VerifyingKey], *, threshold: int = 1) -> Predicate:
    """Return what a receipt states, after it has been verified."""
    return parse_predicate(open_statement(envelope, trusted, PREDICATE_TYPE, threshold=threshold))
