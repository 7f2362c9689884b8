"""How everything grows with the number of entries and of coordinates: seconds, bytes, and exponents with intervals.

Keys are unit vectors in topics whose spectrum decays, like embeddings of sentences, at one width and one ν. Each size
is a process of its own. Seconds are those of the processor, because a machine may have other work; each is the median
of several. Bytes of a memory are what Python and NumPy have allocated for it; bytes of a store are those of its file
after a vacuum, before and after edits. An exponent is the slope of a straight line through the logarithms, with its
95 % interval.

    python benchmarks/growth.py                                   # six sizes, five dimensions
    python benchmarks/growth.py --sizes 500 1000 2000 --dimensions 16 64 --repeats 3 --out /tmp/growth.json
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import expunge
from expunge import Memory
from expunge.memory.snapshot import pack, unpack
from expunge.types import Matrix
from fleet import simulate
from record import describe, write_result

RESULTS = Path(__file__).parent / "results" / "growth.json"
PLOT = Path(__file__).parents[1] / "docs" / "results" / "growth.png"
SIZES, SIZE = (1000, 2000, 4000, 8000, 16_000, 32_000), 4000
DIMENSIONS, DIMENSION = (16, 64, 128, 256, 384), 64
SIGMA, NU, TOPICS, WIDTH = 1.0, 0.1, 50, 4
# Edits of a store, half of them admissions and half deletions.
EDITS = 60
QUANTITIES = {
    "create": "s",
    "delete with a weight": "s",
    "delete in reserve": "s",
    "admit with a weight": "s",
    "admit in reserve": "s",
    "reopen and search": "s",
    "search": "s",
    "memory": "bytes",
    "store": "bytes",
    "ledger per edit": "bytes",
    "durable edit": "s",
}


def draw(count: int, dimension: int, seed: int = 0) -> Matrix:
    """Unit vectors (count, dimension); the topics are the same for every seed."""
    scale = (1.0 + np.arange(dimension)) ** -0.35
    fixed, rng = np.random.default_rng(23), np.random.default_rng([24, seed])
    centres = fixed.standard_normal((TOPICS, dimension)) * scale
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    points = centres[rng.integers(TOPICS, size=count)]
    points += rng.standard_normal((count, dimension)) * scale / np.linalg.norm(scale)
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def predicted_bytes(entries: int, dimension: int, width: int, margin: int) -> dict[str, float]:
    """Bytes of a memory in a process that has edited it, by what they are of; distinct keys, no payloads.

    Keys are held twice, as a matrix and as the bytes by which an equal key is found. Of the margin there are a row per
    key, the factor twice (of the state and for the next edit) and its pairs of doubles in two matrices. All these have
    room for a quarter more in each direction that grows.
    """
    return {
        "keys and values": 8.0 * entries * (2 * dimension + width),
        "rows of the margin": 8.0 * 1.25 * margin * entries,
        "factor and pairs": 4 * 8.0 * (1.25 * margin) ** 2,
        # Sums, coefficients, slacks and numbers of sites; ids, salts, commitments and blinds, and Python's objects.
        "by entry": 550.0 * entries,
    }


def seconds(work: Callable[..., Any], *given: Any, **named: Any) -> float:
    """Processor seconds of a call."""
    started = time.process_time()
    work(*given, **named)
    return time.process_time() - started


def measure(entries: int, dimension: int, repeats: int) -> dict[str, Any]:
    """One size, in this process."""
    short = draw(300, dimension, seed=9)
    use(Memory.fit(short, short[:, :WIDTH], sigma=SIGMA, nu=0.3), draw(20, dimension, seed=8))
    keys = draw(entries, dimension)
    values = keys[:, :WIDTH].copy()
    found, data = in_memory(keys, values, repeats)
    found["memory"], margin = resident(data)
    found["predicted"] = predicted_bytes(entries, dimension, WIDTH, margin)
    return {"entries": entries, "dimension": dimension, **found, **in_a_store(keys, values)}


def in_memory(keys: Matrix, values: Matrix, repeats: int) -> tuple[dict[str, Any], bytes]:
    """Processor seconds of a memory in this process, and its file."""
    started = time.process_time()
    memory = Memory.fit(keys, values, sigma=SIGMA, nu=NU)
    found: dict[str, Any] = {"create": time.process_time() - started}
    groups, ids, data = memory.partition, memory.ids, pack(memory)
    found["groups"] = {name: len(getattr(groups, name)) for name in ("margin", "bound", "reserve")}
    rng = np.random.default_rng(5)
    found["reopen and search"] = seconds(lambda: unpack(data).search(keys[0], k=10))
    found["search"] = median([seconds(memory.search, point, k=10) for point in keys[:repeats]])
    weighing = rng.permutation(np.concatenate([groups.margin, groups.bound]))[:repeats]
    for name, rows in (("with a weight", weighing), ("in reserve", rng.permutation(groups.reserve)[:repeats])):
        found[f"delete {name}"] = median([seconds(memory.delete, ids[row]) for row in rows.tolist()])
    fresh = draw(20 * repeats, keys.shape[1], seed=1)
    slack = memory.solution.slack(fresh)
    # An entry with a slack below zero takes a weight, from the others.
    for name, rows in (("with a weight", np.argsort(slack)[:repeats]), ("in reserve", np.argsort(-slack)[:repeats])):
        found[f"admit {name}"] = median([seconds(memory.admit, fresh[row], fresh[row, :WIDTH]) for row in rows])
    return found, data


def use(memory: Memory, fresh: Matrix) -> None:
    """Load the compiled code that the phases call."""
    memory = unpack(pack(memory))
    memory.search(fresh[0])
    for point in fresh:
        memory.admit(point, point[:WIDTH])
        memory.delete(memory.ids[0])


def resident(data: bytes) -> tuple[float, int]:
    """Bytes allocated for a memory that was opened and edited, and its margin."""
    tracemalloc.start()
    try:
        memory = unpack(data)
        for row in (0, 1):
            memory.delete(memory.ids[int(memory.partition.margin[row])])
        gc.collect()
        return float(tracemalloc.get_traced_memory()[0]), len(memory.partition.margin)
    finally:
        tracemalloc.stop()


def in_a_store(keys: Matrix, values: Matrix) -> dict[str, float]:
    """Bytes of a SQLite store per entry and per edit, and processor seconds of a durable edit."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        file = Path(folder) / "growth.db"
        with expunge.open(f"sqlite:///{file}") as store:
            empty = file.stat().st_size
            stored = store.create("m", keys, values, sigma=SIGMA, nu=NU)
            store.vacuum()
            before, leaves = file.stat().st_size, store.size
            fresh = draw(EDITS, keys.shape[1], seed=2)
            took = []
            for number, point in enumerate(fresh[: EDITS // 2]):
                took.append(seconds(stored.admit, point, point[:WIDTH], id=f"new-{number}"))
                took.append(seconds(stored.delete, f"new-{number}"))
            store.vacuum()
            grown, edits = file.stat().st_size - before, store.size - leaves
    return {"store": before - empty, "ledger per edit": grown / edits, "durable edit": median(took)}


def median(numbers: Sequence[float]) -> float:
    return float(np.median(numbers))


def exponent(sizes: Sequence[float], numbers: Sequence[float]) -> dict[str, float]:
    """Slope of log numbers over log sizes, and its 95 % interval from the scatter about the line."""
    if np.ptp(numbers) == 0.0:
        return {"exponent": 0.0, "low": 0.0, "high": 0.0, "at_one": float(numbers[0])}
    line = stats.linregress(np.log(sizes), np.log(np.maximum(numbers, 1e-9)))
    reach = float(stats.t.ppf(0.975, len(sizes) - 2) * line.stderr)
    slope = float(line.slope)
    return {"exponent": slope, "low": slope - reach, "high": slope + reach, "at_one": float(np.exp(line.intercept))}


def in_a_process(entries: int, dimension: int, repeats: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--alone", f"{entries}:{dimension}", "--repeats", str(repeats)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 — this file
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def draw_plot(rows: Sequence[dict[str, Any]], dimension: int, path: Path) -> None:
    """Seconds and bytes over the number of entries, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    ladder = [row for row in rows if row["dimension"] == dimension]
    sizes = [row["entries"] for row in ladder]
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    for axis, unit, label in zip(axes, ("s", "bytes"), ("seconds of a processor", "bytes"), strict=True):
        for name in (name for name, of in QUANTITIES.items() if of == unit):
            axis.loglog(sizes, [row[name] for row in ladder], marker="o", markersize=3, label=name)
        axis.set_xlabel(f"entries, d = {dimension}")
        axis.set_ylabel(label)
        axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Measure the ladder, fit the exponents, simulate a fleet, and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--dimensions", nargs="+", type=int, default=list(DIMENSIONS))
    parser.add_argument("--size", type=int, default=SIZE, help="entries at which the dimension varies")
    parser.add_argument("--dimension", type=int, default=DIMENSION, help="coordinates at which the entries vary")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--plot", type=Path, help="else docs/results/growth.png, where --out is left alone")
    parser.add_argument("--alone", help="one size, entries:dimension; used by the others")
    chosen = parser.parse_args()
    if chosen.alone:
        entries, dimension = map(int, chosen.alone.split(":"))
        print(json.dumps(measure(entries, dimension, chosen.repeats)))
        return
    if min(len(chosen.sizes), len(chosen.dimensions)) < 3:
        parser.error("a line has an interval from three points on: give three sizes and three dimensions")
    cases = {(entries, chosen.dimension) for entries in chosen.sizes}
    cases |= {(chosen.size, dimension) for dimension in chosen.dimensions}
    rows = []
    for entries, dimension in sorted(cases):
        row = in_a_process(entries, dimension, chosen.repeats)
        rows.append(row)
        print(f"n = {entries:,}, d = {dimension}: {row['groups']}", flush=True)
        for name, unit in QUANTITIES.items():
            print(f"  {name:22} {row[name]:14.6g} {unit}", flush=True)
        print(f"  {'memory, predicted':22} {sum(row['predicted'].values()):14.6g} bytes", flush=True)
    ladders = {
        "entries": [row for row in rows if row["dimension"] == chosen.dimension],
        "dimension": [row for row in rows if row["entries"] == chosen.size],
    }
    exponents = {
        over: {name: exponent([row[over] for row in ladder], [row[name] for row in ladder]) for name in QUANTITIES}
        for over, ladder in ladders.items()
    }
    for over, found in exponents.items():
        for name, fitted in found.items():
            print(f"{over:10} {name:22} {fitted['exponent']:6.2f} [{fitted['low']:.2f}, {fitted['high']:.2f}]")
    content = {
        "machine": describe(),
        "setting": {"sigma": SIGMA, "nu": NU, "width": WIDTH, "size": chosen.size, "dimension": chosen.dimension},
        "rows": rows,
        "exponents": exponents,
        "fleet": simulate(rows, exponents["entries"], chosen.dimension),
    }
    if chosen.plot or chosen.out == RESULTS:
        draw_plot(rows, chosen.dimension, chosen.plot or PLOT)
    write_result(chosen.out, content)


if __name__ == "__main__":
    main()
