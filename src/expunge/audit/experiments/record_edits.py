"""Edits of single records on learned keys (paper, §4.4; docs/results/protocols.md, Record edits).

Facts are told to a trained recall model whose keys, values and queries are frozen. Each trial asks about every fact,
then edits one of them, the secret:

- *delete*: the others must still be answered, and the secret must not be told;
- *decay*: the paper's comparator, coefficient times 0.01 and no re-solve, which leaves the secret told;
- *correct*: the secret is removed and added again with the opposite value: the new one must be answered, and the
  others as before.

A state answers with the target nearest to its readout at the question's query. States are judged like any other, by an
independent refit.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.arms import keep_memory, keep_reference
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.experiments import regimes
from expunge.audit.numbers import Number, spread_of
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import Refused
from expunge.memory.memory import Memory

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT"]

TRIALS, QUICK_TRIALS, CHUNK = 200, 40, 10
REGIME = "learned"
DECAY = 0.01


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    start, stop = task.arguments["start"], task.arguments["stop"]
    for number, facts in islice(enumerate(regimes.draw_facts(stop)), start, stop):
        _one_trial(record, number, facts)
    return record


def _one_trial(record: TaskRecord, number: int, facts: regimes.Facts) -> None:
    prefix, size, secret = f"{number:03d}", len(facts.keys), facts.secret
    corrected = -facts.values[secret]
    keys = record.array(f"{prefix}/keys", facts.keys)
    values = record.array(f"{prefix}/values", facts.values)
    # The last candidate is what the corrected fact should answer.
    record.array(f"{prefix}/targets", np.vstack([facts.targets, -facts.targets[secret]]))
    record.array(f"{prefix}/queries", facts.queries)
    for row in range(size):
        record.array(f"{prefix}/query-{row}", np.array([row]))
    others = [row for row in range(size) if row != secret]
    kept = record.array(f"{prefix}/others", np.array(others))
    settings: dict[str, Any] = {"cap": regimes.FACTS_CAP, "sigma": regimes.FACTS_SIGMA}

    def memory_of() -> Memory:
        return Memory.fit(facts.keys, facts.values, ids=[str(row) for row in range(size)], **settings)

    def ask(labels: RowLabels, state: str, rows: list[int], expected: int | None = None) -> int:
        """How many of these questions are answered as they should be."""
        return sum(
            record.answer(
                labels,
                "secret" if row == secret else "other",
                state,
                f"{prefix}/queries[{prefix}/query-{row}]",
                f"{prefix}/targets",
                row if expected is None else expected,
            )
            for row in rows
        )

    before = RowLabels(REGIME, "before", number)
    memory = memory_of()
    whole = keep_memory(record, before, f"{prefix}/before", memory, keys=keys, values=values)
    answered = ask(before, whole, list(range(size)))
    record.trial(before, "fit", "returned", "cold", state=whole, answered=answered, asked=size)

    deleted = RowLabels(REGIME, "delete", number)
    try:
        receipt = memory.delete(str(secret))
    except Refused as refusal:
        record.trial(deleted, "delete", "refused", "", error=refusal.reason)
    else:
        rest: dict[str, Any] = {"keys": f"{keys}[{kept}]", "values": f"{values}[{kept}]"}
        name = keep_memory(record, deleted, f"{prefix}/deleted", memory, **rest)
        reference = keep_reference(record, deleted, f"{prefix}/daqp", backend="daqp", **rest, **settings)
        if reference is not None:
            probes = [f"{prefix}/queries", keys]
            record.compare(deleted, name, reference, probes, against="daqp")
        answered, told = ask(deleted, name, others), ask(deleted, name, [secret])
        record.trial(
            deleted,
            "delete",
            "returned",
            receipt.outcome,
            state=name,
            answered=answered,
            asked=len(others),
            told=bool(told),
        )

    decayed = RowLabels(REGIME, "decay", number)
    weights = record.state_arrays(whole).coefficients.copy()
    weights[secret] *= DECAY
    name = record.state(
        f"{prefix}/decayed",
        decayed,
        role="comparator",
        source="ours",
        keys=keys,
        values=values,
        coefficients=weights,
        offset=memory.offset,
        **settings,
    )
    answered, told = ask(decayed, name, others), ask(decayed, name, [secret])
    record.trial(
        decayed, "edit", "returned", "decay", state=name, answered=answered, asked=len(others), told=bool(told)
    )
    _correct(record, RowLabels(REGIME, "correct", number), memory_of(), facts, corrected, prefix, ask)


def _correct(
    record: TaskRecord, labels: RowLabels, memory: Memory, facts: regimes.Facts, corrected: Any, prefix: str, ask: Any
) -> None:
    """Remove a record and add it again with another value."""
    secret, size = facts.secret, len(facts.keys)
    others = [row for row in range(size) if row != secret]
    try:
        memory.delete(str(secret))
        receipt = memory.admit(facts.keys[secret], corrected, id=str(secret))
    except Refused as refusal:
        record.trial(labels, "edit", "refused", "", error=refusal.reason)
        return
    order = record.array(f"{prefix}/corrected-order", np.array([int(name) for name in memory.ids]))
    values = record.array(f"{prefix}/corrected-values", memory.values)
    name = keep_memory(record, labels, f"{prefix}/corrected", memory, keys=f"{prefix}/keys[{order}]", values=values)
    answered = ask(labels, name, others)
    told = ask(labels, name, [secret], size)
    record.trial(
        labels,
        "edit",
        "returned",
        receipt.outcome,
        state=name,
        answered=answered,
        asked=len(others),
        told=bool(told),
    )


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers: list[Number] = []
    for arm in ("before", "delete", "decay", "correct"):
        mine = (("arm", "==", arm),)
        numbers += [
            Number(f"{arm}/attempted", "trials", mine, "status", "count"),
            Number(f"{arm}/returned", "trials", (*mine, ("status", "==", "returned")), "status", "count"),
            Number(f"{arm}/answered", "trials", mine, "answered", "sum"),
            Number(f"{arm}/asked", "trials", mine, "asked", "sum"),
            Number(f"{arm}/residual/max", "states", mine, "worst", "max"),
        ]
        for question in ("secret", "other"):
            where = (*mine, ("question", "==", question))
            numbers.append(Number(f"{arm}/{question}/right", "answers", where, "right", "mean"))
    where = (("arm", "==", "delete"), ("against", "==", "daqp"))
    return [
        *numbers,
        *spread_of("delete/daqp/score_difference", "comparisons", where, "score_difference"),
        *spread_of("delete/daqp/readout_percent", "comparisons", where, "readout_percent"),
    ]


def _trials(plan: Plan) -> int:
    return QUICK_TRIALS if plan.quick else TRIALS


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    return [
        f"{arm:<8} others answered {numbers[f'{arm}/answered']:.0f} of {numbers[f'{arm}/asked']:.0f}, "
        f"the secret as asked {numbers[f'{arm}/secret/right']:.2f}"
        for arm in ("before", "delete", "decay", "correct")
    ]


EXPERIMENT = Experiment(
    name="records",
    title="Edits of single records on learned keys",
    section="§4.4, records",
    settings=lambda plan: {
        "trials": _trials(plan),
        "facts": regimes.FACTS,
        "cap": regimes.FACTS_CAP,
        "sigma": regimes.FACTS_SIGMA,
        "seed": 0,
        "decay": DECAY,
    },
    tasks=lambda plan: [
        Task(f"learned-{start:04d}", {"start": start, "stop": min(start + CHUNK, _trials(plan))})
        for start in range(0, _trials(plan), CHUNK)
    ],
    scheduled=lambda plan: {
        f"{REGIME}/{arm}": _trials(plan) for arm in ("before", "delete", "decay", "correct", "daqp")
    },
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={"trials": {"answered": "whole", "asked": "whole", "told": "flag"}},
)
