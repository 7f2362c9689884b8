"""What a receipt states: the predicate ``urn:expunge:receipt:v1``. Format: ``docs/formats/receipt.md``.

:func:`parse_predicate` accepts a statement only if it has exactly the fields listed here, each in its one
spelling, and if they agree with each other: the outcome with the action, the attempts with the check, the
entries before and after with what was applied. It trusts nobody; signatures are :mod:`expunge.ledger.envelope`'s.

A predicate holds no content, no id and no subject, and no free text. Entries are salted commitments; a memory is a
random UUID, because its name may be somebody's and a hash of a name can be guessed. Residuals are rounded up
(:func:`at_most`): the exact bits of a rounding error are reproducible, and would confirm a guess at an erased entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final, Literal

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import Json, encode_float
from expunge.ledger.statement import Statement, Subject
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD, PUBLISHED

__all__ = [
    "DOES_NOT_COVER",
    "FIELD_NAMES",
    "MAX_LISTED",
    "PREDICATE_TYPE",
    "Action",
    "AttemptStated",
    "Coverage",
    "Denominator",
    "Listed",
    "Outcome",
    "Predicate",
    "ProblemStated",
    "Pruning",
    "Reason",
    "ReferenceStated",
    "Refusal",
    "Residuals",
    "Sizes",
    "Solver",
    "at_most",
]

PREDICATE_TYPE: Final = "urn:expunge:receipt:v1"
# A statement has room for about 60,000.
MAX_LISTED: Final = 50_000
# Just below the 1e-12 that states are measured against: what is smaller is rounding, and nobody's business.
SMALLEST: Final = 2.0**-40
# No power of two above it is a number.
LARGEST: Final = 2.0**1023

Action = Literal["creation", "admission", "deletion", "pruning", "rebuild", "expiry", "restoration"]
Outcome = Literal[
    "created",
    "admitted",
    "certified_zero",
    "decrement",
    "rescued",
    "refused",
    "noop",
    "pruned",
    "rebuilt",
    "expired",
    "restored",
]
Reason = Literal["too_few_entries", "no_acceptable_state", "would_end_warranties", "legal_hold", "state_conflict"]
Mode = Literal["archive", "forget"]
Denominator = Literal["value_range", "one"]
Coverage = Literal[
    "fresh_fit", "fresh_fit_at_new_cap", "no_readout_change", "no_readout_change_under_warranty", "nothing"
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
    "rescued": Rule(("admission", "deletion"), "fresh_fit", True),
    "refused": Rule(_EDITS, "nothing", False),
    "noop": Rule(_EDITS, "nothing", False),
    "pruned": Rule(("pruning",), "no_readout_change_under_warranty", True),
    "rebuilt": Rule(("rebuild",), "fresh_fit_at_new_cap", None),
    "expired": Rule(("expiry",), "nothing", False),
    "restored": Rule(("restoration",), "nothing", None),
}


def at_most(error: float) -> float:
    """Round an error up to a power of two, at least 2^-40; to the published tolerance where that comes first."""
    if math.isnan(error) or error > LARGEST:
        return math.inf
    mantissa, exponent = math.frexp(max(error, SMALLEST))
    power = math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)
    return PUBLISHED if error <= PUBLISHED < power else power


@dataclass(frozen=True, slots=True)
class Listed:
    """Entries by commitment, in ascending order; ``count`` is larger where some can no longer be named."""

    commitments: tuple[str, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, commitments: Iterable[bytes], count: int) -> Listed:
        """From the commitments that are known, of ``count`` entries."""
        return cls(tuple(sorted(digest.hex() for digest in commitments)), count)


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
class Residuals:
    """Upper bounds on the three errors of a check."""

    mass: float
    box: float
    stationarity: float

    @property
    def worst(self) -> float:
        """Largest of the three."""
        return max(self.mass, self.box, self.stationarity)


@dataclass(frozen=True, slots=True)
class AttemptStated:
    """One path that was tried: its residuals, or the class of the error that ended it."""

    path: str
    check: Residuals | None
    seconds: float
    error: str | None

    @property
    def passed(self) -> bool:
        """Whether its residuals are within the published tolerance."""
        return self.check is not None and self.check.worst <= PUBLISHED


@dataclass(frozen=True, slots=True)
class ReferenceStated:
    """A solve by another backend: its residual, and how far the readouts are apart at the entries' own keys.

    The difference is divided by the ``denominator``: the largest range of a value coordinate, or one where all
    values are equal. The range itself is content and not stated.
    """

    backend: str
    residual: float
    readout_difference: float
    denominator: Denominator
    probes: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an edit was refused, and the two sides of the comparison that failed, where there are any."""

    reason: Reason
    measured: float | None = None
    allowed: float | None = None


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
    check: Residuals
    attempts: tuple[AttemptStated, ...]
    solver: Solver
    seconds: float
    expired: Listed = Listed()
    renewed: Listed = Listed()
    reactivated: Listed = Listed()
    pruning: Pruning | None = None
    refusal: Refusal | None = None
    reference: ReferenceStated | None = None
    # The edit that a restoration went back to; older restorations do not state it.
    restored_edit: int | None = None

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
        flat = {name: _json(getattr(self, name)) for name in FLAT}
        if self.restored_edit is not None:
            flat["restored_edit"] = self.restored_edit
        return flat | {
            "state": {"before": self.state_before, "after": self.state_after},
            "entries": {"before": _json(self.before), "after": _json(self.after)},
            "warranties": {name: _json(getattr(self, name)) for name in WARRANTIES},
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
    *("memory", "edit", "action", "outcome", "time", "applied", "problem", "check", "attempts", "solver", "seconds"),
    *("pruning", "refusal", "reference", "covers"),
)
WARRANTIES: Final = ("expired", "renewed", "reactivated")
FIELDS: Final = frozenset({*FLAT, "state", "entries", "warranties", "tolerances", "does_not_cover"})


def _json(value: object) -> Json:
    if isinstance(value, float):
        return encode_float(value)
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    return {name: _json(getattr(value, name)) for name in FIELD_NAMES[type(value)]}


_PARTS: Final = (Listed, Sizes, ProblemStated, Residuals, AttemptStated, ReferenceStated, Refusal, Pruning, Solver)
# The fields of each part of a receipt.
FIELD_NAMES: Final[dict[type, frozenset[str]]] = {
    part: frozenset(field.name for field in fields(part)) for part in _PARTS
}
