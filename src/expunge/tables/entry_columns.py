"""Ids, subjects, payloads, ends and sources of the rows that are kept."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from expunge.errors import InputError
from expunge.memory.attributes import check_sources
from expunge.memory.entries import DEEPEST, encode_payload
from expunge.tables.frame import ABSENT, Frame, described
from expunge.types import IndexArray

__all__ = ["ends_of", "ids_of", "payloads_of", "sources_of", "subjects_of", "time_of"]

_TIMES = (datetime.datetime, datetime.date, datetime.time)


def ids_of(frame: Frame, column: str, kept: IndexArray) -> tuple[str, ...]:
    """One id per kept row. Raises InputError for one that is empty, and for the second row with an id."""
    cells = _listed(frame, column)
    first: dict[str, int] = {}
    for row in kept.tolist():
        name = _name(frame, row, column, cells[row])
        if name is None:
            raise InputError(f"{frame.at(row, column)}: an id must not be empty; --id-column none makes random ids")
        if name in first:
            raise InputError(
                f"{frame.at(row, column)}: id {name!r} is taken by row {first[name] + 1}. Say --id-column none for "
                f"random ids, or --subject-column {column} if it says whose entry a row is"
            )
        first[name] = row
    return tuple(first)


def subjects_of(frame: Frame, column: str, kept: IndexArray) -> tuple[str | None, ...]:
    """One subject per kept row, or None where the cell is empty."""
    cells = _listed(frame, column)
    return tuple(_name(frame, row, column, cells[row]) for row in kept.tolist())


def ends_of(frame: Frame, column: str, kept: IndexArray) -> tuple[datetime.datetime | None, ...]:
    """When each kept row ends; None where the cell is empty."""
    cells, found = _listed(frame, column), []
    for row in kept.tolist():
        try:
            found.append(None if _empty(cells[row]) else time_of(cells[row]))
        except ValueError:
            raise InputError(
                f"{frame.at(row, column)}: {described(cells[row])} is no time; write 2027-01-31 or 2027-01-31T12:00:00Z"
            ) from None
    return tuple(found)


def time_of(cell: Any) -> datetime.datetime:
    """A time from a cell or an option; a day is its beginning, and a time without a zone is UTC."""
    if isinstance(cell, str):
        cell = datetime.datetime.fromisoformat(cell.strip())
    if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        cell = datetime.datetime(cell.year, cell.month, cell.day)
    if not isinstance(cell, datetime.datetime):
        raise ValueError("no time")
    return cell if cell.tzinfo is not None else cell.replace(tzinfo=datetime.UTC)


def sources_of(frame: Frame, column: str, kept: IndexArray) -> tuple[list[Any], ...]:
    """What each kept row was made from: an id, or in JSON a list of ids and of pairs of a memory and an id."""
    cells, found = _listed(frame, column), []
    for row in kept.tolist():
        cell = cells[row]
        if isinstance(cell, str) and cell.lstrip().startswith("["):
            try:
                cell = json.loads(cell)
            except (ValueError, RecursionError):
                raise InputError(f"{frame.at(row, column)}: {described(cell)} begins like a list and is none") from None
        if not isinstance(cell, list):
            name = _name(frame, row, column, cell)
            cell = [] if name is None else [name]
        try:
            found.append([*check_sources(cell)])
        except InputError as problem:
            raise InputError(f"{frame.at(row, column)}: {problem}") from None
    return tuple(found)


def _empty(cell: Any) -> bool:
    return cell is None or cell is ABSENT or cell == ""


def payloads_of(frame: Frame, columns: Sequence[str], kept: IndexArray, *, single: bool) -> tuple[Any, ...]:
    """One payload per kept row: the cell of a `single` column, else an object with a field per column."""
    found = [_payload_cells(frame, column, kept, single=single) for column in columns]
    if single:
        return tuple(found[0])
    return tuple(dict(zip(columns, cells, strict=True)) for cells in zip(*found, strict=True))


def _payload_cells(frame: Frame, column: str, kept: IndexArray, *, single: bool) -> list[Any]:
    cells = _listed(frame, column)
    found = [_plain(cells[row]) for row in kept.tolist()]
    if all(type(cell) is str for cell in found) and _encodable("".join(found)):
        return found
    for row, cell in zip(kept.tolist(), found, strict=True):
        try:
            encode_payload(cell if single else {column: cell})
        except InputError as problem:
            raise InputError(
                f"{frame.at(row, column)}: {problem}; --leave-out '{column}' keeps the entries without it"
            ) from None
    return found


def _plain(cell: Any, levels: int = DEEPEST) -> Any:
    """A cell as JSON can have it, and its cells down to a level; a column of numbers writes NaN for a missing one."""
    if cell is ABSENT or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, dict) and levels:
        return {name: _plain(inner, levels - 1) for name, inner in cell.items()}
    if isinstance(cell, list | tuple) and levels:
        return [_plain(inner, levels - 1) for inner in cell]
    if isinstance(cell, _TIMES):
        return cell.isoformat()
    if isinstance(cell, decimal.Decimal | datetime.timedelta):
        return str(cell)
    return cell


def _name(frame: Frame, row: int, column: str, cell: Any) -> str | None:
    """Text of an id or a subject; whole numbers count, an empty cell is None."""
    if _empty(cell):
        return None
    if isinstance(cell, str):
        if not _encodable(cell):
            raise InputError(f"{frame.at(row, column)}: {described(cell)} is not valid Unicode")
        return cell
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    raise InputError(f"{frame.at(row, column)}: {described(cell)} cannot name anything; use text or a whole number")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _listed(frame: Frame, column: str) -> Sequence[Any]:
    cells = frame.columns[column]
    return cells.tolist() if isinstance(cells, np.ndarray) else cells
