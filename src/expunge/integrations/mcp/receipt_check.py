"""Checking a receipt of the store on behalf of a client."""

from __future__ import annotations

from expunge.errors import InputError, VerificationError
from expunge.integrations.mcp.answers import ReceiptCheck
from expunge.store import Store

__all__ = ["check_receipt"]

# Leaves that are read at a time, to find one by its text.
_BATCH = 500


def check_receipt(store: Store, *, leaf: int | None = None, receipt: str | None = None) -> ReceiptCheck:
    """Whether the receipt at a leaf, or given as text, verifies: its signature, its form, its place in the ledger."""
    from expunge.verify import verify_inclusion

    if (leaf is None) == (receipt is None):
        raise InputError("give the number of a leaf, or the text of a receipt, and one of them")
    key = store.log_key.to_text()
    given = (receipt or "").encode("utf-8", "surrogatepass")
    envelope = given if leaf is None else store.leaf(leaf).envelope
    try:
        kind, time, entries = _open_receipt(store, envelope)
        index = _find_leaf(store, envelope) if leaf is None else leaf
        proof = store.inclusion(index).to_bytes()
        verify_inclusion(envelope, proof, [store.log_key], store.origin)
    except VerificationError as problem:
        return ReceiptCheck(False, key, problem=f"{problem.code}: {problem}")
    return ReceiptCheck(
        True,
        key,
        outcome=kind,
        time=time,
        entries=entries,
        signed_receipt=envelope.decode(),
        inclusion_proof=proof.decode(),
    )


def _open_receipt(store: Store, envelope: bytes) -> tuple[str, str, int | None]:
    """Outcome, time and number of entries of a receipt, or of an event of the store, once it is verified."""
    from expunge.ledger.envelope import open_statement, parse_envelope
    from expunge.ledger.receipt_format import PREDICATE_TYPE
    from expunge.ledger.receipt_parsing import parse_predicate
    from expunge.ledger.statement import parse_statement
    from expunge.store import EVENT_TYPE, parse_event

    claimed = parse_statement(parse_envelope(envelope).payload).predicate_type
    wanted = EVENT_TYPE if claimed == EVENT_TYPE else PREDICATE_TYPE
    statement = open_statement(envelope, store.public_keys, wanted)
    if wanted == EVENT_TYPE:
        event = parse_event(statement)
        return event.kind, event.time, None
    stated = parse_predicate(statement)
    return stated.outcome, stated.time, stated.applied.count


def _find_leaf(store: Store, envelope: bytes) -> int:
    start = 0
    while leaves := store.receipts(start=start, limit=_BATCH):
        for leaf in leaves:
            if leaf.envelope == envelope:
                return leaf.index
        start = leaves[-1].index + 1
    raise VerificationError("this receipt is signed by this store's key, and not in its ledger")
