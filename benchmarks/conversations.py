"""Random conversations of agents with a memory, and erasures at random times: what is left, and what is lost.

Conversations of many people run side by side, a group of them over one store. Four programs have the store open, each
a process of its own: an MCP server over standard input and one over HTTP that wants a token and a subject (both asked
by the official client), the service, and an agent with LangGraph's store and a graph with an erasable checkpointer.
At random they remember, derive notes and facts from each other's (over memories), update, give ends, place and release
holds, forget by ids and by meaning, sweep, go on in threads that were erased, and erase persons over any of the four.
Every answer is held to a model that knows the rules and shares no code with the store. Afterwards:

- everything that is there is what the model says, word for word: nobody lost anything, and nothing came back;
- the memory of the four processes, the files of the store, of the checkpointer and the programs' logs hold no mark of
  what was erased, in any of several encodings, and the store's files no secret of an erased entry;
- the whole ledger and every receipt verify, and those that were told over the protocol verify over the protocol.

Groups alternate between SQLite and PostgreSQL. Every second pair keeps copies of its notes in one other system and of
its facts in another, Chroma, pgvector, LanceDB and Qdrant by turns: mirrors that have to follow every erasure. The
programs are asked to overwrite what they free (docs/guides/erasure-on-disk.md); ``--as-it-frees`` leaves that out,
and counts what is then found in their memory. The seed is drawn unless it is given.

    python benchmarks/conversations.py --conversations 1000

Writes benchmarks/results/conversations.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import psycopg

import expunge
from agents.marks import files_under, marks_in_files, marks_in_process, new_mark, processes_of
from agents.programs import OVERWRITING, Place, Programs, running_programs
from agents.talk import Conversation, Talk
from expunge.integrations.embedding import DIMENSION
from expunge.ledger.event import FOUND, parse_event
from expunge.ledger.receipt_format import PREDICATE_TYPE
from expunge.service.tokens import SCOPES, Tokens
from expunge.store import Store
from expunge.store.backends.secret_search import count_windows, windows_of
from expunge.store.mirroring.mirror_pass import MirrorPass
from expunge.verify import verify_inclusion, verify_receipt
from record import describe, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from store.postgres_server import quick_folder, running_server

__all__ = ["Group", "run_group"]

RESULTS = Path(__file__).parent / "results"
KINDS = ("sqlite", "postgresql")
MIRRORS = ("chroma", "pgvector", "lancedb", "qdrant")
# Conversations over one store, and of them those that run side by side.
TOGETHER, AT_A_TIME = 100, 12
# Seconds in which a program lets go of what was erased (docs/guides/erasure-on-disk.md).
LETTING_GO_SECONDS = 60
# Seconds to wait for a pass over a mirror that another program had begun.
CLAIM_SECONDS = 600


@dataclass(frozen=True)
class Group:
    """Conversations over one store; ``mirrors`` has what keeps copies of a memory, by the memory's name.

    ``until`` is the time, in seconds of the epoch, after which they are not begun.
    """

    number: int
    kind: str
    size: int
    seed: int
    overwriting: bool
    mirrors: Mapping[str, str] = field(default_factory=dict)
    until: float = math.inf


@dataclass
class Found:
    """What a group has shown."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Secrets:
    """Every secret that was ever seen in the store's table of them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.seen: set[bytes] = set()
        self.now: set[bytes] = set()

    def look(self) -> None:
        """Read the table."""
        question = "SELECT secret FROM expunge_secrets"
        if self._place.kind == "sqlite":
            with closing(sqlite3.connect(self._place.url.removeprefix("sqlite:///"), timeout=30)) as connection:
                self.now = {bytes(row[0]) for row in connection.execute(question)}
        else:
            with psycopg.connect(self._place.url) as connection:
                self.now = {bytes(row[0]) for row in connection.execute(question)}
        self.seen |= self.now


@contextmanager
def place_of(group: Group) -> Iterator[tuple[Place, Any]]:
    """An empty store of a kind, with the server behind it, if there is one."""
    folder = quick_folder("talks")
    environment = {"PYTHONPATH": os.pathsep.join([*sys.path]), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment |= OVERWRITING if group.overwriting else {}
    key = folder / "key.pem"
    try:
        with ExitStack() as stack:
            server: Any = None
            if group.kind == "postgresql" or "pgvector" in group.mirrors.values():
                server = stack.enter_context(running_server(wal_recycle="off"))
            if group.kind == "sqlite":
                urls = f"sqlite:///{folder / 'agent.db'}", f"sqlite:///{folder / 'threads.db'}"
            else:
                # Two databases: files of threads are searched apart from those of the store.
                urls = server.new_database(), server.new_database()
            yield Place(group.kind, urls[0], key, urls[1], folder, environment), server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def talk_of(group: Group, place: Place, server: Any, seen: Secrets) -> Talk:
    """The conversations of a group, up to the end of its programs."""
    rng = Random(f"{group.seed} {group.number}")
    with expunge.open(place.url, place.key) as store:
        token, _ = Tokens(store).create(SCOPES)
    users = [f"user-{new_mark(rng)}" for _ in range(max(2, group.size // 2))]
    async with running_programs(place, token) as programs:
        talk = Talk(programs, rng)
        facts = {"name": "facts", "dimension": DIMENSION, "value_dimension": 1, "sigma": 1.0, "nu": 0.5}
        await programs.ask("POST", "/v1/memories", facts)
        if group.mirrors:
            await mirror(talk, group, place, server)
        waiting = [
            Conversation(rng.choice(users), f"thread-{new_mark(rng)}", rng.randint(6, 14)) for _ in range(group.size)
        ]
        everyone, running = list(waiting), list[Conversation]()
        while waiting or running:
            while waiting and len(running) < AT_A_TIME:
                running.append(waiting.pop())
            one = rng.choice(running)
            await talk.step(one)
            seen.look()
            one.steps -= 1
            if not one.steps:
                running.remove(one)
        await end(talk, everyone, users)
        seen.look()
        search_processes(talk, programs)
        talk.counts.update({f"calls: {way}": count for way, count in programs.asked.items()})
    return talk


async def mirror(talk: Talk, group: Group, place: Place, server: Any) -> None:
    """Keep copies in other systems from now on."""
    # There is something in each memory, so that each system has a place for it.
    first = Conversation(f"user-{new_mark(talk.rng)}", "", 0)
    await talk.remember(first)
    await talk.admit_fact(first)
    with expunge.open(place.url, place.key) as store:
        for memory, kind in group.mirrors.items():
            database = server.new_database() if kind == "pgvector" else f"{kind}://{place.folder / kind}"
            store.mirror(
                f"{database}#pgvector:{memory}" if kind == "pgvector" else f"{database}#{memory}", memory=memory
            )


def compare_mirrors(talk: Talk, place: Place) -> None:
    """Bring the mirrors up to date, and compare what they answer with and what was found of erased entries."""
    with expunge.open(place.url, place.key) as store:
        for attached in store.mirrors():
            for done in caught_up(store, attached.leaf):
                if done.problem is not None:
                    talk.fail(f"{attached.kind} could not follow: {done.problem}")
            attached = next(one for one in store.mirrors() if one.leaf == attached.leaf)
            if attached.writes or attached.erasures:
                talk.fail(f"{attached.kind} is owed {attached.writes} writes and {attached.erasures} erasures")
            compared = store.check_mirror(attached.leaf)
            talk.counts[f"mirrors: {attached.kind}"] += 1
            talk.counts["copies in mirrors"] += compared.copies
            if not compared.agrees or compared.foreign or compared.copies != len(store[attached.memory or ""]):
                talk.fail(f"{attached.kind} differs from the store: {compared}")
        for leaf in store.receipts():
            if leaf.kind == "mirror_checked":
                findings: Any = parse_event(leaf.statement).facts["findings"]
                for part in findings:
                    talk.counts.update({f"copies found {word}": part[word] for word in FOUND})


def caught_up(store: Store, leaf: int) -> list[MirrorPass]:
    """Pass over a mirror; where a program was ended in the middle of a pass, its claim has to run out first."""
    ends = time.monotonic() + CLAIM_SECONDS
    while True:
        done = store.sync_mirrors(leaf)
        if not any(one.waits for one in done) or time.monotonic() > ends:
            return done
        time.sleep(5)


async def end(talk: Talk, conversations: list[Conversation], users: list[str]) -> None:
    """Release most holds, let every thread that was erased go, and compare everything."""
    talk.done.append("end")
    for _ in range(len(talk.expected.holds) * 2 // 3):
        await talk.release()
    await talk.settle()
    followed = await talk.programs.agent("follow")
    if followed["waiting"]:
        talk.fail(f"threads wait: {followed['waiting']}")
    await talk.compare()
    await talk.compare_threads(conversations)
    await talk.compare_scopes(users)
    await talk.verify_told()
    # The comparison has named those who were erased. What programs do without being asked they do every two seconds.
    last = Conversation(f"user-{new_mark(talk.rng)}", f"thread-{new_mark(talk.rng)}", 0)
    for step in (talk.remember, talk.admit_fact, talk.put_items, talk.say, talk.compare):
        await step(*([] if step == talk.compare else [last]))
    await talk.programs.agent("rest")
    await asyncio.sleep(5)
    talk.counts["entries left"] += len(talk.expected.entries)
    talk.counts["holds left"] += len(talk.expected.holds)
    talk.counts["marks of erased entries"] += len(talk.expected.erased)


def search_processes(talk: Talk, programs: Programs) -> None:
    """Search the memory of every program for marks of what was erased, for as long as it may take to let go of them."""
    ends = time.monotonic() + LETTING_GO_SECONDS
    for name, number in programs.numbers.items():
        while True:
            found = set().union(*(marks_in_process(one) for one in processes_of(number)))
            if not found & talk.expected.erased or time.monotonic() > ends:
                break
            time.sleep(5)
        talk.counts[f"marks of living entries in the process: {name}"] += len(found & talk.expected.living)
        left = found & talk.expected.erased
        talk.counts[f"marks of erased entries in the process: {name}"] += len(left)
        talk.counts["processes searched"] += 1
        if left:
            talk.counts["processes with marks of erased entries"] += 1


def search_files(talk: Talk, place: Place, server: Any, seen: Secrets) -> None:
    """Search every file for marks of what was erased, and for secrets of erased entries."""
    folders = [place.folder]
    if server is not None:
        with expunge.open(place.url, place.key) as store:
            done = store.vacuum()
        talk.counts["vacuums that left something"] += not done.files
        for _ in range(2):
            server.run("SELECT pg_switch_wal()")
            server.run("CHECKPOINT")
        folders.append(server.folder)
    files = files_under(*folders)
    found = marks_in_files(files)
    everything = set().union(*found.values())
    talk.counts["files searched"] += len(files)
    talk.counts["bytes of files searched"] += sum(file.stat().st_size for file in files if file.exists())
    talk.counts["marks of living entries in files"] += len(everything & talk.expected.living)
    for name, marks in found.items():
        if left := marks & talk.expected.erased:
            talk.fail(f"{name} has {len(left)} marks of erased entries, such as {min(left)}")
    talk.counts["marks of erased entries in files"] += len(everything & talk.expected.erased)
    gone = seen.seen - seen.now
    windows = windows_of(gone)
    talk.counts["secrets erased"] += len(gone)
    for file in files:
        if file.exists() and count_windows(file.read_bytes(), windows):
            talk.counts["files with secrets of erased entries"] += 1
            talk.fail(f"{file.name} has secrets of erased entries")


def verify_all(talk: Talk, place: Place) -> None:
    """Verify the store, every receipt and the whole ledger, the last by the command."""
    with expunge.open(place.url, place.key) as store:
        store.verify()
        for leaf in store.receipts():
            talk.counts["leaves"] += 1
            proof = store.inclusion(leaf.index).to_bytes()
            verify_inclusion(leaf.envelope, proof, [store.log_key], store.origin)
            if leaf.statement.predicate_type == PREDICATE_TYPE:
                verify_receipt(leaf.envelope, store.public_keys)
                talk.counts["receipts verified"] += 1
            talk.counts["leaves verified"] += 1
    done = subprocess.run(  # noqa: S603
        [sys.executable, *place.expunge("verify", "ledger", "--json")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **place.environment},
    )
    talk.counts["ledgers"] += 1
    talk.counts["ledgers verified"] += done.returncode == 0
    if done.returncode:
        talk.fail(f"the ledger does not verify: {done.stdout} {done.stderr}")


def run_group(group: Group) -> Found:
    """Run one group, and search and verify what it leaves; nothing where it is too late to begin."""
    found = Found(group.kind)
    if time.time() > group.until:
        return found
    with place_of(group) as (place, server):
        seen = Secrets(place)
        try:
            talk = asyncio.run(talk_of(group, place, server, seen))
        except Exception as problem:
            logs = {log.name: log.read_text()[-2000:] for log in place.folder.glob("*.log")}
            found.failures.append(f"group {group.number}: {problem!r}; logs {logs}")
            return found
        found.counts, found.failures = talk.counts, [f"group {group.number}: {told}" for told in talk.failures]
        talk.failures = found.failures
        compare_mirrors(talk, place)
        search_files(talk, place, server, seen)
        verify_all(talk, place)
        found.counts["conversations"] += group.size
        found.counts["stores"] += 1
    return found


def verdict(counts: Counter[str], failures: list[str], *, overwriting: bool) -> list[str]:
    """What is not as it should be."""
    wrong = list(failures)
    wanted = ["files with secrets of erased entries", "marks of erased entries in files", "entries lost"]
    wanted += ["processes with marks of erased entries"] if overwriting else []
    wrong += [f"{counts[name]} {name}" for name in wanted if counts[name]]
    for some, all_of in (
        ("leaves verified", "leaves"),
        ("ledgers verified", "ledgers"),
        ("late writes refused", "late writes"),
    ):
        if counts[some] != counts[all_of]:
            wrong.append(f"{some}: {counts[some]} of {counts[all_of]}")
    return wrong


def main() -> None:
    """Run all groups, print and write what they have shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--together", type=int, default=TOGETHER, help="conversations over one store")
    parser.add_argument("--stores", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, help="drawn where it is not given")
    parser.add_argument("--jobs", type=int, default=1, help="groups at a time")
    parser.add_argument("--as-it-frees", action="store_true", help="leave the programs' memory allocation as it is")
    parser.add_argument("--unmirrored", action="store_true", help="leave the mirrors out")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no store later than so many minutes")
    parser.add_argument("--out", type=Path, default=RESULTS / "conversations.json")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    seed = secrets.randbits(32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    groups, left, until = list[Group](), chosen.conversations, time.time() + 60 * chosen.minutes
    while left > 0:
        kind = chosen.stores[len(groups) % len(chosen.stores)]
        size, number = min(left, chosen.together), len(groups)
        mirrors = dict[str, str]()
        if number // 2 % 2 == 0 and not chosen.unmirrored:
            turn = number // 4 * 2 + number % 2
            mirrors = {"notes": MIRRORS[turn % 4], "facts": MIRRORS[(turn + 1) % 4]}
        groups.append(Group(number, kind, size, seed, not chosen.as_it_frees, mirrors, until))
        left -= chosen.together
    counts, by_kind, failures, started = Counter[str](), dict[str, Counter[str]](), list[str](), time.perf_counter()
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        for number, found in enumerate(pool.map(run_group, groups), 1):
            counts.update(found.counts)
            by_kind.setdefault(found.kind, Counter()).update(found.counts)
            failures += found.failures
            spent = time.perf_counter() - started
            print(f"  {number} of {len(groups)} stores, {spent:.0f} s, {len(failures)} failures", flush=True)
            for told in found.failures:
                print(f"    {told}"[:1000], flush=True)
    wrong = verdict(counts, failures, overwriting=not chosen.as_it_frees)
    report = {
        "machine": describe(),
        "seed": seed,
        "conversations asked for": chosen.conversations,
        "together": chosen.together,
        "allocator": "as it is" if chosen.as_it_frees else "overwrites what it frees",
        "seconds": time.perf_counter() - started,
        "counts": dict(sorted(counts.items())),
        "by store": {kind: dict(sorted(one.items())) for kind, one in by_kind.items()},
        "failures": wrong,
    }
    write_result(chosen.out, report)
    print(json.dumps({name: value for name, value in report.items() if name not in ("machine", "by store")}, indent=1))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
