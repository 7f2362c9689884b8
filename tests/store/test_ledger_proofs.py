"""Signed heads and the proofs that lead to them, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import pytest

from cosigning import cosign_checkpoint
from expunge import InputError
from expunge.ledger.checkpoint import (
    Checkpoint,
    parse_checkpoint,
    sign_checkpoint,
    verify_cosignatures,
)
from expunge.ledger.merkle.proof_file import verify_extension_proof, verify_inclusion_proof
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.ledger.signing import SigningKey
from expunge.store import (
    Store,
)
from raising import raises_code

from .sample_memory import arrival, fill


def test_heads_hold_the_ledger(store: Store) -> None:
    memory = fill(store)
    early = store.checkpoint()
    assert store.checkpoint() == early
    for number in range(37):
        memory.admit(**arrival(number))
    late = store.checkpoint()
    old = parse_checkpoint(early.text)
    assert parse_checkpoint(late.text).size == store.size == 38
    verify_extension_proof(store.consistency(old.size), old, [store.log_key])
    for size in range(store.size + 1):
        assert store.consistency(size).old_size == size
    for index in range(store.size):
        verify_inclusion_proof(store.inclusion(index), store.leaf(index).envelope, [store.log_key], store.origin)
    assert store.verify().checkpoints == 2
    for bad in (-1, 39, 1.0, True, "1"):
        with pytest.raises(InputError):
            store.consistency(bad)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            store.inclusion(bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no leaf 99"):
        store.leaf(99)


def test_a_proof_leads_to_a_head_that_a_witness_cosigned(store: Store) -> None:
    memory = fill(store)
    for number in range(5):
        memory.admit(**arrival(number))
    witness = SigningKey.generate()
    known = NoteKey("w.example", witness.public, NoteAlgorithm.COSIGNATURE_V1)
    cosigned = cosign_checkpoint(store.checkpoint(), known.name, witness, 1_700_000_000)
    for number in range(5, 12):
        memory.admit(**arrival(number))
    for index in range(6):
        proof = store.inclusion(index, cosigned)
        assert proof.checkpoint == cosigned
        verify_inclusion_proof(proof, store.leaf(index).envelope, [store.log_key], store.origin)
        verify_cosignatures(proof.checkpoint, [known], 1, log_keys=[])
    with pytest.raises(InputError, match="6 leaves, and leaf 6 came later"):
        store.inclusion(6, cosigned)
    # Not of this log, not signed by it, or not what it has become: no proof is written that could not hold.
    size, root = store.size, parse_checkpoint(store.checkpoint().text).root
    own = store._identity.signing_key
    for head, error in (
        (sign_checkpoint(Checkpoint(store.origin, size, root), witness), "note-signer-unknown"),
        (sign_checkpoint(Checkpoint("other.example/log", size, root), own), "note-signer-unknown"),
        (sign_checkpoint(Checkpoint(store.origin, size, bytes(32)), own), "consistency-fork"),
        (sign_checkpoint(Checkpoint(store.origin, size - 1, root), own), "consistency-old-root-mismatch"),
        (sign_checkpoint(Checkpoint(store.origin, size + 1, root), own), "consistency-sizes-reversed"),
    ):
        with raises_code(error):
            store.inclusion(0, head)


def test_a_place_in_the_ledger_that_cannot_be_is_bad_input(store: Store) -> None:
    fill(store)
    for index in (1, -1, 1 << 70, "0", None, True, 0.5):
        with pytest.raises(InputError, match="no leaf"):
            store.leaf(index)  # type: ignore[arg-type]
    for wrong in ({"start": -1}, {"start": "0"}, {"limit": -1}, {"limit": 1.5}, {"limit": True}):
        with pytest.raises(InputError):
            store.receipts(**wrong)
    assert store.receipts(start=1 << 70) == []
    assert len(store.receipts(limit=1 << 70)) == 1
