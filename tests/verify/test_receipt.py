"""Receipts of every outcome: exact bytes, nothing of the entries, and a name for each way to alter one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from expunge.errors import InputError
from expunge.ledger.encoding import dump_canonical
from expunge.ledger.envelope import parse_envelope, sign_statement
from expunge.ledger.receipt_format import PREDICATE_TYPE, Refusal
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement, parse_statement
from expunge.verify import verify_receipt
from raising import raises_code

from .alter import DROP, Path, document, forge, leaves, objects, put, spelled, unsigned
from .cases import SIGNER, STRANGER, TRUSTED, case, ledger

NAMES = list(ledger().cases)
# Between them they have every part that a receipt can have.
RICH = (
    *("ward-admitted", "ward-refused-no-state", "ward-legal-hold", "ward-pruned-archive", "archive-admitted-1"),
    *("forgetting-expired", "forgetting-renewed", "forgetting-ended"),
)
OTHER = "ab" * 32


@pytest.mark.parametrize("name", NAMES)
def test_bytes_to_object_to_identical_bytes(name: str) -> None:
    made = case(name)
    verify_receipt(made.envelope, TRUSTED)
    opened = verify_receipt(made.envelope, TRUSTED)
    assert opened == made.predicate
    envelope = parse_envelope(made.envelope)
    assert envelope.to_bytes() == made.envelope
    assert parse_statement(envelope.payload).to_bytes() == envelope.payload
    assert opened.to_statement().to_bytes() == envelope.payload
    assert sign_statement(opened.to_statement(), SIGNER).to_bytes() == made.envelope


def test_there_is_a_receipt_of_every_outcome_action_and_reason() -> None:
    from typing import get_args

    from expunge.ledger.receipt_format import Action, Outcome, Reason

    receipts = [made.predicate for made in ledger().cases.values()]
    # A memory of today neither fits afresh at another cap by itself nor is empty.
    assert {receipt.outcome for receipt in receipts} == set(get_args(Outcome)) - {"refitted", "emptied"}
    assert {receipt.action for receipt in receipts} == set(get_args(Action))
    reasons = {receipt.refusal.reason for receipt in receipts if receipt.refusal}
    assert reasons == set(get_args(Reason))
    for part in ("ended", "expired", "renewed", "reactivated"):
        assert any(getattr(receipt, part).commitments for receipt in receipts), part


@pytest.mark.parametrize("name", NAMES)
def test_no_receipt_holds_anything_of_an_entry(name: str) -> None:
    """Ids, subjects, payloads, vectors, salts, blinds and coefficients, as bytes, hex and decimal."""
    envelope = case(name).envelope
    secrets = ledger().secrets
    assert len(secrets) > 1000
    texts = (envelope, parse_envelope(envelope).payload, base64.b64decode(json.loads(envelope)["payload"]))
    for secret in secrets:
        assert len(secret) >= 3
        assert not any(secret in text for text in texts), secret


def test_a_rescue_is_not_in_the_receipt() -> None:
    """Whether a path failed depends on the entry; the outcome that is signed does not."""
    assert case("ward-rescued-admission").predicate.outcome == "admitted"
    assert case("ward-rescued-deletion").predicate.outcome == "decrement"
    assert case("ward-refused-no-state").predicate.refusal == Refusal("no_acceptable_state")


def test_the_wrong_signer() -> None:
    made = case("ward-decrement")
    stranger = forge(made, document(made), key=STRANGER)
    with raises_code("envelope-signer-unknown"):
        verify_receipt(stranger, TRUSTED)
    with raises_code("envelope-threshold-missed"):
        verify_receipt(made.envelope, [*TRUSTED, STRANGER.public], threshold=2)


def test_another_predicate_type() -> None:
    made = case("ward-decrement")
    other = Statement(made.statement.subjects, "urn:expunge:receipt:v1", made.statement.predicate)
    with raises_code("statement-predicate-type-mismatch"):
        verify_receipt(sign_statement(other, SIGNER).to_bytes(), TRUSTED)
    with raises_code("statement-predicate-type-mismatch"):
        parse_predicate(other)


# Field, and the error for a value that it cannot have. List indices are left out.
MALFORMED: dict[str, str] = {
    "action": "receipt-action-invalid",
    "applied": "receipt-commitments-invalid",
    "applied.commitments": "receipt-commitments-invalid",
    "applied.commitments.[]": "receipt-commitments-invalid",
    "applied.count": "receipt-commitments-invalid",
    "applied.root": "receipt-commitments-invalid",
    "check": "receipt-check-invalid",
    "check.kind": "receipt-check-invalid",
    "check.passed": "receipt-check-invalid",
    "check.tolerance": "receipt-check-invalid",
    "covers": "receipt-coverage-invalid",
    "does_not_cover": "receipt-coverage-invalid",
    "does_not_cover.[]": "receipt-coverage-invalid",
    "edit": "receipt-edit-invalid",
    "entries": "receipt-entries-invalid",
    "entries.after": "receipt-entries-invalid",
    "entries.after.live": "receipt-entries-invalid",
    "entries.after.pruned": "receipt-entries-invalid",
    "entries.before": "receipt-entries-invalid",
    "entries.before.live": "receipt-entries-invalid",
    "entries.before.pruned": "receipt-entries-invalid",
    "memory": "receipt-memory-invalid",
    "outcome": "receipt-outcome-invalid",
    "problem": "receipt-problem-invalid",
    "problem.cap": "receipt-problem-invalid",
    "problem.dimension": "receipt-problem-invalid",
    "problem.initial_entries": "receipt-problem-invalid",
    "problem.sigma": "receipt-problem-invalid",
    "pruning": "receipt-pruning-invalid",
    "pruning.mode": "receipt-pruning-invalid",
    "pruning.unproved": "receipt-pruning-invalid",
    "refusal": "receipt-refusal-invalid",
    "refusal.allowed": "receipt-refusal-invalid",
    "refusal.holds": "receipt-refusal-invalid",
    "refusal.holds.[]": "receipt-refusal-invalid",
    "refusal.measured": "receipt-refusal-invalid",
    "refusal.reason": "receipt-refusal-invalid",
    "request": "receipt-request-invalid",
    "request.actor": "receipt-request-invalid",
    "request.case": "receipt-request-invalid",
    "request.id": "receipt-request-invalid",
    "restored_edit": "receipt-edit-invalid",
    "solver": "receipt-solver-invalid",
    "solver.name": "receipt-solver-invalid",
    "solver.version": "receipt-solver-invalid",
    "state": "receipt-state-invalid",
    "state.after": "receipt-state-invalid",
    "state.before": "receipt-state-invalid",
    "time": "receipt-time-invalid",
    "tolerances": "receipt-tolerances-invalid",
    "tolerances.acceptance": "receipt-tolerances-invalid",
    "tolerances.partition": "receipt-tolerances-invalid",
    "tolerances.published": "receipt-tolerances-invalid",
    "warranties": "receipt-commitments-invalid",
    **{
        f"warranties.{part}{field}": "receipt-commitments-invalid"
        for part in ("ended", "expired", "renewed", "reactivated")
        for field in ("", ".commitments", ".commitments.[]", ".count", ".root")
    },
}
# Where null says something else, and what it then leads to.
NULLABLE = {"pruning", "refusal", "problem.initial_entries", "state.before", "request.actor", "request.case"}
NULLABLE |= {"restored_edit", "applied.root"}
NULLABLE |= {f"warranties.{part}.root" for part in ("ended", "expired", "renewed", "reactivated")}
WRONG: tuple[Any, ...] = (None, True, -1, "\n", [1], [[]], {})
OBJECTS = {"applied", "check", "entries", "entries.after", "entries.before", "problem"}
OBJECTS |= {"pruning", "refusal", "request", "solver", "state", "tolerances", "warranties"}
OBJECTS |= {f"warranties.{part}" for part in ("ended", "expired", "renewed", "reactivated")}
# Long lists are alike.
FEW = 2


def every_place() -> Iterator[tuple[str, Path]]:
    for name in RICH:
        whole = document(case(name))
        for path in sorted({*(path for path, _ in leaves(whole)), *objects(whole)} - {()}, key=str):
            if all(key < FEW for key in path if isinstance(key, int)):
                yield name, path


def test_the_table_knows_every_field() -> None:
    assert {spelled(path) for _, path in every_place()} | {"applied.commitments", "does_not_cover"} | {
        f"warranties.{part}.commitments" for part in ("ended", "expired", "renewed", "reactivated")
    } == set(MALFORMED)


@pytest.mark.parametrize(("name", "path"), [pytest.param(n, p, id=f"{n}-{spelled(p)}") for n, p in every_place()])
def test_a_malformed_value_has_its_name_even_if_signed(name: str, path: Path) -> None:
    made, field = case(name), spelled(path)
    for wrong in WRONG:
        if wrong is None and field in NULLABLE:
            continue
        if field == "check.passed" and wrong is True:
            continue
        if field in ("refusal.allowed", "refusal.measured") and wrong is None and name == "ward-refused-no-state":
            continue
        error = "receipt-field-missing" if wrong == {} and field in OBJECTS else MALFORMED[field]
        with raises_code(error):
            verify_receipt(forge(made, put(document(made), path, wrong)), TRUSTED)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory", "WARD-7"),
        ("memory", "6F1C8F1E-6A43-4D0C-9C0A-2B9D4B1F7A11"),
        ("memory", "6f1c8f1e6a434d0c9c0a2b9d4b1f7a11"),
        ("edit", 2**53 - 1 + 0.0),
        ("action", "Deletion"),
        ("outcome", "success"),
        ("time", "2026-03-01T12:30:05.250Z"),
        ("time", "2026-03-01T12:30:05+00:00"),
        ("time", "2026-02-30T12:30:05Z"),
        ("time", "2026-03-01T12:30:61Z"),
        ("check.passed", 1),
        ("check.passed", "true"),
        ("check.tolerance", "acceptance"),
        ("problem.cap", "0x0.0p+0"),
        ("problem.cap", "-0x0.0p+0"),
        ("problem.cap", "0x1.0000000000001p+0"),
        ("problem.sigma", "inf"),
        ("problem.dimension", 0),
        ("tolerances.published", "0x1.0000000000000p-40"),
        ("applied.commitments", [OTHER.upper()]),
        ("applied.commitments", [OTHER, OTHER]),
        ("applied.commitments", [OTHER, "aa" * 32]),
        ("covers", "nothing"),
        ("does_not_cover", []),
        ("does_not_cover", ["prior_copies"]),
        ("solver.version", "1 2"),
    ],
)
def test_one_spelling_a_value(field: str, value: Any) -> None:
    made = case("ward-admitted")
    path = tuple(field.split("."))
    if isinstance(value, float):
        value = int(value) + 1
        with pytest.raises(InputError):
            forge(made, put(document(made), path, value))
        return
    with raises_code(MALFORMED[field]):
        verify_receipt(forge(made, put(document(made), path, value)), TRUSTED)


@pytest.mark.parametrize("name", RICH)
def test_missing_and_unknown_fields(name: str) -> None:
    made = case(name)
    whole = document(made)
    for path in objects(whole):
        inner = whole
        for key in path:
            inner = inner[key]
        for key in inner:
            with raises_code("receipt-field-missing"):
                verify_receipt(forge(made, put(whole, (*path, key), DROP)), TRUSTED)
        with raises_code("receipt-field-unknown"):
            verify_receipt(forge(made, put(whole, (*path, "note"), "x")), TRUSTED)


@pytest.mark.parametrize("name", RICH)
def test_any_change_breaks_the_signature(name: str) -> None:
    """Whatever an outsider changes, well formed or not, the signature is looked at first."""
    made = case(name)
    whole = document(made)
    for path, value in leaves(whole):
        for other in ("x", 7, None):
            if other == value:
                continue
            with raises_code("envelope-signature-invalid"):
                verify_receipt(unsigned(made, put(whole, path, other)), TRUSTED)


HELD = {"reason": "legal_hold", "measured": 1, "allowed": 0, "holds": [57]}
EMPTY: dict[str, Any] = {"commitments": [], "count": 0, "root": None}
# (case, field, value, error): well formed, signed, and contradicted by the rest of the receipt.
CONTRADICTIONS: list[tuple[str, str, Any, str]] = [
    ("ward-admitted", "action", "deletion", "receipt-action-mismatch"),
    ("ward-admitted", "outcome", "decrement", "receipt-action-mismatch"),
    ("ward-rescued-deletion", "action", "admission", "receipt-action-mismatch"),
    ("ward-certified_zero", "outcome", "decrement", "receipt-coverage-invalid"),
    ("ward-pruned-archive", "action", "deletion", "receipt-action-mismatch"),
    ("ward-admitted", "state.after", OTHER, "receipt-subject-mismatch"),
    ("ward-admitted", "state.before", OTHER, "receipt-subject-mismatch"),
    ("ward-admitted", "state.before", None, "receipt-state-mismatch"),
    ("ward-created", "state.before", OTHER, "receipt-state-mismatch"),
    ("ward-noop", "state.after", OTHER, "receipt-state-mismatch"),
    ("ward-refused-no-state", "state.before", OTHER, "receipt-state-mismatch"),
    ("ward-admitted", "applied.count", 2, "receipt-entries-mismatch"),
    ("ward-admitted", "applied.commitments", [], "receipt-applied-empty"),
    ("ward-pruned-archive", "applied.commitments.0", DROP, "receipt-entries-mismatch"),
    ("ward-created", "applied.commitments.0", DROP, "receipt-entries-mismatch"),
    ("ward-decrement", "applied.count", 2, "receipt-entries-mismatch"),
    # One went, yet nine came back that nothing says came back; or more live ones went than were asked for.
    ("ward-delete-archived", "entries.after", {"live": 24, "pruned": 0}, "receipt-entries-mismatch"),
    ("ward-delete-archived", "entries.after", {"live": 13, "pruned": 11}, "receipt-entries-mismatch"),
    ("ward-decrement", "warranties.reactivated.count", 1, "receipt-entries-mismatch"),
    ("ward-created", "applied.count", 31, "receipt-entries-mismatch"),
    ("ward-noop", "applied.count", 1, "receipt-entries-mismatch"),
    ("ward-noop", "warranties.expired.count", 1, "receipt-entries-mismatch"),
    ("ward-admitted", "entries.before.live", 29, "receipt-entries-mismatch"),
    ("ward-admitted", "entries.before.pruned", 1, "receipt-entries-mismatch"),
    ("ward-admitted", "entries.after.live", 32, "receipt-entries-mismatch"),
    ("ward-admitted", "entries.after.pruned", 1, "receipt-entries-mismatch"),
    ("ward-admitted", "warranties.reactivated.count", 1, "receipt-entries-mismatch"),
    ("ward-pruned-archive", "entries.after.pruned", 9, "receipt-entries-mismatch"),
    ("ward-rebuilt", "warranties.reactivated.count", 10, "receipt-entries-mismatch"),
    ("example-admitted-expiring-notice", "warranties.renewed.count", 1, "receipt-entries-mismatch"),
    ("example-restored", "applied.count", 1, "receipt-entries-mismatch"),
    # Admissions and archives end nothing; a notice is about something.
    ("ward-admitted", "warranties.ended.count", 1, "receipt-entries-mismatch"),
    ("ward-pruned-archive", "warranties.ended.count", 1, "receipt-entries-mismatch"),
    ("ward-noop", "warranties.ended.count", 1, "receipt-entries-mismatch"),
    ("example-restored", "warranties.ended.count", 1, "receipt-entries-mismatch"),
    ("forgetting-ended-notice", "warranties.ended", EMPTY, "receipt-entries-mismatch"),
    ("ward-admitted", "check.passed", False, "receipt-check-failed"),
    ("ward-admitted", "check.kind", "sums", "receipt-check-invalid"),
    ("ward-refused-no-state", "refusal.measured", 0, "receipt-refusal-invalid"),
    ("ward-refused-no-state", "refusal.reason", "legal_hold", "receipt-refusal-invalid"),
    ("ward-legal-hold", "refusal.reason", "no_acceptable_state", "receipt-refusal-invalid"),
    ("ward-legal-hold", "refusal.allowed", None, "receipt-refusal-invalid"),
    ("ward-legal-hold", "refusal.allowed", 1, "receipt-refusal-not-exceeded"),
    ("ward-legal-hold", "refusal.measured", 0, "receipt-refusal-unmeasured"),
    ("ward-legal-hold", "refusal.holds", [], "receipt-refusal-invalid"),
    ("ward-legal-hold", "refusal", {**HELD, "measured": 0, "holds": []}, "receipt-refusal-unmeasured"),
    ("ward-legal-hold", "refusal.holds", [57, 57], "receipt-refusal-invalid"),
    ("ward-refused-no-state", "refusal.holds", [57], "receipt-refusal-invalid"),
    ("ward-decrement", "applied.root", OTHER, "receipt-commitments-invalid"),
    ("ward-decrement", "problem.cap", "0x1.0000000000000p-9", "receipt-cap-infeasible"),
    ("ward-admitted", "restored_edit", 0, "receipt-edit-invalid"),
    ("ward-refused-no-state", "refusal", None, "receipt-refusal-mismatch"),
    ("ward-noop", "refusal", HELD, "receipt-refusal-mismatch"),
    ("ward-pruned-archive", "pruning", None, "receipt-pruning-mismatch"),
    ("ward-noop", "pruning", {"mode": "forget", "unproved": 0}, "receipt-pruning-mismatch"),
]


@pytest.mark.parametrize(("name", "field", "value", "error"), CONTRADICTIONS)
def test_contradictions(name: str, field: str, value: Any, error: str) -> None:
    made = case(name)
    path = tuple(int(key) if key.isdigit() else key for key in field.split("."))
    altered = put(document(made), path, value)
    assert altered != document(made)
    if error in ("receipt-entries-mismatch", "receipt-applied-empty"):
        altered = relisted(altered, path)
    with raises_code(error):
        verify_receipt(forge(made, altered), TRUSTED)


def relisted(whole: Any, path: Path) -> Any:
    """A list that was altered in its count, or in its entries, with the other made to fit."""
    if path[-1] == "count":
        count = whole
        for key in path:
            count = count[key]
        return put(whole, (*path[:-1], "commitments"), [f"{number:064x}" for number in range(count)])
    if "commitments" in path:
        at = path[: path.index("commitments")]
        found = whole
        for key in at:
            found = found[key]
        return put(whole, (*at, "count"), len(found["commitments"]))
    return whole


def test_the_edit_that_a_restoration_went_back_to() -> None:
    """Every restoration states it, and nothing else may."""
    made = case("example-restored")
    whole = document(made)
    stated = whole["restored_edit"]
    assert made.predicate.restored_edit == stated < whole["edit"]
    for wrong in (None, True, -1, str(stated), whole["edit"], whole["edit"] + 1):
        with raises_code("receipt-edit-invalid"):
            verify_receipt(forge(made, put(whole, ("restored_edit",), wrong)), TRUSTED)
    other = case("ward-decrement")
    with raises_code("receipt-edit-invalid"):
        verify_receipt(forge(other, put(document(other), ("restored_edit",), 0)), TRUSTED)


def test_subjects_that_are_not_the_states() -> None:
    made = case("ward-decrement")
    for subjects in (made.statement.subjects[:1], made.statement.subjects[::-1]):
        altered = sign_statement(Statement(subjects, PREDICATE_TYPE, made.statement.predicate), SIGNER)
        with raises_code("receipt-subject-mismatch"):
            verify_receipt(altered.to_bytes(), TRUSTED)


def test_what_would_not_verify_is_not_made() -> None:
    from dataclasses import replace

    receipt = case("ward-decrement").predicate
    for wrong in (
        replace(receipt, memory="icu-7"),
        replace(receipt, outcome="noop"),
        replace(receipt, edit=-1),
        replace(receipt, ended=replace(receipt.ended, count=-1)),
    ):
        with pytest.raises(InputError, match="would not verify"):
            wrong.to_statement()


def test_the_bytes_are_canonical_json_without_floats() -> None:
    for made in ledger().cases.values():
        payload = parse_envelope(made.envelope).payload
        assert dump_canonical(json.loads(payload, parse_float=pytest.fail)) == payload
