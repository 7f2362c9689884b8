"""in-toto statements: strict in, canonical out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from expunge.errors import InputError, VerificationError
from expunge.ledger.canonical import dump_canonical
from expunge.ledger.errors import (
    JsonDuplicateKey,
    JsonFloatForbidden,
    JsonNotCanonical,
    StatementDigestInvalid,
    StatementFieldMissing,
    StatementFieldUnknown,
    StatementNotObject,
    StatementPredicateInvalid,
    StatementPredicateTypeInvalid,
    StatementPredicateTypeMismatch,
    StatementSubjectDuplicate,
    StatementSubjectInvalid,
    StatementTypeUnsupported,
)
from expunge.ledger.statement import MAX_PAYLOAD_BYTES, Statement, Subject, parse_statement

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
        (lambda document: [document], StatementNotObject),
        (lambda document: "text", StatementNotObject),
        (drop("_type"), StatementFieldMissing),
        (drop("subject"), StatementFieldMissing),
        (drop("predicateType"), StatementFieldMissing),
        (drop("predicate"), StatementFieldMissing),
        (put(extra=1), StatementFieldUnknown),
        (put(_type="https://in-toto.io/Statement/v0.1"), StatementTypeUnsupported),
        (put(_type=1), StatementTypeUnsupported),
        (put(subject=[]), StatementSubjectInvalid),
        (put(subject={}), StatementSubjectInvalid),
        (put(subject="text"), StatementSubjectInvalid),
        (put(subject=["text"]), StatementSubjectInvalid),
        (put(subject=[SUBJECT | {"name": ""}]), StatementSubjectInvalid),
        (put(subject=[SUBJECT | {"name": 7}]), StatementSubjectInvalid),
        (put(subject=[{"name": "icu-7"}]), StatementFieldMissing),
        (put(subject=[{"digest": {"sha256": DIGEST}}]), StatementFieldMissing),
        (put(subject=[SUBJECT | {"uri": "x"}]), StatementFieldUnknown),
        (put(subject=[SUBJECT, SUBJECT]), StatementSubjectDuplicate),
        (put(subject=[SUBJECT | {"digest": {}}]), StatementDigestInvalid),
        (put(subject=[SUBJECT | {"digest": DIGEST}]), StatementDigestInvalid),
        (put(subject=[SUBJECT | {"digest": {"sha512": DIGEST}}]), StatementDigestInvalid),
        (put(subject=[SUBJECT | {"digest": {"sha256": DIGEST, "sha1": ""}}]), StatementDigestInvalid),
        (put(subject=[SUBJECT | {"digest": {"sha256": "F" * 64}}]), StatementDigestInvalid),
        (put(subject=[SUBJECT | {"digest": {"sha256": 7}}]), StatementDigestInvalid),
        (put(predicateType=""), StatementPredicateTypeInvalid),
        (put(predicateType="no uri"), StatementPredicateTypeInvalid),
        (put(predicateType=None), StatementPredicateTypeInvalid),
        (put(predicateType="https://example.org/expunge/sample/v2"), StatementPredicateTypeMismatch),
        (put(predicate=[]), StatementPredicateInvalid),
        (put(predicate=None), StatementPredicateInvalid),
    ],
)
def test_each_fault_has_its_name(alter: Callable[[Any], Any], error: type[VerificationError]) -> None:
    payload = dump_canonical(alter(json.loads(PAYLOAD)))
    with pytest.raises(error) as caught:
        parse_statement(payload, "https://example.org/expunge/sample/v1")
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (PAYLOAD + b"\n", JsonNotCanonical),
        (json.dumps(json.loads(PAYLOAD)).encode(), JsonNotCanonical),
        (PAYLOAD.replace(b'"entries":511', b'"entries":511,"entries":511'), JsonDuplicateKey),
        (PAYLOAD.replace(b'"entries":511', b'"entries":511.0'), JsonFloatForbidden),
    ],
)
def test_only_canonical_payloads_are_read(payload: bytes, error: type[VerificationError]) -> None:
    with pytest.raises(error):
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
