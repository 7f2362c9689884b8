"""The record of one edit, applied or refused. It names entries by id and holds none of their content.

Whatever is signed, stored or sent is an `EditRecord`. A `Receipt` adds what was measured in this process: residuals,
paths, pivots, times. These depend on the removed entry, and an attacker who holds the other entries and the code could
compare them with those of a guess. So `to_json` leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from expunge.certificates.certificate import DOES_NOT_COVER
from expunge.display.card import Card, Displayed, counted
from expunge.display.outcomes import OUTCOMES
from expunge.problem.check import StateCheck
from expunge.solver.attempts import Attempt

__all__ = ["FORGET_NOTICE", "Action", "EditRecord", "Outcome", "Reason", "Receipt", "RecordedOutcome", "RefusalReason"]

Action = Literal["admission", "deletion", "pruning", "rebuild"]
Reason = Literal["no_acceptable_state", "would_end_warranties", "legal_hold"]
# The outcomes that are signed, stored and sent. None depends on the path that led to the state.
RecordedOutcome = Literal[
    "admitted",
    "certified_zero",
    "decrement",
    "refitted",
    "emptied",
    "refused",
    "noop",
    "pruned",
    "rebuilt",
]
Outcome = Literal[RecordedOutcome, "rescued"]

# What everybody who prunes in the mode *forget* is told, before it runs and in its receipt.
FORGET_NOTICE: Final = (
    "the first erasure of an entry that is live at this pruning ends all its certificates, and so does a rebuild"
)

_WARRANTIES: Final = (
    ("reactivated", "came back from the archive"),
    ("renewed", "renewed"),
    ("expired", "expired"),
    ("ended", "ended for good"),
)
# This many admitted entries are named in a notebook.
_NAMED: Final = 5


@dataclass(frozen=True)
class RefusalReason:
    """Why an edit was refused, as numbers: what was measured, and what would have been allowed.

    Entries under hold, certificates where some would end, residuals where no path passes the check. A refusal for holds
    has their numbers.
    """

    reason: Reason
    measured: float | None
    allowed: float | None
    holds: tuple[int, ...] = ()

    def recorded(self) -> RefusalReason:
        """The refusal as it is signed, stored and sent: counts of entries stay, a residual does not."""
        return RefusalReason(self.reason, None, None) if self.reason == "no_acceptable_state" else self


@dataclass(frozen=True, kw_only=True)
class EditRecord(Displayed):
    """What an edit did, without measurements: outcome, entries, states, and what it does and does not claim.

    A refused edit, and no other, has the grounds of its ``refusal``.
    """

    action: Action
    outcome: Outcome
    applied: tuple[str, ...]
    covers: str
    state_before: str
    state_after: str
    refusal: RefusalReason | None = None
    does_not_cover: tuple[str, ...] = DOES_NOT_COVER
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The record as the store keeps it, and as the command line, the service and agents show it."""
        return {
            "action": self.action,
            "outcome": self.outcome,
            "applied": list(self.applied),
            "refusal": None if self.refusal is None else vars(self.refusal.recorded()),
            "covers": self.covers,
            "does_not_cover": list(self.does_not_cover),
            "state_before": self.state_before,
            "state_after": self.state_after,
            "details": self.details,
        }

    def _card(self) -> Card:
        """What the edit did. It counts entries that were erased and does not name them."""
        changed = ((len(self.details.get(word, ())), text) for word, text in _WARRANTIES)
        names = ", ".join(self.applied[:_NAMED]) + (", …" if len(self.applied) > _NAMED else "")
        named = f": {names}" if self.applied and self.outcome == "admitted" else ""
        return Card(
            title=f"Receipt of {'an' if self.action == 'admission' else 'a'} {self.action}",
            sentence=OUTCOMES[self.outcome],
            rows=(
                ("entries", f"{counted(len(self.applied), 'entry')}{named}" if self.applied else "none"),
                ("certificates", ", ".join(f"{count} {text}" for count, text in changed if count)),
                ("refused for", "" if self.refusal is None else self.refusal.reason.replace("_", " ")),
                ("covers", self.covers),
                ("does not cover", "; ".join(self.does_not_cover)),
            ),
            details=self._technical(),
        )

    def _technical(self) -> tuple[tuple[str, str], ...]:
        """Outcome, cap and states, as they are signed."""
        caps = self.details.get("cap_before"), self.details.get("cap")
        return (
            ("outcome", self.outcome),
            ("cap", "" if None in caps else f"{caps[0]:.6g} → {caps[1]:.6g}"),
            ("state before", self.state_before),
            ("state after", self.state_after),
        )


@dataclass(frozen=True, kw_only=True)
class Receipt(EditRecord):
    """An edit of a memory in this process, with what was measured: residuals, every path tried, pivots and time.

    Where a path failed and another one passed, ``outcome`` is ``rescued``, and ``rescued_to`` is the outcome that is
    signed, stored and sent.
    """

    check: StateCheck
    attempts: tuple[Attempt, ...]
    seconds: float
    pivots: int = 0
    rescued_to: RecordedOutcome | None = None

    @property
    def recorded_outcome(self) -> RecordedOutcome:
        """The outcome that is signed, stored and sent."""
        return cast(RecordedOutcome, self.outcome) if self.rescued_to is None else self.rescued_to

    def to_json(self) -> dict[str, Any]:
        """The record of the edit, without measurements."""
        return super().to_json() | {"outcome": self.recorded_outcome}

    def _technical(self) -> tuple[tuple[str, str], ...]:
        verdict = "passed" if self.check.passed else "failed"
        return (
            *super()._technical(),
            ("check", f"{verdict}: worst error {self.check.worst:.1e}, allowed {self.check.tolerance:.0e}"),
            ("solved in", f"{1e3 * self.seconds:.3g} ms, {counted(self.pivots, 'pivot')}"),
        )
