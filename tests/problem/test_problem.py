"""Validation, once: what a problem accepts, what it makes of it, and the cap's arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from expunge.errors import InputError
from expunge.problem.problem import Problem, as_points, cap_from, fewest_keys

KEYS = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    "given",
    [
        [[1, 2], [3, 4]],
        ((1.0, 2.0), (3.0, 4.0)),
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1, 2], [3, 4]], dtype=np.uint64),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        np.array([[1, 2], [3, 4]], dtype=np.longdouble),
        np.array([[1, 2], [3, 4]], dtype=">f8"),
        np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]),
        np.arange(1.0, 9.0).reshape(2, 4)[:, :2] * 0 + [[1, 2], [3, 4]],
    ],
)
def test_any_real_array_becomes_its_own_float64(given: Any) -> None:
    points = as_points(given, "keys")
    assert points.dtype == np.float64
    assert points.flags.c_contiguous
    assert points.flags.writeable
    assert points.flags.owndata
    assert points.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert not np.shares_memory(points, given)


def test_a_read_only_array_is_copied_not_touched() -> None:
    given = KEYS.copy()
    given.flags.writeable = False
    points = as_points(given, "keys")
    points[0, 0] = 99.0
    assert given[0, 0] == 0.0


def test_negative_zero_is_zero() -> None:
    points = as_points(np.array([[-0.0, 0.0]]), "keys")
    assert points.tobytes() == np.zeros((1, 2)).tobytes()


def test_one_point_may_be_a_vector_when_the_dimension_is_known() -> None:
    assert as_points([1.0, 2.0], "key", dimension=2).shape == (1, 2)
    with pytest.raises(InputError, match=r"key must have two dimensions \(rows, coordinates\), not shape \(3,\)"):
        as_points([1.0, 2.0, 3.0], "key", dimension=2)
    with pytest.raises(InputError, match="keys must have two dimensions"):
        as_points([1.0, 2.0], "keys")


def test_the_first_bad_coordinate_is_named() -> None:
    keys = KEYS.copy()
    keys[3, 1] = np.nan
    with pytest.raises(InputError, match="keys must be finite; row 3, column 1 is nan"):
        as_points(keys, "keys")
    keys[3, 1] = -1e151
    with pytest.raises(InputError, match="keys must stay below 1e150 in magnitude; row 3, column 1 does not"):
        as_points(keys, "keys")
    keys[3, 1] = 1e150
    assert as_points(keys, "keys")[3, 1] == 1e150


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.int64(2), Fraction(2), Decimal(2), np.array(2.0)])
def test_numbers_may_be_of_any_real_type(number: Any) -> None:
    assert Problem.of(KEYS, sigma=number, cap=0.5).sigma == 2.0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 49, 64, 100, 997, 4096])
@pytest.mark.parametrize("nu", [0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0])
def test_nu_sets_the_cap_and_never_an_infeasible_one(count: int, nu: float) -> None:
    cap = cap_from(count, nu=nu)
    rounded = min(1.0, 1.0 / (nu * count))
    assert cap in (rounded, math.nextafter(rounded, 1.0))
    assert fewest_keys(cap) <= count
    assert fewest_keys(cap) == max(1, math.ceil(Fraction(str(nu)) * count))


def test_one_over_n_needs_n_keys() -> None:
    # 1/49 is rounded down: 49 · (1/49) < 1. The next double is taken, and the problem is feasible, exactly.
    for count in range(1, 4000):
        cap = cap_from(count, cap=1.0 / count)
        assert cap in (1.0 / count, math.nextafter(1.0 / count, 1.0))
        assert fewest_keys(cap) == count
        assert count * Fraction(cap) >= 1


def test_a_cap_that_is_not_one_over_a_count_is_taken_as_it_is() -> None:
    for cap in (0.3, 0.5 - 1e-9, 0.21, 1.0, math.nextafter(0.5, 0.0) - 1e-12):
        assert cap_from(100, cap=cap) == cap


def test_a_cap_between_two_counts_needs_the_larger() -> None:
    assert fewest_keys(0.3) == 4
    assert fewest_keys(1.0) == 1
    assert fewest_keys(np.nextafter(0.5, 1)) == 2
    assert fewest_keys(0.5 + 1e-9) == 2
    assert fewest_keys(0.5 - 1e-9) == 3


def test_an_infeasible_cap_says_what_would_do() -> None:
    with pytest.raises(InputError, match=r"cap 0.1 is infeasible for 6 keys.*at least 10 keys or a cap of at least"):
        cap_from(6, cap=0.1)


@pytest.mark.parametrize(("nu", "cap"), [(None, None), (0.5, 0.5)])
def test_exactly_one_of_nu_and_cap(nu: float | None, cap: float | None) -> None:
    with pytest.raises(InputError, match="give exactly one of nu"):
        cap_from(6, nu=nu, cap=cap)


@pytest.mark.parametrize("cap", [0.0, -0.5, 1e-7, 1.0000001, 2])
def test_caps_out_of_range(cap: float) -> None:
    with pytest.raises(InputError, match="cap must lie between 1e-06 and 1"):
        cap_from(10**8, cap=cap)
