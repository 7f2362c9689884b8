"""The independent backends against each other and against the fifty-digit truth."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from expunge.errors import InputError, MissingExtra, SolveError
from expunge.problem.kernel import kernel_block
from expunge.solver.backends import BACKENDS, Reference, installed, minimax_offset, polish, solve_reference
from expunge.types import Matrix, Vector
from highprecision import Truth, solve_exactly
from problems import PROBLEMS, Problem

# Ten times the largest KKT residual seen from each backend on the named problems. Interior points stop at a
# duality gap, so a nearly active key keeps a coefficient far above rounding.
RAW_RESIDUAL = {"daqp": 1e-12, "proxqp": 1e-10, "clarabel": 1e-9, "piqp": 1e-9}
POLISHED_RESIDUAL = 5e-15
CENTRE_AGREEMENT = 1e-12
READOUT_AGREEMENT = 1e-8

EPSILON = 2.0**-52


@cache
def raw(name: str, backend: str) -> Reference:
    problem = PROBLEMS[name]
    return solve_reference(problem.keys, cap=problem.cap, sigma=problem.sigma, backend=backend)


@cache
def polished(name: str, backend: str) -> Reference:
    problem = PROBLEMS[name]
    return polish(raw(name, backend), problem.keys, cap=problem.cap, sigma=problem.sigma)


@cache
def truth(name: str) -> Truth:
    problem = PROBLEMS[name]
    guess = raw(name, "daqp").coefficients
    return solve_exactly(problem.keys, cap=problem.cap, sigma=problem.sigma, guess=guess)


def strict_residual(problem: Problem, coefficients: Vector, offset: float) -> float:
    """The KKT residual with no partition threshold, against the exact kernel.

    The last term bounds what rounding does to t = 1 − 2Kα: κ = exp(−z) carries the error of its exponent,
    (d/2 + 3) ε z, damped by z exp(−z) ≤ 0.4, and one rounding of its own.
    """
    gap = 1.0 - 2.0 * (kernel_block(problem.keys, problem.keys, problem.sigma) @ coefficients) - offset
    lower, upper = coefficients <= 0.0, coefficients >= problem.cap
    violation = np.where(lower, gap, np.where(upper, -gap, np.abs(gap)))
    box = max(float(np.max(-coefficients)), float(np.max(coefficients - problem.cap)))
    dimension: int = problem.keys.shape[1]
    rounding = 2.0 * EPSILON * (1.0 + 0.4 * (dimension / 2 + 3))
    return max(abs(float(coefficients.sum()) - 1.0), box, float(np.max(violation)), 0.0) + rounding


def readout(problem: Problem, coefficients: Vector) -> Matrix:
    weights = kernel_block(problem.keys, problem.keys, problem.sigma) * coefficients
    values: Matrix = (weights @ problem.values) / weights.sum(axis=1, keepdims=True)
    return values


def groups(keys: Matrix) -> list[list[int]]:
    found: dict[tuple[float, ...], list[int]] = {}
    for row, key in enumerate(keys.tolist()):
        found.setdefault(tuple(key), []).append(row)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), list(product(PROBLEMS, BACKENDS)))
def test_every_backend_solves_every_problem(name: str, backend: str) -> None:
    reference = raw(name, backend)
    assert reference.worst <= RAW_RESIDUAL[backend]
    assert reference.backend == backend
    assert not reference.polished
    assert reference.coefficients.shape == (PROBLEMS[name].size,)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), list(product(PROBLEMS, BACKENDS)))
def test_polish_reaches_rounding_and_the_truth(name: str, backend: str) -> None:
    problem, reference, exact = PROBLEMS[name], polished(name, backend), truth(name)
    assert reference.polished
    assert reference.worst <= POLISHED_RESIDUAL
    assert np.all((reference.coefficients >= 0.0) & (reference.coefficients <= problem.cap))
    residual = strict_residual(problem, reference.coefficients, reference.offset)
    if residual < exact.stable_below:
        error = np.max(np.abs(reference.coefficients - exact.coefficients))
        assert error <= exact.inverse_norm * residual + EPSILON * problem.cap
        assert exact.lowest - 4 * residual <= reference.offset <= exact.highest + 4 * residual


def test_the_truth_decides_all_but_the_undecidable() -> None:
    # Where the partition hangs on less than rounding, coefficients cannot be compared.
    undecided = {
        name
        for name, problem in PROBLEMS.items()
        for reference in [polished(name, "daqp")]
        if strict_residual(problem, reference.coefficients, reference.offset) >= truth(name).stable_below
    }
    below_rounding = {"near-duplicates-1e-08", "near-duplicates-1e-10", "near-duplicates-1e-12"}
    below_rounding |= {"near-duplicates-and-exact", "polygon-12-wide"}
    margin_at_rounding = {"collinear-uneven", "cap-one-spare", "empty-margin-ring"}
    assert undecided == below_rounding | margin_at_rounding


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_centre_is_unique_even_where_coefficients_are_not(name: str) -> None:
    problem, exact = PROBLEMS[name], truth(name)
    gram = kernel_block(problem.keys, problem.keys, problem.sigma)
    for backend in BACKENDS:
        reference = polished(name, backend)
        t = 1.0 - 2.0 * (gram @ reference.coefficients)
        assert np.max(np.abs(t - exact.scores)) <= CENTRE_AGREEMENT
        assert abs(reference.offset - exact.offset) <= CENTRE_AGREEMENT


@pytest.mark.parametrize("name", PROBLEMS)
def test_backends_agree_on_readouts_where_the_keys_determine_them(name: str) -> None:
    problem, exact = PROBLEMS[name], truth(name)
    references = [polished(name, backend) for backend in BACKENDS]
    residual = max(strict_residual(problem, r.coefficients, r.offset) for r in references)
    spread = float(np.max(np.ptp(problem.values, axis=0), initial=1e-300))
    if residual < exact.stable_below and exact.inverse_norm * residual < 0.01 * READOUT_AGREEMENT:
        expected = readout(problem, exact.coefficients)
        for reference in references:
            difference = np.max(np.abs(readout(problem, reference.coefficients) - expected))
            assert difference <= READOUT_AGREEMENT * spread


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("duplicates")])
def test_exact_duplicates_share_equally(name: str, backend: str) -> None:
    problem = PROBLEMS[name]
    for reference in (raw(name, backend), polished(name, backend)):
        for rows in groups(problem.keys):
            assert len(set(reference.coefficients[rows].tolist())) == 1
    assert np.max(np.abs(polished(name, backend).coefficients - truth(name).coefficients)) <= 1e-14


def test_the_order_of_keys_does_not_matter() -> None:
    problem = PROBLEMS["duplicates-groups"]
    order = np.random.default_rng(0).permutation(problem.size)
    shuffled = solve_reference(problem.keys[order], cap=problem.cap, sigma=problem.sigma)
    assert np.array_equal(shuffled.coefficients, raw(problem.name, "daqp").coefficients[order])


def test_polish_repairs_a_wrong_active_set() -> None:
    problem = PROBLEMS["sequential-gaussian-n64-d6"]
    uniform = np.full(problem.size, 1.0 / problem.size)
    poor = Reference("nobody", uniform, offset=0.0, worst=1.0, seconds=0.0, tolerance=1.0)
    repaired = polish(poor, problem.keys, cap=problem.cap, sigma=problem.sigma)
    assert repaired.backend == "nobody"
    assert repaired.worst <= POLISHED_RESIDUAL
    assert np.max(np.abs(repaired.coefficients - truth(problem.name).coefficients)) <= 1e-14


def test_polish_leaves_what_it_cannot_better(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PROBLEMS["sequential-gaussian-n64-d6"]
    monkeypatch.setattr("expunge.solver.backends.REPAIRS", 1)
    uniform = np.full(problem.size, 1.0 / problem.size)
    claimed = Reference("nobody", uniform, offset=0.0, worst=0.0, seconds=0.0, tolerance=1.0)
    assert polish(claimed, problem.keys, cap=problem.cap, sigma=problem.sigma) is claimed


def test_residuals_are_recomputed_not_believed() -> None:
    reference = raw("cap-one", "daqp")
    problem = PROBLEMS["cap-one"]
    moved = replace(reference, coefficients=reference.coefficients + 1e-6)
    assert strict_residual(problem, moved.coefficients, moved.offset) > 1e-6
    assert reference.worst < 1e-14


def violation(offset: float, t: Vector, coefficients: Vector, cap: float, threshold: float) -> float:
    lower, upper = coefficients <= threshold, coefficients >= cap - threshold
    terms = np.where(lower, t - offset, np.where(upper, offset - t, np.abs(t - offset)))
    return max(0.0, float(np.max(terms)))


def test_minimax_offset_by_brute_force() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        size, cap, threshold = int(rng.integers(1, 9)), 0.5, 1e-7
        t = rng.integers(-4, 5, size) / 4.0
        coefficients = rng.choice([0.0, 5e-8, 0.2, cap - 5e-8, cap], size)
        best = minimax_offset(t, coefficients, cap, threshold)
        reached = violation(best, t, coefficients, cap, threshold)
        # The optimum is at some t or midway between two: all of them, exactly.
        candidates = [*t, *(0.5 * (a + b) for a, b in product(t, t))]
        assert reached == min(violation(c, t, coefficients, cap, threshold) for c in candidates), f"seed {seed}"


def test_minimax_offset_takes_the_upper_end_of_an_interval() -> None:
    t = np.array([0.1, 0.4, 0.6])
    assert minimax_offset(t, np.array([0.0, 0.5, 0.5]), 0.5) == 0.4
    assert minimax_offset(t, np.array([0.5, 0.5, 0.5]), 0.5) == 0.1
    assert minimax_offset(t, np.array([0.0, 0.0, 0.0]), 0.5) == 0.6


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("empty-margin")])
def test_an_empty_margin_takes_the_least_bound_term(name: str) -> None:
    exact = truth(name)
    for backend in BACKENDS:
        assert abs(polished(name, backend).offset - exact.highest) <= CENTRE_AGREEMENT


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infeasible_cap_is_a_solve_error_with_the_status(backend: str) -> None:
    keys = np.random.default_rng(0).standard_normal((5, 2))
    with pytest.raises(SolveError, match=rf"{backend} did not solve the problem: \w+.* at 1e-15; "):
        solve_reference(keys, cap=0.1, sigma=1.0, backend=backend)


def test_an_unknown_backend_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown backend 'osqp': choose one of daqp, proxqp"):
        solve_reference(np.zeros((2, 1)), cap=1.0, sigma=1.0, backend="osqp")


@pytest.mark.parametrize(
    ("backend", "module", "extra"),
    [
        ("daqp", "daqp", "rescue"),
        ("proxqp", "proxsuite", "rescue"),
        ("clarabel", "clarabel", "references"),
        ("piqp", "piqp", "references"),
    ],
)
def test_a_missing_backend_names_the_extra(
    backend: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed(backend)
    monkeypatch.setitem(sys.modules, module, None)
    assert not installed(backend)
    with pytest.raises(MissingExtra, match=rf"{module}.*pip install expunge\[{extra}\]"):
        solve_reference(np.zeros((2, 1)), cap=1.0, sigma=1.0, backend=backend)


def test_backends_are_imported_only_when_asked() -> None:
    program = (
        "import sys, expunge.solver.backends; "
        "print([m for m in ('daqp', 'proxsuite', 'clarabel', 'piqp') if m in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
