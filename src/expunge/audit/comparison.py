"""Two states side by side at the same probes: scores, readouts, partitions (paper, §4.4 and §4.6).

Every difference comes with what it is to be divided by, and with how far the reference is from degenerate, where a
partition means nothing. The numbers depend on the stored arrays alone, so that `expunge.verify.audit_results` can
recompute each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from expunge.problem.check import stationarity_terms
from expunge.problem.kernel import kernel_block
from expunge.problem.readout import readout
from expunge.problem.tolerances import PARTITION_THRESHOLD
from expunge.types import Matrix, Vector

__all__ = [
    "Comparison",
    "StateArrays",
    "compare",
    "condition_number",
    "groups_of",
    "readout_at",
    "score_at",
    "strictness",
]

RESERVE, MARGIN, BOUND = 0, 1, 2


@dataclass(frozen=True, eq=False)
class StateArrays:
    """A state as it is kept: keys (n, d), coefficients (n,), offset; values (n, dv) and groups (n,) if it has them."""

    keys: Matrix
    coefficients: Vector
    offset: float
    cap: float
    sigma: float
    values: Matrix | None = None
    groups: npt.NDArray[np.int8] | None = None


@dataclass(frozen=True)
class Comparison:
    """What was measured; None where the two states have nothing in common to measure."""

    score_difference: float
    score_range: float
    score_percent: float | None
    readout_difference: float | None
    readout_range: float | None
    value_range: float | None
    readout_percent: float | None
    value_percent: float | None
    coefficient_difference: float | None
    partition_match: bool | None
    grouping: str | None
    threshold: float
    objective_gap: float | None
    strictness: float


def compare(
    state: StateArrays,
    reference: StateArrays,
    probes: Matrix,
    *,
    threshold: float = PARTITION_THRESHOLD,
    recorded: bool = True,
) -> Comparison:
    """Measure a state against a reference at probes (m, d).

    Coefficients, partitions and objectives are compared where both states are about the same keys. Partitions are the
    groups that both solvers recorded, if they did and if `recorded`, else those of the coefficients at the threshold.
    """
    by_record = recorded and state.groups is not None and reference.groups is not None
    expected = score_at(reference, probes)
    difference = spread = value_range = None
    if state.values is not None and reference.values is not None:
        right = readout_at(reference, probes)
        difference = float(np.max(np.abs(readout_at(state, probes) - right)))
        spread = float(np.max(np.ptp(right, axis=0)))
        value_range = float(np.max(np.ptp(reference.values, axis=0)))
    score = float(np.max(np.abs(score_at(state, probes) - expected)))
    score_range = float(np.ptp(expected))
    same = state.keys.shape == reference.keys.shape and np.array_equal(state.keys, reference.keys)
    return Comparison(
        score_difference=score,
        score_range=score_range,
        score_percent=_percent(score, score_range),
        readout_difference=difference,
        readout_range=spread,
        value_range=value_range,
        readout_percent=_percent(difference, spread),
        value_percent=_percent(difference, value_range),
        coefficient_difference=float(np.max(np.abs(state.coefficients - reference.coefficients))) if same else None,
        partition_match=_same_groups(state, reference, None if by_record else threshold) if same else None,
        grouping=("recorded" if by_record else "threshold") if same else None,
        threshold=threshold,
        objective_gap=_objective_gap(state, reference) if same else None,
        strictness=strictness(reference),
    )


def score_at(state: StateArrays, points: Matrix) -> Vector:
    """Gate score s(x) = 2Σακ − ρ at points (m, d) → (m,).

    A solver that records its groups leaves what it believes to be reserve out of the sum, as the paper's does.
    """
    active = np.flatnonzero(state.coefficients if state.groups is None else state.groups != RESERVE)
    block = kernel_block(points, state.keys[active], state.sigma)
    return np.asarray(2.0 * (block @ state.coefficients[active]) - state.offset)


def readout_at(state: StateArrays, points: Matrix) -> Matrix:
    """Normalized readout o(q) = Σακv / Σακ of a state at points (m, d) → (m, dv)."""
    if state.values is None:
        raise ValueError("a state without values has no readout")
    return readout(state.keys, state.values, state.coefficients, points, state.sigma)


def groups_of(coefficients: Vector, cap: float, threshold: float = 0.0) -> npt.NDArray[np.int8]:
    """Reserve, margin or bound for each coefficient; within the threshold of a bound counts as at it."""
    lower = coefficients <= threshold
    upper = (coefficients >= cap - threshold) & ~lower
    return np.where(lower, RESERVE, np.where(upper, BOUND, MARGIN)).astype(np.int8)


def strictness(state: StateArrays) -> float:
    """How far an optimum is from degenerate: least of α and C − α on the margin and of |slack| elsewhere.

    Zero where a coefficient could change its group at no cost: then two exact optima may disagree in their groups.
    """
    groups = groups_of(state.coefficients, state.cap) if state.groups is None else state.groups
    slack = np.abs(state.offset - stationarity_terms(state.keys, state.coefficients, state.sigma))
    room = np.minimum(state.coefficients, state.cap - state.coefficients)
    return float(np.min(np.where(groups == MARGIN, room, slack)))


def condition_number(keys: Matrix, sigma: float) -> float:
    """2-norm condition number of the Gram matrix; beyond 1e16 it is rounding."""
    return float(np.linalg.cond(kernel_block(keys, keys, sigma)))


def _percent(difference: float | None, spread: float | None) -> float | None:
    if difference is None or spread is None:
        return None
    return 100.0 * difference / spread if spread > 0.0 else (0.0 if difference == 0.0 else float("inf"))


def _same_groups(state: StateArrays, reference: StateArrays, threshold: float | None) -> bool:
    """By recorded groups, or by coefficients at a threshold."""
    if threshold is None:
        return state.groups is not None and np.array_equal(state.groups, reference.groups)  # type: ignore[arg-type]
    ours = groups_of(state.coefficients, state.cap, threshold)
    return bool(np.array_equal(ours, groups_of(reference.coefficients, reference.cap, threshold)))


def _objective_gap(state: StateArrays, reference: StateArrays) -> float:
    """|f(α) − f(α_ref)| / max(1, |f(α_ref)|), as one product, so that it keeps its digits."""
    gram = kernel_block(reference.keys, reference.keys, reference.sigma)
    ours, theirs = state.coefficients, reference.coefficients
    rise = abs(float((ours - theirs) @ (gram @ (ours + theirs) - 1.0)))
    return rise / max(1.0, abs(float(theirs @ (gram @ theirs - 1.0))))
