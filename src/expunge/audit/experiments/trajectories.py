"""The edit sequences of the sequential audit (paper, §4.6; docs/results/protocols.md, Sequential edits).

A trajectory fixes everything that a solver must not influence: the initial memory, which entry each cycle
deletes, which entry it admits, and every probe. Two solvers driven by the same trajectory therefore face
the same 64 problems and are read at the same points.

One ``numpy.random.default_rng(seed)`` per trajectory, drawn in this order and no other:

1. near-duplicate only: the 8 centres, 2·N(0, I), shape (8, d);
2. the n₀ initial keys (law below), then the n₀ initial values, U[−1, 1], shape (n₀, 4);
3. the 32 anchors, N(0, I), shape (32, d);
4. for each of the 32 cycles: the row to delete, ``integers(n₀)``; the jitter after the deletion; the
   admitted key; its value; the jitter after the admission.

The law of m keys: Gaussian is N(0, I), shape (m, d). Near-duplicate is m centre numbers, ``integers(8)``,
then 0.02·N(0, I), shape (m, d), added to those centres. A jitter is 16 distinct rows of the memory as it
then is, ``choice(n, 16, replace=False)``, then 0.1·N(0, I), shape (16, d), added to those keys.

The paper leaves the order of draws, the anchors' law, the assignment of keys to centres and the jitter's
scale open; the choices above are ours.

A trajectory of one's own keys takes rows of them, without repeating one: n₀ to begin with and one a cycle
(``permutation``), then the values; anchors are further rows, 0.05σ·N(0, I) added, and so is a jitter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from expunge.errors import InputError
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "PAPER_SEEDS",
    "REGIMES",
    "Cycle",
    "Operation",
    "Trajectory",
    "draw_own_trajectory",
    "draw_trajectory",
    "sequential_grid",
]

Regime = Literal["gaussian", "near-duplicate", "own"]

REGIMES: tuple[Regime, ...] = ("gaussian", "near-duplicate")
SIZES = (64, 128)
DIMENSIONS = (6, 64)
PAPER_SEEDS = range(41000, 41010)
CYCLES = 32
NU = 0.4
CENTRES, SPREAD, NOISE = 8, 2.0, 0.02
VALUE_WIDTH = 4
ANCHORS = 32
JITTERED, JITTER = 16, 0.1
# Of a width, for one's own keys, whose scale is not known: 0.1 of σ = 2.
OWN_JITTER = 0.05


@dataclass(frozen=True)
class Cycle:
    """One deletion and one admission. Rows count the memory in insertion order, oldest first."""

    row: int
    rows_after_delete: IndexArray
    noise_after_delete: Matrix
    key: Vector
    value: Vector
    rows_after_admit: IndexArray
    noise_after_admit: Matrix


@dataclass(frozen=True)
class Operation:
    """One scheduled edit and the problem that it leaves behind.

    ``name``, ``key`` (d,) and ``value`` (4,) are of the entry deleted or admitted. ``names``, ``keys``
    (n, d) and ``values`` (n, 4) are the whole memory afterwards, oldest first. ``probes`` (m, d): the keys
    afterwards, the changed key, the anchors, the jittered keys, in this order.
    """

    kind: Literal["delete", "admit"]
    name: str
    key: Vector
    value: Vector
    names: tuple[str, ...]
    keys: Matrix
    values: Matrix
    probes: Matrix


@dataclass(frozen=True)
class Trajectory:
    """An initial memory and the edits scheduled on it.

    ``keys`` (n₀, d), ``values`` (n₀, 4) and ``anchors`` (32, d) float64. ``names`` are the ids of the
    initial entries; the entry admitted in cycle k (from 0) is called ``admitted-k``.
    """

    regime: Regime
    seed: int
    keys: Matrix
    values: Matrix
    anchors: Matrix
    cycles: tuple[Cycle, ...]
    nu: float = NU
    width: float | None = None

    @property
    def cap(self) -> float:
        """C = 1/(ν n₀), fixed for the whole trajectory."""
        return 1.0 / (self.nu * len(self.keys))

    @property
    def sigma(self) -> float:
        """σ = 2√(d/6), unless a width was given."""
        return 2.0 * math.sqrt(self.keys.shape[1] / 6.0) if self.width is None else self.width

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of the initial entries, in row order."""
        return tuple(f"initial-{i}" for i in range(len(self.keys)))

    @property
    def label(self) -> str:
        """A short unique name, for reports and test ids."""
        n, d = self.keys.shape
        return f"{self.regime}-n{n}-d{d}-s{self.seed}"

    def operations(self) -> Iterator[Operation]:
        """Every edit in order, delete and admit in turn, each with the memory it leaves behind."""
        names, keys, values = list(self.names), self.keys, self.values
        for k, cycle in enumerate(self.cycles):
            name, key, value = names.pop(cycle.row), keys[cycle.row], values[cycle.row]
            keys, values = np.delete(keys, cycle.row, axis=0), np.delete(values, cycle.row, axis=0)
            jittered = keys[cycle.rows_after_delete] + cycle.noise_after_delete
            probes = np.vstack([keys, key, self.anchors, jittered])
            yield Operation("delete", name, key, value, tuple(names), keys, values, probes)

            name, key, value = f"admitted-{k}", cycle.key, cycle.value
            names.append(name)
            keys, values = np.vstack([keys, key]), np.vstack([values, value])
            jittered = keys[cycle.rows_after_admit] + cycle.noise_after_admit
            probes = np.vstack([keys, key, self.anchors, jittered])
            yield Operation("admit", name, key, value, tuple(names), keys, values, probes)


def draw_trajectory(regime: Regime, size: int, dimension: int, seed: int, *, cycles: int = CYCLES) -> Trajectory:
    """Draw one trajectory in the order of the module's docstring. Fewer ``cycles`` give a prefix of more."""
    if regime not in REGIMES:
        raise InputError(f"unknown regime {regime!r}: choose one of {', '.join(REGIMES)}")
    if size <= JITTERED:
        raise InputError(f"a trajectory needs more than {JITTERED} initial keys, got {size}")
    rng = np.random.default_rng(seed)
    centres = SPREAD * rng.standard_normal((CENTRES, dimension)) if regime == "near-duplicate" else None

    def draw_keys(count: int) -> Matrix:
        if centres is None:
            return rng.standard_normal((count, dimension))
        chosen = rng.integers(CENTRES, size=count)
        return centres[chosen] + NOISE * rng.standard_normal((count, dimension))

    def draw_values(count: int) -> Matrix:
        return rng.uniform(-1.0, 1.0, (count, VALUE_WIDTH))

    def draw_jitter(count: int) -> tuple[IndexArray, Matrix]:
        rows = rng.choice(count, JITTERED, replace=False).astype(np.int64)
        return rows, JITTER * rng.standard_normal((JITTERED, dimension))

    keys, values = draw_keys(size), draw_values(size)
    anchors = rng.standard_normal((ANCHORS, dimension))
    drawn = []
    for _ in range(cycles):
        row = int(rng.integers(size))
        after_delete = draw_jitter(size - 1)
        key, value = draw_keys(1)[0], draw_values(1)[0]
        drawn.append(Cycle(row, *after_delete, key, value, *draw_jitter(size)))
    return Trajectory(regime, seed, keys, values, anchors, tuple(drawn))


def draw_own_trajectory(keys: Matrix, size: int, seed: int, *, sigma: float, nu: float, cycles: int) -> Trajectory:
    """Draw a trajectory from one's own keys (n, d), of which there must be at least size + cycles."""
    if size <= JITTERED:
        raise InputError(f"a trajectory needs more than {JITTERED} initial keys, got {size}")
    if len(keys) < size + cycles:
        raise InputError(f"{cycles} cycles from {size} keys need {size + cycles} keys, and there are {len(keys)}")
    rng = np.random.default_rng(seed)
    scale = OWN_JITTER * sigma
    order = rng.permutation(len(keys))
    values = rng.uniform(-1.0, 1.0, (size + cycles, VALUE_WIDTH))
    anchors = keys[rng.integers(len(keys), size=ANCHORS)] + scale * rng.standard_normal((ANCHORS, keys.shape[1]))

    def draw_jitter(count: int) -> tuple[IndexArray, Matrix]:
        rows = rng.choice(count, JITTERED, replace=False).astype(np.int64)
        return rows, scale * rng.standard_normal((JITTERED, keys.shape[1]))

    drawn = []
    for k in range(cycles):
        row = int(rng.integers(size))
        after_delete = draw_jitter(size - 1)
        drawn.append(Cycle(row, *after_delete, keys[order[size + k]], values[size + k], *draw_jitter(size)))
    return Trajectory("own", seed, keys[order[:size]], values[:size], anchors, tuple(drawn), nu, sigma)


def sequential_grid(seeds: Iterable[int] = PAPER_SEEDS, *, cycles: int = CYCLES) -> Iterator[Trajectory]:
    """Regimes × n₀ ∈ {64, 128} × d ∈ {6, 64} × seeds: 80 trajectories at the paper's ten seeds."""
    chosen = tuple(seeds)
    for regime in REGIMES:
        for size in SIZES:
            for dimension in DIMENSIONS:
                for seed in chosen:
                    yield draw_trajectory(regime, size, dimension, seed, cycles=cycles)
