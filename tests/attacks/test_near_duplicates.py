"""Near-duplicates: coefficients are the doubles nearest to the exact ones at every separation, and readouts follow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attackers.near_duplicates import error_of, tangent_pair, tight_clusters
from ball_optimum import nearest_doubles
from expunge import Memory
from problems import PROBLEMS

SEPARATIONS = (1e-3, 1e-6, 1e-7, 3e-8, 1e-8, 1e-9, 1e-10, 1e-12, 1e-14)


@pytest.mark.parametrize("separation", SEPARATIONS)
def test_a_tangent_pair_has_the_exact_coefficients(separation: float) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        keys, values, sigma = tangent_pair(rng, separation)
        error = error_of(Memory.fit(keys, values, sigma=sigma, cap=1.0), keys)
        assert error.bits_equal, error
        assert error.readout < 1e-12


@pytest.mark.parametrize("separation", SEPARATIONS)
def test_tight_clusters_have_the_exact_coefficients(separation: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        keys, values, sigma = tight_clusters(rng, separation)
        error = error_of(Memory.fit(keys, values, sigma=sigma, cap=0.2), keys[:2])
        assert error.bits_equal, error
        assert error.readout < 1e-12


@pytest.mark.parametrize("separation", [1e-9, 1e-10, 1e-11, 1e-12])
def test_a_close_pair_far_from_all_others_shares_its_weight(separation: float) -> None:
    """The two are told apart by less than 2⁻⁶⁴ in their slacks."""
    keys = np.random.default_rng(0).standard_normal((6, 3))
    near = keys[:1] + separation * 0.01 * np.array([[1.0, 0.5, 0.2]])
    memory = Memory.fit(np.vstack([keys, near]), np.arange(7.0), sigma=0.01, cap=1.0)
    assert memory.coefficients[0] == memory.coefficients[6] == pytest.approx(1 / 12)


@pytest.mark.parametrize(
    "name", ["lattice-2d-5", "polygon-12-wide", "duplicates-groups", "near-duplicates-1e-08", "width-1e+4"]
)
def test_the_independent_evaluation_finds_a_wrong_last_bit_and_needs_no_good_guess(name: str) -> None:
    problem = PROBLEMS[name]
    memory = Memory.fit(problem.keys, problem.values, sigma=problem.sigma, cap=problem.cap)
    exact = nearest_doubles(memory.keys, memory.cap, memory.sigma, memory.coefficients)
    assert exact.coefficients.tobytes() == memory.coefficients.tobytes()
    assert exact.offset.hex() == memory.offset.hex()
    wrong = memory.coefficients.copy()
    row = int(np.argmax(wrong))
    wrong[row] = math.nextafter(wrong[row], 0.0)
    even = np.full(len(wrong), 1.0 / len(wrong))
    for guess in (wrong, even, np.roll(memory.coefficients, 1)):
        again = nearest_doubles(memory.keys, memory.cap, memory.sigma, guess)
        assert again.coefficients.tobytes() == memory.coefficients.tobytes()
        assert again.offset.hex() == memory.offset.hex()
