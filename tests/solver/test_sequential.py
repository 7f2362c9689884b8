"""The sequential audit's grid (docs/results/protocols.md), one of its seeds and one other: the maintained path alone.

`benchmarks/sequential.py` runs all seeds. The paper's guarded solver needed 84 rescues on this grid, left a
residual of 8.6e-6 and read out 0.53 % of the value range away from its reference.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from agreement import MEASURED, readout, value_range
from expunge import Memory
from expunge.audit.experiments.trajectories import DIMENSIONS, REGIMES, SIZES, Operation, Regime, draw_trajectory
from expunge.solver.backends import polish, solve_reference

READOUT_AGREEMENT = 1e-8
SEEDS = (41000, 42007)


def apply(memory: Memory, operation: Operation) -> None:
    if operation.kind == "delete":
        receipt = memory.delete(operation.name)
        assert receipt.outcome in ("decrement", "certified_zero")
    else:
        receipt = memory.admit(operation.key, operation.value, id=operation.name)
        assert receipt.outcome == "admitted"
    assert len(receipt.attempts) == 1
    assert receipt.attempts[0].path in ("path", "reserve")
    assert receipt.check.worst <= MEASURED


def readout_difference(memory: Memory, operation: Operation) -> float:
    """Largest over the probes, as a share of the value range, from a polished DAQP solve of the same keys."""
    raw = solve_reference(operation.keys, cap=memory.cap, sigma=memory.sigma, backend="daqp")
    reference = polish(raw, operation.keys, cap=memory.cap, sigma=memory.sigma)
    assert reference.worst <= MEASURED
    expected = readout(operation.keys, operation.values, reference.coefficients, memory.sigma, operation.probes)
    return float(np.max(np.abs(memory.read(operation.probes) - expected))) / value_range(operation.values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("regime", "size", "dimension"), list(itertools.product(REGIMES, SIZES, DIMENSIONS)))
def test_a_trajectory_runs_on_the_maintained_path(regime: Regime, size: int, dimension: int, seed: int) -> None:
    trajectory = draw_trajectory(regime, size, dimension, seed)
    memory = Memory.fit(
        trajectory.keys,
        trajectory.values,
        sigma=trajectory.sigma,
        cap=trajectory.cap,
        ids=trajectory.names,
    )
    for operation in trajectory.operations():
        apply(memory, operation)
        assert memory.ids == operation.names
        assert memory.check().worst <= MEASURED
        assert np.array_equal(memory.keys, operation.keys)
        assert readout_difference(memory, operation) <= READOUT_AGREEMENT
    assert sum(memory.outcomes.values()) == 64
    assert memory.outcomes["rescued"] == memory.outcomes["refused"] == 0
