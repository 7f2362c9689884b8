"""The settings of every run: model shapes, recipes and arms (docs/results/protocols.md, Training).

A *slot* is one model of a stack: a seed and a recipe. A stack trains all its slots at once on one device, so everything
that may differ between slots is in :class:`Recipe`, and everything that may not is in :class:`Run`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from expunge.errors import InputError

__all__ = ["ARMS", "SHAPES", "Gate", "Recipe", "Run", "Shape", "Slot"]

ARMS = ("hybrid", "window", "softmax")
VOCABULARY = 256


@dataclass(frozen=True)
class Shape:
    """A byte-level transformer: learned positions, tied head, MLP of four times the width, GELU."""

    layers: int
    width: int
    heads: int
    block: int

    @property
    def parameters(self) -> int:
        """Weights without the position table, the count that gives the paper's 3.22M."""
        norms = 4 * self.width * self.layers + 2 * self.width
        return 12 * self.width**2 * self.layers + VOCABULARY * self.width + norms


SHAPES = {
    "3m": Shape(layers=4, width=256, heads=4, block=256),
    "10m": Shape(layers=6, width=384, heads=6, block=512),
    "32m": Shape(layers=10, width=512, heads=8, block=512),
    "tiny": Shape(layers=2, width=32, heads=2, block=80),
}


@dataclass(frozen=True)
class Gate:
    """How the coefficients are solved and used.

    ``weight="raw"`` is the paper: the readout of a prefix key is multiplied by α, which sums to one over the prefix,
    beside a factor of 1 inside the current chunk. The others multiply by α times a power of the number of active keys:
    ``"relative"`` by the first, so that the mean factor of an active key is 1 at any context length; ``"graded"`` by
    powers that rise from 0 in the first head to 1 in the last; ``"learned"`` by powers that start there and are
    parameters of the model, one a head and layer, decaying towards 1. ``near`` keys before the chunk are not gated.
    ``floor`` is what a learned weight begins with as the share of 1/n mixed into α, so that a key of zero coefficient
    is still seen; each head learns its share. All of it is full softmax at a power of 1 and a share of 1. ``tempered``
    weights are (mα)ᵗ times the learned power of m, the number of active keys, with a t that each head learns from 1:
    at 0 the gate opens and closes, and weighs nothing.

    ``keys="unit"`` solves on keys scaled to norm ``radius``; ``"scaled"`` on keys scaled so that their spread around
    the mean of the first chunk is ``radius``, which every prefix contains: the width then follows the keys; ``"none"``
    solves nothing and puts 1/n in the place of α, to see what the solve adds. ``width="learned"`` divides σ by a factor
    that each head learns; where it is fixed, keys must move for a gate to open. ``gradient`` scales
    the gradient that reaches the keys through the solve: 1 the paper, 0 none.
    """

    cap: float = 0.25
    sigma: float = 2.0
    chunk: int = 64
    weight: Literal["raw", "relative", "graded", "learned"] = "raw"
    near: int = 0
    floor: float = 0.0
    keys: Literal["plain", "unit", "scaled", "none"] = "plain"
    radius: float = 2.0
    width: Literal["fixed", "learned"] = "fixed"
    gradient: float = 1.0
    tempered: bool = False

    def __post_init__(self) -> None:
        if self.tempered and (self.weight != "learned" or self.floor or self.gradient):
            raise InputError("tempered weights are learned ones without a floor, on keys that are left alone")
        if self.width == "learned" and self.keys == "none":
            raise InputError("a learned width is that of a gate that is solved")
        if not 0 <= self.floor < 1 or (self.floor and self.weight != "learned"):
            raise InputError("a floor is a share of at least 0 and below 1, of a learned weight")

    @property
    def problem(self) -> Gate:
        """The gate with nothing but what its coefficients depend on."""
        return replace(self, weight="raw", near=0, floor=0.0, tempered=False)

    @property
    def fewest(self) -> int:
        """Keys below which the gate is off (paper, appendix C): ⌈1/C⌉ + 2."""
        return math.ceil(1 / self.cap) + 2


@dataclass(frozen=True)
class Recipe:
    """How one slot is optimised and gated. ``decay`` is that of the matrices; gains and shifts have the run's, and
    what a gate has learned ``gate_decay``, where that is given.
    ``dropout`` is the share of what a block's attention and MLP add that is set to zero in training.
    """

    rate: float = 3e-3
    warmup: int = 0
    decay: float = 0.1
    dropout: float = 0.0
    gate: Gate = field(default_factory=Gate)
    gate_decay: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is a share of at least 0 and below 1, not {self.dropout}")


@dataclass(frozen=True)
class Slot:
    """One model of a stack. ``window`` is the visible tokens of the sliding-window arm."""

    seed: int
    recipe: Recipe = field(default_factory=Recipe)
    window: int | None = None
    label: str = ""


@dataclass(frozen=True)
class Run:
    """A stack of slots of one arm and shape, trained together."""

    name: str
    arm: str
    shape: Shape
    slots: tuple[Slot, ...]
    steps: int = 6000
    batch: int = 16
    betas: tuple[float, float] = (0.9, 0.95)
    decay: float = 0.1
    clip: float = 1.0
    evaluate_every: int = 500
    # First scored position of a block and the step between scored ones: every byte of a text, every answer of a quiz.
    scored: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        if self.arm not in ARMS:
            raise InputError(f"no arm {self.arm!r}: choose from {', '.join(ARMS)}")
        if not self.slots:
            raise InputError("a run needs at least one slot")
        if self.arm == "window" and any(slot.window is None or slot.window < 1 for slot in self.slots):
            raise InputError("every slot of the window arm needs the number of visible tokens")
        if min(self.steps, self.batch, self.evaluate_every) < 1:
            raise InputError("steps, batch and evaluate_every are at least 1")

    @property
    def learns_weights(self) -> bool:
        """Whether the models have the parameters of a learned gate."""
        gates = [slot.recipe.gate for slot in self.slots]
        return self.arm == "hybrid" and any("learned" in (gate.weight, gate.width) for gate in gates)

    def describe(self) -> dict[str, Any]:
        """Plain data, for the results file."""
        return asdict(self) | {"parameters": self.shape.parameters}
