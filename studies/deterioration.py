"""Deterioration six hours ahead: where keeping atypical hours does not help (paper, App. A).

    python studies/deterioration.py --physionet training_setB.parquet

At each hour of a stay's first 56 a model says whether any of the next six hours has a vital sign outside its limits,
from the hours so far. 400 stays of at least 56 hours, 250 to train and 150 to test; six vitals in standard units →
linear to 32 → one layer → 1; Adam at 2e-3, 120 steps of 8 stays, weighted cross-entropy. The measure is the AUROC over
all hours of the test stays that have six hours after them. Each seed draws its own stays, split, weights and batches;
the layers of a seed share all but their own weights.

Layers: support-vector attention (one head, C = 0.25, σ = 2, the prefix frozen every 8 hours, as the paper's recall
model), an LSTM, softmax attention, DeltaNet, linear attention; and no layer at all, the hour alone. The paper leaves
open the cap, the chunk, the heads and whether hours that are events already count (they do here).

It writes studies/results/deterioration.json with every seed's number.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from expunge.datasets import Stay, mimic_iv, physionet2019
from expunge.torch import SupportVectorAttention
from expunge.torch.baselines import DeltaNetAttention, LinearAttention, SoftmaxAttention
from expunge.types import Vector

HOURS, AHEAD = 56, 6
STAYS, TRAINING = 400, 250
WIDTH, STEPS, BATCH, RATE = 32, 120, 8, 2e-3
SEEDS = 10
CHUNK, CAP, SIGMA = 8, 0.25, 2.0
OUT = Path(__file__).resolve().parent / "results" / "deterioration.json"


class Recurrent(nn.Module):
    """An LSTM as a layer (B, T, d) → (B, T, d)."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states, causal by construction."""
        return torch.as_tensor(self.cell(x)[0])


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "support vector": lambda: SupportVectorAttention(WIDTH, 1, cap=CAP, sigma=SIGMA, chunk=CHUNK),
    "LSTM": Recurrent,
    "softmax": lambda: SoftmaxAttention(WIDTH, 1),
    "DeltaNet": lambda: DeltaNetAttention(WIDTH, 1, chunk=CHUNK),
    "linear": lambda: LinearAttention(WIDTH, 1),
    "the hour alone": nn.Identity,
}


def examples(stays: Sequence[Stay]) -> tuple[Tensor, Tensor]:
    """Vitals (n, 50, 6) of the hours that have six after them, and whether one of those is an event (n, 50)."""
    usable = HOURS - AHEAD
    vitals = np.stack([stay.keys[:usable] for stay in stays])
    events = np.stack([stay.events[:HOURS] for stay in stays])
    soon = np.stack([events[:, hour + 1 : hour + 1 + AHEAD].any(axis=1) for hour in range(usable)], axis=1)
    return torch.tensor(vitals, dtype=torch.float32), torch.tensor(soon, dtype=torch.float32)


def auroc(scores: Vector, labels: Vector) -> float:
    """Area under the curve: how often a positive scores above a negative, ties counting half."""
    from scipy.stats import rankdata

    positive = labels > 0.5
    count = int(positive.sum())
    ranks = rankdata(scores)[positive].sum()
    return float((ranks - count * (count + 1) / 2.0) / (count * (len(labels) - count)))


def run(layer: str, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], seed: int, steps: int = STEPS) -> float:
    """One model's AUROC on the test stays."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, WIDTH), nn.Identity(), nn.Linear(WIDTH, 1))
    # The layer comes last, so that the other weights are the same for every layer of a seed.
    model[1] = LAYERS[layer]()
    inputs, labels = train
    weight = (labels.numel() - labels.sum()) / labels.sum()
    loss_of = nn.BCEWithLogitsLoss(pos_weight=weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    batches = np.random.RandomState(seed)
    for _ in range(steps):
        rows = torch.from_numpy(batches.choice(len(inputs), BATCH, replace=False))
        loss = loss_of(model(inputs[rows])[..., 0], labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores = model(test[0])[..., 0]
    return auroc(scores.double().numpy().ravel(), test[1].double().numpy().ravel())


def main() -> None:
    """Run every layer at every seed and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--physionet", type=Path, help="the challenge's files, or a Parquet file of their rows")
    source.add_argument("--mimic", type=Path, help="a folder in MIMIC-IV's layout")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    cohort = physionet2019(chosen.physionet) if chosen.physionet else mimic_iv(chosen.mimic)
    flow = dict(cohort.flow)
    long = [stay for stay in cohort.stays if len(stay) >= HOURS]
    flow[f"{HOURS} hours"] = len(long)
    print(" → ".join(f"{count} {step}" for step, count in flow.items()))
    results: dict[str, list[float]] = {layer: [] for layer in LAYERS}
    shares = []
    for seed in range(chosen.seeds):
        drawn = [long[place] for place in np.random.RandomState(seed).permutation(len(long))[:STAYS]]
        cut = TRAINING * len(drawn) // STAYS
        train, test = examples(drawn[:cut]), examples(drawn[cut:])
        shares.append(float(test[1].mean()))
        for layer in LAYERS:
            started = time.perf_counter()
            results[layer].append(run(layer, train, test, seed, chosen.steps))
            print(
                f"seed {seed} {layer:>15}: {results[layer][-1]:.3f}  ({time.perf_counter() - started:.1f} s)",
                flush=True,
            )
    for layer, found in results.items():
        print(f"{layer:>15}: {np.mean(found):.3f}, seeds {min(found):.3f} to {max(found):.3f}")
    record: dict[str, Any] = {
        "command": f"python studies/deterioration.py --{'physionet' if chosen.physionet else 'mimic'} PATH",
        "source": "physionet" if chosen.physionet else "mimic",
        "steps": chosen.steps,
        "flow": flow,
        "positive_share": shares,
        "auroc": results,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
