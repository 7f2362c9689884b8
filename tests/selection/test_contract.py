"""One suite that every policy runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from expunge import InputError, selection
from expunge.audit.context_selection.attempted_policies import ATTEMPTS
from expunge.selection import POLICIES, Context, Policy, matched_budget, select
from expunge.selection.policies import selected
from expunge.types import IndexArray

from .contexts import CONTEXTS

ALL = {**POLICIES, **ATTEMPTS}
ORDERED = {"recency", "window", "attention, half recent"}


def rows_of(policy: Policy, context: Context, budget: int, seed: int = 0) -> IndexArray:
    return selected(policy, context, budget, np.random.RandomState(seed))


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", ALL)
def test_a_policy_keeps_exactly_its_budget(name: str, context: str) -> None:
    given = CONTEXTS[context]
    before = given.keys.tobytes()
    for budget in sorted({1, len(given) // 3 or 1, len(given) - 1, len(given)}):
        kept = rows_of(ALL[name], given, budget)
        assert kept.dtype == np.int64
        assert kept.shape == (budget,)
        assert np.all(np.diff(kept) > 0)
        assert 0 <= kept[0] <= kept[-1] < len(given)
    assert given.keys.tobytes() == before


@pytest.mark.parametrize("name", ALL)
def test_a_seed_decides_everything(name: str) -> None:
    context = CONTEXTS["gaussian"]
    first = rows_of(ALL[name], context, 20, seed=7)
    np.testing.assert_array_equal(first, rows_of(ALL[name], context, 20, seed=7))
    others = [rows_of(ALL[name], context, 20, seed=seed).tolist() for seed in range(5)]
    assert any(rows != first.tolist() for rows in others) == (name == "uniform")


@pytest.mark.parametrize("name", sorted(set(ALL) - ORDERED - {"uniform"}))
def test_a_policy_that_ignores_order_follows_its_keys(name: str) -> None:
    context = CONTEXTS["gaussian"]
    order = np.random.default_rng(0).permutation(len(context))
    shuffled = Context(np.ascontiguousarray(context.keys[order]), context.sigma)
    kept = rows_of(ALL[name], context, 18)
    np.testing.assert_array_equal(np.sort(order[rows_of(ALL[name], shuffled, 18)]), kept)


@pytest.mark.parametrize("name", sorted(set(ALL) - {"uniform"}))
def test_moving_and_scaling_everything_changes_nothing(name: str) -> None:
    context = CONTEXTS["clustered"]
    assert context.queries is not None
    # Powers of two and small integers: distances keep their ratios exactly.
    moved = Context.of(4.0 * context.keys, sigma=4.0 * context.sigma, queries=4.0 * context.queries)
    np.testing.assert_array_equal(rows_of(ALL[name], moved, 15), rows_of(ALL[name], context, 15))


def test_select_by_name_and_share() -> None:
    keys = CONTEXTS["gaussian"].keys
    np.testing.assert_array_equal(
        select("cover", keys, budget=0.25, sigma=2.0), select(selection.Cover(), keys, budget=15, sigma=2.0)
    )
    assert not np.array_equal(
        select("uniform", keys, budget=15, sigma=2.0, seed=1), select("uniform", keys, budget=15, sigma=2.0, seed=2)
    )
    asked = keys[:2]
    assert set(select("attention", keys, budget=2, sigma=0.1, queries=asked).tolist()) == {0, 1}


def test_budgets() -> None:
    assert [matched_budget(10, budget) for budget in (1, 10, 0.1, 0.25, 0.24, 0.001)] == [1, 10, 1, 3, 2, 1]
    for wrong in (0, 11, -1, 0.0, 1.0, 1.5, float("nan"), True, "3", None):
        with pytest.raises(InputError, match="budget"):
            matched_budget(10, wrong)  # type: ignore[arg-type]


def test_unusable_arguments_are_input_errors() -> None:
    keys = CONTEXTS["gaussian"].keys
    with pytest.raises(InputError, match=r"unknown policy 'luck'.*cover"):
        select("luck", keys, budget=3, sigma=1.0)
    with pytest.raises(InputError, match="seed"):
        select("uniform", keys, budget=3, sigma=1.0, seed=-1)
    with pytest.raises(InputError, match="queries"):
        select("attention", keys, budget=3, sigma=1.0, queries=[[1.0]])
    with pytest.raises(InputError, match="sigma"):
        select("cover", keys, budget=3, sigma=0.0)
    with pytest.raises(InputError, match="finite"):
        select("cover", [[np.nan]], budget=1, sigma=1.0)
    for make, match in (
        (lambda: selection.AttentionMass(recent=1.5), "recent"),
        (lambda: selection.ObservationWindow(pool=4), "odd"),
        (lambda: selection.ObservationWindow(window=0), "positive"),
        (lambda: selection.Cover(near=1.0), "near"),
        (lambda: selection.WarrantedSupport(share=0.0), "share"),
    ):
        with pytest.raises(InputError, match=match):
            make()


def test_a_policy_that_breaks_the_contract_is_caught() -> None:
    class Twice:
        name = "twice"

        def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
            return np.zeros(budget, dtype=np.int64)

    with pytest.raises(InputError, match="'twice' did not choose 3 distinct rows of 60"):
        selected(Twice(), CONTEXTS["gaussian"], 3, np.random.RandomState(0))


@pytest.mark.parametrize("answer", [[0.2, 0.7, 7.0], None, "rows", np.arange(60) >= 58])
def test_an_answer_that_is_no_rows_is_caught(answer: Any) -> None:
    class Mask:
        name = "mask"

        def choose(self, context: Context, budget: int, rng: np.random.RandomState) -> IndexArray:
            return answer  # type: ignore[no-any-return]

    # A mask of two rows has two distinct values: without a look at their kind they are the rows 0 and 1.
    for budget in (2, 3):
        with pytest.raises(InputError, match=f"'mask' did not choose {budget} distinct rows of 60"):
            selected(Mask(), CONTEXTS["gaussian"], budget, np.random.RandomState(0))
    with pytest.raises(InputError, match="a policy has a name"):
        selection.select(answer if answer is None else object(), np.zeros((4, 1)), budget=2, sigma=1.0)  # type: ignore[arg-type]


def test_selection_needs_no_extra() -> None:
    script = (
        "import sys, expunge.selection\n"
        "print([name for name in ('torch', 'polars', 'matplotlib', 'joblib', 'fastapi') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
