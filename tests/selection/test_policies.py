"""Each policy beside a plain reading of its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from expunge import Memory
from expunge.selection import (
    AttentionMass,
    Context,
    Cover,
    Density,
    FarthestFirst,
    ObservationWindow,
    Policy,
    Recency,
    Support,
    WarrantedSupport,
)
from expunge.selection.policies import selected

from .contexts import CONTEXTS


def kept(policy: Policy, context: Context, budget: int) -> set[int]:
    return set(selected(policy, context, budget, np.random.RandomState(0)).tolist())


def kappa(context: Context, a: int, b: int) -> float:
    x, y = context.keys[a], context.keys[b]
    return math.exp(-sum((float(p) - float(q)) ** 2 for p, q in zip(x, y, strict=True)) / context.sigma**2)


def top(scores: dict[int, float], budget: int) -> set[int]:
    return set(sorted(scores, key=lambda row: (-scores[row], row))[:budget])


NAMES = ("gaussian", "clustered", "wide")


@pytest.mark.parametrize("name", NAMES)
def test_density_and_attention(name: str) -> None:
    context = CONTEXTS[name]
    size = len(context)
    density = {row: math.fsum(kappa(context, row, other) for other in range(size)) for row in range(size)}
    assert kept(Density(), context, 9) == top(density, 9)
    alone = Context(context.keys, context.sigma)
    assert kept(AttentionMass(), alone, 9) == top(density, 9)
    shares = {
        row: math.fsum(kappa(context, asking, row) / density[asking] for asking in range(size)) for row in range(size)
    }
    assert kept(AttentionMass(normalised=True), alone, 9) == top(shares, 9)
    latest = set(range(size - 4, size))
    rest = top({row: share for row, share in shares.items() if row not in latest}, 5)
    assert kept(AttentionMass(normalised=True, recent=0.5), alone, 9) == latest | rest


def test_attention_counts_votes_unless_normalised() -> None:
    # Five queries near a pair of copies, one near a lone entry that two others are close to.
    keys = [[0.0], [0.01], [5.0], [5.9], [6.8]]
    context = Context.of(keys, sigma=1.0, queries=[[0.0]] * 5 + [[5.0]])
    assert kept(AttentionMass(), context, 2) == {0, 1}
    single = Context.of([[0.0], [0.01], [0.02], [5.0]], sigma=1.0, queries=[[0.0], [5.0]])
    assert kept(AttentionMass(normalised=True), single, 1) == {3}


def test_recency_is_the_end() -> None:
    assert kept(Recency(), CONTEXTS["gaussian"], 3) == {57, 58, 59}


@pytest.mark.parametrize("name", NAMES)
def test_window(name: str) -> None:
    context = CONTEXTS[name]
    size, window, pool, budget = len(context), 6, 3, 20
    before = size - window
    attention = [0.0] * before
    for asking in range(before, size):
        similar = [kappa(context, asking, row) for row in range(before)]
        for row in range(before):
            attention[row] += similar[row] / math.fsum(similar)
    pooled = {row: max(attention[max(0, row - 1) : row + 2]) for row in range(before)}
    expected = top(pooled, budget - window) | set(range(before, size))
    assert kept(ObservationWindow(window=window, pool=pool), context, budget) == expected
    assert len(kept(ObservationWindow(window=50), context, 10) & set(range(size - 5, size))) == 5


@pytest.mark.parametrize("name", NAMES)
def test_farthest_first(name: str) -> None:
    context = CONTEXTS[name]
    keys = context.keys
    chosen = [int(np.linalg.norm(keys - keys.mean(axis=0), axis=1).argmax())]
    while len(chosen) < 12:
        gaps = [min(math.dist(key, keys[one]) for one in chosen) for key in keys]
        chosen.append(gaps.index(max(gaps)))
    assert kept(FarthestFirst(), context, 12) == set(chosen)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nu", [0.2, 0.5])
def test_support_at_its_own_budget_is_the_support_set(name: str, nu: float) -> None:
    from sklearn.svm import OneClassSVM

    context = CONTEXTS[name]
    model = OneClassSVM(kernel="rbf", gamma=1.0 / context.sigma**2, nu=nu, tol=1e-10).fit(context.keys)
    support = {int(row) for row, weight in zip(model.support_, model.dual_coef_[0], strict=True) if weight > 1e-6}
    assert kept(Support(nu=nu), context, len(support)) == support


def test_support_beyond_its_own_budget() -> None:
    context = CONTEXTS["gaussian"]
    memory = Memory.fit(context.keys, np.zeros(60), sigma=context.sigma, nu=0.3)
    active = set(np.flatnonzero(memory.coefficients).tolist())
    fewer, more = kept(Support(nu=0.3), context, len(active) - 3), kept(Support(nu=0.3), context, len(active) + 5)
    assert fewer < active < more
    lightest = max(memory.coefficients[list(active - fewer)])
    assert all(memory.coefficients[row] >= lightest for row in fewer)
    slack = memory.solution.slack(memory.keys)
    outside = set(range(60)) - more
    assert max(slack[list(more - active)]) <= min(slack[list(outside)])


def test_warranted_support_drops_what_can_be_dropped_for_longest() -> None:
    context, budget = CONTEXTS["gaussian"], 36
    memory = Memory.fit(context.keys, np.zeros(60), sigma=context.sigma, nu=0.5 * budget / 60)
    active = np.flatnonzero(memory.coefficients).tolist()
    slack = memory.solution.slack(memory.keys)
    life = {
        row: slack[row] / (2.0 * max(kappa(context, row, one) for one in active))
        for row in range(60)
        if row not in active
    }
    chosen = kept(WarrantedSupport(), context, budget)
    assert set(active) <= chosen
    spared = chosen - set(active)
    assert len(spared) >= 3
    assert max(life[row] for row in spared) <= min(life[row] for row in life if row not in spared)


def test_warranted_life_is_sound_when_mass_moves() -> None:
    # Whatever mass below `life` the active entries lose, the slack at an unchanged offset stays positive.
    context = CONTEXTS["gaussian"]
    memory = Memory.fit(context.keys, np.zeros(60), sigma=context.sigma, nu=0.3)
    solution, rng = memory.solution, np.random.default_rng(0)
    active = np.flatnonzero(memory.coefficients)
    gram = np.array([[kappa(context, row, one) for one in active.tolist()] for row in range(60)])
    slack = solution.slack(memory.keys)
    reserve = np.flatnonzero(memory.coefficients == 0.0)
    life = slack[reserve] / (2.0 * gram[reserve].max(axis=1))
    for _ in range(200):
        loss = rng.dirichlet(np.ones(active.size)) * rng.uniform(0.0, 0.5)
        loss = np.minimum(loss, memory.coefficients[active])
        after = slack[reserve] - 2.0 * gram[reserve] @ loss
        assert np.all(after[life >= loss.sum()] >= -1e-12)


@pytest.mark.parametrize("name", ["gaussian", "clustered", "exact copies"])
def test_cover(name: str) -> None:
    context = CONTEXTS[name]
    size = len(context)
    density = [math.fsum(kappa(context, row, other) for other in range(size)) for row in range(size)]
    order = sorted(range(size), key=lambda row: (density[row], row))
    if name == "exact copies":
        # Equal densities come out in either order when summed differently; copies are interchangeable.
        order = np.argsort(context.similarity_sums(context.keys), kind="stable").tolist()
    chosen: list[int] = []
    for row in order:
        if all(kappa(context, row, one) < 0.5 for one in chosen):
            chosen.append(row)
    assert all(max(kappa(context, row, one) for one in chosen) >= 0.5 for row in range(size))
    assert kept(Cover(), context, len(chosen)) == set(chosen)
    if len(chosen) > 1:
        assert kept(Cover(), context, len(chosen) - 1) == set(chosen[:-1])
    disturbance = {}
    for row in set(range(size)) - set(chosen):
        similar = [kappa(context, row, one) for one in chosen]
        disturbance[row] = -(math.fsum(similar) - max(similar))
    more = kept(Cover(), context, len(chosen) + 4)
    assert set(chosen) < more
    if name != "exact copies":
        assert more - set(chosen) == top(disturbance, 4)


def test_cover_keeps_a_rare_entry_from_being_outvoted() -> None:
    rng = np.random.default_rng(0)
    near, far = np.array([1.6, 0.0]), np.array([9.0, 0.0])
    keys = np.vstack([[0.0, 0.0], near + 0.05 * rng.standard_normal((8, 2)), far + 0.05 * rng.standard_normal((8, 2))])
    context = Context.of(keys, sigma=1.2)
    chosen = kept(Cover(), context, 9)
    # One of the group nearby, the rest of the budget from the group far away.
    assert 0 in chosen
    assert len(chosen & set(range(1, 9))) == 1
    assert len(chosen & set(range(9, 17))) == 7
