"""What a store does that is no edit of one memory, as statements for the ledger: ``urn:expunge:store-event:v1``.

Format: ``docs/formats/store.md``. Like receipts these hold no content, no id, no subject and no free text. A memory
is its UUID, a hold its number, a subject a commitment under a salt that only the caller gets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, cast

from expunge.errors import InputError, VerificationError
from expunge.ledger.commitment import SALT_BYTES
from expunge.ledger.encoding import Json
from expunge.ledger.receipt_parsing import UUID, as_time
from expunge.ledger.statement import Statement, Subject

__all__ = ["EVENT_TYPE", "Event", "Kind", "parse_event", "subject_commitment"]

EVENT_TYPE: Final = "urn:expunge:store-event:v1"

Kind = Literal["dropped", "held", "released", "subject_erased"]
_FACTS: Final[dict[Kind, frozenset[str]]] = {
    "dropped": frozenset({"live", "pruned"}),
    "held": frozenset({"hold"}),
    "released": frozenset({"hold"}),
    "subject_erased": frozenset({"memories"}),
}
# Outcomes of a subject's deletion in one memory: those that erase, and those that leave everything.
_ERASED: Final = ("certified_zero", "decrement")
_KEPT: Final = ("noop", "refused", "failed")


@dataclass(frozen=True)
class Event:
    """One event: what happened, to which memory, when, and the facts that belong to its kind."""

    kind: Kind
    memory: str | None
    time: str
    subject: Subject
    facts: Mapping[str, Json]

    @classmethod
    def at(
        cls, clock: Callable[[], datetime], kind: Kind, memory: str | None, subject: Subject, **facts: Json
    ) -> Event:
        """An event of now."""
        return cls(kind, memory, clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), subject, facts)

    def to_statement(self) -> Statement:
        """The statement to sign."""
        predicate: dict[str, Json] = {"event": self.kind, "memory": self.memory, "time": self.time, "facts": self.facts}
        return Statement((self.subject,), EVENT_TYPE, predicate)


def parse_event(statement: Statement) -> Event:
    """Read an event, strictly; verify its envelope before believing it."""
    found = statement.predicate
    kind, memory, time, facts = (found.get(name) for name in ("event", "memory", "time", "facts"))
    word = next((known for known in _FACTS if known == kind), None)
    if (
        statement.predicate_type != EVENT_TYPE
        or set(found) != {"event", "memory", "time", "facts"}
        or word is None
        or not (memory is None if word == "subject_erased" else _is_uuid(memory))
        or not _is_time(time)
        or not isinstance(facts, Mapping)
        or len(statement.subjects) != 1
        or statement.subjects[0].name != ("subject" if word == "subject_erased" else "state")
        or set(facts) != _FACTS[word]
        or not all(_is_number(facts[name]) for name in _FACTS[word] - {"memories"})
        or not (word != "subject_erased" or _is_summary(facts["memories"]))
    ):
        raise VerificationError("the statement is not an event of a store", code="statement-event-invalid")
    return Event(word, cast("str | None", memory), cast(str, time), statement.subjects[0], facts)


def _is_uuid(value: Json) -> bool:
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def _is_time(value: Json) -> bool:
    try:
        as_time(value)
    except VerificationError:
        return False
    return True


def _is_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_summary(value: Json) -> bool:
    return isinstance(value, tuple) and all(isinstance(part, Mapping) and _is_part(part) for part in value)


def _is_part(part: Mapping[str, Json]) -> bool:
    """What became of the subject in one memory; entries went if and only if a deletion says so, at its leaf."""
    if set(part) != {"memory", "outcome", "leaf", "entries"}:
        return False
    outcome, leaf, entries = part["outcome"], part["leaf"], part["entries"]
    return (
        _is_uuid(part["memory"])
        and outcome in (*_ERASED, *_KEPT)
        and (leaf is None or _is_number(leaf))
        and _is_number(entries)
        and ((leaf is not None and entries != 0) if outcome in _ERASED else entries == 0)
    )


def subject_commitment(salt: bytes, subject: str) -> str:
    """Commitment to a data subject; whoever has the salt can show whom an erasure was about."""
    # Nothing separates the two: bytes of a longer or shorter salt would pass for the beginning of another name.
    if len(salt) != SALT_BYTES:
        raise InputError(f"the salt of a subject has {SALT_BYTES} bytes, not {len(salt)}")
    try:
        name = subject.encode()
    except UnicodeEncodeError:
        raise InputError("a subject must be valid Unicode") from None
    return hashlib.sha256(b"expunge/subject-commitment/v1\n" + salt + name).hexdigest()
