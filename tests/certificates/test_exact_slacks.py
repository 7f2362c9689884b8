"""What certificates say of forgotten keys holds for the exact problem: the cap as stored, empty margins included."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from expunge import Memory
from expunge.certificates.certificate import ReserveCertificate
from expunge.types import Matrix
from highprecision import exact_kernel, solve_exactly


def exact_slacks(memory: Memory, keys: Matrix) -> list[float]:
    """ρ* − 1 + 2Σα*κ at keys (m, d), for the exact optimum of the memory's entries at its cap."""
    truth = solve_exactly(memory.keys, cap=memory.cap, sigma=memory.sigma)
    needed = math.ceil(1 / Fraction(memory.cap))
    with ctx.workprec(256):
        own = exact_kernel(memory.keys, memory.keys, memory.sigma)
        there = exact_kernel(keys, memory.keys, memory.sigma)
        columns = range(len(memory))

        def terms(kernel: object, rows: int) -> list[arb]:
            return [
                1 - 2 * sum((kernel[i, j] * truth.exact[j] for j in columns), arb(0))  # type: ignore[index]
                for i in range(rows)
            ]

        ranked = sorted(terms(own, len(memory)), key=lambda t: t.mid(), reverse=True)
        return [float(ranked[needed - 1] - t) for t in terms(there, len(keys))]


@pytest.mark.parametrize("count", [5, 6, 7, 8, 13])
@pytest.mark.parametrize("seed", range(2))
def test_no_certificate_is_valid_beyond_the_exact_slack(count: int, seed: int) -> None:
    """A cap of 1/m has an empty margin, or one key with what its rounding leaves: 1e−17 that decides the offset."""
    rng = np.random.default_rng([count, seed])
    keys = rng.standard_normal((count + 14, 2)) * np.repeat([2.0, 0.7], [count, 14])[:, None]
    memory = Memory.fit(keys, np.zeros(len(keys)), sigma=3.0, cap=1.0 / count)
    places = dict(zip(memory.ids, keys, strict=True))
    assert count * Fraction(memory.cap) >= 1
    for name in memory.ids:
        found = memory.certificate(name)
        if isinstance(found, ReserveCertificate) and found.proved:
            (slack,) = exact_slacks(memory, places[name][None])
            assert slack > 0.0
    memory.prune("forget")
    for _ in range(4):
        rows = memory.warranties()
        assert rows
        exact = exact_slacks(memory, np.array([places[row.id] for row in rows]))
        for row, slack in zip(rows, exact, strict=True):
            assert row.status != "valid" or slack >= 0.0
            assert row.remaining is None or row.remaining <= slack + 1e-300
        memory.admit(rng.standard_normal(2), 0.0)
