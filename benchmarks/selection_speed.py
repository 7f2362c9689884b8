"""Selecting at every step of a stream: a maintained support set beside a fresh LIBSVM fit a step.

A window of n keys slides over a stream (X = 1.5·N(0, 1), d = 6, ν = 0.4, σ = 2, as in the latency audit): at every step
one key arrives, the oldest goes, and the support set is wanted. Ours is `SupportStream`: two checked edits. The peer
fits `OneClassSVM` (RBF, tol 1e-8) to the window; LIBSVM's default tolerance of 1e-3, which a user in a hurry might
choose, is timed beside it, and how many of its choices differ is said. The two alternate in going first, garbage
collection is off, and no speed is reported if the sets at tol 1e-8 differ. Times of the other policies are of one
selection from scratch at n = 8,192, keeping a quarter.

    python benchmarks/selection_speed.py            # benchmarks/results/selection-speed.json
    python benchmarks/selection_speed.py --quick
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.svm import OneClassSVM

from expunge.selection import POLICIES, Context, SupportStream
from expunge.selection.policies import selected
from expunge.types import Matrix
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
NU, SIGMA, DIMENSION, SEED = 0.4, 2.0, 6, 0
SIZES = {512: 60, 2048: 40, 8192: 30}
QUICK = {256: 10, 512: 10}
SHARE = 0.25


def libsvm(keys: Matrix, first: int, tolerance: float) -> frozenset[int]:
    model = OneClassSVM(kernel="rbf", gamma=1.0 / SIGMA**2, nu=NU, tol=tolerance, cache_size=500).fit(keys)
    return frozenset((model.support_ + first).tolist())


def stream(size: int, steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(SEED + size)
    keys = 1.5 * rng.standard_normal((size + steps + 1, DIMENSION))
    maintained = SupportStream(keys[:size], sigma=SIGMA, nu=NU)
    maintained.step(keys[size])  # compiles what is compiled on first use
    times: dict[str, list[float]] = {"ours": [], "libsvm": [], "libsvm default": []}
    differing = default_differing = 0
    for step in range(1, steps + 1):
        window = keys[step + 1 : size + step + 1]
        results: dict[str, frozenset[int]] = {}
        order = ["ours", "libsvm", "libsvm default"]
        for name in order if step % 2 else order[::-1]:
            started = time.perf_counter()
            if name == "ours":
                results[name] = frozenset(maintained.step(keys[size + step]))
            else:
                results[name] = libsvm(window, step + 1, 1e-8 if name == "libsvm" else 1e-3)
            times[name].append(time.perf_counter() - started)
        differing += len(results["ours"] ^ results["libsvm"])
        default_differing += len(results["ours"] ^ results["libsvm default"])
    if differing:
        raise SystemExit(f"n={size}: {differing} choices differ from LIBSVM's; no speed is reported on a difference")
    return {
        "n": size,
        "steps": steps,
        "selected": len(maintained.selected),
        "residual": maintained.memory.check().worst,
        "median_ms": {name: 1e3 * median(found) for name, found in times.items()},
        "spread_ms": {name: [1e3 * float(q) for q in np.percentile(found, [10, 90])] for name, found in times.items()},
        "ratio": median(times["libsvm"]) / median(times["ours"]),
        "ratio_default": median(times["libsvm default"]) / median(times["ours"]),
        "differing_default": default_differing,
    }


def once(size: int) -> dict[str, float]:
    """Milliseconds of one selection from scratch, by policy."""
    context = Context.of(1.5 * np.random.default_rng(SEED).standard_normal((size, DIMENSION)), sigma=SIGMA)
    small = Context(context.keys[:200], SIGMA)
    found = {}
    for name, policy in POLICIES.items():
        selected(policy, small, 50, np.random.RandomState(0))
        started = time.perf_counter()
        selected(policy, context, int(SHARE * size), np.random.RandomState(0))
        found[name] = 1e3 * (time.perf_counter() - started)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes and few steps")
    parser.add_argument("--out", type=Path, default=RESULTS / "selection-speed.json")
    chosen = parser.parse_args()
    gc.disable()
    rows = []
    print(
        f"{'n':>5} {'ours, ms':>9} {'LIBSVM':>9} {'ratio':>6} {'tol 1e-3':>9} {'ratio':>6} {'differing':>9}  residual"
    )
    for size, steps in (QUICK if chosen.quick else SIZES).items():
        row = stream(size, steps)
        rows.append(row)
        ms = row["median_ms"]
        print(
            f"{size:>5} {ms['ours']:>9.2f} {ms['libsvm']:>9.1f} {row['ratio']:>5.0f}x {ms['libsvm default']:>9.1f} "
            f"{row['ratio_default']:>5.0f}x {row['differing_default']:>9}  {row['residual']:.1e}",
            flush=True,
        )
    size = max(QUICK if chosen.quick else SIZES)
    policies = once(size)
    print(f"one selection from scratch at n = {size}, ms: " + ", ".join(f"{k} {v:.0f}" for k, v in policies.items()))
    content = {
        "command": "python benchmarks/selection_speed.py",
        "machine": describe(),
        "rows": rows,
        "once_ms": policies,
    }
    write_result(chosen.out, content)
    print(f"wrote {chosen.out}")


if __name__ == "__main__":
    main()
