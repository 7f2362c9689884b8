"""Durable, signed, checked edits on SQLite and PostgreSQL: what they cost, and what they survive.

Throughput sets a deletion, and an admission with a deletion, beside a bare INSERT and DELETE of such a row in the same
database: plain SQL through the driver, one commit each, same durability settings, the two sides in turns. What ours
adds: the memory's path and its independent check, the signed receipt, the ledger, the sealed content, the erasure of
its secret and the cutting of the log. Recovery opens a memory of 10,000 entries beside fitting it afresh. ``crash``
kills a process in the middle of an edit, at every point, at every statement and at random times, and checks what it
left. ``concurrency`` lets processes edit the same and different memories. Everything is on disk, with fsync.

    python benchmarks/durable.py                       # throughput and recovery
    python benchmarks/durable.py crash --runs 500      # on each store
    python benchmarks/durable.py concurrency --processes 8 --seconds 60

Each part writes its section of benchmarks/results/durable.json.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import secrets
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psycopg

import expunge
from expunge import Memory
from expunge.store import Store
from record import describe, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from store.edits.child_work import EDITS
from store.edits.fork_server import ForkServer
from store.edits.killed_edits import KilledEdits, at_points, at_random, at_statements
from store.postgres_server import running_server
from store.sample_memory import entries, fill

RESULTS = Path(__file__).parent / "results"
NU, SIGMA, DIMENSION, WIDTH, PAYLOAD = 0.4, 2.0, 6, 4, 500
KINDS = ("sqlite", "postgresql")


@contextmanager
def disk_folder() -> Iterator[Path]:
    """A folder on the disk that the working directory is on."""
    made = Path(tempfile.mkdtemp(prefix="durable", dir=os.environ.get("TMPDIR", "/var/tmp")))  # noqa: S108
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def place(kind: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """URL and signing key of an empty place."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / f'{secrets.token_hex(4)}.db'}", folder / "ward.pem"
        return
    with running_server(folder=folder) as server:
        yield server.new_schema(), folder / "ward.pem"


class Bare:
    """The same rows in a plain table: what a program without any of this would do."""

    def __init__(self, url: str) -> None:
        self.connection: Any
        if url.startswith("sqlite"):
            self.connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
                self.connection.execute(f"PRAGMA {pragma}")
            self.mark, blob = "?", "BLOB"
        else:
            self.connection = psycopg.connect(url, autocommit=True)
            self.mark, blob = "%s", "BYTEA"
        columns = ", ".join(f"{name} {blob}" for name in ("key", "value", "payload", "salt"))
        self.connection.execute(f"CREATE TABLE bare (id TEXT PRIMARY KEY, subject TEXT, {columns})")
        self._insert = f"INSERT INTO bare VALUES ({', '.join([self.mark] * 6)})"  # noqa: S608
        self._delete = f"DELETE FROM bare WHERE id = {self.mark}"  # noqa: S608

    def insert(self, row: tuple[Any, ...]) -> None:
        """One row, one commit."""
        self.connection.execute(self._insert, row)

    def delete(self, name: str) -> None:
        """One row, one commit."""
        self.connection.execute(self._delete, (name,))


def timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def numbers(times: list[float]) -> dict[str, float]:
    values = 1e3 * np.array(times)
    return {
        "per_second": 1e3 / float(values.mean()),
        "median_ms": float(np.median(values)),
        "p99_ms": float(np.percentile(values, 99)),
    }


def throughput(kind: str, size: int, edits: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    names = [f"patient-{row % 100}/note-{row}" for row in range(size)]
    with place(kind, folder) as (url, key), expunge.open(url, key) as store:
        memory = store.create(
            "icu",
            1.5 * rng.standard_normal((size, DIMENSION)),
            rng.standard_normal((size, WIDTH)),
            sigma=SIGMA,
            nu=NU,
            ids=names,
            subjects=[name.split("/")[0] for name in names],
            payloads=[secrets.token_bytes(PAYLOAD) for _ in names],
        )
        bare = Bare(url)
        times: dict[str, list[float]] = {"delete": [], "admit": [], "insert": [], "bare delete": []}
        warming_up = 10
        victims = rng.permutation(names)[: edits + warming_up].tolist()
        for step, name in enumerate(victims):
            row = (name, "patient", rng.bytes(8 * DIMENSION), rng.bytes(8 * WIDTH), rng.bytes(PAYLOAD), rng.bytes(32))
            point, value = 1.5 * rng.standard_normal(DIMENSION), rng.standard_normal(WIDTH)
            fresh, note = f"new-{step}", rng.bytes(PAYLOAD)

            def ours(name: str = name, fresh: str = fresh, note: bytes = note, at: Any = point, v: Any = value) -> None:
                times["delete"].append(timed(lambda: memory.delete(name)))
                times["admit"].append(timed(lambda: memory.admit(at, v, id=fresh, subject="patient", payload=note)))

            def theirs(name: str = name, row: tuple[Any, ...] = row) -> None:
                times["insert"].append(timed(lambda: bare.insert(row)))
                times["bare delete"].append(timed(lambda: bare.delete(name)))

            for side in (ours, theirs) if step % 2 else (theirs, ours):
                side()
        times = {name: column[warming_up:] for name, column in times.items()}
        bare.connection.close()
        in_memory = memory.refit()
        solver = [timed(lambda name=name: in_memory.delete(name)) for name in in_memory.ids[:50]]  # type: ignore[misc]
        verified = timed(store.verify)
    pair = [one + two for one, two in zip(times["insert"], times["bare delete"], strict=True)]
    both = [one + two for one, two in zip(times["admit"], times["delete"], strict=True)]
    return {
        "store": kind,
        "n": size,
        "edits": edits,
        "delete": numbers(times["delete"]),
        "admit": numbers(times["admit"]),
        "bare_insert_delete": numbers(pair),
        "delete_over_bare_pair": median(times["delete"]) / median(pair),
        "admit_delete_over_bare_pair": median(both) / median(pair),
        "delete_in_memory_ms": 1e3 * median(solver),
        "verify_seconds": verified,
        "leaves": 2 * len(victims) + 1,
    }


def recovery(kind: str, size: int, trials: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    keys = 1.5 * rng.standard_normal((size, DIMENSION))
    values = rng.standard_normal((size, WIDTH))
    with place(kind, folder) as (url, key):
        with expunge.open(url, key) as store:
            created = timed(lambda: store.create("icu", keys, values, sigma=SIGMA, nu=NU))
            digest = store["icu"].digest
        opened, loads = [], []
        for _ in range(trials):
            holder: list[Store] = []
            opened.append(timed(lambda holder=holder: holder.append(expunge.open(url, key))))  # type: ignore[misc]
            loads.append(timed(lambda holder=holder: len(holder[0]["icu"])))  # type: ignore[misc]
            if holder[0]["icu"].digest != digest:
                raise SystemExit("the loaded memory is another; no time is reported on a failure")
            holder[0].close()
        fitted = timed(lambda: Memory.fit(keys, values, sigma=SIGMA, nu=NU))
    return {
        "store": kind,
        "n": size,
        "trials": trials,
        "create_seconds": created,
        "open_seconds": median(opened),
        "load_seconds": median(loads),
        "load_worst_seconds": max(loads),
        "fit_seconds": fitted,
        "fit_over_load": fitted / median(loads),
    }


def crash(kind: str, runs: int, folder: Path) -> dict[str, Any]:
    """Every point and every statement of every verb in turn, then random times, until the runs are used up."""
    verbs = list(EDITS)
    planned = [*at_points(verbs), *at_statements(verbs)]
    fates: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    done, started = 0, time.perf_counter()
    with place(kind, folder) as (url, key), ForkServer() as fork_server:
        # The share of random kills is at least a third; a store is replaced before its ledger gets long.
        chosen: Iterator[tuple[str, Any]] = itertools.chain(
            _spread(planned, 2 * runs // 3), iter(lambda: ("", None), object())
        )
        while done < runs:
            address = url if kind == "postgresql" and done == 0 else _another(kind, url, folder, done)
            file = Path(address.removeprefix("sqlite:///"))
            files = [Path(f"{file}{end}") for end in ("", "-wal", "-shm")] if kind == "sqlite" else []
            killed_edits = KilledEdits(address, key, fork_server, files)
            span = killed_edits.span()
            random_ones = iter(at_random(10**9, 1.2 * span, seed=done))
            for _ in range(min(60, runs - done)):
                verb, moment = next(chosen)
                if moment is None:
                    verb, delay = next(random_ones)
                    killed_edits.run_edit(verb, kill_after=delay, retries=1)
                    kinds["random"] += 1
                else:
                    killed_edits.run_edit(verb, moment, retries=1)
                    kinds[moment[0]] += 1
                done += 1
                if done % 25 == 0:
                    print(f"  {kind}: {done} of {runs} runs, {time.perf_counter() - started:.0f} s", flush=True)
            fates += killed_edits.fates
    return {
        "store": kind,
        "runs": runs,
        "moments": dict(kinds),
        "fates": dict(fates),
        "seconds": time.perf_counter() - started,
    }


def _spread(planned: list[tuple[str, Any]], most: int) -> Iterator[tuple[str, Any]]:
    """Planned moments, evenly thinned out if there are too many."""
    step = max(1.0, len(planned) / max(1, most))
    return (planned[int(step * k)] for k in range(min(most, len(planned))))


def _another(kind: str, url: str, folder: Path, number: int) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder / f'ruin-{number}.db'}"
    base, _, schema = url.rpartition("%3D")
    name = f"ruin{number}x{secrets.token_hex(4)}"
    with psycopg.connect(base.partition("&options")[0], autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return url.replace(schema, name)


def concurrency(kind: str, processes: int, seconds: float, folder: Path) -> list[dict[str, Any]]:
    rows = []
    with place(kind, folder) as (url, key), ForkServer() as fork_server:
        for label, names in (("same", ["icu"]), ("different", [f"ward-{k}" for k in range(processes)])):
            with expunge.open(url, key) as store:
                before = store.size
                for name in names:
                    fill(store, name)
            given = {"url": url, "key": str(key), "names": names, "seconds": seconds, "timeout": 60.0}
            jobs = [
                {"work": "edit_until", "with": {**given, "worker": worker}, "kill_after": None}
                for worker in range(1, processes + 1)
            ]
            results = fork_server.run(*jobs)
            if any("result" not in result for result in results):
                raise SystemExit(f"{kind}: a worker failed: {results}")
            tally: Counter[str] = Counter()
            for result in results:
                tally.update(result["result"]["tally"])
            with expunge.open(url, key) as store:
                lost = 0
                for name in names:
                    mine = {entry for result in results for entry in result["result"]["mine"][name]}
                    lost += len(mine ^ (set(store[name].ids) - set(entries()["ids"])))
                kinds = Counter(leaf.kind for leaf in store.receipts(start=before))
                twice = kinds["admitted"] - tally["admitted"]
                twice += kinds["certified_zero"] + kinds["decrement"] - tally["deleted"]
                store.verify()
            if lost or twice:
                raise SystemExit(f"{kind}: {lost} updates lost, {twice} applied twice")
            edits = tally["admitted"] + tally["deleted"]
            rows.append(
                {
                    "store": kind,
                    "memories": label,
                    "processes": processes,
                    "seconds": seconds,
                    "edits_per_second": edits / seconds,
                    "tally": dict(tally),
                    "lost": lost,
                    "applied_twice": twice,
                }
            )
            print(
                f"{kind:>10}  {label:>9} memories, {processes} processes, {seconds:.0f} s: {edits} edits "
                f"({edits / seconds:.0f}/s), {tally['retried']} retries, {tally['conflicts']} conflicts, "
                f"{tally['busy']} busy, {tally['read']} reads; lost {lost}, applied twice {twice}; ledger verified",
                flush=True,
            )
    return rows


def report(section: str, content: list[dict[str, Any]], out: Path) -> None:
    """Replace what the file says about these stores in this section."""
    known = json.loads(out.read_text()) if out.exists() else {}
    stores = {row["store"] for row in content}
    others = [row for row in known.get(section, {}).get("rows", ()) if row["store"] not in stores]
    kept = {**known, section: {"machine": describe(), "rows": others + content}}
    write_result(out, kept, measured={section: content})
    print(f"wrote {section} to {out}")


def measure_throughput(chosen: argparse.Namespace) -> None:
    gc.disable()
    rows = []
    print(
        f"{'store':>10} {'n':>6} {'delete/s':>9} {'median':>9} {'p99':>9} {'in memory':>9} {'admit':>9} "
        f"{'bare I+D':>9} {'p99':>9}"
        f"   ratio to bare I+D: {'delete':>7} {'admit+delete':>13}"
    )
    for kind in KINDS:
        for size in (512,) if chosen.quick else (512, 2048, 8192):
            with disk_folder() as folder:
                row = throughput(kind, size, 50 if chosen.quick else 400, folder)
            rows.append(row)
            ours, admit, bare = row["delete"], row["admit"], row["bare_insert_delete"]
            print(
                f"{kind:>10} {size:>6} {ours['per_second']:>9.0f} {ours['median_ms']:>6.2f} ms "
                f"{ours['p99_ms']:>6.2f} ms {row['delete_in_memory_ms']:>6.2f} ms "
                f"{admit['median_ms']:>6.2f} ms {bare['median_ms']:>6.2f} ms {bare['p99_ms']:>6.2f} ms"
                f"                      {row['delete_over_bare_pair']:>6.2f}x "
                f"{row['admit_delete_over_bare_pair']:>12.2f}x",
                flush=True,
            )
    report("throughput", rows, chosen.out)


def measure_recovery(chosen: argparse.Namespace) -> None:
    rows = []
    for kind in KINDS:
        with disk_folder() as folder:
            row = recovery(kind, 1000 if chosen.quick else 10_000, 3 if chosen.quick else 7, folder)
        rows.append(row)
        print(
            f"{kind:>10}  {row['n']} entries: open {row['open_seconds']:.3f} s, load {row['load_seconds']:.3f} s "
            f"(worst {row['load_worst_seconds']:.3f} s), fit {row['fit_seconds']:.2f} s: {row['fit_over_load']:.1f}x",
            flush=True,
        )
    report("recovery", rows, chosen.out)


def measure_crash(chosen: argparse.Namespace) -> None:
    rows = []
    for kind in chosen.stores:
        with disk_folder() as folder:
            row = crash(kind, chosen.runs, folder)
        rows.append(row)
        print(f"{kind:>10}  {row['runs']} runs, {row['moments']}: {row['fates']}; every state, ledger and retry right")
    report("crash", rows, chosen.out)


def measure_concurrency(chosen: argparse.Namespace) -> None:
    rows = []
    for kind in chosen.stores:
        with disk_folder() as folder:
            rows += concurrency(kind, chosen.processes, chosen.seconds, folder)
    report("concurrency", rows, chosen.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["measure", "crash", "concurrency"], default="measure")
    parser.add_argument("--quick", action="store_true", help="small sizes and few edits")
    parser.add_argument("--runs", type=int, default=500, help="crashes on each store")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0, help="of concurrent work on each store and layout")
    parser.add_argument("--stores", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, default=RESULTS / "durable.json")
    chosen = parser.parse_args()
    # Whoever ends it early ends the server with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    if chosen.part == "crash":
        measure_crash(chosen)
    elif chosen.part == "concurrency":
        measure_concurrency(chosen)
    else:
        measure_throughput(chosen)
        measure_recovery(chosen)


if __name__ == "__main__":
    main()
