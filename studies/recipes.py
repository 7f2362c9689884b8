"""The recipes that are compared: the paper's, and the candidates of the tuning at 10M parameters.

Both arms get the same number of candidates, the same steps and the same seed; the gate's candidates spend theirs on the
gate (what is left ungated, scale of the weights, keys) and the optimiser, the window's on the optimiser alone, which is
all it has.
"""

from __future__ import annotations

from studies.config import Gate, Recipe

__all__ = ["HYBRID", "PAPER", "WINDOW", "named"]

PAPER = Recipe()
NEAR = Gate(near=64)
GRADED = Gate(near=64, weight="graded")
SCALED = Gate(near=64, weight="graded", keys="scaled", radius=3.0)

HYBRID = {
    "paper": PAPER,
    "near": Recipe(warmup=300, gate=NEAR),
    "near, graded": Recipe(warmup=300, gate=GRADED),
    "near, graded, scaled": Recipe(warmup=300, gate=SCALED),
    "near, graded, half rate": Recipe(rate=1.5e-3, warmup=300, gate=GRADED),
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
