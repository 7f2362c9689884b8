"""Large memories in one process: fit, reopen, search, delete, admit and erase a subject, beside LIBSVM's fit.

Keys are unit vectors in topics, like embeddings of sentences: ``text`` has a spectrum that decays as theirs does, and
``spread`` is noise in every direction, so that nearly half of the entries are on the margin. Each size is a process of
its own, for its peak memory, and LIBSVM (scikit-learn's one-class machine, tolerance 1e-8) another one. Every phase has
seconds by the clock and of the processors: the machine may have other work.

    python benchmarks/scale.py                              # 12,800 spread keys at σ = 1, ν = 0.5
    python benchmarks/scale.py --case text:100000:auto:0.1
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from expunge.types import Matrix
from record import describe, write_result

RESULTS = Path(__file__).parent / "results" / "scale.json"
CASES = ("spread:12800:1:0.5",)
DIMENSION, TOPICS = 384, 200
# How the spectrum falls, and how large noise is beside the topic.
KINDS = {"text": (0.35, 1.0), "spread": (0.0, 2.4)}
SUBJECT = {100_000: 100}


def draw(kind: str, count: int, *, seed: int = 0) -> Matrix:
    """Unit vectors (count, 384); the topics are the same for every seed."""
    decay, noise = KINDS[kind]
    scale = (1.0 + np.arange(DIMENSION)) ** -decay
    fixed, rng = np.random.default_rng(23), np.random.default_rng([23, seed])
    centres = fixed.standard_normal((TOPICS, DIMENSION)) * scale
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    odds = fixed.dirichlet(np.full(TOPICS, 0.5))
    points = centres[rng.choice(TOPICS, count, p=odds)]
    points += noise * rng.standard_normal((count, DIMENSION)) * scale / np.linalg.norm(scale)
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


class Clock:
    """Phases by name, each with what it took."""

    def __init__(self) -> None:
        self.phases: dict[str, list[tuple[float, float]]] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        took = (time.perf_counter() - wall, time.process_time() - cpu)
        self.phases.setdefault(name, []).append(took)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as a phase."""

        def call(*args: Any, **options: Any) -> Any:
            with self.phase(name):
                return function(*args, **options)

        return call

    def summary(self) -> dict[str, Any]:
        """Median and 95th percentile of the wall clock, median of the processors, and how many."""
        found = {}
        for name, took in self.phases.items():
            wall, cpu = np.array(took).T
            found[name] = {
                "count": len(took),
                "p50": round(float(np.median(wall)), 4),
                "p95": round(float(np.percentile(wall, 95)), 4),
                "cpu_p50": round(float(np.median(cpu)), 4),
            }
        return found


def measure(case: str, repeats: int) -> dict[str, Any]:
    """All phases of one memory."""
    from expunge import Memory
    from expunge.memory import first_version
    from expunge.solver import attempts

    kind, size, width, nu = parts(case)
    clock = Clock()
    keys = draw(kind, size)
    # Compiled before: machine code of a small fit, edits and a reopening.
    warm_up(keys[:600])
    values = keys[:, :2].copy()
    number = SUBJECT.get(size, 64)
    subjects = [f"s{row // number}" if row < 4 * number else None for row in range(size)]
    # The two halves of a creation, timed where they are called.
    parts_of = {"fit": vars(first_version), "canonical": vars(attempts)}
    plain = {name: module[name] for name, module in parts_of.items()}
    for name, module in parts_of.items():
        module[name] = clock.timed(name, module[name])
    with clock.phase("create"):
        memory = Memory.fit(keys, values, sigma=width, nu=nu, subjects=subjects)
    for name, module in parts_of.items():
        module[name] = plain[name]
    # Ids are random and cost the same for every solver.
    groups = {name: list(getattr(memory.partition, name)) for name in ("margin", "bound", "reserve")}
    found: dict[str, Any] = {
        "case": case,
        "sigma": memory.sigma,
        "groups": {name: len(rows) for name, rows in groups.items()},
        "pivots": {},
    }
    print(f"{case}: {found['groups']}", clock.summary(), flush=True)
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.npz"
        memory.save(file)
        with clock.phase("reopen and search"):
            memory = Memory.load(file)
            memory.search(keys[0], k=10)
        with clock.phase("first edit after reopening"):
            memory.delete(memory.ids[int(groups["margin"][0])])
    ids = memory.ids
    chosen = {name: rng.permutation([row for row in rows[1:] if row >= 4 * number]) for name, rows in groups.items()}
    # An entry that moved to another group in between is still counted where it was drawn.
    for name, rows in chosen.items():
        for row in rows[:repeats].tolist():
            with clock.phase(f"delete {name}"):
                receipt = memory.delete(ids[row - 1] if row > groups["margin"][0] else ids[row])
            found["pivots"].setdefault(f"delete {name}", []).append(receipt.pivots)
    print(clock.summary(), flush=True)
    fresh = draw(kind, 4 * repeats + number, seed=1)
    for key in fresh[: 3 * repeats]:
        slack = float(memory.solution.slack(key[None, :])[0])
        with clock.phase("admit reserve" if slack > 0.0 else "admit"):
            receipt = memory.admit(key, key[:2])
        found["pivots"].setdefault("admit" if slack <= 0.0 else "admit reserve", []).append(receipt.pivots)
    for owner in ("s0", "s1"):
        with clock.phase(f"erase {number}"):
            receipt = memory.delete(subject=owner)
        found["pivots"].setdefault("erase", []).append(receipt.pivots)
    with clock.phase(f"admit {number} together"):
        receipt = memory.admit_many(fresh[-number:], fresh[-number:, :2])
    found["pivots"]["admit together"] = receipt.pivots
    found["pivots"] = {name: float(np.mean(counts)) for name, counts in found["pivots"].items()}
    with clock.phase("check from the keys"):
        found["worst"] = memory.check().worst
    found |= {"phases": clock.summary(), "gibibytes": peak()}
    return found


def warm_up(keys: Matrix) -> None:
    """Compile what the phases use."""
    from expunge import Memory
    from expunge.memory.snapshot import pack, unpack

    memory = Memory.fit(keys[:500], keys[:500, :2], sigma=1.0, nu=0.5)
    memory = unpack(pack(memory))
    memory.search(keys[0])
    partition = memory.partition
    for name in [memory.ids[rows[0]] for rows in (partition.margin, partition.bound, partition.reserve) if len(rows)]:
        memory.delete(name)
    for key in keys[500:520]:
        memory.admit(key, key[:2])
    memory.admit_many(keys[520:600], keys[520:600, :2])
    memory.delete(memory.ids[:40])


def reference(case: str) -> dict[str, Any]:
    """LIBSVM on the same keys."""
    from sklearn.svm import OneClassSVM

    kind, size, width, nu = parts(case)
    keys = draw(kind, size)
    if isinstance(width, str):
        from expunge.preprocessing.width import choose_width

        width = choose_width(keys, nu=nu)
    clock = Clock()
    with clock.phase("libsvm"):
        OneClassSVM(kernel="rbf", gamma=1.0 / width**2, nu=nu, tol=1e-8, cache_size=2000).fit(keys)
    return {"phases": clock.summary(), "gibibytes": peak()}


def peak() -> float:
    """Largest resident size of this process so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2.0**20, 2)


def parts(case: str) -> tuple[str, int, Any, float]:
    """Kind, size, width and ν of a case."""
    kind, size, width, nu = case.split(":")
    return kind, int(size), width if width == "auto" else float(width), float(nu)


def in_a_process(*words: str) -> dict[str, Any]:
    """Run this file with these words; its last line is the result."""
    with subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True) as child:  # noqa: S603 — this file
        assert child.stdout is not None
        line = ""
        for line in child.stdout:
            if not line.startswith("{"):
                print(line, end="", flush=True)
    assert child.returncode == 0
    found: dict[str, Any] = json.loads(line)
    return found


def main() -> None:
    """Measure every case and record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--case", action="append", help="kind:size:sigma:nu")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--alone", choices=("ours", "libsvm"), help="one process: used by the others")
    chosen = parser.parse_args()
    cases = chosen.case or CASES
    if chosen.alone:
        print(json.dumps(measure(cases[0], chosen.repeats) if chosen.alone == "ours" else reference(cases[0])))
        return
    found = []
    for case in cases:
        theirs = in_a_process("--alone", "libsvm", "--case", case)
        ours = in_a_process("--alone", "ours", "--case", case, "--repeats", str(chosen.repeats))
        took, baseline = ours["phases"], theirs["phases"]["libsvm"]
        ratios = {
            f"{name} over libsvm, {unit}": round(took[name][key] / baseline[key], 2)
            for name in ("fit", "create")
            for unit, key in (("clock", "p50"), ("processors", "cpu_p50"))
        }
        found.append({**ours, "libsvm": theirs, "ratios": ratios})
        print(f"{case}: sigma {ours['sigma']:.4g}, {ours['groups']}, {ours['gibibytes']} GiB, {ratios}")
        for name, numbers in {"libsvm": baseline, **took}.items():
            print(f"  {name:28} {numbers['p50']:9.3f} s  p95 {numbers['p95']:9.3f}  cpu {numbers['cpu_p50']:9.3f}")
    write_result(chosen.out, {"machine": describe(), "cases": found})


if __name__ == "__main__":
    main()
