"""Entries and warranties as data frames, of pandas and of polars."""

from __future__ import annotations

import sys

import numpy as np
import pandas
import polars
import pytest

import expunge
from expunge import InputError, Memory, MissingExtra
from expunge.display.frame import Library
from expunge.preprocessing.preprocessing import Column, Preprocessing


@pytest.fixture
def memory() -> Memory:
    keys = np.random.default_rng(7).standard_normal((24, 2))
    owners = [f"p{row % 3}" for row in range(24)]
    fitted = Memory.fit(keys, keys, sigma=1.5, nu=0.3, ids=[f"e{row}" for row in range(24)], subjects=owners)
    fitted.prune("archive")
    return fitted


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_every_entry_is_a_row(memory: Memory, library: Library) -> None:
    frame = memory.to_frame(library)
    assert isinstance(frame, {"pandas": pandas.DataFrame, "polars": polars.DataFrame}[library])
    assert list(frame.columns) == ["id", "subject", "weight", "group", "archived", "k0", "k1", "v0", "v1"]
    archived = len(memory.warranties())
    assert len(frame) == 24
    assert 0 < archived == int(np.sum(frame["archived"].to_numpy()))
    np.testing.assert_array_equal(frame["weight"].to_numpy()[: len(memory)], memory.coefficients)
    np.testing.assert_array_equal(frame["k1"].to_numpy()[: len(memory)], memory.keys[:, 1])
    for name, subject, key, value in zip(frame["id"], frame["subject"], frame["k0"], frame["v0"], strict=True):
        assert subject == f"p{int(name[1:]) % 3}"
        assert key == value
    rows = memory.warranties()
    assert isinstance(rows, expunge.WarrantyList)
    assert list(rows.to_frame(library)["status"]) == ["valid"] * archived


def test_columns_have_their_names_and_measurements_their_units() -> None:
    keys = (Column("hr", "/min", centre=80.0, scale=16.0), Column("id", scale=0.5))
    preprocessing = Preprocessing(keys, (Column("hr"), Column("spo2")))
    rows = np.array([[70.0, 1.0], [90.0, 2.0], [110.0, 0.5]])
    memory = Memory.fit(preprocessing.to_keys(rows), rows, sigma=2.0, nu=0.5, preprocessing=preprocessing)
    frame = memory.to_frame("polars")
    assert frame.columns[5:] == ["hr", "id (key)", "hr (value)", "spo2"]
    np.testing.assert_array_equal(frame.select("hr", "id (key)").to_numpy(), rows)
    np.testing.assert_array_equal(frame.select("hr (value)", "spo2").to_numpy(), rows)


def test_an_empty_memory_has_an_empty_frame() -> None:
    frame = Memory.fit(np.zeros((0, 2)), np.zeros((0, 1)), sigma=1.0, nu=0.5).to_frame("polars")
    assert frame.shape == (0, 8)


def test_a_library_that_is_not_there_is_named(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(memory.to_frame(), polars.DataFrame)
    with pytest.raises(MissingExtra, match="pandas"):
        memory.to_frame("pandas")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match="pandas or polars"):
        memory.to_frame()


def test_another_library_is_refused(memory: Memory) -> None:
    with pytest.raises(InputError, match="pandas"):
        memory.to_frame("arrow")  # type: ignore[arg-type]
