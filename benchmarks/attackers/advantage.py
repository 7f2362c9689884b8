"""How well an attacker does, with its uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import beta

__all__ = ["Score"]


@dataclass(frozen=True)
class Score:
    """`hits` of `trials`, beside the share that guessing reaches.

    `singled_out` counts the trials in which the true entry alone was left. The advantage is (p − g)/(1 − g) for the
    probability p of naming the true entry and g that of a guess: 0 for guessing, 1 for certainty.
    """

    name: str
    sees: str
    trials: int
    hits: float
    singled_out: int
    guess: float
    note: str = ""

    @property
    def advantage(self) -> float:
        return self._advantage(self.hits / self.trials)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the advantage (Clopper–Pearson); fractions of a hit are rounded to the outside."""
        low, high = math.floor(self.hits), math.ceil(self.hits)
        below = float(beta.ppf(0.025, low, self.trials - low + 1)) if low > 0 else 0.0
        above = float(beta.ppf(0.975, high + 1, self.trials - high)) if high < self.trials else 1.0
        return self._advantage(below), self._advantage(above)

    def _advantage(self, share: float) -> float:
        return (share - self.guess) / (1.0 - self.guess)

    def to_json(self) -> dict[str, object]:
        low, high = self.interval
        return {
            "attack": self.name,
            "sees": self.sees,
            "trials": self.trials,
            "recovered_or_singled_out": self.singled_out,
            "named_rightly": round(self.hits, 3),
            "guess": self.guess,
            "advantage": round(self.advantage, 4),
            "interval": [round(low, 4), round(high, 4)],
            "note": self.note,
        }
