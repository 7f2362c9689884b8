"""Reconstruction of an erased entry (as in arXiv 2405.20272): the attacker saw the state *before* the erasure, too.

The attacker holds the entries that remain and the code. Two cases in which it saw something before:

- *Coefficients and offset before.* The erased weight is a = 1 − Σα over the rest. At every remaining margin key, (1 −
  ρ)/2 − Σακ = a·κ(x, ·); d + 1 of them give x by trilateration. An entry of weight 0 leaves no trace here.
- *Scores before*, at 3d queries or more. For every guess of x the memory is refitted and its scores compared:
  nonlinear least squares in d unknowns.

And the case that the memory is built for: *only the state after*. It is a function of the entries that the attacker
holds anyway, so every candidate gives the same bytes, and nothing is left to reconstruct from.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from attackers.anchors import trilaterate
from expunge import Memory

__all__ = ["from_coefficients", "from_scores"]

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


def from_coefficients(remaining: Matrix, alpha: Vector, offset: float, cap: float, sigma: float) -> Vector | None:
    """The erased key, from coefficients (n,) of the remaining entries and the offset, both of before the erasure."""
    gone = 1.0 - float(alpha.sum())
    margin = (alpha > 0.0) & (alpha < cap)
    if gone < 1e-9 or margin.sum() <= remaining.shape[1]:
        return None
    squared = ((remaining[margin][:, None, :] - remaining[None, :, :]) ** 2).sum(axis=2)
    kernels = (0.5 * (1.0 - offset) - np.exp(-squared / sigma**2) @ alpha) / gone
    return trilaterate(remaining[margin], kernels, sigma)


def from_scores(
    remaining: Matrix,
    queries: Matrix,
    scores: Vector,
    *,
    cap: float,
    sigma: float,
    rng: np.random.Generator,
    starts: int = 100,
) -> Vector:
    """The key whose presence explains scores (m,) at queries (m, d), answered before the erasure, best."""
    size = len(remaining)

    def residuals(x: Vector) -> Vector:
        memory = Memory.fit(np.vstack([remaining, x]), np.zeros((size + 1, 1)), sigma=sigma, cap=cap)
        return np.asarray(memory.score(queries) - scores)

    # Keys that weigh something lie at the edge of the data, so the starts are drawn wider than it.
    spread = 1.3 * remaining.std(axis=0)
    drawn = remaining.mean(axis=0) + spread * rng.standard_normal((starts, remaining.shape[1]))
    ranked = sorted(drawn, key=lambda x: float(np.square(residuals(x)).sum()))
    best, least = ranked[0], np.inf
    for start in ranked[:16]:
        solved = least_squares(residuals, start, xtol=1e-14, ftol=1e-14, gtol=1e-14, diff_step=[1e-7], max_nfev=60)
        if solved.cost < least:
            best, least = solved.x, solved.cost
        if least < 1e-24:
            break
    return np.asarray(best)
