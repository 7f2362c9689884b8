"""Our trees, heads and proofs against an implementation written by somebody else (``tlog-scales``)."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib import dsse
from securesystemslib.exceptions import VerificationError as TheirVerificationError
from tlog_scales import reader, signing, tlog, writer

from cosigning import cosign_checkpoint
from expunge.ledger.checkpoint import (
    Checkpoint,
    parse_checkpoint,
    sign_checkpoint,
    verify_checkpoint,
)
from expunge.ledger.envelope import sign_statement
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.merkle.tree_proof import verify_consistency, verify_inclusion
from expunge.ledger.note import NoteAlgorithm, NoteKey, parse_note
from raising import raises_code

from .make_vectors import LOG_KEY, ORIGIN, SEEDS, TIME, WITNESS, WITNESS_KEY, sample_statement

spelled: Callable[[signing.Vkey], str] = signing.Vkey.serialize
ENTRIES = [b"entry %d" % number for number in range(700)]
TREE = HashTree(map(leaf_hash, ENTRIES))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> reader.TilesReader:
    log = writer.TilesWriter.create(tmp_path_factory.mktemp("tiles") / "log", ORIGIN)
    for entry in ENTRIES:
        log.add_leaf(entry)
    log.commit([signing.DummySigner()])
    return log.reader


def test_all_roots_agree(theirs: reader.TilesReader) -> None:
    for size in range(len(ENTRIES) + 1):
        assert theirs.mth(0, size) == TREE.root(size)


def test_all_paths_of_small_trees_are_the_same_bytes(theirs: reader.TilesReader) -> None:
    for size in range(1, 41):
        for index in range(size):
            assert tuple(theirs.get_inclusion_proof(index, size).node_hashes) == TREE.inclusion_path(index, size)
        for old in range(1, size + 1):
            assert tuple(theirs.get_consistency_proof(old, size).node_hashes) == TREE.consistency_path(old, size)


@given(st.data())
def test_each_side_verifies_the_others_proofs(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(ENTRIES)))
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size))
    tlog.InclusionProof(index, size, list(TREE.inclusion_path(index, size))).check(
        leaf_hash(ENTRIES[index]), TREE.root(size)
    )
    tlog.ConsistencyProof(old, size, list(TREE.consistency_path(old, size))).check(TREE.root(old), TREE.root(size))


HASHES = st.sampled_from([TREE.read(0, 0), TREE.read(0, 1), TREE.read(1, 0), TREE.read(2, 0), TREE.root(3)])


@given(st.integers(0, 9), st.integers(0, 9), st.lists(HASHES, max_size=5), st.data())
def test_verdicts_on_arbitrary_inclusion_proofs_agree(
    index: int, size: int, path: list[bytes], data: st.DataObject
) -> None:
    leaf, root = data.draw(HASHES), data.draw(st.one_of(HASHES, st.just(TREE.root(min(size, 9)))))
    try:
        tlog.InclusionProof(index, size, path).check(leaf, root)
    except tlog.InclusionProofInvalid:
        with raises_code("inclusion-*", "consistency-*", "empty-root-*", "tree-size-*", "hash-length-*", "frontier-*"):
            verify_inclusion(leaf, index, size, path, root)
    else:
        verify_inclusion(leaf, index, size, path, root)


@given(st.integers(1, 9), st.integers(1, 9), st.lists(HASHES, min_size=1, max_size=5), st.data())
def test_verdicts_on_arbitrary_consistency_proofs_agree(
    old: int, new: int, path: list[bytes], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        path = list(TREE.consistency_path(min(old, new), max(old, new))) or path
    old_root, new_root = TREE.root(old), TREE.root(data.draw(st.sampled_from([new, old])))
    try:
        tlog.ConsistencyProof(old, new, path).check(old_root, new_root)
    except tlog.ConsistencyProofInvalid:
        with raises_code("inclusion-*", "consistency-*", "empty-root-*", "tree-size-*", "hash-length-*", "frontier-*"):
            verify_consistency(old, old_root, new, new_root, path)
    else:
        verify_consistency(old, old_root, new, new_root, path)


def test_they_verify_our_checkpoint_and_cosignature() -> None:
    ours = cosign_checkpoint(
        sign_checkpoint(Checkpoint(ORIGIN, 700, TREE.root()), LOG_KEY), WITNESS, WITNESS_KEY, TIME
    ).to_bytes()
    read = tlog.Checkpoint.from_text(ours.decode())
    assert read.serialize().encode() == ours
    log_key = NoteKey(ORIGIN, LOG_KEY.public)
    witness_key = NoteKey(WITNESS, WITNESS_KEY.public, NoteAlgorithm.COSIGNATURE_V1)
    for key in (log_key, witness_key):
        vkey = signing.Vkey.from_string(key.to_text())
        assert spelled(vkey) == key.to_text()
        assert signing.Vkey(vkey.name, None, vkey.sig_type, vkey.pubkey).key_id == vkey.key_id
        read.verify(vkey)
    altered = tlog.Checkpoint.from_text(ours.decode().replace("\n700\n", "\n701\n"))
    for key in (log_key, witness_key):
        with pytest.raises(InvalidSignature):
            altered.verify(signing.Vkey.from_string(key.to_text()))


def test_we_verify_their_checkpoint() -> None:
    signer = signing.PlainEd25519Signer(ORIGIN, bytes.fromhex(SEEDS["log"]))
    theirs = tlog.Checkpoint.make_signed(ORIGIN, 700, TREE.root(), [signer]).serialize().encode()
    note = parse_note(theirs)
    verify_checkpoint(note, [NoteKey.from_text(spelled(signer.vkey))], ORIGIN)
    assert parse_checkpoint(note.text) == Checkpoint(ORIGIN, 700, TREE.root())
    assert sign_checkpoint(Checkpoint(ORIGIN, 700, TREE.root()), LOG_KEY).to_bytes() == theirs


def test_securesystemslib_verifies_our_envelope() -> None:
    document = json.loads(sign_statement(sample_statement(), LOG_KEY, WITNESS_KEY).to_bytes())
    sslib_key: Any = importlib.import_module("securesystemslib.signer").SSlibKey
    keys = [sslib_key.from_crypto(key.private.public_key(), key.key_id) for key in (LOG_KEY, WITNESS_KEY)]
    envelope = dsse.Envelope.from_dict(document)
    assert set(envelope.verify(keys, 2)) == {LOG_KEY.key_id, WITNESS_KEY.key_id}
    envelope.payload += b" "
    with pytest.raises(TheirVerificationError):
        envelope.verify(keys, 1)
