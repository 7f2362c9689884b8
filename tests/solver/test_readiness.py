"""A memory that was opened: the same answers and edits as one that was fitted, and a proof before the first edit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from expunge import Memory, Receipt, VerificationError
from expunge.types import Matrix

FAMILIES: dict[str, Callable[[np.random.Generator], Matrix]] = {
    "gaussian": lambda rng: rng.standard_normal((60, 3)),
    "lattice": lambda rng: np.array([[x, y, 0.0] for x in range(6) for y in range(6)], dtype=np.float64),
    "copies": lambda rng: np.repeat(rng.standard_normal((20, 3)), 3, axis=0),
    "one": lambda rng: np.zeros((1, 3)),
    "none": lambda rng: np.zeros((0, 3)),
}


def fitted(family: str) -> Memory:
    rng = np.random.default_rng(5)
    keys = FAMILIES[family](rng)
    values, ids = rng.standard_normal((len(keys), 2)), [f"e{row}" for row in range(len(keys))]
    return Memory.fit(keys, values, sigma=1.5, nu=0.3, ids=ids, subjects=[f"s{row // 4}" for row in range(len(keys))])


def opened(memory: Memory, path: Path) -> Memory:
    memory.save(path)
    return Memory.load(path)


def answers(memory: Memory) -> list[object]:
    """What every question of a memory is answered."""
    queries = np.random.default_rng(6).standard_normal((9, 3))
    found: list[object] = [memory.digest, memory.ids, memory.cap, memory.sigma, memory.offset, memory.boundary]
    found += [memory.coefficients.tobytes(), memory.keys.tobytes(), memory.values.tobytes(), memory.describe()]
    found += [vars(memory.partition)[name].tolist() for name in ("margin", "bound", "reserve")]
    found += [[str(vars(near)) for near in memory.nearest(query)] for query in queries]
    if len(memory):
        found += [memory.read(queries).tobytes(), memory.score(queries).tobytes(), memory.judge(queries)]
        found += [[str(vars(hit)) for hit in memory.search(query)] for query in queries]
        found += [str(memory.certificate(name)) for name in memory.ids[:5]]
        found += [str(memory.bounds()), memory.report(), memory.version.slacks(np.arange(len(memory))).tobytes()]
        found += [memory.inverse.tobytes(), memory.prove().outcome]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_an_opened_memory_answers_with_the_bits_of_the_one_that_was_saved(family: str, tmp_path: Path) -> None:
    memory = fitted(family)
    again = opened(memory, tmp_path / "memory")
    assert answers(again) == answers(memory)
    # None of that has built anything.
    assert not again.version.state.ready
    again.make_ready()
    assert again.version.state.ready
    assert answers(again) == answers(memory)


@pytest.mark.parametrize("family", ["gaussian", "lattice", "copies"])
def test_its_edits_are_those_of_the_one_that_was_saved(family: str, tmp_path: Path) -> None:
    memory = fitted(family)
    edits: tuple[Callable[[Memory], Receipt], ...] = (
        lambda one: one.delete("e0"),
        lambda one: one.admit([0.1, 0.2, 0.3], [1.0, 2.0], id="new"),
        lambda one: one.prune(),
        lambda one: one.delete(subject="s3"),
        lambda one: one.rebuild(nu=0.5),
    )
    for edit in edits:
        again = opened(memory, tmp_path / "memory")
        assert edit(again).outcome == edit(memory).outcome
        # A new entry has a salt of its own, and so the digest.
        assert answers(again)[1:] == answers(memory)[1:]


def test_rows_that_were_let_go_are_made_again(tmp_path: Path) -> None:
    memory, other = fitted("gaussian"), fitted("gaussian")
    for _ in range(3):
        state = memory.version.state
        memory.release()
        for held in (state.gram.rows, state.margin.factor, state.slack, *state.gram.pairs.tables):
            assert not held.any()
        assert answers(memory)[1:] == answers(opened(other, tmp_path / "memory"))[1:]
        name = memory.ids[int(memory.partition.margin[0])]
        assert memory.delete(name).outcome == other.delete(name).outcome == "decrement"
        assert answers(memory)[1:] == answers(opened(other, tmp_path / "memory"))[1:]


def nudged(memory: Memory, path: Path, *, offset: bool) -> Memory:
    """An opened copy whose state differs in the last bit, with the digest that fits."""
    copy = opened(memory, path)
    state = copy.version.state
    if offset:
        state.offset = float(np.nextafter(state.offset, 1.0))
    else:
        row = int(copy.partition.margin[0])
        site = copy.version.sites[row]
        state.share[site] = np.nextafter(state.share[site], 1.0)
    # What the digest was found from before.
    for name in ("coefficients", "weights", "digest"):
        copy.version.__dict__.pop(name, None)
    altered = opened(copy, path)
    assert altered.digest != memory.digest
    return altered


@pytest.mark.parametrize("offset", [False, True])
def test_a_state_that_is_not_the_optimum_is_refused_before_the_first_edit(offset: bool, tmp_path: Path) -> None:
    memory = fitted("gaussian")
    altered = nudged(memory, tmp_path / "altered", offset=offset)
    before, bytes_before = answers(altered), (tmp_path / "altered").read_bytes()
    attempts = (
        lambda: altered.delete("e0"),
        lambda: altered.admit([0.1, 0.2, 0.3], [1.0, 2.0]),
        altered.prune,
        lambda: altered.rebuild(nu=0.5),
        altered.check,
        altered.make_ready,
    )
    for attempt in attempts:
        with pytest.raises(VerificationError, match="not those of the exact optimum"):
            attempt()
        assert not altered.version.state.ready
        assert not altered.version.state.gram.rows.any()
        assert altered.outcomes.total() == 0
    assert answers(altered) == before
    altered.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == bytes_before
    assert altered.prove().outcome != "proved"


@pytest.mark.parametrize("mass", [0.9, 1.1])
def test_weights_that_do_not_add_up_are_refused_at_once(mass: float, tmp_path: Path) -> None:
    memory = opened(fitted("gaussian"), tmp_path / "memory")
    memory.version.state.share *= mass
    for name in ("coefficients", "weights", "digest"):
        memory.version.__dict__.pop(name, None)
    memory.save(tmp_path / "memory")
    with pytest.raises(VerificationError, match=r"add up|above the cap"):
        Memory.load(tmp_path / "memory")


def test_loading_imports_no_compiler_and_reading_no_linear_algebra(tmp_path: Path) -> None:
    fitted("gaussian").save(tmp_path / "memory")
    code = """
import sys
from expunge import Memory
memory = Memory.load("memory")
memory.digest, memory.ids, memory.coefficients, memory.partition, len(memory), repr(memory)
assert "numba" not in sys.modules, "loading imported numba"
memory.read([0.0, 0.0, 0.0]), memory.score([0.0, 0.0, 0.0]), memory.search([0.0, 0.0, 0.0])
memory.nearest([0.0, 0.0, 0.0]), memory.judge([0.0, 0.0, 0.0])
found = [name for name in ("scipy.linalg", "expunge.solver.exact_optimum") if name in sys.modules]
assert not found, f"reading imported {found}"
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)  # noqa: S603 — this interpreter


def test_an_edit_of_an_opened_memory_of_wide_keys_follows_the_path(tmp_path: Path) -> None:
    """Sums over wide keys are off by more than a solution may be; that does not make it a worse start."""
    rng = np.random.default_rng(8)
    memory = Memory.fit(rng.standard_normal((150, 384)), np.zeros(150), sigma=20.0, nu=0.5)
    again = opened(memory, tmp_path / "memory")
    name = memory.ids[int(memory.partition.margin[0])]
    for one in (memory, again):
        assert [attempt.path for attempt in one.delete(name).attempts] == ["path"]
    assert again.digest == memory.digest
