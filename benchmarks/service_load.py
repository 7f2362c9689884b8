"""The service under load on loopback: 32 clients that read, admit and delete, on SQLite and on PostgreSQL.

`expunge serve` runs as it would in earnest, two workers by default, on a store on disk. After a few seconds that do
not count, the clients only read, for a quarter of the time; then seven in ten requests read and the others edit, so
that the two can be compared: if edits held up reads, the reads' times would be those of the edits. Each client
remembers which edits were acknowledged. Afterwards the service is stopped, every memory has to hold exactly these, and
the whole store has to verify. With ``--kill`` the busier worker is killed in the middle: clients send the request
again with the same idempotency key, and nothing may be lost or done twice.

    python benchmarks/service_load.py                       # a minute on each store
    python benchmarks/service_load.py --kill                # the same, with a worker killed half-way
    python benchmarks/service_load.py --seconds 5 --clients 8 --out /tmp/service.json

Each run writes its section, ``load`` or ``kill``, of benchmarks/results/service.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil  # type: ignore[import-untyped]

import expunge
from expunge.service.tokens import SCOPES, Tokens
from record import describe, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from service.service_client import running_service
from store.postgres_server import running_server

RESULTS = Path(__file__).parent / "results"
KINDS = ("sqlite", "postgresql")
MEMORIES, SIZE, DIMENSION, NU, SIGMA = 4, 256, 8, 0.3, 3.0
# Of a hundred requests of the mixed part: the others are deletions of what the client has admitted.
READS, ADMISSIONS = 70, 18
RETRIES = 40
WARMING = 3.0


@dataclass
class Client:
    """One connection, which entries were acknowledged, and how long requests took."""

    address: str
    headers: dict[str, str]
    number: int
    retry: bool
    acknowledged: dict[str, str] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    retried: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.number)
        self._connection: http.client.HTTPConnection | None = None
        self._count = 0

    def run(self, until: float, *, reading: bool) -> None:
        """Ask one thing after the other."""
        while time.monotonic() < until:
            memory = f"m{self._rng.integers(MEMORIES)}"
            chance = self._rng.integers(100)
            mine = [item for item, place in self.acknowledged.items() if place == memory]
            if reading or chance < READS or (chance >= READS + ADMISSIONS and not mine):
                body = {"queries": self._rng.standard_normal((1, DIMENSION)).tolist()}
                self._ask("read alone" if reading else "read", f"/v1/memories/{memory}/read", body, 200)
            elif chance < READS + ADMISSIONS:
                self._count += 1
                name = f"c{self.number}-{self._count}"
                body = {"key": self._rng.standard_normal(DIMENSION).tolist(), "value": [1.0, 2.0], "id": name}
                if self._ask("admit", f"/v1/memories/{memory}/admit", body, 201):
                    self.acknowledged[name] = memory
            elif self._ask("delete", f"/v1/memories/{memory}/delete", {"id": mine[0]}, 200):
                del self.acknowledged[mine[0]]

    def _ask(self, what: str, path: str, body: dict[str, Any], status: int) -> bool:
        sent = self.headers | {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        content = json.dumps(body)
        started = time.perf_counter()
        for _ in range(RETRIES if self.retry else 1):
            try:
                if self._connection is None:
                    place = urlsplit(self.address)
                    self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
                self._connection.request("POST", path, content, sent)
                response = self._connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as problem:
                self._connection, last = None, f"{what}: {type(problem).__name__}"
                self.retried += 1
                time.sleep(0.05)
                continue
            self.took.setdefault(what, []).append(time.perf_counter() - started)
            if response.status == status:
                return True
            self.errors.append(f"{what}: {response.status} {answer[:300].decode(errors='replace')}")
            return False
        self.errors.append(last)
        return False


def load(kind: str, chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with place(kind, folder) as (url, key):
        with expunge.open(url, key) as store:
            rng = np.random.default_rng(7)
            for number in range(MEMORIES):
                keys, values = rng.standard_normal((SIZE, DIMENSION)), rng.standard_normal((SIZE, 2))
                store.create(f"m{number}", keys, values, sigma=SIGMA, nu=NU)
            headers = {"Authorization": f"Bearer {Tokens(store).create(SCOPES)[0]}"}
        with running_service(url, "--workers", str(chosen.workers), key=key) as (process, address, log):
            clients = [Client(address, headers, number, chosen.kill) for number in range(chosen.clients)]
            for client in clients:
                # Connections that come one by one find whichever worker is free.
                client.run(time.monotonic() + 0.05, reading=True)
            together(clients, WARMING, reading=False)
            for client in clients:
                client.took.clear()
            together(clients, chosen.seconds / 4, reading=True)
            killed = 0
            if chosen.kill:
                timer = threading.Timer(chosen.seconds / 2, kill_one, [process.pid])
                timer.start()
                killed = 1
            together(clients, chosen.seconds, reading=False)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            lines = [json.loads(line) for line in log.read_text().splitlines() if '"event": "request"' in line]
        return judged(kind, chosen, clients, lines, killed, url, key)


def judged(
    kind: str,
    chosen: argparse.Namespace,
    clients: list[Client],
    lines: list[dict[str, Any]],
    killed: int,
    url: str,
    key: Path | None,
) -> dict[str, Any]:
    """What was measured, after the store was compared with what was acknowledged."""
    errors = [error for client in clients for error in client.errors]
    with expunge.open(url, key) as store:
        verified = store.verify()
        for number in range(MEMORIES):
            name = f"m{number}"
            there = {item for item in store[name].ids if item.startswith("c")}
            acknowledged = {item for client in clients for item, where in client.acknowledged.items() if where == name}
            # A client that gave up does not know whether its last edit was made.
            if there != acknowledged and not errors:
                raise SystemExit(
                    f"{kind} {name}: {len(there - acknowledged)} too many, {len(acknowledged - there)} lost"
                )
    requests = sum(len(times) for client in clients for times in client.took.values())
    return {
        "store": kind,
        "workers": chosen.workers,
        "clients": chosen.clients,
        "seconds": chosen.seconds,
        "requests": requests,
        "errors": len(errors),
        "error_examples": sorted(set(errors))[:5],
        "server_errors": sum(line["status"] >= 500 for line in lines),
        "by_worker": sorted(Counter(line["pid"] for line in lines).values(), reverse=True),
        "workers_killed": killed,
        "retried": sum(client.retried for client in clients),
        "times": {what: spread(clients, what) for what in ("read alone", "read", "admit", "delete")},
        "per_second": {
            "read alone": counted(clients, "read alone") / (chosen.seconds / 4),
            **{what: counted(clients, what) / chosen.seconds for what in ("read", "admit", "delete")},
        },
        "verified": vars(verified),
        "entries_promised": sum(len(client.acknowledged) for client in clients),
    }


def together(clients: list[Client], seconds: float, *, reading: bool) -> None:
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client.run, args=(until,), kwargs={"reading": reading}) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def kill_one(parent: int) -> None:
    """End the busiest worker without letting it finish anything."""
    workers = [child for child in psutil.Process(parent).children() if "spawn_main" in " ".join(child.cmdline())]
    max(workers, key=lambda worker: len(worker.net_connections())).kill()


def counted(clients: list[Client], what: str) -> int:
    return sum(len(client.took.get(what, ())) for client in clients)


def spread(clients: list[Client], what: str) -> dict[str, float]:
    times = np.array([1000 * taken for client in clients for taken in client.took.get(what, ())])
    if not times.size:
        return {"count": 0}
    return {
        "count": int(times.size),
        "p50_ms": float(np.percentile(times, 50)),
        "p99_ms": float(np.percentile(times, 99)),
        "worst_ms": float(times.max()),
    }


@contextmanager
def place(kind: str, folder: Path) -> Iterator[tuple[str, Path | None]]:
    """An empty store on disk."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'load.db'}", None
        return
    with running_server(folder) as server:
        yield server.new_database(), folder / "load.pem"


def report(section: str, rows: list[dict[str, Any]], out: Path) -> None:
    found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    kept = [row for row in found.get(section, []) if row["store"] not in {row["store"] for row in rows}]
    setting = {"memories": MEMORIES, "n": SIZE, "d": DIMENSION, "reads_percent": READS}
    content = found | {"machine": describe(), "setting": setting, section: kept + rows}
    write_result(out, content, measured={"setting": setting, section: rows})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of mixed load on each store")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill", action="store_true", help="kill a worker half-way")
    parser.add_argument("--stores", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, default=RESULTS / "service.json")
    chosen = parser.parse_args()
    if chosen.kill and chosen.workers < 2:
        parser.error("--kill needs two workers: one that is killed, and one that is not")
    # Whoever ends it early ends the server with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    rows = []
    for kind in chosen.stores:
        with tempfile.TemporaryDirectory(prefix="load", dir=Path.cwd()) as folder:
            row = load(kind, chosen, Path(folder))
        rows.append(row)
        print(
            f"{kind:>10}  {row['clients']} clients, {row['workers']} workers, {row['workers_killed']} killed: "
            f"{row['requests']} requests, {row['errors']} errors, {row['retried']} sent again; "
            f"{row['verified']['leaves']} leaves and {row['entries_promised']} entries as acknowledged, all verified"
        )
        for what, times in row["times"].items():
            if times["count"]:
                print(
                    f"{what:>12}  {row['per_second'][what]:>7.1f} a second   p50 {times['p50_ms']:>7.1f} ms   "
                    f"p99 {times['p99_ms']:>7.1f} ms   worst {times['worst_ms']:>7.1f} ms",
                    flush=True,
                )
    report("kill" if chosen.kill else "load", rows, chosen.out)
    if any(row["errors"] or row["server_errors"] for row in rows):
        sys.exit("there were errors")


if __name__ == "__main__":
    main()
