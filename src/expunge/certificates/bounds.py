"""How far a stored state is from the exact optimum, for every query at once, in fp64 and without a tolerance.

Every number returned is an upper bound in exact arithmetic: rounding is bounded, not ignored. Keys, cap and σ
are taken as exact binary numbers; α*, c* = Σα*φ(x), ρ* belong to the exact optimum (paper, Eq. 2).
With t = 1 − 2Kα for the stored α, κ ≤ 1, and k = ⌈1/C⌉:

**Rounding.** Kernel values and their sums are enclosed by :mod:`expunge.certificates.intervals`.

**Lemma 1 (offset).** ρ* = t*_(k), the k-th largest t* over the rows: α* maximises ⟨t*, z⟩ over Σz = 1,
0 ≤ z ≤ C, which fills the largest t* first; with an empty margin it is the least t* of the bound keys, our
convention. An order statistic is 1-Lipschitz in the largest change, so |ρ* − t_(k)| ≤ max|t* − t| ≤ 2e, where
e ≥ ‖c − c*‖. k is exact, for the cap as it is stored: where kC is a little more than 1, the k-th key has the remainder.

**Lemma 2 (gap).** For any ρ and α with mass 1 + μ and total box violation V,
2‖c − c*‖² = Σ(t* − t)(α − α*) ≤ G + 2V + |ρ* − ρ||μ|,  G = Σ (ρ−t)⁺ α + (t−ρ)⁺ (C−α):
split t* − t into (t*−ρ*) + (ρ−t) + (ρ*−ρ). By the KKT conditions (t*−ρ*)(α−α*) ≤ 0 inside the box and
≤ 2 times the violation outside, since t*, ρ* ∈ [−1, 1]; and (ρ−t)(α−α*) ≤ its maximum over α* ∈ [0, C].
G is the duality gap, so ‖c − c*‖² ≤ G/2. With Lemma 1 the mass term is
(2e + |ρ − t_(k)|)|μ|, and e follows from a quadratic.

**Lemma 3 (zero weights).** If t_(k) − t_i > 2√2 e, then α*_i = 0. At least k rows j have t_j ≥ t_(k), and for each
t*_j − t*_i ≥ t_j − t_i − 2e‖φ_j − φ_i‖ > 0 because ‖φ_j − φ_i‖ ≤ √2; so t*_i < t*_(k) = ρ*. Likewise
t_i − t_(k) > 2√2 e gives α*_i = C. In terms of the gap the threshold is 2√G; it counts
from t_(k), not from a stored offset, about which the gap says nothing when the margin is empty.

**Lemma 4 (after the partition).** Let Lemma 3 settle every site but those of U, K_UU ⪰ λ > 0, Δ = α − α*. On a settled
site Δ is known; let κ₀ be its absolute sum there and ω = |μ − its sum| = |Σ_U Δ|. There (t*−t)Δ ≤ 2e|Δ|. On U, split
t* − t as before, where (ρ−t_i)Δ_i ≤ r_iΔ_i with r_i the part of ρ−t_i on the wrong side for the sign that Δ_i
can have. So Σ_U ≤ rᵀΔ_U ≤ N(e + κ₀) with N² = r_Uᵀ K_UU⁻¹ r_U ≤ ‖r_U‖²/λ, because Δ_UᵀK_UUΔ_U ≤ (‖c−c*‖ + κ₀)², and
2e² ≤ N(e + κ₀) + 2eκ₀ + 2V_U + (2e + |ρ−t_(k)|)ω:
linear in the errors, where the gap gives their square root. For a state solved to 1e−15 that is 1e−14, not 1e−8.

**Score.** s(x) − s*(x) = 2⟨c−c*, φ(x)⟩ − (ρ−ρ*), so |s − s*| ≤ 2e + |ρ − t_(k)| + 2e for every x whatever.
Where the stored offset is t_(k) or near it, that is about 4e = 2√2√G.

**Readout.** With o(q) = Σακv/Σακ, o*(q) − o(q) = −ΣΔκ(v − o)/Σα*κ, so its norm is at most
[‖Δ_U‖ ‖(κ‖v−o‖)_U‖ + Σ_settled|Δ|κ‖v−o‖] / [Σακ − |ΣΔκ|]; and, as o* is a mean of values, never more than the
largest ‖v_i − o‖ over rows not proved zero. Without λ > 0 only the second bound remains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from expunge.certificates.intervals import (
    DECAY_ERROR,
    FAR,
    SAFE,
    SLIGHT,
    TINY,
    UNIT,
    decays,
    exponents,
    gamma,
    kernel_enclosure,
    similarity_enclosure,
    smallest_eigenvalue,
)
from expunge.display.card import Card, Displayed
from expunge.errors import InputError
from expunge.problem.problem import LARGEST, as_point, as_points, as_values, fewest_keys, refuse_masked
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "Bounds",
    "Sites",
    "as_state",
    "proved_zero",
    "rigorous_bounds",
]

# NumPy's exponential is not ours; its documented error is below four units in the last place.
NUMPY_EXP_ERROR: Final = 8.0 * UNIT
# A larger open block is not worth its eigenvalue; the gap bound stands.
OPEN_LIMIT: Final = 1500
ROUNDS: Final = 6

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sites:
    """Rows grouped by identical keys, in order of first appearance."""

    keys: Matrix  # (p, d)
    of_row: IndexArray  # (n,)
    counts: IndexArray  # (p,)

    @classmethod
    def of(cls, keys: Matrix) -> Sites:
        """Collapse keys (n, d), in which −0 is already 0."""
        seen: dict[bytes, int] = {}
        of_row = np.array([seen.setdefault(key.tobytes(), len(seen)) for key in keys], dtype=np.int64)
        first = np.unique(of_row, return_index=True)[1]
        return cls(np.ascontiguousarray(keys[first]), of_row, np.bincount(of_row).astype(np.int64))

    def every(self, mask: Mask) -> Mask:
        """Whether a condition on rows (n,) holds on all rows of a site, (p,)."""
        return np.asarray(np.bincount(self.of_row, weights=mask, minlength=self.counts.size) == self.counts)


@dataclass(frozen=True, eq=False)
class Bounds(Displayed):
    """Upper bounds on the distance to the exact optimum.

    gap          ‖c − c*‖² ≤ gap/2 by Lemma 2 alone
    centre       ‖c − c*‖, also |Σακ(x,·) − Σα*κ(x,·)| for every x
    offset       |ρ − ρ*|
    score        |score(x) − s*(x)| for every x, with `evaluation`, the rounding of the fp64 score itself
    coefficient  ‖α − α*‖₂ and so every |α_i − α*_i|; inf if no eigenvalue bound was found
    eigenvalue   lower bound for λ_min of the kernel matrix over the sites whose group is not settled
    zero, full   rows (n,) proved to have α* = 0, and α* = C
    """

    gap: float
    centre: float
    offset: float
    score: float
    evaluation: float
    coefficient: float
    eigenvalue: float
    zero: Mask
    full: Mask
    _readout: _Readout | None = field(repr=False)

    def _card(self) -> Card:
        return Card(
            title="Bounds on the errors of a state",
            sentence=f"at every query whatever, the score is within {self.score:.1e} of the exact optimum's",
            rows=(
                ("proved to weigh nothing", f"{int(self.zero.sum())} of {self.zero.size} entries"),
                ("proved to be at the cap", f"{int(self.full.sum())} of {self.full.size} entries"),
            ),
            details=(
                ("every weight", f"within {self.coefficient:.1e}"),
                ("offset", f"within {self.offset:.1e}"),
                ("centre", f"within {self.centre:.1e}"),
                ("duality gap", f"at most {self.gap:.1e}"),
                ("rounding of a score", f"at most {self.evaluation:.1e}"),
                ("smallest eigenvalue", f"at least {self.eigenvalue:.3g}, of the entries whose group is open"),
            ),
        )

    def readout_bound(self, queries: npt.ArrayLike) -> Vector:
        """‖o(q) − o*(q)‖₂ at queries (m, d) or (d,) → (m,), with the rounding of the fp64 readout."""
        if self._readout is None:
            raise InputError("readout bounds need the values: rigorous_bounds(..., values=values)")
        return self._readout.at(as_points(queries, "queries", dimension=self._readout.keys.shape[1]))

    def readout_bound_where(self, denominator: float) -> float:
        """‖o(q) − o*(q)‖₂ at every query q whose denominator Σακ(q,·) is at least this."""
        if self._readout is None:
            raise InputError("readout bounds need the values: rigorous_bounds(..., values=values)")
        least = float(as_point(denominator, "denominator", 1)[0])
        if not least > 0.0:
            raise InputError(f"denominator must be a positive number, not {denominator!r}")
        return self._readout.where(least)


@dataclass(frozen=True, eq=False)
class _Readout:
    """What bounds the readout: rows (r,) that carry weight or may carry some in the optimum."""

    keys: Matrix  # (r, d)
    values: Matrix  # (r, dv)
    sigma: float
    weights: Vector  # α
    known: Vector  # |α − α*| where it is known, the uneven split of copies elsewhere
    share: Vector  # 1/copies on the open sites, else 0
    possible: Mask  # rows not proved zero
    open_error: float  # ‖Δ_U‖₂
    centre: float
    largest: float  # λ_max of the open block, bounded

    def at(self, queries: Matrix) -> Vector:
        block = max(1, 2_000_000 // self.weights.size)
        parts = [self._block(queries[i : i + block]) for i in range(0, queries.shape[0], block)]
        return np.concatenate(parts)

    def _block(self, queries: Matrix) -> Vector:
        """Kernel values are divided by the nearest row's, which cancels in a readout."""
        x = np.empty((queries.shape[0], self.weights.size))
        exponents(queries, self.keys, 1.0 / self.sigma, x)
        nearest = x.min(axis=1, keepdims=True)
        blurred = gamma(self.keys.shape[1] + 8) * (2.0 * nearest[:, 0] + FAR) > 1e-3
        x[blurred] = nearest[blurred] = 0.0
        w = np.empty_like(x)
        decays((x - nearest).ravel(), w.ravel())
        np.minimum(x, nearest + FAR, out=x)
        error = SAFE * (max(DECAY_ERROR, NUMPY_EXP_ERROR) + gamma(self.keys.shape[1] + 10) * (x + nearest))
        upper = w * (1.0 + error) + TINY
        size = np.abs(self.weights)
        totals = w @ self.weights
        blur = (upper * error + TINY) @ size + gamma(2 * size.size + 8) * (upper @ size)
        # Weights that cancel, or that are all far beyond a row without weight, say nothing in fp64.
        lost = blurred | ~(SLIGHT * blur <= 1e-3 * totals) | ~(upper @ size <= 2.0 * totals)
        totals[lost] = 1.0
        blur = SLIGHT * np.where(lost, 0.0, blur / totals)
        readout = (w @ (self.weights[:, None] * self.values)) / totals[:, None]
        norm = float(_lengths(self.values).max())
        rounding = SAFE * 4.0 * blur * norm + TINY
        distance = np.empty_like(x)
        for i in range(x.shape[0]):
            distance[i] = _lengths(self.values - readout[i])
        distance = distance * SLIGHT + rounding[:, None]
        limit = distance[:, self.possible].max(axis=1)
        moved = upper * distance
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # The floor keeps a square from vanishing.
            numerator = self.open_error * np.sqrt(np.maximum(moved, 1e-150) ** 2 @ self.share) + moved @ self.known
            shift = self.open_error * np.sqrt(np.maximum(upper, 1e-150) ** 2 @ self.share) + upper @ self.known
            shift = np.fmin(shift, SLIGHT * self.centre / np.exp(-nearest[:, 0]))
            remaining = (1.0 - blur) * totals / SLIGHT - SLIGHT * shift
            bound = np.where(remaining > 0.0, SLIGHT * numerator / remaining, np.inf)
        bound = np.fmin(bound, limit) * SLIGHT + rounding
        # Both readouts are means of values, unless a weight is negative.
        bound[lost] = SAFE * 2.0 * norm if np.all(self.weights >= 0.0) else np.inf
        return np.asarray(bound)

    def where(self, denominator: float) -> float:
        active = self.weights != 0.0
        moving = (self.share > 0.0) | (self.known > 0.0)
        norm = float(_lengths(self.values).max())
        # Negative weights take a readout out of the hull of the values, by no more than this.
        beyond = SLIGHT * 2.0 * norm * float(np.maximum(-self.weights, 0.0).sum()) / denominator
        width = _diameter(self.values[moving], self.values[active]) + beyond
        bound = _diameter(self.values[self.possible], self.values[active]) + beyond
        moved = SLIGHT * (self.open_error * math.sqrt(self.largest) + float(self.known.sum())) if moving.any() else 0.0
        remaining = (denominator - min(self.centre, moved)) / SLIGHT
        if math.isfinite(moved) and remaining > 0.0:
            bound = min(bound, SLIGHT * width * moved / remaining)
        ratio = SLIGHT * float(np.abs(self.weights).sum()) / denominator
        blur = (gamma(2 * self.weights.size + 16) + NUMPY_EXP_ERROR) * ratio
        blur += gamma(self.keys.shape[1] + 10) * (0.37 * ratio + max(0.0, math.log(ratio)))
        return SLIGHT * bound + SAFE * 4.0 * blur * norm


def rigorous_bounds(
    keys: npt.ArrayLike,
    coefficients: npt.ArrayLike,
    offset: float,
    *,
    cap: float,
    sigma: float,
    values: npt.ArrayLike | None = None,
) -> Bounds:
    """Bound the distance of a state, keys (n, d), coefficients (n,) and offset, from the exact optimum.

    The state need not be a good one. Raises InputError where nC is below 1, however little: there is no optimum.
    """
    points, alpha, cap, sigma = as_state(keys, coefficients, cap, sigma)
    offset = float(as_point(offset, "offset", 1)[0])
    sites = Sites.of(points)
    size = alpha.size
    active = np.flatnonzero(alpha)
    middle, radius = similarity_enclosure(sites.keys, points[active], alpha[active], sigma)
    t = (1.0 - 2.0 * middle)[sites.of_row]
    radius = (2.0 * radius + 8.0 * UNIT * (1.0 + np.abs(middle)))[sites.of_row]
    low, high = t - radius, t + radius
    needed = fewest_keys(cap)
    if needed > size:
        raise InputError(f"{size} keys at cap {cap!r} hold less than a mass of 1: there is no optimum to be near to")
    solved = _solve_gap(sites, alpha, low, high, cap, sigma, needed)
    distance = max(abs(offset - _ranked(low, needed)), abs(offset - _ranked(high, needed)))
    drift = SLIGHT * (distance + 2.0 * solved.centre)
    mass = float(np.abs(alpha).sum())
    rounding = gamma(active.size + 8) + NUMPY_EXP_ERROR + 0.37 * gamma(points.shape[1] + 10)
    evaluation = SAFE * (2.0 * mass * rounding + 4.0 * UNIT * (2.0 * mass + abs(offset))) + TINY
    readout = None
    if values is not None:
        readout = _readout_of(points, alpha, sites, solved, as_values(values, size), sigma)
    split = float(np.linalg.norm(solved.split))
    known = float(np.linalg.norm(solved.known))
    return Bounds(
        gap=solved.gap,
        centre=solved.centre,
        offset=drift,
        score=SLIGHT * (2.0 * solved.centre + drift + evaluation),
        evaluation=evaluation,
        coefficient=SLIGHT * (math.hypot(solved.open_error, known) + split),
        eigenvalue=solved.eigenvalue,
        zero=solved.zero,
        full=solved.full,
        _readout=readout,
    )


def proved_zero(keys: npt.ArrayLike, coefficients: npt.ArrayLike, *, cap: float, sigma: float) -> Mask:
    """Rows (n,) whose coefficient in the exact optimum is proved to be exactly zero, by Lemma 3."""
    return rigorous_bounds(keys, coefficients, 0.0, cap=cap, sigma=sigma).zero


@dataclass(frozen=True, eq=False)
class _Solved:
    gap: float
    centre: float
    eigenvalue: float
    open_error: float  # ‖Δ_U‖₂ over sites
    open_sites: Mask  # (p,)
    largest: float
    known: Vector  # (n,) |α − α*| of settled rows
    split: Vector  # (n,) distance from an equal split, on open sites
    zero: Mask
    full: Mask


def _solve_gap(
    sites: Sites, alpha: Vector, low: Vector, high: Vector, cap: float, sigma: float, needed: int
) -> _Solved:
    lower, upper = _ranked(low, needed), _ranked(high, needed)
    rho = 0.5 * (lower + upper)
    doubt = SLIGHT * max(upper - rho, rho - lower)
    under, over = np.maximum(rho - low, 0.0), np.maximum(high - rho, 0.0)
    slip = SLIGHT * abs(math.fsum([-1.0, *alpha.tolist()]))
    violation = SLIGHT * float((np.maximum(-alpha, 0.0) + np.maximum(alpha - cap, 0.0)).sum())
    gap = float((under * np.maximum(alpha, 0.0) + over * np.maximum(cap - alpha, 0.0)).sum())
    fixed = SLIGHT * gap + 2.0 * violation + doubt * slip + TINY
    centre = SLIGHT * (slip + math.sqrt(slip * slip + 2.0 * fixed)) / 2.0
    total = SLIGHT * (fixed + 2.0 * centre * slip)

    split = _uneven(sites, alpha)
    settled_before: Mask | None = None
    eigenvalue, largest, open_error = 0.0, math.inf, math.inf
    for _ in range(ROUNDS):
        threshold = SLIGHT * 2.0 * math.sqrt(2.0) * centre
        zero, full = lower - high > threshold, low - upper > threshold
        settled = sites.every(zero) | sites.every(full)
        if settled_before is not None and np.array_equal(settled, settled_before):
            break
        settled_before = settled
        open_sites = np.flatnonzero(~settled)
        block = _Block.of(sites.keys[open_sites], sigma)
        eigenvalue, largest = block.smallest, block.largest
        known = np.where(zero, np.abs(alpha), np.where(full, np.abs(alpha - cap), 0.0))
        kept = SLIGHT * float(known.sum())
        if eigenvalue <= 0.0:
            open_error = math.inf
            break
        first = np.unique(sites.of_row, return_index=True)[1][open_sites]
        residual, blur = rho - 0.5 * (low + high)[first], SLIGHT * 0.5 * (high - low)[first] + 4.0 * UNIT
        # One side only where the coefficient sits at a bound: Δ cannot have the other sign.
        residual = np.where(sites.every(alpha <= 0.0)[open_sites], np.minimum(residual, 0.0), residual)
        residual = np.where(sites.every(alpha >= cap)[open_sites], np.maximum(residual, 0.0), residual)
        slope = SLIGHT * (block.dual_norm(residual) + float(np.linalg.norm(blur)) / math.sqrt(eigenvalue))
        shift = math.fsum([-1.0, *np.where(full, cap, np.where(zero, 0.0, alpha)).tolist()])
        shift = SLIGHT * abs(shift)
        linear = slope + 2.0 * kept + 2.0 * shift
        constant = slope * kept + 2.0 * violation + doubt * shift + TINY
        refined = SLIGHT * (linear + math.sqrt(linear * linear + 8.0 * constant)) / 4.0
        centre = min(centre, refined)
        open_error = SLIGHT * (centre + kept) / math.sqrt(eigenvalue) if open_sites.size else 0.0
    threshold = SLIGHT * 2.0 * math.sqrt(2.0) * centre
    zero, full = lower - high > threshold, low - upper > threshold
    open_mask = np.ones(sites.counts.size, dtype=bool) if settled_before is None else ~settled_before
    on_open = open_mask[sites.of_row]
    known = np.where(on_open, 0.0, np.where(zero, np.abs(alpha), np.abs(alpha - cap))) * (1.0 + 2.0 * UNIT)
    return _Solved(
        gap=total,
        centre=centre,
        eigenvalue=eigenvalue,
        open_error=open_error,
        open_sites=open_mask,
        largest=largest,
        known=known,
        split=np.where(on_open, split, 0.0),
        zero=zero,
        full=full,
    )


@dataclass(frozen=True, eq=False)
class _Block:
    """Kernel matrix of distinct keys, enclosed, with bounds for its extreme eigenvalues."""

    kernel: Matrix
    radius: Matrix
    smallest: float
    largest: float

    @classmethod
    def of(cls, keys: Matrix, sigma: float) -> _Block:
        size = keys.shape[0]
        if size == 0:
            return cls(np.empty((0, 0)), np.empty((0, 0)), math.inf, 0.0)
        if size > OPEN_LIMIT:
            return cls(np.empty((0, 0)), np.empty((0, 0)), 0.0, math.inf)
        kernel, radius = kernel_enclosure(keys, keys, sigma)
        largest = SLIGHT * float((kernel + radius).sum(axis=1).max())
        return cls(kernel, radius, smallest_eigenvalue(kernel, radius), largest)

    def dual_norm(self, r: Vector) -> float:
        """Upper bound for √(rᵀK⁻¹r), at most ‖r‖/√λ, and much less where r is smooth.

        For any y and q = r − Ky: rᵀK⁻¹r = yᵀr + yᵀq + qᵀK⁻¹q.
        """
        if r.size == 0:
            return 0.0
        plain = SLIGHT * float(np.linalg.norm(r)) / math.sqrt(self.smallest)
        y = np.linalg.solve(self.kernel, r)
        size = np.abs(y)
        rounding = gamma(r.size + 8)
        q = np.abs(r - self.kernel @ y) + rounding * (np.abs(r) + self.kernel @ size) + self.radius @ size
        square = float(y @ r) + rounding * float(size @ np.abs(r))
        square += SLIGHT * (float(size @ q) + float(q @ q) / self.smallest)
        return min(plain, SLIGHT * math.sqrt(max(square, 0.0)))


def _readout_of(points: Matrix, alpha: Vector, sites: Sites, solved: _Solved, values: Matrix, sigma: float) -> _Readout:
    on_open = solved.open_sites[sites.of_row]
    rows = np.flatnonzero((alpha != 0.0) | on_open | ~solved.zero)
    return _Readout(
        keys=np.ascontiguousarray(points[rows]),
        values=values[rows],
        sigma=sigma,
        weights=alpha[rows],
        known=(solved.known + solved.split)[rows],
        share=np.where(on_open, 1.0 / sites.counts[sites.of_row], 0.0)[rows],
        possible=~solved.zero[rows],
        open_error=solved.open_error,
        centre=solved.centre,
        largest=solved.largest,
    )


def _uneven(sites: Sites, alpha: Vector) -> Vector:
    """|α_row − α_site/copies|, rounded up: copies share equally in the optimum that counts."""
    counts = sites.counts[sites.of_row]
    means = np.bincount(sites.of_row, weights=alpha, minlength=sites.counts.size)[sites.of_row] / counts
    rounding = gamma(float(sites.counts.max()) + 2.0) * np.bincount(sites.of_row, weights=np.abs(alpha))[sites.of_row]
    return np.where(counts > 1, np.abs(alpha - means) * SLIGHT + rounding, 0.0)


def _ranked(terms: Vector, rank: int) -> float:
    """The rank-th largest."""
    place = terms.size - rank
    return float(np.partition(terms, place)[place])


def _lengths(rows: Matrix) -> Vector:
    """Length of every row, too long rather than too short: a floor keeps a square from vanishing."""
    size = np.abs(rows)
    return np.asarray(np.sqrt((np.where(size > 0.0, np.maximum(size, 1e-150), 0.0) ** 2).sum(axis=1)))


def _diameter(a: Matrix, b: Matrix) -> float:
    """Upper bound for the largest distance between a row of a (m, dv) and a mean of rows of b (n, dv)."""
    if a.shape[0] == 0 or b.shape[0] == 0:
        return 0.0
    if a.shape[0] * b.shape[0] <= 1_000_000:
        return SLIGHT * max(float(_lengths(b - row).max()) for row in a)
    middle = 0.5 * (b.min(axis=0) + b.max(axis=0))
    return SLIGHT * sum(float(_lengths(part - middle).max()) for part in (a, b))


def as_state(keys: Any, coefficients: Any, cap: Any, sigma: Any) -> tuple[Matrix, Vector, float, float]:
    """Validate a state: finite keys (n, d), one finite coefficient (n,) a key, a usable cap and width."""
    points = as_points(keys, "keys")
    refuse_masked(coefficients, "coefficients")
    try:
        alpha = np.array(coefficients, dtype=np.float64)
        ceiling, width = float(cap), float(sigma)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"coefficients, cap and sigma must be numbers ({problem})") from None
    if alpha.shape != (points.shape[0],):
        raise InputError(f"coefficients must have one number per key: {points.shape[0]}, not shape {alpha.shape}")
    if not np.isfinite(alpha).all():
        raise InputError("coefficients must be finite")
    if not 1.0 / LARGEST <= ceiling <= LARGEST:
        raise InputError(f"cap must be a positive number, not {cap!r}")
    if not 1.0 / LARGEST <= width <= LARGEST:
        raise InputError(f"sigma must be a positive width between 1e-150 and 1e150, not {sigma!r}")
    return points, alpha, ceiling, width
