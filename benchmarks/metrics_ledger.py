"""Metrics of the service beside its ledger, after mixed edits and jobs.

A small ward is edited over HTTP in every way there is: admissions one by one, together and in batches, deletions by id
and by subject, prunings, rebuilds, refusals, repeated requests, dry runs, holds, erasures and sweeps as jobs, erasures
that were due, memories that are created and dropped, and edits by the library in the same process. Then what `/metrics`
counts has to be what the ledger has gained: leaves by kind, edits by outcome, refusals, erased entries.

    make metrics
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from expunge.errors import Refused
from expunge.ledger.receipt_format import PREDICATE_TYPE
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.service.settings import Settings
from expunge.store import Store
from record import describe, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from service.service_client import ServiceClient, fill_store

RESULTS = Path(__file__).parent / "results" / "metrics_ledger.json"
MEMORIES = ("icu", "other")
# What the outcomes of edits are called; other kinds of leaves are events, and lists that follow a receipt.
OUTCOMES = frozenset(
    {"admitted", "certified_zero", "decrement", "refitted", "emptied", "refused", "noop", "pruned", "rebuilt"}
)


@dataclass
class Play:
    """One service, and what is asked of it."""

    service: ServiceClient
    seed: int
    asked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._count = 0
        self._last: tuple[str, dict[str, Any], str] | None = None

    def step(self) -> None:
        """Ask for one thing."""
        kinds: list[tuple[str, float, Callable[[str], None]]] = [
            ("admit", 6, self._admit),
            ("together", 1, self._together),
            ("batch", 1, self._batch),
            ("delete", 5, self._delete),
            ("delete subject", 1, self._delete_subject),
            ("held", 2, self._held),
            ("repeat", 1, self._repeat),
            ("dry run", 1, self._dry_run),
            ("prune", 1, self._prune),
            ("rebuild", 0.5, self._rebuild),
            ("library", 1, self._library),
            ("erasure", 3, self._erasure),
            ("due", 0.5, self._due),
            ("sweep", 0.5, self._sweep),
            ("create and drop", 0.5, self._create_and_drop),
        ]
        weights = np.array([weight for _, weight, _ in kinds])
        name, _, act = kinds[int(self._random.choice(len(kinds), p=weights / weights.sum()))]
        self.asked[name] += 1
        act(str(self._random.choice(MEMORIES)))

    def finish(self) -> None:
        """Wait until what is due is due, and have the service do it."""
        time.sleep(1.2)
        self.service.app.state.background._next_due = self.service.app.state.background._next_sweep = 0.0
        self.service.app.state.background.step()
        self._job("/v1/retention", None)

    def _post(self, path: str, body: Any, **headers: Any) -> dict[str, Any]:
        answer = self.service.request("POST", path, body, **headers)
        assert answer.status_code in (200, 201, 202, 404, 409), answer.text
        content: dict[str, Any] = answer.json()
        return content

    def _job(self, path: str, body: Any, **headers: Any) -> dict[str, Any]:
        done = self._post(path, body, Prefer="wait=60", **headers)
        assert done.get("state", "done") == "done", done
        return done

    def _new(self, **more: Any) -> dict[str, Any]:
        self._count += 1
        key = self._random.standard_normal(4).tolist()
        subject = f"patient-{self._random.integers(12)}"
        return {"id": f"n{self._count}", "key": key, "value": [float(key[0]), 0.0], "subject": subject, **more}

    def _ids(self, memory: str, count: int) -> list[str]:
        ids = sorted(self.service.store[memory].ids)
        return [ids[row] for row in self._random.choice(len(ids), size=min(count, len(ids)), replace=False)]

    def _admit(self, memory: str) -> None:
        body, key = self._new(), f"key-{self._count}"
        self._last = (f"/v1/memories/{memory}/admit", body, key)
        self._post(self._last[0], body, Idempotency_Key=key)

    def _together(self, memory: str) -> None:
        self._post(f"/v1/memories/{memory}/entries", {"entries": [self._new() for _ in range(4)]})

    def _batch(self, memory: str) -> None:
        entries = [self._new() for _ in range(3)]
        self._post(f"/v1/memories/{memory}/admit/batch", {"entries": [*entries, entries[0]], "on_error": "continue"})

    def _delete(self, memory: str) -> None:
        if ids := self._ids(memory, 1):
            self._post(f"/v1/memories/{memory}/delete", {"id": ids[0]})

    def _delete_subject(self, memory: str) -> None:
        self._post_known(f"/v1/memories/{memory}/delete", {"subject": f"patient-{self._random.integers(12)}"})

    def _post_known(self, path: str, body: Any) -> None:
        """Post where the subject may have nothing in the memory."""
        assert self.service.request("POST", path, body).status_code in (200, 409, 422)

    def _held(self, memory: str) -> None:
        """Hold an entry, and try to erase it as an edit and, by its subject, as a job."""
        ids = self._ids(memory, 1)
        if not ids:
            return
        entry = self.service.request("GET", f"/v1/memories/{memory}/entries/{ids[0]}", status=200)
        held = self._post(f"/v1/memories/{memory}/holds", {"id": ids[0], "reason": "a case"})
        refused = self.service.request("POST", f"/v1/memories/{memory}/delete", {"id": ids[0]})
        assert refused.status_code == 409
        if entry["subject"] is not None:
            self._job("/v1/erasures", {"subject": entry["subject"]})
        self.service.request("DELETE", f"/v1/holds/{held['number']}", status=200)

    def _repeat(self, memory: str) -> None:
        if self._last is not None:
            path, body, key = self._last
            self._post(path, body, Idempotency_Key=key)

    def _dry_run(self, memory: str) -> None:
        if ids := self._ids(memory, 2):
            self._post(f"/v1/memories/{memory}/delete?dry_run=true", {"ids": ids})

    def _prune(self, memory: str) -> None:
        mode = "forget" if self._random.random() < 0.3 else "archive"
        self._post(f"/v1/memories/{memory}/prune", {"mode": mode})

    def _rebuild(self, memory: str) -> None:
        self._post_known(f"/v1/memories/{memory}/rebuild", {"nu": float(self._random.uniform(0.2, 0.5))})

    def _library(self, memory: str) -> None:
        stored = self.service.store[memory]
        try:
            if ids := self._ids(memory, 3):
                stored.delete(ids)
            stored.admit(**self._new())
        except Refused:
            pass

    def _erasure(self, memory: str) -> None:
        subject = f"patient-{self._random.integers(12)}"
        key = f"erase-{self._count}-{self.asked['erasure']}"
        for _ in range(2):
            self._job("/v1/erasures", {"subject": subject}, Idempotency_Key=key)

    def _due(self, memory: str) -> None:
        self._post("/v1/erasures", {"subject": f"patient-{self._random.integers(12)}", "after": 1})

    def _sweep(self, memory: str) -> None:
        ends = datetime.now(UTC) + timedelta(seconds=1.5)
        self._post(f"/v1/memories/{memory}/admit", self._new(expires=ends.isoformat()))
        self._job("/v1/retention", None)

    def _create_and_drop(self, memory: str) -> None:
        name = f"extra-{self._count}-{self.asked['create and drop']}"
        body = {"name": name, "keys": [[0.0], [1.0]], "values": [1.0, 2.0], "sigma": 1.0, "cap": 1.0}
        self._post("/v1/memories", body)
        self._post(f"/v1/memories/{name}/delete", {"ids": ["0"]})
        self.service.request("DELETE", f"/v1/memories/{name}", status=200)


def of_ledger(store: Store, start: int) -> dict[str, float]:
    """What the ledger has gained since it had so many leaves, by the names of metrics."""
    leaves = [leaf for leaf in store.receipts(start=start) if leaf.index >= start]
    found: Counter[str] = Counter()
    for leaf in leaves:
        found[f'expunge_leaves_total{{kind="{leaf.kind}"}}'] += 1
        if leaf.kind in OUTCOMES:
            found[f"edits {leaf.kind}"] += 1
        if leaf.statement.predicate_type == PREDICATE_TYPE and leaf.kind in (
            *("certified_zero", "decrement", "refitted", "emptied"),
        ):
            found["expunge_erased_entries_total"] += parse_predicate(leaf.statement).applied.count
    return dict(found)


def of_metrics(service: ServiceClient) -> dict[str, float]:
    """The same, from the service's metrics."""
    text = service.request("GET", "/metrics", scopes=("audit",)).text
    found: dict[str, float] = defaultdict(float)
    for name, value in re.findall(r"^(\w+(?:\{.*\})?) ([-+0-9.e]+)$", text, re.M):
        if name.startswith("expunge_leaves_total") or name == "expunge_erased_entries_total":
            found[name] += float(value)
        if outcome := re.fullmatch(r'expunge_edits_total\{action="\w+",outcome="(\w+)"\}', name):
            found[f"edits {outcome.group(1)}"] += float(value)
    return {name: value for name, value in found.items() if value}


def play(service: ServiceClient, count: int, seed: int) -> tuple[dict[str, float], dict[str, float], Counter[str]]:
    """What the ledger has gained and what the metrics count, after so many things were asked for; and which."""
    start, playing = service.store.size, Play(service, seed)
    for _ in range(count):
        playing.step()
    playing.finish()
    return of_ledger(service.store, start), of_metrics(service), playing.asked


def main() -> None:
    """Play, compare, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=24)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ward.db"
        fill_store(url)
        service, started = ServiceClient(Settings(url=url, retain_seconds=0.0)), time.monotonic()
        with service.client:
            ledger, metrics, asked = play(service, given.edits, given.seed)
            service.store.verify()
        differ = {name: (ledger.get(name), metrics.get(name)) for name in ledger.keys() | metrics.keys()}
        differ = {name: pair for name, pair in differ.items() if pair[0] != pair[1]}
    result = {
        "asked": dict(sorted(asked.items())),
        "ledger": dict(sorted(ledger.items())),
        "differ": differ,
        "seconds": round(time.monotonic() - started, 1),
        "seed": given.seed,
        "machine": describe(),
    }
    write_result(RESULTS, result)
    for name, value in result["ledger"].items():
        print(f"{value:6g}  {name}")
    print(f"{len(differ)} of {len(ledger)} counts differ, after {given.edits} requests in {result['seconds']} s")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
