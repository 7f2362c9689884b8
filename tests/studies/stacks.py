"""Small runs and a corpus made from nothing, for the tests of the studies."""

from __future__ import annotations

import numpy as np
import torch

from studies.config import SHAPES, Recipe, Run, Slot
from studies.data import Corpus

WORDS = ("the gate", "a key", "holds", "forgets", "one", "seven", "margins", "and", "of", "proofs.")


def text(length: int, seed: int = 0) -> torch.Tensor:
    """Words in random order: bytes with something to learn."""
    rng = np.random.default_rng(seed)
    joined = " ".join(rng.choice(WORDS, size=length // 3))[:length]
    return torch.frombuffer(bytearray(joined, "ascii"), dtype=torch.uint8)


def corpus() -> Corpus:
    return Corpus("words", text(6000), text(900, 1), text(500, 2))


def run(arm: str, *, steps: int = 12, seeds: tuple[int, ...] = (0, 1), window: int | None = None) -> Run:
    slots = tuple(Slot(seed, Recipe(rate=3e-3), window=window) for seed in seeds)
    return Run(f"{arm}-tiny", arm, SHAPES["tiny"], slots, steps=steps, batch=4, evaluate_every=4)
