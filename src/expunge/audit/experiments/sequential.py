"""Chained deletions and admissions (paper, §4.6, Table 6; docs/results/protocols.md, Sequential edits).

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
from typing import Any

import numpy as np

from expunge.audit.arms import (
    CLASSIC_COLUMNS,
    classic_cells,
    independent_backend,
    keep_classic,
    keep_memory,
    keep_reference,
    source_of,
)
from expunge.audit.classic import baseline
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.experiments.sequential_numbers import sequential_numbers
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
from expunge.audit.own_keys import describe_keys
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import InputError, Refused, SolveError
from expunge.memory.memory import Memory
from expunge.problem.tolerances import ACCEPTANCE

__all__ = ["EXPERIMENT"]

ARMS = ("ours", "classic", "guarded")
OWN_SIZE, OWN_SEEDS = 64, range(10)
QUICK_SEEDS = 1


class _Schedule:
    """A trajectory's arrays in a task's record, and the names of what each operation leaves behind."""

    def __init__(self, record: TaskRecord, trajectory: Trajectory, condition: str) -> None:
        self.record, self.trajectory, self.condition = record, trajectory, condition
        size = len(trajectory.keys)
        record.array("pool", np.vstack([trajectory.keys, *(cycle.key for cycle in trajectory.cycles)]))
        record.array("pool-values", np.vstack([trajectory.values, *(cycle.value for cycle in trajectory.cycles)]))
        record.array("anchors", trajectory.anchors)
        self.rows: list[list[int]] = [list(range(size))]
        for number, cycle in enumerate(trajectory.cycles):
            rows = self.rows[-1].copy()
            deleted = rows.pop(cycle.row)
            self._step(rows, deleted, cycle.rows_after_delete, cycle.noise_after_delete)
            self._step([*rows, size + number], size + number, cycle.rows_after_admit, cycle.noise_after_admit)
        record.array("rows/00", np.array(self.rows[0], dtype=np.int16))

    def _step(self, rows: list[int], changed: int, jittered: Any, noise: Any) -> None:
        self.rows.append(rows)
        operation = len(self.rows) - 1
        self.record.array(f"rows/{operation:02d}", np.array(rows, dtype=np.int16))
        self.record.array(f"changed/{operation:02d}", np.array([changed], dtype=np.int16))
        points = self.record.arrays["pool"][rows][jittered] + noise
        self.record.array(f"jittered/{operation:02d}", points)

    def labels(self, arm: str, operation: int) -> RowLabels:
        return RowLabels(self.condition, arm, self.trajectory.seed, operation)

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
            self.record.trial(self.labels(arm, operation), kind, "not-run", "", **self.cells())


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    trajectory = _trajectory(plan, **task.arguments)
    schedule = _Schedule(record, trajectory, _condition(trajectory))
    _run_ours(record, schedule)
    _run_classic(record, schedule, "classic", baseline.InitialRun, baseline.refit, "refit")
    _run_classic(record, schedule, "guarded", baseline.GuardedRun, baseline.strict_refit, "strict")
    return record


def _trajectory(plan: Plan, regime: Any, size: int, dimension: int, seed: int) -> Trajectory:
    if plan.keys is None:
        return draw_trajectory(regime, size, dimension, seed, cycles=_cycles(plan))
    if plan.sigma is None or plan.nu is None:
        raise InputError("a plan with one's own keys has a width and a sparsity")
    return draw_own_trajectory(plan.keys, size, seed, sigma=plan.sigma, nu=plan.nu, cycles=_cycles(plan))


def _condition(trajectory: Trajectory) -> str:
    size, dimension = trajectory.keys.shape
    return f"{trajectory.regime} n={size} d={dimension}"


def _run_ours(record: TaskRecord, schedule: _Schedule) -> None:
    trajectory, source = schedule.trajectory, "ours"
    arm, cells = "ours", schedule.cells()
    try:
        memory = Memory.fit(
            trajectory.keys, trajectory.values, sigma=trajectory.sigma, cap=trajectory.cap, ids=trajectory.names
        )
    except SolveError as problem:
        record.trial(schedule.labels(arm, 0), "fit", "failed", "", error=str(problem), **cells)
        schedule.not_run(arm, 1)
        return
    rescued = memory.outcomes["rescued"] > 0
    _keep_ours(record, schedule, memory, 0, "rescued" if rescued else "cold", source, {**cells, "rescued": rescued})
    for operation, edit in enumerate(trajectory.operations(), 1):
        labels = schedule.labels(arm, operation)
        if edit.kind == "delete" and not memory.deletable:
            # The cap of a trajectory stays.
            record.trial(labels, edit.kind, "refused", "", error="no key can go at this cap", **cells)
            schedule.not_run(arm, operation + 1)
            return
        try:
            with record.timed(labels, edit.kind):
                if edit.kind == "delete":
                    receipt = memory.delete(edit.name)
                else:
                    receipt = memory.admit(edit.key, edit.value, id=edit.name)
        except Refused as refusal:
            record.trial(labels, edit.kind, "refused", "", error=refusal.reason, **cells)
            schedule.not_run(arm, operation + 1)
            return
        rescued = receipt.outcome == "rescued"
        source = source_of([receipt]) if receipt.attempts else source
        told = {**cells, "rescued": rescued, "pivots": receipt.pivots}
        _keep_ours(record, schedule, memory, operation, receipt.outcome, source, told, kind=edit.kind)


def _keep_ours(
    record: TaskRecord,
    schedule: _Schedule,
    memory: Memory,
    operation: int,
    path: str,
    source: str,
    cells: dict[str, Any],
    kind: str = "fit",
) -> None:
    """Keep a state of ours and the reference that judges it."""
    labels, kept = schedule.labels("ours", operation), schedule.kept(operation)
    name = schedule.name("ours", operation)
    keep_memory(record, labels, name, memory, keys=kept["keys"], values=kept["values"], source=source)
    record.trial(labels, kind, "returned", path, state=name, **cells)
    judge = independent_backend(source)
    reference = keep_reference(record, labels, schedule.name(judge, operation), backend=judge, **kept)
    if reference is not None:
        record.compare(labels, name, reference, schedule.probes(operation), against=judge)


def _run_classic(record: TaskRecord, schedule: _Schedule, arm: str, run: Any, solve: Any, against: str) -> None:
    """One of the paper's two runs over the schedule."""
    trajectory = schedule.trajectory
    settings = {"cap": trajectory.cap, "sigma": trajectory.sigma}
    try:
        memory, step = run.start(trajectory.keys, **settings)
    except SolveError as problem:
        record.trial(schedule.labels(arm, 0), "fit", "failed", "", error=str(problem), **schedule.cells())
        schedule.not_run(arm, 1)
        return
    _keep_step(record, schedule, arm, 0, "fit", step, solve, against)
    if memory is None:
        schedule.not_run(arm, 1)
        return
    for operation, edit in enumerate(trajectory.operations(), 1):
        row = trajectory.cycles[(operation - 1) // 2].row
        with record.timed(schedule.labels(arm, operation), edit.kind):
            step = memory.delete(row) if edit.kind == "delete" else memory.admit(edit.key)
        _keep_step(record, schedule, arm, operation, edit.kind, step, solve, against)
        if step.status != "returned":
            # A refused edit leaves a memory that no longer follows the schedule.
            schedule.not_run(arm, operation + 1)
            return


def _keep_step(
    record: TaskRecord,
    schedule: _Schedule,
    arm: str,
    operation: int,
    kind: str,
    step: baseline.ClassicStep,
    solve: Any,
    against: str,
) -> None:
    """Keep what a step published, what it rejected, and the reference beside both."""
    labels, kept = schedule.labels(arm, operation), schedule.kept(operation)
    settings = {"cap": kept["cap"], "sigma": kept["sigma"]}
    published = candidate = None
    if step.status == "returned" and step.published is not None:
        published = keep_classic(record, labels, schedule.name(arm, operation), step.published, **kept)
    if step.candidate is not None and (published is None or step.path not in ("fit", "update")):
        rejected = labels.of_arm(f"{arm} rejected")
        name = schedule.name(f"{arm}-rejected", operation)
        candidate = keep_classic(record, rejected, name, step.candidate, role="candidate", **kept)
    record.trial(
        labels,
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
    judging = labels.of_arm(against)
    try:
        fresh = solve(record.get(kept["keys"]), **settings)
    except SolveError as problem:
        record.trial(judging, "fit", "failed", "", error=str(problem), **schedule.cells())
        return
    reference = keep_classic(record, judging, schedule.name(against, operation), fresh, role="reference", **kept)
    record.trial(judging, "fit", "returned", "program", state=reference, **schedule.cells())
    for state, where in ((published, labels), (candidate, labels.of_arm(f"{arm} rejected"))):
        if state is not None:
            record.compare(where, state, reference, schedule.probes(operation), against=against)


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
    numbers=lambda tables: sequential_numbers(tables, ARMS),
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
