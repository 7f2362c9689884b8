"""The results do not depend on who ran the tasks, and a killed run continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from audit.small_audits import shortened
from expunge.audit.engine import Plan, perform, run_experiment
from expunge.audit.experiments import record_edits
from expunge.audit.results import ResultFolder, open_results
from expunge.audit.task_record import TaskRecord
from expunge.errors import InputError, SolveError

# Ray starts processes of its own, which do not see this process's patches: the whole quick audit, then.
RAY = """
import sys
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from expunge.audit.engine import Plan, run_experiment

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
print(run_experiment(
    "records", Path(sys.argv[1]), Plan(quick=True), jobs=2, backend="ray", address=cluster.address
).digest)
print(ray.is_initialized())
cluster.shutdown()
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the results but manifests and timings."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", ".lock") and path.stem not in ("timings", "speeds")
    }


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quick audit of records, in this process."""
    folder = tmp_path_factory.mktemp("alone")
    run_experiment("records", folder, Plan(quick=True))
    return folder


def test_two_workers_give_the_same_bytes(alone: Path, tmp_path: Path) -> None:
    done = run_experiment("records", tmp_path, Plan(quick=True), jobs=2)
    assert done.tasks == 4
    assert contents(tmp_path) == contents(alone)
    assert done.digest == open_results(alone).manifest("records")["digest"]


@pytest.mark.slow
@pytest.mark.long
def test_a_ray_cluster_gives_the_same_bytes(alone: Path, tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", RAY, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == contents(alone)
    digest, connected = done.stdout.split()[-2:]
    assert digest == open_results(alone).manifest("records")["digest"]
    assert connected == "False"


def test_threads_of_linear_algebra_do_not_matter(tmp_path: Path) -> None:
    from threadpoolctl import threadpool_limits

    found = []
    for threads in (1, 4):
        with shortened(2), threadpool_limits(limits=threads):
            found.append(run_experiment("deletion", tmp_path / str(threads), Plan(quick=True)).digest)
    assert found[0] == found[1]


def test_a_run_killed_without_warning_continues(alone: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "expunge", "audit", "records", "--quick", "--jobs", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    parts = tmp_path / "records" / "parts"
    deadline = time.monotonic() + 120
    while not list(parts.glob("*.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not json.loads((tmp_path / "records" / "manifest.json").read_text())["finished"]
    with pytest.raises(InputError, match=r"no finished audit; unfinished: records \(continue with --resume\)"):
        open_results(tmp_path)
    kept = {path.name: path.stat().st_mtime_ns for path in parts.glob("*.json")}
    with pytest.raises(InputError, match="continue it with --resume"):
        run_experiment("records", tmp_path, Plan(quick=True))
    seen: list[str] = []
    done = run_experiment(
        "records",
        tmp_path,
        Plan(quick=True),
        resume=True,
        watch=lambda n, of, out: seen.append(out.unit if out else ""),
    )
    assert done.resumed == len(kept) > 0
    assert not {f"{unit}.json" for unit in seen} & set(kept)
    assert contents(tmp_path) == contents(alone)
    assert run_experiment("records", tmp_path, Plan(quick=True), resume=True).resumed == 4


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see workers")
def test_workers_do_not_outlive_a_killed_run(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "expunge", "audit", "records", "--jobs", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    deadline = time.monotonic() + 120
    while not list((tmp_path / "records" / "parts").glob("*.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    workers = [
        pid for pid in children(process.pid) if "loky" in command_line(pid) and "tracker" not in command_line(pid)
    ]
    assert workers
    process.kill()
    process.wait()
    while any(command_line(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def command_line(pid: int) -> str:
    """Of a process that runs; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_what_a_task_raises_stops_the_run_and_keeps_the_rest(tmp_path: Path) -> None:
    draw, calls = record_edits._perform, []

    def failing(plan: Plan, task: Any) -> TaskRecord:
        calls.append(task.unit)
        if len(calls) == 2:
            raise SolveError("nothing solves this")
        return draw(plan, task)

    with shortened(), pytest.raises(SolveError, match="nothing solves this"):
        _with(failing, tmp_path)
    assert [path.stem for path in (tmp_path / "records" / "parts").glob("*.json")] == calls[:1]


def _with(perform: Any, folder: Path) -> None:
    """Run the audit of records with another way to perform a task."""
    from dataclasses import replace

    experiment = replace(record_edits.EXPERIMENT, perform=perform)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_edits, "EXPERIMENT", experiment)
        run_experiment("records", folder, Plan(quick=True))


def test_other_settings_cannot_continue_a_run(tmp_path: Path) -> None:
    with shortened(2):
        run_experiment("records", tmp_path, Plan(quick=True))
    with shortened(4), pytest.raises(InputError, match="started with other settings"):
        run_experiment("records", tmp_path, Plan(quick=True), resume=True)


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    header = {"experiment": "records", "settings": {}, "scheduled": {}, "versions": {}}
    with (
        ResultFolder.begin(tmp_path / "records", header, resume=False),
        pytest.raises(InputError, match="another audit is writing"),
        ResultFolder.begin(tmp_path / "records", header, resume=True),
    ):
        pass


def test_bad_requests_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="positive number of workers"):
        run_experiment("records", tmp_path, Plan(), jobs=0)
    with pytest.raises(InputError, match=r"no Ray cluster answers at 127\.0\.0\.1:1: "):
        run_experiment("records", tmp_path / "ray", Plan(quick=True), backend="ray", address="127.0.0.1:1")
    with pytest.raises(InputError, match="--backend ray"):
        run_experiment("records", tmp_path, Plan(quick=True), address="localhost:1")


def test_a_task_depends_on_its_arguments_alone() -> None:
    with shortened(2):
        task = record_edits.EXPERIMENT.tasks(Plan(quick=True))[1]
        first, again = (perform("records", Plan(quick=True), task) for _ in range(2))
    assert first.tables["answers"] == again.tables["answers"]
    assert first.tables["states"] == again.tables["states"]
