"""Reading a receipt: its fields, each in its one spelling, and what they must say of each other.

`parse_predicate` raises a VerificationError whose code says which field is wrong, or which two contradict each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias, cast, get_args

from expunge.errors import VerificationError
from expunge.ledger.encoding import MAX_INTEGER, Json, decode_float, is_sha256_hex
from expunge.ledger.receipt_format import (
    CHECK,
    COUNTED,
    DOES_NOT_COVER,
    FIELD_NAMES,
    FIELDS,
    PREDICATE_TYPE,
    RULES,
    TOLERANCES,
    WARRANTIES,
    Action,
    Listed,
    Mode,
    Outcome,
    Predicate,
    ProblemStated,
    Pruning,
    Reason,
    Refusal,
    RequestStated,
    Sizes,
    Solver,
)
from expunge.ledger.statement import Statement
from expunge.problem.check_kind import LEAST_COORDINATES, WITHIN_REACH, CheckKind

__all__ = [
    "UUID",
    "Object",
    "as_digest",
    "as_integer",
    "as_list",
    "as_number",
    "as_object",
    "as_one_of",
    "as_request",
    "as_text",
    "as_time",
    "parse_predicate",
]

WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")
Object: TypeAlias = Mapping[str, Json]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def as_object(value: Json, what: str, names: Collection[str], code: str) -> Object:
    """An object with exactly these fields."""
    if not isinstance(value, Mapping):
        raise VerificationError(f"{what} is not an object", code=code)
    if missing := sorted(set(names) - value.keys()):
        raise VerificationError(f"{what} has no {missing[0]}", code="receipt-field-missing")
    if unknown := sorted(value.keys() - set(names)):
        raise VerificationError(f"{what} has an unknown field {unknown[0][:80]!r}", code="receipt-field-unknown")
    return value


def as_integer(value: Json, what: str, code: str, least: int = 0) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_INTEGER:
        raise VerificationError(f"{what} is not a whole number of at least {least}", code=code)
    return value


def as_number(value: Json, what: str, code: str, most: float = 1e300) -> float:
    """A nonnegative number, spelled in hexadecimal."""
    try:
        number = decode_float(value) if isinstance(value, str) else -1.0
    except VerificationError:
        number = -1.0
    # The sign of zero would give one number two spellings.
    if not 0.0 <= number <= most or math.copysign(1.0, number) < 0.0:
        raise VerificationError(f"{what} is not the hexadecimal spelling of a number of at least 0", code=code)
    return number


def as_text(value: Json, what: str, pattern: re.Pattern[str], code: str) -> str:
    """Text of one pattern."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise VerificationError(f"{what} is not spelled as it should be", code=code)
    return value


def as_one_of(value: Json, what: str, allowed: Collection[str], code: str) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise VerificationError(f"{repr(value)[:80]} is not a known {what}", code=code)
    return value


def as_digest(value: Json, what: str) -> str:
    """A SHA-256 in hexadecimal."""
    if not is_sha256_hex(value):
        raise VerificationError(f"{what} is not a digest", code="receipt-state-invalid")
    return value


def as_time(value: Json) -> str:
    """A UTC time to the second."""
    text = as_text(value, "time", _TIME, "receipt-time-invalid")
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise VerificationError(f"{text} is not a time", code="receipt-time-invalid") from None
    return text


def parse_predicate(statement: Statement) -> Predicate:
    """Read the receipt in a statement, strictly, and check that it does not contradict itself."""
    if statement.predicate_type != PREDICATE_TYPE:
        raise VerificationError(
            f"{statement.predicate_type[:80]!r} is not {PREDICATE_TYPE}", code="statement-predicate-type-mismatch"
        )
    document = as_object(statement.predicate, "the receipt", FIELDS, "receipt-error")
    outcome = cast(Outcome, as_one_of(document["outcome"], "outcome", RULES, "receipt-outcome-invalid"))
    state = as_object(document["state"], "state", {"before", "after"}, "receipt-state-invalid")
    entries = as_object(document["entries"], "entries", {"before", "after"}, "receipt-entries-invalid")
    warranties = as_object(document["warranties"], "warranties", WARRANTIES, "receipt-commitments-invalid")
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
        applied=as_list(document["applied"], "applied"),
        problem=_problem(document["problem"]),
        solver=_solver(document["solver"]),
        request=as_request(document["request"]),
        ended=as_list(warranties["ended"], "ended"),
        expired=as_list(warranties["expired"], "expired"),
        renewed=as_list(warranties["renewed"], "renewed"),
        reactivated=as_list(warranties["reactivated"], "reactivated"),
        pruning=None if document["pruning"] is None else _pruning(document["pruning"]),
        refusal=None if document["refusal"] is None else _refusal(document["refusal"]),
        restored_edit=_restored_edit(document),
        check_kind=_check_verdict(document["check"]),
    )
    tolerances = as_object(document["tolerances"], "tolerances", TOLERANCES.keys(), "receipt-tolerances-invalid")
    if tolerances != TOLERANCES:
        raise VerificationError(f"tolerances other than those of {PREDICATE_TYPE}", code="receipt-tolerances-invalid")
    if document["covers"] != predicate.covers or document["does_not_cover"] != DOES_NOT_COVER:
        raise VerificationError(f"the outcome {outcome} covers something else", code="receipt-coverage-invalid")
    _check_states(predicate)
    _check_entries(predicate)
    _check_check_kind(predicate)
    if statement.subjects != predicate.subjects:
        raise VerificationError(
            "the statement is not about the states that its receipt names", code="receipt-subject-mismatch"
        )
    return predicate


def _check_states(receipt: Predicate) -> None:
    rule = RULES[receipt.outcome]
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


# Outcomes that name an entry at least, and those after which a memory may be empty.
_NAMES_ENTRIES = ("admitted", "certified_zero", "decrement", "refitted", "emptied", "pruned")
_MAY_BE_EMPTY = ("created", "emptied", "refused", "noop", "expired", "restored", "certified_zero")


def _check_entries(receipt: Predicate) -> None:
    before, after, applied = receipt.before, receipt.after, receipt.applied.count
    back = receipt.reactivated.count
    ended, over = receipt.ended.count, receipt.ended.count + receipt.expired.count
    if applied == 0 and receipt.outcome in _NAMES_ENTRIES:
        raise VerificationError(f"{receipt.outcome}, and no entry is named", code="receipt-applied-empty")
    empties = receipt.outcome == "certified_zero" and before.live > 0
    if after.live == 0 and (empties or receipt.outcome not in _MAY_BE_EMPTY):
        raise VerificationError(
            f"{receipt.outcome}, which leaves no live entry and does not say so", code="receipt-empty-unstated"
        )
    match receipt.outcome, receipt.action:
        case "created", _:
            adds_up = before.total == after.pruned == back == receipt.renewed.count == over == 0
            adds_up = adds_up and after.live == applied
        case "refused" | "noop", _:
            adds_up = before == after and applied == back == receipt.renewed.count == over == 0
        case "expired", _:
            adds_up = before == after and applied == back == receipt.renewed.count == 0 < over
        case "restored", _:
            adds_up = applied == back == receipt.renewed.count == over == 0
        case _, "admission":
            # Only what takes entries away for good, or changes the cap, ends certificates.
            adds_up = applied == after.total - before.total and after.live == before.live + applied + back
            adds_up = adds_up and ended == 0
        case _, "deletion":
            # Some may have been pruned before; the others were live.
            adds_up = applied == before.total - after.total and 0 <= before.live + back - after.live <= applied
            adds_up = adds_up and (receipt.outcome != "emptied" or after.live == 0 < before.live)
        case _, "pruning":
            adds_up = applied == before.live - after.live and before.total == after.total
            forgets = receipt.pruning is not None and receipt.pruning.mode == "forget"
            adds_up = adds_up and back == 0 and (forgets or ended == 0)
        case _:
            adds_up = applied == 0 and before.total == after.total and after.live == before.live + back
    if not adds_up:
        raise VerificationError(
            f"{receipt.outcome}: {before} and {after} do not follow from what was applied",
            code="receipt-entries-mismatch",
        )
    cap = receipt.problem.cap
    if cap != 1.0 if after.live == 0 else after.live * Fraction(cap) < 1:
        raise VerificationError(
            f"{after.live} live entries at cap {cap!r}: a memory has none at cap 1, or at least 1/cap",
            code="receipt-cap-infeasible",
        )


def _check_check_kind(receipt: Predicate) -> None:
    """From how many numbers a check takes its slacks decides its kind: active entries are at least 1/cap, at most all.

    Products are rounded, in the same way by every verifier; an integer that is within a limit stays so.
    """
    live, cap = receipt.after.live, receipt.problem.cap
    width = float(max(receipt.problem.dimension, LEAST_COORDINATES))
    least, most = float(live) * width > WITHIN_REACH * cap, float(live) * float(live) * width > WITHIN_REACH
    if least if receipt.check_kind == "keys" else not most:
        raise VerificationError(
            f"{live} live entries are not checked from {receipt.check_kind}", code="receipt-check-invalid"
        )


def _check_verdict(value: Json) -> CheckKind:
    found = as_object(value, "check", {"kind", *CHECK}, "receipt-check-invalid")
    kind = cast(CheckKind, as_one_of(found["kind"], "kind of a check", get_args(CheckKind), "receipt-check-invalid"))
    if not isinstance(found["passed"], bool) or found["tolerance"] != CHECK["tolerance"]:
        raise VerificationError("the check is not a verdict at the published tolerance", code="receipt-check-invalid")
    if not found["passed"]:
        raise VerificationError("the state after the edit did not pass the check", code="receipt-check-failed")
    return kind


def _restored_edit(document: Mapping[str, Json]) -> int | None:
    if (document["restored_edit"] is None) == (document["action"] == "restoration"):
        raise VerificationError("a restoration, and nothing else, names an earlier edit", code="receipt-edit-invalid")
    if document["restored_edit"] is None:
        return None
    edit = as_integer(document["restored_edit"], "restored edit", "receipt-edit-invalid")
    if edit >= cast(int, document["edit"]):
        raise VerificationError(
            f"restored to edit {edit}, which is not before edit {document['edit']}", code="receipt-edit-invalid"
        )
    return edit


def _sizes(value: Json, what: str) -> Sizes:
    item = as_object(value, what, FIELD_NAMES[Sizes], "receipt-entries-invalid")
    return Sizes(*(as_integer(item[name], name, "receipt-entries-invalid") for name in ("live", "pruned")))


def as_list(value: Json, what: str) -> Listed:
    """A list of entries, by commitment or by root."""
    item = as_object(value, what, FIELD_NAMES[Listed], "receipt-commitments-invalid")
    found, root = item["commitments"], item["root"]
    count = as_integer(item["count"], f"{what}: count", "receipt-commitments-invalid")
    if not isinstance(found, tuple) or not all(is_sha256_hex(digest) for digest in found):
        raise VerificationError(f"{what} is not a list of commitments", code="receipt-commitments-invalid")
    digests = cast(tuple[str, ...], found)
    if any(one >= other for one, other in pairwise(digests)):
        raise VerificationError(f"{what}: the commitments do not ascend", code="receipt-commitments-invalid")
    if root is not None and not (is_sha256_hex(root) and not digests and count):
        raise VerificationError(
            f"{what}: a root stands for a list that is not there", code="receipt-commitments-invalid"
        )
    if root is None and count != len(digests):
        raise VerificationError(
            f"{what}: {len(digests)} commitments, and a count of {count}", code="receipt-count-mismatch"
        )
    return Listed(digests, count, root)


def as_request(value: Json) -> RequestStated:
    """The id of a request, and the commitments to its case and actor."""
    item = as_object(value, "request", FIELD_NAMES[RequestStated], "receipt-request-invalid")
    for name in ("case", "actor"):
        if item[name] is not None and not is_sha256_hex(item[name]):
            raise VerificationError(f"the {name} of the request is not a commitment", code="receipt-request-invalid")
    name = as_text(item["id"], "id of the request", UUID, "receipt-request-invalid")
    return RequestStated(name, cast("str | None", item["case"]), cast("str | None", item["actor"]))


def _problem(value: Json) -> ProblemStated:
    item = as_object(value, "problem", FIELD_NAMES[ProblemStated], "receipt-problem-invalid")
    cap, sigma = (as_number(item[name], name, "receipt-problem-invalid") for name in ("cap", "sigma"))
    if not (0.0 < cap <= 1.0 and 1e-150 <= sigma <= 1e150):
        raise VerificationError(f"cap {cap!r} or width {sigma!r} is out of range", code="receipt-problem-invalid")
    size = item["initial_entries"]
    return ProblemStated(
        cap,
        sigma,
        as_integer(item["dimension"], "dimension", "receipt-problem-invalid", least=1),
        None if size is None else as_integer(size, "initial_entries", "receipt-problem-invalid"),
    )


def _refusal(value: Json) -> Refusal:
    item = as_object(value, "refusal", FIELD_NAMES[Refusal], "receipt-refusal-invalid")
    reason = cast(Reason, as_one_of(item["reason"], "reason", get_args(Reason), "receipt-refusal-invalid"))
    holds = item["holds"]
    if not isinstance(holds, tuple):
        raise VerificationError("the holds of a refusal are not a list", code="receipt-refusal-invalid")
    numbers = tuple(as_integer(hold, "hold", "receipt-refusal-invalid", least=1) for hold in holds)
    if any(one >= other for one, other in pairwise(numbers)):
        raise VerificationError("the numbers of the holds do not ascend", code="receipt-refusal-invalid")
    if reason not in COUNTED and (item["measured"] is not None or item["allowed"] is not None):
        raise VerificationError(f"a refusal for {reason} states no numbers", code="receipt-refusal-invalid")
    measured, allowed = None, None
    if reason in COUNTED:
        measured = as_integer(item["measured"], "measured", "receipt-refusal-invalid")
        allowed = as_integer(item["allowed"], "allowed", "receipt-refusal-invalid")
    # Before the names: whoever counts no hold has none to name.
    if measured == 0:
        raise VerificationError(f"a refusal for {reason}, of which there are none", code="receipt-refusal-unmeasured")
    if bool(numbers) != (reason == "legal_hold"):
        raise VerificationError("a refusal for holds, and no other, names them", code="receipt-refusal-invalid")
    if measured is None or allowed is None:
        return Refusal(reason)
    if measured <= allowed:
        raise VerificationError(
            f"{measured} measured and {allowed} allowed do not refuse", code="receipt-refusal-not-exceeded"
        )
    return Refusal(reason, measured, allowed, numbers)


def _pruning(value: Json) -> Pruning:
    item = as_object(value, "pruning", FIELD_NAMES[Pruning], "receipt-pruning-invalid")
    mode = cast(Mode, as_one_of(item["mode"], "mode", get_args(Mode), "receipt-pruning-invalid"))
    return Pruning(mode, as_integer(item["unproved"], "unproved", "receipt-pruning-invalid"))


def _solver(value: Json) -> Solver:
    item = as_object(value, "solver", FIELD_NAMES[Solver], "receipt-solver-invalid")
    name = as_text(item["name"], "name of the solver", WORD, "receipt-solver-invalid")
    return Solver(name, as_text(item["version"], "version of the solver", VERSION, "receipt-solver-invalid"))
