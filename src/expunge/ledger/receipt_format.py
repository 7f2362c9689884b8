"""What a receipt states: the predicate ``urn:expunge:receipt:v3``. Format: ``docs/formats/receipt.md``.

:func:`parse_predicate` accepts a statement only if it has exactly the fields listed here, each in its one
spelling, and if they agree with each other: the outcome with the action, the entries before and after with what was
applied. It trusts nobody; signatures are :mod:`expunge.ledger.envelope`'s.

A predicate holds no content, no id and no subject, and no free text. Entries, cases and actors are salted commitments;
a memory is a random UUID, because its name may be somebody's and a hash of a name can be guessed. It holds no
measurement, either: residuals, paths and times depend on an erased entry, and would confirm a guess at it. The document
lists what each field still tells of one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final, Literal

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import Json, encode_float
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.statement import Statement, Subject
from expunge.problem.check_kind import CheckKind
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD, PUBLISHED

__all__ = [
    "DOES_NOT_COVER",
    "FIELD_NAMES",
    "MAX_LISTED",
    "PREDICATE_TYPE",
    "Action",
    "Coverage",
    "Listed",
    "Outcome",
    "Predicate",
    "ProblemStated",
    "Pruning",
    "Reason",
    "Refusal",
    "RequestStated",
    "Sizes",
    "Solver",
]

PREDICATE_TYPE: Final = "urn:expunge:receipt:v3"
# A statement has room for about 60,000; longer lists follow their receipt in events of the kind ``listed``.
MAX_LISTED: Final = 50_000

Action = Literal["creation", "admission", "deletion", "pruning", "rebuild", "expiry", "restoration"]
Outcome = Literal[
    "created",
    "admitted",
    "certified_zero",
    "decrement",
    "refitted",
    "emptied",
    "refused",
    "noop",
    "pruned",
    "rebuilt",
    "expired",
    "restored",
]
Reason = Literal["no_acceptable_state", "would_end_warranties", "legal_hold"]
Mode = Literal["archive", "forget"]
Coverage = Literal[
    "fresh_fit",
    "fresh_fit_at_new_cap",
    "no_entry_left",
    "no_readout_change",
    "no_readout_change_under_warranty",
    "nothing",
]

DOES_NOT_COVER: Final = (
    "prior_copies",
    "re_encoding",
    "model_weights",
    "changed_cap",
    "admissions_without_warranty",
)
TOLERANCES: Final = {
    "acceptance": encode_float(ACCEPTANCE),
    "partition": encode_float(PARTITION_THRESHOLD),
    "published": encode_float(PUBLISHED),
}
# What the check of the state after the edit came to; no other verdict is ever signed. Its kind stands beside it.
CHECK: Final[dict[str, Json]] = {"passed": True, "tolerance": "published"}
# Refusals whose two numbers are counts of entries or certificates; the others have none.
COUNTED: Final[tuple[Reason, ...]] = ("would_end_warranties", "legal_hold")


@dataclass(frozen=True, slots=True)
class Rule:
    """What an outcome entails; ``changes`` is None where the state may or may not change."""

    actions: tuple[Action, ...]
    covers: Coverage
    changes: bool | None


_EDITS: Final[tuple[Action, ...]] = ("admission", "deletion", "pruning", "rebuild")
RULES: Final[dict[Outcome, Rule]] = {
    "created": Rule(("creation",), "fresh_fit", None),
    "admitted": Rule(("admission",), "fresh_fit", True),
    "certified_zero": Rule(("deletion",), "no_readout_change", None),
    "decrement": Rule(("deletion",), "fresh_fit", True),
    "refitted": Rule(("deletion",), "fresh_fit_at_new_cap", True),
    "emptied": Rule(("deletion",), "no_entry_left", True),
    "refused": Rule(_EDITS, "nothing", False),
    "noop": Rule(_EDITS, "nothing", False),
    "pruned": Rule(("pruning",), "no_readout_change_under_warranty", True),
    "rebuilt": Rule(("rebuild",), "fresh_fit_at_new_cap", None),
    "expired": Rule(("expiry",), "nothing", False),
    "restored": Rule(("restoration",), "nothing", None),
}


@dataclass(frozen=True, slots=True)
class Listed:
    """``count`` entries by commitment, in ascending order.

    A list that is too long for its receipt is given as the ``root`` of the RFC 6962 tree over the commitments, and
    follows in events of the kind ``listed``.
    """

    commitments: tuple[str, ...] = ()
    count: int = 0
    root: str | None = None

    @classmethod
    def of(cls, commitments: Iterable[bytes]) -> Listed:
        """The list of these commitments."""
        found = tuple(sorted(digest.hex() for digest in commitments))
        return cls(found, len(found))

    @classmethod
    def root_of(cls, commitments: Iterable[str]) -> Listed:
        """The list of these ascending commitments, by its root alone."""
        # Only whoever writes receipts needs the tree.
        from expunge.ledger.merkle.tree import Frontier

        tree = Frontier()
        for digest in commitments:
            tree, _ = tree.append(leaf_hash(bytes.fromhex(digest)))
        return cls((), tree.size, tree.root.hex())


@dataclass(frozen=True, slots=True)
class RequestStated:
    """What was asked: a random id of its own, and commitments to the case and to the actor, where there are any."""

    id: str
    case: str | None = None
    actor: str | None = None

    @classmethod
    def new(cls, case: str | None = None, actor: str | None = None) -> RequestStated:
        """A request with an id that no other has."""
        return cls(str(uuid.uuid4()), case, actor)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Live entries, and pruned ones, archived or forgotten, that still have a warranty or had one."""

    live: int
    pruned: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.live + self.pruned


@dataclass(frozen=True, slots=True)
class ProblemStated:
    """Cap, width, coordinates of a key, and the size that the cap was set for, where it is known."""

    cap: float
    sigma: float
    dimension: int
    initial_entries: int | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an edit was refused, the two sides of the comparison that failed, where these are counts, and the numbers of
    the holds that forbade it.
    """

    reason: Reason
    measured: int | None = None
    allowed: int | None = None
    holds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pruning:
    """Whether pruned content was kept aside or forgotten, and how many zeros were not proved and stayed."""

    mode: Mode
    unproved: int


@dataclass(frozen=True, slots=True)
class Solver:
    """The program that made the state."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """One receipt."""

    memory: str
    edit: int
    action: Action
    outcome: Outcome
    time: str
    state_before: str | None
    state_after: str
    before: Sizes
    after: Sizes
    applied: Listed
    problem: ProblemStated
    solver: Solver
    request: RequestStated
    ended: Listed = Listed()
    expired: Listed = Listed()
    renewed: Listed = Listed()
    reactivated: Listed = Listed()
    pruning: Pruning | None = None
    refusal: Refusal | None = None
    # The edit that a restoration went back to.
    restored_edit: int | None = None
    # What the check took its slacks from: a function of the state after the edit.
    check_kind: CheckKind = "keys"

    @property
    def covers(self) -> Coverage:
        """What the outcome entails."""
        return RULES[self.outcome].covers

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The states that the statement is about."""
        after = Subject("state_after", self.state_after)
        return (after,) if self.state_before is None else (after, Subject("state_before", self.state_before))

    def to_json(self) -> dict[str, Json]:
        """Return the JSON value, floats as hexadecimal strings."""
        return {name: _json(getattr(self, name)) for name in FLAT} | {
            "state": {"before": self.state_before, "after": self.state_after},
            "entries": {"before": _json(self.before), "after": _json(self.after)},
            "warranties": {name: _json(getattr(self, name)) for name in WARRANTIES},
            "check": {"kind": self.check_kind, **CHECK},
            "tolerances": TOLERANCES,
            "does_not_cover": DOES_NOT_COVER,
        }

    def to_statement(self) -> Statement:
        """Return the statement to sign; a receipt that would not verify is refused here."""
        from expunge.ledger.receipt_parsing import parse_predicate

        statement = Statement(self.subjects, PREDICATE_TYPE, self.to_json())
        try:
            parse_predicate(statement)
        except VerificationError as error:
            raise InputError(f"this receipt would not verify: {error.code}: {error}") from None
        return statement


FLAT: Final = (
    *("memory", "edit", "action", "outcome", "time", "applied", "problem", "solver"),
    *("request", "pruning", "refusal", "restored_edit", "covers"),
)
WARRANTIES: Final = ("ended", "expired", "renewed", "reactivated")
FIELDS: Final = frozenset({*FLAT, "state", "entries", "warranties", "check", "tolerances", "does_not_cover"})


def _json(value: object) -> Json:
    if isinstance(value, float):
        return encode_float(value)
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    return {name: _json(getattr(value, name)) for name in FIELD_NAMES[type(value)]}


_PARTS: Final = (Listed, RequestStated, Sizes, ProblemStated, Refusal, Pruning, Solver)
# The fields of each part of a receipt.
FIELD_NAMES: Final[dict[type, frozenset[str]]] = {
    part: frozenset(field.name for field in fields(part)) for part in _PARTS
}
