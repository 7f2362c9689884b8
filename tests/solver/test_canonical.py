"""The bounds that decide last bits hold for the point that refinement returns, in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from expunge.problem.kernel_pairs import kernel_pairs
from expunge.solver.canonical import STEPS, _refine
from expunge.solver.margin_factor import upper_factor
from expunge.solver.margin_pairs import PairTables
from expunge.types import Vector

CAP = 0.03


def exact_residual(pairs: PairTables, alpha: list[Fraction], offset: Fraction) -> float:
    """‖1 − ρ − 2(C·b + Kα)‖₂ of the tabled pairs, which are exact numbers here."""
    size = len(alpha)
    total = Fraction(0)
    for k in range(size):
        along = Fraction(CAP) * (Fraction(pairs.sum_high[k]) + Fraction(pairs.sum_low[k]))
        for j in range(size):
            along += (Fraction(pairs.gram_high[k, j]) + Fraction(pairs.gram_low[k, j])) * alpha[j]
        total += (1 - offset - 2 * along) ** 2
    return math.sqrt(total)


def added(high: Vector, low: Vector) -> list[Fraction]:
    return [Fraction(a) + Fraction(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)]


@pytest.mark.parametrize("off", [0.0, 1e-16, 1e-12, 1e-6])
@pytest.mark.parametrize("steps", [1, 2, STEPS])
def test_the_residual_after_the_last_step_is_bounded(steps: int, off: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        size, bound = 14, 9
        keys = rng.standard_normal((size + bound, 3))
        high, low = kernel_pairs(keys[:size], keys, np.arange(size + bound), 1.5)
        gram, gram_low = high[:, :size].copy(), low[:, :size].copy()
        sums = high[:, size:].sum(axis=1)
        pairs = PairTables(gram, gram_low, sums, np.zeros(size), np.zeros(size))
        factor = upper_factor(gram + 1.0)
        assert factor is not None
        # K is positive definite, so the system has a solution for any mass; the guess is off by about `off`.
        mass = 1.0 - bound * CAP
        border = np.block([[2.0 * gram, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
        solved = np.linalg.solve(border, np.append(1.0 - 2.0 * CAP * sums, mass))
        alpha, alpha_low = solved[:size] + off * rng.standard_normal(size), np.zeros(size)
        offset, offset_low, found, missing = _refine(
            pairs, np.arange(size), factor, alpha, alpha_low, float(solved[size]), 0.0, CAP, mass, 0.0, steps
        )
        exact = added(alpha, alpha_low)
        weight = float(np.abs(alpha).sum())
        # What `_solve` adds for the arithmetic of pairs.
        pairs_error = 2.0 * (size + 12.0) * 2.0**-104 * (weight + CAP * bound + 1.0)
        truly = exact_residual(pairs, exact, Fraction(offset) + Fraction(offset_low))
        assert truly <= found + math.sqrt(size) * pairs_error
        assert abs(float(Fraction(mass) - sum(exact))) <= missing + (size + 4.0) * 2.0**-105 * (1.0 + weight)
        # The bound in doubles is as small as a step in doubles can tell.
        assert found <= max(1e-11 * off, 1e-27)


def test_the_bound_of_one_coefficient_holds_and_is_below_that_of_all() -> None:
    from expunge.solver.canonical import _own_error
    from expunge.solver.cold_fit import fit
    from expunge.solver.kernel_rows import KernelRows

    rng = np.random.default_rng(5)
    keys = rng.standard_normal((90, 40)) / 6.0
    state = fit(KernelRows(keys, 1.0), np.ones(90, dtype=np.int64), 1.0 / 30.0)
    gram, margin = state.gram, state.margin
    members = margin.members
    slots = gram.pairs.follow(members, state.bound_counts(), gram.keys, gram.sigma, margin.factor)
    norm, size = gram.pairs.inverse_norm, members.size
    inverse = np.linalg.inv(gram.block(members, members) + 1.0)
    assert np.linalg.norm(inverse, 2) <= norm
    across = inverse.sum(axis=0)
    for position in range(0, size, 7):
        # How a coefficient answers to a residual of one sign pattern or another, and to missing mass.
        z = inverse[position] - across * across[position] / across.sum()
        truth = 0.5 * np.abs(z).sum() * 1e-20 + abs(across[position] / across.sum()) * 1e-21
        bound = _own_error(gram.pairs.tables, slots, margin.factor, position, 0.0, 1e-20, 1e-21, norm)
        assert truth * (1.0 - 1e-6) <= bound <= 1.01 * truth
        assert bound < norm * (0.5 * np.sqrt(size) * 1e-20 + 2.0 * np.sqrt(size) * 1e-21)


def test_the_bound_of_the_inverse_holds_as_many_members_join_at_once() -> None:
    from expunge.solver.cold_fit import fit
    from expunge.solver.kernel_rows import KernelRows

    keys = np.random.default_rng(6).standard_normal((260, 48)) / 5.0
    state = fit(KernelRows(keys, 1.0), np.ones(260, dtype=np.int64), 1.0 / 30.0)
    gram, members, counts = state.gram, state.margin.members, state.bound_counts()
    first = members[:-12]
    pairs = gram.pairs
    factor = state.margin.factor
    pairs.follow(first, counts, gram.keys, gram.sigma, factor)
    before = pairs.inverse_norm
    pairs.follow(members, counts, gram.keys, gram.sigma, factor)
    assert members.size > 140
    assert before < pairs.inverse_norm < 64.0 * before
    assert np.linalg.norm(np.linalg.inv(gram.block(members, members) + 1.0), 2) <= pairs.inverse_norm
