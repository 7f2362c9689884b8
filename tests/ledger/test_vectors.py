"""The committed vectors are what the code writes, they verify, and the documents quote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from expunge.ledger.checkpoint import parse_checkpoint, verify_checkpoint, verify_cosignatures
from expunge.ledger.commitment import verify_commitment, verify_vectors
from expunge.ledger.envelope import open_statement
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import (
    parse_extension_proof,
    parse_inclusion_proof,
    verify_extension_proof,
    verify_inclusion_proof,
)
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import NoteKey, parse_note
from expunge.ledger.signing import VerifyingKey

from .make_vectors import FOLDER, ORIGIN, build, dump

FORMATS = Path(__file__).parents[2] / "docs" / "formats"
BUILT = build()


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return content


@pytest.mark.parametrize("name", BUILT)
def test_committed_vectors_are_current(name: str) -> None:
    assert (FOLDER / name).read_text() == dump(BUILT[name])


def test_the_vectors_verify_from_the_files_alone() -> None:
    heads, proofs = load("checkpoint.json"), load("log-proof.json")
    log_key, witness = NoteKey.from_text(heads["log_vkey"]), NoteKey.from_text(heads["witness_vkey"])
    cosigned = parse_note(heads["cosigned"].encode())
    verify_checkpoint(cosigned, [log_key], ORIGIN)
    verify_cosignatures(cosigned, [witness], 1, now=heads["time"], log_keys=[])
    verify_inclusion_proof(
        parse_inclusion_proof(proofs["inclusion"].encode()), bytes.fromhex(proofs["entry"]), [log_key], ORIGIN
    )
    older = parse_checkpoint(parse_note(heads["older"].encode()).text)
    verify_extension_proof(parse_extension_proof(proofs["extension"].encode()), older, [log_key])

    sealed, key = load("envelope.json"), load("signing-key.json")
    public = VerifyingKey.from_pem(key["public_pem"].encode())
    assert public.key_id == key["key_id"] == sealed["key_id"]
    assert open_statement(sealed["envelope"].encode(), [public]).to_bytes().decode() == sealed["payload"]
    assert leaf_hash(sealed["envelope"].encode()).hex() == sealed["leaf_hash"]

    entry = load("commitment.json")
    salt, vector, value = (bytes.fromhex(entry[name]) for name in ("salt", "key", "value"))
    payload = bytes.fromhex(entry["payload"])
    verify_commitment(entry["commitment"], salt, entry["id"], entry["subject"], vector, value, payload)
    verify_vectors(entry["commitment"], bytes.fromhex(entry["blind"]), vector, value)
    bare = entry["commitment_without_subject_and_payload"]
    verify_commitment(bare, salt, entry["id"], None, vector, value, None)

    tree = load("merkle-log.json")
    assert Frontier.from_bytes(bytes.fromhex(tree["frontier_of_7"])).root.hex() == tree["root_of_7"]


@pytest.mark.parametrize("name", ["merkle-log", "checkpoint", "log-proof", "envelope", "commitment", "signing-key"])
def test_each_format_has_a_document_that_quotes_its_vector(name: str) -> None:
    document = (FORMATS / f"{name}.md").read_text()
    lines = document.splitlines()
    assert lines[0].startswith("# ")
    sample = next(at for at, line in enumerate(lines) if line.startswith("```"))
    heading = next(at for at, line in enumerate(lines) if line.startswith("## "))
    assert sample < heading, "the sample comes first"
    assert "## Verification" in document
    assert "\n1. " in document
    assert f"tests/ledger/vectors/{name}.json" in document
    for label, value in load(f"{name}.json").items():
        for line in str(value).splitlines() if isinstance(value, str) else []:
            assert line in document, f"{name}.md does not quote {label}"
