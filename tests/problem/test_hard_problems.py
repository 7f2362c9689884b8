"""The named problems, the trajectories and the fifty-digit solver are what they say they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from flint import arb, ctx

from expunge.audit.experiments.trajectories import PAPER_SEEDS, draw_trajectory, sequential_grid
from expunge.errors import InputError
from expunge.problem.kernel import kernel_block
from highprecision import solve_exactly
from problems import PROBLEMS


def test_every_problem_is_well_formed() -> None:
    for name, problem in PROBLEMS.items():
        assert problem.keys.ndim == problem.values.ndim == 2, name
        assert len(problem.keys) == len(problem.values) == problem.size <= 200, name
        assert problem.sigma > 0.0, name
        assert problem.size * problem.cap >= 1.0 - problem.size * 2.0**-53, name
        for array in (problem.keys, problem.values):
            assert array.dtype == np.float64, name
            assert np.all(np.isfinite(array)), name
            assert not array.flags.writeable, name


def test_duplicates_are_where_the_name_says() -> None:
    copied = {name for name, one in PROBLEMS.items() if len(np.unique(one.keys + 0.0, axis=0)) < one.size}
    named = {name for name in PROBLEMS if name.startswith("duplicates")}
    assert copied == named | {"near-duplicates-and-exact", "empty-margin-copies"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_truth_satisfies_the_optimality_conditions_in_plain_arithmetic(name: str) -> None:
    problem = PROBLEMS[name]
    truth = solve_exactly(problem.keys, cap=problem.cap, sigma=problem.sigma)
    alpha = truth.coefficients
    t = 1.0 - 2.0 * (kernel_block(problem.keys, problem.keys, problem.sigma) @ alpha)
    gap = t - truth.offset
    margin = (alpha > 1e-7) & (alpha < problem.cap - 1e-7)
    assert abs(alpha.sum() - 1.0) <= 1e-15
    assert np.all((alpha >= 0.0) & (alpha <= problem.cap))
    assert np.max(np.abs(t - truth.scores)) <= 1e-14
    assert np.max(np.abs(gap[margin]), initial=0.0) <= 1e-14
    assert np.max(gap[alpha <= 1e-7], initial=0.0) <= 1e-14
    assert np.max(-gap[alpha >= problem.cap - 1e-7], initial=0.0) <= 1e-14
    assert all(x.rad() <= arb("1e-50") for x in truth.exact)
    assert truth.lowest <= truth.offset == truth.highest


@pytest.mark.parametrize("name", ["near-duplicates-1e-12", "lattice-2d-5", "polygon-12-wide", "expiry-after"])
def test_the_guess_does_not_decide_the_truth(name: str) -> None:
    problem = PROBLEMS[name]
    cold = solve_exactly(problem.keys, cap=problem.cap, sigma=problem.sigma)
    rng = np.random.default_rng(5)
    guesses = [cold.coefficients, rng.uniform(-1.0, 2.0, problem.size), np.full(problem.size, problem.cap)]
    pivots: list[int] = []
    for guess in guesses:
        warm = solve_exactly(problem.keys, cap=problem.cap, sigma=problem.sigma, guess=guess)
        with ctx.workprec(256):
            assert all(abs(a - b) <= arb("1e-45") for a, b in zip(warm.exact, cold.exact, strict=True))
        pivots.append(warm.pivots)
    assert pivots[0] <= cold.pivots


@pytest.mark.parametrize(
    "name",
    ["simplex-3", "simplex-8", "cross-polytope-3", "cross-polytope-8", "hypercube-5", "two-keys-cap-1"],
)
def test_symmetry_gives_equal_coefficients(name: str) -> None:
    problem = PROBLEMS[name]
    truth = solve_exactly(problem.keys, cap=problem.cap, sigma=problem.sigma)
    with ctx.workprec(256):
        assert all(abs(x - arb(1) / problem.size) <= arb("1e-45") for x in truth.exact)


def test_the_papers_example() -> None:
    before, after = PROBLEMS["expiry-before"], PROBLEMS["expiry-after"]
    first = solve_exactly(before.keys, cap=before.cap, sigma=before.sigma)
    assert first.coefficients[2] == 0.0
    assert first.offset - first.scores[2] == pytest.approx(0.00817, abs=5e-6)
    second = solve_exactly(after.keys, cap=after.cap, sigma=after.sigma)
    assert second.coefficients[2] == pytest.approx(0.033, abs=5e-4)


def test_an_infeasible_cap_has_no_truth() -> None:
    with pytest.raises(ValueError, match="no feasible point"):
        solve_exactly(np.zeros((3, 1)), cap=0.3, sigma=1.0)


def test_the_grid_is_the_papers() -> None:
    grid = list(sequential_grid(cycles=1))
    assert len(grid) == 80
    assert len({trajectory.label for trajectory in grid}) == 80
    assert {trajectory.seed for trajectory in grid} == set(PAPER_SEEDS)
    assert sum(1 for trajectory in sequential_grid([41000]) for _ in trajectory.operations()) == 8 * 64


def test_draws_come_in_the_documented_order() -> None:
    trajectory = draw_trajectory("near-duplicate", 20, 3, 7, cycles=2)
    rng = np.random.default_rng(7)
    centres = 2.0 * rng.standard_normal((8, 3))
    keys = centres[rng.integers(8, size=20)] + 0.02 * rng.standard_normal((20, 3))
    assert np.array_equal(trajectory.keys, keys)
    assert np.array_equal(trajectory.values, rng.uniform(-1.0, 1.0, (20, 4)))
    assert np.array_equal(trajectory.anchors, rng.standard_normal((32, 3)))
    for cycle in trajectory.cycles:
        assert cycle.row == rng.integers(20)
        assert np.array_equal(cycle.rows_after_delete, rng.choice(19, 16, replace=False))
        assert np.array_equal(cycle.noise_after_delete, 0.1 * rng.standard_normal((16, 3)))
        key = centres[rng.integers(8, size=1)] + 0.02 * rng.standard_normal((1, 3))
        assert np.array_equal(cycle.key, key[0])
        assert np.array_equal(cycle.value, rng.uniform(-1.0, 1.0, (1, 4))[0])
        assert np.array_equal(cycle.rows_after_admit, rng.choice(20, 16, replace=False))
        assert np.array_equal(cycle.noise_after_admit, 0.1 * rng.standard_normal((16, 3)))


def test_operations_follow_the_schedule() -> None:
    trajectory = draw_trajectory("gaussian", 64, 6, 41003)
    assert trajectory.cap == 1.0 / (0.4 * 64)
    assert trajectory.sigma == 2.0
    held = dict(zip(trajectory.names, trajectory.keys, strict=True))
    for operation, kind in zip(trajectory.operations(), itertools.cycle(("delete", "admit")), strict=False):
        assert operation.kind == kind
        if kind == "delete":
            assert np.array_equal(held.pop(operation.name), operation.key)
        else:
            held[operation.name] = operation.key
        assert operation.names == tuple(held)
        assert np.array_equal(operation.keys, np.array(list(held.values())))
        size = len(held)
        assert operation.probes.shape == (size + 1 + 32 + 16, 6)
        assert np.array_equal(operation.probes[:size], operation.keys)
        assert np.array_equal(operation.probes[size], operation.key)
        assert np.array_equal(operation.probes[size + 1 : size + 33], trajectory.anchors)


def test_fewer_cycles_are_a_prefix() -> None:
    long, short = draw_trajectory("gaussian", 64, 6, 1), draw_trajectory("gaussian", 64, 6, 1, cycles=3)
    pairs = zip(long.operations(), short.operations(), strict=False)
    assert all(np.array_equal(a.probes, b.probes) for a, b in pairs)


def test_a_bad_trajectory_is_refused() -> None:
    with pytest.raises(InputError, match="unknown regime"):
        draw_trajectory("uniform", 64, 6, 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="more than 16"):
        draw_trajectory("gaussian", 16, 6, 1)
