"""Named columns of one file, as read, and where each cell is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from expunge.errors import InputError

__all__ = ["ABSENT", "Frame", "checked_names", "described", "first_line", "named_units", "shortened"]

# "HR [bpm]" and "temp (°C)": a name, and its unit in brackets at the end.
_UNIT = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]{0,14}[^\[\]()\d\s][^\[\]()]{0,14})[\])]")


class _Absent:
    """A field that a row does not have."""


ABSENT = _Absent()


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns by name, all of one length.

    ``lines`` says on which line of the file a row ends, if there are lines. ``plain`` marks an array without names,
    whose columns are called by their numbers. ``units`` holds the units that the header states, ``unnamed`` the columns
    that it has no name for. ``notices`` say what was detected.
    """

    source: str
    columns: dict[str, Sequence[Any]]
    size: int
    lines: Sequence[int] | None = None
    plain: bool = False
    units: Mapping[str, str] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()
    notices: tuple[str, ...] = ()

    def at(self, row: int, column: str | None = None) -> str:
        """Where a cell is, in words."""
        line = "" if self.lines is None else f" (line {self.lines[row]})"
        return f"{self.source}, row {row + 1}{line}" + ("" if column is None else f", column {column!r}")

    def known(self) -> str:
        """The columns, for an error about one that is not there."""
        return f"it has {shortened(list(self.columns))}"


def checked_names(source: str, names: Sequence[str]) -> None:
    """Raise InputError where two columns have one name."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(
                f"{source} has two columns called {name!r} (columns {names.index(name) + 1} and {place + 1}): rename "
                "one of them in its header"
            )


def named_units(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Names without the unit in brackets behind them, and the units; no name is there twice."""
    found = [_UNIT.fullmatch(name) for name in names]
    short = [name if match is None else match["name"] for name, match in zip(names, found, strict=True)]
    final, units = [], {}
    for name, match, without in zip(names, found, short, strict=True):
        kept = name if short.count(without) > 1 else without
        final.append(kept)
        if match is not None:
            units[kept] = match["unit"].strip()
    return final, units


def described(cell: Any) -> str:
    """A cell as an error shows it."""
    if cell is ABSENT:
        return "the missing field"
    if cell is None:
        return "null"
    text = repr(cell)
    return text if len(text) <= 40 else text[:37] + "..."


def shortened(names: Sequence[str], most: int = 12) -> str:
    """Names in a row, the first ones of many."""
    return ", ".join(names[:most]) + (f", … ({len(names)} in all)" if len(names) > most else "")


def first_line(problem: BaseException) -> str:
    """The first line of somebody else's error."""
    return (str(problem) or type(problem).__name__).splitlines()[0]
