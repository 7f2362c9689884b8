"""``expunge audit selection``: which entries survive a smaller context (docs/results/protocols.md).

The parts are modules of their own: skewed redundancy, the negative control, event hours of intensive-care stays, a text
memory, and what deleting a person or a patient does to the others. Everything here runs on what ships with the
package, or on MIMIC-IV or the PhysioNet challenge where ``--clinical`` names one; benchmarks/selection_results.py runs
the same functions on every data set there is and gives intervals. A trial's row also holds how far the arm is from
``uniform`` and ``density`` in that trial, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge.audit.context_selection import event_hours, negative_control, patient_deletion, redundancy, text_memory
from expunge.audit.context_selection.policy_arms import ARMS, FULL, ArmResult
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.numbers import Number
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.selection import POLICIES

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT"]

PAPER, OTHERS = "redundancy seed 0", "redundancy other seeds"
TRAINED, HALF = "control trained", "control half kept"
PERSONS, PATIENTS = "persons deleted", "patients deleted"
QUICK_SEEDS, QUICK_MODELS, QUICK_PATIENTS, QUICK_PERSONS = 1, 1, 10, 3
CHUNK = 200
COLUMNS = {
    "size": "number",
    "budget": "number",
    "recall": "number",
    "common": "number",
    "found": "number",
    "over_uniform": "number",
    "over_density": "number",
    "active": "number",
    "before": "number",
    "removed": "whole",
    "left": "number",
    "lost": "whole",
    "score_difference": "number",
    "coefficient_difference": "number",
}


def _seeds(plan: Plan) -> Sequence[int]:
    return redundancy.SEEDS[:QUICK_SEEDS] if plan.quick else redundancy.SEEDS


def _models(plan: Plan) -> list[int]:
    seeds = sorted({model.seed for model in negative_control.trained_models()})
    return seeds[:QUICK_MODELS] if plan.quick else seeds


def _persons(plan: Plan) -> tuple[str, ...]:
    everyone = text_memory.persons(text_memory.load_memories("memorybank", None)[0])
    return everyone[:QUICK_PERSONS] if plan.quick else everyone


def _patients(plan: Plan) -> int:
    return QUICK_PATIENTS if plan.quick else patient_deletion.TRIALS


def _source(plan: Plan) -> str:
    if plan.clinical is None:
        return "shipped"
    return "mimic" if (Path(plan.clinical) / "icu").is_dir() else "physionet"


def _clinical(version: str) -> str:
    return f"clinical {version}"


def _text(share: float) -> str:
    return f"text {share:.0%}"


def _settings(plan: Plan) -> dict[str, Any]:
    stays, flow = event_hours.load_stays(_source(plan), plan.clinical)
    return {
        "redundancy": {"seeds": [redundancy.PAPER_SEED, *_seeds(plan)], "trials": redundancy.TRIALS},
        "control": {
            "seeds": _models(plan),
            "sequences": negative_control.SEQUENCES,
            "cap": negative_control.CAP,
            "sigma": negative_control.SIGMA,
        },
        "clinical": {"source": _source(plan), "stays": len(stays), "flow": dict(flow), "sigma": event_hours.SIGMA},
        "text": {"budgets": text_memory.BUDGETS, "sigma": text_memory.SIGMA, "nu": text_memory.NU},
        "patients": {"trials": _patients(plan), "nu": patient_deletion.NU, "sigma": patient_deletion.SIGMA},
        "policies": {name: repr(policy) for name, policy in ARMS.items()},
    }


def _tasks(plan: Plan) -> list[Task]:
    stays, _ = event_hours.load_stays(_source(plan), plan.clinical)
    tasks = [Task("redundancy-paper", {"part": "paper"})]
    tasks += [Task(f"redundancy-{seed}", {"part": "seed", "seed": seed}) for seed in _seeds(plan)]
    tasks += [Task(f"control-{seed}", {"part": "control", "seed": seed}) for seed in _models(plan)]
    for place, version in enumerate(event_hours.VERSIONS):
        places = event_hours.eligible(stays, version)
        for start in range(0, len(places), CHUNK):
            chosen = list(places[start : start + CHUNK])
            arguments = {"part": "clinical", "version": version, "places": chosen}
            tasks.append(Task(f"clinical-{place}-{start:05d}", arguments))
    tasks += [Task(f"text-{share:.2f}", {"part": "text", "share": share}) for share in text_memory.BUDGETS]
    tasks += [
        Task(f"person-{place:02d}", {"part": "person", "place": place, "person": person})
        for place, person in enumerate(_persons(plan))
    ]
    return [*tasks, Task("patients", {"part": "patients"})]


def _scheduled(plan: Plan) -> dict[str, int]:
    stays, _ = event_hours.load_stays(_source(plan), plan.clinical)
    counts = {}
    for arm in (*ARMS, FULL):
        counts[f"{PAPER}/{arm}"] = redundancy.TRIALS
        counts[f"{OTHERS}/{arm}"] = len(_seeds(plan))
        counts[f"{HALF}/{arm}"] = len(_models(plan))
    for arm in ("without", "with the gate"):
        counts[f"{TRAINED}/{arm}"] = len(_models(plan))
    for version in event_hours.VERSIONS:
        number = len(event_hours.eligible(stays, version))
        if number:
            counts |= {f"{_clinical(version)}/{arm}": number for arm in (*POLICIES, FULL)}
    users = len(set(text_memory.load_memories("memorybank", None)[0].trials.tolist()))
    for share in text_memory.BUDGETS:
        counts |= {f"{_text(share)}/{arm}": users for arm in (*ARMS, FULL, text_memory.LONGEST)}
    for arm in ("memory", "similarity"):
        counts[f"{PERSONS}/{arm}"] = len(_persons(plan))
    return counts | {f"{PATIENTS}/memory": _patients(plan)}


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record, given = TaskRecord(task.unit), task.arguments
    part = given["part"]
    if part == "paper":
        _record(record, redundancy.measure_trials(redundancy.PAPER_SEED, redundancy.TRIALS, PAPER))
    elif part == "seed":
        _record(record, redundancy.measure_seed(given["seed"], redundancy.TRIALS, OTHERS, given["seed"]))
    elif part == "control":
        _control(record, given["seed"])
    elif part == "clinical":
        version = given["version"]
        rows = event_hours.measure_stays(_source(plan), plan.clinical, version, given["places"], _clinical(version))
        _record(record, rows)
    elif part == "text":
        (memory,) = text_memory.load_memories("memorybank", None)
        _record(record, text_memory.measure_memory(memory, given["share"], _text(given["share"])))
    elif part == "person":
        _person(record, given["place"], given["person"])
    else:
        _delete_patients(plan, record)
    return record


def _record(record: TaskRecord, rows: Sequence[ArmResult]) -> None:
    """Keep rows, each with its distance from two arms of the same trial."""
    beside = {(row.regime, row.trial, row.arm): row.recall for row in rows}
    for row in rows:
        record.trial(
            RowLabels(row.regime, row.arm, row.trial),
            "select",
            "returned",
            row.arm,
            size=float(row.size),
            budget=float(row.budget),
            recall=row.recall,
            common=row.common,
            found=row.found,
            over_uniform=row.recall - beside[row.regime, row.trial, "uniform"],
            over_density=row.recall - beside[row.regime, row.trial, "density"],
        )


def _control(record: TaskRecord, seed: int) -> None:
    for model in negative_control.trained_models():
        if model.seed != seed:
            continue
        row, active = negative_control.measure_trained(model, TRAINED, seed)
        record.trial(
            RowLabels(row.regime, row.arm, seed),
            "read",
            "returned",
            row.arm,
            size=float(row.size),
            budget=float(row.budget),
            recall=row.recall,
            active=active,
        )
        if not model.gated:
            _record(record, negative_control.measure_half(model, HALF, seed))


def _person(record: TaskRecord, trial: int, person: str) -> None:
    (memory,) = text_memory.load_memories("memorybank", None)
    done = text_memory.delete_person(memory, person)
    status = "refused" if done.outcome == "refused" else "returned"
    for arm, before, after in (
        ("memory", done.before, done.after),
        ("similarity", done.similar_before, done.similar_after),
    ):
        record.trial(
            RowLabels(PERSONS, arm, trial),
            "delete",
            status,
            done.outcome,
            size=float(len(memory.keys)),
            before=before,
            recall=after,
            removed=done.entries,
            left=done.own_left,
            coefficient_difference=done.difference if arm == "memory" else None,
        )


def _delete_patients(plan: Plan, record: TaskRecord) -> None:
    stays, _ = event_hours.load_stays(_source(plan), plan.clinical)
    for done in patient_deletion.delete_patients(stays, _patients(plan)):
        record.trial(
            RowLabels(PATIENTS, "memory", done.trial),
            "delete",
            "refused" if done.outcome == "refused" else "returned",
            done.outcome,
            size=float(done.entries),
            removed=done.removed,
            before=done.weight_before,
            left=done.weight_after,
            lost=done.others_lost,
            score_difference=done.score_difference,
            coefficient_difference=done.coefficient_difference,
        )


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers: list[Number] = []
    groups = tables["trials"].select("regime", "arm").unique(maintain_order=True).rows()
    for regime, arm in groups:
        mine, name = (("regime", "==", regime), ("arm", "==", arm)), f"{regime}/{arm}"
        numbers += [
            Number(f"{name}/scheduled", "trials", mine, "status", "count"),
            Number(f"{name}/returned", "trials", (*mine, ("status", "==", "returned")), "status", "count"),
        ]
        measured = {
            PERSONS: (("before", "mean"), ("recall", "mean"), ("left", "max"), ("coefficient_difference", "max")),
            PATIENTS: (
                ("before", "mean"),
                ("left", "max"),
                ("lost", "max"),
                ("score_difference", "max"),
                ("coefficient_difference", "max"),
            ),
            TRAINED: (("recall", "mean"), ("recall", "min"), ("recall", "max"), ("active", "mean")),
            OTHERS: (
                ("recall", "mean"),
                ("recall", "min"),
                ("recall", "max"),
                ("common", "mean"),
                ("over_uniform", "min"),
            ),
            PAPER: (("recall", "mean"), ("common", "mean"), ("budget", "mean"), ("over_uniform", "mean")),
        }
        kept = (("recall", "mean"), ("found", "mean"), ("over_uniform", "mean"), ("over_density", "mean"))
        for column, statistic in measured.get(regime, kept):
            numbers.append(Number(f"{name}/{column}/{statistic}", "trials", mine, column, statistic))
    return numbers


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    lines = ["rare-group recall, then event hours and evidence kept (25%), each at one budget for all:"]
    for arm in (*POLICIES, FULL):
        cells = [
            (f"{numbers[f'{regime}/{arm}/recall/mean']:.3f}" if f"{regime}/{arm}/recall/mean" in numbers else "-")
            for regime in (PAPER, OTHERS, HALF, *map(_clinical, event_hours.VERSIONS), _text(0.25))
        ]
        lines.append(f"{arm:<24} " + "  ".join(f"{cell:>6}" for cell in cells))
    lines.append("columns: seed 0, other seeds, negative control with half kept, SpO2 held out, same channel, evidence")
    refused = numbers[f"{PATIENTS}/memory/scheduled"] - numbers[f"{PATIENTS}/memory/returned"]
    lines.append(
        f"patients deleted {numbers[f'{PATIENTS}/memory/returned']:.0f} of "
        f"{numbers[f'{PATIENTS}/memory/scheduled']:.0f} ({refused:.0f} refused), weight left "
        f"{numbers[f'{PATIENTS}/memory/left/max']:g}, scores within "
        f"{numbers[f'{PATIENTS}/memory/score_difference/max']:.1e} of a fresh solve"
    )
    return lines


EXPERIMENT = Experiment(
    name="selection",
    title="Which entries survive a smaller context",
    section="App. A",
    settings=_settings,
    tasks=_tasks,
    scheduled=_scheduled,
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={"trials": COLUMNS},
    clinical=True,
)
