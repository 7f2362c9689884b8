"""The benchmarks of agents' memories count what they say: LoCoMo's recall, and forgetting by meaning."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

import expunge
from expunge.datasets import Dialogue
from expunge.integrations.embedding import WORDS
from expunge.integrations.mcp import Tools
from forgetting import RESULTS, Score, data_set, measure, write_notes
from locomo import Recall, last_half, measured


def test_recall_is_the_share_of_the_evidence() -> None:
    talk = cast(Dialogue, SimpleNamespace(evidence=(("D1:1", "D1:2"), ("D2:9",))))
    answers = [["D1:2", *(f"D7:{number}" for number in range(6)), "D1:1"], ["D3:3"]]
    recall = Recall()
    recall.ask("ours", talk, answers.__getitem__)
    (row,) = recall.rows()
    assert [row[f"recall@{count}"]["mean"] for count in (5, 10, 25)] == [0.25, 0.5, 0.5]
    assert row["recall@5"]["questions"] == 2


def test_intervals_are_over_conversations() -> None:
    """Questions of one conversation that are all alike say as much as one; the mean is over questions."""
    found = measured([np.ones(1000), np.zeros(10)])
    assert found["mean"] == pytest.approx(1000 / 1010)
    assert (found["low"], found["high"], found["questions"]) == (0.0, 1.0, 1010)
    assert last_half(["a", "b", "c", "d"]) == ["c", "d"]


def test_rates_of_forgetting() -> None:
    kinds = {"a": "plain", "b": "paraphrase", "c": "near", "d": "derived"}
    score = Score()
    score.add(kinds, {"a", "b"}, {"a", "c", "d"})
    score.add(kinds, {"a"}, set())
    row = score.row()
    assert (row["missed"]["mean"], row["false"]["mean"], row["taken"]) == (0.75, (2 / 3) / 2, 3)
    assert row["kinds"]["missed"] == {"paraphrase": 1, "plain": 1}
    assert row["kinds"]["false"] == {"near": 1, "derived": 1}


def test_the_notes_to_forget() -> None:
    data = data_set()
    assert len({note.id for note in data.notes}) == len(data.notes)
    known = {note.id: note for note in data.notes}
    for request in data.requests:
        targets = data.targets(request)
        assert {known[name].kind for name in targets} >= {"plain", "paraphrase"}, request
        # What was made from a note that goes has to be among what should go: it goes in any case.
        for note in data.notes:
            if targets & {*note.made_from}:
                assert note.id in targets, (request, note.id)
    assert {note.kind for note in data.notes} == {"plain", "paraphrase", "shared", "derived", "near", "lookalike"}


def test_the_rates_of_forgetting_by_words_are_those_of_the_record(tmp_path: Path) -> None:
    """The search that needs no model is run anew over all requests, through the tool, and held to what is published."""
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    wanted = [row for row in record["rows"] if row["embedder"] == "words"]
    assert len(wanted) == 3
    data = data_set()
    with expunge.open(f"sqlite:///{tmp_path / 'forgetting.db'}") as store:
        tools = Tools(store, embed=WORDS)
        write_notes(tools.notebook, data.notes)
        found = {row["chosen"]: row for row in measure(tools, "text", data)}
    for row in wanted:
        mine = found[row["chosen"]]
        assert (mine["taken"], mine["kinds"]) == (row["taken"], row["kinds"])
        for rate in ("missed", "false"):
            assert mine[rate]["mean"] == pytest.approx(row[rate]["mean"], abs=1e-12)
