"""The user's own rows, whole: who carries weight, how many can go, and when certificates expire as rows arrive.

Every row is fitted once. Then the first two thirds of at most `MOST` rows, evenly taken and in the order of the file,
are fitted and pruned in the mode *forget*, and the others arrive one by one: after each arrival it is counted how many
certificates hold. Unlike the paper's experiments, this one has one arm and draws nothing at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.arms import keep_memory
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.numbers import Number
from expunge.audit.own_keys import OWN_REGIME, describe_keys
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import AdmissionRefused, InputError
from expunge.memory.memory import Memory
from expunge.preprocessing.preprocessing import Column, Preprocessing
from expunge.types import IndexArray, Matrix

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT"]

# Rows in the part about certificates, and in a quick look.
MOST, QUICK_MOST = 600, 150
# After these many arrivals it is reported how many certificates hold.
AFTER = (1, 10, 100)
WHOLE, ARRIVALS = RowLabels(OWN_REGIME, "whole", 0), "arrivals"


def _keys(plan: Plan) -> Matrix:
    if plan.keys is None:
        raise InputError("rows is about one's own keys: name their file with --keys")
    return plan.keys


def _taken(plan: Plan) -> tuple[IndexArray, IndexArray]:
    """Rows that are fitted first, and rows that arrive."""
    count = len(_keys(plan))
    most = min(count, QUICK_MOST if plan.quick else MOST)
    rows = np.linspace(0, count - 1, most).astype(np.int64)
    first = 2 * most // 3
    return rows[:first], rows[first:]


def _fitted(plan: Plan, keys: Matrix) -> Memory:
    if plan.sigma is None:
        raise InputError("a plan with keys has a width")
    columns = None
    if plan.names is not None:
        columns = Preprocessing(tuple(Column(name) for name in plan.names), (Column("value"),))
    ids = [str(row) for row in range(len(keys))]
    return Memory.fit(keys, np.zeros(len(keys)), sigma=plan.sigma, nu=plan.nu, ids=ids, preprocessing=columns)


def _settings(plan: Plan) -> dict[str, Any]:
    whole = _fitted(plan, _keys(plan)).report()
    return {"keys": describe_keys(plan), "warnings": list(whole.warnings), "after": list(AFTER)}


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    keys = _keys(plan)
    record.array("rows", keys)
    memory = _fitted(plan, keys)
    keep_memory(record, WHOLE, "whole", memory, keys="rows")
    groups = memory.partition
    record.trial(
        WHOLE,
        "fit",
        "returned",
        "cold",
        state="whole",
        rows=len(keys),
        columns=keys.shape[1],
        distinct=len(np.unique(keys, axis=0)),
        margin=groups.margin.size,
        bound=groups.bound.size,
        reserve=groups.reserve.size,
        deletable=memory.deletable,
    )
    first, arriving = _taken(plan)
    memory = _fitted(plan, keys[first])
    before = RowLabels(OWN_REGIME, ARRIVALS, 0)
    record.array("first", first)
    keep_memory(record, before, "first", memory, keys="rows[first]")
    receipt = memory.prune("forget")
    pruned = holding = len(memory.warranties())
    record.trial(before, "prune", "returned", receipt.outcome, state="first", pruned=pruned, holding=holding)
    for arrival, row in enumerate(arriving.tolist(), start=1):
        labels = RowLabels(OWN_REGIME, ARRIVALS, 0, arrival)
        try:
            receipt = memory.admit(keys[row], [0.0])
        except AdmissionRefused as refusal:
            record.trial(labels, "admit", "refused", "", error=refusal.reason)
            continue
        lost = len(receipt.details.get("expired", ()))
        holding = sum(one.status == "valid" for one in memory.warranties())
        # People count the rows of a table from 1.
        record.trial(labels, "admit", "returned", receipt.outcome, row=row + 1, lost=lost, holding=holding)
    return record


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    whole, arrivals = (("arm", "==", "whole"),), (("arm", "==", ARRIVALS),)
    words = ("rows", "columns", "distinct", "margin", "bound", "reserve", "deletable")
    admitted = (*arrivals, ("kind", "==", "admit"))
    numbers = [Number(word, "trials", whole, word, "max") for word in words]
    numbers += [
        Number("certificates", "trials", arrivals, "pruned", "max"),
        Number("arrivals", "trials", admitted, "holding", "count"),
        Number("holding/last", "trials", admitted, "holding", "min"),
        Number("first expiry/arrival", "trials", (*admitted, ("lost", ">", 0)), "operation", "min"),
        Number("worst arrival/lost", "trials", admitted, "lost", "max"),
        Number("worst arrival/row", "trials", admitted, "row", "at-max:lost"),
        Number("worst arrival/arrival", "trials", admitted, "operation", "at-max:lost"),
    ]
    for arrival in AFTER:
        numbers.append(
            Number(f"holding/{arrival}", "trials", (*admitted, ("operation", "==", arrival)), "holding", "max")
        )
    return numbers


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    found = {name: f"{value:,.0f}" for name, value in numbers.items()}
    return [
        f"{found['rows']} rows of {found['columns']} columns: {found['margin']} on the margin, {found['bound']} at the "
        f"bound, {found['reserve']} without weight; {found['deletable']} can go before the cap changes",
        f"certificates: {found['certificates']} at first, {found['holding/1']} hold after one arrival",
    ]


EXPERIMENT = Experiment(
    name="rows",
    title="Your own rows",
    section="your data",
    settings=_settings,
    tasks=lambda plan: [Task("rows")],
    scheduled=lambda plan: {f"{OWN_REGIME}/whole": 1, f"{OWN_REGIME}/{ARRIVALS}": 1 + len(_taken(plan)[1])},
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={
        "trials": dict.fromkeys(
            (
                "rows",
                "columns",
                "distinct",
                "margin",
                "bound",
                "reserve",
                "deletable",
                "pruned",
                "holding",
                "lost",
                "row",
            ),
            "whole",
        )
    },
    own_keys=True,
)
