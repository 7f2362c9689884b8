"""Edits beside the refit that a user could call instead: ratios measured in one run (data of the latency audit).

X = 1.5·N(0, 1), d = 6, ν = 0.4, σ = 2, seed n·100000 + trial; garbage collection off; the two sides take turns in
going first. A deletion is the whole call: copy, path, independent check, digest, receipt. Each memory gives one
deletion right after its fit, five between other work ("a lone one") and fifteen in a row, as a backlog of requests
would be. They are reported apart, because caches matter at these times. The peer is LIBSVM from the keys
(`OneClassSVM`, RBF, tol 1e−8) on the remaining keys. `make bench` prints the table, writes
benchmarks/results/edits.json and draws benchmarks/results/edits.png. With `--beside SRC`, the sources of an older
version (`git worktree add ../before COMMIT` and `make bench BESIDE=../before/src`), every size is measured with both,
one after the other, and the results keep both columns.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.svm import OneClassSVM

from expunge import Memory
from expunge.errors import SolveError
from expunge.problem.check import check_terms, stationarity_terms
from expunge.solver.backends import minimax_offset, solve_reference
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
SOURCES = Path(__file__).parent.parent / "src"
NU, SIGMA, DIMENSION = 0.4, 2.0, 6
SIZES = {120: 30, 256: 30, 512: 30, 1024: 20, 2048: 20, 4096: 10, 8192: 10}
# Deletions timed on each memory: one right after its fit, STEADY between other work, then STREAM in a row.
STEADY, STREAM = 5, 15
# Queries that are read together.
READS = (1, 16, 256)
# Dense interior-point and active-set solves grow as n³; beyond these sizes one takes minutes.
LARGEST = {"daqp": 512, "piqp": 2048, "clarabel": 512}


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = act()
    return time.perf_counter() - start, result


def libsvm(keys: np.ndarray[Any, Any], cap: float) -> OneClassSVM:
    nu = 1.0 / (cap * keys.shape[0])
    return OneClassSVM(kernel="rbf", gamma=1.0 / SIGMA**2, nu=nu, tol=1e-8).fit(keys)


def libsvm_residual(model: OneClassSVM, memory: Memory) -> float:
    """Stationarity of LIBSVM's coefficients at their own best offset, in our units."""
    coefficients = np.zeros(len(memory))
    coefficients[model.support_] = model.dual_coef_.ravel() * memory.cap
    terms = stationarity_terms(memory.keys, coefficients, SIGMA)
    offset = minimax_offset(terms, coefficients, memory.cap)
    return check_terms(coefficients, terms, offset, cap=memory.cap).worst


def one_size(size: int, trials: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    ours_residual, peer_residual = 0.0, []

    def note(name: str, seconds: float) -> None:
        times.setdefault(name, []).append(seconds)

    for trial in range(trials + 1):  # the first is a warm-up
        rng = np.random.default_rng(size * 100_000 + trial)
        keys = 1.5 * rng.standard_normal((size, DIMENSION))
        values = np.zeros((size, 1))
        sides: list[tuple[str, Callable[[], Any]]] = [
            ("fit", partial(Memory.fit, keys, values, sigma=SIGMA, nu=NU)),
            ("libsvm fit", partial(libsvm, keys, 1.0 / (NU * size))),
        ]
        results = {}
        for name, act in sides if trial % 2 else sides[::-1]:
            seconds, results[name] = timed(act)
            if trial:
                note(name, seconds)
        memory: Memory = results["fit"]
        ours_residual = max(ours_residual, memory.check().worst)
        peer_residual.append(libsvm_residual(results["libsvm fit"], memory))
        for kind in ("active", "reserve"):
            for turn in range(1 + STEADY):
                rows = np.flatnonzero((memory.coefficients > 0.0) == (kind == "active"))
                row = int(rng.choice(rows))
                rest = np.delete(memory.keys, row, axis=0)
                ours = f"{'first' if turn == 0 else 'lone'} {kind}"
                sides = [
                    (ours, partial(memory.delete, memory.ids[row])),
                    (f"libsvm {kind}", partial(libsvm, rest, memory.cap)),
                ]
                if turn > 1:
                    # The refit hardly changes with one key more or less: once cold, once warm is enough.
                    sides = sides[:1]
                for name, act in sides if trial % 2 else sides[::-1]:
                    seconds, result = timed(act)
                    if trial and not (name.startswith("libsvm") and turn == 0):
                        note(name, seconds)
                    if name == ours and result.outcome not in ("decrement", "certified_zero"):
                        raise SystemExit(f"n={size}: {result.outcome}; no speed is reported on a failure")
            ours_residual = max(ours_residual, memory.check().worst)
        for kind, outcome in (("active", "decrement"), ("reserve", "certified_zero")):
            rows = np.flatnonzero((memory.coefficients > 0.0) == (kind == "active"))
            for name in [memory.ids[row] for row in rng.permutation(rows)[: min(STREAM, rows.size // 2)]]:
                seconds, result = timed(partial(memory.delete, name))
                # A neighbour's deletion can move an entry to the other kind.
                if trial and result.outcome == outcome:
                    note(f"delete {kind}", seconds)
        for count in READS:
            queries = 1.5 * rng.standard_normal((count, DIMENSION))
            for turn in range(1 + STEADY):
                seconds, _ = timed(partial(memory.read, queries))
                if trial and turn:
                    note(f"read {count}", seconds)
        for _ in range(1 + STEADY):
            inside = memory.keys[rng.choice(len(memory), 8)].mean(axis=0)
            while memory.solution.slack(inside[None])[0] < 0.0:
                inside = inside + 0.1 * rng.standard_normal(DIMENSION)
            seconds, result = timed(partial(memory.admit, inside, np.zeros(1)))
            if result.attempts[-1].path != "reserve":
                raise SystemExit(f"n={size}: an interior key became active")
            if trial:
                note("admit reserve", seconds)
    for backend, largest in LARGEST.items():
        if size <= largest:
            for trial in range(3):
                keys = 1.5 * np.random.default_rng(size * 100_000 + trial).standard_normal((size, DIMENSION))
                try:
                    answer = solve_reference(keys, cap=1.0 / (NU * size), sigma=SIGMA, backend=backend)
                    note(backend, answer.seconds)
                except SolveError:
                    note(f"{backend} failed", 1.0)
    return {
        "n": size,
        "trials": trials,
        "margin": int(memory.partition.margin.size),
        "bound": int(memory.partition.bound.size),
        "median_ms": {name: 1e3 * median(values) for name, values in times.items()},
        "spread_ms": {
            name: [1e3 * float(q) for q in np.percentile(values, [10, 90])] for name, values in times.items()
        },
        "median_ratio": {
            name: median(times[peer]) / median(times[name])
            for name, peer in (
                ("delete active", "libsvm active"),
                ("lone active", "libsvm active"),
                ("first active", "libsvm active"),
                ("delete reserve", "libsvm reserve"),
                ("admit reserve", "libsvm reserve"),
                ("fit", "libsvm fit"),
            )
        },
        "worst_residual": ours_residual,
        "libsvm_residual": median(peer_residual),
    }


def exponent(rows: list[dict[str, Any]], name: str) -> float:
    sizes = np.log([row["n"] for row in rows if row["n"] >= 512])
    times = np.log([row["median_ms"][name] for row in rows if row["n"] >= 512])
    return float(np.polyfit(sizes, times, 1)[0]) if sizes.size > 1 else float("nan")


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.2, 4.2), layout="constrained")
    series = {
        "libsvm active": ("LIBSVM refit from the keys", "#8c8c8c", "s", "--"),
        "fit": ("cold fit", "#c46a1b", "^", "-"),
        "delete active": ("delete an active entry, checked", "#1b5e9c", "o", "-"),
        "delete reserve": ("delete a reserve entry, checked", "#4d9de0", "o", ":"),
        "admit reserve": ("admit an entry that stays reserve", "#3a8f5c", "v", "-"),
    }
    for name, (label, colour, marker, line) in series.items():
        sizes = [row["n"] for row in rows]
        times = [row["median_ms"][name] for row in rows]
        slope = exponent(rows, name)
        text = f"{label}  (n^{slope:.2f})" if np.isfinite(slope) else label
        axes.loglog(sizes, times, line, marker=marker, color=colour, label=text, markersize=4)
    axes.set_xlabel("entries n")
    axes.set_ylabel("median time, ms")
    axes.set_xticks([row["n"] for row in rows], [str(row["n"]) for row in rows])
    axes.minorticks_off()
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160)


def one_size_beside(size: int, trials: int, sources: Path) -> dict[str, Any]:
    """`one_size` by the package in another folder of sources, in a process of its own."""
    command = [sys.executable, __file__, "--one-size", str(size), "--trials", str(trials)]
    done = subprocess.run(  # noqa: S603 — this very script
        command, env={**os.environ, "PYTHONPATH": str(sources)}, stdout=subprocess.PIPE, check=True, text=True
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def print_beside(row: dict[str, Any], before: dict[str, Any]) -> None:
    """The time now over the time of the older version, by kind of edit."""
    edits = ("delete active", "lone active", "first active", "delete reserve", "admit reserve", "fit")
    names = [*edits, *(f"read {count}" for count in READS)]
    ratios = (f"{name} {row['median_ms'][name] / before['median_ms'][name]:.2f}" for name in names)
    print("      now / before: " + ", ".join(ratios), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes and few trials")
    parser.add_argument(
        "--beside", type=Path, metavar="SRC", help="sources of an older version, to be measured as well"
    )
    parser.add_argument("--one-size", type=int, metavar="N", help="print one size as JSON, and nothing else")
    parser.add_argument("--trials", type=int, default=5, help="memories, with --one-size")
    parser.add_argument("--out", type=Path, default=RESULTS / "edits.json")
    chosen = parser.parse_args()
    gc.disable()
    if chosen.one_size is not None:
        print(json.dumps(one_size(chosen.one_size, chosen.trials)))
        return
    sizes = {120: 5, 512: 5} if chosen.quick else SIZES
    rows, older = [], []
    print(
        "median times in ms; in brackets, how many times faster than LIBSVM from the keys at tol 1e-8 in the same run"
    )
    print(
        f"{'n':>5} {'margin':>6} {'delete active':>16} {'a lone one':>16} {'first after fit':>16} "
        f"{'delete reserve':>16} {'admit reserve':>16} {'cold fit':>16} {'LIBSVM':>8}   residual: ours, LIBSVM"
    )
    for size, trials in sizes.items():
        # In a process of its own like the older version, so that both begin alike.
        row = one_size(size, trials) if chosen.beside is None else one_size_beside(size, trials, SOURCES)
        rows.append(row)
        ms, ratio = row["median_ms"], row["median_ratio"]
        cells = " ".join(
            f"{ms[name]:>8.3f} {f'({ratio[name]:.{1 if ratio[name] < 10 else 0}f}x)':>7}"
            for name in ("delete active", "lone active", "first active", "delete reserve", "admit reserve", "fit")
        )
        print(
            f"{size:>5} {row['margin']:>6} {cells} {ms['libsvm active']:>8.1f}   "
            f"{row['worst_residual']:.1e}, {row['libsvm_residual']:.1e}",
            flush=True,
        )
        if chosen.beside is not None:
            older.append(one_size_beside(size, trials, chosen.beside))
            print_beside(row, older[-1])
        for backend in LARGEST:
            if backend in ms:
                times_slower = ms[backend] / ms["delete active"]
                print(f"      {backend} cold solve {ms[backend]:.1f} ms: {times_slower:.0f}x a deletion")
    grown = {name: exponent(rows, name) for name in ("delete active", "fit", "libsvm active", "admit reserve")}
    print("fitted exponent of n, from 512 up: " + ", ".join(f"{name} {slope:.2f}" for name, slope in grown.items()))
    write_result(chosen.out, {"machine": describe(), "exponents": grown, "rows": rows, "before": older})
    draw(rows, chosen.out.with_suffix(".png"))
    print(f"wrote {chosen.out} and {chosen.out.with_suffix('.png').name}")


if __name__ == "__main__":
    main()
