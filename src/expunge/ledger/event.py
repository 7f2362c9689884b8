"""What a store does that is no edit of one memory, as statements for the ledger: ``urn:expunge:store-event:v2``.

Format: ``docs/formats/store.md``. Like receipts, events hold no content, no id, no subject and no free text. A memory
is its UUID, a hold its number, and a subject, a case and an actor are commitments under salts that the caller gets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, Literal, cast

from expunge.errors import InputError, VerificationError
from expunge.ledger.commitment import SALT_BYTES
from expunge.ledger.encoding import MAX_INTEGER, Json, decode_base64, is_sha256_hex
from expunge.ledger.receipt_format import MAX_LISTED, Listed, RequestStated
from expunge.ledger.receipt_parsing import UUID, as_list, as_request, as_time
from expunge.ledger.statement import Statement, Subject

__all__ = [
    "ERASED",
    "EVENT_TYPE",
    "FOUND",
    "LISTS",
    "MOST_FINDINGS",
    "SUMMARIES",
    "Event",
    "KeyUse",
    "Kind",
    "MirrorSystem",
    "actor_commitment",
    "case_commitment",
    "list_parts",
    "mirror_commitment",
    "parse_event",
    "subject_commitment",
]

EVENT_TYPE: Final = "urn:expunge:store-event:v2"

Kind = Literal[
    "dropped",
    "held",
    "released",
    "subject_erased",
    "erased",
    "listed",
    "erasure_requested",
    "erasure_cancelled",
    "key_added",
    "key_revoked",
    "mirror_added",
    "mirror_checked",
    "mirror_removed",
]
ReleaseCause = Literal["request", "lost_in_restore"]
KeyUse = Literal["receipts", "heads"]
MirrorSystem = Literal["chroma", "pgvector", "lancedb", "qdrant"]
# Outcomes of a subject's deletion in one memory: those that erase, and those that leave everything.
ERASED: Final = ("certified_zero", "decrement", "refitted", "emptied")
_KEPT: Final = ("noop", "refused", "failed")
# The lists of a receipt, or of the event of a drop, that may follow it in parts.
LISTS: Final = ("applied", "ended", "expired", "renewed", "reactivated", "entries")
# What is found of erased entries in a mirror that was searched after their deletion there.
FOUND: Final = ("absent", "in_files", "not_checkable")
# Erasures that one event of a search in a mirror has room for.
MOST_FINDINGS: Final = 10_000
# Events that say what an erasure did in several memories.
SUMMARIES: Final[tuple[Kind, ...]] = ("subject_erased", "erased")
_MOST_PARTS: Final = 1_000_000


@dataclass(frozen=True)
class Event:
    """One event: what happened, to which memory, when, on which request, and the facts that belong to its kind."""

    kind: Kind
    memory: str | None
    time: str
    subject: Subject
    facts: Mapping[str, Json]
    request: RequestStated = field(default_factory=RequestStated.new)

    @classmethod
    def at(
        cls,
        clock: Callable[[], datetime],
        kind: Kind,
        memory: str | None,
        subject: Subject,
        request: RequestStated | None = None,
        **facts: Json,
    ) -> Event:
        """An event of now."""
        time = clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(kind, memory, time, subject, facts, request or RequestStated.new())

    @property
    def listed(self) -> Listed | None:
        """The entries that went with a dropped memory, where the event names them."""
        stated = self.facts.get("entries")
        return None if stated is None else as_list(stated, "entries")

    def to_statement(self) -> Statement:
        """The statement to sign."""
        predicate: dict[str, Json] = {
            "event": self.kind,
            "memory": self.memory,
            "time": self.time,
            "request": {"id": self.request.id, "case": self.request.case, "actor": self.request.actor},
            "facts": self.facts,
        }
        return Statement((self.subject,), EVENT_TYPE, predicate)


def parse_event(statement: Statement) -> Event:
    """Read an event, strictly; verify its envelope before believing it."""
    try:
        found = statement.predicate
        kind, memory, time, facts = (found[name] for name in ("event", "memory", "time", "facts"))
        shape = _SHAPES[cast(Kind, kind)]
        request = as_request(found["request"])
        if (
            statement.predicate_type != EVENT_TYPE
            or len(found) != 5
            or not (_is_uuid(memory) if shape.has_memory else memory is None)
            or not isinstance(facts, Mapping)
            or facts.keys() != shape.facts.keys()
            or not all(is_valid(facts[name]) for name, is_valid in shape.facts.items())
            or [subject.name for subject in statement.subjects] != [shape.subject]
            or not shape.agrees(facts)
        ):
            raise VerificationError("its fields are not those of its kind")
        event = Event(
            cast(Kind, kind), cast("str | None", memory), as_time(time), statement.subjects[0], facts, request
        )
    except (KeyError, TypeError, VerificationError) as problem:
        raise VerificationError(
            f"the statement is not an event of a store: {problem}", code="statement-event-invalid"
        ) from None
    if event.kind in SUMMARIES and not event.facts["memories"]:
        raise VerificationError("a summary of an erasure, and of no memory", code="statement-summary-empty")
    return event


def list_parts(name: str, commitments: tuple[str, ...], receipt: RequestStated) -> Iterator[dict[str, Json]]:
    """The facts of the events that carry one list of a receipt, in parts that a statement has room for."""
    parts = -(-len(commitments) // MAX_LISTED)
    for part in range(parts):
        yield {
            "receipt": receipt.id,
            "list": name,
            "part": part + 1,
            "parts": parts,
            "commitments": commitments[part * MAX_LISTED : (part + 1) * MAX_LISTED],
        }


def _is_uuid(value: Json) -> bool:
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def _is_time(value: Json) -> bool:
    try:
        as_time(value)
    except VerificationError:
        return False
    return True


def _is_number(value: Json, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_INTEGER


def _is_positive(value: Json) -> bool:
    return _is_number(value, 1)


def _is_list(value: Json) -> bool:
    try:
        as_list(value, "entries")
    except VerificationError:
        return False
    return True


def _is_part_of_list(value: Json) -> bool:
    return (
        isinstance(value, tuple)
        and 0 < len(value) <= MAX_LISTED
        and all(is_sha256_hex(digest) for digest in value)
        and all(one < other for one, other in pairwise(cast("tuple[str, ...]", value)))
    )


def _is_public_key(value: Json) -> bool:
    return isinstance(value, str) and 0 < len(decode_base64(value) or b"") <= 512


def _is_summary(value: Json) -> bool:
    if not isinstance(value, tuple) or not all(isinstance(part, Mapping) and _is_part(part) for part in value):
        return False
    memories = [cast("Mapping[str, Json]", part)["memory"] for part in value]
    return len(set(memories)) == len(memories)


def _is_part(part: Mapping[str, Json]) -> bool:
    """What became of the subject in one memory; entries went if and only if a deletion says so, at its leaf."""
    if part.keys() != {"memory", "outcome", "leaf", "entries"}:
        return False
    outcome, leaf, entries = part["outcome"], part["leaf"], part["entries"]
    return (
        _is_uuid(part["memory"])
        and outcome in (*ERASED, *_KEPT)
        and (leaf is None or _is_number(leaf))
        and _is_number(entries)
        and ((leaf is not None and entries != 0) if outcome in ERASED else entries == 0)
    )


def _is_findings(value: Json) -> bool:
    """What was found of the entries of each erasure, in order of the leaves of these."""
    if not isinstance(value, tuple) or not 0 < len(value) <= MOST_FINDINGS:
        return False
    if not all(isinstance(part, Mapping) and _is_finding(part) for part in value):
        return False
    leaves = [cast(int, cast("Mapping[str, Json]", part)["leaf"]) for part in value]
    return all(one < other for one, other in pairwise(leaves))


def _is_finding(part: Mapping[str, Json]) -> bool:
    """As many entries were found to be something as were erased."""
    if part.keys() != {"leaf", "entries", *FOUND} or not all(_is_number(number) for number in part.values()):
        return False
    return part["entries"] != 0 and part["entries"] == sum(cast(int, part[word]) for word in FOUND)


def _optional(is_valid: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda value: value is None or is_valid(value)


def _one_of(*words: str) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, str) and value in words


def _is_complete_as_stated(facts: Mapping[str, Any]) -> bool:
    kept = any(part["outcome"] in ("refused", "failed") for part in facts["memories"]) or facts.get("held", 0) > 0
    return facts["complete"] is not kept


@dataclass(frozen=True)
class _Shape:
    """What events of one kind look like: their facts, whether they name a memory, and what their statement is about."""

    facts: Mapping[str, Callable[[Json], bool]]
    has_memory: bool = True
    subject: str = "state"
    agrees: Callable[[Mapping[str, Any]], bool] = lambda facts: True


_SHAPES: Final[dict[Kind, _Shape]] = {
    "dropped": _Shape({"live": _is_number, "pruned": _is_number, "entries": _optional(_is_list)}),
    "held": _Shape({"hold": _is_positive, "entry": _optional(is_sha256_hex)}),
    "released": _Shape({"hold": _is_positive, "cause": _one_of("request", "lost_in_restore")}),
    "subject_erased": _Shape(
        {
            "memories": _is_summary,
            "complete": lambda value: isinstance(value, bool),
            "requested": _optional(_is_number),
        },
        has_memory=False,
        subject="subject",
        agrees=_is_complete_as_stated,
    ),
    # A sweep says by which time everything that it erased had ended, and how many entries it left to holds. The
    # statement is about a random number: what it counts is in its facts.
    "erased": _Shape(
        {
            "memories": _is_summary,
            "complete": lambda value: isinstance(value, bool),
            "held": _is_number,
            "due": _optional(_is_time),
        },
        has_memory=False,
        subject="erasure",
        agrees=lambda facts: _is_complete_as_stated(facts) and (facts["due"] is not None or facts["held"] == 0),
    ),
    "listed": _Shape(
        {
            "receipt": _is_uuid,
            "list": _one_of(*LISTS),
            "part": _is_positive,
            "parts": _is_positive,
            "commitments": _is_part_of_list,
        },
        agrees=lambda facts: facts["part"] <= facts["parts"] <= _MOST_PARTS,
    ),
    "erasure_requested": _Shape({"due": _is_time}, has_memory=False, subject="subject"),
    "erasure_cancelled": _Shape({"requested": _is_number}, has_memory=False, subject="subject"),
    "key_added": _Shape(
        {
            "keyid": is_sha256_hex,
            "key": _is_public_key,
            "algorithm": _one_of("ed25519", "ecdsa-p256"),
            "use": _one_of("receipts", "heads"),
        },
        has_memory=False,
        subject="key",
    ),
    "key_revoked": _Shape(
        {
            "keyid": is_sha256_hex,
            "use": _one_of("receipts", "heads"),
            "reason": _one_of("rotated", "lost", "compromised"),
        },
        has_memory=False,
        subject="key",
    ),
    # A mirror has the copies of one memory, or of all where "of" is null.
    "mirror_added": _Shape(
        {"system": _one_of("chroma", "pgvector", "lancedb", "qdrant"), "of": _optional(_is_uuid)},
        has_memory=False,
        subject="mirror",
    ),
    "mirror_checked": _Shape({"findings": _is_findings}, has_memory=False, subject="mirror"),
    "mirror_removed": _Shape({"pending": _is_number}, has_memory=False, subject="mirror"),
}


def subject_commitment(salt: bytes, subject: str) -> str:
    """Commitment to a data subject; whoever has the salt can show whom an erasure was about."""
    return _commitment("subject", salt, subject)


def case_commitment(salt: bytes, case: str) -> str:
    """Commitment to the reference of a case; whoever has the salt can show which case a receipt belongs to."""
    return _commitment("case", salt, case)


def actor_commitment(salt: bytes, actor: str) -> str:
    """Commitment to the name of whoever asked; whoever has the salt can show who it was."""
    return _commitment("actor", salt, actor)


def mirror_commitment(salt: bytes, address: str) -> str:
    """Commitment to the address of a mirror; whoever has the salt can show which system a finding is about."""
    return _commitment("mirror", salt, address)


def _commitment(what: str, salt: bytes, text: str) -> str:
    # Nothing separates the two: bytes of a longer or shorter salt would pass for the beginning of another text.
    if len(salt) != SALT_BYTES:
        raise InputError(f"the salt of a {what} has {SALT_BYTES} bytes, not {len(salt)}")
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise InputError(f"a {what} must be valid Unicode") from None
    return hashlib.sha256(f"expunge/{what}-commitment/v1\n".encode() + salt + content).hexdigest()
