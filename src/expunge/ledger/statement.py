"""in-toto Statements, version 1: what an envelope carries.

Format: ``docs/formats/envelope.md`` (github.com/in-toto/attestation, ``spec/v1/statement.md``). A statement
binds a typed predicate to subjects named by SHA-256. The bytes are RFC 8785 JSON; the parser knows exactly
the fields listed here and refuses every other, so nothing unseen can be signed along.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import Json, dump_canonical, freeze, is_sha256_hex, parse_canonical

__all__ = ["MAX_PAYLOAD_BYTES", "STATEMENT_TYPE", "Statement", "Subject", "parse_statement"]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
# About 50,000 commitments: an erasure larger than that is several transactions.
MAX_PAYLOAD_BYTES = 4 * 1024 * 1024

_Object: TypeAlias = Mapping[str, Json]
_FIELDS = frozenset({"_type", "subject", "predicateType", "predicate"})
_SUBJECT_FIELDS = frozenset({"name", "digest"})
_URI = re.compile(r"[a-z][a-z0-9+.-]*:[!-~]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a statement is about: a name, and a SHA-256 in lowercase hexadecimal."""

    name: str
    sha256: str

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("a subject needs a name")
        if not is_sha256_hex(self.sha256):
            raise InputError(f"subject {self.name!r} needs a SHA-256 in lowercase hexadecimal")


@dataclass(frozen=True, slots=True)
class Statement:
    """Subjects and a predicate about them; the predicate is copied and read-only all the way down."""

    subjects: tuple[Subject, ...]
    predicate_type: str
    predicate: Mapping[str, Json]

    def __post_init__(self) -> None:
        if not self.subjects:
            raise InputError("a statement needs a subject")
        if len({subject.name for subject in self.subjects}) != len(self.subjects):
            raise InputError("two subjects of a statement have the same name")
        if not _URI.fullmatch(self.predicate_type):
            raise InputError(f"predicate type {self.predicate_type!r} is not a URI")
        object.__setattr__(self, "predicate", freeze(self.predicate))

    def to_bytes(self) -> bytes:
        """Return the payload that is signed."""
        payload = dump_canonical(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": s.name, "digest": {"sha256": s.sha256}} for s in self.subjects],
                "predicateType": self.predicate_type,
                "predicate": self.predicate,
            }
        )
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise InputError(f"a statement of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD_BYTES}")
        return payload


def parse_statement(payload: bytes, predicate_type: str | None = None) -> Statement:
    """Read a payload, which must hold a predicate of ``predicate_type`` where one is given."""
    document = parse_canonical(payload, limit=MAX_PAYLOAD_BYTES)
    if not isinstance(document, Mapping):
        raise VerificationError("a statement is a JSON object", code="statement-not-object")
    _check_fields(document, _FIELDS, "statement")
    if document["_type"] != STATEMENT_TYPE:
        raise VerificationError(
            f"{_show(document['_type'])} is not {STATEMENT_TYPE}", code="statement-type-unsupported"
        )
    subjects = _parse_subjects(document["subject"])
    found = document["predicateType"]
    if not isinstance(found, str) or not _URI.fullmatch(found):
        raise VerificationError(f"predicate type {_show(found)} is not a URI", code="statement-predicate-type-invalid")
    if predicate_type is not None and found != predicate_type:
        raise VerificationError(
            f"the predicate is of type {_show(found)}, not {predicate_type}", code="statement-predicate-type-mismatch"
        )
    predicate = document["predicate"]
    if not isinstance(predicate, Mapping):
        raise VerificationError("a predicate is a JSON object", code="statement-predicate-invalid")
    return Statement(subjects, found, predicate)


def _parse_subjects(value: Json) -> tuple[Subject, ...]:
    if not isinstance(value, tuple) or not value:
        raise VerificationError("the subjects of a statement are a non-empty list", code="statement-subject-invalid")
    subjects: dict[str, Subject] = {}
    for item in value:
        if not isinstance(item, Mapping):
            raise VerificationError("a subject is a JSON object", code="statement-subject-invalid")
        _check_fields(item, _SUBJECT_FIELDS, "subject")
        name, digest = item["name"], item["digest"]
        if not isinstance(name, str) or not name:
            raise VerificationError(f"{_show(name)} is not the name of a subject", code="statement-subject-invalid")
        if name in subjects:
            raise VerificationError(f"two subjects are named {_show(name)}", code="statement-subject-duplicate")
        sha256 = digest.get("sha256") if isinstance(digest, Mapping) and len(digest) == 1 else None
        if not is_sha256_hex(sha256):
            raise VerificationError(f"the digest of {_show(name)} is not one SHA-256", code="statement-digest-invalid")
        subjects[name] = Subject(name, sha256)
    return tuple(subjects.values())


def _check_fields(value: _Object, fields: frozenset[str], what: str) -> None:
    if missing := sorted(fields - value.keys()):
        raise VerificationError(f"the {what} has no {missing[0]}", code="statement-field-missing")
    if unknown := sorted(value.keys() - fields):
        raise VerificationError(f"the {what} has an unknown field {_show(unknown[0])}", code="statement-field-unknown")


def _show(value: Json) -> str:
    return repr(value)[:80]
