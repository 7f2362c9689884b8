"""Minimum-norm projection: the least coefficients within a tolerance of the achieved objective (paper, Eq. 6).

P_ε(α̂) = argmin ‖a‖²  subject to  1ᵀa = 1,  0 ≤ a ≤ C,  f(a) ≤ f(α̂) + ε max(1, |f(α̂)|),  f(a) = aᵀKa − 1ᵀa.

With λ the multiplier of the objective's constraint and μ = 1/λ, the projection minimises aᵀ(K + μI)a over the
same box and mass, and f grows with μ along these minimisers. So: find the μ at which f meets the allowed level,
by Newton's method inside a bracket, and minimise for each μ by a warm-started active set. Equal weights, the
limit μ → ∞, are the projection wherever they are allowed. Dense: O(n²) memory, O(n³) time. Guarantees:

- coefficients come from the linear systems of the active set, exact at 0 and C: never clipped, renormalised or
  regularised, since μ is the constraint's own multiplier;
- f(a) − f(α̂) is evaluated as (a − α̂)ᵀ(K(a + α̂) − 1), which keeps its digits however small ε is;
- the KKT residuals are recomputed from keys and coefficients, entry by entry; a projection that does not pass
  them is not returned;
- exact duplicates get equal shares: they are one site of weight w and m copies, with w²/m in the norm.

Deviations from the paper:

1. Clarabel, then SCS, then clipping and renormalising, unchecked, is replaced by the above.
2. μ stays above the rounding of K, 2⁻⁵¹ n, beyond which the minimum-norm optimum cannot be resolved. It matters
   at ε ≈ 0 alone (μ ≥ ε/C always), where the level may then be missed by μC at most, and `excess` says by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError, SolveError
from expunge.problem.kernel import kernel_block
from expunge.problem.problem import Problem, as_point
from expunge.problem.tolerances import ACCEPTANCE
from expunge.solver.backends import minimax_offset
from expunge.solver.cold_fit import distinct_sites
from expunge.types import Matrix, Vector

__all__ = ["PASSED", "Projection", "project"]

Mask: TypeAlias = npt.NDArray[np.bool_]

_EPS: Final = float(np.finfo(np.float64).eps)
_TINY: Final = float(np.finfo(np.float64).tiny)

# What a projection is held to: the largest of its KKT residuals, all of order one before they cancel.
PASSED: Final = 1e-13

# A gradient on the wrong side of the offset by less than this is rounding.
SIGN: Final = 1e-15

# Rounds of exchanging every offender at once, before pivoting on one at a time.
EXCHANGES: Final = 20

# Solves of one linear system, the later ones for the residual of the earlier.
REFINEMENTS: Final = 3

# Multipliers tried: halving alone would need about 110.
SEARCHES: Final = 200

# Largest factor between multipliers while the bracket is open, and the μ at which weights are equal to rounding.
STRIDE: Final = 256.0
LARGEST: Final = 1e16


@dataclass(frozen=True, eq=False)
class Projection:
    """Projected coefficients (n,) with their KKT residuals, recomputed.

    ``multiplier`` is λ of the objective's constraint, 0 where it does not bind. ``objective`` is f(a) and
    ``allowed`` its bound. With t = (a + λKa) / (1 + λ): ``stationarity`` is the largest error of t against one
    offset, two-sided for 0 < a < C and one-sided at the bounds, at the offset that makes it least. ``excess`` is
    max(0, f(a) − allowed); ``complementarity`` is λ/(1 + λ) · |f(a) − allowed|.
    """

    coefficients: Vector
    multiplier: float
    objective: float
    allowed: float
    mass: float
    box: float
    stationarity: float
    excess: float
    complementarity: float

    @property
    def worst(self) -> float:
        """Largest of the five residuals; not a number if one is not."""
        return float(np.max([self.mass, self.box, self.stationarity, self.excess, self.complementarity]))

    @property
    def passed(self) -> bool:
        """Whether the largest residual is within `PASSED`."""
        return self.worst <= PASSED


def project(
    keys: npt.ArrayLike, coefficients: npt.ArrayLike, *, cap: float, sigma: float, tolerance: float
) -> Projection:
    """Project coefficients (n,) of keys (n, d) at tolerance ε ≥ 0.

    Raises InputError for unusable arguments, among them coefficients that miss mass or box by more than the
    acceptance tolerance, and SolveError if no coefficients reach the allowed objective, which takes a given
    vector that is better than feasible ones can be, or if the KKT conditions do not hold to `PASSED`.
    """
    problem = Problem.of(keys, sigma=sigma, cap=cap)
    size = problem.keys.shape[0]
    given = as_point(coefficients, "coefficients", size)
    slip = max(abs(math.fsum(given) - 1.0), -float(given.min()), float(given.max()) - problem.cap)
    if slip > ACCEPTANCE:
        raise InputError(f"coefficients must sum to 1 within [0, {problem.cap!r}]; they miss it by {slip:.3g}")
    epsilon = float(as_point(tolerance, "tolerance", 1)[0])
    if epsilon < 0.0:
        raise InputError(f"tolerance must not be negative, like {tolerance!r}")

    first, site_of = distinct_sites(problem.keys)
    copies = np.bincount(site_of).astype(np.float64)
    sites = problem.keys[first]
    gram = kernel_block(sites, sites, problem.sigma)
    level: Vector = np.zeros(first.size)
    np.add.at(level, site_of, given)
    allowance = epsilon * max(1.0, abs(float(level @ (gram @ level - 1.0))))

    # 1/n exceeds the cap of a saturated problem, nC = 1, by its rounding only.
    shares: Vector = np.full(first.size, min(1.0 / size, problem.cap))
    multiplier = 0.0
    if _rise(gram, copies * shares, level, 1.0 - math.fsum(level)) > allowance:
        ridge = _Ridge(gram, copies, problem.cap, copies * shares, level)
        multiplier = 1.0 / _meet(ridge, level, allowance)
        shares = np.where(ridge.weights == ridge.ceiling, problem.cap, ridge.weights / copies)
    found = _judged(problem, shares[site_of], given, multiplier, epsilon)
    if not found.passed:
        raise SolveError(f"the projection misses its optimality conditions by {found.worst:.3g}")
    return found


def _rise(gram: Matrix, weights: Vector, level: Vector, mass: float) -> float:
    """f(w) − f(α̂) = (w − α̂)ᵀ(K(w + α̂) − 1), to rounding of the difference rather than of f.

    `mass` is that of w − α̂, given because a difference of sums would lose it: it is all that a constant in the
    gradient can see, and where the two differ the gradient is nearly constant.
    """
    difference = weights - level
    size = np.abs(difference)
    gradient = gram @ (weights + level) - 1.0
    constant = float(size @ gradient) / max(float(size.sum()), _TINY)
    return float(difference @ (gradient - constant)) + constant * mass


def _meet(ridge: _Ridge, level: Vector, allowance: float) -> float:
    """Move the ridge to where its objective exceeds that of α̂ by the allowance; return its μ there.

    Newton's method in μ², inside a bracket: while the partition stays, the objective is a constant plus a sum of
    γ(μ/(e + μ))², which is concave in μ² and linear for small μ. Halfway where that leaves the bracket.
    """
    mass = 1.0 - math.fsum(level)

    def gap(mu: float) -> float:
        ridge.minimise(mu)
        return _rise(ridge.gram, ridge.weights, level, mass) - allowance

    # f(a(μ)) ≤ f* + μC, so that the allowance is not used up below μ = ε/C.
    floor = 2.0 * _EPS * ridge.copies.size * float(ridge.copies.max())
    low, high = max(allowance / ridge.cap, floor), LARGEST
    while (miss := gap(low)) > 0.0 and low > floor:
        low, high = max(low / STRIDE, floor), low
    if miss > floor * ridge.cap + 16.0 * _EPS:
        raise SolveError(
            f"no coefficients reach the allowed objective: the nearest exceed it by {miss:.3g}, so those given "
            "miss the mass or the box"
        )
    mu = low
    for _ in range(SEARCHES):
        rounding = 4.0 * _EPS * (allowance + float(np.abs(ridge.weights - level).sum()))
        if abs(miss) <= rounding or (miss > 0.0 and mu == floor) or high - low <= 4.0 * _EPS * high:
            return mu
        slope = ridge.slope()
        square = mu * mu - 2.0 * mu * miss / slope if slope > 0.0 else 0.0
        mu = math.sqrt(max(square, 0.0))
        if not low < mu < high:
            mu = min(math.sqrt(low * high), STRIDE * low)
        miss = gap(mu)
        low, high = (mu, high) if miss <= 0.0 else (low, mu)
    raise SolveError("no multiplier of the objective's constraint was found")


class _Ridge:
    """min wᵀ(K + μD)w over Σw = 1, 0 ≤ w ≤ mC with D = diag(1/m), for one μ after another.

    Invariant between calls: the weights are feasible; `free` and `high` are the partition to try next, that of
    the last minimiser unless suggested. The matrix is (K + μD) / (1 + μ), so that gradients stay of order one.
    """

    def __init__(self, gram: Matrix, copies: Vector, cap: float, weights: Vector, level: Vector) -> None:
        self.gram = gram
        self.copies = copies
        self.cap = cap
        self.ceiling = copies * cap
        self.weights = weights
        self.high: Mask = level >= self.ceiling
        self.free: Mask = (level > 0.0) & ~self.high

    def minimise(self, mu: float) -> None:
        """Move to the minimiser for this μ."""
        self.mu = mu
        hessian = (self.gram + np.diag(mu / self.copies)) / (1.0 + mu)
        if not self._exchange(hessian):
            self._pivot(hessian)

    def slope(self) -> float:
        """df/dμ of the minimiser, while its partition stays: −2μ wᵀDw′ with Hw′ + Dw / (1 + μ) = θ′1, 1ᵀw′ = 0."""
        members = self.system.members
        if not members.size:
            return 0.0
        shares = self.weights[members] / self.copies[members]
        return -2.0 * self.mu * float(shares @ self.system.solve(shares / (1.0 + self.mu), 0.0))

    def _exchange(self, hessian: Matrix) -> bool:
        """Exchange all offenders between the groups until there are none; False, and nothing moved, if that cycles."""
        free, high = self.free, self.high
        for _ in range(EXCHANGES):
            if not free.any():
                return False
            system = _Free(hessian, free)
            weights = system.stationary(np.where(high, self.ceiling, np.where(free, self.weights, 0.0)))
            gradient = hessian @ weights
            offset = gradient[free].mean()
            freed = ~free & np.where(high, gradient > offset + SIGN, gradient < offset - SIGN)
            over, under = free & (weights > self.ceiling), free & (weights < 0.0)
            if not (freed | over | under).any():
                self.weights, self.free, self.high, self.system = weights, free, high, system
                return True
            free, high = (free | freed) & ~over & ~under, (high & ~freed) | over
        return False

    def _pivot(self, hessian: Matrix) -> None:
        """Walk inside the box: to the free minimiser or the first bound on the way, then free the worst offender."""
        weights, ceiling = self.weights.copy(), self.ceiling
        high = weights >= ceiling
        free = (weights > 0.0) & ~high
        for _ in range(100 + 20 * weights.size):
            system = _Free(hessian, free)
            target = system.stationary(weights)
            step = target - weights
            room = np.where(step > 0.0, ceiling, 0.0) - weights
            reach = np.divide(room, step, out=np.full(step.size, np.inf), where=free & (step != 0.0))
            wall = int(np.argmin(reach))
            if reach[wall] < 1.0:
                weights += reach[wall] * step
                free[wall], high[wall] = False, step[wall] > 0.0
                weights[wall] = ceiling[wall] if high[wall] else 0.0
                continue
            weights = target
            gradient = hessian @ weights
            # With nothing free, the bound key and the reserve key that would trade are each other's offset.
            offset = gradient[free].mean() if free.any() else gradient[high].max()
            offence = np.where(free, 0.0, np.where(high, gradient - offset, offset - gradient))
            worst = int(np.argmax(offence))
            if offence[worst] <= SIGN:
                self.weights, self.free, self.high, self.system = weights, free, high, system
                return
            joining = [worst] if free.any() else [worst, int(np.argmax(np.where(high, gradient, -np.inf)))]
            free[joining], high[joining] = True, False
        raise SolveError("the active set of the projection did not settle; the keys may be too close together")


class _Free:
    """The linear system of the free weights F: H_FF x + g = θ1 and 1ᵀx = mass, for the x that g and mass ask for.

    Adding 11ᵀ to H_FF shifts θ alone and leaves a definite matrix.
    """

    def __init__(self, hessian: Matrix, free: Mask) -> None:
        self.members = np.flatnonzero(free)
        if not self.members.size:
            return
        from scipy.linalg import cho_factor

        self.rows = hessian[self.members]
        try:
            self.factor = cho_factor(self.rows[:, self.members] + 1.0, check_finite=False)
        except np.linalg.LinAlgError:
            raise SolveError("the keys are too close together for their projection to be computed") from None
        self.ones = self._solved(np.ones(self.members.size))

    def _solved(self, right: Vector) -> Vector:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self.factor, right, check_finite=False))

    def solve(self, gradient: Vector, mass: float) -> Vector:
        """The x (F,) for a gradient g (F,) and a mass."""
        down = self._solved(gradient)
        return np.asarray(self.ones * ((mass + down.sum()) / self.ones.sum()) - down)

    def stationary(self, weights: Vector) -> Vector:
        """Weights (s,) with the free ones at equal gradient and the mass complete, refined on their own residual."""
        weights = weights.copy()
        if self.members.size:
            for _ in range(REFINEMENTS):
                weights[self.members] += self.solve(self.rows @ weights, 1.0 - math.fsum(weights))
        return weights


def _judged(problem: Problem, coefficients: Vector, given: Vector, multiplier: float, epsilon: float) -> Projection:
    """Recompute objective and KKT residuals from the keys, entry by entry."""
    gram = kernel_block(problem.keys, problem.keys, problem.sigma)
    base = math.fsum(given * (gram @ given - 1.0))
    allowance = epsilon * max(1.0, abs(base))
    mass = math.fsum([*coefficients.tolist(), *(-given).tolist()])
    beyond = _rise(gram, coefficients, given, mass) - allowance
    share = multiplier / (1.0 + multiplier)
    terms = (share - 1.0) * coefficients - share * (gram @ coefficients)
    gap = terms - minimax_offset(terms, coefficients, problem.cap, 0.0)
    lower, upper = coefficients <= 0.0, coefficients >= problem.cap
    coefficients.flags.writeable = False
    return Projection(
        coefficients=coefficients,
        multiplier=multiplier,
        objective=math.fsum(coefficients * (gram @ coefficients - 1.0)),
        allowed=base + allowance,
        mass=abs(math.fsum([-1.0, *coefficients.tolist()])),
        box=max(0.0, -float(coefficients.min()), float(coefficients.max()) - problem.cap),
        stationarity=float(np.max(np.where(lower, gap, np.where(upper, -gap, np.abs(gap))), initial=0.0)),
        excess=max(0.0, beyond),
        complementarity=share * abs(beyond),
    )
