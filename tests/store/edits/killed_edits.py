"""Kill a process in the middle of an edit, again and again, and look at what it left."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import expunge
from expunge.store import Store, StoredMemory
from expunge.store.edits import crash_points

from ..byte_search import needles_of, traces
from ..sample_memory import arrival, fill
from .child_work import EDITS
from .fork_server import ForkServer

__all__ = ["KilledEdits", "at_points", "at_random", "at_statements"]

# More than any edit takes; counting further is harmless.
STATEMENTS = 26


class KilledEdits:
    """One store that is edited by processes that die."""

    def __init__(self, url: str, key: Path, fork_server: ForkServer, files: Iterable[Path] = ()) -> None:
        self.url, self.key, self.fork_server = url, key, fork_server
        self.files = list(files)
        self.number = self.refills = 0
        self.fates: Counter[str] = Counter()
        with expunge.open(url, key) as store:
            fill(store)

    def run_edit(
        self, verb: str, moment: list[Any] | None = None, kill_after: float | None = None, *, retries: int = 2
    ) -> bool:
        """One edit with a death in it, what must hold afterwards, and the retry. Returns whether it died."""
        self.number += 1
        with expunge.open(self.url, self.key) as store:
            memory = store["icu"]
            while memory.deletable < 10:
                self.refills += 1
                memory.admit(**arrival(100_000 + self.refills))
            before = self._look(store)
            needles = needles_of(memory, [*memory.ids, *memory.version.warranties.archive])
            names = self._victims(memory, verb)
        given: dict[str, Any] = {"url": self.url, "key": str(self.key), "name": "icu"}
        given |= {"verb": verb, "number": self.number, "names": names}
        (fate,) = self.fork_server.run({"work": "edit", "with": {**given, "moment": moment}, "kill_after": kill_after})
        assert "error" not in fate, fate
        died = "signal" in fate
        with expunge.open(self.url, self.key) as store:
            store.verify()
            after = self._look(store)
            self._check(before, after, store, needles)
            # Whoever did not get an answer asks again, and gets the one answer there is, however often.
            answers = [
                self.fork_server.run({"work": "edit", "with": {**given, "moment": None}})[0] for _ in range(retries)
            ]
            assert all(answer == answers[0] and "result" in answer for answer in answers), answers
            final = self._look(store)
            if after["edit"] > before["edit"]:
                assert (final["digest"], final["edit"]) == (after["digest"], after["edit"]), "applied twice"
            assert final["edit"] <= before["edit"] + 1
        applied = "applied" if after["edit"] > before["edit"] else "not applied"
        self.fates[f"{'died' if died else 'lived'}, {applied}"] += 1
        return died

    def span(self) -> float:
        """Seconds that a process takes from its start to the end of an edit, give or take."""
        self.run_edit("admit", retries=0)
        started = time.perf_counter()
        self.number += 1
        given = {"url": self.url, "key": str(self.key), "name": "icu", "verb": "admit", "number": self.number}
        self.fork_server.run({"work": "edit", "with": {**given, "names": [], "moment": None}})
        return time.perf_counter() - started

    def _victims(self, memory: StoredMemory, verb: str) -> list[str]:
        """Live, archived and forgotten entries, one or several; or a subject."""
        rng = random.Random(self.number)
        if verb == "subject":
            return [rng.choice([subject for subject in memory.subjects if subject is not None] or ["nobody"])]
        known = sorted([*memory.ids, *(row.id for row in memory.warranties())])
        return rng.sample(known, rng.choice([1, 1, 2, 3]))

    @staticmethod
    def _look(store: Store) -> dict[str, Any]:
        memory = store["icu"]
        return {
            "digest": memory.digest,
            "edit": memory.edit,
            "ids": memory.ids,
            "leaves": store.size,
            "pruned": [row.id for row in memory.warranties()],
        }

    def _check(self, before: dict[str, Any], after: dict[str, Any], store: Store, needles: dict[str, bytes]) -> None:
        """All of the edit or nothing of it; a receipt if and only if the edit is there; erased means erased."""
        added = [leaf.kind for leaf in store.receipts(start=before["leaves"])]
        applied = [kind for kind in added if kind not in ("refused", "noop", "expired", "subject_erased")]
        assert len(applied) == after["edit"] - before["edit"] <= 1
        if not applied:
            assert {name: after[name] for name in after if name != "leaves"} == {
                name: before[name] for name in before if name != "leaves"
            }
        left = {*after["ids"], *store["icu"].version.warranties.archive}
        gone = {what: needle for what, needle in needles.items() if what.split(" of ")[1] not in left}
        assert traces(self.files, gone) == set()


def at_points(verbs: Iterable[str] = ("delete",)) -> Iterator[tuple[str, list[Any]]]:
    """Every point of every verb."""
    for verb in verbs:
        for point in crash_points.CRASH_POINTS:
            yield verb, ["point", point]


def at_statements(verbs: Iterable[str]) -> Iterator[tuple[str, list[Any]]]:
    """Before and after every statement of every verb."""
    for verb in verbs:
        for number in range(1, STATEMENTS + 1):
            for side in ("before", "after"):
                yield verb, [side, number]


def at_random(runs: int, longest: float, seed: int = 0) -> Iterator[tuple[str, float]]:
    """Any verb, killed from outside at any time."""
    rng = random.Random(seed)
    for _ in range(runs):
        yield rng.choice(list(EDITS)), rng.uniform(0.0, longest)
