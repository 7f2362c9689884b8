"""Dropout whose masks are a function of seed, step and place.

A stack's step is captured once and replayed, and a resumed run must be the run that never stopped, so a mask comes from
no generator's state: a place is dropped when a 32-bit mix of its index and its layer's salt is below a threshold. Slots
of one stack may differ in how much they drop, and arms of one seed drop alike.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from studies.config import Run

__all__ = ["Dropout", "Noise", "drop"]

MASK = 0xFFFFFFFF


def _mix(word: torch.Tensor) -> torch.Tensor:
    """32 bits in which every bit depends on every bit of ``word``, as int64 (a hash of Wellons's search)."""
    word = word & MASK
    # Both factors are below 2³¹, so no product leaves the range of int64.
    word = ((word ^ (word >> 16)) * 0x21F0AAAD) & MASK
    word = ((word ^ (word >> 15)) * 0x735A2D97) & MASK
    return word ^ (word >> 15)


class Noise(NamedTuple):
    """What one site of a forward pass drops, one entry per slot."""

    salt: torch.Tensor
    threshold: torch.Tensor
    scale: torch.Tensor


def drop(x: torch.Tensor, noise: Noise | None) -> torch.Tensor:
    """``x`` (slots, rows, width) with places set to zero and the others scaled up to keep the mean."""
    if noise is None:
        return x
    salt, threshold, scale = (part[:, None, None] for part in noise)
    place = torch.arange(x[0].numel(), device=x.device).view(x.shape[1:])
    return x * ((_mix(place + salt) >= threshold) * scale).to(x.dtype)


class Dropout:
    """The shares that a run's slots drop."""

    def __init__(self, run: Run, device: str) -> None:
        shares = torch.tensor([slot.recipe.dropout for slot in run.slots], dtype=torch.float64)
        self.active = bool((shares > 0).any())
        # What attention adds and what the MLP adds, layer by layer.
        self._count = 2 * run.shape.layers
        self._seeds = _mix(torch.tensor([slot.seed for slot in run.slots]) + 1).to(device)
        self._threshold = (shares * (MASK + 1)).long().to(device)
        self._scale = (1 / (1 - shares)).float().to(device)

    def sites(self, step: torch.Tensor | None) -> list[Noise | None]:
        """The noise of every site in a step. Nothing is dropped where the step is None, and there is no noise at all
        where no slot drops, so that such a run is the same to the bit as one without dropout.
        """
        if not self.active:
            return [None] * self._count
        if step is None:
            # The same operations as in training: a compiled stack then reuses its graph.
            nothing = Noise(self._seeds, torch.zeros_like(self._threshold), torch.ones_like(self._scale))
            return [nothing] * self._count
        places = torch.arange(self._count, device=self._seeds.device)[:, None]
        salts = _mix(_mix(self._seeds + step) + places)
        return [Noise(salt, self._threshold, self._scale) for salt in salts]
