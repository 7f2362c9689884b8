"""The committed vectors are what the code writes, they verify, and the documents quote them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from expunge.ledger import receipt_format as predicate
from expunge.ledger.encoding import dump_canonical
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey
from expunge.verify import verify_evidence, verify_receipt

from .alter import leaves, spelled
from .cases import ledger
from .make_vectors import FOLDER, ORIGIN, build

FORMATS = Path(__file__).parents[2] / "docs" / "formats"
BUILT = build()


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return content


def sample(name: str) -> Any:
    """The JSON in the first block of a document."""
    text = (FORMATS / name).read_text()
    found = re.search(r"```\n(.*?)\n```", text, re.DOTALL)
    assert found is not None
    assert found.start() < text.index("\n## "), "the sample comes first"
    return json.loads(found.group(1))


@pytest.mark.parametrize("name", BUILT)
def test_committed_vectors_are_current(name: str) -> None:
    assert (FOLDER / name).read_bytes() == BUILT[name]


def test_the_vectors_verify_from_the_files_alone() -> None:
    receipt, evidence = load("receipt.json"), load("evidence.json")
    trusted = [VerifyingKey(bytes.fromhex(receipt["public_key"]))]
    assert trusted[0].key_id == receipt["key_id"]
    opened = verify_receipt(receipt["envelope"].encode(), trusted)
    assert opened.to_statement().to_bytes().decode() == receipt["payload"]
    assert leaf_hash(receipt["envelope"].encode()).hex() == receipt["leaf_hash"]
    log_keys = [NoteKey.from_text(evidence["log_vkey"])]
    verify_evidence(FOLDER / evidence["file"], trusted, log_keys=log_keys, origin=ORIGIN)
    assert evidence["manifest"].encode() in (FOLDER / evidence["file"]).read_bytes()


def test_the_documents_show_the_vectors() -> None:
    receipt, evidence = load("receipt.json"), load("evidence.json")
    assert dump_canonical(sample("receipt.md")).decode() == receipt["payload"]
    assert dump_canonical(sample("evidence.md")).decode() == evidence["manifest"]
    columns = load("preprocessing.json")
    assert dump_canonical(sample("preprocessing.md")).decode() == columns["content"]
    for value in (columns["sha256"], columns["state_after"], "tests/verify/vectors/preprocessing.json"):
        assert value in (FORMATS / "preprocessing.md").read_text()
    for value in (receipt["key_id"], receipt["leaf_hash"], "tests/verify/vectors/receipt.json"):
        assert value in (FORMATS / "receipt.md").read_text()
    for value in (evidence["sha256"], evidence["log_vkey"], "tests/verify/vectors/evidence.json"):
        assert value in (FORMATS / "evidence.md").read_text()


def test_every_field_and_every_word_is_documented() -> None:
    text = (FORMATS / "receipt.md").read_text()
    names = {
        key
        for made in ledger().cases.values()
        for path, _ in leaves(json.loads(made.statement.to_bytes())["predicate"])
        for key in spelled(path).split(".")
    }
    words = {*get_args(predicate.Action), *get_args(predicate.Outcome), *get_args(predicate.Reason)}
    words |= {*get_args(predicate.Coverage), *get_args(predicate.Mode)}
    for word in (names | words | set(predicate.DOES_NOT_COVER)) - {"[]"}:
        assert f"`{word}`" in text, word
    manifest = {key for path, _ in leaves(sample("evidence.md")) for key in path if isinstance(key, str)}
    for word in manifest:
        assert f"`{word}`" in (FORMATS / "evidence.md").read_text(), word


@pytest.mark.parametrize("name", ["receipt.md", "evidence.md", "commitment.md"])
def test_links_between_the_formats_lead_somewhere(name: str) -> None:
    for target, anchor in re.findall(r"\]\(([a-z-]*\.md)?(?:#([a-z-]+))?\)", (FORMATS / name).read_text()):
        file = FORMATS / (target or name)
        if target == "proof.md" and not file.exists():
            continue
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}, (target, anchor)
