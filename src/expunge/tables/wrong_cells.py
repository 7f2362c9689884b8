"""Errors for columns that should hold numbers and do not: which cell is none, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from expunge.errors import InputError
from expunge.tables.cells import Cells
from expunge.tables.frame import ABSENT, Frame, described
from expunge.tables.spellings import is_missing, thousands, without_unit

__all__ = ["no_numbers", "not_numbers", "units_in_cells"]

_KINDS = {"truth": "true or false", "object": "lists or objects"}


def not_numbers(frame: Frame, column: Cells, *, chosen: bool) -> None:
    """Raise InputError if a column holds anything but numbers. `chosen` says that the caller named the column."""
    if column.problem is not None:
        raise InputError(column.problem)
    if column.kind in ("number", "list"):
        return
    name = column.name
    if column.kind == "empty":
        raise InputError(f"{frame.source}, column {name!r}: every cell is empty, and numbers are needed")
    row, cell = _first(frame, column)
    where = frame.at(row, name)
    if isinstance(cell, str) and thousands(cell):
        raise InputError(
            f"{where}: the {'points' if '.' in cell else 'commas'} of {cell!r} separate thousands; say --decimal "
            f"{'comma' if '.' in cell else 'point'}, or --leave-out '{name}'"
        )
    if column.kind == "truth":
        raise InputError(
            f"{where}: {described(cell)} is true or false, not a number; write it as 1 or 0 to make it one"
        )
    if column.kind == "time":
        raise InputError(
            f"{where}: {described(cell)} is a time, not a number; make a column of hours or days since some start"
        )
    if chosen or column.kind != "mixed":
        more = (
            ""
            if column.kind != "text" or column.distinct > 20
            else f"; make each of its {column.distinct} texts a column of 0 and 1"
        )
        raise InputError(f"{where}: {described(cell)} is not a number{more}")
    spelled = ",".join(column.wrong) if len(column.wrong) <= 3 else ""
    missing = (
        f"--also-missing '{spelled}' to take it for a missing number, or " if spelled.count(",") < 3 and spelled else ""
    )
    raise InputError(
        f"{where}: {described(cell)} is not a number, and most other cells are. Say {missing}--leave-out '{name}'"
    )


def units_in_cells(frame: Frame, cells: Mapping[str, Cells], names: Sequence[str]) -> None:
    """Raise InputError that names all columns whose cells have units, where some have none or another one."""
    found = {name: _units(cells[name].wrong) for name in names if cells[name].kind in ("mixed", "text")}
    found = {name: units for name, units in found.items() if units}
    if not found:
        return
    row, cell = _first(frame, cells[next(iter(found))])
    shown = ", ".join(f"{name} ({', '.join(units)})" for name, units in found.items())
    only = next(iter(found)) if len(found) == 1 else None
    mend = (
        f"write '{only} [{found[only][0]}]' in the header"
        if only
        else "write each unit in the header, as in 'dose [mg]'"
    )
    raise InputError(
        f"{frame.at(row, next(iter(found)))}: {described(cell)} has its unit in the cell, and other cells of the "
        f"column have none or another one. Such columns: {shown}; {mend} and numbers below, or say "
        f"--leave-out '{','.join(found)}'"
    )


def _units(wrong: Sequence[str]) -> list[str]:
    """Units of cells that are no plain numbers; none where a cell is neither."""
    units = [without_unit(cell) for cell in wrong]
    return [] if None in units else sorted({one[1] for one in units if one is not None})


def no_numbers(frame: Frame, cells: Mapping[str, Cells]) -> InputError:
    """What is said of a table without a column of numbers: each column with a cell of it, and what to do."""
    shown = []
    for name, column in list(cells.items())[:8]:
        found = (cell for cell in frame.columns[name] if cell is not None and cell is not ABSENT)
        cell = next((cell for cell in found if not isinstance(cell, str) or cell), None)
        example = "" if cell is None else f", as in {described(cell)}"
        shown.append(f"{name} ({_KINDS.get(column.kind, column.kind)}{example})")
    kinds = {column.kind for column in cells.values()}
    if len(cells) == 1 and "text" in kinds:
        todo = "If another sign separates columns, name it: --delimiter ':'"
    elif "truth" in kinds:
        todo = "Write true and false as 1 and 0"
    elif "time" in kinds:
        todo = "Make a column of hours or days since some start"
    else:
        todo = "Make columns of numbers, one per measurement; for text, a list of numbers per row (an embedding)"
    return InputError(f"{frame.source} has no column of numbers that could be keys; it has {', '.join(shown)}. {todo}")


def _first(frame: Frame, column: Cells) -> tuple[int, object]:
    """Row and cell of the first cell that is not a number."""
    cells = frame.columns[column.name]
    wrong = frozenset(column.wrong)
    for row, cell in enumerate(cells.tolist() if isinstance(cells, np.ndarray) else cells):
        if cell is None or cell is ABSENT or (isinstance(cell, str) and is_missing(cell)):
            continue
        if not wrong or str(cell) in wrong:
            return row, cell
    return 0, cells[0]
