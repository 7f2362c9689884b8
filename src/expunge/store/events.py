"""What a store does that is no edit of one memory, as statements for the ledger: ``urn:expunge:store-event:v1``.

Format: ``docs/formats/store.md``. Like receipts these hold no content, no id, no subject and no free text. A memory
is its UUID, a hold its number, a subject a commitment under a salt that only the caller gets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from expunge.errors import VerificationError
from expunge.ledger.canonical import Json
from expunge.ledger.statement import Statement, Subject

__all__ = ["EVENT_TYPE", "Event", "Kind", "parse_event", "subject_commitment"]

EVENT_TYPE: Final = "urn:expunge:store-event:v1"

Kind = Literal["dropped", "held", "released", "subject_erased"]
_KINDS: Final = ("dropped", "held", "released", "subject_erased")


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
    """Read an event; verify its envelope before believing it."""
    found = statement.predicate
    kind, memory, time, facts = (found.get(name) for name in ("event", "memory", "time", "facts"))
    if (
        statement.predicate_type != EVENT_TYPE
        or set(found) != {"event", "memory", "time", "facts"}
        or kind not in _KINDS
        or not (memory is None or isinstance(memory, str))
        or not isinstance(time, str)
        or not isinstance(facts, Mapping)
        or len(statement.subjects) != 1
    ):
        raise VerificationError("the statement is not an event of a store")
    word: Kind = next(name for name in _KINDS if name == kind)
    return Event(word, memory, time, statement.subjects[0], facts)


def subject_commitment(salt: bytes, subject: str) -> str:
    """Commitment to a data subject; whoever has the salt can show whom an erasure was about."""
    return hashlib.sha256(b"expunge/subject-commitment/v1\n" + salt + subject.encode()).hexdigest()
