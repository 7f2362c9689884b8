"""How well an attacker does, with its uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import beta

__all__ = ["Score", "gain_over_guessing"]


def gain_over_guessing(left: int, candidates: int) -> float:
    """Advantage in one trial with so many candidates left, the true one among them: 0 if all are, 1 if it alone is."""
    return (1.0 / left - 1.0 / candidates) / (1.0 - 1.0 / candidates)


@dataclass(frozen=True)
class Score:
    """An attack over many trials: the sum of its advantages, each between 0 (guessing) and 1 (certainty).

    `found` counts the trials in which the erased entry was recovered, singled out, or told from the other one.
    """

    name: str
    sees: str
    trials: int
    gain: float
    found: int
    note: str = ""

    @property
    def advantage(self) -> float:
        """Mean advantage of a trial."""
        return self.gain / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the advantage (Clopper-Pearson); a fraction of a success is rounded to either side."""
        low, high = math.floor(self.gain), math.ceil(self.gain)
        below = float(beta.ppf(0.025, low, self.trials - low + 1)) if low > 0 else 0.0
        above = float(beta.ppf(0.975, high + 1, self.trials - high)) if high < self.trials else 1.0
        return below, above

    def to_json(self) -> dict[str, object]:
        """The row of the table."""
        return {
            "attack": self.name,
            "sees": self.sees,
            "trials": self.trials,
            "found": self.found,
            "advantage": round(self.advantage, 4),
            "interval": [round(bound, 4) for bound in self.interval],
            "note": self.note,
        }
