"""Checks of artifacts, from one receipt to a whole ledger, offline and independent of what made them.

Every ``verify_*`` returns what it has verified or raises a :class:`~expunge.errors.VerificationError` whose ``code``
says what is wrong. It imports the ledger and the problem. Nothing here imports the solver, the memory, its certificates
or a store, and nothing opens a connection. Start with `receipt.py`; each module is loaded when its function is first
used, so that checking a receipt does not load what a proof needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expunge.verify.evidence import verify_evidence
    from expunge.verify.ledger import verify_consistency, verify_ledger
    from expunge.verify.proof import verify_proof
    from expunge.verify.receipt import verify_inclusion, verify_receipt
    from expunge.verify.state import verify_state

__all__ = [
    "verify_consistency",
    "verify_evidence",
    "verify_inclusion",
    "verify_ledger",
    "verify_proof",
    "verify_receipt",
    "verify_state",
]

_HOME = {
    "verify_consistency": "expunge.verify.ledger",
    "verify_evidence": "expunge.verify.evidence",
    "verify_inclusion": "expunge.verify.receipt",
    "verify_ledger": "expunge.verify.ledger",
    "verify_proof": "expunge.verify.proof",
    "verify_receipt": "expunge.verify.receipt",
    "verify_state": "expunge.verify.state",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'expunge.verify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
