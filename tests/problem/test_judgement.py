"""Inside and outside, against the groups that a fit has: margin keys on the boundary, reserve inside, bound outside."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from agreement import fitted
from expunge import Judgement, Memory
from expunge.datasets import conversations, icu_hours
from expunge.problem.judgement import judge
from expunge.problem.kernel import kernel_block, largest_kernel_values
from expunge.problem.solution import Solution
from expunge.problem.tolerances import NEARBY, PUBLISHED
from problems import PROBLEMS

# The error of a slack of one key: a sum of products with kernel values of up to 384 coordinates.
ROUNDING = 1e-13


@cache
def real(name: str) -> Memory:
    if name in ("icu", "conversations"):
        sample = icu_hours() if name == "icu" else conversations()
        return Memory.fit(**(sample.arguments | {"nu": 0.2} if name == "icu" else sample.arguments))
    table = (load_diabetes if name == "diabetes" else load_breast_cancer)()
    rows = (table.data - table.data.mean(axis=0)) / table.data.std(axis=0)
    return Memory.fit(rows, table.target.astype(float), sigma=8.0, nu=0.05)


def assert_groups_are_where_they_belong(solution: Solution) -> None:
    groups, keys = solution.partition, solution.problem.keys
    found = judge(solution, keys)
    distance, inside = np.array([one.distance for one in found]), np.array([one.inside for one in found])
    score = np.array([one.score for one in found])
    assert np.abs(distance[groups.margin]).max(initial=0.0) <= ROUNDING
    assert np.abs(score[groups.margin] - solution.boundary_score).max(initial=0.0) <= ROUNDING
    assert inside[groups.margin].all()
    assert distance[groups.reserve].min(initial=0.0) >= -ROUNDING
    assert inside[groups.reserve].all()
    assert distance[groups.bound].max(initial=0.0) <= ROUNDING
    clear = groups.bound[distance[groups.bound] < -PUBLISHED]
    assert not inside[clear].any()
    # Keys carry weight somewhere near themselves unless they are in reserve.
    active = np.flatnonzero(solution.coefficients)
    assert all(found[row].nearby and found[row].nearest_similarity == 1.0 for row in active.tolist())


@pytest.mark.parametrize("name", PROBLEMS)
def test_groups_of_hard_problems(name: str) -> None:
    assert_groups_are_where_they_belong(fitted(PROBLEMS[name]).solution)


@pytest.mark.parametrize("name", ["icu", "conversations", "diabetes", "cancer"])
def test_groups_of_real_memories(name: str) -> None:
    memory = real(name)
    solution = memory.solution
    assert_groups_are_where_they_belong(solution)
    found = judge(solution, memory.keys)
    groups = memory.partition
    inside = sum(one.inside for one in found)
    assert inside >= groups.margin.size + groups.reserve.size
    assert memory.boundary == solution.boundary_score


def test_zero_is_not_the_boundary() -> None:
    """No training row scores above 0, and most of them are inside: as on breast-cancer data in the issue."""
    memory = real("cancer")
    found = memory.judge(memory.keys)
    assert max(one.score for one in found) < 0.0 < memory.boundary + 1.0
    assert np.mean([one.inside for one in found]) > 0.9


@pytest.mark.parametrize("seed", range(20))
def test_random_memories(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, dimension = int(rng.integers(1, 80)), int(rng.integers(1, 9))
    keys = rng.standard_normal((size, dimension))
    if seed % 3 == 0:
        keys = np.round(keys)
    nu = float(rng.uniform(1.0 / size, 1.0))
    memory = Memory.fit(keys, keys[:, :1], sigma=float(rng.uniform(0.3, 5.0)), nu=nu)
    assert_groups_are_where_they_belong(memory.solution)
    points = rng.standard_normal((50, dimension)) * 3.0
    for one, score, point in zip(memory.judge(points), memory.score(points), points, strict=True):
        assert one.score == score
        assert one.distance == pytest.approx(score - memory.boundary, abs=1e-14)
        assert one.inside == (one.distance >= -PUBLISHED)
        assert memory.judge(point) == [one]


def test_an_empty_margin_has_its_boundary_at_the_innermost_bound_key() -> None:
    """Every key at the cap: the offset is the least t of them, so that one is on the boundary and the rest outside."""
    keys = np.array([[0.0], [1.0], [3.0], [7.0]])
    memory = Memory.fit(keys, [1, 2, 3, 4], sigma=1.5, nu=1.0)
    assert (memory.partition.bound.size, memory.partition.margin.size) == (4, 0)
    found = memory.judge(keys)
    innermost = int(np.argmax(memory.score(keys)))
    assert [one.inside for one in found] == [row == innermost for row in range(4)]
    assert abs(found[innermost].distance) <= 1e-15


def test_one_key_is_its_own_boundary() -> None:
    memory = Memory.fit([[2.0, 3.0]], [1.0], sigma=1.0, nu=1.0)
    here, near, far = memory.judge([[2.0, 3.0], [2.0, 3.1], [40.0, 3.0]])
    assert here == Judgement(score=3.0, distance=0.0, inside=True, nearest_similarity=1.0, nearby=True)
    assert (near.inside, near.nearby) == (False, True)
    assert (far.inside, far.nearby) == (False, False)


def test_nothing_nearby() -> None:
    memory = Memory.fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0], sigma=1.0, nu=0.5)
    limit = 2.0 + np.sqrt(-np.log(NEARBY))
    assert [one.nearby for one in memory.judge([[limit - 1e-9], [limit + 1e-9], [1e150]])] == [True, False, False]


def test_a_judgement_tells_nothing_of_entries_without_weight() -> None:
    """The same before and after reserve entries are pruned, to the last bit."""
    for mode in ("archive", "forget"):
        memory = real("icu").refit()
        points = np.random.default_rng(0).standard_normal((200, memory.dimension))
        before = memory.judge(points)
        memory.prune(mode)
        assert memory.judge(points) == before


def test_a_judgement_is_a_function_of_the_entries() -> None:
    """Bit for bit, whatever their order, and whoever was there before."""
    memory = real("icu")
    rng = np.random.default_rng(1)
    points = rng.standard_normal((64, memory.dimension)) * 2.0
    order = rng.permutation(len(memory))
    shuffled = Memory.fit(memory.keys[order], memory.values[order], sigma=memory.sigma, cap=memory.cap)
    assert shuffled.judge(points) == memory.judge(points)
    visited = memory.refit()
    visited.admit(points[0], memory.values[0], id="visitor")
    visited.delete("visitor")
    assert visited.judge(points) == memory.judge(points)
    assert visited.boundary == memory.boundary


@pytest.mark.parametrize("sigma", [1e-3, 0.7, 40.0])
def test_the_largest_kernel_values(sigma: float) -> None:
    rng = np.random.default_rng(3)
    points, keys = rng.standard_normal((130, 3)), rng.standard_normal((201, 3))
    assert np.array_equal(largest_kernel_values(points, keys, sigma), kernel_block(points, keys, sigma).max(axis=1))
