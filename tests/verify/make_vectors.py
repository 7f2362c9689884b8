"""Rebuild the vectors that ``docs/formats/`` quotes: ``python -m tests.verify.make_vectors`` from the root.

Everything is written down here rather than solved for, so that the bytes are the same on every machine: the
paper's Example 1 after its third entry, which had no weight, was deleted. The signing keys are the public test keys
of RFC 8032 §7.1. ``test_vectors.py`` checks that the committed files are what this writes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from expunge.attestation.evidence import Evidence, Prior, StateShown
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.commitment import blind, combined, commit, state_digest, weights_digest
from expunge.ledger.envelope import sign_statement
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteKey
from expunge.ledger.receipt_format import Listed, Predicate, ProblemStated, RequestStated, Sizes, Solver
from expunge.ledger.signing import SigningKey
from expunge.preprocessing import Column, Preprocessing

FOLDER = Path(__file__).parent / "vectors"
SIGNER = SigningKey.from_seed(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
LOGGER = SigningKey.from_seed(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
ORIGIN = "ledger.example/icu-7"

KEYS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]])
VALUES = np.array([[1.0], [2.0], [9.0]])
CAP, SIGMA = 1.0, 5.0
# exp(−4/25), negated: t = 1 − 2Kα at both remaining keys.
OFFSET = -0.8521437889662113
SALTS = [bytes(range(32 * row, 32 * (row + 1))) for row in range(3)]
COLUMNS = Preprocessing(
    (Column("heart rate", "1/min", centre=84.0, scale=16.0, fill=84.0), Column("SpO₂", "%", centre=97.0, scale=2.0)),
    (Column("mean pressure", "mmHg", fill=78.0),),
    learned=True,
)
SUBJECTS = ["patient-1", "patient-1", "patient-17"]


def digests(count: int) -> tuple[Any, Any]:
    """Blinds and commitments of the first entries."""
    hidden = [blind(SALTS[row], f"entry-{row}", SUBJECTS[row], None) for row in range(count)]
    commitments = [commit(hidden[row], KEYS[row].tobytes(), VALUES[row].tobytes()) for row in range(count)]
    return tuple(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(count, 32) for rows in (hidden, commitments))  # type: ignore[return-value]


def sample() -> tuple[Predicate, StateShown, Prior]:
    """The receipt, and the states before and after, by ascending commitment."""
    blinds, commitments = digests(3)
    half = np.array([0.5, 0.5, 0.0])
    every = np.array(sorted(range(3), key=lambda row: commitments[row].tobytes()))
    rest = every[every < 2]
    older = weights_digest(OFFSET, half[every], combined(blinds))
    newer = weights_digest(OFFSET, half[rest], combined(blinds[:2]))
    after = StateShown(CAP, SIGMA, OFFSET, KEYS[rest], VALUES[rest], half[rest], blinds[rest], commitments[rest], newer)
    prior = Prior(CAP, SIGMA, commitments[every], older)
    predicate = Predicate(
        memory="6f1c8f1e-6a43-4d0c-9c0a-2b9d4b1f7a11",
        edit=7,
        action="deletion",
        outcome="certified_zero",
        time="2026-03-01T12:30:05Z",
        state_before=state_digest(CAP, SIGMA, prior.commitments, older),
        state_after=state_digest(CAP, SIGMA, after.commitments, newer),
        before=Sizes(3, 0),
        after=Sizes(2, 0),
        applied=Listed.of([commitments[2].tobytes()]),
        problem=ProblemStated(CAP, SIGMA, 2, 3),
        solver=Solver("expunge", "0.1.0"),
        request=RequestStated("c5a1f7d2-3f0e-4b43-9d58-2a6f0e9b7c31", case="5f" * 32),
    )
    return predicate, after, prior


def build() -> dict[str, bytes]:
    """Return the contents of every vector file, by file name."""
    predicate, after, prior = sample()
    statement = predicate.to_statement()
    envelope = sign_statement(statement, SIGNER).to_bytes()
    tree = HashTree([leaf_hash(b"an earlier receipt"), leaf_hash(envelope)])
    head = sign_checkpoint(Checkpoint(ORIGIN, 2, tree.root()), LOGGER)
    inclusion = InclusionProof(1, tree.inclusion_path(1), head).to_bytes()
    bundle = Evidence(envelope, after, prior, inclusion=inclusion)
    data = bundle.to_bytes()
    start = data.index(b'{"after"')
    manifest = data[start : data.index(b"PK\x03\x04", start)]
    receipt = {
        "key_id": SIGNER.key_id,
        "payload": statement.to_bytes().decode(),
        "envelope": envelope.decode(),
        "leaf_hash": leaf_hash(envelope).hex(),
        "public_key": SIGNER.public.raw.hex(),
    }
    evidence = {
        "file": "sample.evidence",
        "sha256": hashlib.sha256(data).hexdigest(),
        "manifest": manifest.decode(),
        "log_vkey": NoteKey(ORIGIN, LOGGER.public).to_text(),
    }
    columns = {
        "content": COLUMNS.to_bytes().decode(),
        "sha256": COLUMNS.digest().hex(),
        "state_after": state_digest(CAP, SIGMA, after.commitments, after.weights, COLUMNS.digest()),
    }
    return {
        "receipt.json": dump(receipt),
        "evidence.json": dump(evidence),
        "preprocessing.json": dump(columns),
        "sample.evidence": data,
    }


def dump(content: dict[str, Any]) -> bytes:
    """Return the text of one vector file."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    for name, content in build().items():
        (FOLDER / name).write_bytes(content)
