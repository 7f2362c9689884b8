"""Work on columns in parts: every column once, the same bits on any number of cores, and an end when one part fails."""

from __future__ import annotations

import time

import numpy as np
import pytest

from expunge import Memory
from expunge.problem import column_parts
from expunge.problem.check import stationarity_terms
from expunge.problem.column_parts import for_column_parts
from expunge.problem.kernel import kernel_block
from expunge.solver.kernel_rows import KernelRows
from expunge.types import Matrix, Vector


@pytest.fixture
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_parts, "WORTH", 0)
    monkeypatch.setattr(column_parts, "PART", 7)


def draw(size: int) -> Matrix:
    return np.random.default_rng(size).standard_normal((size, 3))


@pytest.mark.usefixtures("many_parts")
@pytest.mark.parametrize("columns", [0, 1, 6, 7, 8, 100])
def test_every_column_is_worked_on_once(columns: int) -> None:
    seen = np.zeros(columns, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        seen[start:stop] += 1

    told: list[tuple[int, int]] = []
    for_column_parts(work, columns, 1, lambda done, of: told.append((done, of)))
    assert (seen == 1).all()
    assert told[-1:] == ([(columns, columns)] if columns else [])


@pytest.mark.usefixtures("many_parts")
def test_what_one_part_raises_ends_the_work() -> None:
    def work(start: int, stop: int) -> None:
        if start == 14:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        for_column_parts(work, 100, 1)


@pytest.mark.usefixtures("many_parts")
def test_an_interrupt_in_the_callback_waits_for_parts_under_way_and_starts_no_other() -> None:
    started: list[int] = []

    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    def work(start: int, stop: int) -> None:
        started.append(start)
        time.sleep(0.005)  # Or every part is done before the first is told of.

    with pytest.raises(KeyboardInterrupt):
        for_column_parts(work, 7_000, 1, interrupt)
    count = len(started)
    assert count < 1_000
    assert len(started) == count


@pytest.mark.usefixtures("many_parts")
def test_sums_have_the_same_bits_on_any_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, counts = draw(300), np.zeros(300, dtype=np.int64)
    counts[:200] = 1
    counts[50] = 3

    def sums(cores: int) -> tuple[Vector, Vector, Vector]:
        monkeypatch.setattr(column_parts, "available_cores", lambda: cores)
        gram = KernelRows(keys, 1.3)
        gram.count_bound(counts)
        return gram.bound.high, gram.bound.low, stationarity_terms(keys, counts / 202.0, 1.3)

    once = sums(1)
    for cores in (2, 5):
        for one, other in zip(once, sums(cores), strict=True):
            assert np.array_equal(one, other)
    expected = kernel_block(keys, keys, 1.3) @ counts
    assert np.abs(once[0][:300] - expected).max() <= 1e-12
    assert np.abs(once[2] - (1.0 - 2.0 * expected / 202.0)).max() <= 1e-14


@pytest.mark.usefixtures("many_parts")
def test_a_fit_on_many_cores_is_the_fit_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = draw(500)

    def fitted(cores: int) -> Memory:
        monkeypatch.setattr(column_parts, "available_cores", lambda: cores)
        return Memory.fit(keys, keys, sigma=1.5, nu=0.2)

    one, many = fitted(1), fitted(4)
    assert np.array_equal(one.coefficients, many.coefficients)
    assert one.offset == many.offset
