"""What two kept states decide: every column of a comparison and of a projection, from the arrays alone.

Written apart from the audits, which measured the same with code of their own; so the readout stands here again and is
not that of `expunge.problem.readout`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from expunge.errors import VerificationError
from expunge.problem.check import stationarity_terms
from expunge.problem.kernel import kernel_block, squared_distances
from expunge.types import AnyArray, Matrix, Vector

__all__ = ["RecordedState", "measured", "projected", "readout", "score"]

_RESERVE, _MARGIN, _BOUND = 0, 1, 2


@dataclass(frozen=True, eq=False)
class RecordedState:
    """A state as it is kept."""

    keys: Matrix
    coefficients: Vector
    offset: float
    cap: float
    sigma: float
    values: Matrix | None
    groups: AnyArray | None
    row: dict[str, Any]


def measured(
    state: RecordedState, reference: RecordedState, probes: Matrix, threshold: float, *, recorded: bool
) -> dict[str, float | bool | None]:
    """Every column of a comparison that two states and their probes decide."""
    ours, theirs = score(state, probes), score(reference, probes)
    difference, score_range = float(np.abs(ours - theirs).max()), float(theirs.max() - theirs.min())
    found: dict[str, float | bool | None] = {
        "score_difference": difference,
        "score_range": score_range,
        "score_percent": _share(difference, score_range),
        "readout_difference": None,
        "readout_range": None,
        "value_range": None,
        "readout_percent": None,
        "value_percent": None,
        "coefficient_difference": None,
        "partition_match": None,
        "objective_gap": None,
        "strictness": _strictness(reference),
    }
    if state.values is not None and reference.values is not None:
        right = readout(reference, probes)
        difference = float(np.abs(readout(state, probes) - right).max())
        spread = float((right.max(axis=0) - right.min(axis=0)).max())
        held = float((reference.values.max(axis=0) - reference.values.min(axis=0)).max())
        found |= {
            "readout_difference": difference,
            "readout_range": spread,
            "value_range": held,
            "readout_percent": _share(difference, spread),
            "value_percent": _share(difference, held),
        }
    if np.array_equal(state.keys, reference.keys):
        a, b = state.coefficients, reference.coefficients
        gram = kernel_block(state.keys, state.keys, state.sigma)
        rise = math.fsum((a - b) * (gram @ (a + b) - 1.0))
        level = math.fsum(b * (gram @ b - 1.0))
        if recorded:
            if state.groups is None or reference.groups is None:
                raise VerificationError(
                    f"{state.row['state']} is compared by groups that nobody recorded",
                    code="archive-comparison-mismatch",
                )
            match = np.array_equal(state.groups, reference.groups)
        else:
            match = np.array_equal(_groups(a, state.cap, threshold), _groups(b, reference.cap, threshold))
        found |= {
            "coefficient_difference": float(np.abs(a - b).max()),
            "partition_match": bool(match),
            "objective_gap": abs(rise) / max(1.0, abs(level)),
        }
    return found


def projected(
    point: RecordedState, given: RecordedState, tolerance: float, multiplier: float | None
) -> dict[str, float | None]:
    """Every column of a projection: what it misses of Equation 6's optimality conditions."""
    a, b, cap = point.coefficients, given.coefficients, given.cap
    gram = kernel_block(given.keys, given.keys, given.sigma)
    level = math.fsum(b * (gram @ b - 1.0))
    allowance = tolerance * max(1.0, abs(level))
    gradient = gram @ (a + b) - 1.0
    middle = float(gradient.mean())
    drift = math.fsum([*a.tolist(), *(-b).tolist()])
    beyond = math.fsum((a - b) * (gradient - middle)) + middle * drift - allowance
    found: dict[str, float | None] = {
        "objective": math.fsum(a * (gram @ a - 1.0)),
        "allowed": level + allowance,
        "mass": abs(math.fsum([-1.0, *a.tolist()])),
        "box": max(0.0, float((-a).max()), float((a - cap).max())),
        "excess": max(0.0, beyond),
        "movement": float(np.abs(a - b).max()),
        "stationarity": None,
        "complementarity": None,
    }
    if multiplier is not None:
        share = float(multiplier) / (1.0 + float(multiplier))
        terms = -(1.0 - share) * a - share * (gram @ a)
        below, above = terms[a < cap].max(initial=-math.inf), terms[a > 0.0].min(initial=math.inf)
        # The best offset lies between what the keys below the cap and those above zero ask for.
        found["stationarity"] = max(0.0, 0.5 * float(below - above))
        found["complementarity"] = share * abs(beyond)
    return found


def score(state: RecordedState, points: Matrix) -> Vector:
    """2Σακ − ρ; a solver that recorded its groups leaves its reserve out."""
    _check_dimension(state, points)
    weights = (
        state.coefficients if state.groups is None else np.where(state.groups != _RESERVE, state.coefficients, 0.0)
    )
    return np.asarray(2.0 * kernel_block(points, state.keys, state.sigma) @ weights - state.offset)


def readout(state: RecordedState, points: Matrix) -> Matrix:
    """Σακv / Σακ, every κ relative to that of the nearest key that weighs something."""
    if state.values is None:
        raise VerificationError(f"state {state.row['state']} has no values to read", code="archive-state-mismatch")
    _check_dimension(state, points)
    active = state.coefficients != 0.0
    far = squared_distances(points, state.keys[active])
    weights = np.exp((far.min(axis=1, keepdims=True) - far) / state.sigma**2) * state.coefficients[active]
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)) @ state.values[active])


def _check_dimension(state: RecordedState, points: Matrix) -> None:
    # The compiled kernel reads as many coordinates as the first array has, and asks no further.
    if points.shape[1] != state.keys.shape[1]:
        raise VerificationError(
            f"state {state.row['state']} is read at points of {points.shape[1]} coordinates",
            code="archive-array-invalid",
        )


def _strictness(state: RecordedState) -> float:
    """Distance of an optimum from degeneracy."""
    slack = np.abs(state.offset - stationarity_terms(state.keys, state.coefficients, state.sigma))
    groups = _groups(state.coefficients, state.cap, 0.0) if state.groups is None else state.groups
    room = np.minimum(state.coefficients, state.cap - state.coefficients)
    return float(np.where(groups == _MARGIN, room, slack).min())


def _groups(coefficients: Vector, cap: float, threshold: float) -> AnyArray:
    groups = np.full(coefficients.shape, _MARGIN)
    groups[coefficients >= cap - threshold] = _BOUND
    groups[coefficients <= threshold] = _RESERVE
    return groups


def _share(difference: float, spread: float) -> float:
    if spread > 0.0:
        return 100.0 * difference / spread
    return 0.0 if difference == 0.0 else math.inf
