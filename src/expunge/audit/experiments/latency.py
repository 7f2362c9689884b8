"""How long a deletion takes, beside the refits that could replace it (docs/results/protocols.md, Latency).

X = 1.5·N(0, 1) in six dimensions, one ``default_rng(n·100000 + trial)`` a trial: the keys, then the victim,
``integers(n)``, then one victim of the other kind, ``choice``. Active and reserve victims are reported apart, because a
reserve deletion is nearly free and a median over both hides that. Arms:

- ``ours``: the whole call: copy, path, independent check, digest, receipt;
- ``classic``: the paper's update alone, unchecked, as the paper timed it;
- ``libsvm``: the fastest refit that a user could call (`OneClassSVM`, RBF, tol 1e-8, from the keys);
- ``refit``: the paper's refit.

Arms take turns in going first, garbage collection is off, and a warm-up trial comes before the others. The states are
kept and checked like any other: a time without its residual says nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit.arms import keep_classic, keep_memory
from expunge.audit.classic import baseline
from expunge.audit.engine import Experiment, Plan, Task
from expunge.audit.numbers import Number
from expunge.audit.own_keys import OWN_REGIME, describe_keys
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import ExpungeError
from expunge.memory.memory import Memory
from expunge.problem.check import stationarity_terms
from expunge.solver.backends import minimax_offset
from expunge.types import Matrix, Vector

if TYPE_CHECKING:
    import polars

__all__ = ["EXPERIMENT"]

NU, SIGMA, DIMENSION, SPREAD = 0.4, 2.0, 6, 1.5
SIZES, TRIALS = (120, 256, 384, 512), 30
QUICK_SIZES, QUICK_TRIALS = (120, 256), 8
ARMS = ("ours", "classic", "libsvm", "refit")
LIBSVM_TOLERANCE = 1e-8
REGIME = "gaussian"
KINDS = ("active", "reserve")


def _perform(plan: Plan, task: Task) -> TaskRecord:
    record = TaskRecord(task.unit)
    size, trials = task.arguments["size"], task.arguments["trials"]
    with _uncollected():
        # The last number is the warm-up, whose times count for nothing.
        _one_trial(TaskRecord("warm-up"), plan, size, trials)
        for trial in range(trials):
            _one_trial(record, plan, size, trial)
    return record


def _one_trial(record: TaskRecord, plan: Plan, size: int, trial: int) -> None:
    """Delete the drawn victim, then one of the other kind, each from a fresh start."""
    rng = np.random.default_rng(size * 100_000 + trial)
    if plan.keys is None:
        keys = SPREAD * rng.standard_normal((size, DIMENSION))
    else:
        keys = plan.keys[rng.choice(len(plan.keys), size, replace=False)]
    sigma = SIGMA if plan.sigma is None else plan.sigma
    cap = 1.0 / ((NU if plan.nu is None else plan.nu) * size)
    name = f"n{size}/{trial:02d}"
    record.array(f"{name}/keys", keys)
    base = baseline.ClassicUpdate.fit(keys, cap=cap, sigma=sigma)
    active = Memory.fit(keys, np.zeros(size), sigma=sigma, cap=cap).coefficients > 0.0
    victim = int(rng.integers(size))
    others = np.flatnonzero(active != active[victim])
    victims = [victim, *([int(rng.choice(others))] if others.size else [])]
    regime = REGIME if plan.keys is None else OWN_REGIME
    if not others.size:
        missing: dict[str, Any] = {"n": size, "victim": KINDS[1] if active[victim] else KINDS[0], "uniform": False}
        for arm in ARMS:
            record.trial(RowLabels(regime, arm, trial, 1), "delete", "not-run", "", error="no such entry", **missing)
    for turn, row in enumerate(victims):
        kept = record.array(f"{name}/kept-{turn}", np.delete(np.arange(size), row))
        cells: dict[str, Any] = {"n": size, "victim": KINDS[0] if active[row] else KINDS[1], "uniform": turn == 0}
        prepared = _prepare(keys, row, cap, sigma, base)
        order = ARMS if trial % 2 else ARMS[::-1]
        for arm in order:
            labels = RowLabels(regime, arm, trial, turn)
            state = f"{name}/{turn}/{arm}"
            started = time.perf_counter()
            try:
                result = prepared[arm]()
            except ExpungeError as problem:
                record.trial(labels, "delete", "failed", "", error=str(problem), **cells)
                continue
            seconds = time.perf_counter() - started
            expression = f"{name}/keys[{kept}]"
            settings: dict[str, Any] = {"keys": expression, "cap": cap, "sigma": sigma}
            told = _keep(record, labels, state, result, settings)
            record.row("timings", **asdict(labels), what="delete", seconds=seconds, **cells)
            record.trial(labels, "delete", told[0], told[1], error=told[2], state=told[3], **cells)


def _prepare(
    keys: Matrix, row: int, cap: float, sigma: float, base: baseline.ClassicUpdate
) -> dict[str, Callable[[], Any]]:
    """What each arm is timed on, everything before it done."""
    size = len(keys)
    memory = Memory.fit(keys, np.zeros(size), sigma=sigma, cap=cap)
    copy, rest = base.copy(), np.delete(keys, row, axis=0)
    return {
        "ours": lambda: (memory, memory.delete(str(row))),
        "classic": lambda: copy.delete(row),
        "libsvm": lambda: _libsvm(rest, cap, sigma),
        "refit": lambda: baseline.refit(rest, cap=cap, sigma=sigma),
    }


def _libsvm(keys: Matrix, cap: float, sigma: float) -> Vector:
    from sklearn.svm import OneClassSVM

    model = OneClassSVM(
        kernel="rbf", gamma=1.0 / sigma**2, nu=min(1.0, 1.0 / (cap * len(keys))), tol=LIBSVM_TOLERANCE
    ).fit(keys)
    coefficients = np.zeros(len(keys))
    coefficients[model.support_] = model.dual_coef_.ravel() * cap
    return coefficients


def _keep(
    record: TaskRecord, labels: RowLabels, name: str, result: Any, settings: dict[str, Any]
) -> tuple[str, str, str | None, str | None]:
    """Keep the state that an arm came to: (status, path, error, name)."""
    if labels.arm == "ours":
        memory, receipt = result
        keep_memory(record, labels, name, memory, keys=settings["keys"])
        return "returned", receipt.outcome, None, name
    if labels.arm == "classic":
        if result.published is None:
            return result.status, result.path, result.error, None
        keep_classic(record, labels, name, result.published, **settings)
        return result.status, result.path, result.error, name
    if labels.arm == "refit":
        keep_classic(record, labels, name, result, **settings)
        return "returned", "program", None, name
    terms = stationarity_terms(record.get(settings["keys"]), result, settings["sigma"])
    offset = minimax_offset(terms, result, settings["cap"])
    record.state(name, labels, role="published", source="libsvm", coefficients=result, offset=offset, **settings)
    return "returned", "libsvm", None, name


@contextmanager
def _uncollected() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _numbers(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers: list[Number] = []
    for arm in ARMS:
        mine = (("arm", "==", arm),)
        numbers += [
            Number(f"{arm}/attempted", "trials", mine, "status", "count"),
            Number(f"{arm}/returned", "trials", (*mine, ("status", "==", "returned")), "status", "count"),
            Number(f"{arm}/rescued", "trials", (*mine, ("path", "==", "rescued")), "path", "count"),
            Number(f"{arm}/residual/max", "states", mine, "worst", "max"),
        ]
    return numbers


def _speeds(tables: Mapping[str, polars.DataFrame]) -> list[Number]:
    numbers: list[Number] = []
    for size in sorted(tables["timings"]["n"].unique()):
        for arm in ARMS:
            mine = (("n", "==", size), ("arm", "==", arm))
            groups = {
                "uniform": (("uniform", "==", True),),
                **{kind: (("victim", "==", kind),) for kind in KINDS},
            }
            for group, more in groups.items():
                numbers += [
                    Number(f"n={size}/{arm}/{group}/seconds/{word}", "timings", (*mine, *more), "seconds", word)
                    for word in ("median", "p95")
                ]
    return numbers


def _sizes(plan: Plan) -> list[int]:
    sizes = QUICK_SIZES if plan.quick else SIZES
    if plan.keys is None:
        return list(sizes)
    return [size for size in sizes if size <= len(plan.keys)] or [len(plan.keys)]


def _trials(plan: Plan) -> int:
    return QUICK_TRIALS if plan.quick else TRIALS


def _headlines(numbers: Mapping[str, float]) -> list[str]:
    lines = []
    for size in dict.fromkeys(name.partition("/")[0] for name in numbers if name.startswith("n=")):
        for kind in KINDS:
            cells = [
                f"{arm} {1e3 * numbers[f'{size}/{arm}/{kind}/seconds/median']:.2f} ms"
                for arm in ARMS
                if f"{size}/{arm}/{kind}/seconds/median" in numbers
            ]
            lines.append(f"{size:<6} {kind:<8} {', '.join(cells)}")
    return lines


EXPERIMENT = Experiment(
    name="latency",
    title="How long a deletion takes",
    section="§4.4, timing",
    settings=lambda plan: {
        "sizes": _sizes(plan),
        "trials": _trials(plan),
        "warm_ups": 1,
        "nu": NU if plan.nu is None else plan.nu,
        "sigma": SIGMA if plan.sigma is None else plan.sigma,
        "libsvm_tolerance": LIBSVM_TOLERANCE,
        **({"keys": describe_keys(plan)} if plan.keys is not None else {}),
    },
    tasks=lambda plan: [Task(f"n{size}", {"size": size, "trials": _trials(plan)}) for size in _sizes(plan)],
    scheduled=lambda plan: {
        f"{REGIME if plan.keys is None else OWN_REGIME}/{arm}": 2 * _trials(plan) * len(_sizes(plan)) for arm in ARMS
    },
    perform=_perform,
    numbers=_numbers,
    speeds=_speeds,
    headlines=_headlines,
    columns={
        "trials": {"n": "whole", "victim": "text", "uniform": "flag"},
        "timings": {"n": "whole", "victim": "text", "uniform": "flag"},
    },
    own_keys=True,
    serial=True,
)
