"""The recipes that are compared: the paper's, and the candidates of the tuning at 10M parameters.

Both arms get the same number of candidates, the same steps and the same seed; the gate's candidates spend theirs on the
gate (scale of the weights, keys, gradient) and the optimiser, the window's on the optimiser alone, which is all it has.
"""

from __future__ import annotations

from studies.config import Gate, Recipe

__all__ = ["HYBRID", "PAPER", "WINDOW", "named"]

PAPER = Recipe()
RELATIVE = Gate(weight="relative")
SCALED = Gate(weight="relative", keys="scaled")

HYBRID = {
    "paper": PAPER,
    "warm-up": Recipe(warmup=300),
    "relative": Recipe(warmup=300, gate=RELATIVE),
    "relative, scaled": Recipe(warmup=300, gate=SCALED),
    "relative, scaled, half rate": Recipe(rate=1.5e-3, warmup=300, gate=SCALED),
}

WINDOW = {
    "paper": PAPER,
    "warm-up": Recipe(warmup=300),
    "two thirds rate": Recipe(rate=2e-3, warmup=300),
    "half rate": Recipe(rate=1.5e-3, warmup=300),
    "third rate": Recipe(rate=1e-3, warmup=300),
}


def named(arm: str) -> dict[str, Recipe]:
    """The candidates of an arm, by label."""
    return HYBRID if arm == "hybrid" else WINDOW
