"""The browser's verifier and the package's agree on every receipt, valid or altered: on the error's name.

Two implementations that share no line are each other's reference. What is altered is signed again where that is
possible, so that the check behind the signature has to find it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from expunge.ledger.envelope import Envelope, EnvelopeSignature, parse_envelope, verify_envelope
from expunge.ledger.event import EVENT_TYPE, parse_event
from expunge.ledger.statement import parse_statement
from expunge.verify import verify_receipt
from service.frontend.verifier import browser_says, encoded, name_of, vkey
from verify.alter import DROP, document, forge, leaves, objects, put, unsigned
from verify.cases import LOGGER, SIGNER, STRANGER, TRUSTED, case, ledger

RICH = (
    *("ward-admitted", "ward-refused-no-state", "ward-legal-hold", "ward-pruned-archive", "archive-admitted-1"),
    *("forgetting-expired", "forgetting-renewed", "forgetting-ended", "example-refused-would-end"),
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
    # So many are not checked from the keys at every edit.
    whole, largest = put(document(made), ("check", "kind"), "sums"), 2**53 - 1
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
            returned: Any = {"commitments": [], "count": back, "root": "ab" * 32 if back else None}
            forged.append(forge(erasure, put(changed, ("warranties", "reactivated"), returned)))
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
    assert set(expected) == {None, "receipt-edit-invalid", "receipt-field-missing"}


def test_deletions_that_end_at_a_larger_cap_or_with_nothing(page: Page) -> None:
    """Every outcome of a deletion, at caps next to 1/n, with entries left and without."""
    made = case("ward-decrement")
    whole = document(made)
    went = whole["applied"]["count"]
    forged = []
    for outcome, covers in (
        ("decrement", "fresh_fit"),
        ("refitted", "fresh_fit_at_new_cap"),
        ("emptied", "no_entry_left"),
        ("certified_zero", "no_readout_change"),
    ):
        for live in (0, 1, 3, 10, 49):
            for before in (live, live + went):
                for cap in {1.0, *(np.nextafter(1.0 / max(live, 1), side) for side in (0.0, 1.0)), 0.3, 5e-324}:
                    changed = put(put(whole, ("outcome",), outcome), ("covers",), covers)
                    after, held = {"live": live, "pruned": 0}, {"live": before, "pruned": live + went - before}
                    changed = put(changed, ("entries",), {"before": held, "after": after})
                    forged.append(forge(made, put(changed, ("problem", "cap"), float(cap).hex())))
    expected = [name_of(verify_receipt, envelope, TRUSTED) for envelope in forged]
    assert browser_says(page, [(envelope.decode(), "") for envelope in forged], vkey(SIGNER)) == expected
    assert set(expected) == {None, "receipt-entries-mismatch", "receipt-cap-infeasible", "receipt-empty-unstated"}


def test_lists_by_commitment_and_by_root(page: Page) -> None:
    made = case("ward-pruned-archive")
    whole = document(made)
    listed = whole["applied"]
    root, count = "ab" * 32, listed["count"]
    values = [
        {"commitments": [], "count": count, "root": root},
        {"commitments": [], "count": 0, "root": root},
        {"commitments": [], "count": count, "root": root.upper()},
        {"commitments": [], "count": count, "root": None},
        {**listed, "root": root},
        {**listed, "count": count + 1},
        {**listed, "count": count - 1},
        {**listed, "commitments": listed["commitments"][::-1]},
        {**listed, "commitments": [listed["commitments"][0]] * count},
    ]
    forged = [forge(made, put(whole, ("applied",), value)) for value in values]
    expected = [name_of(verify_receipt, envelope, TRUSTED) for envelope in forged]
    assert browser_says(page, [(envelope.decode(), "") for envelope in forged], vkey(SIGNER)) == expected
    invalid, miscounted = "receipt-commitments-invalid", "receipt-count-mismatch"
    assert expected == [None, *[invalid] * 2, miscounted, invalid, *[miscounted] * 2, *[invalid] * 2]


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
    assert len(set(found)) >= 11


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
    request = {"id": "0d9f5b1a-8a77-4f57-8f0b-7f3f6f0a9c22", "case": digest, "actor": None}
    part = {"memory": memory, "outcome": "decrement", "leaf": 3, "entries": 2}
    parts = [part, {**part, "memory": request["id"], "outcome": "failed", "leaf": None, "entries": 0}]
    entries = {"commitments": ["11" * 32, digest], "count": 2, "root": None}
    listed = {"receipt": memory, "list": "applied", "part": 1, "parts": 2, "commitments": ["11" * 32, digest]}
    key = {"keyid": digest, "key": encoded(bytes(32)), "algorithm": "ed25519", "use": "heads"}
    good: list[tuple[str, dict[str, Any]]] = [
        ("dropped", {"live": 2, "pruned": 0, "entries": entries}),
        ("dropped", {"live": 2, "pruned": 0, "entries": None}),
        ("held", {"hold": 7, "entry": None}),
        ("held", {"hold": 7, "entry": digest}),
        ("released", {"hold": 7, "cause": "lost_in_restore"}),
        ("listed", listed),
        ("subject_erased", {"memories": parts, "complete": False, "requested": None}),
        ("subject_erased", {"memories": [part], "complete": True, "requested": 4}),
        ("erased", {"memories": parts, "complete": False, "held": 0, "due": None}),
        ("erased", {"memories": [part], "complete": False, "held": 4, "due": "2025-03-01T11:00:00Z"}),
        ("erased", {"memories": [part], "complete": True, "held": 0, "due": "2025-03-01T11:00:00Z"}),
        ("erasure_requested", {"due": "2025-04-01T12:00:00Z"}),
        ("erasure_cancelled", {"requested": 9}),
        ("key_added", key),
        ("key_revoked", {"keyid": digest, "use": "heads", "reason": "lost"}),
    ]
    subjects = {
        "subject_erased": "subject",
        "erased": "erasure",
        "erasure_requested": "subject",
        "erasure_cancelled": "subject",
    }
    subjects |= {"key_added": "key", "key_revoked": "key"}
    found: list[tuple[str, Any]] = []
    for kind, facts in good:
        name = subjects.get(kind, "state")
        about = memory if name == "state" else None
        whole = {"event": kind, "memory": about, "time": "2025-03-01T12:00:00Z", "request": request, "facts": facts}
        found += [(name, whole), ("other", whole)]
        found += [(name, put(whole, (*path, "extra"), 1)) for path in objects(whole)]
        for path, value in leaves(whole):
            wrongs = (DROP, *WRONG, "", "released", "toString", "rescued", 0, 3, {}, [], "2025-02-30T12:00:00Z")
            found += [(name, put(whole, path, wrong)) for wrong in wrongs if wrong != value]
        lists: tuple[Any, ...] = ([], [digest] * 2, [part] * 2, [digest, "11" * 32], {})
        for listed_wrong in lists:
            found += [(name, put(whole, ("facts", field), listed_wrong)) for field in facts]
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
    assert set(expected) == {None, "statement-event-invalid", "statement-summary-empty"}
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
