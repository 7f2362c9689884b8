"""Edits per second of the service: 32 clients on one memory, or on as many memories, with a reader beside them.

`expunge serve` runs on a store on disk, over HTTP on loopback, and every acknowledged edit is durable and signed. Each
client admits and deletes in turn, always with an idempotency key. After the warm-up, which does not count, edits and
reads are timed for some seconds. Then the service is stopped, the memories have to hold exactly what was acknowledged,
and the whole store has to verify. ``--kill`` ends a worker half-way; clients repeat what was not answered.

``--path`` measures, without a store, what edits of a group would save if they were solved as one path with one check.

The clients run on the machine that they measure. Beside the seconds of the wall clock the result has the processor
seconds per edit of the service, and how much of the machine it got, which say more where others are at work.

    python benchmarks/group_commit.py
    python benchmarks/group_commit.py --stores sqlite --workers 1 --memories 1 --seconds 5
    python benchmarks/group_commit.py --kill
    python benchmarks/group_commit.py --path
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil  # type: ignore[import-untyped]

import expunge
from expunge.service.tokens import SCOPES, Tokens
from record import describe, write_result
from service_load import KINDS, kill_one, place

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from service.service_client import running_service

RESULTS = Path(__file__).parent / "results" / "group_commit.json"
SIZE, DIMENSION, NU, SIGMA = 500, 64, 0.3, 8.0
HELD, WARMING, RETRIES = 6, 4.0, 40
GROUP = 16


@dataclass
class Client:
    """One connection: what it has been told, and how long each request took."""

    address: str
    token: str
    number: int
    memory: str
    mine: list[str] = field(default_factory=list)
    edits: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    repeated: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.number)
        self._connection: http.client.HTTPConnection | None = None
        self._count = 0

    def edit_until(self, end: float) -> None:
        """Admit and delete in turn."""
        while time.monotonic() < end:
            if len(self.mine) < HELD or self._rng.random() < 0.5:
                self._count += 1
                name = f"c{self.number}-{self._count}"
                body = {"key": self._rng.standard_normal(DIMENSION).tolist(), "value": [1.0, 2.0], "id": name}
                if self._ask("admit", body, self.edits):
                    self.mine.append(name)
            elif self._ask("delete", {"id": self.mine[0]}, self.edits):
                self.mine.pop(0)

    def read_until(self, end: float) -> None:
        """Read, ten times a second."""
        while time.monotonic() < end:
            self._ask("read", {"queries": self._rng.standard_normal((1, DIMENSION)).tolist()}, self.reads)
            time.sleep(0.1)

    def _ask(self, what: str, body: dict[str, Any], took: list[float]) -> bool:
        sent = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": str(uuid.uuid4()),
        }
        started, content, last = time.perf_counter(), json.dumps(body), ""
        for _ in range(RETRIES):
            try:
                if self._connection is None:
                    where = urlsplit(self.address)
                    self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
                self._connection.request("POST", f"/v1/memories/{self.memory}/{what}", content, sent)
                response = self._connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as problem:
                self._connection, last = None, f"{what}: {type(problem).__name__}"
                self.repeated += 1
                time.sleep(0.05)
                continue
            took.append(time.perf_counter() - started)
            if response.status < 300:
                return True
            self.errors.append(f"{what}: {response.status} {answer[:300].decode(errors='replace')}")
            return False
        self.errors.append(last)
        return False


def run(kind: str, workers: int, memories: int, chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One setting; SystemExit where the store is not what the clients were told."""
    with place(kind, folder) as (url, key):
        with expunge.open(url, key) as store:
            rng = np.random.default_rng(7)
            for number in range(memories):
                keys, values = rng.standard_normal((SIZE, DIMENSION)), rng.standard_normal((SIZE, 2))
                store.create(f"m{number}", keys, values, sigma=SIGMA, nu=NU)
            token = Tokens(store).create(SCOPES)[0]
        with running_service(url, "--workers", str(workers), key=key) as (process, address, _):
            clients = [Client(address, token, n, f"m{n % memories}") for n in range(chosen.clients)]
            reader = Client(address, token, 10_000, "m0")
            together(clients, reader, WARMING)
            for client in (*clients, reader):
                client.edits.clear()
                client.reads.clear()
            if chosen.kill:
                threading.Timer(chosen.seconds / 2, kill_one, [process.pid]).start()
            before, started = processor_seconds(process.pid), time.monotonic()
            together(clients, reader, chosen.seconds)
            elapsed, used = time.monotonic() - started, processor_seconds(process.pid) - before
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        errors = [error for client in (*clients, reader) for error in client.errors]
        with expunge.open(url, key) as store:
            verified = store.verify()
            for number in range(memories):
                there = {name for name in store[f"m{number}"].ids if name.startswith("c")}
                told = {name for client in clients if client.memory == f"m{number}" for name in client.mine}
                if there != told and not errors:
                    raise SystemExit(f"{kind} m{number}: {len(there - told)} too many, {len(told - there)} lost")
    edits = np.array([1000.0 * taken for client in clients for taken in client.edits])
    reads = np.array([1000.0 * taken for taken in reader.reads])
    return {
        "store": kind,
        "workers": workers,
        "memories": memories,
        "clients": chosen.clients,
        "killed": int(chosen.kill),
        "edits": int(edits.size),
        "edits_per_second": edits.size / elapsed,
        "edit_ms": spread(edits),
        "read_ms": spread(reads),
        # A worker that was killed takes its processor seconds with it.
        "processor_ms_per_edit": None if chosen.kill else 1000.0 * used / max(1, edits.size),
        "processors": None if chosen.kill else used / elapsed,
        "load_average": os.getloadavg()[0],
        "repeated": sum(client.repeated for client in clients),
        "errors": sorted(set(errors))[:5],
        "leaves": verified.leaves,
    }


def one_path(rounds: int = 12) -> dict[str, Any]:
    """Processor milliseconds per edit: admissions and deletions one after the other, and each as one edit of all."""
    rng = np.random.default_rng(7)
    memory = expunge.Memory.fit(rng.standard_normal((SIZE, DIMENSION)), np.zeros((SIZE, 2)), sigma=SIGMA, nu=NU)
    took: dict[str, list[float]] = {"admit": [], "admit_path": [], "delete": [], "delete_path": []}

    def timed(what: str, edits: list[Callable[[], Any]]) -> None:
        started = time.thread_time()
        for edit in edits:
            edit()
        took[what].append(1000.0 * (time.thread_time() - started) / GROUP)

    for number in range(rounds):
        keys, names = rng.standard_normal((GROUP, DIMENSION)), [f"{number}-{row}" for row in range(GROUP)]
        values = np.zeros((GROUP, 2))
        timed("admit", [partial(memory.admit, keys[row], values[row], id=names[row]) for row in range(GROUP)])
        timed("delete", [partial(memory.delete, name) for name in names])
        timed("admit_path", [partial(memory.admit_many, keys, values, ids=names)])
        timed("delete_path", [partial(memory.delete, names)])
    # The first round compiles.
    return {"group": GROUP} | {f"{what}_ms": float(np.median(times[1:])) for what, times in took.items()}


def together(clients: list[Client], reader: Client, seconds: float) -> None:
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=client.edit_until, args=(end,)) for client in clients]
    threads.append(threading.Thread(target=reader.read_until, args=(end,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def processor_seconds(parent: int) -> float:
    """Of the service with its workers, so far."""
    total = 0.0
    for process in (psutil.Process(parent), *psutil.Process(parent).children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def spread(times: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    if not times.size:
        return {"count": 0}
    return {
        "count": int(times.size),
        "p50": float(np.percentile(times, 50)),
        "p99": float(np.percentile(times, 99)),
        "worst": float(times.max()),
    }


def record(section: str, measured: Any, path: Path) -> None:
    """Write one section of the results, and leave the others."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    content = found | {"machine": describe(), "setting": {"n": SIZE, "d": DIMENSION}, section: measured}
    write_result(path, content, measured={section: measured})


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--stores", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--memories", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--kill", action="store_true", help="kill a worker half-way")
    parser.add_argument("--path", action="store_true", help="what one path for a group of edits would save")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    if chosen.kill and min(chosen.workers) < 2:
        parser.error("--kill needs two workers: --workers 2")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    if chosen.path:
        found = one_path()
        record("path", found, chosen.out)
        print(f"processor ms per edit, {GROUP} edits one by one and as one path: ", end="")
        print(f"admit {found['admit_ms']:.2f} and {found['admit_path_ms']:.2f}, ", end="")
        print(f"delete {found['delete_ms']:.2f} and {found['delete_path_ms']:.2f}")
        return
    rows = []
    for kind in chosen.stores:
        for memories in chosen.memories:
            for workers in chosen.workers:
                with tempfile.TemporaryDirectory(prefix="group", dir=Path.cwd()) as folder:
                    row = run(kind, workers, memories, chosen, Path(folder))
                rows.append(row)
                own = (
                    ""
                    if chosen.kill
                    else (
                        f"  {row['processor_ms_per_edit']:.2f} ms of a processor each, {row['processors']:.2f} in use"
                    )
                )
                print(
                    f"{kind:>10} {workers} workers {memories:>2} memories: {row['edits_per_second']:6.0f} edits/s  "
                    f"p50 {row['edit_ms']['p50']:5.0f}  p99 {row['edit_ms']['p99']:5.0f} ms  "
                    f"reads p99 {row['read_ms'].get('p99', 0):4.0f} ms{own}  {row['errors'] or ''}",
                    flush=True,
                )
    record("kill" if chosen.kill else "load", rows, chosen.out)
    if any(row["errors"] for row in rows):
        sys.exit("there were errors")


if __name__ == "__main__":
    main()
