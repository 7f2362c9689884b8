"""Margin, bound, reserve: disjoint, covering, ascending, decided by the exact values or by a threshold."""

from __future__ import annotations

import numpy as np
import pytest

from agreement import fitted
from expunge.problem.partition import Partition
from problems import PROBLEMS


def test_groups_by_exact_values() -> None:
    cap = 0.25
    coefficients = np.array([0.25, 0.0, 5e-324, np.nextafter(cap, 0), 0.1, 0.0, 0.25])
    groups = Partition.of(coefficients, cap)
    assert groups.margin.tolist() == [2, 3, 4]
    assert groups.bound.tolist() == [0, 6]
    assert groups.reserve.tolist() == [1, 5]


def test_groups_within_a_threshold() -> None:
    groups = Partition.of(np.array([1e-7, 1.1e-7, 0.1, 0.2 - 1.1e-7, 0.2 - 0.9e-7, 0.2]), 0.2, 1e-7)
    assert groups.reserve.tolist() == [0]
    assert groups.margin.tolist() == [1, 2, 3]
    assert groups.bound.tolist() == [4, 5]


@pytest.mark.parametrize("seed", range(20))
def test_disjoint_covering_ascending(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coefficients = rng.choice([0.0, 0.05, 0.1, -1e-9, 0.1 + 1e-9, np.nan], int(rng.integers(0, 30)))
    for threshold in (0.0, 1e-7, 0.2):
        groups = Partition.of(coefficients, 0.1, threshold)
        rows = np.concatenate([groups.margin, groups.bound, groups.reserve])
        assert np.array_equal(np.sort(rows), np.arange(coefficients.size))
        for group in (groups.margin, groups.bound, groups.reserve):
            assert np.all(np.diff(group) > 0)


def test_equality_is_by_value() -> None:
    coefficients = np.array([0.0, 0.1, 0.2])
    assert Partition.of(coefficients, 0.2) == Partition.of(coefficients.copy(), 0.2)
    assert Partition.of(coefficients, 0.2) != Partition.of(coefficients, 0.3)
    assert Partition.of(coefficients, 0.2) != "margin"


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_memory_shows_the_partition_of_its_coefficients(name: str) -> None:
    memory = fitted(PROBLEMS[name])
    groups, coefficients = memory.partition, memory.coefficients
    assert groups == memory.solution.partition
    assert np.all(coefficients[groups.reserve] == 0.0)
    assert np.all(coefficients[groups.bound] == memory.cap)
    assert np.all((coefficients[groups.margin] > 0.0) & (coefficients[groups.margin] < memory.cap))
