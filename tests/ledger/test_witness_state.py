"""What a witness has cosigned stays on disk, and decides what it cosigns next."""

from __future__ import annotations

import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from expunge.errors import ExpungeError
from expunge.ledger.checkpoint import Checkpoint, Witness, parse_checkpoint, sign_checkpoint, verify_cosignatures
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import ExtensionProof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteKey, NoteSignature, SignedNote
from expunge.ledger.signing import SigningKey
from expunge.ledger.witness_state import WitnessState
from raising import raises_code

from .make_vectors import LOG_KEY, ORIGIN, TIME, WITNESS, WITNESS_KEY

TREE = HashTree(leaf_hash(b"%d" % number) for number in range(20))
FORK = HashTree(leaf_hash(b"other %d" % number) for number in range(20))
KEYS = [NoteKey(ORIGIN, LOG_KEY.public)]
COSIGNER = Witness(WITNESS, WITNESS_KEY)


def head(size: int, tree: HashTree = TREE, origin: str = ORIGIN, key: SigningKey = LOG_KEY) -> SignedNote:
    return sign_checkpoint(Checkpoint(origin, size, tree.root(size)), key)


def step(old: int, new: int, tree: HashTree = TREE) -> ExtensionProof:
    return ExtensionProof(old, tree.consistency_path(old, new) if 0 < old < new else (), head(new, tree))


def cosign(state: WitnessState, extension: ExtensionProof) -> NoteSignature:
    return state.cosign(extension, KEYS, ORIGIN, COSIGNER, TIME)


@pytest.fixture
def state(tmp_path: Path) -> WitnessState:
    return WitnessState(tmp_path / "w.heads")


def test_the_first_head_and_the_next_ones(state: WitnessState) -> None:
    assert state.kept(ORIGIN) is None
    for old, new in ((0, 6), (6, 7), (7, 7), (7, 20)):
        line = cosign(state, step(old, new))
        verify_cosignatures(head(new).with_signature(line), [COSIGNER.verifier], 1, now=TIME, log_keys=KEYS)
        kept = WitnessState(state.path).kept(ORIGIN)
        assert kept is not None
        assert parse_checkpoint(kept.text).size == new
        assert kept.signatures == (*head(new).signatures, line)
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o600


def test_it_does_not_go_back_and_does_not_fork(state: WitnessState) -> None:
    cosign(state, step(0, 7))
    before = state.path.read_bytes()
    for extension, code in (
        (step(7, 6), "consistency-sizes-reversed"),
        (step(0, 6), "log-proof-old-size-mismatch"),
        (step(0, 20), "log-proof-old-size-mismatch"),
        (step(7, 7, FORK), "consistency-fork"),
        (step(7, 20, FORK), "consistency-old-root-mismatch"),
        (ExtensionProof(7, (), head(20)), "consistency-path-length"),
        (replace(step(7, 20), checkpoint=head(20, key=WITNESS_KEY)), "note-signer-unknown"),
        (replace(step(7, 20), checkpoint=head(20, origin="other.example")), "note-signer-unknown"),
    ):
        with raises_code(code):
            cosign(state, extension)
        assert state.path.read_bytes() == before
    cosign(state, step(7, 20))


def test_each_log_has_a_head_of_its_own(state: WitnessState) -> None:
    cosign(state, step(0, 7))
    other = ExtensionProof(0, (), head(3, FORK, "other.example"))
    state.cosign(other, [NoteKey("other.example", LOG_KEY.public)], "other.example", COSIGNER, TIME)
    cosign(state, step(7, 20))
    sizes = [parse_checkpoint(kept.text).size for kept in map(state.kept, (ORIGIN, "other.example")) if kept]
    assert sizes == [20, 3]


def test_the_log_is_not_its_own_witness(state: WitnessState) -> None:
    with raises_code("witness-is-log"):
        state.cosign(step(0, 7), KEYS, ORIGIN, Witness("other.example", LOG_KEY), TIME)
    assert not state.path.exists()


def test_a_damaged_file_is_not_taken_for_an_empty_one(state: WitnessState) -> None:
    cosign(state, step(0, 7))
    whole = state.path.read_bytes()
    for damaged in (
        b"",
        whole[:-9],
        whole.replace(b"witness-state:v1", b"witness-state:v9"),
        b'{"heads":{}}',
        b"[]",
        whole.replace(ORIGIN.encode() + b'"', b'other.example"'),
        b'{"format":1,"heads":{}}',
    ):
        state.path.write_bytes(damaged)
        with raises_code("witness-state-malformed"):
            cosign(state, step(7, 20))
        assert state.path.read_bytes() == damaged
    state.path.unlink()
    state.path.mkdir()
    with raises_code("witness-state-unreadable"):
        state.kept(ORIGIN)
    nowhere = WitnessState(state.path.parent / "none" / "w.heads")
    with raises_code("witness-state-unwritable"):
        cosign(nowhere, step(0, 7))


def test_two_requests_at_once_do_not_both_extend_one_head(state: WitnessState) -> None:
    cosign(state, step(0, 6))
    told: list[object] = []

    def ask(size: int) -> None:
        try:
            told.append(cosign(WitnessState(state.path), step(6, size)))
        except ExpungeError as problem:
            told.append(problem.code)

    workers = [threading.Thread(target=ask, args=(size,)) for size in range(7, 15)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(told) == 8
    assert sum(not isinstance(said, str) for said in told) == 1
    assert {said for said in told if isinstance(said, str)} == {"log-proof-old-size-mismatch"}
