"""Edits along the path: each equals a fresh fit of what remains, on every named problem, without a rescue.

Coefficients are compared where the remaining keys determine them: the margin system of the fresh fit bounds
what a residual can do to them. Gate scores depend on the centre and the offset, and are compared always.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from agreement import (
    EPSILON,
    MEASURED,
    assert_same_function,
    assert_sound,
    by_id,
    cap_of,
    fitted,
    strict_residual,
)
from expunge import Memory, Receipt
from expunge.problem.problem import fewest_keys
from expunge.types import Matrix, Vector
from problems import PROBLEMS, Problem

ON_THE_PATH = ("admitted", "decrement", "certified_zero")


def assert_on_the_path(memory: Memory, receipt: Receipt, outcomes: tuple[str, ...] = ON_THE_PATH) -> None:
    """One attempt, of the maintained solver itself: neither a rescue nor a quiet cold fit.

    A check from maintained sums includes the bound on their error, which alone is larger at d = 384: so the errors of
    such a state are recomputed from the keys.
    """
    assert receipt.outcome in outcomes, receipt
    assert len(receipt.attempts) == 1, receipt.attempts
    assert receipt.attempts[0].error is None
    assert receipt.attempts[0].path in ("path", "reserve"), receipt.attempts
    assert receipt.check.passed
    check = receipt.check if receipt.check.kind == "keys" else memory.check()
    assert check.kind == "keys"
    assert check.worst <= MEASURED


def sensitivity(memory: Memory) -> float:
    """‖M⁻¹‖: how much a residual can move a coefficient while the partition stays."""
    return float(np.max(np.sum(np.abs(memory.inverse), axis=1)))


def groups_by_id(memory: Memory) -> list[set[str]]:
    names, groups = np.array(memory.ids), memory.partition
    return [set(names[rows].tolist()) for rows in (groups.margin, groups.bound, groups.reserve)]


def assert_same_coefficients(memory: Memory, other: Memory) -> None:
    """Equal as far as the keys determine them; nothing to say where rounding chose another partition."""
    if groups_by_id(memory) == groups_by_id(other):
        residual = strict_residual(memory) + strict_residual(other)
        theirs = by_id(other)
        difference = max(abs(a - theirs[name]) for name, a in by_id(memory).items())
        assert difference <= max(sensitivity(memory), sensitivity(other)) * residual + EPSILON * memory.cap


def assert_equal_to_refit(memory: Memory, points: Matrix) -> None:
    fresh = memory.refit()
    assert_sound(memory)
    assert_same_function(memory, fresh, points)
    assert_same_coefficients(memory, fresh)


def some_rows(problem: Problem, count: int) -> list[int]:
    """Every row of a small problem; of a large one, `count` spread over it."""
    return sorted({int(row) for row in np.linspace(0, problem.size - 1, count)})


def spare_keys(count: int) -> list[str]:
    """The problems from which this many keys can go."""
    return [name for name, problem in PROBLEMS.items() if problem.size - fewest_keys(cap_of(problem)) >= count]


@pytest.mark.parametrize("name", PROBLEMS)
def test_deleting_one_equals_a_refit(name: str) -> None:
    problem = PROBLEMS[name]
    if fitted(problem).deletable == 0:
        assert fitted(problem).delete("0").outcome in ("refitted", "emptied")
        return
    for row in some_rows(problem, 16):
        memory = fitted(problem)
        active = memory.coefficients[row] > 0.0
        receipt = memory.delete(str(row))
        assert_on_the_path(memory, receipt, ("decrement",) if active else ("certified_zero",))
        assert str(row) not in memory.ids
        assert_equal_to_refit(memory, problem.keys)


@pytest.mark.parametrize("name", spare_keys(1))
def test_admitting_the_last_key_equals_fitting_it(name: str) -> None:
    problem = PROBLEMS[name]
    whole = fitted(problem)
    for row in some_rows(problem, 6):
        rest = [r for r in range(problem.size) if r != row]
        memory = Memory.fit(
            problem.keys[rest],
            problem.values[rest],
            sigma=problem.sigma,
            cap=cap_of(problem),
            ids=[str(r) for r in rest],
        )
        assert_on_the_path(memory, memory.admit(problem.keys[row], problem.values[row], id=str(row)))
        assert_equal_to_refit(memory, problem.keys)
        assert_same_function(memory, whole, problem.keys)


@pytest.mark.parametrize("name", spare_keys(1))
def test_readmitting_a_deleted_key_restores_the_memory(name: str) -> None:
    problem = PROBLEMS[name]
    for row in some_rows(problem, 6):
        memory, before = fitted(problem), fitted(problem)
        memory.delete(str(row))
        assert_on_the_path(memory, memory.admit(problem.keys[row], problem.values[row], id=str(row)))
        assert memory.ids == (*(i for i in before.ids if i != str(row)), str(row))
        assert_sound(memory)
        assert_same_function(memory, before, problem.keys)
        assert_same_coefficients(memory, before)


@pytest.mark.parametrize("name", PROBLEMS)
def test_deleting_down_to_the_last_feasible_key(name: str) -> None:
    problem = PROBLEMS[name]
    memory = fitted(problem)
    order = np.random.default_rng(5).permutation(problem.size).astype(str).tolist()
    for left in range(memory.deletable, 0, -1):
        assert memory.deletable == left
        assert_on_the_path(memory, memory.delete(order.pop()))
        if left % 16 == 1 or problem.size <= 16:
            assert_equal_to_refit(memory, problem.keys)
    assert memory.deletable == 0
    assert_sound(memory)
    assert memory.delete(order[-1]).outcome in ("refitted", "emptied")
    if len(memory):
        assert_equal_to_refit(memory, problem.keys)


@pytest.mark.parametrize("name", PROBLEMS)
def test_growing_from_the_fewest_keys(name: str) -> None:
    problem = PROBLEMS[name]
    start = problem.size - fitted(problem).deletable
    memory = Memory.fit(problem.keys[:start], problem.values[:start], sigma=problem.sigma, cap=cap_of(problem))
    for row in range(start, problem.size):
        assert_on_the_path(memory, memory.admit(problem.keys[row], problem.values[row], id=str(row)))
    assert memory.ids == fitted(problem).ids
    assert_sound(memory)
    assert_same_function(memory, fitted(problem), problem.keys)


@pytest.mark.parametrize("name", spare_keys(2))
def test_several_at_once_equal_one_by_one_in_any_order(name: str) -> None:
    problem = PROBLEMS[name]
    count = min(fitted(problem).deletable, 5)
    victims = [str(r) for r in np.random.default_rng(2).choice(problem.size, count, replace=False)]
    together = fitted(problem)
    receipt = together.delete(victims)
    assert_on_the_path(together, receipt)
    assert set(receipt.applied) == set(victims)
    assert_equal_to_refit(together, problem.keys)
    for order in itertools.islice(itertools.permutations(victims), 0, 120, 29):
        single = fitted(problem)
        for victim in order:
            assert_on_the_path(single, single.delete(victim))
        assert single.ids == together.ids
        assert_same_function(single, together, problem.keys)
        assert_same_coefficients(single, together)
    backwards = fitted(problem)
    backwards.delete(victims[::-1])
    assert backwards.coefficients.tobytes() == together.coefficients.tobytes()


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_that_can_go_in_one_transaction(name: str) -> None:
    problem = PROBLEMS[name]
    memory = fitted(problem)
    victims = [str(row) for row in range(memory.deletable)]
    receipt = memory.delete(victims)
    if victims:
        assert_on_the_path(memory, receipt)
    else:
        assert receipt.outcome == "noop"
    assert memory.deletable == 0
    assert_equal_to_refit(memory, problem.keys)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_copy_of_every_kind_of_key(name: str) -> None:
    """Admit an exact duplicate of a margin, a bound and a reserve key, then take the originals away."""
    problem = PROBLEMS[name]
    groups = fitted(problem).partition
    for group in (groups.margin, groups.bound, groups.reserve):
        if group.size == 0:
            continue
        row = int(group[group.size // 2])
        memory, before = fitted(problem), fitted(problem)
        assert_on_the_path(memory, memory.admit(problem.keys[row], problem.values[row], id="copy"))
        shares = by_id(memory)
        assert shares["copy"] == shares[str(row)]
        assert_equal_to_refit(memory, problem.keys)
        assert_on_the_path(memory, memory.delete(str(row)))
        assert_sound(memory)
        assert_same_function(memory, before, problem.keys)


@pytest.mark.parametrize("name", ["sequential-gaussian-n64-d6", "embedding-384d", "expiry-before", "lattice-3d-4"])
def test_a_key_that_stays_in_reserve_changes_nothing(name: str) -> None:
    problem = PROBLEMS[name]
    memory = fitted(problem)
    inner = memory.coefficients @ memory.keys
    assert memory.solution.slack(inner[None, :])[0] > 0.0
    state = (memory.coefficients.tobytes(), memory.offset, memory.inverse.tobytes())
    seen = memory.read(problem.keys).tobytes()
    receipt = memory.admit(inner, problem.values[0], id="inner")
    assert_on_the_path(memory, receipt, ("admitted",))
    assert receipt.pivots == 0
    assert memory.coefficients[-1] == 0.0
    assert (memory.coefficients[:-1].tobytes(), memory.offset, memory.inverse.tobytes()) == state
    assert memory.read(problem.keys).tobytes() == seen
    assert_equal_to_refit(memory, problem.keys)
    assert memory.delete("inner").outcome == "certified_zero"
    assert (memory.coefficients.tobytes(), memory.offset, memory.inverse.tobytes()) == state


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("empty-margin")])
def test_an_empty_margin_is_left_and_reached_again(name: str) -> None:
    problem = PROBLEMS[name]
    outlier = problem.keys[0] + 10.0 * problem.sigma
    memory = fitted(problem)
    assert memory.partition.margin.size == 0 or memory.cap * problem.size > 1.0
    for _ in range(3):
        assert_on_the_path(memory, memory.admit(outlier, problem.values[0], id="outlier"))
        assert_equal_to_refit(memory, problem.keys)
        assert_on_the_path(memory, memory.delete("outlier"))
        assert_equal_to_refit(memory, problem.keys)
        assert_same_function(memory, fitted(problem), problem.keys)


def test_all_at_the_cap_then_one_more_each_way() -> None:
    rng = np.random.default_rng(9)
    keys = rng.standard_normal((20, 3))
    memory = Memory.fit(keys, keys, sigma=2.0, cap=1 / 20)
    # 20·fl(1/20) exceeds 1 by 2⁻⁵⁵·20 or so, which one key does not get.
    assert memory.partition.bound.size == 19
    assert memory.deletable == 0
    for k in range(4):
        extra = 2.0 * rng.standard_normal(3)
        assert_on_the_path(memory, memory.admit(extra, extra, id=f"extra-{k}"))
        assert_equal_to_refit(memory, keys)
    for k in range(4):
        assert_on_the_path(memory, memory.delete(f"extra-{k}"))
        assert_equal_to_refit(memory, keys)
    assert np.abs(memory.coefficients - 1 / 20).max() <= 20 * 2.0**-55


def test_a_single_key_is_an_ordinary_memory() -> None:
    memory = Memory.fit([[1.0, 2.0]], [[5.0]], sigma=1.0, nu=1.0, ids=["only"])
    assert (memory.cap, memory.deletable, memory.offset) == (1.0, 0, -1.0)
    for k in range(3):
        assert_on_the_path(memory, memory.admit([float(k), 0.0], [float(k)], id=str(k)))
        assert_equal_to_refit(memory, memory.keys)
    for name in ("only", "0", "1"):
        assert_on_the_path(memory, memory.delete(name))
        assert_equal_to_refit(memory, memory.keys)
    assert memory.ids == ("2",)
    assert memory.coefficients.tolist() == [1.0]
    assert memory.read([9.0, 9.0]).tolist() == [[2.0]]


def test_copies_come_and_go() -> None:
    keys = np.random.default_rng(0).standard_normal((9, 3))
    memory = Memory.fit(keys, keys, sigma=2.0, cap=0.2)
    for k in range(12):
        assert_on_the_path(memory, memory.admit(keys[0], keys[0], id=f"copy-{k}"))
        assert len({by_id(memory)[i] for i in ("0", *(f"copy-{j}" for j in range(k + 1)))}) == 1
        assert_equal_to_refit(memory, keys)
    assert_on_the_path(memory, memory.delete(["0", *(f"copy-{k}" for k in range(6))]))
    assert_equal_to_refit(memory, keys)
    assert_on_the_path(memory, memory.delete([f"copy-{k}" for k in range(6, 12)]))
    assert_equal_to_refit(memory, keys)
    assert len(memory) == 8


@pytest.mark.parametrize("noise", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_dependent_keys_trade_places(noise: float) -> None:
    """Four keys on a line within rounding of dependence, then edits among them."""
    rng = np.random.default_rng(3)
    keys = np.vstack([rng.standard_normal((10, 2)), [1.0, 1.0] + noise * rng.standard_normal((6, 2))])
    memory = Memory.fit(keys, keys, sigma=5.0, cap=0.15)
    for row in (10, 12, 14):
        assert_on_the_path(memory, memory.delete(str(row)))
        assert_equal_to_refit(memory, keys)
    for row in (14, 12, 10):
        assert_on_the_path(memory, memory.admit(keys[row], keys[row], id=str(row)))
        assert_equal_to_refit(memory, keys)


def test_the_last_dependent_key_takes_the_mass() -> None:
    """Found by fuzzing: seven keys on a line that a wide kernel can barely tell apart."""
    line = [-0.001498307449564937, 2.381202350972526, 1.23222114355402e-06, 157421.50055670296]
    line += [0.0022042557810298957, -8048.85098836582, -0.00015174445105009424]
    keys = np.array(line)[:, None]
    memory = Memory.fit(keys, keys, sigma=41597.50444821549, cap=0.2200076307027639)
    assert_on_the_path(memory, memory.delete(["1", "5"]))
    assert_equal_to_refit(memory, keys)


def test_the_papers_expiry_example() -> None:
    problem = PROBLEMS["expiry-before"]
    memory = fitted(problem)
    assert memory.coefficients[2] == 0.0
    pruned = fitted(problem)
    query = [[0.25, 0.1]]
    before = pruned.read(query), pruned.score(query)
    assert pruned.delete("2").outcome == "certified_zero"
    assert (pruned.read(query), pruned.score(query)) == before
    memory.admit([0.0, -10.0], [4.0], id="3")
    pruned.admit([0.0, -10.0], [4.0], id="3")
    assert memory.coefficients[2] == pytest.approx(0.033, abs=5e-4)
    # The certificate has expired: the two memories are no longer one.
    difference = np.abs(memory.score(memory.keys) - pruned.score(memory.keys))
    assert np.max(difference) == pytest.approx(4.1e-3, abs=5e-5)


@pytest.mark.parametrize("seed", [62, 118, 518])
def test_a_mass_of_rounding_does_not_decide_the_offset(seed: int) -> None:
    """1/C is whole and keys are copied, so that margins keep running empty: the offset is still the fresh fit's."""
    rng = np.random.default_rng(seed)
    least = int(rng.integers(1, 5))
    size, dimension = least + int(rng.integers(0, 3)), int(rng.integers(1, 4))
    sigma = 10.0 ** rng.uniform(-0.5, 2.5)

    def key() -> Vector:
        if rng.random() < 0.7:
            return rng.integers(-1, 2, dimension).astype(float)
        return np.asarray(rng.standard_normal(dimension) * 10.0 ** rng.uniform(-1, 1))

    memory = Memory.fit([key() for _ in range(size)], np.zeros(size), sigma=sigma, cap=1.0 / least)
    for _ in range(40):
        if rng.random() < 0.5 or memory.deletable < 1:
            memory.admit(key() if rng.random() < 0.7 else memory.keys[rng.integers(len(memory))], 0.0)
        else:
            count = int(rng.integers(1, min(4, memory.deletable + 1)))
            memory.delete(rng.choice(memory.ids, count, replace=False).tolist())
        assert memory.offset == pytest.approx(memory.refit().offset, abs=1e-9)


def test_a_mass_that_is_missing_is_put_back_into_a_key_of_many_copies() -> None:
    memory = Memory.fit([[0.0], [1.0]], np.zeros(2), sigma=5.424821236867988, cap=0.5, ids=["a", "b"])
    memory.admit([0.0], 0.0, id="copy")
    memory.delete("b")
    memory.admit([1.0], 0.0, id="c")
    assert memory.check().mass <= 1e-15
    memory.admit([-1.4441678843404364], 0.0, id="d")
    assert memory.coefficients.tolist() == [0.0, 0.0, 0.5, 0.5]
    assert memory.offset == pytest.approx(memory.refit().offset, abs=1e-12)
