"""Does the gate keep what must be recalled? A negative control and a quiz (protocols P7 and P10).

*Control*: ten pairs of distinct keys, a learned projection, a normalised RBF readout, trained with and without the gate
(paper, appendix A). Every key is active there, so the gate can only cost. *Quiz* (multi-query associative recall):
pairs of symbols, a stretch of noise, then every key again; the model must say its partner. The stretch is longer than
the matched window, so an arm answers only from what it kept.

    python -m studies.recall --out studies/results
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from expunge.torch import SupportVectorGate
from studies.config import Gate, Recipe, Run, Shape, Slot
from studies.data import Corpus
from studies.record import RESULTS, machine, write
from studies.run import Desk, visible

__all__ = ["Projection", "control", "main", "quiz", "quiz_rows"]

PAIRS, INPUTS, WIDTH, VALUES = 10, 5, 4, 3
CAP, SIGMA, NOISE = 0.3, 1.5, 0.05
CONTROL_EVALUATION_SEED = 999

# The quiz: keys and their partners are drawn from two alphabets, the noise from a third.
QUIZ = Shape(layers=2, width=128, heads=2, block=256)
QUIZ_PAIRS, QUIZ_NOISE = 32, 129
KEY_BYTES, PARTNER_BYTES, NOISE_BYTES = (0, 96), (96, 192), (192, 256)


class Projection:
    """One projection for keys and queries, and the readout around it."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.weight = (torch.randn(INPUTS, WIDTH, generator=generator) / INPUTS**0.5).requires_grad_()

    def read(
        self, context: torch.Tensor, values: torch.Tensor, questions: torch.Tensor, *, gated: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Readouts (b, m, 3) and coefficients (b, n) of contexts (b, n, 5) at questions (b, m, 5)."""
        keys = context @ self.weight
        count = keys.shape[1]
        alpha = torch.full(keys.shape[:2], 1 / count)
        if gated:
            alpha = SupportVectorGate(CAP, SIGMA)(keys)
        distances = ((questions @ self.weight)[:, :, None] - keys[:, None]).square().sum(-1)
        weights = torch.exp(-distances / SIGMA**2) * alpha[:, None]
        return weights @ values / weights.sum(-1, keepdim=True), alpha.detach()


def _draw_pairs(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    context = torch.randn(count, PAIRS, INPUTS, generator=generator)
    values = torch.randn(count, PAIRS, VALUES, generator=generator)
    return context, values, context + NOISE * torch.randn(context.shape, generator=generator)


def control(seed: int, *, gated: bool, steps: int = 500, evaluations: int = 200) -> dict[str, float]:
    """Recall at one and the share of active keys after training."""
    generator = torch.Generator().manual_seed(seed)
    projection = Projection(seed)
    optimizer = torch.optim.Adam([projection.weight], lr=0.03)
    for _ in range(steps):
        context, values, questions = _draw_pairs(4, generator)
        loss = (projection.read(context, values, questions, gated=gated)[0] - values).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    context, values, questions = _draw_pairs(evaluations, torch.Generator().manual_seed(CONTROL_EVALUATION_SEED))
    with torch.no_grad():
        read, alpha = projection.read(context, values, questions, gated=gated)
    nearest = torch.cdist(read, values).argmin(-1)
    right = (nearest == torch.arange(PAIRS)).float().mean()
    return {"recall": float(right), "active": float((alpha > 1e-6).float().mean())}


def quiz_rows(count: int, seed: int) -> torch.Tensor:
    """Sequences of the quiz, ``(count, 257)`` uint8: pairs, noise, then each key and its partner in another order."""
    rng = np.random.default_rng(seed)
    ranks = rng.random((count, KEY_BYTES[1])).argsort(1)[:, :QUIZ_PAIRS]
    partners = rng.integers(*PARTNER_BYTES, (count, QUIZ_PAIRS))
    pairs = np.stack([ranks + KEY_BYTES[0], partners], -1)
    order = rng.random((count, QUIZ_PAIRS)).argsort(1)
    asked = np.take_along_axis(pairs, order[:, :, None], 1)
    noise = rng.integers(*NOISE_BYTES, (count, QUIZ_NOISE))
    rows = np.concatenate([pairs.reshape(count, -1), noise, asked.reshape(count, -1)], 1)
    return torch.from_numpy(rows.astype(np.uint8))


def quiz(desk: Desk, *, seeds: int, steps: int, batch: int) -> list[dict[str, Any]]:
    """Answers right, arm by arm and seed by seed."""
    width = QUIZ.block + 1
    first = 2 * QUIZ_PAIRS + QUIZ_NOISE
    fresh = desk.corpus.test.view(-1, width)[:batch].long().to(desk.device)
    window = None
    rows: list[dict[str, Any]] = []
    for arm in ("hybrid", "hybrid-relative", "window", "softmax"):
        gate = Gate(weight="relative" if arm == "hybrid-relative" else "raw")
        recipe = Recipe(rate=1e-3, warmup=steps // 20, gate=gate)
        slots = tuple(Slot(seed, recipe, window=window) for seed in range(seeds))
        kind = arm.partition("-")[0]
        run = Run(f"quiz-{arm}", kind, QUIZ, slots, steps=steps, batch=batch, evaluate_every=steps, scored=(first, 2))
        trainer, content = desk.finish(run)
        if kind == "hybrid":
            counts = [count for each in content["active_keys"] for count in each]
            # Both hybrids are matched by the wider window.
            window = max(window or 0, visible(counts, gate.chunk, QUIZ.block))
        said = trainer.stack.predict(fresh[:, :-1].expand(seeds, -1, -1))[:, :, first::2]
        right = (said == fresh[:, first + 1 :: 2]).float().mean((1, 2))
        rows.append({"arm": arm, "right": right.tolist(), "window": window if arm == "window" else None})
        print(f"quiz, {arm}: " + " ".join(f"{share:.3f}" for share in right.tolist()), flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.recall", description=__doc__.partition("\n")[0])
    parser.add_argument("act", choices=("control", "quiz"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3000, help="of the quiz")
    parser.add_argument("--batch", type=int, default=64, help="of the quiz")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    if given.act == "control":
        rows = [
            control(seed, gated=gated) | {"seed": seed, "gated": gated}
            for gated in (False, True)
            for seed in range(given.seeds)
        ]
        for row in rows:
            gate = "on " if row["gated"] else "off"
            print(f"gate {gate} seed {row['seed']}: recall {row['recall']:.3f}, active {row['active']:.2f}")
    else:
        width = QUIZ.block + 1
        parts = (quiz_rows(20_000, 1).flatten(), quiz_rows(512, 2).flatten(), quiz_rows(512, 3).flatten())
        desk = Desk(replace(Corpus("quiz", *parts), row=width), given.out, given.device, compiled=given.compiled)
        rows = quiz(desk, seeds=given.seeds, steps=given.steps, batch=given.batch)
    seconds = time.monotonic() - begun
    write(given.out, f"recall-{given.act}", {"rows": rows, "machine": machine(given.device), "seconds": seconds})


if __name__ == "__main__":
    main()
