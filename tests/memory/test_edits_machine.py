"""Random edit sequences against a plain-Python model (Hypothesis state machine).

The model is a dictionary of entries in order; the memory must hold the same entries, pass the check from its
keys, equal a fresh fit bit by bit, come through files and refusals unchanged, and refuse no deletion for its cap.
The default profile is derandomised, so that the suite is the same everywhere; EXPUNGE_EXAMPLES=2000 searches
further, with fresh randomness.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agreement import PUBLISHED, assert_sound, snapshot
from expunge import InputError, Memory, Receipt
from expunge.problem.problem import widened_cap
from expunge.types import Vector
from problems import NOISES

SUBJECTS = (None, "ada", "bob")

EXAMPLES = int(os.environ.get("EXPUNGE_EXAMPLES", "0"))

# Halves of small integers, so that copies, mirror pairs and collinear keys are common.
points = st.tuples(*[st.integers(-4, 4)] * 2).map(lambda pair: np.array(pair) / 2.0)
picks = st.integers(0, 10**6)
subjects = st.sampled_from(SUBJECTS)
payloads = st.one_of(st.none(), st.binary(max_size=4), st.text(max_size=4), st.lists(st.integers(), max_size=3))


class Edits(RuleBasedStateMachine):
    """A memory and what it ought to hold: {id: (key, value, subject, payload)}."""

    memory: Memory
    model: dict[str, tuple[Vector, float, str | None, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.names = 0
        self.gone: dict[str, tuple[Vector, float, str | None, Any]] = {}

    @initialize(
        keys=st.lists(points, min_size=6, max_size=14),
        sigma=st.sampled_from([1e-2, 0.7, 2.0, 50.0, 1e5]),
        cap=st.sampled_from([0.17, 0.19, 0.2, 0.31, 1.0]),
    )
    def start(self, keys: list[Vector], sigma: float, cap: float) -> None:
        owners = [SUBJECTS[row % 3] for row in range(len(keys))]
        self.model = {str(row): (key, float(row), owners[row], None) for row, key in enumerate(keys)}
        values = [entry[1] for entry in self.model.values()]
        self.memory = Memory.fit(np.array(keys), values, sigma=sigma, cap=cap, subjects=owners)
        self.names = len(keys)

    def pick(self, number: int) -> str:
        return list(self.model)[number % len(self.model)]

    def admit(self, key: Vector, subject: str | None, payload: Any, name: str | None = None) -> None:
        if name is None:
            name, self.names = f"new-{self.names}", self.names + 1
        value = float(self.names)
        receipt = self.memory.admit(key, [value], id=name, subject=subject, payload=payload)
        self.model[name] = (key, value, subject, payload)
        assert receipt.applied == (name,)
        self.follow(receipt)

    def remove(self, names: list[str], receipt: Receipt) -> None:
        assert set(receipt.applied) == set(names)
        self.gone = {name: self.model.pop(name) for name in names}
        self.follow(receipt)

    def follow(self, receipt: Receipt) -> None:
        """No edit of this machine needs rescuing."""
        assert receipt.outcome in ("admitted", "decrement", "certified_zero", "refitted", "emptied")
        assert len(receipt.attempts) == 1
        assert receipt.state_after == self.memory.digest
        assert receipt.check.passed

    @rule(key=points, subject=subjects, payload=payloads)
    def admit_fresh(self, key: Vector, subject: str | None, payload: Any) -> None:
        self.admit(key, subject, payload)

    @rule(keys=st.lists(points, min_size=1, max_size=4), subject=subjects)
    def admit_many(self, keys: list[Vector], subject: str | None) -> None:
        names = [f"new-{self.names + place}" for place in range(len(keys))]
        self.names += len(keys)
        values, owners = [float(place) for place in range(len(keys))], [subject] * len(keys)
        receipt = self.memory.admit_many(np.array(keys), values, ids=names, subjects=owners)
        self.model |= {name: (key, value, subject, None) for name, key, value in zip(names, keys, values, strict=True)}
        assert receipt.applied == tuple(names)
        self.follow(receipt)

    @precondition(lambda self: self.model)
    @rule(number=picks, subject=subjects)
    def admit_duplicate(self, number: int, subject: str | None) -> None:
        self.admit(self.model[self.pick(number)][0], subject, None)

    @precondition(lambda self: self.model)
    @rule(number=picks, noise=st.sampled_from(NOISES), seed=st.integers(0, 99))
    def admit_near_duplicate(self, number: int, noise: float, seed: int) -> None:
        key = self.model[self.pick(number)][0]
        self.admit(key + noise * np.random.default_rng(seed).standard_normal(2), None, None)

    @precondition(lambda self: self.gone)
    @rule(number=picks)
    def admit_again(self, number: int) -> None:
        name = list(self.gone)[number % len(self.gone)]
        key, _, subject, payload = self.gone.pop(name)
        self.admit(key, subject, payload, name)

    @precondition(lambda self: self.model)
    @rule(number=picks)
    def delete_one(self, number: int) -> None:
        name = self.pick(number)
        self.remove([name], self.memory.delete(name))

    @precondition(lambda self: self.model)
    @rule(numbers=st.lists(picks, min_size=2, max_size=6))
    def delete_several(self, numbers: list[int]) -> None:
        names = list(dict.fromkeys(self.pick(number) for number in numbers))
        self.remove(names, self.memory.delete(names))

    @rule(subject=st.sampled_from(SUBJECTS[1:]))
    def delete_subject(self, subject: str) -> None:
        names = [name for name, entry in self.model.items() if entry[2] == subject]
        if not names:
            self.refused(lambda: self.memory.delete(subject=subject), InputError)
        else:
            self.remove(names, self.memory.delete(subject=subject))

    @precondition(lambda self: self.model)
    @rule()
    def delete_beyond_the_cap(self) -> None:
        names, cap = list(self.model)[: self.memory.deletable + 1], self.memory.cap
        receipt = self.memory.delete(names)
        assert (receipt.details["cap_before"], receipt.details["cap"]) == (cap, self.memory.cap)
        assert self.memory.cap == widened_cap(cap, len(self.memory))
        assert receipt.outcome == ("refitted" if len(self.memory) else "emptied")
        self.remove(names, receipt)

    @rule()
    def delete_unknown(self) -> None:
        self.refused(lambda: self.memory.delete([*list(self.model)[:1], "nobody"]), InputError)

    @precondition(lambda self: self.model)
    @rule(number=picks)
    def admit_taken(self, number: int) -> None:
        name = self.pick(number)
        self.refused(lambda: self.memory.admit([0.0, 0.0], [0.0], id=name), InputError)

    @rule()
    def admit_nonsense(self) -> None:
        self.refused(lambda: self.memory.admit([0.0, np.nan], [0.0]), InputError)

    def refused(self, act: Any, error: type[Exception]) -> None:
        before = snapshot(self.memory)
        with pytest.raises(error):
            act()
        assert snapshot(self.memory) == before

    @rule()
    def save_and_load(self) -> None:
        digest = self.memory.digest
        with tempfile.TemporaryDirectory() as folder:
            self.memory.save(Path(folder) / "memory")
            self.memory = Memory.load(Path(folder) / "memory")
        assert self.memory.digest == digest

    @invariant()
    def holds_what_it_should(self) -> None:
        memory = self.memory
        assert memory.ids == tuple(self.model)
        assert memory.subjects == tuple(entry[2] for entry in self.model.values())
        assert [memory.payload(name) for name in memory.ids] == [entry[3] for entry in self.model.values()]
        keys = np.array([entry[0] for entry in self.model.values()]).reshape(-1, 2)
        assert np.array_equal(memory.keys, keys + 0.0)
        assert memory.values[:, 0].tolist() == [entry[1] for entry in self.model.values()]

    @invariant()
    def is_the_optimum(self) -> None:
        assert_sound(self.memory, tolerance=PUBLISHED)
        assert self.memory.refit().digest == self.memory.digest


TestEdits = pytest.mark.slow(Edits.TestCase)
TestEdits.settings = settings(
    max_examples=EXAMPLES or 80,
    stateful_step_count=30,
    derandomize=not EXAMPLES,
    # A failure in the suite is reported as found; the search takes the time to shrink it.
    phases=(Phase.generate, Phase.shrink) if EXAMPLES else (Phase.generate,),
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
