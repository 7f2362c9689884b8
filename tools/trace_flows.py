"""How many source files five whole calls pass through, and how often control moves from one file to another.

    python tools/trace_flows.py
    python tools/trace_flows.py --files

Each flow runs once to warm up (compiled code, imports, caches) and is then traced with `sys.setprofile`. A file counts
when a Python function of it runs; a switch is a call or a return that continues in another file of the package. Code
compiled by numba and code of other packages is not seen. The table in ``docs/design/0012-the-tree.md`` is made with it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import expunge
from expunge.cli import main as command_line

PACKAGE = str(Path(expunge.__file__).parent) + os.sep
STORE = "sqlite:///ward.db"


class Trace:
    """Files of the package in the order in which control reaches them."""

    def __init__(self) -> None:
        self.passed: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note the file that runs from here on; the profiler's callback."""
        if event == "call":
            self._note(frame)
        elif event == "return" and _ours(frame):
            caller = frame.f_back
            while caller is not None and not _ours(caller):
                caller = caller.f_back
            if caller is not None:
                self._note(caller)

    @property
    def files(self) -> set[str]:
        """Distinct files."""
        return set(self.passed)

    @property
    def switches(self) -> int:
        """Moves from one file to another."""
        return max(0, len(self.passed) - 1)

    def _note(self, frame: FrameType) -> None:
        if _ours(frame):
            name = frame.f_code.co_filename.removeprefix(PACKAGE)
            if not self.passed or self.passed[-1] != name:
                self.passed.append(name)


def _ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(PACKAGE)


@contextlib.contextmanager
def tracing() -> Iterator[Trace]:
    """Trace this thread and those that start inside."""
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def ward(rows: int = 60) -> dict[str, Any]:
    """Arguments of a small memory."""
    chance = np.random.default_rng(0)
    return {
        "keys": chance.standard_normal((rows, 3)),
        "values": chance.uniform(size=(rows, 2)),
        "ids": [f"e{row}" for row in range(rows)],
        "subjects": [f"p{row % 12}" for row in range(rows)],
        "sigma": 2.0,
        "nu": 0.4,
    }


def run(*words: str) -> Any:
    """One command; its JSON."""
    sys.argv = ["expunge", "--store", STORE, "--json", *words]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        command_line()
    return json.loads(output.getvalue())


def memory_delete() -> Callable[[int], object]:
    """`Memory.delete` of an active entry."""
    memory = expunge.Memory.fit(**ward())

    def act(turn: int) -> object:
        active = [name for name, weight in zip(memory.ids, memory.coefficients, strict=True) if weight > 0]
        return memory.delete(active[turn])

    return act


def cli_delete() -> Callable[[int], object]:
    """`expunge delete` of a subject."""
    with expunge.open(STORE) as store:
        store.create("ward", **ward())
    return lambda turn: run("delete", "ward", "--subject", f"p{turn}", "--yes")


def http_delete() -> Callable[[int], object]:
    """A deletion by id over HTTP."""
    from fastapi.testclient import TestClient

    from expunge.service.app import create_app
    from expunge.service.settings import Settings

    with expunge.open(STORE) as store:
        store.create("served", **ward())
    token = run("token", "create", "--scope", "erase", "--scope", "read")["token"]
    client = TestClient(create_app(Settings(url=STORE)), headers={"Authorization": f"Bearer {token}"})

    def act(turn: int) -> object:
        response = client.post("/v1/memories/served/delete", json={"ids": [f"e{turn}"]})
        response.raise_for_status()
        return response.json()

    return act


def verify_evidence() -> Callable[[int], object]:
    """`verify_evidence` of a bundle that a deletion wrote."""
    from expunge.verify import verify_evidence as verify

    with expunge.open(STORE) as store:
        store.create("shown", **ward())
        trusted = [store.public_key]
    run("delete", "shown", "e3", "--yes", "--evidence", "shown.evidence")
    return lambda turn: verify(Path("shown.evidence"), trusted)


def attention_forward() -> Callable[[int], object]:
    """One forward pass of the attention layer on a CPU."""
    import torch

    from expunge.torch import SupportVectorAttention

    layer = SupportVectorAttention(32, 4)
    tokens = torch.randn(2, 64, 32)
    return lambda turn: layer(tokens)


FLOWS = {
    "Memory.delete": memory_delete,
    "CLI delete": cli_delete,
    "HTTP delete": http_delete,
    "verify evidence": verify_evidence,
    "attention forward": attention_forward,
}


def main() -> None:
    """Trace every flow and print a table, with --files also the files of each."""
    show_files = "--files" in sys.argv
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        print(f"{'flow':<20}{'files':>7}{'switches':>10}  longest file")
        for name, prepare in FLOWS.items():
            act = prepare()
            act(0)
            with tracing() as trace:
                act(1)
            lines, longest = max((len((Path(PACKAGE) / file).read_text().splitlines()), file) for file in trace.files)
            print(f"{name:<20}{len(trace.files):>7}{trace.switches:>10}  {longest} ({lines})")
            if show_files:
                print("   ", " ".join(sorted(trace.files)))


if __name__ == "__main__":
    main()
