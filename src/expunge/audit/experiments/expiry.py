"""The three-key example of a certificate that expires (paper, Example 1; docs/results/protocols.md, Expiry).

Key 3 is reserve and is dropped, which changes nothing; then (0, −10) arrives and key 3 would be active. Four histories
are kept: ``full`` (never dropped), ``dropped`` (the paper's), ``archive`` (dropped under warranty, brought back when
the warranty ends) and ``refuse`` (an admission that would end a certificate is refused). Probes: the query for the
removal; the four keys and the query for the admission. The classic arm is there for its solver residue, which the
paper reports as 4.6e-9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.arms import keep_classic, keep_memory, keep_reference
from expunge.audit.classic.baseline import ClassicUpdate
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.numbers import Number
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import AdmissionRefused
from expunge.memory.memory import Memory

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT"]

KEYS = ((-1.0, 0.0), (1.0, 0.0), (0.0, 0.9))
VALUES = (1.0, 2.0, 9.0)
ARRIVAL, ARRIVAL_VALUE = (0.0, -10.0), 3.0
QUERY = (0.25, 0.1)
CAP, SIGMA = 1.0, 5.0
RESERVE_ROW = 2
REGIME = "three keys"
PROBES = ["after", "query"]


def _settings(plan: Plan) -> dict[str, Any]:
    return {
        "keys": KEYS,
        "values": VALUES,
        "arrival": ARRIVAL,
        "arrival_value": ARRIVAL_VALUE,
        "query": QUERY,
        "cap": CAP,
        "sigma": SIGMA,
    }


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    record.array("before", np.array(KEYS))
    record.array("before-values", np.array(VALUES)[:, None])
    record.array("kept", np.array([0, 1]))
    record.array("after", np.array([*KEYS, ARRIVAL]))
    record.array("after-values", np.array([*VALUES, ARRIVAL_VALUE])[:, None])
    record.array("kept-after", np.array([0, 1, 3]))
    record.array("query", np.array([QUERY]))
    record.array("key-3", np.array([KEYS[RESERVE_ROW]]))
    _ours(record)
    _classic(record)
    return record


def _ours(record: TaskRecord) -> None:
    full, dropped, kept = RowLabels(REGIME, "full", 0), RowLabels(REGIME, "dropped", 0), RowLabels(REGIME, "archive", 0)

    def fitted() -> Memory:
        return Memory.fit(KEYS, VALUES, sigma=SIGMA, cap=CAP, ids=["1", "2", "3"])

    never, pruning, cautious, dropping = fitted(), fitted(), fitted(), fitted()
    before = {"keys": "before", "values": "before-values"}
    without = {"keys": "before[kept]", "values": "before-values[kept]"}
    after = {"keys": "after", "values": "after-values"}
    keep_memory(record, full, "full/fit", never, **before)
    record.trial(full, "fit", "returned", "cold", state="full/fit", proved=never.prove().outcome == "proved")
    record.reading(full, "reserve slack", "slack", "full/fit", probe="key-3")
    record.reading(full, "reserve coefficient", "coefficient", "full/fit", row=RESERVE_ROW)
    keep_reference(record, full, "full/fit/daqp", cap=CAP, sigma=SIGMA, backend="daqp", **before)
    record.compare(full, "full/fit", "full/fit/daqp", ["before", "query"], against="daqp")

    receipt = dropping.delete("3")
    keep_memory(record, dropped, "dropped/removed", dropping, **without)
    record.trial(dropped, "delete", "returned", receipt.outcome, state="dropped/removed")
    record.compare(dropped, "dropped/removed", "full/fit", ["query"], against="full")

    receipt = pruning.prune("archive")
    keep_memory(record, kept, "archive/pruned", pruning, **without)
    record.trial(kept, "prune", "returned", receipt.outcome, state="archive/pruned")

    later = {labels.arm: RowLabels(REGIME, labels.arm, 0, 1) for labels in (full, dropped, kept)}
    receipt = never.admit(ARRIVAL, ARRIVAL_VALUE, id="4")
    keep_memory(record, later["full"], "full/admitted", never, **after)
    record.trial(later["full"], "admit", "returned", receipt.outcome, state="full/admitted")
    record.reading(later["full"], "coefficient after", "coefficient", "full/admitted", row=RESERVE_ROW)
    keep_reference(record, later["full"], "full/admitted/daqp", cap=CAP, sigma=SIGMA, backend="daqp", **after)
    record.compare(later["full"], "full/admitted", "full/admitted/daqp", PROBES, against="daqp")

    receipt = dropping.admit(ARRIVAL, ARRIVAL_VALUE, id="4")
    keep_memory(
        record,
        later["dropped"],
        "dropped/admitted",
        dropping,
        keys="after[kept-after]",
        values="after-values[kept-after]",
    )
    record.trial(later["dropped"], "admit", "returned", receipt.outcome, state="dropped/admitted")
    record.compare(later["dropped"], "dropped/admitted", "full/admitted", PROBES, against="full")

    receipt = pruning.admit(ARRIVAL, ARRIVAL_VALUE, id="4")
    order = record.array("archive-order", np.array([int(name) - 1 for name in pruning.ids]))
    keep_memory(
        record,
        later["archive"],
        "archive/admitted",
        pruning,
        keys=f"after[{order}]",
        values=f"after-values[{order}]",
    )
    record.trial(
        later["archive"],
        "admit",
        "returned",
        receipt.outcome,
        state="archive/admitted",
        reactivated=len(receipt.details.get("reactivated", ())),
    )
    record.compare(later["archive"], "archive/admitted", "full/admitted", PROBES, against="full")

    cautious.prune("archive")
    refusing = RowLabels(REGIME, "refuse", 0, 1)
    try:
        receipt = cautious.admit(ARRIVAL, ARRIVAL_VALUE, id="4", on_expiry="refuse")
    except AdmissionRefused as refusal:
        record.trial(refusing, "admit", "refused", "", error=refusal.reason)
    else:
        record.trial(refusing, "admit", "returned", receipt.outcome)


def _classic(record: TaskRecord) -> None:
    """The paper's solver before and after: its residue where the exact change is zero."""
    labels, after = RowLabels(REGIME, "classic", 0), RowLabels(REGIME, "classic", 0, 1)
    memory = ClassicUpdate.fit(record.get("before"), cap=CAP, sigma=SIGMA)
    settings: dict[str, Any] = {"cap": CAP, "sigma": SIGMA}
    keep_classic(record, labels, "classic/fit", memory.state, keys="before", values="before-values", **settings)
    record.trial(labels, "fit", "returned", "fit", state="classic/fit")
    step = memory.delete(RESERVE_ROW)
    if step.published is None:
        record.trial(after, "delete", step.status, step.path, error=step.error)
        return
    settings |= {"keys": "before[kept]", "values": "before-values[kept]"}
    keep_classic(record, after, "classic/removed", step.published, **settings)
    record.trial(after, "delete", step.status, step.path, state="classic/removed")
    record.compare(after, "classic/removed", "classic/fit", ["query"], against="full")


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers = [
        Number("reserve slack", "readings", (("name", "==", "reserve slack"),), "value", "max"),
        Number("reserve coefficient", "readings", (("name", "==", "reserve coefficient"),), "value", "max"),
        Number("coefficient after", "readings", (("name", "==", "coefficient after"),), "value", "max"),
        Number("proved", "trials", (("arm", "==", "full"), ("proved", "==", True)), "proved", "count"),
        Number("refused", "trials", (("status", "==", "refused"),), "status", "count"),
        Number("reactivated", "trials", (), "reactivated", "sum"),
        Number("worst residual", "states", (("source", "==", "ours"),), "worst", "max"),
    ]
    for arm, when in (("dropped", 0), ("classic", 1), ("dropped", 1), ("archive", 1)):
        where = (("arm", "==", arm), ("operation", "==", when), ("against", "==", "full"))
        moment = "admission" if when and arm != "classic" else "removal"
        numbers += [
            Number(f"{arm}/{moment}/{column}", "comparisons", where, column, "max")
            for column in ("score_difference", "readout_difference")
        ]
    return numbers


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    return [
        f"removing the reserve key moves the readout by {numbers['dropped/removal/readout_difference']:.1e} "
        f"(the paper's solver: {numbers['classic/removal/readout_difference']:.1e})",
        f"after the admission it would weigh {numbers['coefficient after']:.3f}; without it scores differ by "
        f"{numbers['dropped/admission/score_difference']:.1e}, with an archive by "
        f"{numbers['archive/admission/score_difference']:.1e}",
    ]


EXPERIMENT = Experiment(
    name="expiry",
    title="A reserve key that a later admission makes active",
    section="Example 1",
    settings=_settings,
    tasks=lambda plan: [Task("three-keys")],
    scheduled=lambda plan: {
        f"{REGIME}/{arm}": count
        for arm, count in {"full": 2, "dropped": 2, "archive": 2, "refuse": 1, "classic": 2, "daqp": 2}.items()
    },
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={"trials": {"proved": "flag", "reactivated": "whole"}},
)
