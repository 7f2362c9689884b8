"""Independent references: DAQP, ProxQP, Clarabel and PIQP behind one function.

They judge states, and those that are installed rescue edits. They share no code with the maintained solver, only
the kernel, so that both sides speak of the same Gram matrix. Guarantees:

- a reference carries a KKT residual recomputed here from the Gram matrix, never the backend's own claim;
- coefficients are what the backend returned: never clipped, snapped, renormalised or regularised;
- exact duplicates are canonical (minimum norm): identical keys are solved as one site whose cap is the
  number of copies times C, and its weight is split equally among them;
- a backend that does not report success raises :class:`SolveError`.

``min αᵀKα − 1ᵀα`` over ``Σα = 1, 0 ≤ α ≤ C``: the linear term is the constant −1 on the feasible set, so the
backends are given the quadratic alone, which leaves them fewer digits to cancel.

Each backend is asked for its tightest tolerance first and for a looser one only when it reports failure.
Their proximal and regularising terms, which at the default settings stop them at 1e-7 … 1e-11 on
near-duplicates, are lowered, or (DAQP) iterated until they vanish: they slow the iteration and leave the
optimum where it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, MissingExtra, SolveError
from expunge.problem.check import check_terms
from expunge.problem.kernel import kernel_block
from expunge.problem.tolerances import PARTITION_THRESHOLD
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["BACKENDS", "RESCUES", "TOLERANCES", "Reference", "installed", "minimax_offset", "polish", "solve_reference"]

Mask: TypeAlias = npt.NDArray[np.bool_]

TOLERANCES = (1e-15, 1e-13, 1e-11, 1e-9)
REPAIRS = 200
REFINEMENTS = 8
ROUNDING = 1e-15


@dataclass(frozen=True)
class Reference:
    """One backend's answer.

    ``coefficients`` (n,) in the order of the keys. ``offset`` is the mean of t = 1 − 2Kα over the margin,
    or the least t over the bound when the margin is empty, the margin being 10⁻⁷ < α < C − 10⁻⁷. ``worst``
    is the largest of the mass, box and stationarity errors. ``tolerance`` is the one the backend met.
    """

    backend: str
    coefficients: Vector
    offset: float
    worst: float
    seconds: float
    tolerance: float
    polished: bool = False


@dataclass(frozen=True)
class _Sites:
    """The distinct keys: Gram matrix (s, s), caps (s,), copies (s,), and each key's site (n,)."""

    gram: Matrix
    cap: float
    copies: Vector
    rows: IndexArray

    @property
    def caps(self) -> Vector:
        return self.copies * self.cap

    def partition(self, share: Vector) -> tuple[Mask, Mask]:
        """Margin and bound, by coefficients (s,) of one copy each."""
        bound = share >= self.cap - PARTITION_THRESHOLD
        return (share > PARTITION_THRESHOLD) & ~bound, bound


def solve_reference(
    keys: Matrix,
    *,
    cap: float,
    sigma: float,
    backend: str = "daqp",
    tolerances: tuple[float, ...] = TOLERANCES,
) -> Reference:
    """Solve for keys (n, d) float64 with one backend, from scratch.

    ``seconds`` covers the Gram matrix and every attempt. Raises :class:`SolveError` with the backend's
    status if no tolerance succeeds, :class:`MissingExtra` if the backend is not installed.
    """
    if backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}: choose one of {', '.join(BACKENDS)}")
    attempt, module = _ATTEMPTS[backend][1], _load(backend)
    started = time.perf_counter()
    sites = _collapse(keys, cap, sigma)
    statuses = []
    for tolerance in tolerances:
        weights, status = attempt(module, sites, tolerance)
        if status is None:
            offset, worst = _judge(sites, weights)
            coefficients = (weights / sites.copies)[sites.rows]
            seconds = time.perf_counter() - started
            return Reference(backend, coefficients, offset, worst, seconds, tolerance)
        statuses.append(f"{status} at {tolerance:g}")
    raise SolveError(f"{backend} did not solve the problem: {'; '.join(statuses)}")


def minimax_offset(t: Vector, coefficients: Vector, cap: float, threshold: float = PARTITION_THRESHOLD) -> float:
    """Return the ρ whose largest stationarity violation is least, for fixed coefficients.

    ``t`` (n,) = 1 − 2Kα. The violations are abs(ρ − t) on the margin, max(0, t − ρ) on the reserve and
    max(0, ρ − t) on the bound. Where an interval of ρ is optimal: its upper end, the least t over the bound.
    """
    not_bound = coefficients < cap - threshold
    not_reserve = coefficients > threshold
    highest_floor = float(np.max(t[not_bound], initial=-np.inf))
    lowest_ceiling = float(np.min(t[not_reserve], initial=np.inf))
    if highest_floor <= lowest_ceiling:
        return lowest_ceiling if math.isfinite(lowest_ceiling) else highest_floor
    return 0.5 * (highest_floor + lowest_ceiling)


def polish(reference: Reference, keys: Matrix, *, cap: float, sigma: float) -> Reference:
    """Resolve the reference's active set to rounding level, or return the reference unchanged.

    Reserve and bound keys are put at 0 and C, and the margin system is solved by refinement on residuals
    in extended precision, starting from the backend's coefficients; directions that rounding makes
    singular stay as the backend chose them unless the residual points along them. A wrong guess of the
    active set is repaired one key at a time: the first margin key to meet a wall stays there, then the
    worst offender against the optimality conditions joins the margin. A candidate counts only if it lies
    inside the box and its KKT residual is no larger than the reference's, or than the rounding of its own sums
    (10⁻¹⁵, or n·2⁻⁵³ where that is more); the best candidate is returned.
    """
    started = time.perf_counter()
    sites = _collapse(keys, cap, sigma)
    weights = np.zeros(len(sites.copies))
    np.add.at(weights, sites.rows, reference.coefficients)
    margin, bound = sites.partition(weights / sites.copies)
    best, least = reference, max(reference.worst, ROUNDING, len(sites.copies) * 2.0**-53)
    for _ in range(REPAIRS):
        weights = np.where(bound, sites.caps, np.where(margin, weights, 0.0))
        target = _solve_margin(sites, weights, margin)
        if np.any((target < 0.0) | (target > sites.caps)):
            step = target - weights
            room = np.where(step > 0.0, sites.caps, 0.0) - weights
            reach = np.divide(room, step, out=np.ones_like(step), where=step != 0.0)
            wall = int(np.argmin(reach))
            weights = weights + reach[wall] * step
            margin[wall], bound[wall] = False, step[wall] > 0.0
            continue
        weights = target
        offset, worst = _judge(sites, weights)
        if worst <= least:
            least = worst
            coefficients = np.where(bound, cap, weights / sites.copies)[sites.rows]
            seconds = reference.seconds + time.perf_counter() - started
            best = replace(
                reference,
                coefficients=coefficients,
                offset=offset,
                worst=worst,
                seconds=seconds,
                polished=True,
            )
        joining = _offender(sites, weights, margin, bound)
        if joining is None:
            break
        margin[joining], bound[joining] = True, False
    return best


def _collapse(keys: Matrix, cap: float, sigma: float) -> _Sites:
    # Adding 0.0 makes −0.0 the same coordinate as 0.0; the kernel already treats them alike.
    distinct, rows, copies = np.unique(keys + 0.0, axis=0, return_inverse=True, return_counts=True)
    gram = kernel_block(distinct, distinct, sigma)
    return _Sites(gram, cap, copies.astype(np.float64), rows.ravel().astype(np.int64))


def _judge(sites: _Sites, weights: Vector) -> tuple[float, float]:
    """Offset by the convention, and the worst KKT error, of site weights (s,)."""
    t = 1.0 - 2.0 * (sites.gram @ weights)
    share = weights / sites.copies
    margin, _ = sites.partition(share)
    if margin.any():
        offset = float(np.average(t[margin], weights=sites.copies[margin]))
    else:
        offset = minimax_offset(t, share, sites.cap)
    return offset, check_terms(share, t, offset, cap=sites.cap, counts=sites.copies).worst


def _offender(sites: _Sites, weights: Vector, margin: Mask, bound: Mask) -> int | None:
    """Pick the site to free next: the worst stationarity error, or the one to carry missing mass."""
    t = 1.0 - 2.0 * (sites.gram @ weights)
    if margin.any():
        excess = t - float(t[margin].mean())
    else:
        excess = t - minimax_offset(t, weights / sites.copies, sites.cap)
        missing = 1.0 - math.fsum(weights)
        if abs(missing) > ROUNDING:
            # An empty margin cannot take up a mass error, so the key nearest to the margin must.
            able = bound if missing < 0.0 else ~bound
            return int(np.argmax(np.where(able, -np.abs(excess), -np.inf))) if able.any() else None
    violation = np.where(margin, 0.0, np.where(bound, -excess, excess))
    worst = int(np.argmax(violation))
    return worst if violation[worst] > ROUNDING else None


def _solve_margin(sites: _Sites, weights: Vector, margin: Mask) -> Vector:
    """Solve [[0, 1ᵀ], [1, 2K_SS]] for the margin S, as near to the given weights (s,) as it allows.

    One eigendecomposition serves every refinement step; residuals are extended precision wherever the
    platform has it.
    """
    S = np.flatnonzero(margin)
    if not S.size:
        return weights
    system = np.ones((S.size + 1, S.size + 1))
    system[0, 0] = 0.0
    system[1:, 1:] = 2.0 * sites.gram[np.ix_(S, S)]
    eigenvalues, basis = np.linalg.eigh(system)
    size = np.abs(eigenvalues)
    kept = size > system.shape[0] * np.finfo(np.float64).eps * size.max()
    basis, eigenvalues = basis[:, kept], eigenvalues[kept]
    rows = sites.gram[S].astype(np.longdouble)
    x, offset, least = weights.astype(np.longdouble), np.longdouble(0.0), np.inf
    solution = x
    for _ in range(REFINEMENTS):
        residual = np.append(1 - x.sum(), 1 - offset - 2 * (rows @ x)).astype(np.float64)
        worst = float(np.max(np.abs(residual)))
        if not worst < least:
            break
        solution, least = x.copy(), worst
        along = basis.T @ residual
        step = basis @ (along / eigenvalues)
        downhill = residual - basis @ along
        downhill[0] = 0.0
        if np.max(np.abs(downhill)) > max(ROUNDING, 0.5 * worst):
            # What is left lies in directions without measurable curvature, so the system has no solution
            # nearby: follow it downhill as far as the exact curvature allows, past a wall if need be.
            curvature = float(2 * downhill[1:] @ (rows[:, S] @ downhill[1:]))
            slope = float(downhill @ residual)
            step = downhill * (slope / max(curvature, ROUNDING * slope))
            least = np.inf
        offset = offset + step[0]
        x[S] += step[1:]
        if np.any((x < 0.0) | (x > sites.caps)):
            return x.astype(np.float64)
    return solution.astype(np.float64)


def installed(backend: str) -> bool:
    """Whether a backend can be asked."""
    return find_spec(_ATTEMPTS[backend][0]) is not None


def _load(backend: str) -> Any:
    module = _ATTEMPTS[backend][0]
    try:
        return import_module(module)
    except ImportError as error:
        extra = "rescue" if backend in RESCUES else "references"
        message = f"the {module} reference is not installed: pip install expunge[{extra}]"
        raise MissingExtra(message) from error


def _attempt_daqp(module: Any, sites: _Sites, tolerance: float) -> tuple[Vector, str | None]:
    size = len(sites.copies)
    equality = 5
    sense = np.zeros(size + 1, dtype=np.int32)
    sense[size] = equality
    weights, _, flag, _ = module.solve(
        2.0 * sites.gram,
        np.zeros(size),
        np.ones((1, size)),
        np.append(sites.caps, 1.0),
        np.append(np.zeros(size), 1.0),
        sense,
        primal_tol=tolerance,
        dual_tol=tolerance,
        # Forced rather than automatic: the automatic choice accepts mass errors of 1e-10 when a cap
        # constraint and the mass constraint nearly coincide.
        eps_prox=1e-6,
        eta_prox=tolerance,
    )
    return np.array(weights), None if flag == 1 else f"exit flag {flag}"


def _attempt_proxqp(module: Any, sites: _Sites, tolerance: float) -> tuple[Vector, str | None]:
    size = len(sites.copies)
    solver = module.proxqp.dense.QP(size, 1, 0, True)
    solver.settings.eps_abs = tolerance
    solver.settings.eps_rel = 0.0
    solver.settings.default_rho = 1e-10
    solver.settings.max_iter = 1000
    solver.init(
        H=2.0 * sites.gram,
        g=np.zeros(size),
        A=np.ones((1, size)),
        b=np.ones(1),
        l_box=np.zeros(size),
        u_box=sites.caps,
    )
    solver.solve()
    status = solver.results.info.status
    solved = status == module.proxqp.QPSolverOutput.PROXQP_SOLVED
    return np.array(solver.results.x), None if solved else status.name


def _attempt_clarabel(module: Any, sites: _Sites, tolerance: float) -> tuple[Vector, str | None]:
    sparse = import_module("scipy.sparse")
    size = len(sites.copies)
    settings = module.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    settings.static_regularization_constant = 1e-14
    identity = sparse.eye_array(size, format="csc")
    constraints = sparse.vstack([np.ones((1, size)), identity, -identity], format="csc")
    limits = np.concatenate([[1.0], sites.caps, np.zeros(size)])
    cones = [module.ZeroConeT(1), module.NonnegativeConeT(2 * size)]
    upper = sparse.csc_array(np.triu(2.0 * sites.gram))
    solver = module.DefaultSolver(upper, np.zeros(size), constraints, limits, cones, settings)
    solution = solver.solve()
    solved = solution.status == module.SolverStatus.Solved
    return np.array(solution.x), None if solved else str(solution.status)


def _attempt_piqp(module: Any, sites: _Sites, tolerance: float) -> tuple[Vector, str | None]:
    size = len(sites.copies)
    solver = module.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = tolerance
    solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 0.0
    solver.settings.reg_lower_limit = 1e-13
    solver.settings.max_iter = 1000
    solver.setup(
        2.0 * sites.gram,
        np.zeros(size),
        A=np.ones((1, size)),
        b=np.ones(1),
        x_l=np.zeros(size),
        x_u=sites.caps,
    )
    status = solver.solve()
    return np.array(solver.result.x), None if status == module.PIQP_SOLVED else status.name


_ATTEMPTS: dict[str, tuple[str, Callable[[Any, _Sites, float], tuple[Vector, str | None]]]] = {
    "daqp": ("daqp", _attempt_daqp),
    "proxqp": ("proxsuite", _attempt_proxqp),
    "clarabel": ("clarabel", _attempt_clarabel),
    "piqp": ("piqp", _attempt_piqp),
}

BACKENDS = tuple(_ATTEMPTS)

# Those that solve an edit again where our own solver did not pass the check, in this order.
RESCUES = ("daqp", "proxqp")
