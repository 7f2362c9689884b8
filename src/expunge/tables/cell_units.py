"""Units that stand in the cells: ``$62,600``, ``25%``, ``5 mg``; a unit that all cells share is the column's."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from expunge.errors import InputError
from expunge.tables.frame import ABSENT, Frame, described, shortened
from expunge.tables.spellings import is_missing, without_unit

__all__ = ["without_cell_units"]

# Where these stand, a comma between groups of three digits separates thousands: prices have no three decimals there.
_THOUSANDS_BY_COMMA = ("$", "£")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_CURRENCIES = "€$£¥₹"
# 62.600 € is 62600 in Germany; at a petrol station 1.899 € is below 2.
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")


def without_cell_units(
    frame: Frame, kept: Collection[str], spelled: Collection[str], decimal: str | None = None
) -> Frame:
    """A frame whose cells are numbers where they had one unit throughout, which is then the column's, with a notice.

    Parameters
    ----------
    frame : Frame
        Columns as read.
    kept : collection of str
        Columns that stay as they are: ids, subjects and payload that the caller names.
    spelled : collection of str
        Further spellings of a missing number.
    decimal : {"point", "comma"} or None
        The decimal mark, if the caller names it.

    Raises InputError where the header states another unit than the cells, and where the point of 62.600 € may be
    decimal or a thousands separator.

    """
    columns, units, notices = dict(frame.columns), dict(frame.units), []
    for name, cells in frame.columns.items():
        if isinstance(cells, np.ndarray) or name in kept:
            continue
        found = _numbers(cells, spelled)
        if found is None:
            continue
        unit, numbers, example = found
        stated = units.get(name)
        if stated is not None and stated != unit:
            raise InputError(
                f"{frame.source}, column {name!r} is in {stated} by its header, but cells such as {described(example)} "
                f"are in {unit}: mend one of them, or say --leave-out '{name}'"
            )
        pointed = [number for number in numbers.values() if "." in number]
        if decimal is None and unit in _CURRENCIES and pointed and all(map(_EITHER.fullmatch, pointed)):
            raise InputError(
                f"{frame.source}, column {name!r}: the point of {pointed[0]!r} ({unit}) may be decimal or a thousands "
                f"separator; say --decimal point for {pointed[0]}, or --decimal comma for {pointed[0].replace('.', '')}"
            )
        units[name] = unit
        columns[name] = [numbers.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]
        notices.append(f"{name} in {unit} (as in {example!r})")
    if not notices:
        return frame
    told = f"units read from the cells: {shortened(notices, 6)}; --leave-out a column that is no measurement"
    return replace(frame, columns=columns, units=units, notices=(*frame.notices, told))


def _numbers(cells: Collection[object], spelled: Collection[str]) -> tuple[str, dict[str, str], str] | None:
    """The unit of all cells, the number of each distinct one, and an example; None unless all have the same unit."""
    numbers: dict[str, str] = {}
    units = set()
    # The first cell decides for most columns, so that a long column of text is not read twice.
    for cell in cells:
        if cell is None or cell is ABSENT or (isinstance(cell, str) and cell in numbers):
            continue
        if not isinstance(cell, str):
            return None
        if is_missing(cell) or cell.strip() in spelled:
            continue
        found = without_unit(cell)
        if found is None:
            return None
        numbers[cell], unit = found
        units.add(unit)
        if len(units) > 1:
            return None
    if not numbers:
        return None
    (unit,) = units
    if unit in _THOUSANDS_BY_COMMA and all(
        "," not in number or _GROUPED.fullmatch(number) for number in numbers.values()
    ):
        numbers = {cell: number.replace(",", "") for cell, number in numbers.items()}
    return unit, numbers, next(iter(numbers))
