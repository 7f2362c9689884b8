"""Rows of JSON: one object per line, or one array of objects, which may stand in an object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from expunge.errors import InputError
from expunge.tables.frame import ABSENT, Frame, described, named_units

__all__ = ["read_json", "read_json_lines"]


def read_json_lines(source: str, text: str) -> Frame:
    """Columns from one JSON object per line. Raises InputError with the line of what is not one."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{source}, row {len(rows) + 1} (line {number})"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise InputError(
                f"{where} is not JSON: {_told(problem)}. Each line holds one object; say --format json for a file that "
                "is one object or one array"
            ) from None
        rows.append(_object(where, row))
        lines.append(number)
    return _frame(source, rows, lines)


def read_json(source: str, text: str) -> Frame:
    """Columns from an array of JSON objects, from the one array of objects within an object, or from lines."""
    array = text.lstrip().startswith("[")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        if not array:
            return read_json_lines(source, text)
        raise InputError(f"{source} is not JSON: {_told(problem)}; mend it there") from None
    if array:
        return _frame(source, [_object(f"{source}, row {place}", row) for place, row in enumerate(found, 1)], None)
    if not isinstance(found, dict):
        return read_json_lines(source, text)
    within = [name for name, inner in found.items() if isinstance(inner, list) and inner and _objects(inner)]
    if len(within) != 1:
        return _frame(source, [found], None)
    return replace(_frame(source, found[within[0]], None), notices=(f"rows: the objects in the list {within[0]!r}",))


def _objects(rows: list[Any]) -> bool:
    return all(isinstance(row, dict) for row in rows)


def _told(problem: ValueError | RecursionError) -> str:
    """What is wrong, and where in the text that was read."""
    if not isinstance(problem, json.JSONDecodeError):
        return "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
    line = f"line {problem.lineno}, " if problem.lineno > 1 else ""
    return f"{problem.msg} at {line}character {problem.colno}"


def _object(where: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InputError(
            f"{where} is not a JSON object but {described(row)}; write each row as an object with names, as in "
            '{"HR": 80, "SpO2": 97}'
        )
    return row


def _frame(source: str, rows: list[dict[str, Any]], lines: list[int] | None) -> Frame:
    fields = list(dict.fromkeys(column for row in rows for column in row))
    names, units = named_units(fields)
    columns: dict[str, Sequence[Any]] = {
        name: [row.get(field, ABSENT) for row in rows] for name, field in zip(names, fields, strict=True)
    }
    return Frame(source, columns, len(rows), lines, units=units)
