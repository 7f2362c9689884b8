"""A table of the columns of a file: what each is taken for, its range, and the numbers chosen for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.table import Table as Grid

from expunge.cli.context import CommandContext
from expunge.cli.output import fields, listing

if TYPE_CHECKING:
    from expunge.tables import ColumnSummary, Table

__all__ = ["show_preview"]

# Columns of a terminal that no table needs.
_UNLIMITED = 10_000
_HEADERS = ("column", "role", "missing", "min", "median", "max", "centre", "scale", "fill")
# What gives way in a narrow terminal, in this order, so that names are shown.
_OPTIONAL = (("min", "max"), ("median",), ("missing",))
# Of so many columns in a row that are taken for the same, the first and the last ones are shown.
_ALIKE, _FIRST, _LAST = 24, 8, 2


def show_preview(
    context: CommandContext, name: str, table: Table, sigma: float | None, nu: float | None = None
) -> None:
    """Print what a table would become, with a given width or the one that would be chosen; nothing is stored."""
    from expunge.preprocessing.width import DEFAULT_NU, choose_width

    how = "chosen for these keys, on the grid of powers of 2^(1/4)" if sigma is None else "given"
    sigma = choose_width(table.keys, nu=DEFAULT_NU if nu is None else nu) if sigma is None else sigma
    content: dict[str, Any] = {
        "name": name,
        "preview": True,
        "entries": len(table),
        "columns": [asdict(column) for column in table.columns],
        "preprocessing": table.preprocessing.to_json(),
        "sigma": sigma,
        "notices": table.notices,
    }
    shown = _shortened(table.columns)
    grid, hidden = _fitting(context, shown, len(table))
    left_out = len(table.columns) - sum(not isinstance(one, int) for one in shown)
    context.show(
        content,
        grid,
        fields(
            [
                ("not shown", f"{', '.join(hidden)}: a wider terminal or --json has them" if hidden else ""),
                ("columns", f"{len(table.columns)}, {left_out} not shown: --json has all" if left_out else ""),
                ("entries", f"{len(table)}; nothing was stored"),
                ("width", f"{sigma:.4g}, {how}"),
                *(("notice", notice) for notice in table.notices),
            ]
        ),
    )


def _shortened(columns: Sequence[ColumnSummary]) -> list[ColumnSummary | int]:
    """Columns to show; of many in a row with one role and kind the first and the last, and how many lie between."""
    shown: list[ColumnSummary | int] = []
    for _, alike in groupby(columns, key=lambda column: (column.role, column.kind)):
        run = list(alike)
        shown += run if len(run) <= _ALIKE else [*run[:_FIRST], len(run) - _FIRST - _LAST, *run[-_LAST:]]
    return shown


def _fitting(context: CommandContext, shown: list[ColumnSummary | int], size: int) -> tuple[Grid, list[str]]:
    """The table as wide as the terminal, and the headers that found no room in it."""
    columns = [one for one in shown if not isinstance(one, int)]
    # The fill that a memory chooses is the centre.
    same = all(column.fill is None or column.fill == column.centre for column in columns)
    giving_way = [*([("fill",)] if same else []), *_OPTIONAL]
    hidden: list[str] = []
    while True:
        grid = _listed(shown, size, [header for header in _HEADERS if header not in hidden])
        unlimited = context.out.options.update(max_width=_UNLIMITED)
        if not giving_way or context.out.measure(grid, options=unlimited).minimum <= context.out.width:
            return grid, hidden
        hidden += giving_way.pop(0)


def _listed(shown: list[ColumnSummary | int], size: int, headers: list[str]) -> Grid:
    rows = []
    for column in shown:
        if isinstance(column, int):
            rows.append([f"… {column} more", *[""] * (len(headers) - 1)])
            continue
        name = column.name + ("" if column.unit is None else f" [{column.unit}]")
        numbers = (column.low, column.middle, column.high, column.centre, column.scale, column.fill)
        if column.kind == "number" and column.scale is not None:
            cells = ["" if number is None else _text(number) for number in numbers]
        else:
            # The kind stands where a measurement has its median.
            cells = ["", column.kind, "", "", "", ""]
        role = column.role.replace(", ", "+")
        missing = f"{column.missing / size:.1%}" if column.missing else ""
        texts = dict(zip(_HEADERS, (name, role, missing, *cells), strict=True))
        rows.append([texts[header] for header in headers])
    return listing(headers, rows, right=_HEADERS[2:], yields=0)


def _text(number: float) -> str:
    """A number in four digits, and without an exponent where it has a few more."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
