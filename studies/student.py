"""A student layer learns a fixed teacher's gate through the maintained path (paper, App. B; docs/results/protocols.md).

Fourteen keys, eight queries, both layers project five inputs to three-dimensional keys and values and read out without
normalisation, Σ α_i κ(q, x_i) v_i, in fp64. The student starts elsewhere and follows the implicit gradient of the
maintained solver. Prints the fall of the mean squared error and writes ``student.json``.

    python -m studies.student --out studies/results
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch

from expunge.torch import SupportVectorGate
from studies.record import RESULTS, machine, write

__all__ = ["Layer", "learn", "main"]

KEYS, QUERIES, INPUTS, WIDTH, VALUES = 14, 8, 5, 3, 3
CAP, SIGMA = 0.3, 2.0


class Layer:
    """Key, query and value projections around the gate."""

    def __init__(self, generator: torch.Generator) -> None:
        def draw(rows: int, columns: int) -> torch.Tensor:
            drawn = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            return drawn / math.sqrt(rows)

        self.key, self.query, self.value = draw(INPUTS, WIDTH), draw(INPUTS, WIDTH), draw(INPUTS, VALUES)

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What a student learns."""
        return [self.key, self.query, self.value]

    def read(self, context: torch.Tensor, questions: torch.Tensor) -> torch.Tensor:
        """Unnormalised readout: context (n, 5), questions (m, 5) → (m, 3)."""
        keys = context @ self.key
        alpha: torch.Tensor = SupportVectorGate(CAP, SIGMA, path="maintained")(keys)
        distances = (questions @ self.query)[:, None] - keys[None]
        return (torch.exp(-distances.square().sum(-1) / SIGMA**2) * alpha) @ (context @ self.value)


def learn(seed: int, *, steps: int = 200, rate: float = 0.03) -> list[float]:
    """The mean squared error before every step and after the last."""
    generator = torch.Generator().manual_seed(seed)
    teacher, student = Layer(generator), Layer(generator)
    context = torch.randn(KEYS, INPUTS, generator=generator, dtype=torch.float64)
    questions = torch.randn(QUERIES, INPUTS, generator=generator, dtype=torch.float64)
    target = teacher.read(context, questions).detach()
    for parameter in student.parameters:
        parameter.requires_grad_()
    optimizer = torch.optim.Adam(student.parameters, lr=rate)
    errors = []
    for step in range(steps + 1):
        error = (student.read(context, questions) - target).square().mean()
        errors.append(float(error.detach()))
        if step < steps:
            optimizer.zero_grad()
            torch.autograd.backward(error)
            optimizer.step()
    return errors


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.student", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    rows: list[dict[str, Any]] = []
    for seed in range(given.seeds):
        errors = learn(seed)
        rows.append({"seed": seed, "before": errors[0], "after": errors[-1], "fall": 1 - errors[-1] / errors[0]})
        print(f"seed {seed}: {errors[0]:.3e} -> {errors[-1]:.3e}, −{100 * rows[-1]['fall']:.2f}%")
    write(given.out, "student", {"rows": rows, "machine": machine(), "seconds": time.monotonic() - begun})


if __name__ == "__main__":
    main()
