"""What is stored of pruned entries does not give an erased key back: prune, erase, vacuum, admit, reopen the file.

A control keeps the anchors through an erasure and sees the attack succeed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import expunge
from attackers.anchors import (
    closest_error,
    keys_from_warranties,
    neighbours_from_sketches,
    trilaterate,
    two_keys_from_warranties,
)
from expunge.memory.version import Version

Keys = dict[str, npt.NDArray[np.float64]]
Mode = Literal["archive", "forget"]


def drawn_keys(rng: np.random.Generator, d: int) -> Keys:
    return {f"e{row}": rng.standard_normal(d) for row in range(60)}


def stored_after(
    folder: Path, keys: Keys, mode: Mode, victims_of: Any, rng: np.random.Generator
) -> tuple[Version, list[str]]:
    """The version in the file after the erasure, and who was erased."""
    d = len(keys["e0"])
    url, signing_key = f"sqlite:///{folder / 'store.db'}", folder / "key.pem"
    with expunge.open(url, signing_key=signing_key) as store:
        memory = store.create(
            *("m", np.array([*keys.values()]), rng.standard_normal((60, 2))),
            sigma=float(np.sqrt(d)),
            nu=0.4,
            ids=[*keys],
        )
        memory.prune(mode, sketch=2 if mode == "forget" else 0)
        victims = victims_of(memory)
        memory.delete(victims)
        for number in range(5):
            memory.admit(rng.standard_normal(d), [0.0, 0.0], id=f"later-{number}")
        store.vacuum()
    with expunge.open(url, signing_key=signing_key) as store:
        version: Version = store["m"].look(lambda version: version)
        return version, victims


@pytest.mark.parametrize("d", [4, 16])
@pytest.mark.parametrize("group", ["margin", "bound"])
@pytest.mark.parametrize("mode", ["archive", "forget"])
def test_a_database_file_does_not_give_an_erased_key_back(tmp_path: Path, mode: Mode, group: str, d: int) -> None:
    for trial in range(4):
        rng = np.random.default_rng([d, mode == "forget", group == "bound", trial])
        keys = drawn_keys(rng, d)

        def one(memory: Any, rng: np.random.Generator = rng) -> list[str]:
            return [memory.ids[int(rng.choice(getattr(memory.partition, group)))]]

        folder = tmp_path / str(trial)
        folder.mkdir()
        version, (victim,) = stored_after(folder, keys, mode, one, rng)
        assert closest_error(keys_from_warranties(version, keys), keys[victim]) > 1e-3
        assert not neighbours_from_sketches(version, 1.0)


def test_a_database_file_does_not_give_two_keys_of_a_subject_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    keys = drawn_keys(rng, 4)
    two = lambda memory: [memory.ids[row] for row in np.flatnonzero(memory.coefficients)[:2]]  # noqa: E731
    version, victims = stored_after(tmp_path, keys, "forget", two, rng)
    assert len(victims) == 2
    assert two_keys_from_warranties(version, keys, rng).size == 0


@pytest.mark.parametrize("group", ["margin", "bound"])
def test_anchors_kept_through_an_erasure_would_give_the_key_back(group: str) -> None:
    rng = np.random.default_rng(3)
    keys = drawn_keys(rng, 4)
    memory = expunge.Memory.fit(np.array([*keys.values()]), np.zeros((60, 1)), sigma=2.0, nu=0.4, ids=[*keys])
    memory.prune("forget")
    kept = memory.version.warranties
    victim = memory.ids[int(getattr(memory.partition, group)[0])]
    memory.delete(victim)
    assert not keys_from_warranties(memory.version, keys)
    leaking = replace(memory.version, warranties=kept)
    assert closest_error(keys_from_warranties(leaking, keys), keys[victim]) < 1e-6


def test_trilateration_finds_a_key_from_its_kernel_values() -> None:
    rng = np.random.default_rng(4)
    points, x = rng.standard_normal((12, 5)), rng.standard_normal(5)
    found = trilaterate(points, np.exp(-np.square(points - x).sum(axis=1) / 4.0), 2.0)
    assert found is not None
    np.testing.assert_allclose(found, x, atol=1e-12)
    assert trilaterate(points[:5], np.exp(-np.square(points[:5] - x).sum(axis=1) / 4.0), 2.0) is None
