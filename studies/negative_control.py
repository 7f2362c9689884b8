"""Train the models of the negative control (paper, App. A) and store their matrices.

    python studies/negative_control.py

writes src/expunge/audit/data/negative_control.json, which `expunge audit run selection` evaluates without torch. Ten
pairs of inputs (5) and values (3); keys and queries of 4 dimensions by one matrix each; the kernel readout at σ = 1.5,
weighted by the gate at C = 0.3 or not; Adam at 0.03, 500 steps of 4 sequences with one query each, squared error.
Twenty seeds for each of the two. It takes about two minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import torch

from expunge.audit.context_selection.negative_control import CAP, INPUTS, KEYS, NOISE, PAIRS, SIGMA, VALUES
from expunge.torch import SupportVectorGate

STEPS, SEQUENCES, RATE = 500, 4, 0.03
SEEDS = range(20)
OUT = Path(__file__).resolve().parent.parent / "src" / "expunge" / "audit" / "data" / "negative_control.json"


def train(seed: int, *, gated: bool, steps: int = STEPS) -> tuple[dict[str, Any], float]:
    """One model's matrices, and its loss at the last step."""
    torch.manual_seed(seed)
    key, query = (torch.nn.Linear(INPUTS, KEYS, bias=False) for _ in range(2))
    gate = SupportVectorGate(cap=CAP, sigma=SIGMA)
    optimizer = torch.optim.Adam([*key.parameters(), *query.parameters()], lr=RATE)
    loss = torch.zeros(())
    for _ in range(steps):
        inputs, values = torch.randn(SEQUENCES, PAIRS, INPUTS), torch.randn(SEQUENCES, PAIRS, VALUES)
        asked = torch.randint(PAIRS, (SEQUENCES,))
        rows = torch.arange(SEQUENCES)
        noisy = inputs[rows, asked] + NOISE * torch.randn(SEQUENCES, INPUTS)
        keys, queries = key(inputs), query(noisy)[:, None, :]
        if gated:
            readout = gate.read(queries, keys, values)[:, 0]
        else:
            distances = (queries - keys).square().sum(-1) / SIGMA**2
            readout = (torch.softmax(-distances, dim=-1)[:, None, :] @ values)[:, 0]
        loss = (readout - values[rows, asked]).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model = {
        "seed": seed,
        "gated": gated,
        "key": key.weight.detach().double().tolist(),
        "query": query.weight.detach().double().tolist(),
    }
    return model, float(loss.detach())


def main() -> None:
    """Train them all and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    models = []
    for seed in SEEDS:
        for gated in (False, True):
            model, loss = train(seed, gated=gated)
            models.append(model)
            print(f"seed {seed:2d} {'with the gate' if gated else 'without':>13}: loss {loss:.4f}", flush=True)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    made = {
        "command": "python studies/negative_control.py",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    chosen.out.write_text(json.dumps({"made": made, "models": models}, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"wrote {chosen.out.name}: {len(models)} models")


if __name__ == "__main__":
    main()
