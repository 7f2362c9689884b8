"""A process that has everything loaded and forks a child for each job, in milliseconds; children may be killed.

Run as a script it reads one JSON array of jobs a line, runs them side by side, and answers with one JSON array of what
became of them: ``{"signal": 9}`` for a killed one, ``{"result": ...}`` or ``{"error": ...}`` for the others. A job is
``{"work": "name", "with": {...}, "kill_after": seconds}``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["ForkServer"]


class ForkServer:
    """The process, from the outside."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "store.edits.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(self, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
        """Run jobs side by side and wait for all of them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        answers: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answers

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()


def serve() -> None:
    """Answer until the input ends."""
    from store.edits.child_work import WORK, warm_up

    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            children = []
            for number, job in enumerate(json.loads(line)):
                answer = Path(folder) / str(number)
                answer.unlink(missing_ok=True)
                pid = os.fork()
                if pid == 0:
                    _live(job, answer, WORK)
                if job.get("kill_after") is not None:
                    threading.Thread(target=_kill, args=(pid, job["kill_after"]), daemon=True).start()
                children.append((pid, answer))
            print(json.dumps([_fate(pid, answer) for pid, answer in children]), flush=True)


def _live(job: dict[str, Any], answer: Path, work: dict[str, Any]) -> None:
    try:
        outcome = {"result": work[job["work"]](**job["with"])}
    except BaseException as problem:
        outcome = {"error": type(problem).__name__, "text": str(problem), "trace": traceback.format_exc()}
    answer.write_text(json.dumps(outcome))
    os._exit(0)


def _kill(pid: int, after: float) -> None:
    time.sleep(after)
    # A child that is done is not reaped before its turn, so the number is still its own, or nobody's.
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _fate(pid: int, answer: Path) -> dict[str, Any]:
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


if __name__ == "__main__":
    serve()
