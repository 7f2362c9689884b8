"""Does the gate keep what must be recalled? A quiz, multi-query associative recall (docs/results/protocols.md).

Pairs of symbols, a stretch of noise, then keys of these pairs; the model must say the partner, and only those answers
are scored. A key may be asked twice: otherwise what is left over would give the last answers away. Two layers, one
stack of seeds an arm, the same trainer as the language models. The window arm gets as many visible tokens as the hybrid
has active keys at the last boundary, plus one chunk.

    python -m studies.recall --device cuda --out studies/results
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.config import Gate, Recipe, Run, Shape, Slot
from studies.data import Corpus
from studies.record import RESULTS, machine, write
from studies.run import Runner, visible

__all__ = ["guessed", "main", "quiz", "quiz_rows"]

# Keys and their partners are drawn from two alphabets, the noise from a third.
QUIZ = Shape(layers=2, width=64, heads=4, block=64)
CHUNK = 16
QUIZ_PAIRS, QUIZ_NOISE = 4, 49
KEY_BYTES, PARTNER_BYTES, NOISE_BYTES = (0, 8), (8, 16), (16, 24)


def quiz_rows(count: int, seed: int) -> torch.Tensor:
    """Sequences of the quiz, ``(count, 65)`` uint8: pairs, noise, then as many pairs again, drawn from the first."""
    rng = np.random.default_rng(seed)
    ranks = rng.random((count, KEY_BYTES[1])).argsort(1)[:, :QUIZ_PAIRS]
    partners = rng.integers(*PARTNER_BYTES, (count, QUIZ_PAIRS))
    pairs = np.stack([ranks + KEY_BYTES[0], partners], -1)
    order = rng.integers(0, QUIZ_PAIRS, (count, QUIZ_PAIRS))
    asked = np.take_along_axis(pairs, order[:, :, None], 1)
    noise = rng.integers(*NOISE_BYTES, (count, QUIZ_NOISE))
    rows = np.concatenate([pairs.reshape(count, -1), noise, asked.reshape(count, -1)], 1)
    return torch.from_numpy(rows.astype(np.uint8))


def guessed() -> float:
    """The share of right answers to be expected from what was asked before alone, and a guess where a key is new."""
    known = sum(1 - (1 - 1 / QUIZ_PAIRS) ** asked for asked in range(QUIZ_PAIRS)) / QUIZ_PAIRS
    return known + (1 - known) / (PARTNER_BYTES[1] - PARTNER_BYTES[0])


def quiz(runner: Runner, *, seeds: int, steps: int, batch: int) -> list[dict[str, Any]]:
    """Answers right, arm by arm and seed by seed."""
    width = QUIZ.block + 1
    first = 2 * QUIZ_PAIRS + QUIZ_NOISE
    fresh = runner.corpus.test.view(-1, width)[:batch].long().to(runner.device)
    window = None
    rows: list[dict[str, Any]] = []
    for arm in ("hybrid", "hybrid-relative", "window", "softmax"):
        gate = Gate(weight="relative" if arm == "hybrid-relative" else "raw", chunk=CHUNK)
        recipe = Recipe(rate=1e-3, warmup=steps // 20, gate=gate)
        slots = tuple(Slot(seed, recipe, window=window) for seed in range(seeds))
        kind = arm.partition("-")[0]
        run = Run(
            f"quiz-{arm}",
            kind,
            QUIZ,
            slots,
            steps=steps,
            batch=batch,
            evaluate_every=max(1, steps // 10),
            scored=(first, 2),
        )
        trainer, content = runner.finish(run)
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
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    parts = (quiz_rows(200_000, 1).flatten(), quiz_rows(512, 2).flatten(), quiz_rows(512, 3).flatten())
    corpus = Corpus("quiz", *parts, row=QUIZ.block + 1)
    runner = Runner(corpus, given.out, given.device, compiled=given.compiled)
    rows = quiz(runner, seeds=given.seeds, steps=given.steps, batch=given.batch)
    seconds = time.monotonic() - begun
    write(given.out, "recall-quiz", {"rows": rows, "machine": machine(given.device), "seconds": seconds})


if __name__ == "__main__":
    main()
