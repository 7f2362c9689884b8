"""Pruning while entries arrive, beside a memory that never prunes (docs/results/protocols.md, Streaming).

A memory of 128 entries receives one entry after another, and drops what weighs nothing after each. The paper measures
this without a guarantee. Arms:

- ``never``: keeps everything: the reference;
- ``archive``: `Memory.prune` into an archive; entries whose warranty ends are rechecked and brought back;
- ``forget``: `Memory.prune` without content; ``covered`` while no certificate has expired;
- ``naive``: reserve entries are deleted and nothing is remembered of them;
- ``once``, ``once-sketched``: pruned without content before the stream begins and never again, with scalars alone and
  with a sketch of a few live neighbours: how long certificates last (``claims``) while the truth holds (``truths``).

A pruned memory's state is kept padded with zeros, as a state of *all* entries that ever came: its check is then the
check of the never-pruned problem, and fails as soon as a dropped entry should weigh something. The paper leaves the
stream open: keys of the sequential audit's laws and the ICU hours that ship with the package, shuffled; ν = 0.4, σ = 2,
values U[−1, 1]⁴, probes all entries and 32 anchors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.numbers import Number, spread_of
from expunge.audit.own_keys import OWN_REGIME, describe_keys
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.datasets.bundled import icu_hours
from expunge.errors import Refused
from expunge.memory.memory import Memory
from expunge.memory.receipt import Receipt
from expunge.problem.tolerances import ACCEPTANCE, SLACK_TOLERANCE
from expunge.types import Matrix, Vector

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT"]

REGIMES = ("gaussian", "near-duplicate", "clinical")
ARMS = ("never", "archive", "forget", "naive", "once", "once-sketched")
# Live neighbours that a sketch remembers; fewer than the coordinates of a key.
SKETCH = 4
INITIAL, ARRIVALS, QUICK_ARRIVALS = 128, 128, 48
SEEDS, QUICK_SEEDS = range(5), range(1)
NU, SIGMA, DIMENSION = 0.4, 2.0, 6
CENTRES, SPREAD, NOISE = 8, 2.0, 0.02
ANCHORS, VALUE_WIDTH = 32, 4


def _draw(plan: Plan, regime: str, seed: int, count: int) -> tuple[Matrix, Matrix, Matrix]:
    """Keys (count, d) in order of arrival, their values, and the anchors, from one ``default_rng(seed)``."""
    rng = np.random.default_rng(seed)
    if regime == "gaussian":
        keys = rng.standard_normal((count, DIMENSION))
    elif regime == "near-duplicate":
        centres = SPREAD * rng.standard_normal((CENTRES, DIMENSION))
        keys = centres[rng.integers(CENTRES, size=count)] + NOISE * rng.standard_normal((count, DIMENSION))
    else:
        given = icu_hours().keys if plan.keys is None else plan.keys
        keys = given[rng.permutation(len(given))[:count]]
    values = rng.uniform(-1.0, 1.0, (len(keys), VALUE_WIDTH))
    return keys, values, rng.standard_normal((ANCHORS, keys.shape[1]))


class _StreamingArm:
    """A memory that follows the stream in one of the ways."""

    def __init__(self, name: str, memory: Memory) -> None:
        self.name, self.memory = name, memory
        self.lost = False

    def admit(self, row: int, key: Any, value: Any) -> Receipt:
        """Admit an entry under its number."""
        receipt = self.memory.admit(key, value, id=str(row))
        self.lost = self.lost or bool(receipt.details.get("expired"))
        return receipt

    def prune(self, *, first: bool = False) -> int:
        """Drop what weighs nothing, in this arm's way; how many entries that was."""
        memory, before = self.memory, len(self.memory)
        if self.name == "archive":
            memory.prune("archive")
        elif self.name == "forget" or (first and self.name == "once"):
            # Forgetting an entry that was live at an earlier pruning ends the certificates of that one.
            self.lost = bool(memory.prune("forget").details.get("ended")) or self.lost
        elif first and self.name == "once-sketched":
            memory.prune("forget", sketch=min(SKETCH, memory.dimension - 1))
        elif self.name == "naive":
            memory.delete([memory.ids[row] for row in memory.partition.reserve])
        return before - len(memory)

    def padded(self, count: int) -> Vector:
        """Coefficients of every entry that ever came, (count,)."""
        coefficients = np.zeros(count)
        coefficients[[int(name) for name in self.memory.ids]] = self.memory.coefficients
        return coefficients

    def certificates(self, pool: Matrix) -> dict[str, Any]:
        """Certificates so far, those still claimed, those still true, and those claimed although untrue.

        One is true while the entry's slack, from its key, is not negative beyond rounding.
        """
        rows = self.memory.warranties()
        claimed = np.array([row.status == "valid" for row in rows], dtype=bool)
        true = np.zeros(len(rows), dtype=bool)
        if rows:
            true = self.memory.solution.slack(pool[[int(row.id) for row in rows]]) >= -SLACK_TOLERANCE
        return {
            "certificates": len(rows),
            "claims": int(np.count_nonzero(claimed)),
            "truths": int(np.count_nonzero(true)),
            "wrong_claims": int(np.count_nonzero(claimed & ~true)),
        }


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    regime, seed, arrivals = task.arguments["regime"], task.arguments["seed"], task.arguments["arrivals"]
    initial = _initial(plan)
    keys, values, anchors = _draw(plan, regime, seed, initial + arrivals)
    settings: dict[str, Any] = {"sigma": plan.sigma or SIGMA, "nu": plan.nu or NU}
    record.array("pool", keys)
    record.array("pool-values", values)
    record.array("anchors", anchors)
    ids = [str(row) for row in range(initial)]
    arms = [_StreamingArm(name, Memory.fit(keys[:initial], values[:initial], ids=ids, **settings)) for name in ARMS]
    alive = set(ARMS)
    for arm in arms:
        arm.prune(first=True)
    for step in range(arrivals):
        row = initial + step
        seen = record.array(f"seen/{step:03d}", np.arange(row + 1, dtype=np.int16))
        reference = None
        for arm in arms:
            labels = RowLabels(regime, arm.name, seed, step)
            if arm.name not in alive:
                record.trial(labels, "admit", "not-run", "")
                continue
            try:
                receipt = arm.admit(row, keys[row], values[row])
                pruned = arm.prune()
            except Refused as refusal:
                alive.discard(arm.name)
                record.trial(labels, "admit", "refused", "", error=refusal.reason)
                continue
            name = record.state(
                f"{task.unit}/{step:03d}/{arm.name}",
                labels,
                role="published",
                source="ours",
                keys=f"pool[{seen}]",
                values=f"pool-values[{seen}]",
                coefficients=arm.padded(row + 1),
                offset=arm.memory.offset,
                cap=arm.memory.cap,
                sigma=arm.memory.sigma,
            )
            record.trial(
                labels,
                "admit",
                "returned",
                receipt.outcome,
                state=name,
                live=len(arm.memory),
                full=row + 1,
                pruned=pruned,
                reactivated=len(receipt.details.get("reactivated", ())),
                expired=len(receipt.details.get("expired", ())),
                covered=not arm.lost and arm.name != "naive",
                **arm.certificates(keys),
            )
            if arm.name == "never":
                reference = name
            elif reference is not None:
                against = "never, expired" if arm.lost else "never"
                record.compare(labels, name, reference, [f"pool[{seen}]", "anchors"], against=against)
    return record


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers: list[Number] = []
    for regime in ("all", *tables["trials"]["regime"].unique(maintain_order=True)):
        here: tuple[Any, ...] = () if regime == "all" else (("regime", "==", regime),)
        for arm in ARMS:
            name, mine = f"{regime}/{arm}", (*here, ("arm", "==", arm))
            numbers += [
                Number(f"{name}/admissions", "trials", mine, "status", "count"),
                Number(f"{name}/admitted", "trials", (*mine, ("status", "==", "returned")), "status", "count"),
                Number(f"{name}/residual/max", "states", mine, "worst", "max"),
                Number(
                    f"{name}/states failing the check", "states", (*mine, ("worst", ">", ACCEPTANCE)), "worst", "count"
                ),
                Number(f"{name}/live/mean", "trials", mine, "live", "mean"),
                Number(f"{name}/full/mean", "trials", mine, "full", "mean"),
            ]
            if arm == "never":
                continue
            words = ("pruned", "reactivated", "expired", "claims", "truths", "wrong_claims")
            numbers += [
                *(Number(f"{name}/{word}", "trials", mine, word, "sum") for word in words),
                Number(f"{name}/covered", "trials", (*mine, ("covered", "==", True)), "covered", "count"),
            ]
            for against in ("never", "never, expired"):
                pair = (*mine, ("against", "==", against))
                for column in ("coefficient_difference", "score_difference", "value_percent"):
                    numbers += spread_of(f"{name}/{against}/{column}", "comparisons", pair, column)
    return numbers


def _initial(plan: Plan) -> int:
    return INITIAL if plan.keys is None else min(INITIAL, len(plan.keys) // 2)


def _arrivals(plan: Plan) -> int:
    wanted = QUICK_ARRIVALS if plan.quick else ARRIVALS
    return wanted if plan.keys is None else min(wanted, len(plan.keys) - _initial(plan))


def _streams(plan: Plan) -> list[tuple[str, int]]:
    regimes = REGIMES if plan.keys is None else (OWN_REGIME,)
    return [(regime, seed) for regime in regimes for seed in (QUICK_SEEDS if plan.quick else SEEDS)]


def _scheduled(plan: Plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for regime, _ in _streams(plan):
        for arm in ARMS:
            counts[f"{regime}/{arm}"] = counts.get(f"{regime}/{arm}", 0) + _arrivals(plan)
    return counts


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    lines = []
    for arm in ("archive", "naive"):
        name = f"all/{arm}"
        lines.append(
            f"{arm:<8} {numbers[f'{name}/admitted']:,.0f} of {numbers[f'{name}/admissions']:,.0f} admissions, "
            f"{numbers[f'{name}/live/mean']:.0f} live entries of {numbers[f'{name}/full/mean']:.0f}, worst coefficient "
            f"difference {numbers[f'{name}/never/coefficient_difference/max']:.1e}, readout "
            f"{numbers[f'{name}/never/value_percent/max']:.1e} % of value range"
        )
    claims = sum(numbers[f"all/{arm}/claims"] for arm in ("archive", "forget", "once", "once-sketched"))
    wrong = sum(numbers[f"all/{arm}/wrong_claims"] for arm in ("archive", "forget", "once", "once-sketched"))
    return [*lines, f"certificates: {claims:,.0f} claims, {wrong:.0f} wrong"]


EXPERIMENT = Experiment(
    name="streaming",
    title="Pruning while entries arrive",
    section="Table 1, streaming",
    settings=lambda plan: {
        "streams": _streams(plan),
        "initial": _initial(plan),
        "arrivals": _arrivals(plan),
        "nu": NU if plan.nu is None else plan.nu,
        "sigma": SIGMA if plan.sigma is None else plan.sigma,
        **({"keys": describe_keys(plan)} if plan.keys is not None else {}),
    },
    tasks=lambda plan: [
        Task(f"{regime}-{seed}", {"regime": regime, "seed": seed, "arrivals": _arrivals(plan)})
        for regime, seed in _streams(plan)
    ],
    scheduled=_scheduled,
    perform=_perform,
    numbers=_numbers,
    headlines=_headlines,
    columns={
        "trials": {
            "live": "whole",
            "full": "whole",
            "pruned": "whole",
            "reactivated": "whole",
            "expired": "whole",
            "certificates": "whole",
            "claims": "whole",
            "truths": "whole",
            "wrong_claims": "whole",
            "covered": "flag",
        }
    },
    own_keys=True,
)
