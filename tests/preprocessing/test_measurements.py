"""Rows by column name: matched whatever their order, filled, scaled, and refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from expunge.errors import InputError
from expunge.preprocessing import Column, Preprocessing, as_key_rows
from expunge.preprocessing.measurements import value_numbers

VITALS = Preprocessing(
    (Column("HR", centre=84.0, scale=16.0, fill=84.0), Column("SpO2", centre=97.0, scale=2.0)),
    (Column("MAP", fill=75.0),),
)
ROWS = [[1.0, 1.0], [0.0, -3.0]]
COLUMNS: dict[str, list[Any]] = {"SpO2": [99, 91], "HR": [100.0, None]}


@pytest.mark.parametrize(
    "at",
    [
        [{"SpO2": 99, "HR": 100.0}, {"SpO2": 91}],
        ({"HR": np.float32(100.0), "SpO2": np.int64(99)}, {"SpO2": 91, "HR": None}),
        pd.DataFrame(COLUMNS),
        pd.DataFrame({"SpO2": [99, 91], "HR": pd.array([100, None], dtype="Int64")}),
        pl.DataFrame(COLUMNS),
    ],
    ids=["mappings", "numpy", "pandas", "pandas-nullable", "polars"],
)
def test_rows_by_name_are_filled_and_scaled(at: Any) -> None:
    assert as_key_rows(at, VITALS, 2).tolist() == ROWS


def test_one_mapping_is_one_row_and_arrays_are_coordinates() -> None:
    assert as_key_rows({"HR": 100, "SpO2": 99}, VITALS, 2).tolist() == [[1.0, 1.0]]
    assert as_key_rows([100.0, 99.0], VITALS, 2).tolist() == [[100.0, 99.0]]
    assert as_key_rows([100.0, 99.0], None, 2).tolist() == [[100.0, 99.0]]
    assert value_numbers([{"MAP": 80}, {"MAP": None}], VITALS).tolist() == [[80.0], [75.0]]
    assert as_key_rows(pd.DataFrame({"a": [1.0], "b": [2.0]}), None, 2).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("at", "preprocessing", "match"),
    [
        ({"HR": 80, "spo2": 97}, VITALS, "no key column 'spo2'; the key columns are HR, SpO2"),
        ({"HR": 80}, VITALS, "row 0: key column 'SpO2' is missing"),
        ({}, VITALS, "at least one of the columns HR, SpO2"),
        ({"HR": "80", "SpO2": 97}, VITALS, "column 'HR': a measurement is a number, not '80'"),
        ({"HR": True, "SpO2": 97}, VITALS, "a measurement is a number, not True"),
        ({"HR": 1e400, "SpO2": 97}, VITALS, "must be finite"),
        ([{"HR": 80, "SpO2": 97}, [1.0, 2.0]], VITALS, "not both in one list"),
        (pd.DataFrame({"HR": [80.0], "SpO2": [97.0], "RR": [12.0]}), VITALS, "no key column 'RR'"),
        (pl.DataFrame({"HR": [80.0]}), VITALS, "no key column 'SpO2'; it has HR"),
        (pd.DataFrame([[1.0, 2.0]], columns=["HR", "HR"]), VITALS, "two columns of the data frame have one name"),
        (pl.DataFrame({"HR": ["80"], "SpO2": [97.0]}), VITALS, "a measurement is a number, not '80'"),
        ({"HR": 80}, None, "this memory has no columns"),
        ({"HR": 80}, Preprocessing(width="auto"), "this memory has no columns"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(at: Any, preprocessing: Preprocessing | None, match: str) -> None:
    with pytest.raises(InputError, match=match):
        as_key_rows(at, preprocessing, 2)
