"""What the report says of fits that are fine, and of degenerate ones."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from expunge import Memory
from expunge.memory.fit_report import FitReport
from expunge.preprocessing.width import DEFAULT_NU, choose_width

RNG = np.random.default_rng(3)
CLOUD = RNG.standard_normal((200, 4))


def reported(keys: Any, **options: Any) -> FitReport:
    points = np.asarray(keys, dtype=float)
    options = {"sigma": choose_width(points), "nu": DEFAULT_NU} | options
    return Memory.fit(points, np.zeros(len(points)), **options).report()


def test_a_healthy_fit_has_no_warning_and_shares_that_are_those_of_the_partition() -> None:
    memory = Memory.fit(CLOUD, CLOUD, sigma=choose_width(CLOUD), nu=0.1)
    report = memory.report()
    groups = memory.partition
    assert report.healthy
    assert report.warnings == ()
    assert (report.margin, report.bound) == (groups.margin.size / 200, groups.bound.size / 200)
    assert report.margin + report.bound + report.reserve == pytest.approx(1.0)
    assert (report.entries, report.margin_entries, report.deletable) == (200, groups.margin.size, memory.deletable)
    assert report.nu == pytest.approx(0.1)
    assert 1.0 <= (report.effective_neighbours or 0.0) <= groups.margin.size + groups.bound.size
    assert json.loads(json.dumps(report.to_json()))["warnings"] == []
    assert len(report.lines()) == 2


@pytest.mark.parametrize("nu", [0.3, 1.0])
def test_the_recall_is_that_of_searches_against_the_nearest(nu: float) -> None:
    keys = np.random.default_rng(6).standard_normal((90, 3))
    memory = Memory.fit(keys, keys, sigma=0.6, nu=nu)
    found = []
    for name, key in zip(memory.ids, keys, strict=True):
        nearest = {each.id for each in memory.nearest(key, 11)} - {name}
        hits = [hit.id for hit in memory.search(key, 11) if hit.id != name][:10]
        found.append(len(nearest.intersection(hits)) / 10)
    report = memory.report()
    assert report.recall == pytest.approx(np.mean(found))
    assert f"a search finds {report.recall:.0%} of the 10 nearest" in report.lines()[1]


def test_copies_of_a_key_are_nobodys_neighbours() -> None:
    keys = np.repeat(CLOUD[:6], 3, axis=0)
    # At nu = 1 every entry weighs the same: a search finds all.
    report = reported(keys, nu=1.0)
    assert report.recall == 1.0
    assert reported(np.ones((30, 2))).recall is None


@pytest.mark.parametrize(
    ("keys", "options", "words", "advice"),
    [
        (CLOUD, {"sigma": 0.01}, "no other entry within a width", "rebuild with a wider one, such as"),
        (CLOUD, {"sigma": 1.0}, "on the margin", "rebuild with a wider one, such as"),
        (CLOUD, {"sigma": 50.0}, "all entries look alike", "a narrower one, such as"),
        (CLOUD, {"nu": 0.99}, "at the bound", "smaller nu"),
        (CLOUD * [1, 1, 1, 100], {}, "k3 alone makes", "scale the columns"),
        (np.repeat(CLOUD[:5], 40, axis=0), {}, "only 5 distinct keys", "tell entries apart"),
        (np.ones((30, 2)), {}, "all entries have the same key", "tell them apart"),
        (CLOUD[:5], {}, "only 5 entries", "add more"),
        (np.zeros((0, 2)), {}, "the memory is empty", "admit an entry"),
    ],
)
def test_a_degenerate_fit_is_named_with_what_to_try(
    keys: np.ndarray, options: dict[str, float], words: str, advice: str
) -> None:
    report = reported(keys, **options)
    assert not report.healthy
    assert words in " ".join(report.warnings)
    assert advice in " ".join(report.warnings)
    assert any(words in line for line in report.lines())


def test_a_constant_column_is_named_and_does_no_harm() -> None:
    report = reported(np.c_[CLOUD, np.full(200, 7.0)])
    assert report.healthy
    assert "k4 is the same in every entry" in " ".join(report.warnings)


@pytest.mark.parametrize("turn", [1, -1], ids=["first column coarse", "last column coarse"])
def test_columns_that_count_alike_are_none_too_much(turn: int) -> None:
    """Measurements are rounded, so that many entries are equal in one column."""
    rng = np.random.default_rng(4)
    keys = np.c_[np.round(1.5 * rng.standard_normal(600), 1), rng.standard_normal(600)][:, ::turn]
    report = reported(keys)
    assert report.healthy, report.warnings


def test_without_width_and_sparsity_a_memory_has_the_chosen_ones() -> None:
    memory = Memory.fit(CLOUD, CLOUD)
    assert (memory.sigma, memory.nu) == (choose_width(CLOUD), DEFAULT_NU)
    assert memory.cap == pytest.approx(1 / 20)
    assert memory.report().healthy


def test_the_advice_mends_the_fit() -> None:
    memory = Memory.fit(CLOUD, CLOUD, sigma=0.01, nu=0.1)
    advised = float(memory.report().warnings[0].split("such as ")[1].split(" ")[0])
    assert reported(CLOUD, sigma=advised).healthy


def test_a_pruned_memory_has_the_report_of_the_whole() -> None:
    memory = Memory.fit(CLOUD, CLOUD, sigma=choose_width(CLOUD), nu=0.5)
    before = memory.report()
    memory.prune()
    assert memory.report() == before
    whole = Memory.fit(CLOUD, CLOUD, sigma=choose_width(CLOUD), nu=0.5)
    whole.prune("forget")
    assert whole.report().healthy


def test_the_order_of_admission_does_not_matter() -> None:
    assert reported(CLOUD[::-1]) == reported(CLOUD)


@pytest.mark.slow
def test_a_report_on_a_hundred_thousand_entries_is_quick() -> None:
    keys = np.random.default_rng(0).standard_normal((100_000, 2))
    memory = Memory.fit(keys, keys[:, :1], sigma=choose_width(keys), nu=0.01)
    memory.report()
    started = time.process_time()
    memory.report()
    assert time.process_time() - started < 5.0
