"""One line on every column of a table: role, unit, kind, missing share, range, and the numbers chosen for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from expunge.preprocessing import Preprocessing
from expunge.tables.cells import Cells
from expunge.tables.frame import Frame
from expunge.tables.roles import Roles

__all__ = ["ColumnSummary", "summaries"]


@dataclass(frozen=True)
class ColumnSummary:
    """What one column holds and what it is for.

    Parameters
    ----------
    name, unit : str, str or None
        As in the header.
    role : str
        ``key``, ``value``, ``id``, ``subject``, ``payload`` or ``left out``; several are separated by commas.
    kind : str
        ``number``, ``list``, ``truth``, ``time``, ``text``, ``mixed``, ``object`` or ``empty``.
    missing : int
        How many cells hold nothing.
    low, middle, high : float or None
        Least, median and largest number.
    centre, scale, fill : float or None
        Of a key column: how a measurement becomes a coordinate. None for other columns and for lists.

    """

    name: str
    unit: str | None
    role: str
    kind: str
    missing: int
    low: float | None = None
    middle: float | None = None
    high: float | None = None
    centre: float | None = None
    scale: float | None = None
    fill: float | None = None


def summaries(
    frame: Frame, cells: Mapping[str, Cells], roles: Roles, preprocessing: Preprocessing
) -> tuple[ColumnSummary, ...]:
    """A summary per column of a frame, in its order."""
    chosen = {column.name: column for column in (*preprocessing.values, *preprocessing.keys)}
    found = []
    for name, column in cells.items():
        low = middle = high = None
        if column.kind == "number" and column.numbers is not None:
            present = column.numbers[~np.isnan(column.numbers)]
            low, middle, high = float(present.min()), float(np.median(present)), float(present.max())
        key = chosen.get(name) if name in roles.keys or name in roles.values else None
        found.append(
            ColumnSummary(
                name,
                frame.units.get(name),
                roles.of(name),
                column.kind,
                column.missing,
                low,
                middle,
                high,
                None if key is None else key.centre,
                None if key is None else key.scale,
                None if key is None else key.fill,
            )
        )
    return tuple(found)
