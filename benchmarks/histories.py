"""Random histories of a memory: admissions, deletions, prunings, restores, re-admissions over hard problems.

A history is a function of (seed, number), so that one that fails can be repeated alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from expunge import Memory, Refused
from expunge.memory.receipt import Receipt
from expunge.memory.snapshot import pack, unpack
from expunge.solver.attempts import Attempt

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from problems import PROBLEMS, Problem

__all__ = ["FAMILIES", "History", "play"]

Vector = npt.NDArray[np.float64]

FAMILIES = tuple(PROBLEMS)
# How far a near-duplicate is from the key that it copies, in widths; 0 is an exact copy.
SEPARATIONS = (0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-4, 1e-2)
ACTS = ("admit", "delete", "re-admit", "archive", "forget", "restore")
ODDS = (0.34, 0.34, 0.10, 0.09, 0.04, 0.09)


@dataclass
class History:
    """What was done, and the memory that it ended with."""

    family: str
    memory: Memory
    acts: Counter[str] = field(default_factory=Counter)
    attempts: list[Attempt] = field(default_factory=list)
    refused: int = 0
    rescued: int = 0

    @property
    def special(self) -> bool:
        """Whether it has a pruning, a restore and a re-admission."""
        return self.acts["archive"] + self.acts["forget"] > 0 and self.acts["restore"] > 0 and self.acts["re-admit"] > 0


def play(seed: int, number: int, *, edits: int = 10, largest: int = 40) -> History:
    """Play history `number` of a seed: a fit of some keys of one family, then `edits` acts."""
    rng = np.random.default_rng([seed, number])
    problem = PROBLEMS[FAMILIES[number % len(FAMILIES)]]
    size = min(problem.size, largest)
    rows = rng.permutation(problem.size)
    first = size if problem.size <= 8 or rng.random() < 0.3 else int(rng.integers(max(2, size // 2), size + 1))
    cap = _cap(problem, first, rng)
    start, spare = rows[:first].tolist(), rows[first:].tolist()
    memory = Memory.fit(
        problem.keys[start],
        problem.values[start],
        sigma=problem.sigma,
        cap=cap,
        ids=[f"e{row}" for row in range(first)],
    )
    history = History(problem.name, memory, attempts=list(memory.attempts), rescued=int(len(memory.attempts) > 1))
    # Two fifths of the histories have a pruning, a restore and a re-admission in any case.
    wanted = list(rng.choice(ACTS, size=edits, p=ODDS))
    if number % 5 < 2:
        for act, place in zip(
            ("delete", rng.choice(["archive", "archive", "forget"]), "restore", "re-admit"),
            np.sort(rng.choice(edits, size=4, replace=False)),
            strict=True,
        ):
            wanted[place] = act
    key: Vector
    value: Vector
    gone: list[tuple[Vector, Vector]] = []
    count = first
    for act in wanted:
        memory = history.memory
        if act == "delete" and not len(memory):
            act = "admit"
        try:
            if act == "restore":
                history.memory = unpack(pack(memory))
            elif act in ("archive", "forget"):
                receipt = memory.prune(act)
                _record(history, receipt)
            elif act == "delete":
                here = [*memory.ids, *(row.id for row in memory.warranties() if row.mode == "archive")]
                name = here[int(rng.integers(len(here)))]
                kept = (
                    (memory.keys[memory.ids.index(name)], memory.values[memory.ids.index(name)])
                    if name in memory
                    else None
                )
                _record(history, memory.delete(name))
                if kept is not None:
                    gone.append(kept)
            else:
                if act == "re-admit" and gone:
                    key, value = gone.pop(int(rng.integers(len(gone))))
                elif spare and rng.random() < 0.6:
                    act, row = "admit", spare.pop()
                    key, value = problem.keys[row], problem.values[row]
                else:
                    act = "admit"
                    known = memory.keys if len(memory) else problem.keys
                    base = known[int(rng.integers(len(known)))]
                    way = rng.standard_normal(base.size)
                    step = float(rng.choice(SEPARATIONS)) * problem.sigma / np.linalg.norm(way)
                    key, value = np.asarray(base + step * way), rng.uniform(-1.0, 1.0, (problem.values.shape[1],))
                _record(history, memory.admit(key, value, id=f"e{count}"))
                count += 1
            history.acts[act] += 1
        except Refused as refusal:
            history.refused += 1
            if isinstance(refusal.receipt, Receipt):
                history.attempts.extend(refusal.receipt.attempts)
    return history


def _cap(problem: Problem, first: int, rng: np.random.Generator) -> float:
    """The family's own cap where it is feasible, else one of both limits or between."""
    own = min(1.0, problem.cap)
    pick = rng.random()
    if pick < 0.6 and own * first >= 1.0:
        return own
    if pick < 0.7:
        return 1.0 / first
    if pick < 0.8:
        return 1.0
    return float(1.0 / (rng.uniform(0.2, 1.0) * first)) if first > 5 else 1.0


def _record(history: History, receipt: object) -> None:
    attempts = getattr(receipt, "attempts", ())
    history.attempts.extend(attempts)
    history.rescued += int(getattr(receipt, "outcome", "") == "rescued")
