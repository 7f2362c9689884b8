"""The minimum-norm projection: its optimality conditions, and what must be true of the projected point."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import expunge.solver.min_norm as projection
from agreement import cap_of, copies, fitted, polished, readout, truth
from expunge import Memory
from expunge.errors import InputError, SolveError
from expunge.problem.kernel import kernel_block
from expunge.solver.backends import polish, solve_reference
from expunge.solver.min_norm import PASSED, Projection, project
from expunge.types import IndexArray, Matrix, Vector
from problems import PROBLEMS

clarabel: Any = import_module("clarabel")

TOLERANCES = (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)

# Ten times the largest KKT residual seen on the named problems, kernel values and all sums in fp64.
RESIDUAL = 6e-15

# An interior point stops at a gap g, which leaves √g in the coefficients: if it says that it solved the problem,
# and if it says that it almost did.
SOLVED, ALMOST = 1e-6, 1e-4


@cache
def optimum(name: str) -> Vector:
    return fitted(PROBLEMS[name]).coefficients


def projected(name: str, tolerance: float, coefficients: Vector | None = None) -> Projection:
    problem = PROBLEMS[name]
    given = optimum(name) if coefficients is None else coefficients
    return project(problem.keys, given, cap=cap_of(problem), sigma=problem.sigma, tolerance=tolerance)


def objective(gram: Matrix, a: Vector) -> np.longdouble:
    wide = a.astype(np.longdouble)
    return np.longdouble(wide @ (gram.astype(np.longdouble) @ wide) - wide.sum())


def residual(keys: Matrix, given: Vector, found: Projection, *, cap: float, sigma: float, tolerance: float) -> float:
    """Largest error in the conditions of Eq. 6, with nothing taken from the projection but a and λ."""
    a, multiplier = found.coefficients, found.multiplier
    gram = kernel_block(keys, keys, sigma)
    level = objective(gram, given)
    gap = float(objective(gram, a) - level - tolerance * max(np.longdouble(1.0), abs(level)))
    gradient = (a + multiplier * (gram @ a)) / (1.0 + multiplier)
    below = np.max(gradient[a > 0.0], initial=-np.inf)  # whatever has weight must not be dearer than
    above = np.min(gradient[a < cap], initial=np.inf)  # whatever could take more
    box = max(float(np.max(-a)), float(np.max(a - cap)))
    unused = gap if multiplier == 0.0 else abs(gap) * multiplier / (1.0 + multiplier)
    return max(abs(math.fsum(a) - 1.0), box, 0.5 * float(below - above), gap, unused, 0.0)


def paper_trials(regime: str, count: int) -> list[tuple[Matrix, IndexArray]]:
    """Keys (24, 6) and the rows to delete, in the manner of the standalone audit."""
    rng = np.random.default_rng(0)
    trials = []
    for _ in range(count):
        if regime == "gaussian":
            keys = rng.standard_normal((24, 6))
        else:
            keys = np.repeat(2.0 * rng.standard_normal((4, 6)), 6, axis=0) + 0.02 * rng.standard_normal((24, 6))
        trials.append((keys, rng.choice(24, 2, replace=False)))
    return trials


@pytest.mark.parametrize("name", PROBLEMS)
def test_optimality_conditions(name: str) -> None:
    problem = PROBLEMS[name]
    given = optimum(name)
    for tolerance in (0.0, *TOLERANCES, 0.1):
        found = projected(name, tolerance, given)
        check = residual(problem.keys, given, found, cap=cap_of(problem), sigma=problem.sigma, tolerance=tolerance)
        assert check <= RESIDUAL, f"{check:.3g} at {tolerance:g}"
        assert found.passed
        assert found.worst <= RESIDUAL, found
        assert abs(found.worst - check) <= RESIDUAL


@pytest.mark.parametrize("seed", range(24))
def test_optimality_conditions_of_random_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, dimension = int(rng.integers(2, 80)), int(rng.integers(1, 8))
    keys = rng.standard_normal((size, dimension)) * 10.0 ** rng.uniform(-3, 2, dimension)
    if seed % 2:
        keys = keys[rng.integers(0, size, size)] + 10.0 ** rng.uniform(-14, -1) * rng.standard_normal(keys.shape)
    sigma, cap = 10.0 ** rng.uniform(-1, 2), 10.0 ** rng.uniform(math.log10(1.0 / size), 0.0)
    optimal = Memory.fit(keys, np.zeros(size), sigma=sigma, cap=cap).coefficients
    equal = np.full(size, 1.0 / size)
    # The level may also come from coefficients that are far from optimal.
    for given in (optimal, 0.5 * optimal + 0.5 * equal, 0.01 * optimal + 0.99 * equal):
        for tolerance in (0.0, 1e-13, *TOLERANCES):
            found = project(keys, given, cap=cap, sigma=sigma, tolerance=tolerance)
            check = residual(keys, given, found, cap=cap, sigma=sigma, tolerance=tolerance)
            assert check <= RESIDUAL, f"{check:.3g} at {tolerance:g}"


@pytest.mark.parametrize("name", PROBLEMS)
def test_one_pivot_at_a_time_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = [projected(name, tolerance).coefficients for tolerance in (1e-8, 1e-5, 1e-3)]
    monkeypatch.setattr(projection, "EXCHANGES", 0)
    for tolerance, expected in zip((1e-8, 1e-5, 1e-3), at_once, strict=True):
        assert np.max(np.abs(projected(name, tolerance).coefficients - expected)) <= 1e-15 / tolerance


def interior_point(keys: Matrix, level: float, *, cap: float, sigma: float) -> tuple[Vector, float]:
    """The same projection as a second-order cone program, by Clarabel, and the accuracy to expect of it.

    f(a) = aᵀKa − 1 once the mass is 1.
    """
    size = len(keys)
    eigenvalues, basis = np.linalg.eigh(kernel_block(keys, keys, sigma))
    root = np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * basis.T
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    identity = np.eye(size)
    rows = scipy.sparse.csc_array(np.vstack([np.ones((1, size)), identity, -identity, np.zeros((1, size)), -root]))
    limits = np.concatenate([[1.0], np.full(size, cap), np.zeros(size), [math.sqrt(level + 1.0)], np.zeros(size)])
    cones: list[Any] = [
        clarabel.ZeroConeT(1),
        clarabel.NonnegativeConeT(2 * size),
        clarabel.SecondOrderConeT(size + 1),
    ]
    twice = scipy.sparse.csc_array(2.0 * identity)
    solution = clarabel.DefaultSolver(twice, np.zeros(size), rows, limits, cones, settings).solve()
    assert solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
    return np.array(solution.x), SOLVED if solution.status == clarabel.SolverStatus.Solved else ALMOST


@pytest.mark.parametrize("tolerance", [1e-5, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize(
    "name",
    [
        "sequential-gaussian-n64-d6",
        "sequential-near-duplicate-n64-d6",
        "near-duplicates-1e-02",
        "near-duplicates-1e-08",
        "duplicates-groups",
        "duplicates-heavy",
        "lattice-2d-5",
        "empty-margin-ring",
        "embedding-384d",
        "cap-one",
    ],
)
def test_an_interior_point_method_agrees(name: str, tolerance: float) -> None:
    problem = PROBLEMS[name]
    found = projected(name, tolerance)
    other, accuracy = interior_point(problem.keys, found.allowed, cap=cap_of(problem), sigma=problem.sigma)
    assert np.max(np.abs(found.coefficients - other)) <= accuracy
    assert float(found.coefficients @ found.coefficients) <= float(other @ other) + 1e-9


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("duplicates")])
@pytest.mark.parametrize("tolerance", [0.0, *TOLERANCES])
def test_equal_keys_get_equal_shares(name: str, tolerance: float) -> None:
    coefficients = projected(name, tolerance).coefficients
    for rows in copies(PROBLEMS[name].keys):
        assert len(set(coefficients[rows].tolist())) == 1


def test_an_optimum_that_favours_one_copy_is_evened_out() -> None:
    keys = np.repeat(np.array([[0.0, 0.0], [1.0, 0.3], [-0.4, 1.1]]), 3, axis=0)
    memory = Memory.fit(keys, np.zeros(9), sigma=1.5, cap=0.4)
    shares = memory.coefficients.reshape(3, 3)
    lopsided = np.column_stack([shares[:, 0] + shares[:, 1], np.zeros(3), shares[:, 2]]).ravel()
    assert lopsided.max() < 0.4
    found = project(keys, lopsided, cap=0.4, sigma=1.5, tolerance=0.0)
    assert np.max(np.abs(found.coefficients - memory.coefficients)) <= 1e-12


@pytest.mark.parametrize("name", ["sequential-gaussian-n64-d6", "near-duplicates-1e-02", "duplicates-groups"])
def test_the_order_of_the_keys_does_not_matter(name: str) -> None:
    problem = PROBLEMS[name]
    given = optimum(name)
    order = np.random.default_rng(5).permutation(problem.size)
    for tolerance in TOLERANCES:
        shuffled = project(
            problem.keys[order], given[order], cap=cap_of(problem), sigma=problem.sigma, tolerance=tolerance
        )
        assert np.max(np.abs(shuffled.coefficients - projected(name, tolerance, given).coefficients[order])) <= 1e-9


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if problem.size <= 32])
def test_no_tolerance_gives_the_optimum(name: str) -> None:
    exact = truth(name)
    found = projected(name, 0.0)
    if exact.stable_below > RESIDUAL and exact.inverse_norm < 1e6:
        # The level f(α̂) is itself rounded, and a level set that is η too high is √(η·‖K⁻¹‖) wide.
        width = np.sqrt(8.0 * np.finfo(np.float64).eps * max(1.0, exact.inverse_norm))
        assert np.max(np.abs(found.coefficients - exact.coefficients)) <= width
    # Whatever the coefficients do, the centre and with it every gate score is that of the optimum.
    gram = kernel_block(PROBLEMS[name].keys, PROBLEMS[name].keys, PROBLEMS[name].sigma)
    difference = found.coefficients - exact.coefficients
    assert math.sqrt(max(0.0, float(difference @ (gram @ difference)))) <= 1e-7


@pytest.mark.parametrize("name", ["sequential-gaussian-n64-d6", "near-duplicates-1e-02", "lattice-2d-5"])
def test_the_projection_tends_to_the_optimum(name: str) -> None:
    limit = projected(name, 0.0).coefficients
    distances = [float(np.linalg.norm(projected(name, epsilon).coefficients - limit)) for epsilon in TOLERANCES]
    assert distances == sorted(distances)
    # f grows with the square of the distance: a hundredth of the tolerance is a tenth of the way.
    assert distances[0] == pytest.approx(0.1 * distances[1], rel=0.05)


@pytest.mark.parametrize("name", PROBLEMS)
def test_enough_tolerance_gives_equal_weights(name: str) -> None:
    problem = PROBLEMS[name]
    found = projected(name, 1.0)
    assert np.all(found.coefficients == min(1.0 / problem.size, cap_of(problem)))
    assert found.multiplier == found.complementarity == found.excess == 0.0


@pytest.mark.parametrize("name", ["sequential-near-duplicate-n64-d6", "collinear-uneven", "empty-margin-ring"])
def test_the_norm_falls_and_the_objective_rises_with_the_tolerance(name: str) -> None:
    found = [projected(name, epsilon) for epsilon in (0.0, *TOLERANCES, 1e-2, 1e-1)]
    norms = [float(each.coefficients @ each.coefficients) for each in found]
    assert all(later <= earlier + 1e-15 for earlier, later in pairwise(norms))
    assert all(later.objective >= earlier.objective for earlier, later in pairwise(found))
    assert all(each.objective <= each.allowed + 1e-15 for each in found)


@cache
def pairs(regime: str) -> list[tuple[Matrix, float, Vector, Vector]]:
    """Retained keys with the coefficients of our deletion and of a polished refit by another solver."""
    found = []
    for keys, victims in paper_trials(regime, 12):
        memory = Memory.fit(keys, np.zeros(24), sigma=2.0, nu=0.4)
        memory.delete([str(victim) for victim in victims])
        reference = solve_reference(memory.keys, cap=memory.cap, sigma=2.0)
        reference = polish(reference, memory.keys, cap=memory.cap, sigma=2.0)
        found.append((memory.keys, memory.cap, memory.coefficients, reference.coefficients))
    return found


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("regime", ["gaussian", "redundant"])
def test_two_solvers_agree_after_projection(regime: str, tolerance: float) -> None:
    values = np.random.default_rng(12345).standard_normal((22, 4))
    for keys, cap, ours, theirs in pairs(regime):
        a, b = (project(keys, each, cap=cap, sigma=2.0, tolerance=tolerance) for each in (ours, theirs))
        read_a, read_b = (readout(keys, values, each.coefficients, 2.0, keys) for each in (a, b))
        # A thousandth of the range is the aim; the levels differ by rounding alone, and so do the readouts.
        assert np.max(np.abs(read_a - read_b)) <= 1e-8 * np.max(np.ptp(read_b, axis=0))


@pytest.mark.parametrize("name", ["near-duplicates-1e-08", "near-duplicates-1e-12", "lattice-1d-wide", "width-1e+3"])
def test_two_solvers_agree_where_coefficients_are_ill_determined(name: str) -> None:
    problem = PROBLEMS[name]
    ours, theirs = optimum(name), polished(name, "daqp").coefficients
    for tolerance in TOLERANCES:
        a, b = (projected(name, tolerance, each).coefficients for each in (ours, theirs))
        assert np.max(np.abs(a - b)) <= 1e-14 / tolerance * cap_of(problem)


class TestBadInput:
    keys = np.random.default_rng(0).standard_normal((6, 2))
    given = np.full(6, 1.0 / 6.0)

    def refuse(self, message: str, **changed: Any) -> None:
        arguments: dict[str, Any] = {
            "keys": self.keys,
            "coefficients": self.given,
            "cap": 0.5,
            "sigma": 1.0,
            "tolerance": 1e-3,
        }
        arguments |= changed
        with pytest.raises(InputError, match=message):
            project(arguments.pop("keys"), arguments.pop("coefficients"), **arguments)

    @pytest.mark.parametrize("tolerance", [-1e-12, math.nan, math.inf, "small", True, None, [1e-3, 1e-4]])
    def test_tolerance(self, tolerance: object) -> None:
        self.refuse("tolerance", tolerance=tolerance)

    @pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, "wide"])
    def test_sigma(self, sigma: object) -> None:
        self.refuse("sigma", sigma=sigma)

    @pytest.mark.parametrize("cap", [0.0, 1.5, math.nan, 0.1])
    def test_cap(self, cap: float) -> None:
        self.refuse("cap", cap=cap)

    def test_keys(self) -> None:
        self.refuse("keys", keys=self.keys.ravel())
        self.refuse("keys", keys=np.where(self.keys == self.keys[0, 0], np.nan, self.keys))
        self.refuse("keys", keys=np.empty((0, 2)))

    def test_coefficients(self) -> None:
        self.refuse("coefficients", coefficients=self.given[:5])
        self.refuse("coefficients", coefficients=np.full(6, np.nan))
        self.refuse("coefficients", coefficients=["a"] * 6)
        self.refuse("sum to 1", coefficients=0.9 * self.given)
        self.refuse("within", coefficients=np.array([0.6, 0.4, 0.0, 0.0, 0.0, 0.0]))
        self.refuse("within", coefficients=np.array([0.5, 0.5, 0.1, -0.1, 0.0, 0.0]))


def test_a_level_below_the_optimum_is_not_reached() -> None:
    memory = fitted(PROBLEMS["sequential-gaussian-n64-d6"])
    # With 2αᵀKα < 1, excess mass makes the objective better than any feasible point's.
    lighter = memory.coefficients * (1.0 + 5e-6)
    with pytest.raises(SolveError, match="no coefficients reach the allowed objective"):
        project(memory.keys, lighter, cap=memory.cap, sigma=memory.sigma, tolerance=1e-8)
    assert project(memory.keys, lighter, cap=memory.cap, sigma=memory.sigma, tolerance=1e-3).passed


def test_a_wrong_answer_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    minimise = projection._Ridge.minimise

    def lie(ridge: projection._Ridge, mu: float) -> None:
        minimise(ridge, mu)
        ridge.weights = ridge.weights + 1e-9 * np.where(np.arange(ridge.weights.size) % 2, 1.0, -1.0)

    monkeypatch.setattr(projection._Ridge, "minimise", lie)
    with pytest.raises(SolveError, match="optimality conditions"):
        projected("sequential-gaussian-n64-d6", 1e-4)


def test_the_result_is_a_record() -> None:
    given = optimum("near-duplicates-1e-02").copy()
    found = projected("near-duplicates-1e-02", 1e-4, given)
    assert found.worst == max(getattr(found, field.name) for field in fields(found)[4:])
    assert found.passed == (found.worst <= PASSED)
    assert not found.coefficients.flags.writeable
    assert np.array_equal(given, optimum("near-duplicates-1e-02"))
