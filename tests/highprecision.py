"""The optimum to fifty digits, from the keys' exact binary values: the truth that solvers are held to.

Squared distances are exact integers (the coordinates are scaled by a power of two), κ is evaluated in ball
arithmetic, and a primal active-set method pivots until the optimality conditions hold. The last margin
system is then solved rigorously: every returned coefficient is enclosed to 10⁻⁵⁰, and every sign condition
is proved up to 10⁻⁴⁵ (an exactly degenerate key has a slack of exactly zero, which no enclosure can sign).
If the working precision does not suffice it is doubled. The guess of the partition only saves time.

Shares no code with the package. Exact duplicates are one site with cap mC, and split equally afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, ctx, fmpz_mat

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

ENCLOSURE = 1e-50
SIGN = 1e-45
THRESHOLD = 1e-7
FIRST_BITS, LAST_BITS = 256, 1 << 14

RESERVE, MARGIN, BOUND = -1, 0, 1


@dataclass(frozen=True)
class Truth:
    """The optimum of one problem.

    ``coefficients`` (n,) is ``exact`` rounded to fp64, in the rows' order. ``offset`` follows the
    convention (mean of t over the margin; with an empty margin, the least t over the bound), where the
    margin is judged at 10⁻⁷; ``lowest`` and ``highest`` are the ends of the valid interval, equal while
    there is a margin. ``scores`` (n,) is t = 1 − 2Kα. ``condition`` = ‖M‖‖M⁻¹‖ and ``inverse_norm`` =
    ‖M⁻¹‖ in the ∞-norm for M = [[0, 1ᵀ], [1, 2K_SS]] over the exact margin's sites; (1, 0) if it is empty.

    ``stable_below``: coefficients and an offset whose KKT residual (no partition threshold) is r have the
    same partition as the truth if r < stable_below, and then differ from it by at most ``inverse_norm`` · r.
    Zero where a slack vanishes or a margin coefficient sits at 0 or C. ``pivots`` counts the changes of the
    partition from the guess.
    """

    coefficients: Vector
    exact: tuple[arb, ...]
    offset: float
    lowest: float
    highest: float
    scores: Vector
    condition: float
    inverse_norm: float
    stable_below: float
    pivots: int
    bits: int


class _UndecidedError(Exception):
    """The working precision does not decide the partition."""


def exact_kernel(a: Matrix, b: Matrix, sigma: float) -> arb_mat:
    """exp(−‖a−b‖²/σ²) of every pair at the current precision: (m, d), (n, d) → (m, n)."""
    stacked = np.vstack([a, b])
    mantissas, exponents = np.frexp(stacked)
    lowest = int(exponents[stacked != 0.0].min(initial=0)) - 53
    integers = [
        int(np.ldexp(m, 53)) << (int(e) - 53 - lowest) if m else 0
        for m, e in zip(mantissas.ravel(), exponents.ravel(), strict=True)
    ]
    rows, columns, dimension = len(a), len(b), a.shape[1]
    left = fmpz_mat(rows, dimension, integers[: rows * dimension])
    right = fmpz_mat(columns, dimension, integers[rows * dimension :])
    products = left * right.transpose()
    left_norms = [sum(int(left[i, k]) ** 2 for k in range(dimension)) for i in range(rows)]
    right_norms = [sum(int(right[j, k]) ** 2 for k in range(dimension)) for j in range(columns)]
    scale = arb(2) ** (2 * lowest) / (arb(sigma) * arb(sigma))
    entries = [
        (-scale * (left_norms[i] + right_norms[j] - 2 * int(products[i, j]))).exp()
        for i in range(rows)
        for j in range(columns)
    ]
    return arb_mat(rows, columns, entries)


class _ActiveSet:
    """A primal active-set iteration on the sites. Invariant: 0 ≤ weights ≤ caps and Σ weights = 1."""

    def __init__(self, K: arb_mat, caps: list[arb], weights: list[arb]) -> None:
        self.K, self.caps, self.weights = K, caps, weights
        self.size = len(caps)
        self.status = [BOUND if w >= c else RESERVE if w <= 0 else MARGIN for w, c in zip(weights, caps, strict=True)]
        self.pivots = 0

    def members(self, status: int) -> list[int]:
        return [i for i in range(self.size) if self.status[i] == status]

    def system(self, S: list[int]) -> arb_mat:
        rows = [[arb(0)] + [arb(1)] * len(S)]
        rows += [[arb(1)] + [2 * self.K[i, j] for j in S] for i in S]
        return arb_mat(rows)

    def margin_solution(self, S: list[int]) -> tuple[arb, list[arb]]:
        E = self.members(BOUND)
        right = [1 - sum((self.caps[j] for j in E), arb(0))]
        right += [1 - 2 * sum((self.K[i, j] * self.caps[j] for j in E), arb(0)) for i in S]
        try:
            solution = self.system(S).solve(arb_mat(len(right), 1, right))
        except ZeroDivisionError as error:
            raise _UndecidedError from error
        return solution[0, 0], [solution[i + 1, 0] for i in range(len(S))]

    def scores(self, weights: list[arb]) -> list[arb]:
        product = self.K * arb_mat(self.size, 1, weights)
        return [1 - 2 * product[i, 0] for i in range(self.size)]

    def run(self) -> None:
        """Pivot until no sign condition fails at the midpoints."""
        stalled = False
        for _ in range(50 * self.size + 100):
            S = self.members(MARGIN)
            offset = None
            if S:
                offset, target = self.margin_solution(S)
                blocked, stalled = self.step(S, [w.mid() for w in target], stalled)
                if blocked:
                    continue
            if not self.release(offset, stalled):
                return
        raise _UndecidedError

    def step(self, S: list[int], target: list[arb], least_index: bool) -> tuple[bool, bool]:
        """Move towards the margin's target, stop at the first wall. Returns (blocked, made no progress)."""
        length, wall = arb(1), -1
        for i, aim in zip(S, target, strict=True):
            move = aim - self.weights[i]
            if aim < 0 or aim > self.caps[i]:
                room = (self.caps[i] if move > 0 else arb(0)) - self.weights[i]
                allowed = (room / move).mid()
                if allowed < length:
                    length, wall = allowed, i
        for i, aim in zip(S, target, strict=True):
            self.weights[i] = (self.weights[i] + length * (aim - self.weights[i])).mid()
        if wall < 0:
            return False, least_index
        self.status[wall] = BOUND if target[S.index(wall)] > 0 else RESERVE
        self.weights[wall] = self.caps[wall] if self.status[wall] == BOUND else arb(0)
        self.pivots += 1
        return True, bool(length <= 0)

    def release(self, offset: arb | None, least_index: bool) -> bool:
        """Free the worst violator (the first one after a stalled step). False if there is none."""
        t = [x.mid() for x in self.scores(self.weights)]
        tolerance = arb(SIGN)
        R, E = self.members(RESERVE), self.members(BOUND)
        if offset is None:
            if not R or not E:
                return False
            entering, leaving = max(R, key=lambda i: t[i]), min(E, key=lambda i: t[i])
            if t[entering] - t[leaving] <= tolerance:
                return False
            self.status[entering] = self.status[leaving] = MARGIN
            self.pivots += 2
            return True
        rho = offset.mid()
        excess = {i: t[i] - rho for i in R} | {i: rho - t[i] for i in E}
        violators = sorted(i for i, x in excess.items() if x > tolerance)
        if not violators:
            return False
        chosen = violators[0] if least_index else max(violators, key=lambda i: excess[i])
        self.status[chosen] = MARGIN
        self.pivots += 1
        return True

    def certified(self) -> list[arb]:
        """The weights of the current partition, enclosed; raises unless every condition is proved."""
        S = self.members(MARGIN)
        weights = [self.caps[i] if self.status[i] == BOUND else arb(0) for i in range(self.size)]
        if S:
            offset, inside = self.margin_solution(S)
            for i, w in zip(S, inside, strict=True):
                weights[i] = w
            intervals = offset, offset
        t = self.scores(weights)
        if not S:
            intervals = _interval(t, self.members(RESERVE), self.members(BOUND))
        low, high = intervals
        proved = (
            all(w.rad() <= ENCLOSURE for w in weights)
            and all(x.rad() <= ENCLOSURE for x in t)
            and all(weights[i] >= -SIGN and weights[i] <= self.caps[i] + SIGN for i in S)
            and all(t[i] - low <= SIGN for i in self.members(RESERVE))
            and all(high - t[i] <= SIGN for i in self.members(BOUND))
            and low - high <= SIGN
        )
        if not proved:
            raise _UndecidedError
        return weights


def _interval(t: list[arb], reserve: list[int], bound: list[int]) -> tuple[arb, arb]:
    high = min((t[i] for i in bound), key=lambda x: x.mid())
    low = max((t[i] for i in reserve), key=lambda x: x.mid(), default=high)
    return low, high


def _feasible_start(guess: Vector | None, caps: list[arb], groups: npt.NDArray[np.intp]) -> list[arb]:
    """The guess summed over sites, put inside the box and given the mass 1, margin keys moving first."""
    sums = np.zeros(len(caps)) if guess is None else np.bincount(groups, weights=guess)
    weights = [min(max(arb(float(s)), arb(0)), c) for s, c in zip(sums, caps, strict=True)]
    for i, cap in enumerate(caps):
        if weights[i] < THRESHOLD * cap:
            weights[i] = arb(0)
        elif weights[i] > (1 - THRESHOLD) * cap:
            weights[i] = cap
    inside = [i for i in range(len(caps)) if weights[i] > 0 and weights[i] < caps[i]]
    missing = (1 - sum(weights, arb(0))).mid()
    for i in [*inside, *range(len(caps))]:
        moved = min(max(weights[i] + missing, arb(0)), caps[i])
        missing = (missing - (moved - weights[i])).mid()
        weights[i] = moved.mid()
    return weights


def solve_exactly(keys: Matrix, *, cap: float, sigma: float, guess: Vector | None = None) -> Truth:
    """The optimum for keys (n, d), all numbers taken as exact binary fractions.

    When nC falls short of 1 by the rounding of C alone, every coefficient is C.
    """
    sites, groups, counts = np.unique(keys + 0.0, axis=0, return_inverse=True, return_counts=True)
    bits = FIRST_BITS
    while bits <= LAST_BITS:
        with ctx.workprec(bits):
            try:
                return _solve(sites, groups.ravel(), counts, cap, sigma, guess)
            except _UndecidedError:
                bits *= 2
    raise ArithmeticError(f"{LAST_BITS} bits do not decide the partition")


def _solve(
    sites: Matrix,
    groups: npt.NDArray[np.intp],
    counts: npt.NDArray[np.intp],
    cap: float,
    sigma: float,
    guess: Vector | None,
) -> Truth:
    K = exact_kernel(sites, sites, sigma)
    caps = [arb(cap) * int(m) for m in counts]
    room = sum(caps, arb(0)) - 1
    if room < -len(groups) * 2.0**-52:
        raise ValueError("nC is below 1: the problem has no feasible point")
    state = _ActiveSet(K, caps, list(caps) if room < 0 else _feasible_start(guess, caps, groups))
    if room >= 0:
        state.run()
    weights = state.certified()

    t = state.scores(weights)
    share = [w / int(m) for w, m in zip(weights, counts, strict=True)]
    margin = [i for i, x in enumerate(share) if THRESHOLD < x < cap - THRESHOLD]
    bound = [i for i, x in enumerate(share) if x >= cap - THRESHOLD]
    reserve = [i for i, x in enumerate(share) if x <= THRESHOLD]
    if margin:
        copies = sum(int(counts[i]) for i in margin)
        offset = sum((t[i] * int(counts[i]) for i in margin), arb(0)) / copies
        low = high = offset
    else:
        low, high = _interval(t, reserve, bound)
        offset = high
    condition, inverse_norm, stable_below = _conditioning(state, weights)
    exact = tuple(share[g] for g in groups)
    return Truth(
        coefficients=np.array([float(x) for x in exact]),
        exact=exact,
        offset=float(offset),
        lowest=float(low),
        highest=float(high),
        scores=np.array([float(t[g]) for g in groups]),
        condition=condition,
        inverse_norm=inverse_norm,
        stable_below=stable_below,
        pivots=state.pivots,
        bits=ctx.prec,
    )


def _conditioning(state: _ActiveSet, weights: list[arb]) -> tuple[float, float, float]:
    """Condition number and norm of the margin system's inverse, and how large a residual is harmless.

    With the partition kept, a residual r moves margin weight i by at most r times row i of |M⁻¹| summed,
    and the slack of a key x by at most (1 + ‖M⁻¹q‖₁) r with q = (1, 2κ(x, S)). The partition survives while
    no weight meets a wall and no slack changes sign; the optimum being unique, the survivor is the optimum.
    """
    S, R, E = (state.members(status) for status in (MARGIN, RESERVE, BOUND))
    t = state.scores(weights)
    if not S:
        low, high = _interval(t, R, E)
        return 1.0, 0.0, max(0.0, float(high - low) / 2.0) if R else np.inf
    M = state.system(S)
    inverse = M.inv()
    rows = range(len(S) + 1)

    def row_sums(matrix: arb_mat) -> list[float]:
        return [float(sum((abs(matrix[i, j]) for j in rows), arb(0))) for i in rows]

    moves = row_sums(inverse)
    limits = [float(min(weights[i], state.caps[i] - weights[i])) / moves[k + 1] for k, i in enumerate(S)]
    outside = R + E
    if outside:
        columns = arb_mat([[arb(1) for _ in outside]] + [[2 * state.K[j, i] for i in outside] for j in S])
        reach = inverse * columns
        for k, i in enumerate(outside):
            slack = t[S[0]] - t[i] if state.status[i] == RESERVE else t[i] - t[S[0]]
            limits.append(float(slack) / (1.0 + float(sum((abs(reach[j, k]) for j in rows), arb(0)))))
    return max(row_sums(M)) * max(moves), max(moves), max(0.0, min(limits))
