"""Tell a secret, delete it, ask again (docs/results/protocols.md, Record edits).

Eight facts go into a :class:`expunge.Memory` at the keys of a trained recall model; each answer is a word of 24, so a
guess is right once in 24. A question is the fact's own token with a little noise. Asked before the deletion, after it,
and against the comparator that scales the coefficient by 0.01 and solves nothing. Deletion is done by the memory, with
its receipt; every trial counts, whatever its outcome.

    python -m studies.forget --out studies/results
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from expunge import Memory
from expunge.problem.kernel import kernel_block
from expunge.torch import SupportVectorGate
from studies.record import RESULTS, machine, write

__all__ = ["Recall", "ask", "main", "train", "trials"]

INPUTS, MODEL, WIDTH, VALUES = 16, 32, 8, 8
CAP, SIGMA, NOISE, DECAY = 0.2, 2.0, 0.02, 0.01
FACTS, WORDS = 8, 24


class Recall(torch.nn.Module):
    """Embedding, key and query projections, and the normalised RBF readout times the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(INPUTS, MODEL)
        self.key = torch.nn.Linear(MODEL, WIDTH, bias=False)
        self.query = torch.nn.Linear(MODEL, WIDTH, bias=False)
        self.gate = SupportVectorGate(CAP, SIGMA)

    def forward(self, tokens: torch.Tensor, values: torch.Tensor, questions: torch.Tensor) -> torch.Tensor:
        """Readouts (b, m, dv) of memories (b, n, 16) with values (b, n, dv) at questions (b, m, 16)."""
        return self.gate.read(self.query(self.embed(questions)), self.key(self.embed(tokens)), values)


def train(seed: int = 0, *, steps: int = 500, batch: int = 16) -> Recall:
    """The recall model: eight memories, four noisy queries, squared error, Adam at 3e-3."""
    torch.manual_seed(seed)
    model = Recall()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        tokens, values = torch.randn(batch, FACTS, INPUTS), torch.randn(batch, FACTS, VALUES)
        questions = tokens[:, :4] + NOISE * torch.randn(batch, 4, INPUTS)
        loss = (model(tokens, values, questions) - values[:, :4]).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return model


def ask(
    queries: NDArray[np.float64],
    keys: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    values: NDArray[np.float64],
) -> NDArray[np.int64]:
    """The word with the largest share of the readout, for each query."""
    return np.asarray(((kernel_block(queries, keys, SIGMA) * coefficients) @ values).argmax(-1), dtype=np.int64)


def trials(model: Recall, count: int, seed: int) -> list[dict[str, Any]]:
    """One row a trial: whether the secret is told before, after and under decay, and how the other facts fare."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        tokens = rng.standard_normal((FACTS, INPUTS))
        words = rng.integers(0, WORDS, FACTS)
        secret = int(rng.integers(FACTS))
        asked = tokens + NOISE * rng.standard_normal(tokens.shape)
        with torch.no_grad():
            keys = model.key(model.embed(torch.from_numpy(tokens).float())).double().numpy()
            queries = model.query(model.embed(torch.from_numpy(asked).float())).double().numpy()
        memory = Memory.fit(keys, np.eye(WORDS)[words], sigma=SIGMA, cap=CAP, ids=[str(i) for i in range(FACTS)])
        coefficients = np.array(memory.coefficients)
        before = memory.read(queries).argmax(-1) == words
        faded = np.where(np.arange(FACTS) == secret, DECAY, 1.0) * coefficients
        decayed = ask(queries, keys, faded, np.eye(WORDS)[words]) == words
        receipt = memory.delete(str(secret))
        after = memory.read(queries).argmax(-1) == words
        others = np.arange(FACTS) != secret
        rows.append(
            {
                "outcome": receipt.outcome,
                "told_before": bool(before[secret]),
                "told_after": bool(after[secret]),
                "told_decayed": bool(decayed[secret]),
                "others_before": int(before[others].sum()),
                "others_after": int(after[others].sum()),
                # Another fact with the same answer: a right guess that no deletion can prevent.
                "shared_word": bool((words[others] == words[secret]).any()),
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.forget", description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    rows = trials(train(given.seed), given.trials, given.seed)
    told = {name: sum(row[name] for row in rows) for name in ("told_before", "told_after", "told_decayed")}
    others = {name: sum(row[name] for row in rows) for name in ("others_before", "others_after")}
    content = {
        "trials": len(rows),
        "facts": FACTS,
        "words": WORDS,
        **told,
        **others,
        "told_after_with_shared_word": sum(row["told_after"] and row["shared_word"] for row in rows),
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "machine": machine(),
        "seconds": time.monotonic() - begun,
    }
    write(given.out, "forget", content)
    for name, number in told.items():
        print(f"{name}: {number} of {len(rows)}")
    for name, number in others.items():
        print(f"{name}: {number} of {len(rows) * (FACTS - 1)}")
    print(content["outcomes"])


if __name__ == "__main__":
    main()
