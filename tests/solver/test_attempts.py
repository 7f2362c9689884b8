"""Fault injection: whatever a solver does, an edit ends in a valid published state or an unchanged one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path as File

import numpy as np
import pytest

import expunge
import expunge.memory.pending_edit
from expunge import DeletionRefused, Memory
from expunge.errors import AdmissionRefused, SolveError
from expunge.memory.receipt import Receipt
from expunge.problem.check import StateCheck
from expunge.solver import path
from expunge.solver.attempts import Method, first_accepted
from expunge.solver.candidate_check import check_candidate, slack_error
from expunge.solver.canonical import Exactness, canonical
from expunge.solver.state import BOUND, MARGIN, RESERVE, State
from expunge.types import IndexArray

Update = Callable[..., None]


def a_memory(size: int = 40, seed: int = 0) -> Memory:
    rng = np.random.default_rng(seed)
    return Memory.fit(rng.standard_normal((size, 3)), rng.uniform(-1, 1, (size, 2)), sigma=1.5, nu=0.4)


def picture(memory: Memory) -> tuple[bytes, ...]:
    """Every bit that a user can see."""
    view = memory.version
    return (
        memory.digest.encode(),
        memory.keys.tobytes(),
        memory.values.tobytes(),
        memory.coefficients.tobytes(),
        np.float64(memory.offset).tobytes(),
        repr(memory.ids).encode(),
        repr(memory.warranties()).encode(),
        view.state.status[: view.state.sites].tobytes(),
        view.state.slack[: view.state.sites].tobytes(),
    )


def an_active_id(memory: Memory) -> str:
    return memory.ids[int(memory.partition.margin[0])]


def add_mass(state: State) -> None:
    state.alpha[state.margin.members[0]] += 1e-4


def swap_two(state: State) -> None:
    first, second = state.margin.members[:2]
    state.alpha[[first, second]] = state.alpha[[second, first]]


def make_nan(state: State) -> None:
    state.alpha[state.margin.members[0]] = np.nan


def leave_the_box(state: State) -> None:
    first, second = state.margin.members[:2]
    state.alpha[first] -= 2 * state.cap
    state.alpha[second] += 2 * state.cap


def shift_offset(state: State) -> None:
    state.offset += 1e-6


def keep_the_deleted(state: State) -> None:
    """Pretend that the entry is gone while it keeps its weight."""
    gone = np.flatnonzero((state.multiplicity == 0) & (state.status != RESERVE))[0]
    state.alpha[gone] = 1e-3
    state.alpha[state.margin.members[0]] -= 1e-3


@pytest.mark.parametrize("corrupt", [add_mass, swap_two, make_nan, leave_the_box, shift_offset, keep_the_deleted])
def test_a_corrupted_candidate_is_found_and_rescued(
    corrupt: Callable[[State], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = a_memory()
    honest: Update = path.remove

    def corrupted(state: State, losses: dict[int, int]) -> None:
        honest(state, losses)
        corrupt(state)

    # The canonical state would repair most of these; what is tested here is that the check sees them.
    monkeypatch.setattr(path, "remove", corrupted)
    corrupt_state: list[State] = []

    def spare_the_corrupted(state: State, counts: IndexArray, tolerance: float) -> tuple[Exactness, StateCheck]:
        if not corrupt_state:
            corrupt_state.append(state)
            return "pairs", check_candidate(state, counts, tolerance)
        return canonical(state, counts, tolerance)

    monkeypatch.setattr(expunge.solver.attempts, "canonical", spare_the_corrupted)
    with caplog.at_level(logging.WARNING, "expunge"):
        receipt = memory.delete(an_active_id(memory))
    assert receipt.outcome == "rescued"
    assert [attempt.path for attempt in receipt.attempts] == ["path", "cold"]
    assert not receipt.attempts[0].passed
    assert receipt.attempts[1].passed
    assert "rescued by cold" in caplog.text
    assert memory.outcomes["rescued"] == 1
    assert memory.check().passed


@pytest.mark.parametrize("corrupt", [add_mass, swap_two, make_nan, leave_the_box, shift_offset, keep_the_deleted])
def test_a_corrupted_candidate_never_changes_a_bit(
    corrupt: Callable[[State], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = a_memory()
    honest: Update = path.remove

    def corrupted(state: State, losses: dict[int, int]) -> None:
        honest(state, losses)
        corrupt(state)

    monkeypatch.setattr(path, "remove", corrupted)
    receipt = memory.delete(an_active_id(memory))
    assert receipt.outcome in ("decrement", "rescued")
    fresh = memory.refit()
    assert np.array_equal(memory.coefficients, fresh.coefficients)
    assert memory.offset == fresh.offset


def test_a_solver_that_lies_about_the_partition_cannot_mislead_the_next_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = a_memory()
    honest: Update = path.remove

    def lying(state: State, losses: dict[int, int]) -> None:
        honest(state, losses)
        state.status[state.margin.members[0]] = BOUND
        state.slack[:] = 0.0

    monkeypatch.setattr(path, "remove", lying)
    first = memory.delete(an_active_id(memory))
    monkeypatch.undo()
    assert first.check.passed
    assert np.array_equal(memory.coefficients, memory.refit().coefficients)
    second = memory.delete(an_active_id(memory))
    assert second.check.passed
    assert np.array_equal(memory.coefficients, memory.refit().coefficients)


def test_a_solver_that_lies_about_the_problem_is_found_out() -> None:
    memory = a_memory()
    state = memory.version.state
    asked = state.multiplicity[: state.sites].copy()
    asked[state.active()[0]] = 0
    trial = first_accepted([Method("liar", lambda: state.copy())], asked)
    assert trial.state is None
    assert trial.attempts[0].check is not None
    assert trial.attempts[0].check.worst == np.inf


def failing(message: str) -> Update:
    def fail(*_: object, **__: object) -> None:
        raise SolveError(message)

    return fail


def test_the_ladder_goes_down_to_each_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = a_memory()
    monkeypatch.setattr(path, "remove", failing("no path"))
    assert [a.path for a in memory.delete(an_active_id(memory)).attempts] == ["path", "cold"]
    monkeypatch.setattr(expunge.memory.pending_edit, "fit", failing("no fit"))
    receipt = memory.delete(an_active_id(memory))
    assert [a.path for a in receipt.attempts] == ["path", "cold", "daqp"]
    assert receipt.attempts[0].error == "SolveError: no path"
    assert memory.check().passed
    import expunge.solver.backends as reference

    solve = reference.solve_reference

    def without_daqp(*args: object, backend: str, **keywords: object) -> object:
        if backend == "daqp":
            raise SolveError("no daqp")
        return solve(*args, backend=backend, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(reference, "solve_reference", without_daqp)
    receipt = memory.delete(an_active_id(memory))
    assert [a.path for a in receipt.attempts] == ["path", "cold", "daqp", "proxqp"]
    assert memory.check().passed


@pytest.mark.parametrize("missing", [{"daqp"}, {"proxsuite"}, {"daqp", "proxsuite"}])
def test_the_ladder_has_the_backends_that_are_installed(missing: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    memory = a_memory()
    before = picture(memory)
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(path, "remove", failing("no path"))
    monkeypatch.setattr(expunge.memory.pending_edit, "fit", failing("no fit"))
    left = [name for name, module in (("daqp", "daqp"), ("proxqp", "proxsuite")) if module not in missing]
    if left:
        receipt = memory.delete(an_active_id(memory))
        assert memory.check().passed
    else:
        with pytest.raises(DeletionRefused) as refused:
            memory.delete(an_active_id(memory))
        assert isinstance(refused.value.receipt, Receipt)
        receipt = refused.value.receipt
        assert picture(memory) == before
    assert [a.path for a in receipt.attempts] == ["path", "cold", *left]


def test_when_everything_fails_the_edit_is_refused_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = a_memory()
    memory.prune("archive")
    before = picture(memory)
    import expunge.solver.backends as reference

    for target, name in (
        (path, "remove"),
        (path, "admit"),
        (expunge.memory.pending_edit, "fit"),
        (reference, "solve_reference"),
    ):
        monkeypatch.setattr(target, name, failing("broken"))
    with pytest.raises(DeletionRefused) as deletion:
        memory.delete(an_active_id(memory))
    with pytest.raises(AdmissionRefused) as admission:
        memory.admit(np.full(3, 9.0), np.zeros(2))
    assert picture(memory) == before
    for refused in (deletion.value, admission.value):
        assert isinstance(refused.receipt, Receipt)
        assert refused.receipt.outcome == "refused"
        assert refused.receipt.applied == ()
        assert refused.receipt.state_before == refused.receipt.state_after
        assert [a.path for a in refused.receipt.attempts] == ["path", "cold", "daqp", "proxqp"]
        assert refused.measured == np.inf
    monkeypatch.undo()
    memory.delete(an_active_id(memory))
    memory.admit(np.full(3, 9.0), np.zeros(2))
    assert memory.check().passed


def test_a_deletion_beyond_the_cap_that_nothing_solves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import expunge.solver.backends as reference

    memory = a_memory()
    before = picture(memory)
    monkeypatch.setattr("expunge.memory.first_version.fit", failing("no fit"))
    monkeypatch.setattr(reference, "solve_reference", failing("no backend"))
    names = memory.ids[: memory.deletable + 1]
    with pytest.raises(DeletionRefused, match="no solver") as refused:
        memory.delete(names)
    assert isinstance(refused.value.receipt, Receipt)
    assert refused.value.measured == np.inf
    assert picture(memory) == before
    monkeypatch.undo()
    assert memory.delete(names).outcome == "refitted"


def test_the_compiled_judge_says_what_the_plain_check_says() -> None:
    memory = a_memory()
    state = memory.version.state
    plain = memory.check()
    compiled = check_candidate(state, state.multiplicity[: state.sites])
    assert compiled.mass == pytest.approx(plain.mass, abs=1e-16)
    assert compiled.box == plain.box
    # The compiled one adds the bound on the error of the kept sums.
    assert compiled.stationarity - slack_error(state) == pytest.approx(plain.stationarity, abs=1e-15)
    assert np.count_nonzero(state.status[: state.sites] == MARGIN) == memory.partition.margin.size


def test_a_rescued_rebuild_and_creation_say_so(
    tmp_path: File, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("deliberate")

    monkeypatch.setattr("expunge.memory.first_version.fit", fail)
    keys = np.random.default_rng(0).standard_normal((30, 2))
    with expunge.open(f"sqlite:///{tmp_path / 'ward.db'}") as store:
        memory = store.create("ward", keys, np.ones(30), sigma=2.0, nu=0.3)
        receipt = memory.rebuild(nu=0.4)
        assert receipt.outcome == "rebuilt"
        assert receipt.measured is not None
        attempts = receipt.measured.attempts
        assert [(attempt.path, attempt.passed) for attempt in attempts] == [("cold", False), ("daqp", True)]
        store.verify()
    assert caplog.text.count("rescued by daqp") == 2
    monkeypatch.undo()
    alone = a_memory()
    alone.rebuild(nu=0.5)
    assert alone.outcomes == {"rebuilt": 1}
