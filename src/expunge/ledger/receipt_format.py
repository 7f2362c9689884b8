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
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Final, Literal, cast, get_args

from expunge.errors import InputError, VerificationError
from expunge.ledger.canonical import Json
from expunge.ledger.encoding import encode_float, is_sha256_hex
from expunge.ledger.receipt_fields import (
    UUID,
    as_digest,
    as_integer,
    as_number,
    as_object,
    as_one_of,
    as_text,
    as_time,
)
from expunge.ledger.statement import Statement, Subject
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD, PUBLISHED

__all__ = [
    "DOES_NOT_COVER",
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
    "parse_predicate",
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
_TOLERANCES: Final = {
    "acceptance": encode_float(ACCEPTANCE),
    "partition": encode_float(PARTITION_THRESHOLD),
    "published": encode_float(PUBLISHED),
}

_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")


@dataclass(frozen=True, slots=True)
class _Rule:
    """What an outcome entails; ``changes`` is None where the state may or may not change."""

    actions: tuple[Action, ...]
    covers: Coverage
    changes: bool | None


_EDITS: Final[tuple[Action, ...]] = ("admission", "deletion", "pruning", "rebuild")
_RULES: Final[dict[Outcome, _Rule]] = {
    "created": _Rule(("creation",), "fresh_fit", None),
    "admitted": _Rule(("admission",), "fresh_fit", True),
    "certified_zero": _Rule(("deletion",), "no_readout_change", None),
    "decrement": _Rule(("deletion",), "fresh_fit", True),
    "rescued": _Rule(("admission", "deletion"), "fresh_fit", True),
    "refused": _Rule(_EDITS, "nothing", False),
    "noop": _Rule(_EDITS, "nothing", False),
    "pruned": _Rule(("pruning",), "no_readout_change_under_warranty", True),
    "rebuilt": _Rule(("rebuild",), "fresh_fit_at_new_cap", None),
    "expired": _Rule(("expiry",), "nothing", False),
    "restored": _Rule(("restoration",), "nothing", None),
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
        return _RULES[self.outcome].covers

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The states that the statement is about."""
        after = Subject("state_after", self.state_after)
        return (after,) if self.state_before is None else (after, Subject("state_before", self.state_before))

    def to_json(self) -> dict[str, Json]:
        """Return the JSON value, floats as hexadecimal strings."""
        flat = {name: _json(getattr(self, name)) for name in _FLAT}
        if self.restored_edit is not None:
            flat["restored_edit"] = self.restored_edit
        return flat | {
            "state": {"before": self.state_before, "after": self.state_after},
            "entries": {"before": _json(self.before), "after": _json(self.after)},
            "warranties": {name: _json(getattr(self, name)) for name in _WARRANTIES},
            "tolerances": _TOLERANCES,
            "does_not_cover": DOES_NOT_COVER,
        }

    def to_statement(self) -> Statement:
        """Return the statement to sign; a receipt that would not verify is refused here."""
        statement = Statement(self.subjects, PREDICATE_TYPE, self.to_json())
        try:
            parse_predicate(statement)
        except VerificationError as error:
            raise InputError(f"this receipt would not verify: {error.code}: {error}") from None
        return statement


_FLAT: Final = (
    *("memory", "edit", "action", "outcome", "time", "applied", "problem", "check", "attempts", "solver", "seconds"),
    *("pruning", "refusal", "reference", "covers"),
)
_WARRANTIES: Final = ("expired", "renewed", "reactivated")
_FIELDS: Final = frozenset({*_FLAT, "state", "entries", "warranties", "tolerances", "does_not_cover"})


def _json(value: object) -> Json:
    if isinstance(value, float):
        return encode_float(value)
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    return {name: _json(getattr(value, name)) for name in _names(type(value))}


def parse_predicate(statement: Statement) -> Predicate:
    """Read the receipt in a statement, strictly, and check that it does not contradict itself."""
    if statement.predicate_type != PREDICATE_TYPE:
        raise VerificationError(
            f"{statement.predicate_type[:80]!r} is not {PREDICATE_TYPE}", code="statement-predicate-type-mismatch"
        )
    document = as_object(statement.predicate, "the receipt", _fields(statement.predicate), "receipt-error")
    outcome = cast(Outcome, as_one_of(document["outcome"], "outcome", _RULES, "receipt-outcome-invalid"))
    state = as_object(document["state"], "state", {"before", "after"}, "receipt-state-invalid")
    entries = as_object(document["entries"], "entries", {"before", "after"}, "receipt-entries-invalid")
    warranties = as_object(document["warranties"], "warranties", _WARRANTIES, "receipt-commitments-invalid")
    predicate = Predicate(
        memory=as_text(document["memory"], "memory", UUID, "receipt-memory-invalid"),
        edit=as_integer(document["edit"], "edit", "receipt-edit-invalid"),
        action=cast(Action, as_one_of(document["action"], "action", get_args(Action), "receipt-action-invalid")),
        outcome=outcome,
        time=as_time(document["time"]),
        state_before=None if state["before"] is None else as_digest(state["before"], "state before"),
        state_after=as_digest(state["after"], "state after"),
        before=_sizes(entries["before"], "entries before"),
        after=_sizes(entries["after"], "entries after"),
        applied=_listed(document["applied"], "applied"),
        problem=_problem(document["problem"]),
        check=_residuals(document["check"], "check", "receipt-check-invalid"),
        attempts=_attempts(document["attempts"]),
        solver=_solver(document["solver"]),
        seconds=as_number(document["seconds"], "seconds", "receipt-seconds-invalid"),
        expired=_listed(warranties["expired"], "expired"),
        renewed=_listed(warranties["renewed"], "renewed"),
        reactivated=_listed(warranties["reactivated"], "reactivated"),
        pruning=None if document["pruning"] is None else _pruning(document["pruning"]),
        refusal=None if document["refusal"] is None else _refusal(document["refusal"]),
        reference=None if document["reference"] is None else _reference(document["reference"]),
        restored_edit=_restored_edit(document),
    )
    tolerances = as_object(document["tolerances"], "tolerances", _TOLERANCES.keys(), "receipt-tolerances-invalid")
    if tolerances != _TOLERANCES:
        raise VerificationError(f"tolerances other than those of {PREDICATE_TYPE}", code="receipt-tolerances-invalid")
    if document["covers"] != predicate.covers or document["does_not_cover"] != DOES_NOT_COVER:
        raise VerificationError(f"the outcome {outcome} covers something else", code="receipt-coverage-invalid")
    _check_states(predicate)
    _check_entries(predicate)
    _check_attempts(predicate)
    if statement.subjects != predicate.subjects:
        raise VerificationError(
            "the statement is not about the states that its receipt names", code="receipt-subject-mismatch"
        )
    return predicate


def _check_states(receipt: Predicate) -> None:
    rule = _RULES[receipt.outcome]
    if receipt.action not in rule.actions:
        raise VerificationError(
            f"the outcome of a {receipt.action} cannot be {receipt.outcome}", code="receipt-action-mismatch"
        )
    if (receipt.state_before is None) != (receipt.action == "creation"):
        raise VerificationError("a creation, and nothing else, has no state before it", code="receipt-state-mismatch")
    if rule.changes is not None and rule.changes == (receipt.state_before == receipt.state_after):
        raise VerificationError(
            f"{receipt.outcome}, yet the state {'stayed' if rule.changes else 'changed'}", code="receipt-state-mismatch"
        )
    if (receipt.refusal is not None) != (receipt.outcome == "refused"):
        raise VerificationError("a refusal, and nothing else, has a reason", code="receipt-refusal-mismatch")
    if (receipt.pruning is not None) != (receipt.action == "pruning" and receipt.outcome != "refused"):
        raise VerificationError("a pruning, and nothing else, has a mode", code="receipt-pruning-mismatch")


def _check_entries(receipt: Predicate) -> None:
    before, after, applied = receipt.before, receipt.after, receipt.applied.count
    back, named = receipt.reactivated.count, len(receipt.applied.commitments)
    match receipt.outcome, receipt.action:
        case "created", _:
            adds_up = before.total == after.pruned == 0 and after.live == applied and named in (0, applied)
        case "refused" | "noop", _:
            adds_up = before == after and applied == back == receipt.renewed.count == receipt.expired.count == 0
        case "expired", _:
            adds_up = before == after and applied == back == receipt.renewed.count == 0 < receipt.expired.count
        case "restored", _:
            adds_up = applied == back == receipt.renewed.count == receipt.expired.count == 0
        case _, "admission":
            adds_up = named == applied == 1 == after.total - before.total and after.live == before.live + 1 + back
        case _, "deletion":
            # Some may have been pruned before; the others were live.
            adds_up = 0 < applied == before.total - after.total and 0 <= before.live + back - after.live <= applied
        case _, "pruning":
            adds_up = 0 < applied == before.live - after.live and before.total == after.total
            adds_up = adds_up and back == 0 and named in (0, applied)
        case _:
            adds_up = applied == 0 and before.total == after.total and after.live == before.live + back
    if not adds_up or after.live == 0:
        raise VerificationError(
            f"{receipt.outcome}: {before} and {after} do not follow from what was applied",
            code="receipt-entries-mismatch",
        )


def _check_attempts(receipt: Predicate) -> None:
    if receipt.check.worst > PUBLISHED:
        raise VerificationError(
            f"residual {receipt.check.worst:.3g} exceeds {PUBLISHED:g}", code="receipt-check-failed"
        )
    attempts, outcome = receipt.attempts, receipt.outcome
    passed = [attempt.passed for attempt in attempts]
    ends_well = bool(attempts) and passed[-1] and attempts[-1].check == receipt.check
    match outcome:
        case "admitted" | "decrement":
            agree = ends_well and all(passed)
        case "certified_zero":
            agree = not attempts or (ends_well and all(passed))
        case "rescued":
            agree = ends_well and not all(passed)
        case "pruned":
            agree = ends_well
        case "refused" if receipt.refusal is not None and receipt.refusal.reason == "no_acceptable_state":
            agree = bool(attempts) and not passed[-1]
        case "refused" | "rebuilt" | "created":
            agree = True
        case _:
            agree = not attempts
    if not agree:
        raise VerificationError(
            f"the outcome {outcome} does not follow from {len(attempts)} attempts", code="receipt-attempts-mismatch"
        )


def _fields(predicate: Mapping[str, Json]) -> frozenset[str]:
    """The fields of every receipt, and what a restoration may have besides."""
    restores = predicate.get("action") == "restoration" and "restored_edit" in predicate
    return _FIELDS | {"restored_edit"} if restores else _FIELDS


def _restored_edit(document: Mapping[str, Json]) -> int | None:
    if "restored_edit" not in document:
        return None
    edit = as_integer(document["restored_edit"], "restored edit", "receipt-edit-invalid")
    if edit >= cast(int, document["edit"]):
        raise VerificationError(
            f"restored to edit {edit}, which is not before edit {document['edit']}", code="receipt-edit-invalid"
        )
    return edit


def _sizes(value: Json, what: str) -> Sizes:
    item = as_object(value, what, _names(Sizes), "receipt-entries-invalid")
    return Sizes(*(as_integer(item[name], name, "receipt-entries-invalid") for name in ("live", "pruned")))


def _listed(value: Json, what: str) -> Listed:
    item = as_object(value, what, _names(Listed), "receipt-commitments-invalid")
    found, count = item["commitments"], as_integer(item["count"], f"{what}: count", "receipt-commitments-invalid")
    if not isinstance(found, tuple) or not all(is_sha256_hex(digest) for digest in found):
        raise VerificationError(f"{what} is not a list of commitments", code="receipt-commitments-invalid")
    digests = cast(tuple[str, ...], found)
    if any(one >= other for one, other in pairwise(digests)):
        raise VerificationError(f"{what}: the commitments do not ascend", code="receipt-commitments-invalid")
    if count < len(digests):
        raise VerificationError(
            f"{what}: {len(digests)} commitments, and a count of {count}", code="receipt-commitments-invalid"
        )
    return Listed(digests, count)


def _problem(value: Json) -> ProblemStated:
    item = as_object(value, "problem", _names(ProblemStated), "receipt-problem-invalid")
    cap, sigma = (as_number(item[name], name, "receipt-problem-invalid") for name in ("cap", "sigma"))
    if not (0.0 < cap <= 1.0 and 1e-150 <= sigma <= 1e150):
        raise VerificationError(f"cap {cap!r} or width {sigma!r} is out of range", code="receipt-problem-invalid")
    size = item["initial_entries"]
    return ProblemStated(
        cap,
        sigma,
        as_integer(item["dimension"], "dimension", "receipt-problem-invalid", least=1),
        None if size is None else as_integer(size, "initial_entries", "receipt-problem-invalid", least=1),
    )


def _residuals(value: Json, what: str, code: str) -> Residuals:
    item = as_object(value, what, _names(Residuals), code)
    return Residuals(*(_bound(item[name], f"{what}: {name}", code) for name in ("mass", "box", "stationarity")))


def _attempts(value: Json) -> tuple[AttemptStated, ...]:
    if not isinstance(value, tuple):
        raise VerificationError("attempts is not a list", code="receipt-attempts-invalid")
    attempts = []
    for entry in value:
        item = as_object(entry, "an attempt", _names(AttemptStated), "receipt-attempts-invalid")
        check, error = item["check"], item["error"]
        if (check is None) == (error is None):
            raise VerificationError(
                "an attempt has either residuals or the class of an error", code="receipt-attempts-invalid"
            )
        attempts.append(
            AttemptStated(
                as_text(item["path"], "path", _WORD, "receipt-attempts-invalid"),
                None if check is None else _residuals(check, "an attempt", "receipt-attempts-invalid"),
                as_number(item["seconds"], "seconds of an attempt", "receipt-attempts-invalid"),
                None if error is None else as_text(error, "error", _CLASS, "receipt-attempts-invalid"),
            )
        )
    return tuple(attempts)


def _reference(value: Json) -> ReferenceStated:
    item = as_object(value, "reference", _names(ReferenceStated), "receipt-reference-invalid")
    kind = as_one_of(item["denominator"], "denominator", get_args(Denominator), "receipt-reference-invalid")
    return ReferenceStated(
        as_text(item["backend"], "backend", _WORD, "receipt-reference-invalid"),
        _bound(item["residual"], "residual of the reference", "receipt-reference-invalid"),
        _bound(item["readout_difference"], "readout difference", "receipt-reference-invalid"),
        cast(Denominator, kind),
        as_integer(item["probes"], "probes", "receipt-reference-invalid", least=1),
    )


def _refusal(value: Json) -> Refusal:
    item = as_object(value, "refusal", _names(Refusal), "receipt-refusal-invalid")
    reason = cast(Reason, as_one_of(item["reason"], "reason", get_args(Reason), "receipt-refusal-invalid"))
    measured, allowed = (
        None if item[name] is None else as_number(item[name], name, "receipt-refusal-invalid", most=math.inf)
        for name in ("measured", "allowed")
    )
    return Refusal(reason, measured, allowed)


def _pruning(value: Json) -> Pruning:
    item = as_object(value, "pruning", _names(Pruning), "receipt-pruning-invalid")
    mode = cast(Mode, as_one_of(item["mode"], "mode", get_args(Mode), "receipt-pruning-invalid"))
    return Pruning(mode, as_integer(item["unproved"], "unproved", "receipt-pruning-invalid"))


def _solver(value: Json) -> Solver:
    item = as_object(value, "solver", _names(Solver), "receipt-solver-invalid")
    name = as_text(item["name"], "name of the solver", _WORD, "receipt-solver-invalid")
    return Solver(name, as_text(item["version"], "version of the solver", _VERSION, "receipt-solver-invalid"))


_STATED: Final = (Listed, Sizes, ProblemStated, Residuals, AttemptStated, ReferenceStated, Refusal, Pruning, Solver)
_NAMES: Final[dict[type, frozenset[str]]] = {
    stated: frozenset(field.name for field in fields(stated)) for stated in _STATED
}


def _names(stated: type) -> frozenset[str]:
    return _NAMES[stated]


def _bound(value: Json, what: str, code: str) -> float:
    number = as_number(value, what, code, most=math.inf)
    if number != at_most(number):
        raise VerificationError(f"{what} is not a residual rounded up", code=code)
    return number
