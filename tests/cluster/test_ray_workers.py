"""A cluster changes no bit: fits, checks and verified states, on a Ray of two workers and on one that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from expunge import InputError, MissingExtra
from expunge.cluster import RayWorkers, ray_workers
from expunge.cluster.ray_workers import _versions

# Ray starts processes of its own: one script for all that needs a real cluster.
SCRIPT = """
import json, os, sys
from dataclasses import asdict
import numpy as np
import ray
from expunge import Memory
from expunge.cli import main
from expunge.cluster import ray_workers
from expunge.problem import column_parts
from expunge.problem.column_parts import spread_over
from expunge.solver import margin_pairs
from expunge.verify import optimum, verify_state

column_parts.WORTH, column_parts.PART, margin_pairs.MANY = 1000, 64, 100
optimum.BLOCK = 2000
found = []
with ray_workers(cores=2) as workers:
    for dimension, sigma, nu in ((3, 1.0, 0.5), (40, 8.0, 0.6)):
        keys = np.random.default_rng(dimension).standard_normal((400, dimension))
        keys[7] = keys[3]

        def fit():
            memory = Memory.fit(keys, keys[:, :1], sigma=sigma, nu=nu)
            return memory.coefficients.tobytes(), memory.offset, memory.check(), memory.cap

        alone, before = fit(), workers.made
        assert before == workers.made
        with spread_over(workers):
            assert fit() == alone
        made, before = workers.made - before, workers.made
        states = [
            asdict(verify_state(
                keys, np.frombuffer(alone[0]), alone[1], cap=alone[3], sigma=sigma, complete=complete, workers=spread
            ))
            for complete in (10**9, 0) for spread in (None, workers)
        ]
        assert states[0] == states[1] and states[2] == states[3] and states[2]["bounded"] > 0, states
        found.append([made, workers.made - before])
    Memory.fit(keys, keys[:, :1], sigma=sigma, nu=nu).save("wide.memory")
    before = workers.made
    sys.argv = ["expunge", "verify", "state", "wide.memory", "--ray", "local"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    np.save("points.npy", keys)
    sys.argv = "expunge create wide points.npy --key-columns 0:39 --value-columns 39 --dry-run --ray local".split()
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
print(json.dumps(found))
print(ray.is_initialized())
"""


@pytest.mark.slow
@pytest.mark.long
def test_two_workers_change_no_bit(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
    )
    assert done.returncode == 0, done.stderr
    said, made, connected = done.stdout.strip().rsplit("\n", 2)
    assert "are the exact ones, to the last bit" in said.replace("\n", " ")
    assert "dry run" in said
    counts = np.array(eval(made))  # noqa: S307 — lists of numbers
    assert counts.shape == (2, 2)
    assert (counts > 4).all()
    assert connected == "False"


class RayError(Exception):
    """As Ray's own."""


class FakeRay:
    """Ray with one core, in this process: what a task makes is made when it is asked for."""

    def __init__(self, answer: Callable[[Any], Any] = lambda result: result) -> None:
        self.answer, self.exceptions, self.cancelled = answer, SimpleNamespace(RayError=RayError), 0

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        return lambda task: SimpleNamespace(remote=lambda *given: (task, given))

    def put(self, value: Any) -> Any:
        return value

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def wait(self, tasks: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return tasks[-1:], tasks[:-1]

    def get(self, task: Any) -> Any:
        function, given = task
        return self.answer(function(*given))

    def cancel(self, task: Any) -> None:
        self.cancelled += 1


PARTS = [(start, start + 2) for start in range(0, 10, 2)]


def squares(start: int, stop: int) -> list[int]:
    return [number * number for number in range(start, stop)]


def collected(made: Iterator[tuple[int, int, list[int]]]) -> list[int]:
    return [number for _, _, numbers in sorted(made) for number in numbers]


def test_every_part_is_made_once_in_any_order() -> None:
    workers = RayWorkers(FakeRay())
    assert collected(workers(squares, PARTS)) == squares(0, 10)
    assert workers.made == len(PARTS)
    assert collected(workers(squares, [])) == []


def test_a_part_that_the_cluster_loses_is_made_here(caplog: pytest.LogCaptureFixture) -> None:
    lost = iter([True, False, True, False, False])

    def answer(result: Any) -> Any:
        if next(lost):
            raise RayError("the node died")
        return result

    workers = RayWorkers(FakeRay(answer))
    assert collected(workers(squares, PARTS)) == squares(0, 10)
    assert workers.made == 3
    assert caplog.text.count("the node died") == 2


def test_what_a_part_raises_is_raised_and_the_others_are_cancelled() -> None:
    def answer(_: Any) -> Any:
        raise RayError("a task failed")

    def make(start: int, stop: int) -> list[int]:
        raise ZeroDivisionError

    ray = FakeRay(answer)
    with pytest.raises(ZeroDivisionError):
        collected(RayWorkers(FakeRay())(make, PARTS))
    with pytest.raises(ZeroDivisionError):
        collected(RayWorkers(ray)(make, PARTS))
    assert ray.cancelled == 1


def test_a_worker_with_another_version_is_refused() -> None:
    def answer(result: Any) -> Any:
        versions, made = result
        assert versions == _versions()
        return (versions[0], "1.0", *versions[2:]), made

    with pytest.raises(InputError, match=r"a worker of the cluster has expunge .*, numpy 1\.0, .*: install the same"):
        collected(RayWorkers(FakeRay(answer))(squares, PARTS))


def test_without_the_extra_or_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"), ray_workers("127.0.0.1:1"):
        pass
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"expunge\[cluster\]"), ray_workers():
        pass
