"""What every selection experiment shares: its arms, and a row of what was measured.

Arms are the policies of `expunge.selection`, the attempts that did not become one (`attempted_policies`), and ``full``,
the context with nothing dropped. All arms of a trial see one context and keep the same number of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from expunge.audit.context_selection.attempted_policies import ATTEMPTS
from expunge.selection import POLICIES, Context, Policy, Support
from expunge.selection.policies import selected
from expunge.types import IndexArray

__all__ = ["ARMS", "FULL", "ArmResult", "choices", "mean_of"]

FULL = "full"
ARMS: dict[str, Policy] = {**POLICIES, **ATTEMPTS}


@dataclass(frozen=True)
class ArmResult:
    """One arm's outcome in one trial.

    ``recall`` is the experiment's measure: of rare groups, of pairs, of event hours, of evidence. ``common`` is the
    recall of common groups; ``found`` the share of evidence among the five nearest entries kept.
    """

    regime: str
    arm: str
    trial: int
    size: float
    budget: float
    recall: float
    common: float | None = None
    found: float | None = None


def choices(
    context: Context,
    budget: int,
    rng: np.random.RandomState,
    arms: Iterable[str] = tuple(ARMS),
    *,
    nu: float | None = None,
) -> Iterator[tuple[str, IndexArray]]:
    """Each arm and the rows it keeps, ascending; then the full context. Only ``uniform`` draws from `rng`.

    With `nu` the support arm is that of the fit at `nu`: the support set itself, where the budget is its size.
    """
    for arm in arms:
        policy = Support(nu=nu) if arm == "support" else ARMS[arm]
        yield arm, selected(policy, context, budget, rng)
    yield FULL, np.arange(len(context), dtype=np.int64)


def mean_of(rows: list[ArmResult], regime: str, trial: int) -> Iterator[ArmResult]:
    """Each arm's means over several trials, as one row of a coarser trial."""
    for arm in dict.fromkeys(row.arm for row in rows):
        mine = [row for row in rows if row.arm == arm]
        seconds = [row.common for row in mine if row.common is not None]
        yield ArmResult(
            regime,
            arm,
            trial,
            float(np.mean([row.size for row in mine])),
            float(np.mean([row.budget for row in mine])),
            float(np.mean([row.recall for row in mine])),
            float(np.mean(seconds)) if seconds else None,
        )
