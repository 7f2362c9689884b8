"""Kernel rows by products stay within their stated error of those made directly."""

from __future__ import annotations

import numpy as np
import pytest

from expunge.problem.kernel import kernel_block
from expunge.solver.kernel_products import fill_rows, product_error
from expunge.solver.kernel_rows import KernelRows


@pytest.mark.parametrize("far", [0.0, 1e3])
@pytest.mark.parametrize("dimension", [32, 384])
def test_within_the_stated_error_also_far_away_and_close_together(dimension: int, far: float) -> None:
    rng = np.random.default_rng(dimension)
    keys = rng.standard_normal((70, dimension)) / np.sqrt(dimension)
    keys[10:20] = keys[:10] + 1e-7 * rng.standard_normal((10, dimension))
    keys += far
    out = np.empty((20, 70))
    fill_rows(keys[:20], keys, 0.7, out)
    exact = kernel_block(keys[:20], keys, 0.7)
    assert np.abs(out - exact).max() <= product_error(dimension)
    assert np.all(np.diagonal(out) == 1.0)
    # Pairs that are close together keep every digit of their distance.
    assert np.allclose(np.log(out[:10, 10:20].diagonal()), np.log(exact[:10, 10:20].diagonal()), rtol=1e-3)


def test_bound_sums_remember_what_came_and_went() -> None:
    keys = np.random.default_rng(1).standard_normal((60, 40)) / 6.0
    gram = KernelRows(keys, 1.0)
    counts = np.zeros(60, dtype=np.int64)
    counts[:30] = 1
    gram.count_bound(counts)
    first = gram.value_error(0.1)
    counts[:4] = 0
    gram.count_bound(counts)
    assert gram.value_error(0.1) > first
    direct = kernel_block(keys[4:30], keys, 1.0).sum(axis=0)
    assert np.abs(gram.bound.high[:60] + gram.bound.low[:60] - direct).max() < 30 * product_error(40)
