from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from sklearn.svm import OneClassSVM

from expunge import Memory
from expunge.certificates.bounds import Bounds, proved_zero, rigorous_bounds
from expunge.certificates.intervals import (
    DECAY_ERROR,
    FAR,
    decays,
    kernel_enclosure,
    similarity_enclosure,
    smallest_eigenvalue,
)
from expunge.errors import InputError
from expunge.problem.kernel import kernel_block, squared_distances
from expunge.problem.problem import Problem, cap_from, fewest_keys
from expunge.problem.solution import Solution
from expunge.types import Matrix, Vector
from highprecision import Truth, exact_kernel, solve_exactly
from problems import PROBLEMS as DRAWN

PAPER = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]])

# With the caps that a memory keeps: 1/m is rounded so that m·C reaches 1.
PROBLEMS = {
    name: problem if problem.cap > 1.0 else replace(problem, cap=cap_from(problem.size, cap=problem.cap))
    for name, problem in DRAWN.items()
}
SUBJECTS = [
    "sequential-gaussian-n64-d6",
    "sequential-near-duplicate-n64-d6",
    "duplicates-groups",
    "duplicates-two-sites",
    "near-duplicates-1e-04",
    "near-duplicates-1e-12",
    "lattice-2d-5",
    "polygon-12-wide",
    "width-1e-3",
    "width-1e+4",
    "cap-full",
    "cap-full-rounded",
    "cap-one-spare",
    "single",
    "empty-margin-square",
    "empty-margin-ring",
    "coordinates-huge",
    "coordinates-tiny",
    "coordinates-shells",
    "expiry-after",
    "more-dimensions-than-keys",
]


@cache
def truth_of(name: str) -> tuple[Truth, arb]:
    """The optimum, and its offset by Lemma 1: the ⌈1/C⌉-th largest term."""
    problem = PROBLEMS[name]
    truth = solve_exactly(problem.keys, cap=problem.cap, sigma=problem.sigma)
    with ctx.workprec(256):
        kernel = exact_kernel(problem.keys, problem.keys, problem.sigma)
        terms = (kernel * arb_mat(problem.size, 1, list(truth.exact))).entries()
        ranked = sorted((1 - 2 * x for x in terms), key=lambda t: t.mid(), reverse=True)
        return truth, ranked[fewest_keys(problem.cap) - 1]


@cache
def states_of(name: str) -> list[tuple[str, Vector, float]]:
    """A solved state, shaken ones, and LIBSVM's."""
    problem = PROBLEMS[name]
    memory = Memory.fit(problem.keys, problem.values, sigma=problem.sigma, cap=problem.cap)
    alpha, rho = memory.coefficients, memory.offset
    rng = np.random.default_rng(3)
    found = [("solved", alpha, rho)]
    for noise in (1e-9, 1e-4):
        shaken = alpha * (1.0 + noise * rng.standard_normal(alpha.size))
        found.append((f"noise {noise}", shaken, rho + noise))
    # Outside the box and with another mass, as a foreign backend may leave it.
    found.append(("foreign", alpha + 1e-7 * rng.uniform(-1.0, 1.0, alpha.size), rho))
    nu = 1.0 / (problem.cap * problem.size)
    if nu < 1.0:
        model = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-4)
        model.fit(kernel_block(problem.keys, problem.keys, problem.sigma))
        libsvm = np.zeros(problem.size)
        libsvm[model.support_] = model.dual_coef_.ravel() / (nu * problem.size)
        found.append(("libsvm", libsvm, 1.0 - 2.0 * float(model.offset_[0]) / (nu * problem.size)))
    else:
        # LIBSVM has no finite offset here.
        found.append(("uneven", alpha * rng.uniform(0.5, 1.0, alpha.size), rho))
    return found


def bounds_of(name: str, coefficients: Vector, offset: float) -> Bounds:
    problem = PROBLEMS[name]
    return rigorous_bounds(
        problem.keys, coefficients, offset, cap=problem.cap, sigma=problem.sigma, values=problem.values
    )


def read(name: str, coefficients: Vector, queries: Matrix) -> Matrix:
    """What `Memory.read` computes, for any coefficients."""
    problem = PROBLEMS[name]
    active = np.flatnonzero(coefficients)
    distances = squared_distances(queries, problem.keys[active])
    distances -= distances.min(axis=1, keepdims=True)
    weights = coefficients[active] * np.exp(-distances / problem.sigma**2)
    return np.asarray(weights @ problem.values[active] / weights.sum(axis=1, keepdims=True))


def queries_for(name: str, delta: Vector, drift: float, count: int = 60) -> Matrix:
    """Keys, draws near and far, and the ends of gradient ascent on the score's error."""
    problem = PROBLEMS[name]
    rng = np.random.default_rng(5)
    dimension = problem.keys.shape[1]
    near = problem.keys[rng.integers(problem.size, size=count)]
    near = near + problem.sigma * rng.choice([0.1, 0.5, 2.0, 50.0], (count, 1)) * rng.standard_normal(
        (count, dimension)
    )
    points = near[: count // 2].copy()
    step = np.full(len(points), 0.2 * problem.sigma)
    for _ in range(25):
        kappa = kernel_block(points, problem.keys, problem.sigma) * delta
        value = 2.0 * kappa.sum(axis=1) - drift
        slope = (kappa @ problem.keys - kappa.sum(axis=1, keepdims=True) * points) * np.sign(value)[:, None]
        norm = np.linalg.norm(slope, axis=1, keepdims=True)
        tried = points + step[:, None] * slope / np.where(norm > 0.0, norm, 1.0)
        raised = np.abs(2.0 * kernel_block(tried, problem.keys, problem.sigma) @ delta - drift) > np.abs(value)
        points[raised] = tried[raised]
        step *= np.where(raised, 1.5, 0.4)
    return np.vstack([problem.keys[: count // 3], near, points])


def exact_at(name: str, queries: Matrix) -> tuple[Vector, Matrix]:
    """s* and o* in ball arithmetic, rounded once."""
    problem, (truth, offset) = PROBLEMS[name], truth_of(name)
    active = np.flatnonzero(truth.coefficients).tolist()
    with ctx.workprec(220):
        weights = arb_mat([[truth.exact[i], *(truth.exact[i] * v for v in problem.values[i].tolist())] for i in active])
        sums = (exact_kernel(queries, problem.keys[active], problem.sigma) * weights).tolist()
        scores = np.array([float(2 * row[0] - offset) for row in sums])
        return scores, np.array([[float(x / row[0]) for x in row[1:]] for row in sums])


@pytest.mark.parametrize("name", [n for n in PROBLEMS if PROBLEMS[n].keys.shape[1] < 64])
def test_the_offset_is_an_order_statistic(name: str) -> None:
    truth, offset = truth_of(name)
    assert float(offset) == pytest.approx(truth.offset, abs=1e-14)


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("name", SUBJECTS)
def test_no_error_exceeds_its_bound(name: str, k: int) -> None:
    problem, (truth, exact_offset) = PROBLEMS[name], truth_of(name)
    _, alpha, rho = states_of(name)[k]
    bounds = bounds_of(name, alpha, rho)
    with ctx.workprec(256):
        delta = np.array([float(arb(a) - x) for a, x in zip(alpha.tolist(), truth.exact, strict=True)])
        drift = float(arb(rho) - exact_offset)
        moved = arb_mat(problem.size, 1, [arb(a) - x for a, x in zip(alpha.tolist(), truth.exact, strict=True)])
        centre = (moved.transpose() * exact_kernel(problem.keys, problem.keys, problem.sigma) * moved)[0, 0]
        distance = math.sqrt(max(0.0, float(centre)))
    assert distance <= bounds.centre * (1.0 + 1e-12)
    assert float(centre) <= bounds.gap / 2.0 * (1.0 + 1e-12)
    assert abs(drift) <= bounds.offset
    assert np.linalg.norm(delta) <= bounds.coefficient
    zeros, caps = truth.coefficients == 0.0, truth.coefficients == problem.cap
    assert np.all(zeros[bounds.zero])
    assert np.all(caps[bounds.full])

    queries = queries_for(name, delta, drift)
    scores, readouts = exact_at(name, queries)
    solution = Solution(Problem(problem.keys, problem.cap, problem.sigma), alpha, rho)
    rounded = 2.0**-52
    assert np.all(np.abs(solution.score(queries) - scores) <= bounds.score + rounded * np.abs(scores))
    error = np.linalg.norm(read(name, alpha, queries) - readouts, axis=1)
    assert np.all(error <= bounds.readout_bound(queries) + rounded * np.linalg.norm(readouts, axis=1))
    denominators = solution.similarity(queries)
    for threshold in (1e-3, float(np.median(denominators[denominators > 0.0]))):
        inside = denominators >= threshold * (1.0 + 1e-9)
        assert np.all(error[inside] <= bounds.readout_bound_where(threshold) + rounded)


def test_a_solved_state_is_bounded_near_rounding_and_settled() -> None:
    for name in ("sequential-gaussian-n128-d6", "sequential-gaussian-n128-d64", "sequential-near-duplicate-n128-d6"):
        problem = PROBLEMS[name]
        memory = Memory.fit(problem.keys, problem.values, sigma=problem.sigma, cap=problem.cap)
        bounds = bounds_of(name, memory.coefficients, memory.offset)
        assert bounds.score < 1e-11
        assert bounds.coefficient < 1e-9
        assert bounds.readout_bound(problem.keys).max() < 1e-8
        assert np.array_equal(np.flatnonzero(bounds.zero), memory.partition.reserve)
        assert np.array_equal(np.flatnonzero(bounds.full), memory.partition.bound)
        zero = proved_zero(memory.keys, memory.coefficients, cap=memory.cap, sigma=memory.sigma)
        assert np.array_equal(zero, bounds.zero)


def test_the_bound_of_an_inaccurate_state_is_within_a_factor_of_its_error() -> None:
    for name in ("sequential-gaussian-n64-d6", "lattice-2d-5", "duplicates-groups"):
        truth, exact_offset = truth_of(name)
        _, alpha, rho = states_of(name)[4]
        delta = alpha - truth.coefficients
        queries = queries_for(name, delta, rho - float(exact_offset))
        problem = PROBLEMS[name]
        scores = Solution(Problem(problem.keys, problem.cap, problem.sigma), alpha, rho).score(queries)
        seen = float(np.abs(scores - exact_at(name, queries)[0]).max())
        assert seen > 1e-8
        assert bounds_of(name, alpha, rho).score < 20.0 * seen


def test_the_gap_alone_still_bounds_where_the_kernel_matrix_is_singular() -> None:
    name = "near-duplicates-1e-12"
    _, alpha, rho = states_of(name)[0]
    bounds = bounds_of(name, alpha, rho)
    assert bounds.eigenvalue == 0.0
    assert bounds.coefficient == math.inf
    assert bounds.score < 1e-6
    assert np.all(np.isfinite(bounds.readout_bound(PROBLEMS[name].keys)))
    assert math.isfinite(bounds.readout_bound_where(1e-3))


def test_the_papers_third_key_is_proved_zero() -> None:
    assert proved_zero(PAPER, [0.5, 0.5, 0.0], cap=1.0, sigma=5.0).tolist() == [False, False, True]
    # The slack is 0.00817: a state this far off no longer proves it.
    assert not proved_zero(PAPER, [0.52, 0.48, 0.0], cap=1.0, sigma=5.0).any()


def test_far_queries_and_equal_values() -> None:
    values = np.full((3, 2), 7.0)
    bounds = rigorous_bounds(PAPER, [0.5, 0.5, 0.0], 0.0, cap=1.0, sigma=5.0, values=values)
    queries = np.array([[0.0, 0.0], [1e3, 0.0], [1e9, 1e9], [1e140, -1e140]])
    assert np.all(bounds.readout_bound(queries) >= 0.0)
    assert bounds.readout_bound(queries)[:2].max() < 1e-6
    assert bounds.readout_bound_where(0.5) < 1e-12
    assert bounds.offset > 0.1


def test_decay_errs_by_less_than_it_says() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.uniform(0.0, 3.0, 2000),
            rng.uniform(0.0, FAR, 2000),
            10.0 ** rng.uniform(-300.0, 2.8, 1000),
            np.arange(1009) * math.log(2.0),
            np.nextafter((np.arange(1009) + 0.5) * math.log(2.0), rng.choice([0.0, 1e3], 1009)),
            [0.0, FAR, 5e-324],
        ]
    )
    x = x[x <= FAR]
    out = np.empty_like(x)
    decays(x, out)
    with ctx.workprec(120):
        worst = max(abs(float(arb(k) / (-arb(v)).exp() - 1)) for k, v in zip(out.tolist(), x.tolist(), strict=True))
    assert worst < DECAY_ERROR / 2.0
    beyond = np.array([np.nextafter(FAR, np.inf), 1e300, np.inf])
    decays(beyond, rest := np.empty(3))
    assert rest.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "name",
    ["coordinates-huge", "coordinates-tiny", "coordinates-mixed", "coordinates-shells", "embedding-384d", "width-1e-3"],
)
def test_enclosures_contain_the_exact_values(name: str) -> None:
    problem = PROBLEMS[name]
    keys = problem.keys[:20]
    kernel, radius = kernel_enclosure(keys, keys, problem.sigma)
    weights = np.random.default_rng(1).uniform(-1.0, 1.0, len(keys))
    middle, spread = similarity_enclosure(keys, keys, weights, problem.sigma)
    with ctx.workprec(200):
        exact = exact_kernel(keys, keys, problem.sigma)
        sums = (exact * arb_mat(len(keys), 1, [arb(w) for w in weights.tolist()])).entries()
        for i in range(len(keys)):
            assert abs(sums[i] - arb(middle[i])) <= arb(spread[i])
            for j in range(len(keys)):
                assert abs(exact[i, j] - arb(kernel[i, j])) <= arb(radius[i, j])
    assert radius.max() < 1e-12
    assert spread.max() < 1e-11


def test_the_eigenvalue_bound_is_below_and_close() -> None:
    rng = np.random.default_rng(2)
    for size, sigma in ((1, 1.0), (5, 1.0), (40, 1.0), (60, 2.0)):
        kernel, radius = kernel_enclosure(keys := rng.standard_normal((size, 3)), keys, sigma)
        with ctx.workprec(200):
            exact = exact_kernel(keys, keys, sigma)
            inverse = exact.inv()
            largest = max(float(sum((abs(x) for x in row), arb(0))) for row in inverse.tolist())
            shifted = np.linalg.eigvalsh(kernel)[0]
        found = smallest_eigenvalue(kernel, radius)
        assert 0.99 * shifted <= found <= shifted * (1.0 + 1e-6)
        assert found >= 0.99 / largest
    twice = np.repeat(keys[:4], 2, axis=0)
    assert smallest_eigenvalue(*kernel_enclosure(twice, twice, 1.0)) == 0.0
    assert smallest_eigenvalue(np.empty((0, 0)), np.empty((0, 0))) == math.inf


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="no optimum"):
        rigorous_bounds(np.eye(7), np.full(7, 1 / 7), 0.1, cap=1 / 7, sigma=1.0)
    good = rigorous_bounds(PAPER, [0.5, 0.5, 0.0], 0.1, cap=1.0, sigma=5.0)
    with pytest.raises(InputError, match="values"):
        good.readout_bound(PAPER)
    with pytest.raises(InputError, match="values"):
        good.readout_bound_where(0.5)
    with pytest.raises(InputError, match="one number per key"):
        rigorous_bounds(PAPER, [0.5, 0.5], 0.1, cap=1.0, sigma=5.0)
    with pytest.raises(InputError, match="finite"):
        rigorous_bounds(PAPER, [0.5, 0.5, np.inf], 0.1, cap=1.0, sigma=5.0)
    with pytest.raises(InputError, match="cap"):
        rigorous_bounds(PAPER, [0.5, 0.5, 0.0], 0.1, cap=-1.0, sigma=5.0)
    with pytest.raises(InputError, match="sigma"):
        rigorous_bounds(PAPER, [0.5, 0.5, 0.0], 0.1, cap=1.0, sigma=0.0)
    with pytest.raises(InputError, match="one row per key"):
        rigorous_bounds(PAPER, [0.5, 0.5, 0.0], 0.1, cap=1.0, sigma=5.0, values=[1.0, 2.0])
    with pytest.raises(InputError, match="offset"):
        rigorous_bounds(PAPER, [0.5, 0.5, 0.0], math.nan, cap=1.0, sigma=5.0)
    with_values = rigorous_bounds(PAPER, [0.5, 0.5, 0.0], 0.1, cap=1.0, sigma=5.0, values=[1.0, 2.0, 9.0])
    with pytest.raises(InputError, match="denominator"):
        with_values.readout_bound_where(0.0)
    with pytest.raises(InputError, match="denominator"):
        with_values.readout_bound_where("much")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="offset"):
        rigorous_bounds(PAPER, [0.5, 0.5, 0.0], "low", cap=1.0, sigma=5.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1e-170, 1e-250, 1e-300])
def test_the_square_of_a_tiny_value_does_not_vanish_from_a_bound(size: float) -> None:
    rng = np.random.default_rng(0)
    keys, values = rng.standard_normal((8, 2)), rng.standard_normal((8, 1))
    memory = Memory.fit(keys, values, sigma=1.5, nu=0.5)
    alpha = memory.coefficients + 1e-4 * np.array([1.0, -1.0, *[0.0] * 6])
    small, usual = (
        rigorous_bounds(keys, alpha, memory.offset, cap=memory.cap, sigma=1.5, values=scale * values)
        for scale in (size, 1.0)
    )
    queries = rng.standard_normal((5, 2))
    # Everything but the floor is proportional to the values.
    assert (small.readout_bound(queries) >= 0.99 * size * usual.readout_bound(queries)).all()
    assert small.readout_bound_where(0.1) >= 0.99 * size * usual.readout_bound_where(0.1)
