"""Whether a point is inside the boundary of a fit, how far from it, and whether a key is near the point.

The boundary is the sphere R² = ρ + αᵀKα around c = Σαφ(x_i). A point x is inside where its slack
g(x) = R² − ‖φ(x) − c‖² = ρ − 1 + 2Σακ(x, x_i) is not negative. In terms of the gate score s(x) = 2Σακ(x, x_i) − ρ that
is s(x) ≥ 1 − 2ρ, and not s(x) ≥ 0: margin keys score exactly 1 − 2ρ, reserve keys at least that, bound keys at most.

- Rounding must not put a margin key outside, so a point within `PUBLISHED` of the boundary counts as inside.
- With an empty margin ρ is the least t of the bound keys (``docs/design/0003-offset-of-an-empty-margin.md``): the
  boundary goes through the innermost of them, which is inside, and the others are outside.
- Without keys there is no fit and no judgement.

Everything is a function of the keys with a coefficient, evaluated in their canonical order. Keys without one do not
count as near: a judgement is the same before and after they are pruned, and tells nothing of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expunge.problem.kernel import largest_kernel_values
from expunge.problem.solution import Solution
from expunge.problem.tolerances import NEARBY, PUBLISHED
from expunge.types import Matrix

__all__ = ["Judgement", "judge"]


@dataclass(frozen=True)
class Judgement:
    """Where one point lies.

    Parameters
    ----------
    score : float
        Gate score s(x) = 2Σακ(x, x_i) − ρ.
    distance : float
        Signed distance of the score to the boundary, s(x) − (1 − 2ρ): positive inside.
    inside : bool
        Whether the distance is not negative, within 1e−9.
    nearest_similarity : float
        κ of the point and the nearest key that has weight, from 0 to 1.
    nearby : bool
        Whether that similarity is at least 0.001. Where it is not, an answer says little: it is the mean of values
        that are all far away.

    """

    score: float
    distance: float
    inside: bool
    nearest_similarity: float
    nearby: bool


def judge(solution: Solution, points: Matrix) -> list[Judgement]:
    """Judge points (m, d) by a solution that has keys."""
    problem, offset = solution.problem, solution.offset
    doubled = 2.0 * solution.similarity(points)
    nearest = largest_kernel_values(points, problem.keys[np.flatnonzero(solution.coefficients)], problem.sigma)
    columns = (doubled - offset).tolist(), (offset - 1.0 + doubled).tolist(), nearest.tolist()
    return [
        Judgement(score, distance, distance >= -PUBLISHED, similar, similar >= NEARBY)
        for score, distance, similar in zip(*columns, strict=True)
    ]
