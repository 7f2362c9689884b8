"""What a newcomer waits for: create, show, read, search and erase on the command line, at 10,000 and 100,000 entries.

Each command is a process of its own, with a durable store in SQLite and signed receipts. Seconds are those of the wall
clock from the start of the process to its end, loading the program included; memory is the largest resident size. The
machine may have other work, so the load average is recorded before each command, and the processor time beside the
seconds. Keys are rounded measurements in six coordinates, one cloud or twenty clusters, standardized; σ = 2 and
ν = 0.1. Machine code is compiled before, by a small memory; how long that takes is the first number.

A CSV file of the larger size is created with no option but its name, as a newcomer would. Where a command takes longer,
or more memory, than the documents promise, the exit status is 1.

    python benchmarks/first_minutes.py                 # all sizes
    python benchmarks/first_minutes.py --sizes 10000
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from expunge.types import Matrix
from record import describe, write_result

RESULTS = Path(__file__).parent / "results" / "first_minutes.json"
DIMENSION, SIGMA, NU = 6, 2.0, 0.1
SIZES = (10_000, 100_000)
# Columns of the CSV file: name, centre, scale and decimals of a measurement.
SIGNS = (
    ("hr", 84, 16, 0),
    ("sbp", 120, 18, 0),
    ("dbp", 64, 12, 0),
    ("rr", 19, 5, 0),
    ("spo2", 97, 2, 1),
    ("temp", 37, 0.6, 1),
)
# What the documents promise at 100,000 entries on two cores with nothing else to do.
MOST = {"create": (60.0, 2000.0), "show": (3.0, 500.0), "read": (3.0, 500.0)}


def table(size: int, kind: str) -> Matrix:
    """Six coordinates of a key and one of a value, (size, 7)."""
    rng = np.random.default_rng(21)
    keys = rng.standard_normal((size, DIMENSION))
    if kind == "clusters":
        keys = 3.0 * rng.standard_normal((20, DIMENSION))[rng.integers(0, 20, size)] + 0.5 * keys
        keys = (keys - keys.mean(axis=0)) / keys.std(axis=0)
    return np.column_stack([np.round(keys, 3), rng.standard_normal(size)])


def written(path: Path, size: int) -> None:
    """A CSV file of vital signs by patient: as many rows, six measurements, empty cells among them."""
    rng = np.random.default_rng(22)
    keys = table(size, "clusters")[:, :DIMENSION]
    columns = [
        np.char.mod(f"%.{decimals}f", centre + scale * column)
        for (_, centre, scale, decimals), column in zip(SIGNS, keys.T, strict=True)
    ]
    columns[-1][rng.random(size) < 0.1] = ""
    patients = np.char.mod("p%d", rng.integers(0, size // 50, size))
    lines = map(",".join, zip(patients.tolist(), *(column.tolist() for column in columns), strict=True))
    path.write_text("\n".join([",".join(["patient", *(name for name, *_ in SIGNS)]), *lines, ""]))


def measured(folder: Path, *words: str, environment: dict[str, str] | None = None) -> dict[str, float]:
    """Seconds, processor seconds and megabytes of one command; it must succeed."""
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "expunge", "--store", f"sqlite:///{folder / 'store.db'}", *words, "--json"]
    started = time.perf_counter()
    with (folder / "output.txt").open("w") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, env=environment)  # noqa: S603 — this package
        _, status, used = os.wait4(child.pid, 0)
    elapsed = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, (folder / "output.txt").read_text()[-2000:]
    return {
        "seconds": round(elapsed, 2),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 2),
        "megabytes": round(used.ru_maxrss / 1024.0, 1),
        "load_before": round(load, 2),
    }


def first_minutes(size: int, kind: str) -> dict[str, Any]:
    """One memory, from its file to an erasure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "csv":
            path, at = folder / "points.csv", "hr=90,sbp=115,dbp=60,rr=20,spo2=96.5,temp=37.2"
            written(path, size)
            options, erased = [], ["--subject", "p7"]
        else:
            path, at = folder / "points.npy", ",".join(["0.25"] * DIMENSION)
            np.save(path, table(size, kind))
            columns = ["--key-columns", f"0:{DIMENSION}", "--value-columns", str(DIMENSION)]
            options, erased = [f"--sigma={SIGMA}", f"--nu={NU}", *columns], ["7"]
        commands = {
            "create": ["create", "points", str(path), *options],
            "show": ["show", "points"],
            "read": ["read", "points", f"--at={at}"],
            "search": ["search", "points", f"--at={at}"],
            "erase": ["delete", "points", *erased, "--yes"],
        }
        found: dict[str, Any] = {"entries": size, "keys": kind}
        for command, words in commands.items():
            found[command] = measured(folder, *words)
            numbers = found[command]
            print(
                f"{size:>7} {kind:8} {command:7} {numbers['seconds']:7.2f} s  {numbers['processor_seconds']:7.2f} s "
                f"of processors  {numbers['megabytes']:7.0f} MB  load {numbers['load_before']:.1f}",
                flush=True,
            )
        return found


def beyond(found: dict[str, Any]) -> list[str]:
    """Commands of one memory that took longer, or more memory, than the documents promise."""
    return [
        f"{found['entries']} {found['keys']}: {command} is beyond {seconds:g} s or {megabytes:g} MB"
        for command, (seconds, megabytes) in MOST.items()
        if found[command]["seconds"] > seconds or found[command]["megabytes"] > megabytes
    ]


def compilation() -> dict[str, float]:
    """A first memory of 200 entries on a fresh install: most of it is compilation."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "points.npy", table(200, "cloud"))
        words = ["create", "points", str(folder / "points.npy"), f"--sigma={SIGMA}", f"--nu={NU}"]
        columns = ["--key-columns", f"0:{DIMENSION}", "--value-columns", str(DIMENSION)]
        fresh = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
        found = measured(folder, *words, *columns, environment=fresh)
        print(
            f"compiling, once: {found['seconds']:.1f} s, {found['processor_seconds']:.1f} s of processors", flush=True
        )
        # The usual cache is filled as well, for what follows.
        (folder / "store.db").unlink()
        (folder / "store.db.key").unlink()
        for usual in (words + columns, ["read", "points", "--at=0,0,0,0,0,0"], ["delete", "points", "7", "--yes"]):
            measured(folder, *usual)
        return found


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    content: dict[str, Any] = {
        "machine": describe(),
        "compilation": compilation(),
        "memories": [first_minutes(size, kind) for size in arguments.sizes for kind in ("cloud", "clusters")],
    }
    content["memories"].append(first_minutes(max(arguments.sizes), "csv"))
    write_result(arguments.out, content)
    slow = [line for found in content["memories"] for line in beyond(found)]
    if slow:
        raise SystemExit("\n".join(slow))


if __name__ == "__main__":
    main()
