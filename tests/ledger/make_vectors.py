"""Rebuild the vectors that ``docs/formats/`` quotes: ``PYTHONPATH=src:tests python tests/ledger/make_vectors.py``.

Everything here is deterministic: Ed25519 signatures are, and the keys are the public test keys of RFC 8032
§7.1. ``test_vectors.py`` checks that the committed files are what this writes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from cosigning import cosign_checkpoint
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.commitment import blind, combined, commit, state_digest, weights_digest
from expunge.ledger.encoding import encode_float
from expunge.ledger.envelope import PAYLOAD_TYPE, sign_statement
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import ExtensionProof, InclusionProof
from expunge.ledger.merkle.tree import Frontier, HashTree
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import Statement, Subject
from ledger.edwards import weak_keys

FOLDER = Path(__file__).parent / "vectors"
SEEDS = {
    "log": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "witness": "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
}
ORIGIN = "ledger.example/icu-7"
WITNESS = "witness.example/w1"
TIME = 1700000000
SALT = bytes(range(32))

# ECDSA takes a random number, so OpenSSL signed this once, over the message of the envelope vector; the key id is from
# OpenSSH.
ECDSA_SAMPLE = {
    "public_pem": "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEIn4ngDMO3HrMU2pH5QN6wbjibW4w\n"
    "3a933IvGNgGfL1YAkIFOphyIC0eHJ1XSweo5WCnCz2YPVC+WJrfIoq0sIg==\n-----END PUBLIC KEY-----\n",
    "key_id": "SHA256:8w1WkDovYoRxHSmbUA6btVv04l498mvZtUjCabKmkjU",
    "signature": "MEQCIAiakwvteNHoiWF+tOJKuvsRCgvHw0rekE/oAshZN/x4AiAmLK+GN8/Q6X45lG0PZJwGTEuoyWRNETVxgPw+aZCl5A==",
}

LOG_KEY = SigningKey.from_seed(bytes.fromhex(SEEDS["log"]))
WITNESS_KEY = SigningKey.from_seed(bytes.fromhex(SEEDS["witness"]))


KEY, VALUE, PAYLOAD = struct.pack("<2d", 1.0, -0.5), struct.pack("<1d", 2.0), b"ba note"


def sample_commitment(subject: str | None = "patient-17", payload: bytes | None = PAYLOAD) -> str:
    """Commit to the entry of the commitment vector."""
    return commit(blind(SALT, "entry-1", subject, payload), KEY, VALUE).hex()


def sample_state() -> tuple[bytes, str]:
    """Digests of the weights and of a state that holds the sample entry alone."""
    blinds = np.frombuffer(blind(SALT, "entry-1", "patient-17", PAYLOAD), dtype=np.uint8).reshape(1, 32)
    commitments = np.frombuffer(bytes.fromhex(sample_commitment()), dtype=np.uint8).reshape(1, 32)
    weights = weights_digest(-1.0, np.ones(1), combined(blinds))
    return weights, state_digest(1.0, 2.0, commitments, weights)


def sample_statement() -> Statement:
    """Build the statement of the envelope vector."""
    return Statement(
        subjects=(Subject("icu-7", hashlib.sha256(b"state after").hexdigest()),),
        predicate_type="https://example.org/expunge/sample/v1",
        predicate={
            "outcome": "decrement",
            "removed": [sample_commitment()],
            "residual": encode_float(2.0**-50),
            "undefined": encode_float(float("inf")),
            "entries": 511,
        },
    )


def build() -> dict[str, dict[str, Any]]:
    """Return the contents of every generated vector file, by file name."""
    published = json.loads((FOLDER / "rfc6962.json").read_text())
    entries = [bytes.fromhex(leaf) for leaf in published["leaves"]]
    leaves = [leaf_hash(entry) for entry in entries]
    tree = HashTree(leaves)
    frontier = Frontier()
    for leaf in leaves[:7]:
        frontier, _ = frontier.append(leaf)

    log_key = NoteKey(ORIGIN, LOG_KEY.public)
    witness_key = NoteKey(WITNESS, WITNESS_KEY.public, NoteAlgorithm.COSIGNATURE_V1)
    signed = sign_checkpoint(Checkpoint(ORIGIN, 8, tree.root()), LOG_KEY)
    cosigned = cosign_checkpoint(signed, WITNESS, WITNESS_KEY, TIME)
    older = sign_checkpoint(Checkpoint(ORIGIN, 6, tree.root(6)), LOG_KEY)
    inclusion = InclusionProof(5, tree.inclusion_path(5), cosigned)
    extension = ExtensionProof(6, tree.consistency_path(6), signed)

    statement = sample_statement()
    payload = statement.to_bytes()
    envelope = sign_statement(statement, LOG_KEY).to_bytes()
    message = b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    return {
        "merkle-log.json": {
            "leaf_hashes": [leaf.hex() for leaf in leaves],
            "frontier_of_7": frontier.to_bytes().hex(),
            "root_of_7": tree.root(7).hex(),
        },
        "checkpoint.json": {
            "log_vkey": log_key.to_text(),
            "witness_vkey": witness_key.to_text(),
            "time": TIME,
            "signed": signed.to_bytes().decode(),
            "cosigned": cosigned.to_bytes().decode(),
            "older": older.to_bytes().decode(),
        },
        "log-proof.json": {
            "entry": entries[5].hex(),
            "inclusion": inclusion.to_bytes().decode(),
            "extension": extension.to_bytes().decode(),
        },
        "envelope.json": {
            "key_id": LOG_KEY.key_id,
            "payload": payload.decode(),
            "pre_authentication_encoding": message.decode(),
            "envelope": envelope.decode(),
            "leaf_hash": leaf_hash(envelope).hex(),
        },
        "commitment.json": {
            "salt": SALT.hex(),
            "id": "entry-1",
            "subject": "patient-17",
            "key": KEY.hex(),
            "value": VALUE.hex(),
            "payload": PAYLOAD.hex(),
            "blind": blind(SALT, "entry-1", "patient-17", PAYLOAD).hex(),
            "commitment": sample_commitment(),
            "commitment_without_subject_and_payload": sample_commitment(None, None),
            "weights": sample_state()[0].hex(),
            "state": sample_state()[1],
        },
        "signing-key.json": {
            "seed": SEEDS["log"],
            "public": LOG_KEY.public.raw.hex(),
            "key_id": LOG_KEY.key_id,
            "public_pem": LOG_KEY.public.to_pem().decode(),
            "private_pem_sha256": hashlib.sha256(LOG_KEY.to_pem()).hexdigest(),
        },
        "public-keys.json": {"refused": weak_keys(), "ecdsa": ECDSA_SAMPLE},
    }


def dump(content: dict[str, Any]) -> str:
    """Return the text of one vector file."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, content in build().items():
        (FOLDER / name).write_text(dump(content))
