"""Long runs of edits: nothing may drift, leak or need rescuing.

Three soaks of 10,000 edits on a memory of 32 to 128 entries, and a stream of 100,000 keys admitted one by one
(d = 64, C = 1/1000, which is ν = 0.01 at the end) in bounded memory:

- near-duplicate: copies of 8 centres with noise 1e-2 … 1e-12, exact copies among them;
- lattice: integer points of a small cube, so that every event is a tie and most keys are copies;
- widths: σ from 1e-3 to 1e6 of the data's scale, 1,000 edits each.

Every state is checked from its keys; every hundredth is set beside a fresh fit. `make soak` prints the table and
writes benchmarks/results/soak.json; results of runs that were not repeated are kept.

    python benchmarks/soak.py --only near-duplicate lattice widths stream
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from expunge import Memory, Refused
from expunge.memory.receipt import Receipt
from expunge.types import Vector
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
FEWEST, MOST = 32, 128
NU = 0.4
GIB = 2**30

Draw = Callable[[np.random.Generator], Vector]


@dataclass
class Tally:
    """What a run has shown so far."""

    edits: int = 0
    paths: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    worst_check: float = 0.0
    worst_score: float | None = None  # None where no state was set beside a refit
    seconds: float = 0.0

    def report(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "edits": self.edits,
            "rescued": self.outcomes["rescued"],
            "refused": self.outcomes["refused"],
            "outcomes": dict(sorted(self.outcomes.items())),
            "attempts": dict(sorted(self.paths.items())),
            "worst_check": self.worst_check,
            "worst_score_difference_from_refit": self.worst_score,
            "seconds_in_edits": self.seconds,
            "peak_rss_gib": peak_rss() / GIB,
        }


def peak_rss() -> int:
    """Largest resident size so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def near_duplicate(dimension: int, centres: int, rng: np.random.Generator) -> Draw:
    middle = 2.0 * rng.standard_normal((centres, dimension))

    def draw(rng: np.random.Generator) -> Vector:
        noise = 0.0 if rng.random() < 0.1 else 10.0 ** -float(rng.integers(2, 13))
        return np.asarray(middle[rng.integers(centres)] + noise * rng.standard_normal(dimension))

    return draw


def lattice(rng: np.random.Generator) -> Vector:
    return rng.integers(0, 4, 3).astype(np.float64)


def gaussian(rng: np.random.Generator) -> Vector:
    return rng.standard_normal(3)


def soak(name: str, draw: Draw, sigma: float, edits: int, seed: int, tally: Tally) -> None:
    """Edit at random: mostly one at a time, sometimes several at once, sometimes what was just deleted again."""
    rng = np.random.default_rng(seed)
    start = [draw(rng) for _ in range(64)]
    memory = Memory.fit(start, np.array(start), sigma=sigma, cap=1.0 / (NU * 64))
    gone: list[Vector] = []
    for step in range(edits):
        size = len(memory)
        admit = size <= FEWEST or (size < MOST and rng.random() < 0.6)
        started = time.perf_counter()
        try:
            if admit:
                key = gone.pop() if gone and rng.random() < 0.2 else draw(rng)
                receipt = memory.admit(key, key)
            else:
                count = min(int(rng.integers(1, 6)) if rng.random() < 0.2 else 1, memory.deletable)
                rows = rng.choice(size, count, replace=False)
                gone = [memory.keys[row].copy() for row in rows]
                receipt = memory.delete([memory.ids[row] for row in rows])
        except Refused as refused:
            receipt = cast(Receipt, refused.receipt)
        tally.seconds += time.perf_counter() - started
        tally.edits += 1
        tally.paths.update(attempt.path for attempt in receipt.attempts)
        tally.worst_check = max(tally.worst_check, memory.version.solution.check().worst)
        if step % 100 == 99:
            fresh = memory.refit()
            difference = np.max(np.abs(fresh.score(memory.keys) - memory.score(memory.keys)))
            tally.worst_score = max(tally.worst_score or 0.0, float(difference))
        if step % 1000 == 999:
            progress(name, step + 1, edits, memory, tally)
    tally.outcomes.update(memory.outcomes)


def progress(name: str, done: int, total: int, memory: Memory, tally: Tally) -> None:
    groups = memory.partition
    print(
        f"  {name}: {done:>6}/{total}, {tally.seconds:7.1f} s in edits, {groups.margin.size} margin, "
        f"{groups.bound.size} bound, {groups.reserve.size} reserve, worst check {tally.worst_check:.1e}, "
        f"peak {peak_rss() / GIB:.2f} GiB",
        flush=True,
    )


def stream(total: int, start: int, limit: float, tally: Tally) -> None:
    """Admit Gaussian keys one by one, d = 64, σ = 2√(d/6), C = 1/1000."""
    rng = np.random.default_rng(64)
    keys = rng.standard_normal((start, 64))
    memory = Memory.fit(keys, np.zeros(start), sigma=2.0 * np.sqrt(64 / 6), cap=1.0 / 1000)
    began = time.perf_counter()
    for done in range(start + 1, total + 1):
        key = rng.standard_normal(64)
        started = time.perf_counter()
        receipt = memory.admit(key, 0.0)
        tally.seconds += time.perf_counter() - started
        tally.edits += 1
        tally.paths.update(attempt.path for attempt in receipt.attempts)
        tally.worst_check = max(tally.worst_check, receipt.check.worst)
        if done % 5000 == 0:
            # From the keys themselves; the receipts' checks use the kernel rows that the memory keeps.
            tally.worst_check = max(tally.worst_check, memory.version.solution.check().worst)
            progress("stream", done, total, memory, tally)
        if time.perf_counter() - began > limit:
            print(f"  stream: out of time at {done} keys")
            break
    tally.outcomes.update(memory.outcomes)


def run(name: str, edits: int, keys: int, limit: float) -> Tally:
    tally = Tally()
    if name == "near-duplicate":
        soak(name, near_duplicate(6, 8, np.random.default_rng(1)), 2.0, edits, 2, tally)
    elif name == "lattice":
        soak(name, lattice, 1.5, edits, 3, tally)
    elif name == "widths":
        for exponent in range(-3, 7):
            soak(f"width 1e{exponent:+d}", gaussian, 10.0**exponent, edits // 10, 100 + exponent, tally)
    else:
        stream(keys, 1100, limit, tally)
    return tally


def main() -> None:
    names = ["near-duplicate", "lattice", "widths", "stream"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--edits", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=100_000, help="length of the stream")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds after which the stream stops")
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json")
    chosen = parser.parse_args()
    report = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    failed = False
    for name in chosen.only:
        row = run(name, chosen.edits, chosen.keys, chosen.limit).report()
        report[name] = {"machine": describe(), **row}
        failed |= row["worst_check"] > 1e-9 or row["rescued"] + row["refused"] > 0
        score = row["worst_score_difference_from_refit"]
        compared = "not compared with a refit" if score is None else f"worst score difference from a refit {score:.1e}"
        print(
            f"{name:<15} {row['edits']:>7} edits, {row['rescued']} rescues, {row['refused']} refusals, "
            f"worst check {row['worst_check']:.1e}, {compared}, {row['seconds_in_edits']:.0f} s in edits, "
            f"peak {row['peak_rss_gib']:.2f} GiB, attempts {row['attempts']}",
            flush=True,
        )
        write_result(chosen.out, report, measured={name: row})
    print(f"wrote {chosen.out}")
    if failed:
        raise SystemExit("a soak needed rescuing, or left a state that fails the check at 1e-9")


if __name__ == "__main__":
    main()
