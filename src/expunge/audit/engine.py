"""How an experiment is run: tasks, workers, and results that do not depend on them.

An experiment splits into tasks that know nothing of each other; a task's record depends on its arguments alone. Linear
algebra is held to one thread inside every task, because the order of a sum depends on the number of threads. So the
results are the same, bit for bit, whether one process runs the tasks, many do (joblib), or a cluster does (Ray), as
long as the machines are alike. Records are written as they come, by the process that was started, and a killed run
continues where it stopped.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from expunge.audit.experiments import load_experiment
from expunge.audit.machine import describe_machine, describe_versions, source_commit
from expunge.audit.numbers import Number, evaluate
from expunge.audit.result_tables import TABLES, Columns, frame_schema
from expunge.audit.results import ResultFolder, load_polars
from expunge.audit.task_record import TaskRecord
from expunge.errors import InputError, MissingExtra
from expunge.types import Matrix

if TYPE_CHECKING:
    import polars

__all__ = ["Backend", "Experiment", "FinishedRun", "Plan", "Task", "run_experiment"]

Backend = Literal["local", "ray"]

# Parents that a thread of this worker watches: a killed run must not leave its workers behind.
_watching: set[int] = set()


@dataclass(frozen=True, eq=False)
class Plan:
    """What the user asked for: the whole or a quick look, and their own keys (n, d) with a width and a sparsity.

    ``names`` are those of the keys' columns, where they are known. ``clinical`` is a folder of MIMIC-IV, or PhysioNet
    2019's data, for the clinical regime.
    """

    quick: bool = False
    keys: Matrix | None = None
    source: str | None = None
    sigma: float | None = None
    nu: float | None = None
    clinical: str | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Task:
    """A part of an experiment. ``unit`` names its files; the arguments are plain."""

    unit: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments.

    ``settings`` is everything that decides the numbers, as plain JSON. ``scheduled`` says how many rows of trials each
    (regime, arm) must have, so that no failure can leave the denominators. ``perform`` runs one task. ``numbers`` says
    what is reported, ``speeds`` what is reported of the timings, and ``headlines`` puts a few of them into lines.
    ``columns`` are those beyond `result_tables`. One that is clinical takes stays instead of the open sample. A serial
    experiment measures time and shares the machine with nobody.
    """

    name: str
    title: str
    section: str
    settings: Callable[[Plan], dict[str, Any]]
    tasks: Callable[[Plan], list[Task]]
    scheduled: Callable[[Plan], dict[str, int]]
    perform: Callable[[Plan, Task], TaskRecord]
    numbers: Callable[[Mapping[str, polars.DataFrame]], list[Number]]
    headlines: Callable[[Mapping[str, float]], list[str]]
    speeds: Callable[[Mapping[str, polars.DataFrame]], list[Number]] | None = None
    columns: Mapping[str, Columns] = field(default_factory=dict)
    own_keys: bool = False
    clinical: bool = False
    serial: bool = False


@dataclass(frozen=True)
class FinishedRun:
    """What a run came to: where it is, its digest, and how many tasks were done now or before."""

    experiment: str
    path: Path
    digest: str
    tasks: int
    resumed: int
    seconds: float
    numbers: dict[str, float]


def run_experiment(
    name: str,
    out: Path,
    plan: Plan,
    *,
    jobs: int = 1,
    backend: Backend = "local",
    address: str | None = None,
    resume: bool = False,
    watch: Callable[[int, int, TaskRecord | None], None] | None = None,
) -> FinishedRun:
    """Run an experiment into ``out/name``, or finish one that was begun there.

    `watch` is told (tasks done, tasks in all, the record that came) as records come. Raises InputError for what
    cannot be run; whatever a task raises stops the run, and the records so far stay.
    """
    experiment = load_experiment(name)
    if plan.keys is not None and not experiment.own_keys:
        raise InputError(f"{name} is about the paper's own entries and takes no keys")
    if jobs < 1:
        raise InputError(f"jobs must be a positive number of workers, not {jobs}")
    if backend == "local" and address is not None:
        raise InputError("an address is that of a Ray cluster: add --backend ray")
    if backend == "ray":
        # Asked first: its extra brings what every audit needs.
        _load("ray", "cluster")
    load_polars()
    started = time.perf_counter()
    tasks = experiment.tasks(plan)
    header = {
        "experiment": name,
        "quick": plan.quick,
        "settings": experiment.settings(plan),
        "scheduled": experiment.scheduled(plan),
        "versions": describe_versions(),
        "commit": source_commit(),
    }
    tell = watch or (lambda done, total, record: None)
    with ResultFolder.begin(out / name, header, resume=resume) as folder:
        if folder.finished:
            tell(len(tasks), len(tasks), None)
            return _finished(experiment, folder.path, len(tasks), len(tasks), started)
        done = folder.done()
        waiting = [task for task in tasks if task.unit not in done]
        tell(len(tasks) - len(waiting), len(tasks), None)
        workers = 1 if experiment.serial else jobs
        for count, record in enumerate(_task_records(name, plan, waiting, workers, backend, address), 1):
            folder.write(record)
            tell(len(tasks) - len(waiting) + count, len(tasks), record)
        with _one_thread():
            tables = _with_numbers(experiment, folder.collect([task.unit for task in tasks], experiment.columns))
        run = {
            "backend": backend,
            "jobs": workers,
            "seconds": time.perf_counter() - started,
            "resumed": len(tasks) - len(waiting),
            "machine": describe_machine(),
        }
        folder.finish(tables, run)
        return _finished(experiment, folder.path, len(tasks), len(tasks) - len(waiting), started)


def perform(name: str, plan: Plan, task: Task) -> TaskRecord:
    """Run one task of an experiment, with one thread of linear algebra."""
    experiment = load_experiment(name)
    with _one_thread():
        return experiment.perform(plan, task)


def _with_numbers(experiment: Experiment, tables: dict[str, polars.DataFrame]) -> dict[str, polars.DataFrame]:
    """Add the reported numbers."""
    polars = load_polars()
    schema = frame_schema(TABLES["summary"], polars)
    found = dict(tables)
    found["summary"] = polars.DataFrame(evaluate(experiment.numbers(tables), tables), schema=schema, orient="row")
    if experiment.speeds is not None:
        found["speeds"] = polars.DataFrame(evaluate(experiment.speeds(tables), tables), schema=schema, orient="row")
    return found


def _finished(experiment: Experiment, path: Path, tasks: int, resumed: int, started: float) -> FinishedRun:
    from expunge.audit.results import open_results

    results = open_results(path.parent)
    numbers = results.numbers(experiment.name)
    digest = results.manifest(experiment.name)["digest"]
    return FinishedRun(experiment.name, path, digest, tasks, resumed, time.perf_counter() - started, numbers)


def _task_records(
    name: str, plan: Plan, tasks: Sequence[Task], jobs: int, backend: Backend, address: str | None
) -> Iterator[TaskRecord]:
    """Records as they come, in any order."""
    if backend == "ray":
        return _by_ray(name, plan, tasks, jobs, address)
    if jobs == 1 or len(tasks) <= 1:
        return (perform(name, plan, task) for task in tasks)
    return _by_joblib(name, plan, tasks, jobs)


def _by_joblib(name: str, plan: Plan, tasks: Sequence[Task], jobs: int) -> Iterator[TaskRecord]:
    joblib = _load("joblib", "audit")
    parallel = joblib.Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered", pre_dispatch="2*n_jobs")
    run = joblib.delayed(_perform_in_worker)
    records: Iterator[TaskRecord] = parallel(run(os.getpid(), name, plan, task) for task in tasks)
    return records


def _perform_in_worker(parent: int, name: str, plan: Plan, task: Task) -> TaskRecord:
    """Run a task in a worker that does not outlive the process it works for."""
    if parent not in _watching:
        _watching.add(parent)
        threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    return perform(name, plan, task)


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _by_ray(name: str, plan: Plan, tasks: Sequence[Task], jobs: int, address: str | None) -> Iterator[TaskRecord]:
    """Through a cluster at an address, or one that is started here and stopped again."""
    from expunge.cluster import ray_cluster

    with ray_cluster(address, cores=jobs) as ray:
        shared = ray.put(plan)
        remote = ray.remote(num_cpus=1, max_retries=2)(perform)
        waiting = list(reversed(tasks))
        # Twice the workers keeps each of them busy; more would keep records that nobody has asked for.
        in_flight = [remote.remote(name, shared, waiting.pop()) for _ in range(min(2 * jobs, len(waiting)))]
        while in_flight:
            ready, in_flight = ray.wait(in_flight, num_returns=1)
            yield ray.get(ready[0])
            if waiting:
                in_flight.append(remote.remote(name, shared, waiting.pop()))


def _one_thread() -> Any:
    # Only libraries that are loaded can be held to a thread, and SciPy brings linear algebra of its own.
    import_module("scipy.linalg")
    return _load("threadpoolctl", "audit").threadpool_limits(limits=1)


def _load(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as problem:
        raise MissingExtra(f"this needs {module}: pip install 'expunge[{extra}]'") from problem
