"""The browser's verifier and ours agree on every receipt, head and proof, sound or altered: on the verdict by name.

Two implementations that share no line are each other's reference. What is altered is signed again where that is
possible, so that the check behind the signature has to find it.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from expunge.errors import VerificationError
from expunge.ledger.envelope import Envelope, EnvelopeSignature, parse_envelope, verify_envelope
from expunge.ledger.event import EVENT_TYPE, parse_event
from expunge.ledger.merkle.proof_file import InclusionProof, parse_inclusion_proof
from expunge.ledger.merkle.tree_proof import verify_consistency as fold_consistency
from expunge.ledger.merkle.tree_proof import verify_inclusion as fold_inclusion
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import parse_statement
from expunge.verify import verify_consistency, verify_inclusion, verify_receipt
from verify.alter import DROP, document, forge, leaves, objects, put, unsigned
from verify.cases import LOG_KEYS, LOGGER, ORIGIN, SIGNER, STRANGER, TRUSTED, case, ledger

from .browser import Service, visiting

pytest_plugins = ["service.visits"]

LEDGER_VECTORS = Path(__file__).parent.parent / "ledger" / "vectors"
RICH = ("ward-admitted", "ward-refused-no-state", "ward-refused-too-few", "ward-pruned-archive", "archive-admitted-1")
WRONG: tuple[Any, ...] = (None, True, -1, "\n", "0x1.0000000000000p-3", [1])

HARNESS = """async ({ cases, trust }) => {
  const { verifyLeaf } = await import("/page/verify/steps.js");
  const verdicts = [];
  for (const [envelope, proof] of cases) {
    const { failed } = await verifyLeaf({ envelope, proof, trust });
    verdicts.push(failed === null ? null : failed.name);
  }
  return verdicts;
}"""


@pytest.fixture(scope="module")
def page(window: Browser, site: Service) -> Iterator[Page]:
    with visiting(window, site, token=None) as visitor:
        visitor.go("#/verify")
        yield visitor.page


def name_of(check: Callable[..., object], *arguments: Any) -> str | None:
    try:
        check(*arguments)
    except VerificationError as error:
        return error.code
    return None


def vkey(key: SigningKey) -> str:
    return NoteKey(ORIGIN, key.public).to_text()


def browser_says(page: Page, cases: list[tuple[str, str]], trust: str) -> list[str | None]:
    verdicts: list[str | None] = page.evaluate(HARNESS, {"cases": cases, "trust": trust})
    return verdicts


def test_every_receipt_of_every_kind_verifies(page: Page) -> None:
    made = list(ledger().cases.values())
    assert browser_says(page, [(one.envelope.decode(), "") for one in made], vkey(SIGNER)) == [None] * len(made)
    # The log has a key of its own in these cases, so receipts and heads are verified under one key at a time.
    with_proofs = browser_says(page, [(one.envelope.decode(), one.inclusion.decode()) for one in made], vkey(LOGGER))
    assert with_proofs == ["envelope-signer-unknown"] * len(made)


def alterations(name: str) -> Iterator[Any]:
    """Predicates with one thing wrong: every field dropped, every object with one too many, every value replaced."""
    whole = document(case(name))
    for path in objects(whole):
        at = whole
        for key in path:
            at = at[key]
        yield put(whole, (*path, "extra"), 1)
        for field in at:
            yield put(whole, (*path, field), DROP)
    for path, value in leaves(whole):
        # Long lists are alike.
        if any(isinstance(part, int) and part > 1 for part in path):
            continue
        for wrong in WRONG:
            if wrong != value:
                yield put(whole, path, wrong)


@pytest.mark.parametrize("name", RICH)
def test_an_altered_receipt_fails_by_the_same_name(page: Page, name: str) -> None:
    made = case(name)
    forged = [forge(made, predicate) for predicate in alterations(name)]
    expected = [name_of(verify_receipt, envelope, TRUSTED) for envelope in forged]
    found = browser_says(page, [(envelope.decode(), "") for envelope in forged], vkey(SIGNER))
    assert found == expected
    assert len(forged) > 200
    # Some replacements mean nothing wrong, as another number of seconds does.
    assert sum(verdict is None for verdict in found) < len(forged) / 20
    assert len(set(found)) > 15


def test_numbers_of_entries_whose_sum_no_double_holds(page: Page) -> None:
    """Each of them is at most 2^53 - 1; a sum that is rounded makes one too many look right, or a right one wrong."""
    made = case("ward-admitted")
    whole, largest = document(made), 2**53 - 1
    forged = []
    for pruned in (largest, largest - 1, largest - 2):
        for live in (largest, largest - 1):
            for more in (-1, 0, 1, 2):
                before = {"live": live - 1, "pruned": pruned}
                after = {"live": live, "pruned": min(largest, pruned + more)}
                forged.append(forge(made, put(whole, ("entries",), {"before": before, "after": after})))
    erasure = case("ward-delete-archived")
    for live in (13, 14, 15, 16, 24):
        for back in (0, 1, 9):
            changed = put(document(erasure), ("entries", "after"), {"live": live, "pruned": 24 - live})
            forged.append(forge(erasure, put(changed, ("warranties", "reactivated", "count"), back)))
    expected = [name_of(verify_receipt, envelope, TRUSTED) for envelope in forged]
    assert browser_says(page, [(envelope.decode(), "") for envelope in forged], vkey(SIGNER)) == expected
    assert set(expected) == {None, "receipt-entries-mismatch"}


def test_the_edit_that_a_restoration_went_back_to(page: Page) -> None:
    made, other = case("example-restored"), case("ward-decrement")
    whole = document(made)
    values = (DROP, *WRONG, whole["edit"] - 1, whole["edit"], whole["edit"] + 1)
    forged = [forge(made, put(whole, ("restored_edit",), value)) for value in values]
    forged.append(forge(other, put(document(other), ("restored_edit",), 0)))
    expected = [name_of(verify_receipt, envelope, TRUSTED) for envelope in forged]
    assert browser_says(page, [(envelope.decode(), "") for envelope in forged], vkey(SIGNER)) == expected
    assert expected[0] is None
    assert set(expected) == {None, "receipt-edit-invalid", "receipt-field-unknown"}


def test_one_altered_byte_under_the_old_signature(page: Page) -> None:
    made = case("ward-decrement")
    predicate = document(made)
    altered = unsigned(made, put(predicate, ("entries", "after", "live"), predicate["entries"]["after"]["live"] - 1))
    assert browser_says(page, [(altered.decode(), "")], vkey(SIGNER)) == ["envelope-signature-invalid"]
    assert browser_says(page, [(made.envelope.decode(), "")], vkey(STRANGER)) == ["envelope-signer-unknown"]


def test_mangled_envelopes_fail_by_the_same_name(page: Page) -> None:
    """Bytes changed, doubled and dropped anywhere, and the ways in which JSON can be something else than it seems."""
    rng = random.Random(11)
    sound = case("ward-decrement").envelope.decode()
    mangled = []
    for _ in range(400):
        at = rng.randrange(len(sound))
        piece = rng.choice(["", sound[at] * 2, rng.choice('{}[]",:\\ue0\n 9'), rng.choice("AZaz09+/=")])
        mangled.append(sound[:at] + piece + sound[at + 1 :])
    head, tail = sound[:-1], sound[-1]
    mangled += [
        *(
            f"{head},{extra}{tail}"
            for extra in ('"a":1.0', '"a":1e3', '"a":NaN', '"a":-Infinity', '"a":9007199254740993')
        ),
        *(
            f"{head},{extra}{tail}"
            for extra in ('"payload":1', '"a":"\\ud800"', '"__proto__":1', '"é":"\\u00e9"', '"a":-0')
        ),
        *(
            "[]",
            "null",
            '"text"',
            "{}",
            "[" * 40 + "]" * 40,
            "[" + "1," * 300 + "1]",
            sound.replace(":", ": ", 1),
            "\ufeff" + sound,
        ),
        *('{"a":"\x01"}', '{"a":tru}', '{"a" 1}', "{,}", "[1,]", "01", "-", '"\\x"', '"open'),
    ]
    expected = [name_of(verify_receipt, text.strip(" \t\r\n").encode(), TRUSTED) for text in mangled]
    found = browser_says(page, [(text, "") for text in mangled], vkey(SIGNER))
    assert found == expected
    assert len(set(found)) >= 12


def resigned(payload: bytes) -> str:
    """An envelope around any payload, with a true signature."""
    message = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
    envelope = Envelope(payload, (EnvelopeSignature(SIGNER.key_id, SIGNER.sign(message)),))
    verify_envelope(envelope, TRUSTED)
    return envelope.to_bytes().decode()


def test_signed_payloads_that_are_no_statements_fail_by_the_same_name(page: Page) -> None:
    statement = json.loads(parse_envelope(case("ward-decrement").envelope).payload)
    changes: list[Any] = [[], 1, {}]
    changes += [
        put(statement, (field,), wrong) for field in statement for wrong in (DROP, None, 1, "x", [], {}, [1], [{}])
    ]
    for field, wrong in (
        ("name", ""),
        ("name", 1),
        ("digest", {}),
        ("digest", {"sha256": "AB"}),
        ("digest", {"sha512": "00"}),
    ):
        changes.append(put(statement, ("subject", 0, field), wrong))
    changes.append(put(statement, ("subject",), [statement["subject"][0]] * 2))
    changes.append(put(statement, ("subject",), statement["subject"][:1]))
    payloads = [json.dumps(one, sort_keys=True, separators=(",", ":")).encode() for one in changes]
    payloads += [b"", b"{", b"\xff", json.dumps(statement).encode()]
    envelopes = [resigned(payload) for payload in payloads]
    expected = [name_of(verify_receipt, text.encode(), TRUSTED) for text in envelopes]
    assert browser_says(page, [(text, "") for text in envelopes], vkey(SIGNER)) == expected
    assert None not in expected
    assert len(set(expected)) >= 12


def test_events_of_a_store_fail_by_the_same_name(page: Page) -> None:
    memory, digest = "423a5645-4bf3-4f36-a4f6-9d2f4100dff5", "ab" * 32
    part = {"memory": memory, "outcome": "decrement", "leaf": 3, "entries": 2}
    parts = [part, {**part, "outcome": "failed", "leaf": None, "entries": 0}]
    good: list[dict[str, Any]] = [
        {"event": "dropped", "memory": memory, "facts": {"live": 3, "pruned": 0}},
        {"event": "held", "memory": memory, "facts": {"hold": 7}},
        {"event": "subject_erased", "memory": None, "facts": {"memories": parts}},
    ]
    found: list[tuple[str, Any]] = []
    for one in good:
        name = "state" if one["memory"] else "subject"
        whole = {**one, "time": "2025-03-01T12:00:00Z"}
        found.append((name, whole))
        found += [("other", whole), *((name, put(whole, (*path, "extra"), 1)) for path in objects(whole))]
        for path, value in leaves(whole):
            wrongs = (DROP, *WRONG, "", "released", "toString", "rescued", 0, {}, "2025-02-30T12:00:00Z")
            found += [(name, put(whole, path, wrong)) for wrong in wrongs if wrong != value]
    statements = [
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": digest}}],
            "predicateType": EVENT_TYPE,
            "predicate": predicate,
        }
        for name, predicate in found
    ]
    payloads = [json.dumps(one, sort_keys=True, separators=(",", ":")).encode() for one in statements]

    def check(payload: bytes) -> None:
        parse_event(parse_statement(payload))

    expected = [name_of(check, payload) for payload in payloads]
    assert browser_says(page, [(resigned(payload), "") for payload in payloads], vkey(SIGNER)) == expected
    assert set(expected) == {None, "statement-event-invalid"}
    assert sum(one is None for one in expected) < len(expected) / 5


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


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


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
        ("witness.example/w1+04d2d833+BD1AF8PoQ4lakrcKp00bfrycmCzPLsSWjMDNVfEq9GYM", "verifier-key-unsupported"),
    ],
)
def test_keys_that_cannot_be_trusted(page: Page, trust: str, error: str) -> None:
    assert browser_says(page, [(case("ward-decrement").envelope.decode(), "")], trust) == [error]


def test_floats_have_one_spelling(page: Page) -> None:
    rng = random.Random(15)
    numbers = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        float("inf"),
        float("-inf"),
    ]
    numbers += [rng.uniform(-1.0, 1.0) * 2.0 ** rng.randrange(-1074, 1023) for _ in range(300)]
    spelled = [number.hex() for number in numbers]
    script = """async (spelled) => {
      const { fromFloatHex, toFloatHex } = await import("/page/verify/encoding.js");
      return spelled.map(fromFloatHex).map((found) => (found === null ? null : toFloatHex(found)));
    }"""
    assert page.evaluate(script, spelled) == spelled
    wrong = [
        "0x1p+0",
        "0x1.0p+0",
        "1.0",
        "nan",
        "0X1.0000000000000p+0",
        "0x1.0000000000000p+00",
        "0x0.0000000000000p+0",
        "0x1.0000000000000p+1024",
        "+inf",
    ]
    assert page.evaluate(script, wrong) == [None] * len(wrong)
