"""The sequential audit (paper, Table 6; docs/results/protocols.md): how reliable a memory is under a long run of edits.

Gaussian and near-duplicate keys × n₀ ∈ {64, 128} × d ∈ {6, 64} × seeds, 32 cycles of delete and admit each:
5,120 operations for ten seeds. After every operation the state is checked from the keys, and read out at every
probe beside a polished reference from a solver that did not produce it. Prints a table and writes
benchmarks/results/sequential.json, one entry per range of seeds; ranges measured before are kept.

    python benchmarks/sequential.py --seeds 41000:41010
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expunge import Memory, Refused
from expunge.audit.comparison import StateArrays, compare
from expunge.audit.experiments.trajectories import DIMENSIONS, REGIMES, SIZES, Operation, draw_trajectory
from expunge.solver.backends import polish, solve_reference
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
# The paper's guarded solver, Table 6.
PAPER = {"operations": 5120, "rescued": 84, "refused": 0, "worst_residual": 8.61e-6, "worst_readout": 5.273e-3}


@dataclass
class Tally:
    """What was seen on some trajectories."""

    trajectories: int = 0
    operations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    worst_residual: float = 0.0
    worst_reference_residual: float = 0.0
    worst_readout: float = 0.0
    worst_score: float = 0.0
    pivots: int = 0
    edit_seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Merge what was seen elsewhere."""
        for name in ("trajectories", "operations", "pivots", "edit_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("worst_residual", "worst_reference_residual", "worst_readout", "worst_score"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.outcomes.update(other.outcomes)
        self.paths.update(other.paths)

    def report(self) -> dict[str, Any]:
        """Plain numbers, for the table and the file."""
        return {
            "trajectories": self.trajectories,
            "operations": self.operations,
            "rescued": self.outcomes["rescued"],
            "refused": self.outcomes["refused"],
            "outcomes": dict(sorted(self.outcomes.items())),
            "attempts": dict(sorted(self.paths.items())),
            "worst_residual": self.worst_residual,
            "worst_reference_residual": self.worst_reference_residual,
            "worst_readout": self.worst_readout,
            "worst_score": self.worst_score,
            "pivots_per_operation": self.pivots / max(1, self.operations),
            "milliseconds_per_operation": 1e3 * self.edit_seconds / max(1, self.operations),
        }


def judge(memory: Memory, operation: Operation, backend: str, tally: Tally) -> None:
    """Set the state beside a polished reference, at every probe."""
    raw = solve_reference(operation.keys, cap=memory.cap, sigma=memory.sigma, backend=backend)
    reference = polish(raw, operation.keys, cap=memory.cap, sigma=memory.sigma)
    ours, theirs = (
        StateArrays(operation.keys, state.coefficients, state.offset, memory.cap, memory.sigma, operation.values)
        for state in (memory, reference)
    )
    measured = compare(ours, theirs, operation.probes)
    tally.worst_reference_residual = max(tally.worst_reference_residual, reference.worst)
    tally.worst_readout = max(tally.worst_readout, 0.01 * (measured.value_percent or 0.0))
    tally.worst_score = max(tally.worst_score, measured.score_difference)


def run_trajectory(regime: Any, size: int, dimension: int, seed: int, backend: str) -> Tally:
    trajectory = draw_trajectory(regime, size, dimension, seed)
    tally = Tally(trajectories=1)
    memory = Memory.fit(
        trajectory.keys, trajectory.values, sigma=trajectory.sigma, cap=trajectory.cap, ids=trajectory.names
    )
    for operation in trajectory.operations():
        started = time.perf_counter()
        try:
            if operation.kind == "delete":
                receipt = memory.delete(operation.name)
            else:
                receipt = memory.admit(operation.key, operation.value, id=operation.name)
        except Refused:
            break
        tally.edit_seconds += time.perf_counter() - started
        tally.operations += 1
        tally.pivots += receipt.pivots
        tally.paths.update(attempt.path for attempt in receipt.attempts)
        tally.worst_residual = max(tally.worst_residual, memory.version.solution.check().worst)
        if memory.ids != operation.names:
            raise SystemExit(f"{trajectory.label}: the memory holds other entries than the schedule")
        judge(memory, operation, backend, tally)
    tally.outcomes.update(memory.outcomes)
    return tally


def line(label: str, row: dict[str, Any]) -> str:
    return (
        f"{label:<28} {row['operations']:>6} {row['rescued']:>8} {row['refused']:>8} "
        f"{row['worst_residual']:>10.1e} {row['worst_readout']:>10.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="41000:41010", help="first:last, the last one left out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--backend", default="daqp", help="the reference that judges")
    parser.add_argument("--out", type=Path, default=RESULTS / "sequential.json")
    chosen = parser.parse_args()
    first, last = map(int, chosen.seeds.split(":"))
    conditions = [(regime, size, dimension) for regime in REGIMES for size in SIZES for dimension in DIMENSIONS]
    total, rows = Tally(), {}
    print(f"{'':<28} {'edits':>6} {'rescues':>8} {'refusals':>8} {'residual':>10} {'readout':>10}")
    started = time.perf_counter()
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for regime, size, dimension in conditions:
            seeds = range(first, last)
            count = len(seeds)
            parts = pool.map(
                run_trajectory, [regime] * count, [size] * count, [dimension] * count, seeds, [chosen.backend] * count
            )
            here = Tally()
            for part in parts:
                here.add(part)
            total.add(here)
            label = f"{regime} n={size} d={dimension}"
            rows[label] = here.report()
            print(line(label, rows[label]), flush=True)
    summary = total.report()
    print(line(f"seeds {chosen.seeds}", summary))
    print(line("the paper, guarded", PAPER))
    print(f"reference: polished {chosen.backend}, residual {summary['worst_reference_residual']:.1e}")
    report = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    name = f"{chosen.seeds}/{chosen.backend}"
    report[name] = {
        "machine": describe(),
        "seconds": time.perf_counter() - started,
        "total": summary,
        "conditions": rows,
    }
    write_result(chosen.out, report, measured={name: report[name]})
    print(f"wrote {chosen.out}")


if __name__ == "__main__":
    main()
