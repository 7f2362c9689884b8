"""Erasures that no size and no cap stands in the way of: random stores, each erased subject by subject.

A store has two or three memories, and one subject is in the first two. The first one of store number s has 1 + s mod 25
entries, so that every size from 1 comes up; the others have 1 to 25, the third one perhaps none. Sparsity, prunings
(archive or forget), admissions and owners are random, and every fifth store has a hold. Every twentieth store is in
PostgreSQL, the others are in SQLite. Every subject is erased, in random order, the only subject and the last entry
included. Then:

- every erasure is complete, unless a hold forbids it in a memory: those are the only refusals;
- the receipt of each memory names exactly the subject's entries in it, by the commitments that they were given;
- `Store.verify` passes, and a second handle, in every fifth store, has what remains, and only that;
- no byte of the database's files is a salt of an erased entry, while the salts of all others are found: in SQLite
  after each erasure, in PostgreSQL after the vacuum that the answers to the erasures ask for.

`make never-blocked` prints the counts and writes benchmarks/results/never_blocked.json; a failure stays in the count.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

import expunge
from expunge.attestation.statements import commitment_of
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.store import Store, StoredMemory
from record import describe, write_result
from store.postgres_server import Server, quick_folder, running_server

__all__ = ["Counts", "erase_all_of_one_store"]

RESULTS = Path(__file__).parent / "results"
SIZES = 25
# One store of so many is in PostgreSQL.
ON_POSTGRES = 20


@dataclass
class Counts:
    """What the stores have shown so far."""

    stores: int = 0
    postgres: int = 0  # of the stores, those in PostgreSQL
    memories: int = 0
    erasures: int = 0
    shared: int = 0  # erasures of a subject in several memories
    complete: int = 0
    held: int = 0  # erasures that a hold kept from being complete
    deletions: int = 0  # of one subject in one memory
    refused_for_holds: int = 0
    refused_otherwise: int = 0
    entries_erased: int = 0
    salts_searched: int = 0  # of erased entries
    salts_left: int = 0  # of them, those that were found
    salts_kept: int = 0  # of entries that remain
    salts_missing: int = 0  # of them, those that were not found
    outcomes: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        counted = {"outcomes": dict(sorted(self.outcomes.items())), "sizes": dict(sorted(self.sizes.items()))}
        return vars(self) | counted


@dataclass
class Entry:
    """What is known of one entry from its creation on."""

    memory: str
    subject: str | None
    commitment: bytes
    salt: bytes


def create(store: Store, number: int, rng: np.random.Generator) -> dict[str, Entry]:
    """The memories of one store, with their entries by id."""
    subjects = [None, *(f"person-{owner}" for owner in range(int(rng.integers(1, 5))))]
    shared = subjects[-1]
    entries: dict[str, Entry] = {}
    for place in range(int(rng.integers(2, 4))):
        size = 1 + number % SIZES if place == 0 else int(rng.integers(place == 1, SIZES + 1))
        # A memory of one subject alone is as likely as one of many.
        owners: list[str | None] = list(rng.choice(np.array(subjects, dtype=object), size))
        if rng.random() < 0.5:
            owners = [subjects[int(rng.integers(1, len(subjects)))]] * size
        if place < 2 and shared not in owners:
            owners[int(rng.integers(size))] = shared
        ids = [f"m{place}-{row}" for row in range(size)]
        keys, late = rng.standard_normal((size, 3)), int(size * rng.random()) if rng.random() < 0.4 else size
        if size > 3 and rng.random() < 0.3:
            keys[size // 2] = keys[0]
        columns: dict[str, Any] = {"ids": ids, "subjects": owners, "payloads": [f"note of {one}" for one in ids]}
        first, second = (
            {name: column[part] for name, column in columns.items()} for part in (slice(late), slice(late, None))
        )
        memory = store.create(
            f"memory-{place}",
            keys[:late],
            rng.standard_normal((late, 2)),
            sigma=2.0,
            nu=float(rng.uniform(0.05, 1.0)),
            **first,
        )
        if late < size:
            memory.admit_many(keys[late:], rng.standard_normal((size - late, 2)), **second)
        for one, owner in zip(ids, owners, strict=True):
            entries[one] = known(memory, one, owner)
        for _ in range(int(rng.integers(0, 3))):
            memory.prune("archive" if rng.random() < 0.6 else "forget")
    return entries


def known(memory: StoredMemory, name: str, subject: str | None) -> Entry:
    version = memory.version
    slot, commitment = version.slot(name), commitment_of(version, name)
    if slot is None or commitment is None:
        raise ValueError(f"{name} is not there")
    return Entry(memory.name, subject, commitment, version.entries.salts[slot])


def hold_some(store: Store, entries: dict[str, Entry], rng: np.random.Generator) -> set[tuple[str, str]]:
    """Place a hold; the subjects that it keeps, each with the memory."""
    name = str(rng.choice(list(entries)))
    entry = entries[name]
    if entry.subject is None or rng.random() < 0.3:
        # On somebody who is in no memory, or on an entry of nobody: it keeps no subject.
        store.hold(entry.memory, subject="somebody else", reason="court")
        return set()
    if rng.random() < 0.5:
        store.hold(entry.memory, name, reason="court")
    else:
        store.hold(entry.memory, subject=entry.subject, reason="court")
    return {(entry.memory, entry.subject)}


def erase_all_of_one_store(folder: Path, number: int, seed: int, counts: Counts, server: Server | None = None) -> None:
    """Make a store, erase its subjects, and count what came of it; whatever is not as promised is a failure.

    It is in a database of ``server``, or else in SQLite in the folder.
    """
    rng = np.random.default_rng([seed, number])
    url = f"sqlite:///{folder / 'store.db'}" if server is None else server.new_database()
    key = folder / "store.pem"

    def fail(what: str) -> None:
        counts.failures.append(f"store {number}: {what}")

    with expunge.open(url, signing_key=key) as store:
        entries = create(store, number, rng)
        counts.stores += 1
        counts.postgres += server is not None
        counts.memories += len(store)
        counts.sizes.update(len(store[name]) + len(store[name].warranties()) for name in store)
        held = hold_some(store, entries, rng) if number % 5 == 0 else set()
        subjects = sorted({entry.subject for entry in entries.values() if entry.subject is not None})
        everything = dict(entries)
        for subject in rng.permutation(subjects).tolist():
            owned = erase(store, entries, subject, held, counts, fail)
            if server is None:
                search(read_sqlite(folder), store, owned, entries, counts)
        if server is not None:
            if not store.vacuum().files:
                fail("the vacuum leaves something")
            search(read_postgres(server, url), store, everything, entries, counts)
        try:
            store.verify()
        except expunge.ExpungeError as problem:
            fail(f"does not verify: {problem.code}: {problem}")
        if number % 5:
            return
        with expunge.open(url, signing_key=key) as other:
            for name in other:
                found = {*other[name].ids, *(row.id for row in other[name].warranties())}
                if found != {one for one, entry in entries.items() if entry.memory == name}:
                    fail(f"{name} has {sorted(found)}")


def erase(
    store: Store, entries: dict[str, Entry], subject: str, held: set[tuple[str, str]], counts: Counts, fail: Any
) -> dict[str, Entry]:
    """Erase one subject; what was erased leaves `entries`. Returns the subject's entries from before."""
    owned = {one: entry for one, entry in entries.items() if entry.subject == subject}
    done = store.erase_subject(subject)
    kept = {memory for memory, owner in held if owner == subject}
    counts.erasures += 1
    counts.shared += len({entry.memory for entry in owned.values()}) > 1
    counts.complete += done.complete
    counts.held += bool(kept)
    if done.complete is bool(kept):
        fail(f"the erasure of {subject} is {'' if done.complete else 'not '}complete")
    if {part.memory for part in done.memories} != {entry.memory for entry in owned.values()}:
        fail(f"the erasure of {subject} told of other memories than those with an entry")
    for part in done.memories:
        counts.deletions += 1
        counts.outcomes[part.outcome] += 1
        if part.outcome in ("refused", "failed"):
            counts.refused_for_holds += part.memory in kept
            counts.refused_otherwise += part.memory not in kept
            continue
        gone = {one: entry for one, entry in owned.items() if entry.memory == part.memory}
        stated = None if part.receipt is None else parse_predicate(store.leaf(part.receipt.index).statement)
        named = () if stated is None else stated.applied.commitments
        if list(named) != sorted(entry.commitment.hex() for entry in gone.values()):
            fail(f"the receipt of {subject} in {part.memory} does not name their {len(gone)} entries")
        for one in gone:
            counts.entries_erased += 1
            del entries[one]
    return owned


def search(content: bytes, store: Store, before: dict[str, Entry], entries: dict[str, Entry], counts: Counts) -> None:
    """Look for the salts of entries that were there before and are gone, and for those of all that remain."""
    for one, entry in before.items():
        if one not in entries:
            counts.salts_searched += 1
            counts.salts_left += entry.salt in content
    forgotten = {row.id for name in store for row in store[name].warranties() if row.mode == "forget"}
    for one, entry in entries.items():
        # A forgotten entry has lost its salt with its content.
        if one not in forgotten:
            counts.salts_kept += 1
            counts.salts_missing += entry.salt not in content


def read_sqlite(folder: Path) -> bytes:
    """The database with its log."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("store.db*")))


def read_postgres(server: Server, url: str) -> bytes:
    """Every file of one database of a server, once the server has written them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        found = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    (number,) = found or (0,)
    return b"".join(path.read_bytes() for path in sorted((server.folder / "base" / str(number)).iterdir()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "never_blocked.json")
    chosen = parser.parse_args()
    counts, started = Counts(), time.perf_counter()
    with running_server() as server:
        for number in range(chosen.stores):
            # On a disk every commit would wait for it; here there is no power to fail.
            folder = quick_folder("blocked")
            try:
                on_postgres = number % ON_POSTGRES == ON_POSTGRES - 1
                erase_all_of_one_store(folder, number, chosen.seed, counts, server if on_postgres else None)
            except Exception:
                counts.failures.append(f"store {number}: {traceback.format_exc(limit=3)}")
            finally:
                shutil.rmtree(folder)
            if number % 100 == 99:
                seconds = time.perf_counter() - started
                print(f"  {number + 1} stores, {seconds:.0f} s, {len(counts.failures)} failures", flush=True)
    report = {"machine": describe(), "seed": chosen.seed, "seconds": time.perf_counter() - started, **counts.to_json()}
    write_result(chosen.out, report)
    print(json.dumps({name: value for name, value in report.items() if name != "machine"}, indent=1))
    bad = counts.failures or counts.refused_otherwise or counts.salts_left or counts.salts_missing
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
