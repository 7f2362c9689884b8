"""The browser's verifier and the package's agree on every head and proof, valid or altered: on the error's name."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from expunge.ledger.merkle.proof_file import InclusionProof, parse_inclusion_proof
from expunge.ledger.merkle.tree_proof import verify_consistency as fold_consistency
from expunge.ledger.merkle.tree_proof import verify_inclusion as fold_inclusion
from expunge.ledger.note import NoteKey, SignedNote
from expunge.verify import verify_consistency, verify_inclusion
from service.frontend.verifier import browser_says, encoded, name_of, vkey
from verify.cases import LOG_KEYS, LOGGER, ORIGIN, SIGNER, case, ledger

LEDGER_VECTORS = Path(__file__).parents[2] / "ledger" / "vectors"
PROOFS = """async ({ cases, trust }) => {
  const { parseTrust } = await import("/page/verify/signing.js");
  const { parseInclusionProof } = await import("/page/verify/proof.js");
  const { verifyCheckpoint } = await import("/page/verify/checkpoint.js");
  const { leafHash, verifyInclusion } = await import("/page/verify/merkle.js");
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const key = await parseTrust(trust);
  const verdicts = [];
  for (const [envelope, file] of cases) {
    try {
      const proof = parseInclusionProof(bytes(file));
      const head = await verifyCheckpoint(proof.note, key);
      await verifyInclusion(await leafHash(bytes(envelope)), proof.index, head.size, proof.path, head.root);
      verdicts.push(null);
    } catch (error) { verdicts.push(error.name); }
  }
  return verdicts;
}"""


def test_proofs_of_inclusion_fail_by_the_same_name(page: Page) -> None:
    rng = random.Random(12)
    made = list(ledger().cases.values())
    cases = [(one.envelope, one.inclusion) for one in made]
    cases += [(made[at - 1].envelope, one.inclusion) for at, one in enumerate(made)]
    sound = made[7]
    parsed = parse_inclusion_proof(sound.inclusion)
    note = parsed.checkpoint
    forged: list[InclusionProof] = [
        *(InclusionProof(index, parsed.path, note) for index in (0, 6, 8, 10**6, 2**63 - 1)),
        *(InclusionProof(7, parsed.path[:cut], note) for cut in range(len(parsed.path))),
        InclusionProof(7, (*parsed.path, bytes(32)), note),
        InclusionProof(7, parsed.path[::-1], note),
        InclusionProof(7, parsed.path, SignedNote(note.text.replace(b"\n8\n", b"\n9\n"), note.signatures)),
    ]
    cases += [(sound.envelope, proof.to_bytes()) for proof in forged]
    for _ in range(500):
        at = rng.randrange(len(sound.inclusion))
        piece = rng.choice([b"", sound.inclusion[at : at + 1] * 2, bytes([rng.choice(b"\n A9=+\x00\xff\t")])])
        cases.append((sound.envelope, sound.inclusion[:at] + piece + sound.inclusion[at + 1 :]))
    expected = [name_of(verify_inclusion, *one, LOG_KEYS, ORIGIN) for one in cases]
    arguments = {"cases": [[encoded(part) for part in one] for one in cases], "trust": vkey(LOGGER)}
    assert page.evaluate(PROOFS, arguments) == expected
    assert expected[: len(made)] == [None] * len(made)
    assert len(set(expected)) >= 14


def test_a_signer_whose_name_has_some_space_in_it(page: Page) -> None:
    """Unicode's white space is refused in a name, and nothing else that only looks like it."""
    sound = case("ward-decrement")
    codes = [*range(0x0B, 0x100), 0x1680, 0x180E, *range(0x2000, 0x2070), 0x3000, 0xFEFF, 0x1F600]
    line = encoded(bytes(68))
    cases = [(sound.envelope, sound.inclusion + f"— a{chr(code)}b {line}\n".encode()) for code in codes]
    expected = [name_of(verify_inclusion, *one, LOG_KEYS, ORIGIN) for one in cases]
    arguments = {"cases": [[encoded(part) for part in one] for one in cases], "trust": vkey(LOGGER)}
    assert page.evaluate(PROOFS, arguments) == expected
    named = dict(zip(codes, expected, strict=True))
    assert (named[0x85], named[0xA0], named[0xFEFF]) == ("note-key-name-invalid", "note-key-name-invalid", None)
    # Such a name is nobody's in these notes; as the log's own it counts from its first character to its last.
    strange = NoteKey("\ufefflog\ufeff", SIGNER.public).to_text()
    assert browser_says(page, [(sound.envelope.decode(), "")], f"\n{strange}\r\n ") == [None]


EXTENSIONS = """async ({ cases, trust }) => {
  const { parseTrust } = await import("/page/verify/signing.js");
  const { verifyExtension } = await import("/page/verify/proof.js");
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const key = await parseTrust(trust);
  const verdicts = [];
  for (const [kept, proof] of cases) {
    try { await verifyExtension(bytes(kept), bytes(proof), key); verdicts.push(null); }
    catch (error) { verdicts.push(error.name); }
  }
  return verdicts;
}"""


def test_extensions_of_every_head_fail_by_the_same_name(page: Page) -> None:
    rng = random.Random(13)
    heads = ledger().heads
    cases = [(head.to_bytes(), ledger().extension(size)) for size, head in enumerate(heads, start=1)]
    count = len(cases)
    cases += [(heads[size].to_bytes(), ledger().extension(size)) for size in range(1, count)]
    for _ in range(200):
        kept, proof = cases[rng.randrange(count)]
        at = rng.randrange(len(proof))
        cases.append((kept, proof[:at] + bytes([rng.choice(b"\n A9=+")]) + proof[at + 1 :]))
    expected = [name_of(verify_consistency, *one, LOG_KEYS, ORIGIN) for one in cases]
    arguments = {"cases": [[encoded(part) for part in one] for one in cases], "trust": vkey(LOGGER)}
    assert page.evaluate(EXTENSIONS, arguments) == expected
    assert expected[:count] == [None] * count
    assert len(set(expected)) >= 6


FOLDS = """async (cases) => {
  const { verifyInclusion, verifyConsistency } = await import("/page/verify/merkle.js");
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const verdicts = [];
  for (const { inclusion, first, second, third, fourth, path } of cases) {
    const hashes = path.map(bytes);
    try {
      if (inclusion) await verifyInclusion(bytes(first), BigInt(second), BigInt(third), hashes, bytes(fourth));
      else await verifyConsistency(BigInt(first), bytes(second), BigInt(third), bytes(fourth), hashes);
      verdicts.push(null);
    } catch (error) { verdicts.push(error.name); }
  }
  return verdicts;
}"""


def test_trees_of_every_shape(page: Page) -> None:
    """Every leaf and every older size of trees up to 20 leaves, with right, short, long and foreign paths."""
    from expunge.ledger.merkle.hashing import leaf_hash
    from expunge.ledger.merkle.tree import HashTree

    rng = random.Random(14)
    cases: list[dict[str, Any]] = []
    expected: list[str | None] = []

    def add(inclusion: bool, path: Any, *arguments: Any) -> None:
        written = [encoded(one) if isinstance(one, bytes) else str(one) for one in arguments]
        cases.append(
            dict(zip(("first", "second", "third", "fourth"), written, strict=True))
            | {"inclusion": inclusion, "path": [encoded(one) for one in path]}
        )
        if inclusion:
            expected.append(name_of(fold_inclusion, arguments[0], arguments[1], arguments[2], path, arguments[3]))
        else:
            expected.append(name_of(fold_consistency, *arguments, path))

    for size in range(1, 21):
        hashes = [leaf_hash(bytes([number])) for number in range(size)]
        tree = HashTree(hashes)
        for index in range(size):
            path = tree.inclusion_path(index)
            add(True, path, hashes[index], index, size, tree.root())
            add(True, path[:-1], hashes[index], index, size, tree.root())
            add(True, path, hashes[index], rng.randrange(size + 2), size, tree.root())
        for old in range(size + 1):
            root = HashTree(hashes[:old]).root()
            path = tree.consistency_path(old)
            add(False, path, old, root, size, tree.root())
            add(False, (*path, bytes(32)), old, root, size, tree.root())
            add(False, path, old, bytes(32), size, tree.root())
            add(False, path, size, tree.root(), old, root)
    assert page.evaluate(FOLDS, cases) == expected
    assert expected.count(None) > 400
    assert len(set(expected)) >= 8


HEADS = """async (cases) => {
  const { parseTrust } = await import("/page/verify/signing.js");
  const { parseNote, verifyCheckpoint } = await import("/page/verify/checkpoint.js");
  const verdicts = [];
  for (const [trust, text] of cases) {
    try {
      const head = await verifyCheckpoint(parseNote(new TextEncoder().encode(text)), await parseTrust(trust));
      verdicts.push(`${head.origin} ${head.size}`);
    } catch (error) { verdicts.push(error.name); }
  }
  return verdicts;
}"""


def test_notes_that_others_published(page: Page) -> None:
    """A signature that verifies brings the check to what the text is not; a changed text does not come that far."""
    ours = json.loads((LEDGER_VECTORS / "checkpoint.json").read_text(encoding="utf-8"))
    others = json.loads((LEDGER_VECTORS / "published-notes.json").read_text(encoding="utf-8"))
    notes = [(one["vkey"], one["note"]) for one in others["notes"]]
    heads = [(one["vkey"], one["note"]) for one in others["checkpoints"]]
    altered = [(key, note.replace("e", "E", 1)) for key, note in notes + heads]
    sound = [(ours["log_vkey"], ours[name]) for name in ("signed", "cosigned", "older")]
    assert page.evaluate(HEADS, [*sound, *notes, *heads, *altered]) == [
        *(f"ledger.example/icu-7 {size}" for size in (8, 8, 6)),
        *(["checkpoint-lines-missing"] * len(notes)),
        # The key of the Go checksum database has another name than the log.
        *(["checkpoint-origin-mismatch"] * len(heads)),
        *(["note-signature-invalid"] * len(altered)),
    ]


@pytest.mark.parametrize(
    ("trust", "error"),
    [
        ("", "signing-key-missing"),
        ("nonsense", "verifier-key-malformed"),
        ("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----", "signing-key-malformed"),
        ("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----", "signing-key-wrong-type"),
        ("ledger.example/icu-7+00000000+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea", "verifier-key-id-mismatch"),
        ("witness.example/w1+04d2d833+BD1AF8PoQ4lakrcKp00bfrycmCzPLsSWjMDNVfEq9GYM", "signing-key-missing"),
    ],
)
def test_keys_that_cannot_be_trusted(page: Page, trust: str, error: str) -> None:
    assert browser_says(page, [(case("ward-decrement").envelope.decode(), "")], trust) == [error]
