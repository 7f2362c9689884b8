"""Forgetting by meaning: what a request such as "my debts" would erase, beside what it should.

`forgetting_notes.json` has notes of two invented people, and requests to forget one topic each. For every note it says
which topics it tells of, and what kind it is:

- *plain*: says it in the request's words; *paraphrase*: without them;
- *shared*: tells of two topics at once, and should go with either;
- *derived*: a summary, made from others, which goes when one of its sources goes;
- *near*: has the request's words, or a neighbouring matter, and should stay; *lookalike*: somebody of a similar name.

A request goes to the tool *forget* of the MCP server, as an agent would send it, for the notes of its subject. The
answer is a preview: the first k notes, with everything made from them. Beside it stands a search by meaning alone,
and what a threshold of the score would take instead of a number of notes. Two rates are means over the requests, with
95% percentile intervals of 10,000 bootstrap resamples. *Missed* is the share of the notes to be forgotten that would
stay: a person cannot see these in a preview. *False* is the share of the notes taken that should stay: a person erases
these who confirms a preview without reading it.

    python benchmarks/forgetting.py

Writes benchmarks/results/forgetting.json.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import expunge
from durable import disk_folder
from expunge.integrations.embedding import WORDS, minilm
from expunge.integrations.mcp import Tools
from expunge.integrations.notebook import Notebook
from record import describe, write_result
from selection_results import RESAMPLES, interval

RESULTS = Path(__file__).parent / "results" / "forgetting.json"
NOTES = Path(__file__).parent / "forgetting_notes.json"
COUNTS = (5, 10, 20)
# Thresholds of the score, by mode of search: of a share from 0 to 1, and of a distance with its sign changed.
THRESHOLDS = {"hybrid": (0.8, 0.6, 0.5, 0.4), "meaning": (-0.9, -1.0, -1.1, -1.2)}
# What each embedder is asked by.
SEARCHES = (("words", "text"), ("minilm", "meaning"), ("minilm", "hybrid"))


class Request(NamedTuple):
    """What somebody asks to forget."""

    topic: str
    subject: str
    about: str


class Told(NamedTuple):
    """One note of the data set."""

    id: str
    subject: str
    kind: str
    topics: list[str]
    text: str
    made_from: list[str]


class DataSet(NamedTuple):
    """The requests and the notes."""

    requests: list[Request]
    notes: list[Told]

    def targets(self, request: Request) -> set[str]:
        """Ids of the notes that a request should erase."""
        return {note.id for note in self.notes if note.subject == request.subject and request.topic in note.topics}


def data_set(path: Path = NOTES) -> DataSet:
    """Read the data set."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return DataSet([Request(**row) for row in content["requests"]], [Told(*row) for row in content["notes"]])


def write_notes(made: Notebook, notes: Iterable[Told]) -> None:
    """Write the notes; sources before what was made from them."""
    told = sorted(notes, key=lambda note: len(note.made_from) > 0)
    for batch in ([note for note in told if not note.made_from], [note for note in told if note.made_from]):
        made.write_many(
            list(made.keys_of([note.text for note in batch])),
            ids=[note.id for note in batch],
            subjects=[note.subject for note in batch],
            payloads=[note.text for note in batch],
            derived_from=[note.made_from for note in batch],
        )


def with_derived(notes: Notebook, ids: list[str]) -> set[str]:
    """Notes, and everything that would go with them."""
    return {*ids, *notes.made_from(ids)}


class Score:
    """Counts over the requests for one way of choosing what to erase."""

    def __init__(self) -> None:
        self.missed: list[float] = []
        self.false: list[float] = []
        self.taken = 0
        self.kinds: dict[str, Counter[str]] = {"missed": Counter(), "to forget": Counter(), "false": Counter()}

    def add(self, kinds: dict[str, str], targets: set[str], taken: set[str]) -> None:
        """Enter one request: what should go, and what would."""
        self.missed.append(len(targets - taken) / len(targets))
        self.false.append(len(taken - targets) / len(taken) if taken else 0.0)
        self.taken += len(taken)
        for what, ids in (("missed", targets - taken), ("to forget", targets), ("false", taken - targets)):
            self.kinds[what].update(kinds[name] for name in ids)

    def row(self) -> dict[str, Any]:
        """The record."""
        found = {"missed": measured(self.missed), "false": measured(self.false)}
        return found | {"taken": self.taken, "kinds": {name: dict(count) for name, count in self.kinds.items()}}


def measured(values: list[float]) -> dict[str, float]:
    """Mean and interval."""
    rates = np.array(values)
    low, high = interval(rates)
    return {"mean": float(rates.mean()), "low": low, "high": high}


def measure(tools: Tools, mode: Any, data: DataSet) -> list[dict[str, Any]]:
    """Every way of choosing, for one way of searching."""
    kinds = {note.id: note.kind for note in data.notes}
    notes, ways = tools.notebook, dict[str, Score]()
    for request in data.requests:
        hits = notes.search(request.about, count=len(data.notes), mode=mode, subject=request.subject)
        chosen = {f"first {count}": with_derived(notes, [hit.id for hit in hits[:count]]) for count in COUNTS}
        if notes.embedder is not None and mode == notes.embedder.mode:
            for count in COUNTS:
                preview = tools.forget(about=request.about, subject=request.subject, k=count).preview or []
                chosen[f"first {count}"] = {note.id for note in preview}
        for least in THRESHOLDS.get(mode, ()):
            chosen[f"score from {least}"] = with_derived(notes, [hit.id for hit in hits if hit.score >= least])
        for way, taken in chosen.items():
            ways.setdefault(way, Score()).add(kinds, data.targets(request), taken)
    return [{"chosen": way} | score.row() for way, score in ways.items()]


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    data, rows = data_set(), []
    with disk_folder() as folder, expunge.open(f"sqlite:///{folder}/forgetting.db") as store:
        for name, mode in SEARCHES:
            label = f"{name} {mode}"
            tools = Tools(store, memory=label, embed=WORDS if name == "words" else minilm())
            write_notes(tools.notebook, data.notes)
            rows += [{"embedder": name, "mode": mode} | row for row in measure(tools, mode, data)]
    for row in rows:
        rates = "  ".join(
            "{} {mean:.3f} [{low:.3f}, {high:.3f}]".format(name, **row[name]) for name in ("missed", "false")
        )
        print(f"{row['embedder']:7s} {row['mode']:8s} {row['chosen']:16s} {rates}  {row['kinds']}")
    content = {
        "machine": describe(),
        "requests": len(data.requests),
        "notes": len(data.notes),
        "to forget": sum(len(data.targets(request)) for request in data.requests),
        "resamples": RESAMPLES,
        "rows": rows,
    }
    write_result(given.out, content)


if __name__ == "__main__":
    main()
