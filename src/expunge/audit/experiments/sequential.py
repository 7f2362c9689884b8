"""Chained deletions and admissions (paper, §4.6, Table 6; protocol P5).

Eighty trajectories of 64 edits, each with three arms on the same schedule:

- ``ours``: a `Memory`; every state beside a polished reference from a backend that did not produce it;
- ``classic``: the paper's initial run: update, check at 1e-5, fall back on a refit, stop when that fails too. Beside
  the paper's refit at 1e-10, which may itself fail the check;
- ``guarded``: the paper's follow-up: update a copy, check, rescue by a strict refit, or refuse. Beside its strict
  refit.

A candidate that was not published is kept as well, as the arm ``… rejected``. Operation 0 is the first fit; an edit
that was never tried because its trajectory had ended is a row with the status ``not-run``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.arms import (
    CLASSIC_COLUMNS,
    classic_cells,
    judge_other_than,
    keep_classic,
    keep_memory,
    keep_reference,
    source_of,
)
from expunge.audit.classic import baseline as classic
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.experiments.trajectories import (
    CYCLES,
    DIMENSIONS,
    PAPER_SEEDS,
    REGIMES,
    SIZES,
    Trajectory,
    draw_own_trajectory,
    draw_trajectory,
)
from expunge.audit.numbers import Number, spread_of
from expunge.audit.own_keys import describe_keys
from expunge.audit.task_record import Outcome, Place
from expunge.errors import InputError, Refused, SolveError
from expunge.memory.memory import Memory
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT"]

ARMS = ("ours", "classic", "guarded")
OWN_SIZE, OWN_SEEDS = 64, range(10)
QUICK_SEEDS = 1


class _Schedule:
    """A trajectory's arrays in an outcome, and the names of what each operation leaves behind."""

    def __init__(self, outcome: Outcome, trajectory: Trajectory, condition: str) -> None:
        self.outcome, self.trajectory, self.condition = outcome, trajectory, condition
        size = len(trajectory.keys)
        outcome.array("pool", np.vstack([trajectory.keys, *(cycle.key for cycle in trajectory.cycles)]))
        outcome.array("pool-values", np.vstack([trajectory.values, *(cycle.value for cycle in trajectory.cycles)]))
        outcome.array("anchors", trajectory.anchors)
        self.rows: list[list[int]] = [list(range(size))]
        for number, cycle in enumerate(trajectory.cycles):
            rows = self.rows[-1].copy()
            deleted = rows.pop(cycle.row)
            self._step(rows, deleted, cycle.rows_after_delete, cycle.noise_after_delete)
            self._step([*rows, size + number], size + number, cycle.rows_after_admit, cycle.noise_after_admit)
        outcome.array("rows/00", np.array(self.rows[0], dtype=np.int16))

    def _step(self, rows: list[int], changed: int, jittered: Any, noise: Any) -> None:
        self.rows.append(rows)
        operation = len(self.rows) - 1
        self.outcome.array(f"rows/{operation:02d}", np.array(rows, dtype=np.int16))
        self.outcome.array(f"changed/{operation:02d}", np.array([changed], dtype=np.int16))
        points = self.outcome.arrays["pool"][rows][jittered] + noise
        self.outcome.array(f"jittered/{operation:02d}", points)

    def place(self, arm: str, operation: int) -> Place:
        return Place(self.condition, arm, self.trajectory.seed, operation)

    def name(self, arm: str, operation: int) -> str:
        return f"{self.trajectory.label}/{operation:02d}/{arm}"

    def kept(self, operation: int) -> dict[str, Any]:
        """Arguments that keep a state after an operation."""
        trajectory = self.trajectory
        return {
            "keys": f"pool[rows/{operation:02d}]",
            "values": f"pool-values[rows/{operation:02d}]",
            "cap": trajectory.cap,
            "sigma": trajectory.sigma,
        }

    def probes(self, operation: int) -> list[str]:
        """The keys, the changed key, the anchors and the jittered keys."""
        own = [f"pool[rows/{operation:02d}]"]
        if operation == 0:
            return [*own, "anchors"]
        return [*own, f"pool[changed/{operation:02d}]", "anchors", f"jittered/{operation:02d}"]

    def cells(self) -> dict[str, Any]:
        """Columns that say which trajectory it is."""
        size, dimension = self.trajectory.keys.shape
        return {"size": int(size), "dimension": int(dimension), "seed": self.trajectory.seed}

    def not_run(self, arm: str, first: int) -> None:
        """Record the operations that a trajectory did not come to."""
        for operation in range(first, len(self.rows)):
            kind = "delete" if operation % 2 else "admit"
            self.outcome.trial(self.place(arm, operation), kind, "not-run", "", **self.cells())


def _perform(plan: Plan, task: Task) -> Outcome:
    outcome = Outcome(task.unit)
    trajectory = _trajectory(plan, **task.arguments)
    schedule = _Schedule(outcome, trajectory, _condition(trajectory))
    _run_ours(outcome, schedule)
    _run_classic(outcome, schedule, "classic", classic.Initial, classic.refit, "refit")
    _run_classic(outcome, schedule, "guarded", classic.Guarded, classic.strict_refit, "strict")
    return outcome


def _trajectory(plan: Plan, regime: Any, size: int, dimension: int, seed: int) -> Trajectory:
    if plan.keys is None:
        return draw_trajectory(regime, size, dimension, seed, cycles=_cycles(plan))
    if plan.sigma is None or plan.nu is None:
        raise InputError("a plan with one's own keys has a width and a sparsity")
    return draw_own_trajectory(plan.keys, size, seed, sigma=plan.sigma, nu=plan.nu, cycles=_cycles(plan))


def _condition(trajectory: Trajectory) -> str:
    size, dimension = trajectory.keys.shape
    return f"{trajectory.regime} n={size} d={dimension}"


def _run_ours(outcome: Outcome, schedule: _Schedule) -> None:
    trajectory, source = schedule.trajectory, "ours"
    arm, cells = "ours", schedule.cells()
    try:
        memory = Memory.fit(
            trajectory.keys, trajectory.values, sigma=trajectory.sigma, cap=trajectory.cap, ids=trajectory.names
        )
    except SolveError as problem:
        outcome.trial(schedule.place(arm, 0), "fit", "failed", "", error=str(problem), **cells)
        schedule.not_run(arm, 1)
        return
    rescued = memory.outcomes["rescued"] > 0
    _keep_ours(outcome, schedule, memory, 0, "rescued" if rescued else "cold", source, {**cells, "rescued": rescued})
    for operation, edit in enumerate(trajectory.operations(), 1):
        place = schedule.place(arm, operation)
        try:
            with outcome.timed(place, edit.kind):
                if edit.kind == "delete":
                    receipt = memory.delete(edit.name)
                else:
                    receipt = memory.admit(edit.key, edit.value, id=edit.name)
        except Refused as refusal:
            outcome.trial(place, edit.kind, "refused", "", error=refusal.reason, **cells)
            schedule.not_run(arm, operation + 1)
            return
        rescued = receipt.outcome == "rescued"
        source = source_of([receipt]) if receipt.attempts else source
        told = {**cells, "rescued": rescued, "pivots": receipt.pivots}
        _keep_ours(outcome, schedule, memory, operation, receipt.outcome, source, told, kind=edit.kind)


def _keep_ours(
    outcome: Outcome,
    schedule: _Schedule,
    memory: Memory,
    operation: int,
    path: str,
    source: str,
    cells: dict[str, Any],
    kind: str = "fit",
) -> None:
    """Keep a state of ours and the reference that judges it."""
    place, kept = schedule.place("ours", operation), schedule.kept(operation)
    name = schedule.name("ours", operation)
    keep_memory(outcome, place, name, memory, keys=kept["keys"], values=kept["values"], source=source)
    outcome.trial(place, kind, "returned", path, state=name, **cells)
    judge = judge_other_than(source)
    reference = keep_reference(outcome, place, schedule.name(judge, operation), backend=judge, **kept)
    if reference is not None:
        outcome.compare(place, name, reference, schedule.probes(operation), against=judge)


def _run_classic(outcome: Outcome, schedule: _Schedule, arm: str, run: Any, solve: Any, against: str) -> None:
    """One of the paper's two runs over the schedule."""
    trajectory = schedule.trajectory
    settings = {"cap": trajectory.cap, "sigma": trajectory.sigma}
    try:
        memory, step = run.start(trajectory.keys, **settings)
    except SolveError as problem:
        outcome.trial(schedule.place(arm, 0), "fit", "failed", "", error=str(problem), **schedule.cells())
        schedule.not_run(arm, 1)
        return
    _keep_step(outcome, schedule, arm, 0, "fit", step, solve, against)
    if memory is None:
        schedule.not_run(arm, 1)
        return
    for operation, edit in enumerate(trajectory.operations(), 1):
        row = trajectory.cycles[(operation - 1) // 2].row
        with outcome.timed(schedule.place(arm, operation), edit.kind):
            step = memory.delete(row) if edit.kind == "delete" else memory.admit(edit.key)
        _keep_step(outcome, schedule, arm, operation, edit.kind, step, solve, against)
        if step.status != "returned":
            # A refused edit leaves a memory that no longer follows the schedule.
            schedule.not_run(arm, operation + 1)
            return


def _keep_step(
    outcome: Outcome,
    schedule: _Schedule,
    arm: str,
    operation: int,
    kind: str,
    step: classic.Step,
    solve: Any,
    against: str,
) -> None:
    """Keep what a step published, what it rejected, and the reference beside both."""
    place, kept = schedule.place(arm, operation), schedule.kept(operation)
    settings = {"cap": kept["cap"], "sigma": kept["sigma"]}
    published = candidate = None
    if step.status == "returned" and step.published is not None:
        published = keep_classic(outcome, place, schedule.name(arm, operation), step.published, **kept)
    if step.candidate is not None and (published is None or step.path not in ("fit", "update")):
        rejected = place.beside(f"{arm} rejected")
        name = schedule.name(f"{arm}-rejected", operation)
        candidate = keep_classic(outcome, rejected, name, step.candidate, role="candidate", **kept)
    outcome.trial(
        place,
        kind,
        step.status,
        step.path,
        error=step.error,
        state=published,
        candidate=candidate or published,
        rescued=step.path.startswith("strict"),
        **schedule.cells(),
        **classic_cells([step]),
    )
    judging = place.beside(against)
    try:
        fresh = solve(outcome.get(kept["keys"]), **settings)
    except SolveError as problem:
        outcome.trial(judging, "fit", "failed", "", error=str(problem), **schedule.cells())
        return
    reference = keep_classic(outcome, judging, schedule.name(against, operation), fresh, role="reference", **kept)
    outcome.trial(judging, "fit", "returned", "program", state=reference, **schedule.cells())
    for state, where in ((published, place), (candidate, place.beside(f"{arm} rejected"))):
        if state is not None:
            outcome.compare(where, state, reference, schedule.probes(operation), against=against)


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    conditions = list(tables["trials"]["regime"].unique(maintain_order=True))
    last = max(tables["trials"]["operation"])
    numbers: list[Number] = []
    for condition in ("all", *conditions):
        here = () if condition == "all" else (("regime", "==", condition),)
        for arm in ARMS:
            numbers += _arm_numbers(condition, here, arm, last)
    return numbers


def _arm_numbers(condition: str, here: tuple[Any, ...], arm: str, last: int) -> list[Number]:
    """Table 6 for one arm, in one condition or over all."""
    name, rescued = f"{condition}/{arm}", (("rescued", "==", True),)
    mine = (*here, ("arm", "==", arm))
    first, edits = (*mine, ("operation", "==", 0)), (*mine, ("operation", ">", 0))
    complete = (*mine, ("operation", "==", last), ("status", "==", "returned"))
    rejected = (*here, ("arm", "==", f"{arm} rejected"), ("operation", ">", 0))
    strict = (*edits, ("strictness", ">=", PARTITION_THRESHOLD))
    numbers = [
        Number(f"{name}/trajectories", "trials", first, "status", "count"),
        Number(f"{name}/trajectories complete", "trials", complete, "status", "count"),
        Number(f"{name}/operations scheduled", "trials", edits, "status", "count"),
        *(
            Number(f"{name}/operations {status}", "trials", (*edits, ("status", "==", status)), "status", "count")
            for status in ("returned", "failed", "refused", "not-run")
        ),
        Number(f"{name}/initial failures", "trials", (*first, ("status", "!=", "returned")), "status", "count"),
        Number(f"{name}/initial rescues", "trials", (*first, *rescued), "rescued", "count"),
        Number(f"{name}/update rescues", "trials", (*edits, *rescued), "rescued", "count"),
        Number(f"{name}/residual/max", "states", (*mine, ("role", "==", "published")), "worst", "max"),
        *spread_of(f"{name}/score_difference", "comparisons", edits, "score_difference"),
        *spread_of(f"{name}/value_percent", "comparisons", edits, "value_percent"),
        Number(f"{name}/readout_percent/max", "comparisons", edits, "readout_percent", "max"),
        Number(f"{name}/strict", "comparisons", strict, "strictness", "count"),
        Number(
            f"{name}/strict/partition_match",
            "comparisons",
            (*strict, ("partition_match", "==", True)),
            "strictness",
            "count",
        ),
    ]
    if arm == "ours":
        judged = (*here, ("arm", "in", ["daqp", "clarabel"]))
        return [
            *numbers,
            Number(f"{name}/reference residual/max", "states", judged, "worst", "max"),
            Number(f"{name}/references failed", "trials", (*judged, ("status", "!=", "returned")), "status", "count"),
            Number(f"{name}/pivots/mean", "trials", edits, "pivots", "mean"),
        ]
    against = "refit" if arm == "classic" else "strict"
    references = (*here, ("arm", "==", against), ("operation", ">", 0))
    tried = (*here, ("arm", "in", [arm, f"{arm} rejected"]), ("operation", ">", 0))
    return [
        *numbers,
        Number(f"{name}/fallbacks", "trials", (*edits, ("path", "==", "fallback")), "path", "count"),
        Number(f"{name}/candidates rejected", "states", rejected, "worst", "count"),
        *(
            Number(f"{name}/rejected by {term}", "states", (*rejected, (term, ">", ACCEPTANCE)), term, "count")
            for term in ("box", "stationarity", "mass")
        ),
        *(
            Number(f"{name}/{kind} rescues", "trials", (*edits, *rescued, ("kind", "==", kind)), "kind", "count")
            for kind in ("delete", "admit")
        ),
        Number(f"{name}/violations", "trials", edits, "violations", "sum"),
        Number(f"{name}/violations explained", "trials", edits, "explained", "sum"),
        Number(f"{name}/raw value_percent/max", "comparisons", tried, "value_percent", "max"),
        Number(f"{name}/references", "trials", references, "status", "count"),
        Number(f"{name}/references not passed", "states", (*references, ("passed", "==", False)), "worst", "count"),
        Number(f"{name}/reference residual/max", "states", references, "worst", "max"),
    ]


def _grid(plan: Plan) -> list[dict[str, Any]]:
    if plan.keys is None:
        seeds = PAPER_SEEDS[:QUICK_SEEDS] if plan.quick else PAPER_SEEDS
        return [
            {"regime": regime, "size": size, "dimension": dimension, "seed": seed}
            for regime in REGIMES
            for size in SIZES
            for dimension in DIMENSIONS
            for seed in seeds
        ]
    size = min(OWN_SIZE, 2 * len(plan.keys) // 3)
    seeds = OWN_SEEDS[:QUICK_SEEDS] if plan.quick else OWN_SEEDS
    return [{"regime": "own", "size": size, "dimension": plan.keys.shape[1], "seed": seed} for seed in seeds]


def _cycles(plan: Plan) -> int:
    if plan.keys is None:
        return CYCLES
    return min(CYCLES, len(plan.keys) - min(OWN_SIZE, 2 * len(plan.keys) // 3))


def _tasks(plan: Plan) -> list[Task]:
    return [
        Task(f"{point['regime']}-n{point['size']}-d{point['dimension']}-s{point['seed']}", point)
        for point in _grid(plan)
    ]


def _scheduled(plan: Plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for point in _grid(plan):
        for arm in ARMS:
            name = f"{point['regime']} n={point['size']} d={point['dimension']}/{arm}"
            counts[name] = counts.get(name, 0) + 1 + 2 * _cycles(plan)
    return counts


def _settings(plan: Plan) -> dict[str, Any]:
    return {
        "grid": _grid(plan),
        "cycles": _cycles(plan),
        "nu": 0.4 if plan.nu is None else plan.nu,
        "acceptance": ACCEPTANCE,
        **({"keys": describe_keys(plan)} if plan.keys is not None else {}),
    }


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    """Table 6, over all conditions."""
    lines = []
    for arm in ARMS:
        name = f"all/{arm}"
        rescues = numbers[f"{name}/initial rescues"] + numbers[f"{name}/update rescues"]
        lines.append(
            f"{arm:<8} trajectories {numbers[f'{name}/trajectories complete']:.0f} of "
            f"{numbers[f'{name}/trajectories']:.0f}, operations {numbers[f'{name}/operations returned']:,.0f} of "
            f"{numbers[f'{name}/operations scheduled']:,.0f}, rescues {rescues:.0f}, "
            f"worst readout {numbers.get(f'{name}/value_percent/max', float('nan')):.1e} % of value range"
        )
    return lines


EXPERIMENT = Experiment(
    name="sequential",
    title="Chained deletions and admissions",
    section="Table 6",
    settings=_settings,
    tasks=_tasks,
    scheduled=_scheduled,
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={
        "trials": {
            "size": "whole",
            "dimension": "whole",
            "seed": "whole",
            "rescued": "flag",
            "pivots": "whole",
            **CLASSIC_COLUMNS,
        }
    },
    own_keys=True,
)
