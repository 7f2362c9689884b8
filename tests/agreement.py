"""What tests compare memories with: the fifty-digit truth, independent backends, fresh fits, their own past."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from expunge import Memory
from expunge.errors import ExpungeError
from expunge.problem.kernel import kernel_block
from expunge.problem.problem import cap_from
from expunge.solver.backends import Reference, polish, solve_reference
from expunge.types import Matrix, Vector
from highprecision import Truth, solve_exactly
from problems import PROBLEMS, Problem

# What published states are held to, and what they are measured against.
PUBLISHED, MEASURED = 1e-9, 1e-12

EPSILON = 2.0**-52

# Gate scores depend on the centre, which is unique whatever the coefficients do.
SAME_SCORES = 1e-12


def cap_of(problem: Problem) -> float:
    """The cap that a memory keeps: none above 1, and 1/m rounded so that m·C reaches 1."""
    return cap_from(problem.size, cap=min(problem.cap, 1.0))


def fitted(problem: Problem, **entries: Any) -> Memory:
    """Fit a named problem; entries are called by their row number."""
    return Memory.fit(problem.keys, problem.values, sigma=problem.sigma, cap=cap_of(problem), **entries)


@cache
def raw(name: str, backend: str) -> Reference:
    problem = PROBLEMS[name]
    return solve_reference(problem.keys, cap=cap_of(problem), sigma=problem.sigma, backend=backend)


@cache
def polished(name: str, backend: str) -> Reference:
    problem = PROBLEMS[name]
    return polish(raw(name, backend), problem.keys, cap=cap_of(problem), sigma=problem.sigma)


@cache
def truth(name: str) -> Truth:
    problem = PROBLEMS[name]
    guess = raw(name, "daqp").coefficients
    return solve_exactly(problem.keys, cap=cap_of(problem), sigma=problem.sigma, guess=guess)


def strict_residual(memory: Memory) -> float:
    """The KKT residual with no partition threshold, against the exact kernel.

    The last term bounds what rounding does to t = 1 − 2Kα: κ = exp(−z) carries the error of its exponent,
    (d/2 + 3) ε z, damped by z exp(−z) ≤ 0.4, and one rounding of its own.
    """
    coefficients, cap = memory.coefficients, memory.cap
    gap = 1.0 - 2.0 * (kernel_block(memory.keys, memory.keys, memory.sigma) @ coefficients) - memory.offset
    violation = np.where(coefficients <= 0.0, gap, np.where(coefficients >= cap, -gap, np.abs(gap)))
    box = max(float(np.max(-coefficients)), float(np.max(coefficients - cap)))
    rounding = 2.0 * EPSILON * (1.0 + 0.4 * (memory.dimension / 2 + 3))
    return max(abs(float(coefficients.sum()) - 1.0), box, float(np.max(violation)), 0.0) + rounding


def readout(keys: Matrix, values: Matrix, coefficients: Vector, sigma: float, queries: Matrix) -> Matrix:
    """Σακv / Σακ, as the paper writes it."""
    weights = kernel_block(np.ascontiguousarray(queries), np.ascontiguousarray(keys), sigma) * coefficients
    out: Matrix = (weights @ values) / weights.sum(axis=1, keepdims=True)
    return out


def value_range(values: Matrix) -> float:
    """Largest range of a value coordinate; 1 where all values are equal."""
    return float(np.max(np.ptp(values, axis=0))) or 1.0


def copies(keys: Matrix) -> list[list[int]]:
    """Rows grouped by equal keys."""
    found: dict[tuple[float, ...], list[int]] = {}
    for row, key in enumerate(keys.tolist()):
        found.setdefault(tuple(key), []).append(row)
    return list(found.values())


def by_id(memory: Memory) -> dict[str, float]:
    """Coefficients under their ids, which row order cannot confuse."""
    return dict(zip(memory.ids, memory.coefficients.tolist(), strict=True))


def assert_same_function(memory: Memory, other: Memory, points: Matrix, *, tolerance: float = SAME_SCORES) -> None:
    """Both gate the points alike."""
    difference = np.max(np.abs(memory.score(points) - other.score(points)))
    assert difference <= tolerance, f"scores differ by {difference:.3g}"


def assert_sound(memory: Memory, *, tolerance: float = MEASURED) -> None:
    """What must hold of every published state, recomputed from what the memory shows."""
    check = memory.check()
    assert check.worst <= tolerance, check
    groups = memory.partition
    rows = np.concatenate([groups.margin, groups.bound, groups.reserve])
    assert np.array_equal(np.sort(rows), np.arange(len(memory)))
    assert len(memory.ids) == len(set(memory.ids)) == len(memory) == len(memory.keys) == len(memory.values)
    assert np.all((memory.coefficients >= 0.0) & (memory.coefficients <= memory.cap))
    for rows_of_one in copies(memory.keys):
        assert len(set(memory.coefficients[rows_of_one].tolist())) == 1, "equal keys have unequal shares"


def snapshot(memory: Memory) -> dict[str, Any]:
    """Every bit that a caller, or the next edit, could depend on."""
    view = memory.version
    state, entries = view.state, view.entries
    slots = view.slots.tolist()
    arrays = {name: getattr(state, name)[: state.sites] for name in ("alpha", "slack", "status", "multiplicity")}
    size = state.margin.size
    return {
        "ids": memory.ids,
        "subjects": memory.subjects,
        "payloads": [entries.payloads[slot] for slot in slots],
        "salts": [entries.salts[slot] for slot in slots],
        "commitments": entries.commitments[slots].tobytes(),
        "keys": memory.keys.tobytes(),
        "values": memory.values.tobytes(),
        "coefficients": memory.coefficients.tobytes(),
        "numbers": (memory.offset, memory.cap, memory.sigma, memory.nu, memory.initial_size, len(memory)),
        "digest": memory.digest,
        "state": {name: array.tobytes() for name, array in arrays.items()},
        "margin": state.margin.members.tobytes(),
        "factor": np.triu(state.margin.factor[:size, :size]).tobytes(),
        "exact": state.exact,
    }


def raised_by(act: Callable[[], object]) -> BaseException | None:
    """What an act raises, of our own errors; None if it does not. A foreign exception goes through."""
    try:
        act()
    except ExpungeError as problem:
        return problem
    return None
