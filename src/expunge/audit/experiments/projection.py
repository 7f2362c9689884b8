"""Minimum-norm projection of a deletion and of a refit (paper, §4.5; docs/results/protocols.md, Projection).

The trials of the deletion audit, with values in four dimensions. Each side of a pair is projected at its own objective
level, for every tolerance ε, and the two are compared; ``none`` is the pair as it came. Arms:

- ``ours``: a `Memory`'s deletion and DAQP's refit, by `expunge.solver.min_norm`, every projection held to its own
  optimality conditions, nothing clipped;
- ``classic``: the paper's update and refit, by the paper's projection, clipped and renormalised. Its residuals are
  recomputed too, for what they are worth.

A projected state is no optimum of the memory's problem; its offset is the mean of t = 1 − 2Ka over the margin at the
threshold 1e-6, which is also where partitions are compared, here by coefficients and not as solvers recorded them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.arms import CLASSIC_COLUMNS, keep_reference
from expunge.audit.classic import program
from expunge.audit.comparison import MARGIN, StateArrays, groups_of
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.experiments.deletion import (
    DeletionTrial,
    chunks,
    delete_classic,
    delete_ours,
    regimes_of,
    set_up,
    trial_settings,
)
from expunge.audit.numbers import Number, spread_of
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import InputError, SolveError
from expunge.problem.check import stationarity_terms
from expunge.problem.kernel import kernel_block
from expunge.solver.backends import minimax_offset
from expunge.solver.min_norm import PASSED, project
from expunge.types import Vector

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT", "THRESHOLD", "TOLERANCES"]

TOLERANCES = (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
THRESHOLD = 1e-6
ARMS = ("ours", "classic")


@dataclass(frozen=True)
class _Residuals:
    """Errors of a point as a projection: mass, box and objective; those that need its multiplier where it is known."""

    multiplier: float | None
    objective: float
    allowed: float
    mass: float
    box: float
    stationarity: float | None
    excess: float
    complementarity: float | None


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    for trial in set_up(record, plan, task, "values"):
        ours = delete_ours(record, trial)
        refit = keep_reference(record, trial.labels("ours"), trial.name("daqp"), backend="daqp", **trial.kept)
        _project_pair(record, trial, "ours", ours, refit)
        theirs, program = delete_classic(record, trial)
        _project_pair(record, trial, "classic", theirs, program)
    return record


def _project_pair(record: TaskRecord, trial: DeletionTrial, arm: str, deleted: str | None, refit: str | None) -> None:
    """Compare a pair as it came and at every tolerance."""
    against = "daqp" if arm == "ours" else "refit"
    sides = {"deleted": deleted, "refit": refit}
    if deleted is not None and refit is not None:
        record.compare(
            trial.labels(arm), deleted, refit, trial.probes, against=against, threshold=THRESHOLD, recorded=False
        )
    for tolerance in TOLERANCES:
        found = {side: _project_side(record, trial, arm, side, state, tolerance) for side, state in sides.items()}
        if found["deleted"] is not None and found["refit"] is not None:
            record.compare(
                trial.labels(arm),
                found["deleted"],
                found["refit"],
                trial.probes,
                against=against,
                tolerance=tolerance,
                threshold=THRESHOLD,
            )


def _project_side(
    record: TaskRecord, trial: DeletionTrial, arm: str, side: str, given: str | None, tolerance: float
) -> str | None:
    """Project one state; a projection that is not returned is a row, and so is one that had nothing to project."""
    labels = RowLabels(trial.regime, f"{arm} projection", trial.number)
    cells: dict[str, Any] = {"tolerance": tolerance, "side": side}
    if given is None:
        record.trial(labels, "project", "not-run", "", error="the deletion did not complete", **cells)
        return None
    state = record.state_arrays(given)
    settings: dict[str, Any] = {"cap": trial.cap, "sigma": trial.sigma, "tolerance": tolerance}
    try:
        if arm == "ours":
            found = project(state.keys, state.coefficients, **settings)
            point, multiplier = found.coefficients, found.multiplier
        else:
            point, multiplier = program.project(state.keys, state.coefficients, **settings), None
    except (SolveError, InputError) as problem:
        record.trial(labels, "project", "failed", "", error=str(problem), **cells)
        return None
    name = record.state(
        f"{given}/{side}/{tolerance:.0e}",
        labels,
        role="projected",
        source=arm,
        coefficients=point,
        offset=_offset(state, point),
        **trial.kept,
    )
    residuals = _residuals(state, point, tolerance, multiplier)
    movement = float(np.max(np.abs(point - state.coefficients)))
    record.row(
        "projections",
        **asdict(labels),
        tolerance=tolerance,
        state=name,
        given=given,
        movement=movement,
        **asdict(residuals),
    )
    record.trial(labels, "project", "returned", "projected", state=name, **cells)
    return name


def _offset(state: StateArrays, point: Vector) -> float:
    terms = stationarity_terms(state.keys, point, state.sigma)
    margin = groups_of(point, state.cap, THRESHOLD) == MARGIN
    return float(terms[margin].mean()) if margin.any() else minimax_offset(terms, point, state.cap, THRESHOLD)


def _residuals(state: StateArrays, point: Vector, tolerance: float, multiplier: float | None) -> _Residuals:
    """Recompute, from the keys, whether a point is the projection of a state.

    f(a) − f(α̂) is evaluated as one product with the mean of its gradient taken out, so that it keeps its digits.
    """
    gram = kernel_block(state.keys, state.keys, state.sigma)
    given = state.coefficients
    base = math.fsum(given * (gram @ given - 1.0))
    allowance = tolerance * max(1.0, abs(base))
    difference = point - given
    gradient = gram @ (point + given) - 1.0
    middle = float(gradient.mean())
    drift = math.fsum([*point.tolist(), *(-given).tolist()])
    beyond = float(difference @ (gradient - middle)) + middle * drift - allowance
    stationarity = complementarity = None
    if multiplier is not None:
        share = multiplier / (1.0 + multiplier)
        terms = (share - 1.0) * point - share * (gram @ point)
        gap = terms - minimax_offset(terms, point, state.cap, 0.0)
        lower, upper = point <= 0.0, point >= state.cap
        stationarity = float(np.max(np.where(lower, gap, np.where(upper, -gap, np.abs(gap))), initial=0.0))
        complementarity = share * abs(beyond)
    return _Residuals(
        multiplier=multiplier,
        objective=math.fsum(point * (gram @ point - 1.0)),
        allowed=base + allowance,
        mass=abs(math.fsum([-1.0, *point.tolist()])),
        box=max(0.0, -float(point.min()), float(point.max()) - state.cap),
        stationarity=stationarity,
        excess=max(0.0, beyond),
        complementarity=complementarity,
    )


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers: list[Number] = []
    for regime in tables["trials"]["regime"].unique(maintain_order=True):
        for arm in ARMS:
            for tolerance in (None, *TOLERANCES):
                numbers += _tolerance_numbers(regime, arm, tolerance)
    return numbers


def _tolerance_numbers(regime: str, arm: str, tolerance: float | None) -> list[Number]:
    """One row of Table 5, and what Table 7 says of it."""
    name = f"{regime}/{arm}/{'none' if tolerance is None else format(tolerance, '.0e')}"
    level = ("tolerance", "null", None) if tolerance is None else ("tolerance", "==", tolerance)
    rows = (("regime", "==", regime), ("arm", "==", arm), level)
    match = (*rows, ("partition_match", "==", True))
    numbers = [
        Number(f"{name}/pairs", "comparisons", rows, "score_difference", "count"),
        *spread_of(f"{name}/score_difference", "comparisons", rows, "score_difference"),
        *spread_of(f"{name}/readout_percent", "comparisons", rows, "readout_percent"),
        Number(f"{name}/partition_match", "comparisons", match, "partition_match", "count"),
        Number(f"{name}/coefficient_difference/median", "comparisons", rows, "coefficient_difference", "median"),
        Number(f"{name}/objective_gap/max", "comparisons", rows, "objective_gap", "max"),
        Number(f"{name}/objective_gap/spearman", "comparisons", rows, "score_difference", "spearman:objective_gap"),
    ]
    if tolerance is None:
        return numbers
    sides = (("regime", "==", regime), ("arm", "==", f"{arm} projection"), level)
    return [
        *numbers,
        Number(f"{name}/projections attempted", "trials", sides, "status", "count"),
        Number(f"{name}/projections", "trials", (*sides, ("status", "==", "returned")), "status", "count"),
        *(
            Number(f"{name}/{column}/max", "projections", sides, column, "max")
            for column in ("mass", "box", "excess", "stationarity", "complementarity")
        ),
        Number(f"{name}/movement/median", "projections", sides, "movement", "median"),
    ]


def _scheduled(plan: Plan) -> dict[str, int]:
    count = trial_settings(plan)["trials"]
    rows = {"ours": count, "classic": count, "daqp": count, "refit": count}
    rows |= {f"{arm} projection": 2 * len(TOLERANCES) * count for arm in ARMS}
    return {f"{regime}/{arm}": number for regime in regimes_of(plan) for arm, number in rows.items()}


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    """Readout differences of Table 5, in % of range."""
    lines = []
    levels = ["none", *(f"{tolerance:.0e}" for tolerance in TOLERANCES)]
    for regime in dict.fromkeys(name.partition("/")[0] for name in numbers):
        for arm in ARMS:
            cells = [
                f"{level} {numbers[f'{regime}/{arm}/{level}/readout_percent/max']:.1e}"
                for level in levels
                if f"{regime}/{arm}/{level}/readout_percent/max" in numbers
            ]
            lines.append(f"{regime:<10} {arm:<8} worst readout, % of range: {', '.join(cells)}")
    return lines


EXPERIMENT = Experiment(
    name="projection",
    title="Minimum-norm projection of a deletion and of a refit",
    section="Tables 5 and 7",
    settings=lambda plan: {
        **trial_settings(plan),
        "values_seed": 12345,
        "tolerances": list(TOLERANCES),
        "threshold": THRESHOLD,
        "passed": PASSED,
    },
    tasks=chunks,
    scheduled=_scheduled,
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={"trials": {"pivots": "whole", "tolerance": "number", "side": "text", **CLASSIC_COLUMNS}},
    own_keys=True,
    clinical=True,
)
