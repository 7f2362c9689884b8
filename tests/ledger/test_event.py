"""Events of a store: what they say, and that nothing else passes for one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from expunge import InputError
from expunge.ledger.event import EVENT_TYPE, Event, parse_event, subject_commitment
from expunge.ledger.statement import Statement, Subject, parse_statement
from raising import raises_code

MEMORY = "423a5645-4bf3-4f36-a4f6-9d2f4100dff5"
OTHER = "6f1c8f1e-6a43-4d0c-9c0a-2b9d4b1f7a11"
STATE = Subject("state", "ab" * 32)
PART = {"memory": MEMORY, "outcome": "decrement", "leaf": 3, "entries": 2}
FINDING = {"leaf": 3, "entries": 5, "absent": 3, "in_files": 1, "not_checkable": 1}
STAYED = ("noop", "refused", "failed")
FACTS: dict[str, dict[str, Any]] = {
    "dropped": {"live": 3, "pruned": 0, "entries": {"commitments": (), "count": 3, "root": "ab" * 32}},
    "held": {"hold": 7, "entry": "ab" * 32},
    "released": {"hold": 7, "cause": "request"},
    "subject_erased": {
        "memories": (PART, {**PART, "memory": OTHER, "outcome": "failed", "leaf": None, "entries": 0}),
        "complete": False,
        "requested": None,
    },
    "erased": {"memories": (PART,), "complete": False, "held": 2, "due": "2025-03-01T11:00:00Z"},
    "listed": {"receipt": MEMORY, "list": "applied", "part": 1, "parts": 2, "commitments": ("ab" * 32, "cd" * 32)},
    "erasure_requested": {"due": "2025-03-04T12:00:00Z"},
    "erasure_cancelled": {"requested": 4},
    "key_added": {"keyid": "ab" * 32, "key": "AAAA", "algorithm": "ed25519", "use": "receipts"},
    "key_revoked": {"keyid": "ab" * 32, "use": "heads", "reason": "lost"},
    "mirror_added": {"system": "chroma", "of": MEMORY},
    "mirror_checked": {"findings": (FINDING, {**FINDING, "leaf": 4})},
    "mirror_removed": {"pending": 0},
}
ABOUT = {
    "subject_erased": "subject",
    "erased": "erasure",
    "erasure_requested": "subject",
    "erasure_cancelled": "subject",
} | {
    "key_added": "key",
    "key_revoked": "key",
    "mirror_added": "mirror",
    "mirror_checked": "mirror",
    "mirror_removed": "mirror",
}


def noon() -> datetime:
    return datetime(2025, 3, 1, 12, tzinfo=UTC)


def event(kind: Any) -> Event:
    subject, memory = (Subject(ABOUT[kind], "cd" * 32), None) if kind in ABOUT else (STATE, MEMORY)
    return Event.at(noon, kind, memory, subject, **FACTS[kind])


@pytest.mark.parametrize("kind", FACTS)
def test_an_event_survives_its_bytes(kind: str) -> None:
    data = event(kind).to_statement().to_bytes()
    parsed = parse_event(parse_statement(data, EVENT_TYPE))
    assert (parsed.kind, parsed.time) == (kind, "2025-03-01T12:00:00Z")
    assert parsed.to_statement().to_bytes() == data


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}


@pytest.mark.parametrize("kind", FACTS)
def test_whatever_is_changed_is_no_event(kind: str) -> None:
    good = event(kind)
    predicate = dict(good.to_statement().predicate)
    wrong: list[dict[str, Any]] = [
        {**predicate, "event": "renamed"},
        {**predicate, "event": 3},
        {**predicate, "event": ["held"]},
        {**predicate, "memory": 3},
        {**predicate, "memory": None if good.memory else MEMORY},
        {**predicate, "memory": "icu-7" if good.memory else ""},
        *(
            {**predicate, "time": wrong}
            for wrong in (3, "", "yesterday", "2025-02-30T12:00:00Z", "2025-03-01T12:00:00+01:00")
        ),
        {**predicate, "request": None},
        {**predicate, "request": {"id": MEMORY, "case": None}},
        {**predicate, "request": {"id": "7", "case": None, "actor": None}},
        {**predicate, "request": {"id": MEMORY, "case": "ticket-4711", "actor": None}},
        {**predicate, "facts": []},
        {**predicate, "facts": {**FACTS[kind], "more": 1}},
        *({**predicate, "facts": without(FACTS[kind], fact)} for fact in FACTS[kind]),
        *(
            {**predicate, "facts": {**FACTS[kind], fact: bad}}
            for fact in FACTS[kind]
            for bad in ("a lot?", -1, 2.5, [3])
        ),
        {**predicate, "more": 1},
        *(without(predicate, name) for name in predicate),
    ]
    if kind == "subject_erased":
        parts = [without(PART, name) for name in PART] + [{**PART, name: []} for name in PART] + [{**PART, "x": 1}, 3]
        parts += [{**PART, "memory": "icu-7"}, {**PART, "outcome": "admitted"}, {**PART, "outcome": "\x1b[2J"}]
        # Entries that went without a receipt, and that went although nothing was done.
        parts += [{**PART, "leaf": None}, {**PART, "entries": 0}, *({**PART, "outcome": word} for word in STAYED)]
        lists: list[Any] = [*([part] for part in parts), [PART, PART]]
        wrong += [{**predicate, "facts": {**FACTS[kind], "complete": True, "memories": found}} for found in lists]
        wrong += [{**predicate, "facts": {**FACTS[kind], "complete": True}}]
        wrong += [{**predicate, "facts": {**FACTS[kind], "memories": [PART]}}]
        with raises_code("statement-summary-empty"):
            nothing = {**predicate, "facts": {**FACTS[kind], "complete": True, "memories": []}}
            parse_event(Statement((good.subject,), EVENT_TYPE, nothing))
    if kind == "erased":
        facts: list[dict[str, Any]] = [
            {"complete": True},
            {"held": 0},
            {"due": None},
            {"due": "2025-03-01"},
            {"memories": [PART, PART]},
        ]
        wrong += [{**predicate, "facts": {**FACTS[kind], **fact}} for fact in facts]
        with raises_code("statement-summary-empty"):
            parse_event(Statement((good.subject,), EVENT_TYPE, {**predicate, "facts": {**FACTS[kind], "memories": []}}))
    if kind == "listed":
        wrong += [
            {**predicate, "facts": {**FACTS[kind], name: value}}
            for name, value in (("part", 3), ("part", 0), ("commitments", []), ("commitments", ["ab" * 32] * 2))
        ]
    if kind == "mirror_checked":
        broken: list[dict[str, Any]] = [{**FINDING, name: value} for name in FINDING for value in (7, -1, True, None)]
        broken = [part for part in broken if part["leaf"] != 7]
        broken += [dict.fromkeys(FINDING, 0), {**FINDING, "more": 1}, *(without(FINDING, name) for name in FINDING)]
        found = [[part] for part in broken] + [[], [FINDING, FINDING], [{**FINDING, "leaf": 4}, FINDING]]
        wrong += [{**predicate, "facts": {"findings": listed}} for listed in found]
    for document in wrong:
        with raises_code("statement-event-invalid"):
            parse_event(Statement((good.subject,), EVENT_TYPE, document))
    for subjects in ((Subject("other", "ab" * 32),), (good.subject, Subject("more", "ab" * 32))):
        with raises_code("statement-event-invalid"):
            parse_event(Statement(subjects, EVENT_TYPE, predicate))
    with raises_code("statement-event-invalid"):
        parse_event(Statement((good.subject,), "urn:example:other", predicate))


def test_a_subject_is_committed_to_under_a_salt() -> None:
    assert subject_commitment(b"s" * 32, "patient-17") == subject_commitment(b"s" * 32, "patient-17")
    assert subject_commitment(b"s" * 32, "patient-17") != subject_commitment(b"t" * 32, "patient-17")
    assert subject_commitment(b"s" * 32, "patient-17") != subject_commitment(b"s" * 32, "patient-18")


def test_a_salt_of_another_length_commits_to_nothing() -> None:
    """Its last bytes would be the first of another name: the summary of patient-17 would verify for 17."""
    salt = b"s" * 32
    for wrong, name in ((salt + b"patient-", "17"), (salt[:-1], "spatient-17"), (b"", "s" * 32 + "patient-17")):
        with pytest.raises(InputError, match="32 bytes"):
            subject_commitment(wrong, name)
    with pytest.raises(InputError, match="Unicode"):
        subject_commitment(salt, "\udcff")
