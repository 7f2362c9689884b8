"""The negative control: ten distinct pairs, nothing redundant, nothing to gain (docs/results/protocols.md).

A model maps inputs (5) to keys and queries (4) by two matrices and answers with the kernel readout of values (3),
σ = 1.5, weighted by the gate at C = 0.3 or not at all. Its input is ten pairs, N(0, I), and its query the input of one
of them + 0.05·N(0, I). It answers with the pair whose value is nearest to the readout. studies/negative_control.py
trains the matrices, with the gate and without, and stores them; here they are evaluated with the audited solver, on
200 sequences of ``default_rng(999)``, drawn in this order: inputs (200, 10, 5), values (200, 10, 3), the pair asked
for (200,), noise (200, 10, 5).

- *trained*: recall@1 of the pair asked for, each model with its own readout, and the share of entries that are active.
- *half*: the model without a gate keeps five of the ten pairs by each policy, and is asked for all ten. Whoever drops
  half of what will be asked loses half; a policy should not lose more.

The paper leaves open whether keys and queries share a matrix, how many queries a training sequence has (one here) and
the order of draws.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from expunge.audit.context_selection.policy_arms import ArmResult, choices
from expunge.memory.memory import Memory
from expunge.problem.readout import readout
from expunge.selection import Context
from expunge.types import IndexArray, Matrix

__all__ = [
    "CAP",
    "PAIRS",
    "SEQUENCES",
    "SIGMA",
    "TrainedModel",
    "draw_sequences",
    "measure_half",
    "measure_trained",
    "trained_models",
]

PAIRS, INPUTS, KEYS, VALUES = 10, 5, 4, 3
CAP, SIGMA, NOISE = 0.3, 1.5, 0.05
SEQUENCES, EVALUATION_SEED = 200, 999
KEPT = 5


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Matrices (4, 5) that make keys and queries of inputs, and whether they were trained through the gate."""

    seed: int
    gated: bool
    key: Matrix
    query: Matrix


@cache
def trained_models() -> tuple[TrainedModel, ...]:
    """The stored models, by seed, without the gate and with it."""
    text = files("expunge.audit").joinpath("data", "negative_control.json").read_text(encoding="utf-8")
    return tuple(
        TrainedModel(one["seed"], one["gated"], np.array(one["key"]), np.array(one["query"]))
        for one in json.loads(text)["models"]
    )


def draw_sequences(count: int = SEQUENCES) -> tuple[Matrix, Matrix, IndexArray, Matrix]:
    """Inputs (n, 10, 5), values (n, 10, 3), the pair asked for (n,) and noisy inputs (n, 10, 5)."""
    rng = np.random.default_rng(EVALUATION_SEED)
    inputs = rng.standard_normal((SEQUENCES, PAIRS, INPUTS))
    values = rng.standard_normal((SEQUENCES, PAIRS, VALUES))
    asked = rng.integers(PAIRS, size=SEQUENCES)
    noisy = inputs + NOISE * rng.standard_normal(inputs.shape)
    return inputs[:count], values[:count], asked[:count], noisy[:count]


def measure_trained(model: TrainedModel, regime: str, trial: int) -> tuple[ArmResult, float]:
    """Recall@1 with the model's own readout, and the share of entries that are active at the gate's cap."""
    right, active = [], []
    for inputs, values, asked, noisy in zip(*draw_sequences(), strict=True):
        memory = Memory.fit(inputs @ model.key.T, values, sigma=SIGMA, cap=CAP)
        weights = memory.coefficients if model.gated else np.full(PAIRS, 1.0 / PAIRS)
        active.append(np.count_nonzero(memory.coefficients) / PAIRS)
        right.append(_answers(memory.keys, values, weights, (noisy @ model.query.T)[[asked]])[0] == asked)
    arm = "with the gate" if model.gated else "without"
    return ArmResult(regime, arm, trial, PAIRS, PAIRS, float(np.mean(right))), float(np.mean(active))


def measure_half(model: TrainedModel, regime: str, trial: int) -> list[ArmResult]:
    """Recall@1 of all ten pairs when five are kept, by each arm."""
    rng = np.random.RandomState(model.seed)
    hits: dict[str, list[float]] = {}
    for inputs, values, _, noisy in zip(*draw_sequences(), strict=True):
        context = Context.of(inputs @ model.key.T, sigma=SIGMA)
        queries = noisy @ model.query.T
        for arm, kept in choices(context, KEPT, rng):
            answers = kept[_answers(context.keys[kept], values[kept], np.ones(kept.size), queries)]
            hits.setdefault(arm, []).append(float(np.mean(answers == np.arange(PAIRS))))
    sizes = {arm: PAIRS if arm == "full" else KEPT for arm in hits}
    return [ArmResult(regime, arm, trial, PAIRS, sizes[arm], float(np.mean(got))) for arm, got in hits.items()]


def _answers(keys: Matrix, values: Matrix, weights: Matrix, queries: Matrix) -> IndexArray:
    """The entry whose value is nearest to the readout at each query."""
    read = readout(np.ascontiguousarray(keys), values, weights, np.ascontiguousarray(queries), SIGMA)
    return np.asarray(np.linalg.norm(read[:, None, :] - values[None, :, :], axis=2).argmin(axis=1))
