"""The four ways to read the offset, against each other and against the geometry they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from agreement import cap_of, fitted
from expunge.problem.check import stationarity_terms
from expunge.problem.kernel import kernel_block
from expunge.problem.problem import Problem
from expunge.problem.solution import Solution
from problems import PROBLEMS

ROUNDING = 1e-14


def solution(name: str) -> Solution:
    return fitted(PROBLEMS[name]).solution


def probes(name: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    problem = PROBLEMS[name]
    rng = np.random.default_rng(11)
    scale = float(np.max(np.ptp(problem.keys, axis=0), initial=0.0)) or 1.0
    return np.vstack([problem.keys, problem.keys + 0.1 * scale * rng.standard_normal(problem.keys.shape)])


@pytest.mark.parametrize("name", PROBLEMS)
def test_score_slack_and_boundary_agree(name: str) -> None:
    solved, points = solution(name), probes(name)
    rho = solved.offset
    similarity = kernel_block(points, solved.problem.keys, solved.problem.sigma) @ solved.coefficients
    score, slack = solved.score(points), solved.slack(points)
    assert np.max(np.abs(score - (2.0 * similarity - rho))) <= ROUNDING
    assert np.max(np.abs(slack - (score + 2.0 * rho - 1.0))) <= ROUNDING
    # The boundary g = 0 is met at the score 1 − 2ρ, not at 0.
    assert solved.boundary_score == 1.0 - 2.0 * rho
    assert np.max(np.abs(slack - (score - solved.boundary_score))) <= ROUNDING


@pytest.mark.parametrize("name", PROBLEMS)
def test_slack_is_offset_minus_term_at_the_keys(name: str) -> None:
    solved = solution(name)
    problem = solved.problem
    t = stationarity_terms(problem.keys, solved.coefficients, problem.sigma)
    assert np.max(np.abs(solved.slack(problem.keys) - (solved.offset - t))) <= ROUNDING
    groups, slack = solved.partition, solved.slack(problem.keys)
    assert np.max(np.abs(slack[groups.margin]), initial=0.0) <= ROUNDING
    assert np.min(slack[groups.reserve], initial=0.0) >= -ROUNDING
    assert np.max(slack[groups.bound], initial=0.0) <= ROUNDING


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_radius_is_the_svdd_sphere(name: str) -> None:
    """R² = ρ + αᵀKα and g(x) = R² − ‖φ(x) − c‖², so that margin keys lie on the sphere."""
    solved, points = solution(name), probes(name)
    keys, sigma, alpha = solved.problem.keys, solved.problem.sigma, solved.coefficients
    q = float(alpha @ kernel_block(keys, keys, sigma) @ alpha)
    assert abs(solved.centre_norm_squared - q) <= ROUNDING
    assert solved.radius_squared == solved.offset + solved.centre_norm_squared
    distance = 1.0 - 2.0 * (kernel_block(points, keys, sigma) @ alpha) + q
    assert np.max(np.abs(solved.slack(points) - (solved.radius_squared - distance))) <= ROUNDING


@pytest.mark.parametrize("name", PROBLEMS)
def test_margin_keys_lie_on_the_sphere(name: str) -> None:
    solved = solution(name)
    keys, margin = solved.problem.keys, solved.partition.margin
    distance = 1.0 - 2.0 * solved.similarity(keys[margin]) + solved.centre_norm_squared
    # Vacuous with an empty margin, where the radius has an interval.
    assert np.max(np.abs(distance - solved.radius_squared), initial=0.0) <= ROUNDING
    assert np.max(np.abs(solved.score(keys[margin]) - solved.boundary_score), initial=0.0) <= ROUNDING
    assert solved.radius_squared >= -ROUNDING


@pytest.mark.parametrize("name", PROBLEMS)
def test_objective_and_duality(name: str) -> None:
    """f = αᵀKα − 1. With ξ the distances outside the sphere, R² + CΣξ is the primal value: −f at the optimum."""
    solved = solution(name)
    problem = solved.problem
    assert abs(solved.objective - (solved.centre_norm_squared - 1.0)) <= ROUNDING
    outside = np.maximum(-solved.slack(problem.keys), 0.0)
    assert abs(solved.radius_squared + problem.cap * outside.sum() + solved.objective) <= 1e-13


def test_blocks_do_not_change_the_similarity() -> None:
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((30, 2))
    solved = Solution(Problem.of(keys, sigma=1.0, nu=0.5), np.full(30, 1 / 30), 0.0)
    points = rng.standard_normal((1000, 2))
    direct = kernel_block(points, keys, 1.0) @ solved.coefficients
    assert np.max(np.abs(solved.similarity(points) - direct)) <= 1e-15
    assert solved.similarity(points[:0]).shape == (0,)


def test_a_solution_recomputes_its_residuals() -> None:
    problem = PROBLEMS["sequential-gaussian-n64-d6"]
    solved = fitted(problem).solution
    assert solved.check().passed
    moved = Solution(solved.problem, solved.coefficients + 1e-6, solved.offset)
    assert moved.check().mass == pytest.approx(64e-6, rel=1e-6)
    assert moved.problem.cap == cap_of(problem)
