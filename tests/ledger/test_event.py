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
STATE = Subject("state", "ab" * 32)
PART = {"memory": MEMORY, "outcome": "decrement", "leaf": 3, "entries": 2}
STAYED = ("noop", "refused", "failed")
FACTS: dict[str, dict[str, Any]] = {
    "dropped": {"live": 3, "pruned": 0},
    "held": {"hold": 7},
    "released": {"hold": 7},
    "subject_erased": {"memories": [PART, {**PART, "outcome": "failed", "leaf": None, "entries": 0}]},
}


def noon() -> datetime:
    return datetime(2025, 3, 1, 12, tzinfo=UTC)


def event(kind: Any) -> Event:
    subject, memory = (Subject("subject", "cd" * 32), None) if kind == "subject_erased" else (STATE, MEMORY)
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
    predicate = {"event": kind, "memory": good.memory, "time": good.time, "facts": FACTS[kind]}
    fact = next(iter(FACTS[kind]))
    wrong: list[dict[str, Any]] = [
        {**predicate, "event": "renamed"},
        {**predicate, "event": 3},
        {**predicate, "memory": 3},
        {**predicate, "memory": None if good.memory else MEMORY},
        {**predicate, "memory": "icu-7" if good.memory else ""},
        *(
            {**predicate, "time": wrong}
            for wrong in (3, "", "yesterday", "2025-02-30T12:00:00Z", "2025-03-01T12:00:00+01:00")
        ),
        {**predicate, "facts": []},
        {**predicate, "facts": {**FACTS[kind], "more": 1}},
        {**predicate, "facts": without(FACTS[kind], fact)},
        {**predicate, "facts": {**FACTS[kind], fact: "many"}},
        {**predicate, "facts": {**FACTS[kind], fact: -1}},
        {**predicate, "facts": {**FACTS[kind], fact: True}},
        {**predicate, "more": 1},
        *(without(predicate, name) for name in predicate),
    ]
    if kind == "subject_erased":
        parts = [without(PART, name) for name in PART] + [{**PART, name: []} for name in PART] + [{**PART, "x": 1}, 3]
        parts += [{**PART, "memory": "icu-7"}, {**PART, "outcome": "admitted"}, {**PART, "outcome": "\x1b[2J"}]
        # Entries that went without a receipt, and that went although nothing was done.
        parts += [{**PART, "leaf": None}, {**PART, "entries": 0}, *({**PART, "outcome": word} for word in STAYED)]
        wrong += [{**predicate, "facts": {"memories": [part]}} for part in parts]
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
