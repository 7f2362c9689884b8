"""Comparisons against fifty digits."""

from __future__ import annotations

from dataclasses import replace

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from expunge.audit.comparison import StateArrays, compare, condition_number, groups_of, readout_at, score_at, strictness
from expunge.memory.memory import Memory

mpmath.mp.dps = 50


@pytest.fixture(scope="module")
def pair() -> tuple[StateArrays, StateArrays, np.ndarray]:
    rng = np.random.default_rng(3)
    keys, values, probes = rng.standard_normal((12, 3)), rng.standard_normal((12, 2)), rng.standard_normal((9, 3))
    memory = Memory.fit(keys, values, sigma=2.0, nu=0.4)
    reference = StateArrays(keys, memory.coefficients, memory.offset, memory.cap, 2.0, values)
    moved = memory.coefficients.copy()
    first, second = np.flatnonzero((moved > 0.01) & (moved < memory.cap - 0.01))[:2]
    moved[first] += 1e-3
    moved[second] -= 1e-3
    return StateArrays(keys, moved, memory.offset + 1e-4, memory.cap, 2.0, values), reference, probes


def exact(state: StateArrays, probe: np.ndarray) -> tuple[mpmath.mpf, list[mpmath.mpf]]:
    """Score and readout at a probe, in fifty digits."""
    assert state.values is not None
    weights = [
        mpmath.mpf(a)
        * mpmath.exp(-sum((mpmath.mpf(p) - mpmath.mpf(k)) ** 2 for p, k in zip(probe, key, strict=True)) / 4)
        for a, key in zip(state.coefficients.tolist(), state.keys.tolist(), strict=True)
    ]
    total = sum(weights)
    readout = [
        sum(w * mpmath.mpf(v) for w, v in zip(weights, column, strict=True)) / total
        for column in state.values.T.tolist()
    ]
    return 2 * total - mpmath.mpf(state.offset), readout


def test_differences_are_those_of_fifty_digits(pair: tuple[StateArrays, StateArrays, np.ndarray]) -> None:
    state, reference, probes = pair
    ours, theirs = ([exact(one, probe) for probe in probes.tolist()] for one in (state, reference))
    measured = compare(state, reference, probes)
    score = max(abs(a[0] - b[0]) for a, b in zip(ours, theirs, strict=True))
    readout = max(abs(p - q) for a, b in zip(ours, theirs, strict=True) for p, q in zip(a[1], b[1], strict=True))
    spread = max(max(b[1][k] for b in theirs) - min(b[1][k] for b in theirs) for k in (0, 1))
    assert measured.score_difference == pytest.approx(float(score), rel=1e-11)
    assert measured.readout_difference == pytest.approx(float(readout), rel=1e-10)
    assert measured.readout_range == pytest.approx(float(spread), rel=1e-12)
    assert measured.readout_percent == pytest.approx(float(100 * readout / spread), rel=1e-10)
    assert measured.score_percent is not None
    assert measured.coefficient_difference == pytest.approx(1e-3, rel=1e-9)
    assert measured.objective_gap is not None
    assert measured.objective_gap > 0.0


def test_far_queries_have_a_readout(pair: tuple[StateArrays, StateArrays, np.ndarray]) -> None:
    _, reference, _ = pair
    assert reference.values is not None
    far = np.full((1, 3), 1e3)
    found = readout_at(reference, far)
    assert np.isfinite(found).all()
    active = np.flatnonzero(reference.coefficients)
    nearest = active[np.argmin(np.linalg.norm(reference.keys[active] - far, axis=1))]
    assert found[0] == pytest.approx(reference.values[nearest])


def test_recorded_groups_decide_partition_and_score(pair: tuple[StateArrays, StateArrays, np.ndarray]) -> None:
    state, reference, probes = pair
    groups = groups_of(reference.coefficients, reference.cap)
    labelled = replace(reference, groups=groups)
    assert compare(labelled, labelled, probes).partition_match
    other = groups.copy()
    row = int(np.flatnonzero(groups == 1)[0])
    other[row] = 0
    moved = replace(labelled, groups=other)
    assert compare(moved, labelled, probes).partition_match is False
    assert compare(moved, labelled, probes, recorded=False).partition_match is True
    left_out = 2.0 * reference.coefficients[row] * np.exp(-((probes - reference.keys[row]) ** 2).sum(axis=1) / 4.0)
    assert score_at(moved, probes) == pytest.approx(score_at(labelled, probes) - left_out)
    assert (
        compare(
            state, StateArrays(reference.keys[1:], reference.coefficients[1:], 0.0, reference.cap, 2.0), probes
        ).partition_match
        is None
    )


def test_strictness_is_the_distance_to_another_partition(pair: tuple[StateArrays, StateArrays, np.ndarray]) -> None:
    _, reference, _ = pair
    memory = Memory.fit(reference.keys, np.zeros(12), sigma=2.0, nu=0.4)
    slack = np.abs(memory.solution.slack(reference.keys))
    alpha, cap = memory.coefficients, memory.cap
    expected = min(
        min(min(a, cap - a) if 0.0 < a < cap else g for a, g in zip(alpha, slack, strict=True)), float("inf")
    )
    assert strictness(reference) == pytest.approx(expected, rel=1e-9)


def test_condition_numbers_are_ratios_of_eigenvalues() -> None:
    keys = np.random.default_rng(0).standard_normal((8, 4))
    gram = np.exp(-((keys[:, None] - keys) ** 2).sum(axis=2) / 4.0)
    eigenvalues = np.linalg.eigvalsh(gram)
    assert condition_number(keys, 2.0) == pytest.approx(eigenvalues[-1] / eigenvalues[0], rel=1e-9)
