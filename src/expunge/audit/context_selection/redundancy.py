"""Selection under skewed redundancy (paper, App. A; docs/results/protocols.md).

A context has six singleton groups and six groups of ten near-copies, d = 4: centres 1.5·N(0, I), keys centre
+ 0.15·N(0, I), the singletons first. Two queries a group, centre + 0.05·N(0, I); the second of each is held out.
σ = 1.2, and ν = 0.45 decides the budget: every policy keeps as many entries as are active. All kept entries weigh the
same, and a held-out query is answered with the group that has the largest share of the readout.

One ``RandomState(seed)`` draws, for each trial in turn: the centres (12, 4); each group's keys; each group's two
queries; the uniform policy's sample. At seed 0 and 60 trials that gives the paper's numbers to every printed digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from expunge.audit.context_selection.policy_arms import ArmResult, choices, mean_of
from expunge.problem.kernel import kernel_block
from expunge.selection import Context
from expunge.selection.support import support_fit
from expunge.types import IndexArray, Matrix

__all__ = [
    "PAPER_SEED",
    "SEEDS",
    "TRIALS",
    "SkewedContext",
    "draw_contexts",
    "group_recall",
    "measure_seed",
    "measure_trials",
]

PAPER_SEED, SEEDS, TRIALS = 0, tuple(range(100, 120)), 60
RARE, COMMON, COPIES = 6, 6, 10
DIMENSION, CENTRES, SPREAD, QUERY_NOISE = 4, 1.5, 0.15, 0.05
SIGMA, NU = 1.2, 0.45


@dataclass(frozen=True, eq=False)
class SkewedContext:
    """One context: keys (66, 4) with their groups, queries (24, 4) with theirs; groups below 6 are singletons.

    ``rng`` is the trial's generator as the draws left it: the uniform policy continues it.
    """

    keys: Matrix
    groups: IndexArray
    queries: Matrix
    asked: IndexArray
    held_out: npt.NDArray[np.bool_]
    rng: np.random.RandomState


def draw_contexts(seed: int, trials: int) -> Iterator[SkewedContext]:
    """Contexts in the order of the module's docstring. The uniform sample of each must be drawn before the next."""
    rng = np.random.RandomState(seed)
    sizes = [1] * RARE + [COPIES] * COMMON
    for _ in range(trials):
        centres = CENTRES * rng.randn(len(sizes), DIMENSION)
        keys = np.vstack(
            [centre + SPREAD * rng.randn(size, DIMENSION) for centre, size in zip(centres, sizes, strict=True)]
        )
        queries = np.vstack([centre + QUERY_NOISE * rng.randn(2, DIMENSION) for centre in centres])
        yield SkewedContext(
            keys,
            np.repeat(np.arange(len(sizes)), sizes),
            queries,
            np.repeat(np.arange(len(sizes)), 2),
            np.arange(2 * len(sizes)) % 2 == 1,
            rng,
        )


def group_recall(context: SkewedContext, kept: IndexArray) -> tuple[float, float]:
    """Share of held-out queries answered with their group, for singleton groups and for the others."""
    weights = kernel_block(context.queries[context.held_out], context.keys[kept], SIGMA)
    shares = weights @ np.eye(RARE + COMMON)[context.groups[kept]]
    asked = context.asked[context.held_out]
    right = shares.argmax(axis=1) == asked
    return float(right[asked < RARE].mean()), float(right[asked >= RARE].mean())


def measure_trials(seed: int, trials: int, regime: str) -> list[ArmResult]:
    """Every arm in every trial of one seed."""
    rows = []
    for number, drawn in enumerate(draw_contexts(seed, trials)):
        # The attention policies see the queries they are judged by, as in the paper.
        context = Context.of(drawn.keys, sigma=SIGMA, queries=drawn.queries)
        coefficients, _ = support_fit(context, NU)
        budget = int(np.count_nonzero(coefficients))
        for arm, kept in choices(context, budget, drawn.rng, nu=NU):
            rare, common = group_recall(drawn, kept)
            rows.append(ArmResult(regime, arm, number, len(context), kept.size, rare, common))
    return rows


def measure_seed(seed: int, trials: int, regime: str, trial: int) -> list[ArmResult]:
    """Every arm's means over one seed's trials."""
    return list(mean_of(measure_trials(seed, trials, regime), regime, trial))
