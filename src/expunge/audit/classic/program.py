"""The paper's quadratic programs, solved as its authors' public scripts solve them: Clarabel, nothing added.

Deviations from the paper: Clarabel is called directly rather than through a modelling layer, on the same program;
and where Clarabel returns no projection the paper tries SCS, which is not among our dependencies, so such a
projection counts as not returned.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from expunge.errors import MissingExtra, SolveError
from expunge.problem.kernel import kernel_block
from expunge.types import Matrix, Vector

__all__ = ["SEED_TOLERANCE", "project", "solve_program"]

SEED_TOLERANCE = 1e-10


def solve_program(gram: Matrix, cap: float, tolerance: float = SEED_TOLERANCE) -> Vector:
    """Minimize αᵀKα − diag(K)ᵀα over Σα = 1, 0 ≤ α ≤ C at one tolerance, (n, n) → (n,), as it comes.

    Raises SolveError where n C < 1 or unless Clarabel reports success, MissingExtra without Clarabel.
    """
    size = len(gram)
    if size * cap < 1.0 - 1e-12:
        raise SolveError(f"{size} entries at the cap {cap:g} cannot carry the weight 1")
    clarabel, sparse = _load_clarabel(), import_module("scipy.sparse")
    settings = _settings(clarabel)
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_infeas_abs", "tol_infeas_rel"):
        setattr(settings, name, tolerance)
    identity = sparse.eye_array(size, format="csc")
    constraints = sparse.vstack([np.ones((1, size)), -identity, identity], format="csc")
    limits = np.concatenate([[1.0], np.zeros(size), np.full(size, cap)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * size)]
    upper = sparse.csc_array(np.triu(2.0 * gram))
    return _solve(clarabel, upper, -np.diag(gram), constraints, limits, cones, settings)


def project(keys: Matrix, coefficients: Vector, *, cap: float, sigma: float, tolerance: float) -> Vector:
    """Take the paper's minimum-norm projection (Eq. 5) of coefficients (n,) at keys (n, d).

    The smallest ‖a‖ with f(a) ≤ f(α̂) + ε·max(1, |f(α̂)|), by Clarabel at its default settings; the answer is then
    clipped to the box and divided by its sum, as the paper does, and may therefore break the objective cap.
    Raises SolveError where nothing is returned.
    """
    size = len(keys)
    clarabel, sparse = _load_clarabel(), import_module("scipy.sparse")
    gram = kernel_block(keys, keys, sigma)
    reached = float(coefficients @ gram @ coefficients - np.diag(gram) @ coefficients)
    level = reached + tolerance * max(1.0, abs(reached))
    eigenvalues, basis = np.linalg.eigh(gram)
    factor = np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * basis.T
    # aᵀKa ≤ s with s = level + diag(K)ᵀa is ‖(2Fa, 1 − s)‖ ≤ 1 + s, FᵀF = K.
    diagonal = np.diag(gram)[None, :]
    cone_rows = np.vstack([-diagonal, diagonal, -2.0 * factor])
    identity = sparse.eye_array(size, format="csc")
    constraints = sparse.vstack([np.ones((1, size)), -identity, identity, cone_rows], format="csc")
    limits = np.concatenate([[1.0], np.zeros(size), np.full(size, cap), [1.0 + level, 1.0 - level], np.zeros(size)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * size), clarabel.SecondOrderConeT(size + 2)]
    upper = sparse.csc_array(2.0 * np.eye(size))
    found = _solve(clarabel, upper, np.zeros(size), constraints, limits, cones, _settings(clarabel))
    clipped = np.clip(found, 0.0, cap)
    return np.asarray(clipped / clipped.sum())


def _settings(clarabel: Any) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    return settings


def _solve(
    clarabel: Any, upper: Any, linear: Vector, constraints: Any, limits: Vector, cones: list[Any], settings: Any
) -> Vector:
    solution = clarabel.DefaultSolver(upper, linear, constraints, limits, cones, settings).solve()
    # The paper accepts an inaccurate optimum too.
    if solution.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        raise SolveError(f"Clarabel returned nothing: {solution.status}")
    return np.array(solution.x)


def _load_clarabel() -> Any:
    try:
        return import_module("clarabel")
    except ImportError as error:
        raise MissingExtra("the paper's solver is not installed: pip install expunge[references]") from error
