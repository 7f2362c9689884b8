"""The record of one edit, applied or refused. It names entries by id and holds none of their content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from expunge.certificates.certificate import DOES_NOT_COVER
from expunge.problem.check import StateCheck
from expunge.solver.attempts import Attempt

__all__ = ["Action", "Outcome", "Reason", "Receipt", "RefusalReason"]

Action = Literal["admission", "deletion", "pruning", "rebuild"]
Reason = Literal["too_few_entries", "no_acceptable_state", "would_end_warranties", "legal_hold"]
Outcome = Literal["admitted", "certified_zero", "decrement", "rescued", "refused", "noop", "pruned", "rebuilt"]


@dataclass(frozen=True)
class RefusalReason:
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
    refusal: RefusalReason | None = None
    does_not_cover: tuple[str, ...] = DOES_NOT_COVER
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The receipt as the command line, the service and agents show it, in plain JSON values."""
        content: dict[str, Any] = {
            "action": self.action,
            "outcome": self.outcome,
            "applied": list(self.applied),
            "refusal": None if self.refusal is None else vars(self.refusal),
            "check": self.check.to_json(),
            "attempts": [
                {
                    "path": attempt.path,
                    "worst": None if attempt.check is None else attempt.check.worst,
                    "passed": attempt.passed,
                    "error": attempt.error,
                }
                for attempt in self.attempts
            ],
            "covers": self.covers,
            "does_not_cover": list(self.does_not_cover),
            "state_before": self.state_before,
            "state_after": self.state_after,
            "seconds": self.seconds,
            "pivots": self.pivots,
            "details": self.details,
        }
        return content
