"""What LangGraph's interface costs over the memory beneath it: put, update and search, as ratios in one run.

A store of `--size` items, each with one vector, keeps them in SQLite on disk; a memory beside it has the same entries.
A put is measured beside a bare admission of the same entries to that memory, an update beside an admission and a
deletion; each pair in turns, alone and in batches of 64. A search for the ten nearest is measured beside a scan by
numpy: cosines of all vectors, held as one array with their lengths, and the ten largest, both in processor seconds.

The number of items passes no power of two while puts are measured, so that no rebuild at another cap falls into their
window (an admission to the bare memory has none); the record says so, from the receipts. The command fails where a put
takes more than twice as long as an admission.

    python benchmarks/langgraph_store.py

Writes benchmarks/results/langgraph_store.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

import numpy as np
from langgraph.store.base import IndexConfig, PutOp

import expunge
from durable import disk_folder
from expunge.integrations.langgraph import ExpungeStore
from expunge.integrations.notebook import Notebook
from expunge.types import Matrix
from record import describe, write_result

RESULTS = Path(__file__).parent / "results"
SEED = 2026
BATCH = 64
# A put takes at most this many times as long as an admission.
MOST = 2.0


class Embedder:
    """Unit vectors around 40 centres, one per number of a text, always the same."""

    def __init__(self, dimension: int) -> None:
        self.centres = np.random.default_rng(SEED).standard_normal((40, dimension))

    def rows(self, numbers: list[int]) -> Matrix:
        """Vectors of some numbers, (m, d)."""
        found = np.empty((len(numbers), self.centres.shape[1]))
        for row, number in enumerate(numbers):
            rng = np.random.default_rng((SEED, number))
            found[row] = self.centres[rng.integers(40)] + 0.7 * rng.standard_normal(found.shape[1])
        unit: Matrix = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """As LangGraph calls it."""
        rows: list[list[float]] = self.rows([int(text.split()[-1]) for text in texts]).tolist()
        return rows


def value(number: int) -> dict[str, Any]:
    """The value of one item."""
    return {"text": f"note {number}", "kind": number % 7}


def put(number: int) -> PutOp:
    """A put of the item with a number."""
    return PutOp(("memories", f"user {number % 50}"), f"note {number}", value(number))


class Columns(TypedDict):
    """What entries have beside their keys."""

    ids: list[str]
    subjects: list[str | None]
    payloads: list[Any]


def columns(numbers: list[int]) -> Columns:
    """Ids, subjects and payloads as those of items."""
    return {
        "ids": [json.dumps([["memories", f"user {n % 50}"], f"note {n}", 10**18, 10**18 + n]) for n in numbers],
        "subjects": [f"user {n % 50}" for n in numbers],
        "payloads": [{"value": value(n), "vectors": []} for n in numbers],
    }


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long it takes, by a clock."""
    started = clock()
    work()
    return clock() - started


class Bench:
    """Items in a LangGraph store, and the same entries in a memory by itself."""

    def __init__(self, ledger: expunge.store.Store, size: int, dimension: int) -> None:
        self.embed = Embedder(dimension)
        index: IndexConfig = {"dims": dimension, "embed": self.embed, "fields": ["text"]}
        self.graph = ExpungeStore(ledger, index=index)
        self.bare = Notebook(ledger, "bare", sigma=1.0, nu=0.5)
        numbers = list(range(size))
        self.graph.batch(map(put, numbers))
        self.bare.write_many(list(self.embed.rows(numbers)), **columns(numbers))
        self.memory = ledger["bare"]
        self.size = self.next = size

    def new(self, count: int) -> list[int]:
        """Numbers that no item had."""
        self.next += count
        return list(range(self.next - count, self.next))

    def admit(self, numbers: list[int]) -> None:
        """Admit bare entries of the size of items."""
        rows = self.embed.rows(numbers)
        self.memory.admit_many(rows, rows, **columns(numbers))

    def exchange(self, new: list[int], old: list[int]) -> None:
        """Admit bare entries, and delete others."""
        self.admit(new)
        self.memory.delete(columns(old)["ids"])

    def puts(self, batch: int, rounds: int) -> dict[str, Any]:
        """Puts of new items beside admissions of the same entries, in turns."""
        bare, ours = [], []
        for _ in range(rounds):
            numbers = self.new(batch)
            bare.append(seconds(partial(self.admit, numbers)))
            ours.append(seconds(partial(self.graph.batch, [put(number) for number in numbers])))
            self.memory.delete(columns(numbers)["ids"])
            self.graph.batch([put(number)._replace(value=None) for number in numbers])
        return paired("put", batch, "an admission", bare, ours)

    def updates(self, batch: int, rounds: int) -> dict[str, Any]:
        """Puts of items that are there beside an admission and a deletion of the same entries, in turns."""
        bare, ours = [], []
        for _ in range(rounds):
            old, new = self.new(batch), self.new(batch)
            self.admit(old)
            self.graph.batch([put(number) for number in old])
            bare.append(seconds(partial(self.exchange, new, old)))
            ops = [put(number)._replace(value=value(other)) for number, other in zip(old, new, strict=True)]
            ours.append(seconds(partial(self.graph.batch, ops)))
            self.memory.delete(columns(new)["ids"])
            self.graph.batch([op._replace(value=None) for op in ops])
        return paired("update", batch, "an admission and a deletion", bare, ours)

    def searches(self, rounds: int, **options: Any) -> dict[str, Any]:
        """Searches beside a scan; embedding the query is in neither."""
        table = np.array([note.key for note in self.graph.notebook.notes()])
        lengths = np.linalg.norm(table, axis=1)
        queries = [f"query {number}" for number in range(10**6, 10**6 + rounds)]

        def scan(point: list[float]) -> object:
            cosines = table @ point / (lengths * np.linalg.norm(point))
            found = np.argpartition(-cosines, 10)[:10]
            return found[np.argsort(-cosines[found])]

        plain, ours = [], []
        for text, point in zip(queries, self.embed(queries), strict=True):
            plain.append(seconds(partial(scan, point), time.thread_time))
            search = partial(self.graph.search, ("memories",), query=text, **options)
            ours.append(seconds(search, time.thread_time))
        return paired("search" + (" with a filter" if options else ""), 1, "a scan by numpy", plain, ours)


def paired(what: str, batch: int, beside: str, bare: list[float], ours: list[float]) -> dict[str, Any]:
    """One row of the record."""
    return {
        "what": what,
        "batch": batch,
        "beside": beside,
        "rounds": len(bare),
        "bare_ms": 1e3 * median(bare),
        "ours_ms": 1e3 * median(ours),
        "ratio": median(ours) / median(bare),
    }


def main() -> int:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, default=RESULTS / "langgraph_store.json")
    given = parser.parse_args()
    with disk_folder() as folder, expunge.open(f"sqlite:///{folder}/bench.db") as ledger:
        bench = Bench(ledger, given.size, given.dimension)
        bench.puts(1, 2)
        bench.searches(2)
        begun, rows = ledger.size, []
        for batch in (1, BATCH):
            rounds = given.rounds if batch == 1 else max(3, given.rounds // 5)
            rows += [bench.puts(batch, rounds), bench.updates(batch, rounds)]
        rows += [bench.searches(2 * given.rounds), bench.searches(2 * given.rounds, filter={"kind": 3})]
        rebuilds = sum(edit.outcome == "rebuilt" for edit in bench.graph.receipts if edit.index >= begun)
        ledger.verify()
    for row in rows:
        print("{what} ×{batch}: {ours_ms:.1f} ms, {ratio:.2f} times {beside} ({bare_ms:.1f} ms)".format(**row))
    print(f"rebuilds while it was measured: {rebuilds}")
    content = {
        "size": given.size,
        "dimension": given.dimension,
        "seed": SEED,
        "rebuilds": rebuilds,
        "machine": describe(),
        "rows": rows,
    }
    write_result(given.out, content)
    return 1 if any(row["what"] == "put" and row["ratio"] > MOST for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
