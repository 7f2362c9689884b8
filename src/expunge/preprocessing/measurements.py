"""Keys and values as callers give them: coordinates in arrays, or measurements by column name.

Measurements come as a mapping, a list of mappings, or a data frame of pandas or polars. Columns are matched by name,
whatever their order; a memory without columns has no names to match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError
from expunge.preprocessing.preprocessing import Column, Preprocessing
from expunge.problem.problem import as_points
from expunge.types import Matrix, Vector

__all__ = ["as_key_rows", "filled_columns", "key_coordinates", "value_numbers"]


def as_key_rows(at: Any, preprocessing: Preprocessing | None, dimension: int, *, name: str = "keys") -> Matrix:
    """Keys (m, d) from coordinates or measurements, validated as `as_points` does.

    Parameters
    ----------
    at : array_like, mapping, list of mappings, or data frame
        Coordinates (m, d) or (d,), or measurements by column name. A mapping may leave columns out, or give None: these
        cells are missing, and get the column's fill.
    preprocessing : Preprocessing or None
        Columns of the memory; None where it has none.
    dimension : int
        Coordinates of a key, d.
    name : str
        What to call `at` in errors.

    Raises
    ------
    InputError
        For names that are no key columns, data frames that lack one, missing cells without a fill, and numbers that
        `as_points` refuses.

    """
    return as_points(key_coordinates(at, preprocessing), name, dimension=dimension)


def key_coordinates(at: Any, preprocessing: Preprocessing | None) -> Any:
    """Keys (m, d) from measurements by name, filled and scaled; anything else as it is given."""
    rows = _rows_by_name(at, None if preprocessing is None else preprocessing.keys, "key")
    return at if preprocessing is None or rows is None else preprocessing.to_keys(rows)


def filled_columns(at: Any, preprocessing: Preprocessing | None) -> list[str]:
    """Names of the key columns that one row by name leaves out, so that their fill is used; none for coordinates."""
    if preprocessing is None or not isinstance(at, Mapping):
        return []
    names = [column.name for column in preprocessing.keys]
    return [name for name in names if math.isnan(_cell(at.get(name), name))]


def value_numbers(value: Any, preprocessing: Preprocessing | None) -> Any:
    """Values (m, dv) from measurements by name, filled; anything else as it is given."""
    rows = _rows_by_name(value, None if preprocessing is None else preprocessing.values, "value")
    return value if preprocessing is None or rows is None else preprocessing.to_values(rows)


def _rows_by_name(given: Any, columns: Sequence[Column] | None, role: str) -> Matrix | None:
    """Measurements (m, d) in the memory's order, NaN where one is missing; None where nothing is named."""
    listed = isinstance(given, list | tuple) and bool(given)
    if isinstance(given, Mapping):
        given = [given]
    elif listed and any(isinstance(item, Mapping) for item in given):
        if not all(isinstance(item, Mapping) for item in given):
            raise InputError(f"{role}s are measurements by name or arrays of coordinates, and not both in one list")
    elif not columns or not (hasattr(given, "columns") and hasattr(given, "to_numpy")):
        # Without columns a data frame is an array: its names have nothing to match.
        return None
    if not columns:
        raise InputError(
            f"this memory has no columns to match names with: give each {role} as real numbers, one per coordinate, "
            "or create the memory with preprocessing=..."
        )
    names = [column.name for column in columns]
    if isinstance(given, list | tuple):
        return np.array([_row(cells, names, role) for cells in given], dtype=np.float64)
    found = [str(name) for name in given.columns]
    if len(set(found)) < len(found):
        raise InputError(f"two columns of the data frame have one name: {', '.join(found)}")
    _refuse_unknown(found, names, role)
    if lacking := [name for name in names if name not in found]:
        raise InputError(f"the data frame has no {role} column {lacking[0]!r}; it has {', '.join(found)}")
    return np.column_stack([_column(given[name].to_numpy(), name) for name in names])


def _row(cells: Mapping[str, Any], names: Sequence[str], role: str) -> list[float]:
    _refuse_unknown(cells, names, role)
    if not cells:
        raise InputError(f"a {role} by name needs at least one of the columns {', '.join(names)}")
    return [_cell(cells.get(name), name) for name in names]


def _refuse_unknown(found: Any, names: Sequence[str], role: str) -> None:
    unknown = next((name for name in found if name not in names), None)
    if unknown is not None:
        raise InputError(f"there is no {role} column {unknown!r}; the {role} columns are {', '.join(names)}")


def _column(cells: npt.NDArray[Any], name: str) -> Vector:
    if cells.dtype.kind in "iuf":
        return cells.astype(np.float64)
    return np.array([_cell(cell, name) for cell in cells.tolist()], dtype=np.float64)


def _cell(cell: Any, name: str) -> float:
    # pandas has a type of its own for a missing number.
    if cell is None or type(cell).__name__ == "NAType":
        return math.nan
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, Real):
        raise InputError(f"column {name!r}: a measurement is a number, not {cell!r:.80}")
    return float(cell)
