"""Cold fits: every named problem to machine precision, against the truth and against other solvers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from agreement import (
    EPSILON,
    MEASURED,
    PUBLISHED,
    SAME_SCORES,
    assert_sound,
    by_id,
    cap_of,
    copies,
    fitted,
    polished,
    readout,
    strict_residual,
    truth,
    value_range,
)
from expunge import Memory
from expunge.solver import initial_guess
from expunge.solver.cold_fit import distinct_sites, fit
from expunge.solver.initial_guess import SMALL
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.state import BOUND
from expunge.types import Matrix
from problems import PROBLEMS

READOUT_AGREEMENT = 1e-8


def draw(size: int, dimension: int, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((size, dimension))


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_fits_without_a_rescue(name: str) -> None:
    memory = fitted(PROBLEMS[name])
    assert not memory.outcomes
    assert memory.check().tolerance == PUBLISHED
    assert memory.check().passed
    assert_sound(memory, tolerance=MEASURED)


@pytest.mark.parametrize("name", PROBLEMS)
def test_coefficients_are_the_truth_as_far_as_conditioning_allows(name: str) -> None:
    memory, exact = fitted(PROBLEMS[name]), truth(name)
    residual = strict_residual(memory)
    assert residual <= MEASURED
    if residual < exact.stable_below:
        error = np.max(np.abs(memory.coefficients - exact.coefficients))
        assert error <= exact.inverse_norm * residual + EPSILON * memory.cap
        assert exact.lowest - 4 * residual <= memory.offset <= exact.highest + 4 * residual


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_centre_and_the_offset_are_the_truth_always(name: str) -> None:
    memory, exact = fitted(PROBLEMS[name]), truth(name)
    scores = 1.0 - (memory.score(memory.keys) + memory.offset)
    assert np.max(np.abs(scores - exact.scores)) <= SAME_SCORES
    # With an empty margin the offset is the stated end of its interval, not any point of it.
    assert abs(memory.offset - exact.offset) <= SAME_SCORES


@pytest.mark.parametrize("name", PROBLEMS)
def test_readouts_agree_with_two_independent_backends(name: str) -> None:
    problem, exact = PROBLEMS[name], truth(name)
    memory = fitted(problem)
    residual = strict_residual(memory)
    if residual < exact.stable_below and exact.inverse_norm * residual < 0.01 * READOUT_AGREEMENT:
        for backend in ("daqp", "proxqp"):
            reference = polished(name, backend)
            expected = readout(problem.keys, problem.values, reference.coefficients, problem.sigma, problem.keys)
            difference = np.max(np.abs(memory.read(problem.keys) - expected))
            assert difference <= READOUT_AGREEMENT * value_range(problem.values)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_order_of_rows_does_not_matter(name: str) -> None:
    problem, exact = PROBLEMS[name], truth(name)
    memory = fitted(problem)
    order = np.random.default_rng(8).permutation(problem.size)
    shuffled = Memory.fit(
        problem.keys[order],
        problem.values[order],
        sigma=problem.sigma,
        cap=cap_of(problem),
        ids=[str(row) for row in order],
    )
    assert np.max(np.abs(shuffled.score(problem.keys) - memory.score(problem.keys))) <= SAME_SCORES
    residual = max(strict_residual(memory), strict_residual(shuffled))
    if residual < exact.stable_below:
        other = by_id(shuffled)
        difference = max(abs(a - other[name]) for name, a in by_id(memory).items())
        assert difference <= 2 * exact.inverse_norm * residual + EPSILON * memory.cap


def has_copies(name: str) -> bool:
    return len(copies(PROBLEMS[name].keys + 0.0)) < PROBLEMS[name].size


@pytest.mark.parametrize("name", [name for name in PROBLEMS if has_copies(name)])
def test_exact_duplicates_split_equally(name: str) -> None:
    memory = fitted(PROBLEMS[name])
    for rows in copies(memory.keys):
        assert len(set(memory.coefficients[rows].tolist())) == 1


@pytest.mark.parametrize("size", [*range(1, 13), 40, SMALL - 1, SMALL, SMALL + 1, 200, 600])
@pytest.mark.parametrize("nu", [0.05, 0.4, 1.0])
def test_any_size_from_one(size: int, nu: float) -> None:
    memory = Memory.fit(draw(size, 3, size), np.zeros(size), sigma=2.0, nu=nu)
    assert_sound(memory)
    rounded = min(1.0, 1.0 / (nu * size))
    assert memory.cap in (rounded, math.nextafter(rounded, 1.0))
    if nu == 1.0:
        # n·C exceeds 1 by rounding, and one key has that much less.
        assert np.count_nonzero(memory.coefficients != memory.cap) <= 1
        assert memory.deletable == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 49, 98, 103, 107, 161, 187, 300, 469, 501, 658])
def test_a_saturated_problem_has_every_key_at_its_cap(size: int) -> None:
    # 1/49, 1/98, 1/103 … are rounded down: then the next double is the cap, and n·C exceeds 1 by an ulp.
    memory = Memory.fit(draw(size, 2), np.zeros(size), sigma=1.0, cap=1.0 / size)
    assert Fraction(memory.cap) * size >= 1
    exact = 1 - (size - 1) * Fraction(memory.cap)
    below = memory.coefficients[memory.coefficients != memory.cap]
    assert below.tolist() == ([] if float(exact) == memory.cap else [float(exact)])
    assert memory.check().worst <= 1e-14
    t = 1.0 - (memory.score(memory.keys) + memory.offset)
    assert memory.offset == pytest.approx(float(t.min()), abs=1e-15)


@pytest.mark.parametrize("needed", [5, 20, 37, 40, 41, 44, 45, 52, 100])
@pytest.mark.parametrize("spare", [1, 2, 4])
def test_a_cap_of_one_over_a_whole_number(needed: int, spare: int) -> None:
    """The caps of `needed` keys add up to 1 but for rounding, so that the margin may be empty or hold 1e-17."""
    for seed in range(4):
        keys = draw(needed + spare, 3, seed)
        memory = Memory.fit(keys, keys, sigma=2.0, cap=1.0 / needed)
        assert not memory.outcomes
        assert_sound(memory)


def test_nu_and_its_cap_are_the_same_fit() -> None:
    keys = draw(150, 4)
    by_nu = Memory.fit(keys, keys, sigma=2.0, nu=0.3)
    by_cap = Memory.fit(keys, keys, sigma=2.0, cap=1.0 / (0.3 * 150))
    assert by_nu.coefficients.tobytes() == by_cap.coefficients.tobytes()
    assert by_nu.offset == by_cap.offset
    assert (by_nu.nu, by_cap.nu) == (0.3, None)


def test_a_fit_repeats_bit_for_bit() -> None:
    keys = draw(300, 5)
    first, second = (Memory.fit(keys, keys, sigma=2.0, nu=0.3) for _ in range(2))
    assert first.coefficients.tobytes() == second.coefficients.tobytes()
    assert first.offset == second.offset


def test_many_dimensions_and_many_keys() -> None:
    wide = Memory.fit(draw(120, 1024), np.zeros(120), sigma=30.0, nu=0.3)
    assert_sound(wide)
    tall = Memory.fit(1.5 * draw(2048, 6), np.zeros(2048), sigma=2.0, nu=0.2)
    assert_sound(tall)
    assert not wide.outcomes
    assert not tall.outcomes


@pytest.mark.parametrize("exponent", range(-3, 7))
def test_widths_above_the_size_of_a_quick_guess(exponent: int) -> None:
    keys = draw(SMALL + 60, 3)
    memory = Memory.fit(keys, keys, sigma=10.0**exponent, nu=0.4)
    assert not memory.outcomes
    assert_sound(memory)


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-9, 1e-6, 1e-3])
def test_many_near_duplicates(noise: float) -> None:
    rng = np.random.default_rng(1)
    keys = np.repeat(2.0 * rng.standard_normal((10, 5)), 30, axis=0)
    keys = keys + noise * rng.standard_normal(keys.shape)
    memory = Memory.fit(keys, keys, sigma=2.0, nu=0.3)
    assert not memory.outcomes
    assert_sound(memory)


@pytest.mark.parametrize(("size", "dimension"), [(SMALL, 3), (600, 3), (600, 64)])
@pytest.mark.parametrize("steps", [0, 1])
def test_the_guess_does_not_decide_the_fit(
    size: int, dimension: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = draw(size, dimension)
    usual = Memory.fit(keys, keys, sigma=dimension**0.5, nu=0.3)
    monkeypatch.setattr(initial_guess, "STEPS", steps)
    poor = Memory.fit(keys, keys, sigma=dimension**0.5, nu=0.3)
    assert not poor.outcomes
    assert_sound(poor)
    assert np.abs(poor.coefficients - usual.coefficients).max() <= 1e-9 * usual.cap


@pytest.mark.parametrize("room", [0, 40, 60, 200])
def test_room_for_few_rows_gives_the_same_fit(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of keys at a bound are dropped and made again; too little room for the margin is exceeded."""
    keys = draw(600, 4)
    usual = Memory.fit(keys, keys, sigma=2.0, nu=0.3)
    monkeypatch.setattr(initial_guess, "ROOM", room * 600)
    cramped = Memory.fit(keys, keys, sigma=2.0, nu=0.3)
    assert np.array_equal(cramped.coefficients, usual.coefficients)
    assert cramped.offset == usual.offset


def test_keys_at_the_cap_need_no_rows() -> None:
    """What makes 100,000 entries fit into memory: rows for the margin and what moves, not for all that weighs."""
    keys, most = draw(3000, 4), 0
    gram = KernelRows(keys, 2.0)

    def watch(stage: str, done: int, total: int) -> None:
        nonlocal most
        most = max(most, gram.count)

    state = fit(gram, np.ones(3000, dtype=np.int64), 1.0 / 600, watch)
    assert np.count_nonzero(state.status[:3000] == BOUND) > 500
    assert max(most, gram.count) < 300


@pytest.mark.parametrize("size", [40, 300, 700])
@pytest.mark.parametrize("left", [1, 5, 31])
def test_sites_without_entries_are_passed_over(size: int, left: int) -> None:
    """A fit beside deleted sites is the fit of the others."""
    keys, counts = draw(size, 3), np.zeros(size, dtype=np.int64)
    kept = np.sort(np.random.default_rng(left).permutation(size)[: size * left // 32 + 2])
    counts[kept] = 1
    cap = 2.5 / kept.size
    among = fit(KernelRows(keys, 2.0), counts, cap)
    alone = fit(KernelRows(keys[kept], 2.0), np.ones(kept.size, dtype=np.int64), cap)
    assert not among.alpha[: among.sites][counts == 0].any()
    assert np.abs(among.alpha[kept] - alone.alpha[: kept.size]).max() <= 1e-9 * cap


def test_distinct_sites_in_order_of_first_appearance() -> None:
    keys = np.array([[1.0], [0.0], [1.0], [2.0], [0.0]])
    first, site_of = distinct_sites(keys)
    assert first.tolist() == [0, 1, 3]
    assert site_of.tolist() == [0, 1, 0, 2, 1]
