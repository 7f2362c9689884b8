"""Statistics of the rows of a table, each by the name that a report knows it by; plain Python, and no table library."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from expunge.types import AnyArray

__all__ = ["Rows", "statistic"]

_Row = dict[str, Any]


class Rows:
    """Rows of a table, and which of them meet a condition, worked out once."""

    def __init__(self, rows: list[_Row]) -> None:
        self.rows = rows
        self._met: dict[str, AnyArray] = {}

    def __iter__(self) -> Iterator[_Row]:
        return iter(self.rows)

    def where(self, conditions: list[list[Any]]) -> list[_Row]:
        """Rows that meet every condition."""
        chosen = np.ones(len(self.rows), dtype=bool)
        for condition in conditions:
            told = json.dumps(condition)
            if told not in self._met:
                met = (_holds(row, *condition) for row in self.rows)
                self._met[told] = np.fromiter(met, dtype=bool, count=len(self.rows))
            chosen &= self._met[told]
        return [self.rows[place] for place in np.flatnonzero(chosen)]


def _holds(cells: _Row, column: str, operator: str, value: Any) -> bool:
    """Whether a row meets a condition; nothing compares with an empty cell."""
    cell = cells[column]
    if operator in ("null", "notnull"):
        return (cell is None) == (operator == "null")
    if cell is None:
        return False
    compared: dict[str, Callable[[], bool]] = {
        "==": lambda: cell == value,
        "!=": lambda: cell != value,
        ">=": lambda: cell >= value,
        ">": lambda: cell > value,
        "<=": lambda: cell <= value,
        "<": lambda: cell < value,
        "in": lambda: cell in value,
    }
    return bool(compared[operator]())


def statistic(name: str, rows: list[_Row], column: str) -> float | None:
    """One statistic of a column's cells, by its name."""
    kind, _, other = name.partition(":")
    if kind == "count":
        return float(len(rows))
    if kind in ("spearman", "at-max"):
        pairs = [(float(row[column]), float(row[other])) for row in rows if row[other] is not None]
        if kind == "at-max":
            return max(pairs, key=lambda pair: pair[1])[0] if pairs else None
        return _rank_correlation(pairs)
    cells = sorted(float(row[column]) for row in rows)
    if kind == "sum":
        return math.fsum(cells)
    if not cells:
        return None
    if kind == "mean":
        return math.fsum(cells) / len(cells)
    quantile = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}[kind]
    place = quantile * (len(cells) - 1)
    low = math.floor(place)
    high = min(low + 1, len(cells) - 1)
    if cells[low] == cells[high]:
        return cells[low]
    return cells[low] + (place - low) * (cells[high] - cells[low])


def _rank_correlation(pairs: list[tuple[float, float]]) -> float | None:
    """Spearman's, ties at their mean rank."""
    if len(pairs) < 3:
        return None
    ranks = []
    for side in (0, 1):
        cells = np.array([pair[side] for pair in pairs])
        order = np.argsort(cells, kind="stable")
        rank = np.empty(cells.size)
        rank[order] = np.arange(cells.size)
        for value in np.unique(cells):
            rank[cells == value] = rank[cells == value].mean()
        ranks.append(rank - rank.mean())
    size = math.sqrt(float(ranks[0] @ ranks[0]) * float(ranks[1] @ ranks[1]))
    return float(ranks[0] @ ranks[1]) / size if size > 0.0 else None
