"""The page of results says what the measurements say, and the claims hold in them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import selection_results
import selection_tables
from expunge.selection import POLICIES

TABLES = json.loads((selection_tables.RESULTS / "selection.json").read_text(encoding="utf-8"))["tables"]


def test_the_page_is_up_to_date() -> None:
    page = selection_tables.PAGE.read_text(encoding="utf-8")
    assert selection_tables.filled(page, selection_tables.blocks()) == page
    for figure in ("selection.png", "selection-stay.png"):
        assert f"]({figure})" in page
        assert (selection_tables.PAGE.parent / figure).is_file()


def test_cover_beats_every_policy_on_rare_groups() -> None:
    arms = TABLES["redundancy, 20 other seeds"]["arms"]
    assert all(arms["cover"]["low"] > arms[name]["high"] for name in POLICIES if name != "cover")
    differences = TABLES["redundancy, 20 other seeds"]["differences"]
    assert all(differences[f"cover - {name}"]["low"] > 0.0 for name in ("support", "warranted", "k-centre", "uniform"))


@pytest.mark.parametrize("name", ["control, half kept", "text, locomo, 25%"])
def test_cover_is_not_worse_than_uniform(name: str) -> None:
    assert TABLES[name]["differences"]["cover - uniform"]["low"] >= 0.0


def test_cover_is_not_shown_to_be_worse_than_uniform_on_memorybank() -> None:
    # 99 questions: the page says that this interval includes zero, and it must not claim more.
    difference = TABLES["text, memorybank, 25%"]["differences"]["cover - uniform"]
    assert difference["low"] < 0.0 < difference["mean"]


def test_the_papers_numbers_lie_within_the_seeds() -> None:
    others = TABLES["redundancy, 20 other seeds"]["arms"]
    for arm, published in selection_tables.PAPER_REDUNDANCY.items():
        low, high = others[arm]["spread"]
        assert low <= float(published) <= high
    trained = TABLES["control, trained"]["arms"]
    for arm, recall in (("without", 0.970), ("with the gate", 0.955)):
        assert trained[arm]["spread"][0] <= recall <= trained[arm]["spread"][1]


def test_intervals_are_percentile_bootstraps() -> None:
    values = np.random.default_rng(0).standard_normal(400)
    low, high = selection_results.interval(values)
    error = values.std() / 20.0
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)
    assert selection_results.interval(np.ones(5)) == (1.0, 1.0)
