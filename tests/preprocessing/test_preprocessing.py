"""Columns, their numbers on the grid, and what they make of rows."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError
from expunge.preprocessing.grid import nearest_multiple, quarter_power, whole_power
from expunge.preprocessing.preprocessing import Column, Preprocessing, chosen_columns

VITALS = Preprocessing(
    (Column("HR", "1/min", centre=84.0, scale=16.0, fill=84.0), Column("SpO2", "%", centre=97.0, scale=2.0)),
    (Column("MAP", "mmHg"),),
    learned=True,
    width="auto",
)


def test_rows_become_keys_and_back() -> None:
    rows = np.array([[100.0, 99.0], [math.nan, 91.0]])
    keys = VITALS.to_keys(rows)
    assert keys.tolist() == [[1.0, 1.0], [0.0, -3.0]]
    assert VITALS.to_measurements(keys).tolist() == [[100.0, 99.0], [84.0, 91.0]]


def test_a_missing_cell_without_a_fill_is_named() -> None:
    with pytest.raises(InputError, match=r"row 1: key column 'SpO2' is missing"):
        VITALS.to_keys(np.array([[80.0, 97.0], [80.0, math.nan]]))


def test_json_round_trip_keeps_every_field_and_the_digest() -> None:
    content = json.loads(json.dumps(VITALS.to_json()))
    again = Preprocessing.from_json(content)
    assert again == VITALS
    assert again.digest() == VITALS.digest()
    assert again.digest() != replace(VITALS, learned=False).digest()
    assert again.digest() == replace(VITALS, width="given").digest()


def test_without_columns_there_is_nothing_to_digest() -> None:
    assert Preprocessing(width="auto").digest() == b""
    assert Preprocessing.from_json(Preprocessing(width="auto").to_json()) == Preprocessing(width="auto")


@pytest.mark.parametrize("change", [{"more": 1}, {"width": "narrow"}, {"learned": 1}, {"keys": []}, {"values": None}])
def test_other_json_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Preprocessing.from_json({**VITALS.to_json(), **change})


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (((Column("a"), Column("a")), (Column("v"),)), "two key columns are called 'a'"),
        (((), (Column("v"),)), "at least one key column"),
        (((Column("a"),), (Column("v", scale=2.0),)), "only keys are scaled"),
    ],
)
def test_columns_that_make_no_sense_are_refused(
    columns: tuple[tuple[Column, ...], tuple[Column, ...]], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        Preprocessing(*columns)


@pytest.mark.parametrize(
    ("centre", "scale", "fill"), [(0.0, 0.0, None), (0.0, -1.0, None), (math.nan, 1.0, None), (0.0, 1.0, math.inf)]
)
def test_columns_have_finite_numbers_and_a_positive_scale(centre: float, scale: float, fill: float | None) -> None:
    with pytest.raises(InputError, match="column 'a'"):
        Column("a", centre=centre, scale=scale, fill=fill)


@given(st.floats(1e-100, 1e100))
def test_grids_of_widths_and_scales(number: float) -> None:
    assert 2**-0.126 < quarter_power(number) / number < 2**0.126
    assert math.frexp(whole_power(number))[0] == 0.5
    assert 2**-0.501 < whole_power(number) / number < 2**0.501


@given(st.floats(-1e6, 1e6), st.integers(-10, 10))
def test_multiples_of_a_step_are_near(number: float, power: int) -> None:
    step = 2.0**power
    found = nearest_multiple(number, step)
    assert Fraction(found) / Fraction(step) % 1 == 0
    assert abs(found - number) <= step / 2


@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=30), st.randoms())
def test_chosen_numbers_do_not_depend_on_the_order_of_rows(cells: list[float], order: random.Random) -> None:
    shuffled = list(cells)
    order.shuffle(shuffled)
    first, second = (
        chosen_columns(["x"], np.array(rows)[:, None], scaled=True, filled=True)[0] for rows in (cells, shuffled)
    )
    assert first == second
    assert first.fill == first.centre
    assert abs(first.centre - float(np.median(cells))) <= first.scale / 4


def test_chosen_columns_pass_over_missing_cells_and_refuse_empty_columns() -> None:
    rows = np.array([[1.0, math.nan], [3.0, math.nan], [math.nan, math.nan], [2.0, math.nan]])
    column = chosen_columns(["x"], rows[:, :1], scaled=False, filled=True, units={"x": "mmol/l"})[0]
    assert column == Column("x", "mmol/l", fill=2.0)
    with pytest.raises(InputError, match="column 'y' has no measurement"):
        chosen_columns(["x", "y"], rows, scaled=True, filled=True)


def test_two_measurements_among_many_rows_choose_nothing() -> None:
    """A fill chosen from them would be what one of two people had."""
    rows = np.array([[1234.5], [1200.0], *[[math.nan]] * 6])
    with pytest.raises(InputError, match="column 'x' has 2 measurements in 8 rows"):
        chosen_columns(["x"], rows, scaled=True, filled=True)


@given(st.lists(st.sampled_from([1.0, 7.0, 300.0, 5000.0]), min_size=3, max_size=12), st.floats(-1e9, 1e9))
def test_where_most_cells_are_equal_no_single_one_decides_the_scale(others: list[float], cell: float) -> None:
    cells = [0.0] * 40 + others
    bounds = [
        chosen_columns(["x"], np.array([*cells, extreme])[:, None], scaled=True, filled=True)[0].scale
        for extreme in (0.0, 1e-9, 1e9)
    ]
    found = chosen_columns(["x"], np.array([*cells, cell])[:, None], scaled=True, filled=True)[0].scale
    assert min(bounds) <= found <= max(bounds)
    assert max(bounds) <= 2.0 * max(others)


def test_two_cells_that_differ_decide_no_scale() -> None:
    rows = np.array([0.0] * 40 + [5000.0, 800.0])[:, None]
    assert chosen_columns(["x"], rows, scaled=True, filled=True)[0] == Column("x", centre=0.0, scale=1.0, fill=0.0)


def test_a_constant_column_has_scale_one() -> None:
    assert chosen_columns(["x"], np.full((5, 1), 7.2), scaled=True, filled=False)[0] == Column(
        "x", centre=7.0, scale=1.0
    )


@given(st.floats(1e-150, 1e150))
def test_the_grid_of_widths_is_met_exactly(number: float) -> None:
    found = quarter_power(number)
    assert quarter_power(found) == found
    slight = 1 + Fraction(1, 10**14)
    assert 1 / (2 * slight) < (Fraction(number) / Fraction(found)) ** 8 < 2 * slight
    assert 1 / slight < Fraction(found) ** 4 / Fraction(2) ** round(math.log2(found) * 4) < slight
