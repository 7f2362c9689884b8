"""RBF blocks: what `expunge.problem.kernel` guarantees bit for bit, and how near the values are to the exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx

from expunge.problem.exponential import EXPONENT_FLOOR
from expunge.problem.kernel import TILE, kernel_block, squared_distances
from expunge.types import Matrix
from highprecision import exact_kernel

EPSILON = 2.0**-52
DIMENSIONS = (1, 2, 3, 6, 17, 64, 384)


def draw(rows: int, dimension: int, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((rows, dimension))


def exact_exponents(a: Matrix, b: Matrix, sigma: float) -> list[list[float]]:
    """‖a−b‖²/σ² to double precision."""
    with ctx.workprec(300):
        exact = exact_kernel(a, b, sigma)
        return [[float(-exact[i, j].log()) for j in range(len(b))] for i in range(len(a))]


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("rows", [1, 2, TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
def test_symmetric_bit_for_bit_with_a_unit_diagonal(rows: int, dimension: int) -> None:
    keys = draw(rows, dimension)
    block = kernel_block(keys, keys, 1.3)
    assert np.array_equal(block, block.T)
    assert np.all(np.diagonal(block) == 1.0)
    assert np.all((block > 0.0) & (block <= 1.0))


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_an_entry_does_not_depend_on_its_block(dimension: int) -> None:
    a, b = draw(9, dimension, 1), draw(2 * TILE + 7, dimension, 2)
    whole = kernel_block(a, b, 2.0)
    rng = np.random.default_rng(3)
    for _ in range(40):
        i, j = int(rng.integers(len(a))), int(rng.integers(len(b)))
        assert kernel_block(a[i : i + 1], b[j : j + 1], 2.0)[0, 0] == whole[i, j]
        assert kernel_block(b[j : j + 1], a[i : i + 1], 2.0)[0, 0] == whole[i, j]
    picked = rng.permutation(len(b))[: TILE + 3]
    assert np.array_equal(kernel_block(a, np.ascontiguousarray(b[picked]), 2.0), whole[:, picked])
    assert np.array_equal(kernel_block(np.ascontiguousarray(b[5:]), a, 2.0), whole[:, 5:].T)


def test_equal_keys_have_kernel_one_wherever_they_are() -> None:
    for scale in (1e-150, 1e-8, 1.0, 1e8, 1e150):
        keys = scale * draw(5, 4)
        block = kernel_block(keys, np.vstack([keys[::-1], keys]), 1.0 if scale < 1e100 else 1e150)
        assert all(block[i, 4 - i] == block[i, 5 + i] == 1.0 for i in range(5))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8, 1e15])
@pytest.mark.parametrize("dimension", [1, 6, 64])
def test_accurate_at_any_offset(offset: float, dimension: int) -> None:
    keys = offset + draw(6, dimension)
    sigma = float(np.sqrt(dimension))
    block = kernel_block(keys, keys, sigma)
    with ctx.workprec(300):
        exact = exact_kernel(keys, keys, sigma)
        for i in range(6):
            for j in range(6):
                exponent = float(-exact[i, j].log())
                relative = float(abs(arb(float(block[i, j])) / exact[i, j] - 1))
                assert relative <= ((dimension / 2 + 3) * exponent + 2) * EPSILON


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6, 1e-8])
def test_near_duplicates_keep_their_distance_far_from_the_origin(noise: float) -> None:
    # ‖a‖² + ‖b‖² − 2⟨a, b⟩ would return anything between 0 and 1e-4 here.
    keys = 1e6 + np.round(draw(8, 3) * noise * 2.0**40) / 2.0**40
    exact = np.array(exact_exponents(keys, keys, 1.0))
    assert np.allclose(squared_distances(keys, keys), exact, rtol=8 * EPSILON, atol=0.0)


@pytest.mark.parametrize("exponent", [-150, -100, -3, 0, 3, 6, 100, 150])
def test_extreme_widths_stay_between_zero_and_one(exponent: int) -> None:
    keys = draw(12, 3)
    block = kernel_block(keys, keys, 10.0**exponent)
    assert np.all(np.isfinite(block))
    assert np.all((block >= 0.0) & (block <= 1.0))
    assert np.all(np.diagonal(block) == 1.0)
    off_diagonal = block[~np.eye(12, dtype=bool)]
    assert np.all(off_diagonal <= np.exp(EXPONENT_FLOOR)) if exponent <= -3 else True
    assert np.all(off_diagonal == 1.0) if exponent >= 100 else True


def test_distant_keys_at_a_tiny_width_overflow_to_zero_in_silence() -> None:
    keys = np.array([[0.0], [1e10], [-1e150]])
    block = kernel_block(keys, keys, 1e-150)
    assert np.all(np.diagonal(block) == 1.0)
    assert np.max(block[~np.eye(3, dtype=bool)]) <= 1e-300


def test_the_floor_is_far_below_rounding() -> None:
    assert 0.0 < np.exp(EXPONENT_FLOOR) < 1e-300


def test_shapes() -> None:
    a, b = draw(3, 5), draw(7, 5)
    assert kernel_block(a, b, 1.0).shape == squared_distances(a, b).shape == (3, 7)
    assert kernel_block(a[:0], b, 1.0).shape == (0, 7)
    assert kernel_block(a, b[:0], 1.0).shape == (3, 0)
