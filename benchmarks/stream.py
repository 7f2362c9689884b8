"""Entries that come one after another: a stream of which most have no weight, and imports into a store.

*Stream.* A memory of a tenth of the entries (d = 16, ν = 0.001 of all of them) admits the others one by one, all with
receipts, in one process. Prints entries per second over each tenth of the stream, and the peak of the process. An
admission to the reserve needs its own slack and the digest of the state, which hashes every commitment: time grows with
the entries, memory with what is stored.

*Imports.* 10,000 entries (d = 64) go into a store on disk: in batches of 1,000 with one receipt each, all in one batch,
and one by one with a receipt each from 32 threads, whose edits are committed together. After each the store verifies.

    python benchmarks/stream.py                     # a stream of 10,000 entries, imports
    python benchmarks/stream.py --entries 100000    # minutes; 1000000: hours
    python benchmarks/stream.py --imports 10000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import expunge
from durable import disk_folder
from expunge import Memory
from record import describe, write_result

RESULTS = Path(__file__).parent / "results" / "stream.json"
DIMENSION, SIGMA, NU, TENTHS = 16, 5.0, 0.001, 10
IMPORTED, WIDE_KEYS, WIDE_SIGMA, BATCH, THREADS, HELD = 10_000, 64, 8.0, 1000, 32, 1000


def stream(entries: int) -> dict[str, Any]:
    """Admit nine tenths of so many entries one by one."""
    rng = np.random.default_rng(16)
    first = entries // TENTHS
    keys = rng.standard_normal((first, DIMENSION))
    memory = Memory.fit(keys, np.zeros((first, 1)), sigma=SIGMA, cap=1.0 / (NU * entries))
    rates, weighted = [], 0
    for _ in range(TENTHS - 1):
        arriving = rng.standard_normal((first, DIMENSION))
        wall, cpu = time.perf_counter(), time.process_time()
        for key in arriving:
            weighted += memory.admit(key, [0.0]).attempts[0].path != "reserve"
        took = time.perf_counter() - wall, time.process_time() - cpu
        rates.append({"entries": len(memory), "per second": first / took[0], "per processor second": first / took[1]})
    return {
        "entries": entries,
        "margin": int(memory.partition.margin.size),
        "moved the optimum": weighted,
        "tenths": rates,
        "worst": memory.check().worst,
        "gibibytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2.0**20, 3),
    }


def imports(entries: int) -> list[dict[str, Any]]:
    """Import so many entries in batches, at once, and one by one."""
    rng = np.random.default_rng(64)
    keys = rng.standard_normal((HELD + entries, WIDE_KEYS))
    found = []
    for how, size in (("batches of 1,000", BATCH), ("one batch", entries), ("one by one, 32 threads", 1)):
        with disk_folder() as folder, expunge.open(f"sqlite:///{folder}/store.db") as store:
            memory = store.create("m", keys[:HELD], keys[:HELD, :2], sigma=WIDE_SIGMA, nu=0.1)
            rest = keys[HELD:] if size > 1 else keys[HELD : HELD + entries // 5]

            def admit(place: int, rest: Any = rest, size: int = size, memory: Any = memory) -> None:
                part = rest[place : place + size]
                if size == 1:
                    memory.admit(part[0], part[0, :2], id=f"e{place}")
                else:
                    memory.admit_many(part, part[:, :2], ids=[f"e{place + row}" for row in range(len(part))])

            wall, cpu = time.perf_counter(), time.process_time()
            with ThreadPoolExecutor(THREADS if size == 1 else 1) as pool:
                list(pool.map(admit, range(0, len(rest), size)))
            took = time.perf_counter() - wall, time.process_time() - cpu
            assert len(memory) == HELD + len(rest)
            store.verify()
        rates = {"per second": len(rest) / took[0], "per processor second": len(rest) / took[1]}
        found.append({"how": how, "entries": len(rest), **rates})
    return found


def main() -> None:
    """Measure in processes of their own, and record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entries", type=int, action="append", help="a stream of so many; repeatable")
    parser.add_argument("--imports", type=int, help="imports of so many, and no stream")
    parser.add_argument("--alone", type=int, help="one stream in this process: used by the others")
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps(stream(chosen.alone)))
        return
    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    streams = {row["entries"]: row for row in old.get("streams", [])}
    sizes = chosen.entries or ([] if chosen.imports else [10_000])
    for entries in sizes:
        words = [sys.executable, __file__, "--alone", str(entries)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603 — this file
        streams[entries] = json.loads(done.stdout)
        print(json.dumps(streams[entries]), flush=True)
    if not chosen.entries:
        # Compiled code and modules are loaded first.
        imports(BATCH)
    imported = old.get("imports", []) if chosen.entries else imports(chosen.imports or IMPORTED)
    print(*map(json.dumps, imported), sep="\n")
    rows = [streams[entries] for entries in sorted(streams)]
    write_result(RESULTS, {"machine": describe(), "streams": rows, "imports": imported})


if __name__ == "__main__":
    main()
