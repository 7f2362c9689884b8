"""Train the recall model whose keys are the learned regime of the deletion audit (paper, §3.4).

A token is a fact: an 8-dimensional name and an 8-dimensional content, both N(0, 1). The model embeds it in 32
dimensions; one head makes keys, queries and values of it; a query token is a name + 0.02·N(0, 1) without content.
Eight facts are gated by the support-vector fit (C = 0.2, σ = 2) and read out normalized; four queries are asked for
the content. Adam at 3e-3, 500 batches of 16, mean squared error, seed 0.

The gate is the paper's training path (App. B): 80 accelerated projected-gradient steps find the groups, at the
threshold 1e-3, and a solve with a ridge of 1e-3 makes the coefficients differentiable.

    python -m studies.learned_keys            # writes src/expunge/datasets/data/learned_keys

The same torch version on the same kind of processor writes the same bytes. The paper's own weights are not public, so
its learned keys cannot be had; these follow its recipe.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

DATA = Path(__file__).resolve().parent.parent / "src" / "expunge" / "datasets" / "data" / "learned_keys"
NAME, CONTENT, WIDTH = 8, 8, 32
FACTS, QUERIES, NOISE = 8, 4, 0.02
CAP, SIGMA = 0.2, 2.0
STEPS, BATCH, RATE, SEED = 500, 16, 3e-3, 0
ITERATIONS, THRESHOLD, RIDGE = 80, 1e-3, 1e-3
EVALUATED, EVALUATION_SEED = 400, 999


class Recall(nn.Module):
    """Embed → key, query, value → gated kernel readout → content."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(NAME + CONTENT, WIDTH)
        self.key, self.query, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, CONTENT)

    def forward(self, facts: Tensor, asked: Tensor) -> Tensor:
        """Contents for the queries: (B, 8, 16), (B, q, 16) → (B, q, 8)."""
        told, question = self.embed(facts), self.embed(asked)
        keys = self.key(told)
        weights = similarity(self.query(question), keys) * coefficients(keys)[:, None, :]
        read = weights @ self.value(told) / weights.sum(dim=2, keepdim=True).clamp_min(1e-8)
        content: Tensor = self.head(self.out(read))
        return content


def similarity(points: Tensor, keys: Tensor) -> Tensor:
    """κ of every pair, (B, m, d), (B, n, d) → (B, m, n)."""
    apart = points[:, :, None, :] - keys[:, None, :, :]
    return torch.exp(-(apart * apart).sum(dim=3) / SIGMA**2)


def onto_box(points: Tensor) -> Tensor:
    """Nearest points (B, n) with Σa = 1 and 0 ≤ a ≤ C, by bisection on the shift."""
    low, high = points.min(dim=1).values - CAP, points.max(dim=1).values
    for _ in range(50):
        middle = 0.5 * (low + high)
        heavy = (points - middle[:, None]).clamp(0.0, CAP).sum(dim=1) > 1.0
        low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
    return (points - (0.5 * (low + high))[:, None]).clamp(0.0, CAP)


@torch.no_grad()
def groups(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Margin and bound, (B, n) each, after 80 accelerated projected-gradient steps."""
    size = gram.shape[1]
    step = 1.0 / (2.0 * gram.abs().sum(dim=2).max(dim=1).values[:, None])
    point = ahead = torch.full(gram.shape[:2], 1.0 / size)
    pace = 1.0
    for _ in range(ITERATIONS):
        slope = 2.0 * (gram @ ahead[:, :, None])[:, :, 0] - 1.0
        fresh = onto_box(ahead - step * slope)
        quicker = 0.5 * (1.0 + (1.0 + 4.0 * pace * pace) ** 0.5)
        ahead = fresh + (pace - 1.0) / quicker * (fresh - point)
        point, pace = fresh, quicker
    bound = point >= CAP - THRESHOLD
    return (point > THRESHOLD) & ~bound, bound


def coefficients(keys: Tensor) -> Tensor:
    """Differentiable coefficients (B, n) of keys (B, n, d) for the groups found; uniform where no margin is left."""
    gram = similarity(keys, keys)
    margin, bound = groups(gram.detach())
    batch, size, _ = gram.shape
    free = margin.to(gram.dtype)
    fixed = CAP * bound.to(gram.dtype)
    # Row 0 is the mass; a key off the margin has the row αᵢ = its wall.
    system = torch.zeros(batch, size + 1, size + 1)
    system[:, 0, 1:] = 1.0
    system[:, 1:, 0] = free
    curved = 2.0 * gram + RIDGE * torch.eye(size)
    system[:, 1:, 1:] = torch.where(margin[:, :, None], curved, torch.eye(size).expand_as(curved))
    right = torch.cat([torch.ones(batch, 1), torch.where(margin, torch.ones_like(free), fixed)], dim=1)
    empty = ~margin.any(dim=1)
    system[empty] = torch.eye(size + 1)
    right[empty] = 1.0 / size
    solved: Tensor = torch.linalg.solve(system, right)[:, 1:]
    return solved


def draw(rng: np.random.Generator, batch: int, queries: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Facts (B, 8, 16), query tokens (B, q, 16), their contents (B, q, 8) and which facts they ask for (B, q)."""
    facts = rng.standard_normal((batch, FACTS, NAME + CONTENT))
    which = rng.integers(FACTS, size=(batch, queries))
    chosen = np.take_along_axis(facts, which[:, :, None], axis=1)
    asked = np.zeros_like(chosen)
    asked[:, :, :NAME] = chosen[:, :, :NAME] + NOISE * rng.standard_normal((batch, queries, NAME))
    tensors = (torch.tensor(part, dtype=torch.float32) for part in (facts, asked, chosen[:, :, NAME:]))
    return *tensors, torch.tensor(which)  # type: ignore[return-value]


def train(steps: int = STEPS) -> tuple[Recall, list[float]]:
    """Train from seed 0; the model and its losses."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    model, rng = Recall(), np.random.default_rng(SEED)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    losses = []
    for _ in range(steps):
        facts, asked, contents, _ = draw(rng, BATCH, QUERIES)
        loss = nn.functional.mse_loss(model(facts, asked), contents)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    return model, losses


@torch.no_grad()
def recall_at_one(model: Recall) -> float:
    """Share of held-out queries whose answer is nearest to the content of the fact asked for."""
    rng = np.random.default_rng(EVALUATION_SEED)
    facts, asked, _, which = draw(rng, EVALUATED, QUERIES)
    answers = model(facts, asked)
    apart = torch.cdist(answers, facts[:, :, NAME:])
    return float((apart.argmin(dim=2) == which).float().mean())


def main() -> None:
    """Train, judge, write the weights and where they come from."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DATA)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    model, losses = train()
    provenance = {
        "made_by": "python -m studies.learned_keys",
        "seed": SEED,
        "steps": STEPS,
        "torch": torch.__version__.split("+")[0],
        "first_loss": losses[0],
        "last_loss": float(np.mean(losses[-50:])),
        "recall_at_one": recall_at_one(model),
        "evaluated": EVALUATED * QUERIES,
        "licence": "Apache-2.0",
    }
    chosen.out.mkdir(parents=True, exist_ok=True)
    weights = {name.replace(".", "_"): part.numpy() for name, part in model.state_dict().items()}
    np.savez(chosen.out / "weights.npz", **weights)
    (chosen.out / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(provenance, indent=2))


if __name__ == "__main__":
    main()
