"""What the cells of a column hold: numbers, lists of numbers, truth values, times or text; and the numbers themselves.

Columns of text are converted by their distinct cells, whole columns at a time; a single cell is looked for only to
name the one that is wrong.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np

from expunge.errors import InputError
from expunge.problem.problem import LARGEST
from expunge.tables.frame import ABSENT, Frame, described
from expunge.tables.spellings import (
    TIME,
    TRUTHS,
    either_mark,
    grouped_number,
    is_missing,
    parsed_number,
    thousands,
    with_comma,
    without_unit,
)
from expunge.types import AnyArray, Matrix

__all__ = ["Cells", "Kind", "decimal_mark", "read_cells"]

Kind = Literal["number", "list", "truth", "time", "text", "mixed", "object", "empty"]
_NOTHING = (type(None), type(ABSENT))
_TIMES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)


@dataclass(frozen=True, eq=False)
class Cells:
    """One column: what it holds, and its numbers (n, w) with NaN where one is missing.

    ``numbers`` is None where the column holds no numbers. ``whole`` says whether all of them are whole. ``wrong`` has
    the texts that are no numbers. ``grouped`` is the first text with thousands separators. ``problem`` says why a
    column that looks like numbers cannot be a key or a value.
    """

    name: str
    kind: Kind
    missing: int
    distinct: int
    numbers: Matrix | None = None
    whole: bool = False
    wrong: tuple[str, ...] = ()
    grouped: str | None = None
    problem: str | None = None

    @property
    def measured(self) -> bool:
        """Whether there is a number, or a list of numbers, in most cells."""
        return self.kind in ("number", "list", "mixed")


def read_cells(frame: Frame, name: str, mark: str, spelled: frozenset[str]) -> Cells:
    """Say what a column of a frame holds, and convert its numbers.

    Parameters
    ----------
    frame, name : Frame, str
        The column.
    mark : {".", ","}
        The decimal mark of text cells.
    spelled : frozenset of str
        Further spellings of a missing number.

    Raises InputError for a number that is infinite or at least 1e150, for lists of unequal length, and for a list with
    a cell that is no number.

    """
    cells = frame.columns[name]
    if isinstance(cells, np.ndarray):
        return _from_array(frame, name, cells, mark, spelled)
    kinds = set(map(type, cells))
    present = kinds - set(_NOTHING)
    if list in present or tuple in present:
        return _from_lists(frame, name, cells)
    if present <= {str}:
        return _from_text(frame, name, ["" if type(cell) in _NOTHING else cell for cell in cells], mark, spelled)
    if present <= {int, float, decimal.Decimal}:
        return _from_numbers(frame, name, cells, spelled)
    missing = sum(type(cell) in _NOTHING for cell in cells)
    if present <= {int, float, str}:
        return _from_text(frame, name, ["" if type(cell) in _NOTHING else str(cell) for cell in cells], mark, spelled)
    kind: Kind = (
        "truth" if present == {bool} else "time" if all(issubclass(one, _TIMES) for one in present) else "object"
    )
    distinct = len(set(cells)) if kind != "object" else len(cells)
    return Cells(name, kind, missing, distinct)


def decimal_mark(frame: Frame, given: str | None) -> str:
    """The decimal mark of a frame's text cells: that which is given, or the one that its cells can only have.

    Raises InputError where both marks are used, and where 1,234 could be either 1.234 or 1234.
    """
    if given is not None:
        return "," if given == "comma" else "."
    unsure = None
    sure = None
    for name, cells in frame.columns.items():
        if isinstance(cells, np.ndarray):
            continue
        commas = [(row, cell) for row, cell in enumerate(cells) if isinstance(cell, str) and "," in cell]
        if not commas or not all(with_comma(cell) for _, cell in commas):
            continue
        first = next(((row, cell) for row, cell in commas if not either_mark(cell)), None)
        if first is not None:
            sure = sure or (first[0], name, first[1])
        else:
            unsure = unsure or (commas[0][0], name, commas[0][1])
    if sure is None and unsure is not None:
        row, name, cell = unsure
        raise InputError(
            f"{frame.at(row, name)}: the comma of {cell!r} may be decimal or a thousands separator; say "
            f"--decimal comma for {cell.replace(',', '.')}, or --decimal point for {cell.replace(',', '')}"
        )
    if sure is None:
        return "."
    for name, cells in frame.columns.items():
        points = [(row, cell) for row, cell in enumerate(cells) if isinstance(cell, str) and "." in cell]
        if points and all(parsed_number(cell, ".") is not None or is_missing(cell) for _, cell in points):
            row, cell = next((row, cell) for row, cell in points)
            if parsed_number(cell, ".") is not None:
                raise InputError(
                    f"{frame.at(row, name)}: {cell!r} has a decimal point, and {sure[2]!r} in column {sure[1]!r} a "
                    "comma: say which with --decimal point or --decimal comma"
                )
    return ","


def _from_text(frame: Frame, name: str, cells: Sequence[str], mark: str, spelled: frozenset[str]) -> Cells:
    numbers: dict[str, float] = {}
    wrong = []
    grouped = None
    absent = _numbers_of(spelled)
    for cell in dict.fromkeys(cells):
        number = parsed_number(cell, mark)
        if number is None:
            number = grouped_number(cell, mark)
            grouped = cell if grouped is None and number is not None else grouped
        if is_missing(cell) or cell.strip() in spelled or number in absent:
            numbers[cell] = math.nan
        elif number is None:
            wrong.append(cell)
            # NaN here is never read: a column with such a cell is not a column of numbers.
            numbers[cell] = math.nan
        else:
            numbers[cell] = number
    array = np.array([numbers[cell] for cell in cells], dtype=np.float64)[:, None]
    distinct = len({cell for cell in numbers if cell.strip()})
    bad = frozenset(wrong)
    missing = int(np.isnan(array).sum()) - (sum(cell in bad for cell in cells) if bad else 0)
    if missing == len(cells):
        return Cells(name, "empty", missing, distinct)
    if not wrong:
        problem = _too_large(frame, name, array, cells)
        return Cells(name, "number", missing, distinct, array, _whole(array), grouped=grouped, problem=problem)
    lower = {cell.strip().lower() for cell in wrong}
    if any(lower <= pair for pair in TRUTHS) and len(lower) == len(
        {cell for cell in numbers if cell.strip()} - spelled
    ):
        return Cells(name, "truth", missing, distinct)
    if all(TIME.fullmatch(cell) for cell in wrong):
        return Cells(name, "time", missing, distinct)
    share = np.count_nonzero(~np.isnan(array)) / (len(cells) - missing)
    meant = share >= 0.5 or all(map(thousands, wrong)) or all(map(without_unit, wrong))
    return Cells(name, "mixed" if meant else "text", missing, distinct, wrong=tuple(wrong))


def _from_numbers(frame: Frame, name: str, cells: Sequence[Any], spelled: frozenset[str]) -> Cells:
    def number(cell: Any) -> float:
        if type(cell) in _NOTHING:
            return math.nan
        try:
            return float(cell)
        except OverflowError:
            return math.inf

    array = np.array([number(cell) for cell in cells], dtype=np.float64)[:, None]
    return _numeric(frame, name, array, cells, spelled)


def _from_array(frame: Frame, name: str, array: AnyArray, mark: str, spelled: frozenset[str]) -> Cells:
    if array.dtype.kind == "b":
        return Cells(name, "truth", 0, len(np.unique(array)))
    if array.dtype.kind not in "fiu":
        listed = [str(cell) for cell in array] if array.dtype.kind == "M" else array.tolist()
        return read_cells(Frame(frame.source, {name: listed}, frame.size), name, mark, spelled)
    numbers = array.astype(np.float64)
    if array.ndim == 1:
        return _numeric(frame, name, numbers[:, None], array, spelled)
    return Cells(name, "list", 0, len(numbers), numbers, problem=_wrong_item(frame, name, numbers))


def _numeric(frame: Frame, name: str, array: Matrix, cells: Sequence[Any] | AnyArray, spelled: frozenset[str]) -> Cells:
    if spelled:
        array[np.isin(array, list(_numbers_of(spelled)))] = math.nan
    missing = int(np.isnan(array).sum())
    if missing == len(array):
        return Cells(name, "empty", missing, 0)
    problem = _too_large(frame, name, array, cells)
    distinct = len(np.unique(array[~np.isnan(array)]))
    return Cells(name, "number", missing, distinct, array, whole=_whole(array), problem=problem)


def _numbers_of(spelled: frozenset[str]) -> frozenset[float]:
    """Numbers among the further spellings of a missing one: -999 stands for -999.0, too."""
    return frozenset(number for text in spelled if (number := parsed_number(text, ".")) is not None)


def _from_lists(frame: Frame, name: str, cells: Sequence[Any]) -> Cells:
    problem = _unlike_lists(frame, name, cells)
    if problem is not None:
        return Cells(name, "object", 0, len(cells), problem=problem)
    try:
        numbers = np.array(cells, dtype=np.float64)
    except OverflowError:
        numbers = np.array([[float(item) if abs(item) < LARGEST else math.inf for item in cell] for cell in cells])
    return Cells(name, "list", 0, len(cells), numbers, problem=_wrong_item(frame, name, numbers))


def _unlike_lists(frame: Frame, name: str, cells: Sequence[Any]) -> str | None:
    """Why lists are no rows of numbers of one length; None if they are."""
    first = next(row for row, cell in enumerate(cells) if isinstance(cell, list | tuple))
    width = len(cells[first])
    if not width:
        return f"{frame.at(first, name)}: the list is empty"
    for row, cell in enumerate(cells):
        if not isinstance(cell, list | tuple):
            return f"{frame.at(row, name)}: {described(cell)}, but row {first + 1} has a list"
        if len(cell) != width:
            return (
                f"{frame.at(row, name)}: {len(cell)} numbers, but row {first + 1} has {width}. Make the lists equally "
                f"long, or say --leave-out '{name}'"
            )
    if set(map(type, chain.from_iterable(cells))) <= {int, float}:
        return None
    row, place = next(
        (row, place)
        for row, cell in enumerate(cells)
        for place, item in enumerate(cell)
        if type(item) not in (int, float)
    )
    return f"{frame.at(row, f'{name}[{place}]')}: {described(cells[row][place])} is not a number"


def _wrong_item(frame: Frame, name: str, numbers: Matrix) -> str | None:
    """What is said of the first item of lists that is missing, infinite or too large."""
    found = np.argwhere(~(np.abs(numbers) < LARGEST))
    if not found.size:
        return None
    row, place = found[0].tolist()
    return _not_below(frame, row, f"{name}[{place}]", float(numbers[row, place]), float(numbers[row, place]))


def _too_large(frame: Frame, name: str, numbers: Matrix, cells: Sequence[Any] | AnyArray) -> str | None:
    """What is said of the first number of a column that is infinite or too large."""
    found = np.flatnonzero(np.abs(numbers[:, 0]) >= LARGEST)
    if not found.size:
        return None
    row = int(found[0])
    cell = cells[row].item() if isinstance(cells, np.ndarray) else cells[row]
    return _not_below(frame, row, name, cell, float(numbers[row, 0]))


def _not_below(frame: Frame, row: int, name: str, cell: object, number: float) -> str:
    limit = "below 1e150 in magnitude" if math.isfinite(number) else "a finite number"
    item = name not in frame.columns
    missing = "" if item or len(str(cell)) > 20 else f"--also-missing '{cell}' to take it for a missing number, or "
    return (
        f"{frame.at(row, name)}: {described(cell)} is not {limit}. Say {missing}"
        f"--leave-out '{name.rpartition('[')[0] if item else name}'"
    )


def _whole(numbers: Matrix) -> bool:
    present = numbers[~np.isnan(numbers)]
    return bool(np.all(present == np.floor(present)))
