"""Lying ledgers must be refused under the right code, and honest ones must not be.

    python benchmarks/lies.py [--lies 12000] [--model 2000] [--stores 10000] [--postgres 200] [--minutes M]
                              [--seed 7] [--jobs 2]

*Lies*: ledgers from a model of a store, signed throughout, with one contradiction each, of every class in turn.
*Model*: the same without a lie. *Stores*: what real stores in SQLite files wrote through edits, erasures with and
without a delay, holds, drops, key rotations, crashes and restores; *postgres*: the same on PostgreSQL. 0 leaves a part
out. Counts of classes, acts and kinds of leaves go to ``benchmarks/results/lies.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from expunge.audit.machine import source_commit
from expunge.errors import VerificationError
from expunge.verify import verify_ledger
from ledgers.lies import LIES, NOW, tell
from ledgers.model import ORIGIN, World
from ledgers.model_steps import honest
from ledgers.store_histories import discard, play
from record import describe, write_result
from store.postgres_server import running_server

OUT = Path(__file__).parent / "results" / "lies.json"
# Histories per task of a worker.
BATCH = 50


def judge_lies(seed: int, start: int, stop: int) -> dict[str, Any]:
    """How many lies of each class were refused under their code, and which were not."""
    told: Counter[str] = Counter()
    missed = []
    names = list(LIES)
    for number in range(start, stop):
        name = names[number % len(names)]
        world = tell(name, seed, number)
        told[name] += 1
        code = _code(world)
        if code != LIES[name].code:
            missed.append({"class": name, "number": number, "code": code})
    return {"counts": told, "failures": missed, "leaves": 0}


def judge_model(seed: int, start: int, stop: int) -> dict[str, Any]:
    """Which honest ledgers of the model were refused."""
    alarms, leaves, acts = [], 0, Counter[str]()
    for number in range(start, stop):
        world = honest(seed, number)
        acts.update(world.acts)
        leaves += len(world.leaves)
        if (code := _code(world)) is not None:
            alarms.append({"number": number, "code": code})
    return {"counts": acts, "failures": alarms, "leaves": leaves}


def judge_stores(seed: int, start: int, stop: int) -> dict[str, Any]:
    """Which ledgers of real stores in SQLite files were refused."""
    return _judge_stores(seed, start, stop, None)


def judge_postgres(seed: int, start: int, stop: int) -> dict[str, Any]:
    """Which ledgers of real stores in schemas of a PostgreSQL server were refused."""
    with running_server() as server:
        return _judge_stores(seed, start, stop, server.new_schema)


def _judge_stores(seed: int, start: int, stop: int, new_url: Callable[[], str] | None) -> dict[str, Any]:
    logging.disable(logging.CRITICAL)
    alarms, leaves, acts, kinds = [], 0, Counter[str](), Counter[str]()
    shared = Path("/dev/shm")  # noqa: S108 — the folder is a random one in it
    folder = Path(tempfile.mkdtemp(prefix="lies-", dir=shared if shared.is_dir() else None))
    try:
        for number in range(start, stop):
            place = folder / f"store-{number}"
            place.mkdir()
            history = play(seed, number, place, new_url)
            acts.update(history.acts)
            for ledger in history.ledgers():
                kinds.update(ledger.kinds)
                leaves += len(ledger.kinds)
                try:
                    ledger.verify()
                except VerificationError as error:
                    alarms.append({"number": number, "code": error.code, "text": str(error)})
            discard(history)
    finally:
        shutil.rmtree(folder)
    return {"counts": acts, "kinds": kinds, "failures": alarms, "leaves": leaves}


def _code(world: World) -> str | None:
    envelopes, head = world.signed()
    try:
        verify_ledger(envelopes, head, world.trusted, world.log_keys, ORIGIN, now=NOW, seen=world.seen)
    except VerificationError as error:
        return error.code
    return None


JUDGES = {"lies": judge_lies, "model": judge_model, "stores": judge_stores, "postgres": judge_postgres}


def run(pool: ProcessPoolExecutor, kind: str, seed: int, count: int, seconds: float) -> dict[str, Any]:
    """All histories of a kind, in batches, as far as the time allows."""
    started, counts, failures, leaves, done = time.perf_counter(), Counter[str](), [], 0, 0
    kinds = Counter[str]()
    tasks = {pool.submit(JUDGES[kind], seed, at, min(at + BATCH, count)): at for at in range(0, count, BATCH)}
    for task in as_completed(tasks):
        if task.cancelled():
            continue
        if _since(started) > seconds:
            for later in tasks:
                later.cancel()
        found = task.result()
        counts.update(found["counts"])
        kinds.update(found.get("kinds", {}))
        failures += found["failures"]
        leaves += found["leaves"]
        done += min(BATCH, count - tasks[task])
        if done % (10 * BATCH) == 0 or done == count:
            print(f"{kind}: {done} of {count}, {len(failures)} failures, {_since(started):.0f} s", flush=True)
    told = {"counts": dict(sorted(counts.items()))} | ({"kinds": dict(sorted(kinds.items()))} if kinds else {})
    return {"ledgers": done, "failures": failures, "leaves": leaves} | told


def _since(started: float) -> float:
    return time.perf_counter() - started


def _arguments(arguments: Iterator[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lies", type=int, default=12_000)
    parser.add_argument("--model", type=int, default=2_000)
    parser.add_argument("--stores", type=int, default=10_000)
    parser.add_argument("--postgres", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=1e9, help="of each part, at most")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(None if arguments is None else list(arguments))


def main() -> int:
    """Run all of them, and write the record."""
    options = _arguments()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    measured: dict[str, Any] = {"seed": options.seed, "machine": describe()}
    # Forked workers would share the loaded libraries' threads.
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for kind in JUDGES:
            if count := getattr(options, kind):
                measured[kind] = run(pool, kind, options.seed, count, 60 * options.minutes) | {
                    "commit": source_commit()
                }
    # What was not played now stays as it was measured last.
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    write_result(options.out, kept | measured, measured=measured)
    failures = sum(len(measured[kind]["failures"]) for kind in JUDGES if kind in measured)
    print(f"{failures} failures; wrote {options.out}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
