"""A memory with columns: measurements by name, the same through file and digest, and refused where they do not fit."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from expunge import InputError, Memory
from expunge.memory.first_version import first_version
from expunge.preprocessing import Preprocessing, chosen_columns
from expunge.problem.problem import Problem

RNG = np.random.default_rng(11)
HOURS = np.column_stack([RNG.normal(85.0, 15.0, 30), RNG.normal(96.0, 2.0, 30)])
PRESSURE = RNG.normal(80.0, 10.0, (30, 1))
COLUMNS = Preprocessing(
    chosen_columns(["HR", "SpO2"], HOURS, scaled=True, filled=True, units={"HR": "1/min"}),
    chosen_columns(["MAP"], PRESSURE, scaled=False, filled=True),
    learned=True,
)


def ward(preprocessing: Preprocessing | None = COLUMNS) -> Memory:
    return Memory.fit(COLUMNS.to_keys(HOURS), PRESSURE, nu=0.3, preprocessing=preprocessing)


def test_measurements_by_name_read_as_their_coordinates_do() -> None:
    memory = ward()
    named, point = {"SpO2": 97.0, "HR": 80.0}, COLUMNS.to_keys(np.array([[80.0, 97.0]]))
    assert memory.read(named).tolist() == memory.read(point).tolist()
    assert memory.score([named]).tolist() == memory.score(point).tolist()
    assert memory.search(named) == memory.search(point)
    memory.admit(named, {"MAP": 70.0}, id="by name")
    pressures: list[dict[str, float | None]] = [{"MAP": 71.0}, {"MAP": None}]
    memory.admit_many([named, {"HR": 70.0}], pressures)
    missing = COLUMNS.keys[1].fill
    assert (
        memory.keys[-3:].tolist() == COLUMNS.to_keys(np.array([[80.0, 97.0], [80.0, 97.0], [70.0, missing]])).tolist()
    )
    assert memory.values[-3:, 0].tolist() == [70.0, 71.0, COLUMNS.values[0].fill]


def test_columns_and_the_choice_of_the_width_are_kept(tmp_path: Path) -> None:
    memory = ward()
    assert memory.preprocessing is not None
    assert memory.preprocessing.keys == COLUMNS.keys
    assert memory.chosen_width
    memory.save(tmp_path / "ward.memory")
    loaded = Memory.load(tmp_path / "ward.memory")
    for again in (loaded, copy.deepcopy(memory), memory.refit()):
        assert again.preprocessing == memory.preprocessing
        assert again.digest == memory.digest
    memory.delete(memory.ids[:3])
    memory.rebuild(nu=0.5)
    assert memory.preprocessing == loaded.preprocessing


def test_the_digest_is_that_of_the_columns_and_not_of_how_the_width_came() -> None:
    memory = ward()
    rows, columns = memory.version.columns()
    states = {}
    for name, preprocessing in (
        ("same", memory.version.preprocessing),
        ("given width", replace(memory.version.preprocessing, width="given")),
        ("unlearned", replace(memory.version.preprocessing, learned=False)),
        ("none", Preprocessing()),
    ):
        version, _ = first_version(Problem(rows, memory.cap, memory.sigma), *columns, preprocessing=preprocessing)
        states[name] = version.digest
    assert states["same"] == states["given width"] == memory.digest
    assert len({*states.values()}) == 3


def test_a_width_that_was_chosen_without_columns_is_remembered(tmp_path: Path) -> None:
    memory = ward(preprocessing=None)
    assert memory.preprocessing is None
    assert memory.chosen_width
    memory.save(tmp_path / "ward.memory")
    assert Memory.load(tmp_path / "ward.memory").chosen_width
    assert not Memory.fit(HOURS, PRESSURE, sigma=1.0, nu=0.3).chosen_width


def test_without_columns_a_name_is_refused_with_the_reason() -> None:
    memory = ward(preprocessing=None)
    with pytest.raises(InputError, match="this memory has no columns"):
        memory.read({"HR": 80.0, "SpO2": 97.0})
    with pytest.raises(InputError, match="this memory has no columns"):
        memory.admit([0.0, 0.0], {"MAP": 70.0})


def test_columns_fit_the_keys_and_values() -> None:
    with pytest.raises(InputError, match=re.escape("keys of 1 coordinates do not fit 2 key columns")):
        Memory.fit(HOURS[:, :1], PRESSURE, sigma=1.0, nu=0.3, preprocessing=COLUMNS)
    with pytest.raises(InputError, match=re.escape("values of 2 coordinates do not fit 1 value columns")):
        Memory.fit(HOURS, HOURS, sigma=1.0, nu=0.3, preprocessing=COLUMNS)
