"""A memory without entries is an ordinary state: what it answers, refuses, and becomes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agreement import assert_sound, snapshot
from expunge import InputError, Memory, VerificationError
from expunge.memory.snapshot import build_memory, pack, unpack, warranty_arrays, warranty_header
from expunge.problem.check import StateCheck
from expunge.verify.state import verify_state
from expunge.verify.state_file import read_state


def empty(**options: Any) -> Memory:
    return Memory.fit(np.empty((0, 3)), np.empty((0, 2)), sigma=2.0, **(options or {"nu": 0.3}))


def test_what_it_shows() -> None:
    memory = empty()
    assert (len(memory), memory.ids, memory.subjects, memory.dimension) == (0, (), (), 3)
    assert (memory.keys.shape, memory.values.shape, memory.coefficients.shape) == ((0, 3), (0, 2), (0,))
    assert (memory.cap, memory.offset, memory.sigma, memory.deletable) == (1.0, 0.0, 2.0, 0)
    assert str(np.float64(memory.offset)) == "0.0"
    assert all(getattr(memory.partition, group).size == 0 for group in ("margin", "bound", "reserve"))
    assert memory.inverse.tolist() == [[0.0]]
    assert memory.check() == memory.version.check == StateCheck(0.0, 0.0, 0.0)
    assert memory.warranties() == []
    assert memory.search([0.0, 0.0, 0.0]) == []
    assert "0 entries" in repr(memory)
    assert "anything" not in memory


@pytest.mark.parametrize(
    "ask",
    [
        lambda memory: memory.read([0.0, 0.0, 0.0]),
        lambda memory: memory.read([0.0, 0.0, 0.0], projection=0.1),
        lambda memory: memory.score([0.0, 0.0, 0.0]),
        lambda memory: memory.prove(),
        lambda memory: memory.bounds(),
    ],
    ids=["read", "projection", "score", "prove", "bounds"],
)
def test_what_it_cannot_answer_has_a_code(ask: Callable[[Memory], object]) -> None:
    with pytest.raises(InputError, match="admit an entry first") as refused:
        ask(empty())
    assert refused.value.code == "memory-empty"


def test_bad_questions_are_bad_questions_still() -> None:
    memory = empty()
    acts: list[Callable[[], object]] = [
        lambda: memory.read([0.0, 0.0]),
        lambda: memory.search([0.0, 0.0, np.nan]),
        lambda: memory.certificate("nobody"),
        lambda: memory.payload("nobody"),
        lambda: memory.delete("nobody"),
        lambda: memory.delete(subject="nobody"),
    ]
    for act in acts:
        with pytest.raises(InputError) as refused:
            act()
        assert refused.value.code == "input-error"


@pytest.mark.parametrize(
    "options", [{"nu": 0.0}, {"nu": 2.0}, {"cap": 0.0}, {"cap": 1.5}, {"nu": 0.5, "cap": 0.5}, {"nu": np.nan}]
)
def test_nu_and_cap_are_checked_although_the_cap_is_one(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Memory.fit(np.empty((0, 3)), np.empty((0, 2)), sigma=2.0, **options)


def test_arrays_without_rows() -> None:
    for keys, values in ((np.empty((0, 0)), np.empty((0, 2))), (np.empty((0, 3)), np.empty((1, 2))), ([], [])):
        with pytest.raises(InputError):
            Memory.fit(keys, values, sigma=2.0, nu=0.3)
    assert Memory.fit(np.empty((0, 3), dtype=np.float32), [], sigma=2.0, nu=0.3).values.shape == (0, 1)
    with pytest.raises(InputError, match="ids"):
        Memory.fit(np.empty((0, 3)), [], sigma=2.0, nu=0.3, ids=["a"])


def test_it_is_one_state_whatever_the_cap_was_to_be(tmp_path: Path) -> None:
    files = {pack(memory) for memory in (empty(), empty(cap=0.01), empty(nu=1.0), empty().refit())}
    assert len(files) == 1
    assert empty().digest != Memory.fit(np.empty((0, 3)), np.empty((0, 2)), sigma=3.0, nu=0.3).digest
    empty().save(tmp_path / "memory")
    assert (tmp_path / "memory").read_bytes() == files.pop()


def test_copies_and_files(tmp_path: Path) -> None:
    memory = empty()
    memory.save(tmp_path / "memory")
    for other in (
        Memory.load(tmp_path / "memory"),
        copy.copy(memory),
        copy.deepcopy(memory),
        pickle.loads(pickle.dumps(memory)),  # noqa: S301 — our own bytes
        unpack(pack(memory)),
        memory.refit(),
    ):
        assert other.digest == memory.digest
        assert other.admit([1.0, 2.0, 3.0], [4.0, 5.0]).outcome == "admitted"
        assert_sound(other)
    assert len(memory) == 0


def test_a_file_that_contradicts_itself_is_refused() -> None:
    version = empty().version
    arrays = {"keys": version.keys, "values": version.values, **warranty_arrays(version)}
    header = {"cap": (1.0).hex(), "sigma": (2.0).hex(), "offset": (0.0).hex(), "ids": [], "subjects": []}
    header |= warranty_header(version)
    assert build_memory(header, arrays, payloads=[], salts=[]).digest == version.digest
    for change in ({"cap": (0.5).hex()}, {"offset": (1.0).hex()}, {"offset": (-1.0).hex()}):
        with pytest.raises(InputError):
            build_memory({**header, **change}, arrays, payloads=[], salts=[])
    archived: dict[str, Any] = {
        "keys": np.ones((1, 3)),
        "values": np.ones((1, 2)),
        "alpha": np.zeros(1),
        "archived": np.ones(1, dtype=np.uint8),
    }
    with pytest.raises(InputError, match="archived"):
        build_memory(
            {**header, "ids": ["a"], "subjects": [None]}, arrays | archived, payloads=[None], salts=[b"\x01" * 32]
        )


def test_edits_that_find_nothing_to_do() -> None:
    memory = empty()
    before = snapshot(memory)
    for receipt in (
        memory.prune("archive"),
        memory.prune("forget"),
        memory.rebuild(nu=0.5),
        memory.rebuild(cap=0.1),
        memory.delete([]),
        memory.admit_many(np.empty((0, 3)), np.empty((0, 2))),
    ):
        assert receipt.outcome == "noop"
        assert receipt.state_before == receipt.state_after == memory.digest
    with pytest.raises(InputError):
        memory.rebuild(nu=3.0)
    assert snapshot(memory) == before


def test_it_grows_from_nothing_and_is_what_a_fit_would_be() -> None:
    rng = np.random.default_rng(3)
    keys, values = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
    one_by_one = empty()
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        receipt = one_by_one.admit(key, value, id=str(row))
        assert (receipt.outcome, one_by_one.cap) == ("admitted", 1.0)
        assert one_by_one.refit().digest == one_by_one.digest
    fitted = Memory.fit(keys, values, sigma=2.0, cap=1.0)
    assert one_by_one.coefficients.tobytes() == fitted.coefficients.tobytes()
    assert one_by_one.offset == fitted.offset
    assert one_by_one.rebuild(nu=0.5).outcome == "rebuilt"
    assert one_by_one.coefficients.tobytes() == Memory.fit(keys, values, sigma=2.0, nu=0.5).coefficients.tobytes()


def test_a_saved_empty_memory_verifies(tmp_path: Path) -> None:
    memory = empty()
    memory.save(tmp_path / "memory")
    state = read_state(tmp_path / "memory")
    found = verify_state(state.keys, state.coefficients, state.offset, cap=state.cap, sigma=state.sigma)
    assert (found.entries, found.margin, found.bound, found.reserve, found.bounded) == (0, 0, 0, 0, 0)
    for offset, cap, code in (
        (-0.0, 1.0, "state-offset-differs"),
        (1.0, 1.0, "state-offset-differs"),
        (0.0, 0.5, "state-infeasible"),
    ):
        with pytest.raises(VerificationError) as wrong:
            verify_state(state.keys, state.coefficients, offset, cap=cap, sigma=2.0)
        assert wrong.value.code == code
    with pytest.raises(InputError):
        verify_state(np.empty((0, 0)), [], 0.0, cap=1.0, sigma=2.0)
