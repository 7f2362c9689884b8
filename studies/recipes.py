"""The recipes that are compared: the paper's, and the candidates of the tuning at 10M parameters.

In each round both arms get the same number of candidates, the same steps and the same seed; the gate's candidates spend
theirs on the gate (what is left ungated, scale of the weights, keys) and the optimiser, the window's on the optimiser
alone, which is all it has. The second round is for longer runs: what learns fast in the first does not end low. The
third is about weight decay, the fourth about dropout: 6,000 steps are eleven times through 5 MB, and both arms learn
it by heart. The fifth is about what the solve does to the keys, the sixth about how many it selects. The seventh is for
as much text as the paper has at 10M.
"""

from __future__ import annotations

from dataclasses import replace

from expunge.errors import InputError
from studies.config import Gate, Recipe

__all__ = ["CANDIDATES", "PAPER", "ROUNDS", "named"]

PAPER = Recipe()
NEAR = Gate(near=64)
GRADED = Gate(near=64, weight="graded")
SCALED = Gate(near=64, weight="graded", keys="scaled", radius=3.0)
RELATIVE = Gate(near=64, weight="relative")
LEARNED = Gate(near=64, weight="learned")
FLOOR = replace(LEARNED, floor=0.5)
ALONE = replace(LEARNED, gradient=0.0)
WIDTH = replace(LEARNED, width="learned")
TEMPERED = replace(ALONE, tempered=True)
# Spreads of the keys in widths: how few of them are active.
SPREADS = {f"spread {spread:g}": replace(ALONE, keys="scaled", radius=spread * LEARNED.sigma) for spread in (1, 1.5, 2)}


def _dropped(*, rate: float = 2e-3, dropout: float = 0.1, gate: Gate = PAPER.gate) -> Recipe:
    return Recipe(rate=rate, warmup=600, dropout=dropout, gate=gate)


def _long(*, rate: float = 2e-3, gate: Gate = PAPER.gate) -> Recipe:
    return Recipe(rate=rate, warmup=600, gate=gate)


ROUNDS: dict[str, dict[str, dict[str, Recipe]]] = {
    "first": {
        "hybrid": {
            "paper": PAPER,
            "near": Recipe(warmup=300, gate=NEAR),
            "near, graded": Recipe(warmup=300, gate=GRADED),
            "near, graded, scaled": Recipe(warmup=300, gate=SCALED),
            "near, graded, half rate": Recipe(rate=1.5e-3, warmup=300, gate=GRADED),
        },
        "window": {
            "paper": PAPER,
            "warm-up": Recipe(warmup=300),
            "two thirds rate": Recipe(rate=2e-3, warmup=300),
            "half rate": Recipe(rate=1.5e-3, warmup=300),
            "third rate": Recipe(rate=1e-3, warmup=300),
        },
    },
    "second": {
        "hybrid": {
            "near, learned": Recipe(warmup=300, gate=LEARNED),
            "near, learned, two thirds rate": Recipe(rate=2e-3, warmup=300, gate=LEARNED),
            "near, learned, floor": Recipe(warmup=300, gate=FLOOR),
            "near, learned, floor, two thirds rate": Recipe(rate=2e-3, warmup=300, gate=FLOOR),
            "near, relative, two thirds rate": Recipe(rate=2e-3, warmup=300, gate=RELATIVE),
        },
        "window": {
            "warm-up": Recipe(warmup=300),
            "two thirds rate": Recipe(rate=2e-3, warmup=300),
            "two thirds rate, long warm-up": Recipe(rate=2e-3, warmup=600),
            "half rate": Recipe(rate=1.5e-3, warmup=300),
            "third rate": Recipe(rate=1e-3, warmup=300),
        },
    },
    # The same optimisers for both: what is left to the arms is the attention.
    "third": {
        arm: {
            label: Recipe(rate=rate, warmup=600, decay=decay, gate=gate)
            for label, rate, decay in (
                ("two thirds rate, long warm-up", 2e-3, 0.1),
                ("two thirds rate, long warm-up, decay 0.5", 2e-3, 0.5),
                ("two thirds rate, long warm-up, decay 1", 2e-3, 1.0),
                ("half rate, long warm-up, decay 0.5", 1.5e-3, 0.5),
            )
        }
        for arm, gate in (("hybrid", LEARNED), ("window", Gate()))
    },
    # This round and the next are meant for all 6,000 steps.
    "fourth": {
        arm: {f"dropout {share:g}": _dropped(dropout=share, gate=gate) for share in (0.1, 0.2)}
        for arm, gate in (("hybrid", LEARNED), ("window", Gate()))
    },
    # With dropout. What the solve does to the keys, against what dropout and rate do to the window.
    "fifth": {
        "hybrid": {
            "keys left alone": _dropped(gate=ALONE),
            "learned width": _dropped(gate=WIDTH),
            "learned width, keys left alone": _dropped(gate=replace(WIDTH, gradient=0.0)),
        },
        "window": {
            "dropout 0.05": _dropped(dropout=0.05),
            "dropout 0.15": _dropped(dropout=0.15),
            "dropout 0.1, full rate": _dropped(rate=3e-3),
        },
    },
    # Gates that select, each beside the window of its size: before, nine of ten keys were active.
    "sixth": {
        "hybrid": {label: _dropped(gate=gate) for label, gate in SPREADS.items()},
        "window": {label: _dropped() for label in SPREADS},
    },
    # For 20 MB of text, which 6,000 steps go through less than three times: no dropout. Two gates have less and less to
    # say: what helps early costs late where a text is learned by heart.
    "seventh": {
        "hybrid": {
            "long text": _long(gate=ALONE),
            "long text, full rate": _long(rate=3e-3, gate=ALONE),
            "long text, fading": replace(_long(gate=ALONE), gate_decay=1.0),
            "long text, tempered, fading": replace(_long(gate=TEMPERED), gate_decay=1.0),
            "long text, spread 2": _long(gate=SPREADS["spread 2"]),
        },
        "window": {
            "long text": _long(),
            "long text, full rate": _long(rate=3e-3),
            "long text, half rate": _long(rate=1.5e-3),
            "long text, dropout 0.05": replace(_long(), dropout=0.05),
            "long text, decay 0.3": replace(_long(), decay=0.3),
        },
    },
}

# 1/n in the place of the solve: what the weights do without it. Not a round of the tuning: its best is not compared.
CONTROL = {
    f"even, {label}": Recipe(rate=rate, warmup=300, gate=replace(gate, keys="none"))
    for label, rate, gate in (
        ("near", 2e-3, NEAR),
        ("near, graded", 2e-3, GRADED),
        ("near, graded, full rate", 3e-3, GRADED),
        ("near, learned", 2e-3, LEARNED),
        ("near, learned, full rate", 3e-3, LEARNED),
    )
}
CONTROL_DROPPED = {"even, near, learned, dropout 0.1": _dropped(gate=replace(LEARNED, keys="none"))}
CONTROL_LONG = {
    f"even, {label}": replace(recipe, gate=replace(recipe.gate, keys="none"))
    for label, recipe in ROUNDS["seventh"]["hybrid"].items()
    if recipe.gate == ALONE
}
CANDIDATES = ROUNDS | {
    "control": {"hybrid": CONTROL},
    "control-dropout": {"hybrid": CONTROL_DROPPED},
    "control-long": {"hybrid": CONTROL_LONG},
}


def named(arm: str, label: str) -> Recipe:
    """A candidate of an arm, or a control of the hybrid's, by its label."""
    for arms in CANDIDATES.values():
        if label in arms.get(arm, {}):
            return arms[arm][label]
    raise InputError(f"no candidate of the {arm} arm is called {label!r}")
