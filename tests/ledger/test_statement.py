"""in-toto statements: strict in, canonical out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from expunge.errors import InputError
from expunge.ledger.encoding import dump_canonical
from expunge.ledger.statement import MAX_PAYLOAD_BYTES, Statement, Subject, parse_statement
from raising import raises_code

from .make_vectors import sample_statement

PAYLOAD = sample_statement().to_bytes()
DIGEST = "0" * 64


def test_round_trip() -> None:
    statement = parse_statement(PAYLOAD)
    assert statement == sample_statement()
    assert statement.to_bytes() == PAYLOAD


def drop(field: str) -> Callable[[Any], Any]:
    return lambda document: {key: value for key, value in document.items() if key != field}


def put(**fields: Any) -> Callable[[Any], Any]:
    return lambda document: document | fields


SUBJECT = {"name": "icu-7", "digest": {"sha256": DIGEST}}


@pytest.mark.parametrize(
    ("alter", "error"),
    [
        (lambda document: [document], "statement-not-object"),
        (lambda document: "text", "statement-not-object"),
        (drop("_type"), "statement-field-missing"),
        (drop("subject"), "statement-field-missing"),
        (drop("predicateType"), "statement-field-missing"),
        (drop("predicate"), "statement-field-missing"),
        (put(extra=1), "statement-field-unknown"),
        (put(_type="https://in-toto.io/Statement/v0.1"), "statement-type-unsupported"),
        (put(_type=1), "statement-type-unsupported"),
        (put(subject=[]), "statement-subject-invalid"),
        (put(subject={}), "statement-subject-invalid"),
        (put(subject="text"), "statement-subject-invalid"),
        (put(subject=["text"]), "statement-subject-invalid"),
        (put(subject=[SUBJECT | {"name": ""}]), "statement-subject-invalid"),
        (put(subject=[SUBJECT | {"name": 7}]), "statement-subject-invalid"),
        (put(subject=[{"name": "icu-7"}]), "statement-field-missing"),
        (put(subject=[{"digest": {"sha256": DIGEST}}]), "statement-field-missing"),
        (put(subject=[SUBJECT | {"uri": "x"}]), "statement-field-unknown"),
        (put(subject=[SUBJECT, SUBJECT]), "statement-subject-duplicate"),
        (put(subject=[SUBJECT | {"digest": {}}]), "statement-digest-invalid"),
        (put(subject=[SUBJECT | {"digest": DIGEST}]), "statement-digest-invalid"),
        (put(subject=[SUBJECT | {"digest": {"sha512": DIGEST}}]), "statement-digest-invalid"),
        (put(subject=[SUBJECT | {"digest": {"sha256": DIGEST, "sha1": ""}}]), "statement-digest-invalid"),
        (put(subject=[SUBJECT | {"digest": {"sha256": "F" * 64}}]), "statement-digest-invalid"),
        (put(subject=[SUBJECT | {"digest": {"sha256": 7}}]), "statement-digest-invalid"),
        (put(predicateType=""), "statement-predicate-type-invalid"),
        (put(predicateType="no uri"), "statement-predicate-type-invalid"),
        (put(predicateType=None), "statement-predicate-type-invalid"),
        (put(predicateType="https://example.org/expunge/sample/v2"), "statement-predicate-type-mismatch"),
        (put(predicate=[]), "statement-predicate-invalid"),
        (put(predicate=None), "statement-predicate-invalid"),
    ],
)
def test_each_fault_has_its_name(alter: Callable[[Any], Any], error: str) -> None:
    payload = dump_canonical(alter(json.loads(PAYLOAD)))
    with raises_code(error):
        parse_statement(payload, "https://example.org/expunge/sample/v1")


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (PAYLOAD + b"\n", "json-not-canonical"),
        (json.dumps(json.loads(PAYLOAD)).encode(), "json-not-canonical"),
        (PAYLOAD.replace(b'"entries":511', b'"entries":511,"entries":511'), "json-duplicate-key"),
        (PAYLOAD.replace(b'"entries":511', b'"entries":511.0'), "json-float-forbidden"),
    ],
)
def test_only_canonical_payloads_are_read(payload: bytes, error: str) -> None:
    with raises_code(error):
        parse_statement(payload)


def test_the_predicate_is_a_copy() -> None:
    predicate = {"list": [1]}
    statement = Statement((Subject("a", DIGEST),), "urn:test", predicate)
    predicate["list"].append(2)
    assert statement.to_bytes().count(b"[1]") == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda: Subject("", DIGEST),
        lambda: Subject("a", "0"),
        lambda: Statement((), "urn:test", {}),
        lambda: Statement((Subject("a", DIGEST), Subject("a", DIGEST)), "urn:test", {}),
        lambda: Statement((Subject("a", DIGEST),), "not a uri", {}),
        lambda: Statement((Subject("a", DIGEST),), "urn:test", {"x": 0.5}).to_bytes(),  # type: ignore[dict-item]
        lambda: Statement((Subject("a", DIGEST),), "urn:test", {"x": "x" * MAX_PAYLOAD_BYTES}).to_bytes(),
    ],
)
def test_wrong_arguments_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        build()
