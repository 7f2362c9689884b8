"""One receipt: who signed it, and whether it can be true. Steps: ``docs/formats/receipt.md``."""

from __future__ import annotations

from collections.abc import Iterable

from expunge.ledger.envelope import open_statement
from expunge.ledger.receipt_format import PREDICATE_TYPE, Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import VerifyingKey

__all__ = ["verify_receipt"]


def verify_receipt(envelope: bytes, trusted: Iterable[VerifyingKey], *, threshold: int = 1) -> Predicate:
    """Return what a receipt states, after checking its signatures, its form and that it does not contradict itself."""
    return parse_predicate(open_statement(envelope, trusted, PREDICATE_TYPE, threshold=threshold))
