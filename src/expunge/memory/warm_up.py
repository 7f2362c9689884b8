"""A short life of small memories, in which every compiled function of the core is called once.

It loads the compiled functions of a process before somebody waits for them, and on a fresh install it makes them
(`expunge.compilation`).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from expunge.errors import Refused
from expunge.memory.memory import Memory
from expunge.problem.kernel import kernel_block
from expunge.problem.kernel_pairs import two_product
from expunge.types import Matrix

__all__ = ["warm_up"]

SIZE, DIMENSION, WIDTH = 96, 3, 1.5


def warm_up(*, thorough: bool = True) -> None:
    """Fit, read, edit, certify, save and load small memories that nobody keeps.

    Without ``thorough`` only what an edit and a readout need; that takes a few milliseconds once it is compiled.
    """
    rng = np.random.default_rng(0)
    keys, values = rng.standard_normal((SIZE, DIMENSION)), rng.standard_normal((SIZE, 2))
    keys[-1] = keys[0]
    ids = [str(number) for number in range(SIZE)]
    memory = Memory.fit(keys, values, sigma=WIDTH, nu=0.3, ids=ids, subjects=[str(n // 4) for n in range(SIZE)])
    queries = np.vstack([keys[:3], [[40.0, 0.0, 0.0]]])
    memory.read(queries)
    memory.search(queries[0])
    memory.nearest(queries[0])
    memory.judge(queries)
    for point in (keys[1], [0.0, 0.1, 0.2], [9.0, 0.0, 0.0]):
        memory.admit(point, values[0])
    memory.admit_many(0.5 * keys[:8], values[:8])
    for group in (memory.partition.reserve, memory.partition.margin, memory.partition.bound):
        if len(group):
            memory.delete(memory.ids[int(group[0])])
    memory.delete(subject="5")
    if thorough:
        _certify(memory, queries)
        _repeat(memory)
        _solve_hard_cases(keys, values)


def _certify(memory: Memory, queries: Matrix) -> None:
    for group in (memory.partition.reserve, memory.partition.margin, memory.partition.bound):
        if len(group):
            memory.certificate(memory.ids[int(group[0])])
    memory.bounds()
    memory.prove()
    memory.report()
    memory.check()
    memory.read(queries, projection=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        memory.save(Path(folder) / "memory")
        Memory.load(Path(folder) / "memory").admit([0.3, 0.2, 0.1], [0.0, 0.0])


def _repeat(memory: Memory) -> None:
    """Edits with warranties: pruned entries are checked, return, and expire."""
    for mode in ("archive", "forget"):
        copy = memory.refit()
        copy.prune(mode, sketch=1 if mode == "forget" else 0)
        copy.admit([2.5, 0.0, -1.0], [1.0, 1.0])
        copy.warranties()
        copy.delete(copy.ids[:3])
    copy.rebuild(nu=0.5)
    copy.delete(copy.ids)


def _solve_hard_cases(keys: Matrix, values: Matrix) -> None:
    """Keys that are close together, lie on a lattice or are few: what pivots, pairs and balls are for."""
    from expunge.solver.exact_optimum import pair_products

    # Only ties lead to these.
    pair_products(np.ones((1, 1)), np.ones((1, 1)), np.ones(1), np.ones(1))
    two_product(1.0, 1.0)
    frozen = keys.copy()
    frozen.setflags(write=False)
    kernel_block(frozen, keys, WIDTH)
    lattice = np.array([[x, y, 0.0] for x in range(4) for y in range(4)], dtype=np.float64)
    close = keys[:12] + 0.0
    close[6:] = close[:6] + 1e-6
    for points, width, nu in ((lattice, 2.0, 0.5), (close, 1.0, 0.4), (close, 30.0, 0.3), (keys[:20], 1.0, 1.0)):
        memory = Memory.fit(points, values[: len(points)], sigma=width, nu=nu)
        for _ in range(4):
            try:
                memory.delete(memory.ids[0])
                memory.admit(points[0] + 0.25, values[0])
            except Refused:
                continue
