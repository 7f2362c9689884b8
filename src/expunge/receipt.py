"""The record of one edit, applied or refused. It names entries by id and holds none of their content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from expunge.check import StateCheck

__all__ = ["DOES_NOT_COVER", "Action", "Attempt", "Grounds", "Outcome", "Reason", "Receipt"]

Action = Literal["admission", "deletion", "pruning", "rebuild"]
Reason = Literal["too_few_entries", "no_acceptable_state", "would_end_warranties", "legal_hold"]
Outcome = Literal["admitted", "certified_zero", "decrement", "rescued", "refused", "noop", "pruned", "rebuilt"]

DOES_NOT_COVER = (
    "copies made before the edit",
    "re-encoding of the remaining entries",
    "the weights of any model that saw the entry",
    "a refit at another cap",
    "later admissions, unless a warranty says so",
)


@dataclass(frozen=True)
class Attempt:
    """One way that was tried, and what the check measured on it."""

    path: str
    check: StateCheck | None
    seconds: float
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether it produced a state that the check accepts."""
        return self.check is not None and self.check.passed


@dataclass(frozen=True)
class Grounds:
    """Why an edit was refused, as numbers: what was measured, and what would have been allowed.

    Entries where too few would be left, certificates where some would end, residuals where no path passes the check.
    """

    reason: Reason
    measured: float
    allowed: float


@dataclass(frozen=True)
class Receipt:
    """What an edit did: outcome, entries, measured residuals, and what it does and does not claim.

    A refused one, and no other, has the grounds of its ``refusal``.
    """

    action: Action
    outcome: Outcome
    applied: tuple[str, ...]
    check: StateCheck
    attempts: tuple[Attempt, ...]
    covers: str
    state_before: str
    state_after: str
    seconds: float
    pivots: int = 0
    refusal: Grounds | None = None
    does_not_cover: tuple[str, ...] = DOES_NOT_COVER
    details: dict[str, Any] = field(default_factory=dict)
