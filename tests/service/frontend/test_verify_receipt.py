"""The browser's verifier and the package's agree on every receipt, valid or altered: on the error's name.

Two implementations that share no line are each other's reference. What is altered is signed again where that is
possible, so that the check behind the signature has to find it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from expunge.ledger.envelope import Envelope, EnvelopeSignature, parse_envelope, verify_envelope
from expunge.ledger.event import EVENT_TYPE, parse_event
from expunge.ledger.statement import parse_statement
from expunge.verify import verify_receipt
from service.frontend.verifier import browser_says, name_of, vkey
from verify.alter import DROP, document, forge, leaves, objects, put, unsigned
from verify.cases import LOGGER, SIGNER, STRANGER, TRUSTED, case, ledger

RICH = (
    *("ward-admitted", "ward-refused-no-state", "ward-refused-too-few", "ward-pruned-archive", "archive-admitted-1"),
    *("forgetting-expired", "forgetting-renewed", "forgetting-ended"),
)
WRONG: tuple[Any, ...] = (None, True, False, 0, -1, "\n", "0x1.0000000000000p-3", [1])


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
    # Some replacements mean nothing wrong, as another number of the edit does.
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
