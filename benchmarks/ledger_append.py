"""Leaves per second that the ledger takes durably: signed envelopes, in batches and one by one, on both stores.

A leaf is a deletion's receipt as a store writes it, 2,414 bytes, each with a request id of its own: built, serialised
as canonical JSON, signed, hashed into the tree and inserted. A batch is one transaction with one update of the frontier
and one signed head; one by one, each leaf has its own. Everything is on disk, with fsync. The two ways are measured in
turns, and every leaf is read back, verified and led to the root afterwards.

    python benchmarks/ledger_append.py

Writes benchmarks/results/ledger_append.json.
"""

from __future__ import annotations

import argparse
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import expunge
from durable import KINDS, disk_folder, place
from expunge.attestation.statements import utc_now
from expunge.ledger.envelope import open_statement
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.statement import Statement
from expunge.store.backends.connect import connect, open_identity
from expunge.store.backends.database import Database
from expunge.store.identity import Identity, KeySources
from expunge.store.ledger_proofs import sign_checkpoint_of
from expunge.store.ledger_tables import LedgerWriter, read_frontier, read_leaves
from record import describe, write_result
from store.sample_memory import entries

RESULTS = Path(__file__).parent / "results"


def sample_receipt(url: str, key: Path) -> Statement:
    """A deletion's statement, from a store that made one."""
    with expunge.open(url, signing_key=key) as store:
        store.create("ward", **entries(64), sigma=2.0, nu=0.4)
        return store.leaf(store["ward"].delete("e7").index).statement


def statements(sample: Statement, count: int) -> Iterator[Statement]:
    """Receipts that differ in their request."""
    for _ in range(count):
        request = {"id": str(uuid.uuid4()), "case": None, "actor": None}
        yield replace(sample, predicate={**sample.predicate, "request": request})


@contextmanager
def ledger(url: str, key: Path) -> Iterator[tuple[Database, Identity]]:
    """The database and the identity of a store, without the store."""
    database, default = connect(url, 30.0)
    try:
        yield database, open_identity(database, KeySources(receipts=key, default_key=default), None, utc_now)
    finally:
        database.close()


def append(database: Database, identity: Identity, batch: list[Statement], head: bool = True) -> float:
    """Seconds to append a batch in one transaction, and to sign and keep its head."""
    started = time.perf_counter()
    with database.writing("ledger_append") as connection:
        writer = LedgerWriter(connection)
        for statement in batch:
            writer.append(identity.sign(statement), "deleted", None)
        writer.flush()
        connection.commit()
    if head:
        sign_checkpoint_of(database, identity)
    return time.perf_counter() - started


def check(database: Database, identity: Identity) -> int:
    """Verify every leaf's signature and the root over all of them; return how many there are."""
    frontier = Frontier()
    with database.reading() as connection:
        for leaf in read_leaves(connection):
            open_statement(leaf.envelope, [identity.signing_key.public])
            frontier, _ = frontier.append(leaf_hash(leaf.envelope))
        if read_frontier(connection).root != frontier.root:
            raise SystemExit("the leaves do not lead to the frontier")
    return frontier.size


def measure(kind: str, size: int, batches: int, singles: int) -> dict[str, Any]:
    """Leaves per second in batches and one by one, in turns."""
    with disk_folder() as folder, place(kind, folder) as (url, key):
        sample = sample_receipt(url, key)
        with ledger(url, key) as (database, identity):
            append(database, identity, list(statements(sample, size)))
            together, alone, busy = [], [], []
            for _ in range(batches):
                batch = list(statements(sample, size))
                used = time.process_time()
                together.append(size / append(database, identity, batch))
                busy.append(size / (time.process_time() - used))
                seconds = [append(database, identity, [one]) for one in statements(sample, singles)]
                alone.append(singles / sum(seconds))
            leaves = check(database, identity)
            envelope = len(identity.sign(sample))
    return {
        "store": kind,
        "batch": size,
        "batches": batches,
        "leaves_verified": leaves,
        "envelope_bytes": envelope,
        "leaves_per_second": median(together),
        "slowest_batch": min(together),
        "leaves_per_processor_second": median(busy),
        "one_by_one_per_second": median(alone),
        "ratio": median(together) / median(alone),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure both stores and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batch", type=int, default=500, help="leaves per batch")
    parser.add_argument("--batches", type=int, default=11)
    parser.add_argument("--singles", type=int, default=50, help="leaves one by one after each batch")
    parser.add_argument("--out", type=Path, default=RESULTS / "ledger_append.json")
    given = parser.parse_args()
    rows = []
    for kind in KINDS:
        rows.append(measure(kind, given.batch, given.batches, given.singles))
        print(
            "{store}: {leaves_per_second:.0f} leaves/s in batches of {batch}, {one_by_one_per_second:.0f} one by one "
            "({ratio:.1f} times), {leaves_per_processor_second:.0f} per second of this process's processor time; "
            "{leaves_verified} leaves verified".format(**rows[-1])
        )
    write_result(given.out, {"machine": describe(), "rows": rows})


if __name__ == "__main__":
    main()
