from __future__ import annotations

import math

import numpy as np
import pytest

from expunge.audit.context_selection.policy_arms import ArmResult
from expunge.audit.context_selection.redundancy import TRIALS, draw_contexts, group_recall, measure_seed, measure_trials
from expunge.selection import POLICIES


@pytest.fixture(scope="module")
def rows() -> list[ArmResult]:
    return measure_trials(0, TRIALS, "seed 0")


def mean(rows: list[ArmResult], arm: str) -> float:
    return float(np.mean([row.recall for row in rows if row.arm == arm]))


def test_the_papers_numbers_to_every_printed_digit(rows: list[ArmResult]) -> None:
    published = {"support": 0.861, "attention": 0.319, "uniform": 0.472, "recency": 0.0, "full": 0.722}
    assert {arm: round(mean(rows, arm), 3) for arm in published} == published
    shares = [row.budget / row.size for row in rows if row.arm == "support"]
    assert round(float(np.mean(shares)), 2) == 0.56


def test_ours_beats_every_other_policy_in_pairs(rows: list[ArmResult]) -> None:
    by_trial = {(row.arm, row.trial): row for row in rows}
    for arm in POLICIES:
        if arm == "cover":
            continue
        gains = [by_trial["cover", trial].recall - by_trial[arm, trial].recall for trial in range(TRIALS)]
        # Two standard errors, on the trials of the paper's seed alone.
        assert np.mean(gains) > 2.0 * np.std(gains, ddof=1) / math.sqrt(TRIALS), arm
    # Not at the price of the common groups: sampling error of uniform's recall of them.
    common = {arm: np.mean([row.common for row in rows if row.arm == arm and row.common]) for arm in POLICIES}
    assert common["cover"] > common["uniform"] - 0.02


def test_every_policy_keeps_the_same_number(rows: list[ArmResult]) -> None:
    for trial in range(TRIALS):
        budgets = {row.budget for row in rows if row.trial == trial and row.arm != "full"}
        assert len(budgets) == 1


def test_recall_counts_the_largest_share() -> None:
    context = next(iter(draw_contexts(3, 1)))
    everything = np.arange(len(context.keys))
    votes = []
    for query, asked in zip(context.queries[context.held_out], context.asked[context.held_out], strict=True):
        shares = [0.0] * 12
        for key, group in zip(context.keys, context.groups, strict=True):
            shares[group] += math.exp(-(math.dist(query, key) ** 2) / 1.2**2)
        votes.append(shares.index(max(shares)) == asked)
    assert group_recall(context, everything) == (np.mean(votes[:6]), np.mean(votes[6:]))
    assert context.held_out.sum() == 12


def test_a_seed_is_the_mean_of_its_trials() -> None:
    coarse = {row.arm: row for row in measure_seed(5, 3, "few", 5)}
    fine = measure_trials(5, 3, "few")
    for arm, row in coarse.items():
        assert row.recall == pytest.approx(mean(fine, arm), abs=1e-15)
        assert row.trial == 5
