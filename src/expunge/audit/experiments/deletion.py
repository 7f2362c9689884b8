"""The standalone deletion audit (paper, §4.4, Tables 3 and 4; docs/results/protocols.md, Deletion).

Each trial deletes two entries of a small context and compares gate scores with a refit of the remaining ones at the
same cap, on retained, removed and jittered keys. Arms:

- ``ours``: one checked transaction of a `Memory`, against two independent refits (``daqp``, ``clarabel``);
- ``classic``: the paper's maintained update, one entry after the other, against the paper's own refit (``refit``),
  which is what it falls back on, and against ``daqp``;
- ``decay``: the paper's comparator, coefficients times 0.01 and no re-solve, against the paper's refit.

Scalar values give the readout differences of the paper's diagnostic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expunge.audit.arms import CLASSIC_COLUMNS, classic_cells, keep_classic, keep_memory, keep_reference
from expunge.audit.classic import baseline
from expunge.audit.comparison import condition_number
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.experiments import regimes
from expunge.audit.numbers import Number, spread_of
from expunge.audit.own_keys import OWN_REGIME, describe_keys
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import DeletionRefused, SolveError
from expunge.memory.memory import Memory
from expunge.problem.tolerances import PARTITION_THRESHOLD

if TYPE_CHECKING:
    import polars

__all__ = [
    "EXPERIMENT",
    "DeletionTrial",
    "chunks",
    "delete_classic",
    "delete_ours",
    "regimes_of",
    "set_up",
    "trial_settings",
]

REFERENCES = ("daqp", "clarabel")
QUICK_TRIALS, CHUNK = 40, 20
# Contexts of one's own keys: as large as the clinical ones.
OWN_SIZE = 40
ARMS = ("ours", "classic", "decay", "refit", *REFERENCES)


@dataclass(frozen=True)
class DeletionTrial:
    """One trial: the names of its arrays in a task's record, and its settings."""

    regime: str
    number: int
    keys: str
    retained: str
    probes: list[str]
    values: str
    removed: tuple[int, ...]
    cap: float
    sigma: float

    def name(self, what: str) -> str:
        """Name of a state of this trial."""
        return f"{self.regime}/{self.number:03d}/{what}"

    @property
    def kept(self) -> dict[str, Any]:
        """Arguments that keep a state of the retained entries."""
        return {"keys": self.retained, "values": self.values, "cap": self.cap, "sigma": self.sigma}

    def labels(self, arm: str) -> RowLabels:
        """Where this trial's rows of an arm belong."""
        return RowLabels(self.regime, arm, self.number)


def regimes_of(plan: Plan) -> tuple[str, ...]:
    """The paper's regimes, or one's own keys."""
    return regimes.REGIMES if plan.keys is None else (OWN_REGIME,)


def trial_settings(plan: Plan) -> dict[str, Any]:
    """What decides the trials."""
    return {
        "regimes": list(regimes_of(plan)),
        "trials": _trials(plan),
        "seed": 0,
        "nu": regimes.NU if plan.nu is None else plan.nu,
        "sigma": regimes.SIGMA if plan.sigma is None else plan.sigma,
        "clinical": plan.clinical,
        **({"keys": describe_keys(plan), "size": OWN_SIZE} if plan.keys is not None else {}),
    }


def chunks(plan: Plan) -> list[Task]:
    """Trials of each regime, some at a time; a task draws those before its own, and solves none of them."""
    count = _trials(plan)
    return [
        Task(f"{regime}-{start:04d}", {"regime": regime, "start": start, "stop": min(start + CHUNK, count)})
        for regime in regimes_of(plan)
        for start in range(0, count, CHUNK)
    ]


def set_up(record: TaskRecord, plan: Plan, task: Task, values: Literal["scalars", "values"]) -> list[DeletionTrial]:
    """Draw a task's trials and keep their arrays; ``values`` says which kind of values the entries carry."""
    regime, start, stop = task.arguments["regime"], task.arguments["start"], task.arguments["stop"]
    if plan.keys is None:
        drawn = regimes.draw_trials(regime, stop, source=plan.clinical if regime == "clinical" else None)
    else:
        drawn = regimes.draw_own(plan.keys, stop, size=min(OWN_SIZE, len(plan.keys)))
    settings = trial_settings(plan)
    trials = []
    for number, context in islice(enumerate(drawn), start, stop):
        size = len(context.keys)
        prefix = f"{number:03d}"
        removed = tuple(int(row) for row in context.removed)
        keys = record.array(f"{prefix}/keys", context.keys)
        kept = record.array(f"{prefix}/kept", np.delete(np.arange(size), context.removed))
        gone = record.array(f"{prefix}/removed", np.array(removed))
        jittered = record.array(f"{prefix}/jittered", context.jittered)
        content = context.scalars if values == "scalars" else context.values
        trials.append(
            DeletionTrial(
                regime,
                number,
                keys=keys,
                retained=f"{keys}[{kept}]",
                probes=[f"{keys}[{kept}]", f"{keys}[{gone}]", jittered],
                values=record.array(f"{prefix}/values", content.reshape(size - len(removed), -1)),
                removed=removed,
                cap=context.cap if plan.nu is None else 1.0 / (plan.nu * size),
                sigma=settings["sigma"],
            )
        )
    return trials


def delete_ours(record: TaskRecord, trial: DeletionTrial) -> str | None:
    """Delete from a memory in one transaction; the state's name, or None where it failed.

    The cap of an experiment stays. What needs a larger one is not run, and counts as refused, as in the paper.
    """
    labels, name = trial.labels("ours"), trial.name("ours")
    keys = record.get(trial.keys)
    try:
        memory = Memory.fit(keys, np.zeros(len(keys)), sigma=trial.sigma, cap=trial.cap)
        if len(trial.removed) > memory.deletable:
            record.trial(labels, "delete", "refused", "", error=f"{memory.deletable} keys can go at this cap")
            return None
        with record.timed(labels, "delete"):
            receipt = memory.delete([str(row) for row in trial.removed])
    except (DeletionRefused, SolveError) as problem:
        status = "refused" if isinstance(problem, DeletionRefused) else "failed"
        record.trial(labels, "delete", status, "", error=str(problem))
        return None
    keep_memory(record, labels, name, memory, keys=trial.retained, values=trial.values)
    record.trial(labels, "delete", "returned", receipt.outcome, state=name, pivots=receipt.pivots)
    return name


def delete_classic(record: TaskRecord, trial: DeletionTrial) -> tuple[str | None, str | None]:
    """Delete by the paper's update, one entry after the other: names of the state it returned and of its refit.

    The refit is solved first, as in the paper, and published where the update does not complete.
    """
    labels, refitting = trial.labels("classic"), trial.labels("refit")
    settings: dict[str, Any] = {"cap": trial.cap, "sigma": trial.sigma}
    try:
        fresh = baseline.refit(record.get(trial.retained), **settings)
        memory = baseline.ClassicUpdate.fit(record.get(trial.keys), **settings)
    except SolveError as problem:
        record.trial(refitting, "fit", "failed", "", error=str(problem))
        record.trial(labels, "delete", "failed", "", error=str(problem))
        return None, None
    refit = keep_classic(record, refitting, trial.name("refit"), fresh, role="reference", **trial.kept)
    record.trial(refitting, "fit", "returned", "program", state=refit)
    steps = []
    with record.timed(labels, "delete"):
        for row in trial.removed:
            steps.append(memory.delete(row))
            if steps[-1].published is None:
                break
    cells = classic_cells(steps)
    if steps[-1].published is None:
        record.trial(labels, "delete", "returned", "fallback", error=steps[-1].error, state=refit, **cells)
        return None, refit
    name = keep_classic(record, labels, trial.name("classic"), steps[-1].published, **trial.kept)
    record.trial(labels, "delete", "returned", "update", state=name, **cells)
    return name, refit


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    for trial in set_up(record, plan, task, "scalars"):
        conditioning = condition_number(record.get(trial.retained), trial.sigma)
        ours = delete_ours(record, trial)
        references = {
            backend: keep_reference(record, trial.labels("ours"), trial.name(backend), backend=backend, **trial.kept)
            for backend in REFERENCES
        }
        theirs, refit = delete_classic(record, trial)
        pairs = [
            *(("ours", ours, backend, state) for backend, state in references.items()),
            ("classic", theirs, "refit", refit),
            ("classic", theirs, "daqp", references["daqp"]),
            ("decay", _decayed(record, trial), "refit", refit),
        ]
        for arm, state, against, reference in pairs:
            if state is not None and reference is not None:
                record.compare(
                    trial.labels(arm), state, reference, trial.probes, against=against, conditioning=conditioning
                )
    return record


def _decayed(record: TaskRecord, trial: DeletionTrial) -> str | None:
    """The comparator: nothing is removed, two coefficients are made small."""
    labels = trial.labels("decay")
    keys = record.get(trial.keys)
    try:
        start = baseline.ClassicUpdate.fit(keys, cap=trial.cap, sigma=trial.sigma).state
    except SolveError as problem:
        record.trial(labels, "delete", "failed", "", error=str(problem))
        return None
    decayed = baseline.decay(keys, start, np.array(trial.removed), cap=trial.cap, sigma=trial.sigma)
    name = record.state(
        trial.name("decay"),
        labels,
        role="comparator",
        source="classic",
        keys=trial.keys,
        coefficients=decayed.coefficients,
        offset=decayed.offset,
        cap=trial.cap,
        sigma=trial.sigma,
    )
    record.trial(labels, "delete", "returned", "decay", state=name)
    return name


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers: list[Number] = []
    for regime in tables["trials"]["regime"].unique(maintain_order=True):
        for arm in ARMS:
            trials = (("regime", "==", regime), ("arm", "==", arm))
            for name, more in (("attempted", ()), ("returned", (("status", "==", "returned"),))):
                numbers.append(Number(f"{regime}/{arm}/{name}", "trials", (*trials, *more), "status", "count"))
            numbers.append(Number(f"{regime}/{arm}/residual/max", "states", trials, "worst", "max"))
        for arm, path in (("ours", "rescued"), ("classic", "fallback")):
            where = (("regime", "==", regime), ("arm", "==", arm), ("path", "==", path))
            numbers.append(Number(f"{regime}/{arm}/{path}", "trials", where, "path", "count"))
        updates = (("regime", "==", regime), ("arm", "==", "classic"))
        numbers += [
            Number(f"{regime}/classic/{column}", "trials", updates, column, "sum")
            for column in ("violations", "explained")
        ]
        for arm, against in (
            *(("ours", backend) for backend in REFERENCES),
            ("classic", "refit"),
            ("classic", "daqp"),
            ("decay", "refit"),
        ):
            numbers += _pair_numbers(regime, arm, against)
    return numbers


def _pair_numbers(regime: str, arm: str, against: str) -> list[Number]:
    """Tables 3 and 4 for one arm and one reference."""
    name = f"{regime}/{arm}/{against}"
    rows = (("regime", "==", regime), ("arm", "==", arm), ("against", "==", against))
    agree, differ = (("partition_match", "==", True),), (("partition_match", "==", False),)
    strict = (("strictness", ">=", PARTITION_THRESHOLD),)
    table = "comparisons"
    numbers = spread_of(f"{name}/score_difference", table, rows, "score_difference")
    if arm == "decay":
        return numbers
    return [
        *numbers,
        *spread_of(f"{name}/readout_percent", table, rows, "readout_percent"),
        Number(f"{name}/partition_match", table, (*rows, *agree), "partition_match", "count"),
        Number(f"{name}/compared", table, rows, "partition_match", "count"),
        Number(f"{name}/strict", table, (*rows, *strict), "strictness", "count"),
        Number(f"{name}/strict/partition_match", table, (*rows, *strict, *agree), "strictness", "count"),
        Number(f"{name}/disagreeing/score_difference/median", table, (*rows, *differ), "score_difference", "median"),
        Number(f"{name}/disagreeing/score_difference/max", table, (*rows, *differ), "score_difference", "max"),
        Number(f"{name}/agreeing/score_difference/median", table, (*rows, *agree), "score_difference", "median"),
        Number(f"{name}/agreeing/score_difference/max", table, (*rows, *agree), "score_difference", "max"),
        Number(f"{name}/conditioning/spearman", table, rows, "score_difference", "spearman:conditioning"),
        Number(f"{name}/objective_gap/max", table, rows, "objective_gap", "max"),
        Number(f"{name}/objective_gap/spearman", table, rows, "score_difference", "spearman:objective_gap"),
        Number(f"{name}/worst trial/score_percent", table, rows, "score_percent", "at-max:score_difference"),
        Number(f"{name}/worst trial/readout_percent", table, rows, "readout_percent", "at-max:score_difference"),
    ]


def _trials(plan: Plan) -> int:
    return QUICK_TRIALS if plan.quick else regimes.TRIALS


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    """Table 3, one line per regime and arm."""
    lines = []
    for regime in dict.fromkeys(name.partition("/")[0] for name in numbers):
        for arm, against in (("ours", "daqp"), ("ours", "clarabel"), ("classic", "refit")):
            name = f"{regime}/{arm}/{against}"
            if f"{name}/score_difference/max" not in numbers:
                continue
            spread = " / ".join(
                f"{numbers[f'{name}/score_difference/{word}']:.1e}" for word in ("median", "p95", "max")
            )
            lines.append(
                f"{regime:<10} {arm:<8} against {against:<7} {numbers[f'{regime}/{arm}/returned']:.0f} of "
                f"{numbers[f'{regime}/{arm}/attempted']:.0f}, partitions {numbers[f'{name}/partition_match']:.0f} of "
                f"{numbers[f'{name}/compared']:.0f}, score difference {spread}"
            )
    return lines


EXPERIMENT = Experiment(
    name="deletion",
    title="Deletion beside a refit at the same cap",
    section="Tables 3 and 4",
    settings=lambda plan: {**trial_settings(plan), "references": list(REFERENCES), "decay": 0.01},
    tasks=chunks,
    scheduled=lambda plan: {f"{regime}/{arm}": _trials(plan) for regime in regimes_of(plan) for arm in ARMS},
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={"trials": {"pivots": "whole", **CLASSIC_COLUMNS}},
    own_keys=True,
    clinical=True,
)
