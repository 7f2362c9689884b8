"""The check: the paper's three terms, and the compiled judge of a transaction saying exactly the same."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from agreement import fitted
from expunge.problem.check import StateCheck, check_state, check_terms, stationarity_terms
from expunge.problem.kernel import kernel_block
from expunge.problem.tolerances import ACCEPTANCE, PARTITION_THRESHOLD, PUBLISHED
from expunge.solver.candidate_check import _judge, check_candidate, slack_error
from expunge.solver.state import ABSENT, BOUND, MARGIN, RESERVE, SiteArrays
from expunge.types import Vector
from problems import PROBLEMS

CAP = 0.25


def judged_by_hand(coefficients: Vector, t: Vector, rho: float, cap: float) -> tuple[float, float, float]:
    """The paper's terms, one key at a time; the mass in exact arithmetic."""
    mass = abs(float(sum(map(Fraction, coefficients.tolist())) - 1))
    box = stationarity = 0.0
    for a, term in zip(coefficients.tolist(), t.tolist(), strict=True):
        box = max(box, -a, a - cap)
        if a <= 1e-7:
            stationarity = max(stationarity, term - rho)
        elif a >= cap - 1e-7:
            stationarity = max(stationarity, rho - term)
        else:
            stationarity = max(stationarity, abs(rho - term))
    return mass, box, stationarity


def nasty_coefficients(rng: np.random.Generator, size: int) -> Vector:
    edges = [0.0, 5e-324, 1e-7, np.nextafter(1e-7, 1), CAP - 1e-7, np.nextafter(CAP - 1e-7, 0), CAP]
    outside = [-1e-9, -5e-324, CAP + 1e-9, np.nextafter(CAP, 1)]
    picked = rng.choice(np.array(edges + outside), size)
    return np.where(rng.random(size) < 0.5, rng.uniform(0.0, CAP, size), picked)


@pytest.mark.parametrize("seed", range(40))
def test_the_terms_are_the_papers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 40))
    coefficients, t = nasty_coefficients(rng, size), rng.uniform(-1.0, 1.0, size)
    check = check_terms(coefficients, t, 0.1, cap=CAP)
    assert (check.mass, check.box, check.stationarity) == judged_by_hand(coefficients, t, 0.1, CAP)
    assert check.worst == max(check.mass, check.box, check.stationarity)


def test_the_mass_is_summed_without_cancellation() -> None:
    coefficients = np.array([1e16, 1.0, -1e16, 1e-30])
    assert check_terms(coefficients, np.zeros(4), 0.0, cap=1.0).mass == 1e-30


def test_counts_multiply_the_mass_alone() -> None:
    coefficients, t = np.array([0.1, 0.2, 0.0]), np.array([0.5, 0.25, 0.0])
    check = check_terms(coefficients, t, 0.25, cap=0.2, counts=np.array([2.0, 3.0, 7.0]))
    assert check.mass == pytest.approx(0.2, abs=1e-15)
    assert check.box == 0.0
    assert check.stationarity == 0.25


def test_signs_at_the_bounds() -> None:
    # A reserve key may lie inside, a bound key outside, a margin key nowhere but on the boundary.
    for coefficient, t, expected in (
        (0.0, -0.5, 0.0),
        (0.0, 0.5, 0.5),
        (CAP, 0.5, 0.0),
        (CAP, -0.5, 0.5),
        (0.1, 0.5, 0.5),
        (0.1, -0.5, 0.5),
    ):
        check = check_terms(np.array([coefficient]), np.array([t]), 0.0, cap=CAP)
        assert check.stationarity == expected


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["coefficient", "term", "offset"])
def test_a_term_that_is_not_a_number_never_passes(where: str, poison: float) -> None:
    coefficients, t, offset = np.full(4, 0.25), np.zeros(4), 0.0
    if where == "coefficient":
        coefficients[1] = poison
    elif where == "term":
        # At the bound only a term below the offset is wrong.
        t[1] = -math.inf if math.isinf(poison) else poison
    else:
        offset = math.inf if math.isinf(poison) else poison
    check = check_terms(coefficients, t, offset, cap=0.25)
    assert check.worst == math.inf
    assert not check.passed
    assert not replace(check, tolerance=ACCEPTANCE).passed


def test_tolerances() -> None:
    check = StateCheck(mass=1e-7, box=0.0, stationarity=2e-7)
    assert check.tolerance == PUBLISHED
    assert not check.passed
    assert replace(check, tolerance=ACCEPTANCE).passed
    assert replace(check, tolerance=2e-7).passed
    assert replace(check, tolerance=ACCEPTANCE).worst == check.worst == 2e-7
    assert (PARTITION_THRESHOLD, ACCEPTANCE, PUBLISHED) == (1e-7, 1e-5, 1e-9)


def test_stationarity_terms_are_one_minus_twice_the_product() -> None:
    rng = np.random.default_rng(4)
    keys, coefficients = rng.standard_normal((50, 3)), rng.uniform(0.0, 1.0, 50) / 25
    coefficients[::3] = 0.0
    t = stationarity_terms(keys, coefficients, 1.5)
    assert np.max(np.abs(t - (1.0 - 2.0 * kernel_block(keys, keys, 1.5) @ coefficients))) <= 1e-15


def test_a_moved_state_is_found_out() -> None:
    memory = fitted(PROBLEMS["sequential-gaussian-n64-d6"])
    keys, cap, sigma = memory.keys, memory.cap, memory.sigma
    assert check_state(keys, memory.coefficients, memory.offset, cap=cap, sigma=sigma).worst <= 1e-14
    for row in (int(memory.partition.margin[0]), int(memory.partition.bound[0]), int(memory.partition.reserve[0])):
        moved = memory.coefficients.copy()
        moved[row] += 1e-6
        check = check_state(keys, moved, memory.offset, cap=cap, sigma=sigma)
        assert check.mass >= 0.9e-6
        assert not check.passed
    shifted = check_state(keys, memory.coefficients, memory.offset + 1e-6, cap=cap, sigma=sigma)
    assert shifted.stationarity >= 0.9e-6
    displaced = keys.copy()
    displaced[memory.partition.margin[0]] += 1e-4
    assert not check_state(displaced, memory.coefficients, memory.offset, cap=cap, sigma=sigma).passed


def judge(alpha: Vector, counts: Vector, sums: Vector, offset: float, cap: float) -> tuple[float, float, float]:
    """The compiled judge on sites whose bookkeeping is of no interest."""
    ceiling = counts * cap
    status = np.where(counts == 0, ABSENT, np.where(alpha == 0.0, RESERVE, np.where(alpha == ceiling, BOUND, MARGIN)))
    whole = counts.astype(np.int64)
    slack = np.full(sums.size, np.nan)
    at = SiteArrays(alpha, ceiling, slack, status.astype(np.int8), whole)
    margin = np.flatnonzero(status == MARGIN)
    mass, box, stationarity, _ = _judge(at, margin, whole, sums, offset, cap, PARTITION_THRESHOLD)
    np.testing.assert_array_equal(slack, 2.0 * sums + (offset - 1.0))
    return mass, box, stationarity


@pytest.mark.parametrize("seed", range(60))
def test_the_compiled_judge_agrees_with_the_check(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    size = int(rng.integers(1, 60))
    counts = np.ones(size) if seed % 2 else rng.integers(1, 6, size).astype(float)
    share = nasty_coefficients(rng, size)
    alpha, sums = share * counts, rng.uniform(-1.0, 1.0, size)
    mass, box, stationarity = judge(alpha, counts, sums, 0.2, CAP)
    # The check of the very numbers that the judge saw: a share is α / m, rounded.
    expected = check_terms(alpha / counts, 1.0 - 2.0 * sums, 0.2, cap=CAP)
    assert box == expected.box
    assert stationarity == expected.stationarity
    exact = abs(float(sum(map(Fraction, alpha.tolist())) - 1))
    assert abs(mass - exact) <= np.spacing(max(exact, 1e-16))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_judge_and_the_check_agree_on_every_problem(name: str) -> None:
    memory = fitted(PROBLEMS[name])
    state = memory.version.state
    candidate = state.copy()
    judged = check_candidate(candidate, state.multiplicity[: state.sites].copy())
    # What is judged from sums includes the bound on their error.
    bound = slack_error(candidate)
    checked = memory.check()
    assert judged.box == checked.box
    assert abs(judged.mass - checked.mass) <= 4e-16
    assert abs(judged.stationarity - bound - checked.stationarity) <= 4e-15


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["alpha", "keys", "offset"])
@pytest.mark.parametrize("row", [0, 7])
def test_a_poisoned_candidate_never_passes(where: str, poison: float, row: int) -> None:
    memory = fitted(PROBLEMS["duplicates-groups"])
    state = memory.version.state.copy()
    site = int(state.active()[row % state.active().size])
    if where == "alpha":
        state.alpha[site] = poison
    elif where == "keys":
        state.gram.rows[state.gram.row_of[site], :] = poison
    else:
        state = replace(state, offset=poison)
    check = check_candidate(state, state.multiplicity[: state.sites].copy())
    assert check.worst == math.inf
    assert not check.passed


def test_the_judge_counts_the_entries_that_the_edit_left() -> None:
    """A candidate that solved another problem (an entry more, an entry less) is found out."""
    memory = fitted(PROBLEMS["duplicates-at-bound"])
    state = memory.version.state
    counts = state.multiplicity[: state.sites].copy()
    assert check_candidate(state.copy(), counts).passed
    bound = int(np.flatnonzero(state.status[: state.sites] == BOUND)[0])
    for change in (-1, -2):
        fewer = counts.copy()
        fewer[bound] += change
        assert not check_candidate(state.copy(), fewer).passed


def test_bookkeeping_that_disagrees_is_no_starting_point() -> None:
    memory = fitted(PROBLEMS["sequential-gaussian-n64-d6"])
    counts = memory.version.state.multiplicity[: memory.version.state.sites].copy()
    agreeing = memory.version.state.copy()
    check_candidate(agreeing, counts)
    assert agreeing.exact
    for status in (RESERVE, BOUND):
        lying = memory.version.state.copy()
        lying.status[lying.margin.members[0]] = status
        assert check_candidate(lying, counts).passed
        assert not lying.exact
