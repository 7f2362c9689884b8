"""The maintained margin system: the factor against a fresh one, the inverse against ball arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from flint import arb, arb_mat, ctx

from agreement import fitted
from expunge import Memory
from expunge.problem.kernel import kernel_block
from expunge.solver.margin_factor import MarginFactor, pivot_floor
from expunge.solver.margin_inverse import refined_inverse
from expunge.solver.state import MARGIN
from expunge.types import Matrix, Vector
from highprecision import exact_kernel
from problems import NOISES, PROBLEMS

INVERSE_ACCURACY = 1e-10
DRIFT = 1e-13


def gram_of(size: int, *, dimension: int = 4, seed: int = 0) -> Matrix:
    keys = np.random.default_rng(seed).standard_normal((size, dimension))
    return kernel_block(keys, keys, 2.0)


def upper(factor: MarginFactor) -> Matrix:
    return np.triu(factor.factor[: factor.size, : factor.size])


def system(gram: Matrix) -> Matrix:
    size = gram.shape[0]
    M = np.ones((size + 1, size + 1))
    M[0, 0] = 0.0
    M[1:, 1:] = 2.0 * gram
    return M


def relative_error(inverse: Matrix, gram: Matrix) -> float:
    """Largest entry of R − M⁻¹ over the largest entry of M⁻¹, for the M that is stored."""
    M = system(gram)
    return enclosed_error(inverse, lambda: arb_mat(M.shape[0], M.shape[1], [arb(float(x)) for x in M.ravel()]))


def enclosed_error(inverse: Matrix, system: Callable[[], arb_mat]) -> float:
    """The same for M as `system` gives it at the precision of the moment."""
    bits = 256
    while True:
        with ctx.workprec(bits):
            try:
                entries = system().inv().entries()
            except ZeroDivisionError:
                bits *= 2
                continue
            if all(entry.rad() <= 1e-40 for entry in entries):
                largest = max(abs(entry.mid()) for entry in entries)
                given = zip(inverse.ravel().tolist(), entries, strict=True)
                return float(max(abs(arb(x) - entry.mid()) for x, entry in given) / largest)
        bits *= 2


def inverse_error(memory: Memory) -> float:
    version = memory.version
    sites = list(dict.fromkeys(version.sites.tolist()))
    members = np.array([site for site in sites if version.state.status[site] == MARGIN], dtype=np.int64)
    keys = version.state.gram.keys[members]
    inverse = memory.inverse
    assert inverse.shape == (members.size + 1, members.size + 1)
    assert np.array_equal(inverse, inverse.T)
    if not members.size:
        return 0.0

    def exact_system() -> arb_mat:
        rows = exact_kernel(keys, keys, memory.sigma).tolist()
        first = [arb(0), *([arb(1)] * members.size)]
        return arb_mat([first, *([arb(1), *(2 * value for value in row)] for row in rows)])

    return enclosed_error(inverse, exact_system)


def test_entering_one_by_one_is_factoring_at_once() -> None:
    gram = gram_of(40)
    grown = MarginFactor()
    for site in range(40):
        pivot = grown.enter(site, gram[site, :site].copy(), 1e-14)
        assert pivot > 1e-14
    fresh = MarginFactor()
    assert fresh.refresh(np.arange(40), gram)
    assert np.max(np.abs(upper(grown) - upper(fresh))) <= 1e-12
    assert grown.members.tolist() == list(range(40))
    assert grown.drift(gram) <= DRIFT


@pytest.mark.parametrize("seed", range(6))
def test_entering_and_leaving_at_random_keeps_the_factor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gram = gram_of(30, seed=seed)
    factor, members = MarginFactor(), list[int]()
    for _ in range(400):
        outside = [site for site in range(30) if site not in members]
        if members and (not outside or rng.random() < 0.5):
            position = int(rng.integers(len(members)))
            assert factor.leave(position) == members.pop(position)
        else:
            site = int(rng.choice(outside))
            factor.enter(site, gram[site, members].copy(), 1e-14)
            members.append(site)
        assert factor.members.tolist() == members
    assert factor.drift(gram[np.ix_(members, members)]) <= DRIFT


@pytest.mark.parametrize("position", [0, 1, 7, 14])
def test_leaving_is_factoring_without(position: int) -> None:
    gram = gram_of(15)
    factor, fresh = MarginFactor(), MarginFactor()
    factor.refresh(np.arange(15), gram)
    factor.leave(position)
    kept = np.delete(np.arange(15), position)
    fresh.refresh(kept, gram[np.ix_(kept, kept)])
    assert np.max(np.abs(np.abs(upper(factor)) - np.abs(upper(fresh)))) <= 1e-12


def test_a_dependent_key_does_not_enter() -> None:
    gram = gram_of(6)
    factor = MarginFactor()
    factor.refresh(np.arange(6), gram)
    before = upper(factor).tobytes()
    assert factor.enter(6, gram[3].copy(), 1e-12) <= 1e-12
    assert (factor.size, upper(factor).tobytes()) == (6, before)


def test_the_pivot_measures_independence() -> None:
    # Between ½ and 1 times the squared distance from the affine hull, which is half of M's Schur complement.
    for seed in range(10):
        gram = gram_of(8, seed=seed)
        factor = MarginFactor()
        factor.refresh(np.arange(7), gram[:7, :7])
        pivot = factor.enter(7, gram[7, :7].copy(), 0.0)
        border = np.concatenate([[1.0], 2.0 * gram[7, :7]])
        distance = 0.5 * (2.0 - float(border @ np.linalg.solve(system(gram[:7, :7]), border)))
        assert 0.5 * distance * (1 - 1e-9) <= pivot <= distance * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_solve_satisfies_its_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 30))
    gram, right = gram_of(size, seed=seed), rng.standard_normal(size)
    factor = MarginFactor()
    factor.refresh(np.arange(size), gram)
    x, y = factor.solve(right, 0.7)
    scale = 1.0 + float(np.abs(x).sum())
    assert np.max(np.abs(gram @ x + 0.5 * y - right)) <= 1e-13 * scale
    assert abs(x.sum() - 0.7) <= 1e-13 * scale


def test_a_copy_is_independent_and_may_borrow_memory() -> None:
    gram = gram_of(20)
    factor = MarginFactor()
    factor.refresh(np.arange(20), gram)
    before = upper(factor).tobytes()
    spare = MarginFactor()
    spare.refresh(np.arange(5), gram[:5, :5])
    for twin in (factor.copy(), factor.copy(spare)):
        assert upper(twin).tobytes() == before
        twin.leave(3)
        twin.enter(99, gram[0, 1:20].copy(), 0.0)
        assert upper(factor).tobytes() == before
        assert factor.members.tolist() == list(range(20))


def test_refresh_refuses_what_is_not_definite() -> None:
    factor = MarginFactor()
    factor.refresh(np.arange(3), gram_of(3))
    before = upper(factor).tobytes()
    assert not factor.refresh(np.arange(2), np.array([[1.0, 1.5], [1.5, 1.0]]))
    assert upper(factor).tobytes() == before
    assert factor.smallest_pivot() > 0.0
    assert MarginFactor().smallest_pivot() == np.inf
    assert MarginFactor().drift(np.zeros((0, 0))) == 0.0


def test_renumbering() -> None:
    factor = MarginFactor()
    factor.refresh(np.array([4, 2, 7]), gram_of(3))
    numbers = np.arange(10)[::-1].copy()
    factor.renumber(numbers)
    assert factor.members.tolist() == [5, 7, 2]
    assert factor.position(7) == 1


def test_the_pivot_floor_lies_between_rounding_and_ten_digits() -> None:
    for ceiling in (1e-6, 1e-3, 1.0, 100.0):
        assert 3e-15 <= pivot_floor(ceiling, 1e-14) <= 1e-10


@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 33])
def test_refined_inverse_of_well_conditioned_systems(size: int) -> None:
    gram = gram_of(size) if size else np.zeros((0, 0))
    inverse = refined_inverse(gram)
    assert inverse.shape == (size + 1, size + 1)
    if size:
        assert relative_error(inverse, gram) <= 1e-12


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4, 1e-5])
def test_refined_inverse_of_ill_conditioned_systems(noise: float) -> None:
    rng = np.random.default_rng(0)
    keys = np.repeat(rng.standard_normal((5, 6)), 3, axis=0) + noise * rng.standard_normal((15, 6))
    gram = kernel_block(keys, keys, 2.0)
    assert relative_error(refined_inverse(gram), gram) <= INVERSE_ACCURACY


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_inverse_of_every_problem(name: str) -> None:
    assert inverse_error(fitted(PROBLEMS[name])) <= INVERSE_ACCURACY


def edited(memory: Memory, rng: np.random.Generator, edits: int, near: Vector | float) -> Memory:
    """Delete at random, then admit beside a random live key, in turn."""
    for k in range(edits):
        memory.delete(str(rng.choice(np.array(memory.ids))))
        key = memory.keys[int(rng.integers(len(memory)))] + near * rng.standard_normal(memory.dimension)
        memory.admit(key, np.zeros(memory.values.shape[1]), id=f"new-{k}")
    return memory


@pytest.mark.parametrize("noise", [1.0, *NOISES])
def test_the_inverse_after_a_sequence_of_edits(noise: float) -> None:
    rng = np.random.default_rng(17)
    keys = rng.standard_normal((60, 5))
    memory = edited(Memory.fit(keys, keys, sigma=2.0, nu=0.4), rng, 60, noise)
    assert memory.outcomes["rescued"] == 0
    assert inverse_error(memory) <= INVERSE_ACCURACY
    state = memory.version.state
    members = state.margin.members
    assert state.margin.drift(state.gram.block(members, members)) <= DRIFT


@pytest.mark.parametrize("name", ["lattice-3d-4", "near-duplicates-1e-06", "width-1e+1", "embedding-384d"])
def test_the_inverse_after_edits_of_hard_problems(name: str) -> None:
    problem = PROBLEMS[name]
    memory = edited(fitted(problem), np.random.default_rng(3), 30, 1e-3 * problem.sigma)
    assert inverse_error(memory) <= INVERSE_ACCURACY


def test_rows_of_the_inverse_follow_the_rows_of_the_memory() -> None:
    memory = fitted(PROBLEMS["sequential-gaussian-n64-d6"])
    for name in ("3", "17", "40"):
        memory.delete(name)
    margin = memory.partition.margin
    gram = kernel_block(memory.keys[margin], memory.keys[margin], memory.sigma)
    assert np.max(np.abs(memory.inverse @ system(gram) - np.eye(margin.size + 1))) <= 1e-11


def test_identical_margin_keys_share_a_row() -> None:
    memory = fitted(PROBLEMS["duplicates-pairs"])
    margin = memory.partition.margin
    distinct = len(np.unique(memory.keys[margin], axis=0))
    assert distinct < margin.size
    assert memory.inverse.shape == (distinct + 1, distinct + 1)


def test_an_empty_margin_has_a_one_by_one_inverse() -> None:
    memory = fitted(PROBLEMS["cap-full"])
    assert memory.partition.margin.size == 0
    assert memory.inverse.shape == (1, 1)
