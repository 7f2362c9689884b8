"""Proofs that travel with their signed head."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import VerificationError
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import (
    ExtensionProof,
    InclusionProof,
    parse_extension_proof,
    parse_inclusion_proof,
    verify_extension_proof,
    verify_inclusion_proof,
)
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteKey, SignedNote
from raising import raises_code

from .make_vectors import LOG_KEY, ORIGIN
from .tamper import cuts, flips

ENTRIES = [b"%d" % number for number in range(20)]
TREE = HashTree(map(leaf_hash, ENTRIES))
HEAD = sign_checkpoint(Checkpoint(ORIGIN, 20, TREE.root()), LOG_KEY)
OLD = Checkpoint(ORIGIN, 13, TREE.root(13))
KEY = NoteKey(ORIGIN, LOG_KEY.public)
INCLUSION = InclusionProof(11, TREE.inclusion_path(11), HEAD)
EXTENSION = ExtensionProof(13, TREE.consistency_path(13), HEAD)
TEXT = INCLUSION.to_bytes()
NOTE = HEAD.to_bytes()


@given(st.integers(1, 20), st.data(), st.none() | st.binary(max_size=20))
def test_inclusion_proofs_round_trip_and_verify(size: int, data: st.DataObject, extra: bytes | None) -> None:
    index = data.draw(st.integers(0, size - 1))
    head = sign_checkpoint(Checkpoint(ORIGIN, size, TREE.root(size)), LOG_KEY)
    proof = InclusionProof(index, TREE.inclusion_path(index, size), head, extra)
    assert parse_inclusion_proof(proof.to_bytes()) == proof
    verify_inclusion_proof(parse_inclusion_proof(proof.to_bytes()), ENTRIES[index], [KEY], ORIGIN)


@given(st.integers(0, 20), st.data())
def test_extension_proofs_round_trip_and_verify(size: int, data: st.DataObject) -> None:
    old_size = data.draw(st.integers(0, size))
    head = sign_checkpoint(Checkpoint(ORIGIN, size, TREE.root(size)), LOG_KEY)
    proof = ExtensionProof(old_size, TREE.consistency_path(old_size, size), head)
    assert parse_extension_proof(proof.to_bytes()) == proof
    verify_extension_proof(proof, Checkpoint(ORIGIN, old_size, TREE.root(old_size)), [KEY])


def test_no_bit_of_an_inclusion_proof_can_change_or_be_missing() -> None:
    for changed in itertools.chain(flips(TEXT), cuts(TEXT)):
        with pytest.raises(VerificationError):
            verify_inclusion_proof(parse_inclusion_proof(changed), ENTRIES[11], [KEY], ORIGIN)


def test_no_bit_of_an_extension_proof_can_change_or_be_missing() -> None:
    data = EXTENSION.to_bytes()
    for changed in itertools.chain(flips(data), cuts(data)):
        with pytest.raises(VerificationError):
            verify_extension_proof(parse_extension_proof(changed), OLD, [KEY])


OTHER_LOG = sign_checkpoint(Checkpoint("ledger.example/other", 20, TREE.root()), LOG_KEY)
FORGED = SignedNote(Checkpoint(ORIGIN, 21, TREE.root()).to_text(), HEAD.signatures)


@pytest.mark.parametrize(
    ("alter", "error"),
    [
        (lambda proof: replace(proof, index=10), "inclusion-root-mismatch"),
        (lambda proof: replace(proof, index=20), "inclusion-index-out-of-range"),
        (lambda proof: replace(proof, path=proof.path[1:]), "inclusion-path-length"),
        (lambda proof: replace(proof, path=(bytes(32), *proof.path[1:])), "inclusion-root-mismatch"),
        (lambda proof: replace(proof, checkpoint=FORGED), "note-signature-invalid"),
    ],
)
def test_each_altered_field_of_an_inclusion_proof(
    alter: Callable[[InclusionProof], InclusionProof], error: str
) -> None:
    with raises_code(error):
        verify_inclusion_proof(alter(INCLUSION), ENTRIES[11], [KEY], ORIGIN)


def test_an_inclusion_proof_of_another_entry_or_log() -> None:
    with raises_code("inclusion-root-mismatch"):
        verify_inclusion_proof(INCLUSION, ENTRIES[12], [KEY], ORIGIN)
    keys = [NoteKey("ledger.example/other", LOG_KEY.public)]
    with raises_code("checkpoint-origin-mismatch"):
        verify_inclusion_proof(replace(INCLUSION, checkpoint=OTHER_LOG), ENTRIES[11], keys, ORIGIN)


@pytest.mark.parametrize(
    ("alter", "error"),
    [
        (lambda proof: replace(proof, old_size=12), "log-proof-old-size-mismatch"),
        (lambda proof: replace(proof, path=proof.path[1:]), "consistency-path-length"),
        (lambda proof: replace(proof, path=(bytes(32), *proof.path[1:])), "consistency-old-root-mismatch"),
        (lambda proof: replace(proof, checkpoint=FORGED), "note-signature-invalid"),
    ],
)
def test_each_altered_field_of_an_extension_proof(
    alter: Callable[[ExtensionProof], ExtensionProof], error: str
) -> None:
    with raises_code(error):
        verify_extension_proof(alter(EXTENSION), OLD, [KEY])


HASH_LINE = b"A" * 43 + b"=\n"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"x" * 400_000, "log-proof-too-large"),
        (b"", "log-proof-unterminated"),
        (TEXT.split(b"\n\n")[0] + b"\n", "log-proof-unterminated"),
        (b"\xff" + TEXT, "log-proof-not-utf8"),
        (TEXT.replace(b"@v1", b"@v2"), "log-proof-header-invalid"),
        (b"\n" + TEXT, "log-proof-header-invalid"),
        (TEXT.replace(b"index", b"extra !\nindex"), "log-proof-extra-invalid"),
        (TEXT.replace(b"index 11\n", b""), "log-proof-index-invalid"),
        (b"c2sp.org/tlog-proof@v1\n\n" + NOTE, "log-proof-index-invalid"),
        (TEXT.replace(b"index 11", b"index 011"), "log-proof-index-invalid"),
        (TEXT.replace(b"index 11", b"index 11 "), "log-proof-index-invalid"),
        (TEXT.replace(b"index 11", b"Index 11"), "log-proof-index-invalid"),
        (TEXT.replace(b"index 11\n", b"index 11\nAAAA\n"), "log-proof-hash-invalid"),
        (TEXT.replace(b"index 11\n", b"index 11\n" + HASH_LINE[:-2] + b"\n"), "log-proof-hash-invalid"),
        (TEXT.replace(b"index 11\n", b"index 11\n" + HASH_LINE * 64), "log-proof-too-many-hashes"),
    ],
)
def test_each_fault_of_an_inclusion_proof_has_its_name(data: bytes, error: str) -> None:
    with raises_code(error):
        parse_inclusion_proof(data)


@pytest.mark.parametrize("head", [b"", b"old", b"old ", b"old -1", b"old 01", b"Old 1", b"old 9223372036854775808"])
def test_bad_old_sizes(head: bytes) -> None:
    with raises_code("log-proof-old-size-invalid"):
        parse_extension_proof(head + b"\n\n" + NOTE)


def test_limits_are_inclusive() -> None:
    proof = InclusionProof(2**63 - 1, (bytes(32),) * 63, HEAD, b"")
    assert parse_inclusion_proof(proof.to_bytes()) == proof


def test_the_carried_note_is_parsed_as_a_note() -> None:
    with raises_code("note-unsigned"):
        parse_inclusion_proof(TEXT.split(b"\n\n")[0] + b"\n\ntext\n\n")
