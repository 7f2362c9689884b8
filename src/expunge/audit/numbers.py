"""Numbers that a report may print: each is a statistic of a column over the rows that a filter keeps.

A number is stored with its definition, so that it can be recomputed from the rows by anyone, and with two counts: how
many rows entered, and how many there were before the rows without a value were left out. Nothing else is reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.errors import InputError

if TYPE_CHECKING:
    import polars

__all__ = ["Number", "evaluate", "spread_of"]

Condition = tuple[str, str, Any]


@dataclass(frozen=True)
class Number:
    """A statistic (count, sum, min, max, mean, median, p95, spearman:<column>, at-max:<column>) of a column.

    ``at-max`` is the value in the first row whose other column is largest.

    ``where`` are conditions (column, operator, value), all of which must hold; operators are ``==``, ``!=``, ``>=``,
    ``>``, ``<=`` and ``<``, ``in`` with a list, and ``null`` and ``notnull``, whose value is None.
    """

    name: str
    table: str
    where: tuple[Condition, ...]
    column: str
    statistic: str


def spread_of(name: str, table: str, where: Sequence[Condition], column: str) -> list[Number]:
    """Median, 95th percentile and worst of a column."""
    return [Number(f"{name}/{word}", table, tuple(where), column, word) for word in ("median", "p95", "max")]


def evaluate(numbers: Sequence[Number], tables: Mapping[str, polars.DataFrame]) -> list[dict[str, Any]]:
    """Rows of the summary, in the order of the numbers."""
    rows = []
    for number in numbers:
        if number.table not in tables:
            raise InputError(f"{number.name}: there is no table {number.table!r}")
        frame = tables[number.table]
        for column, operator, value in number.where:
            frame = frame.filter(_condition(column, operator, value))
        present = frame.filter(_condition(number.column, "notnull", None))
        value = _statistic(number.statistic, present, number.column)
        rows.append(
            {
                "number": number.name,
                "table": number.table,
                "where": json.dumps(number.where, separators=(",", ":")),
                "column": number.column,
                "statistic": number.statistic,
                "value": value,
                "count": present.height,
                "of": frame.height,
            }
        )
    return rows


def _condition(column: str, operator: str, value: Any) -> Any:
    import polars

    cell = polars.col(column)
    if operator == "null":
        return cell.is_null()
    if operator == "notnull":
        return cell.is_not_null()
    compared: dict[str, Callable[[], Any]] = {
        "==": lambda: cell == value,
        "!=": lambda: cell != value,
        ">=": lambda: cell >= value,
        ">": lambda: cell > value,
        "<=": lambda: cell <= value,
        "<": lambda: cell < value,
        "in": lambda: cell.is_in(value),
    }
    return compared[operator]()


def _statistic(statistic: str, frame: polars.DataFrame, column: str) -> float | None:
    if statistic == "count":
        return float(frame.height)
    if statistic.startswith("spearman:"):
        other = statistic.partition(":")[2]
        pair = frame.filter(_condition(other, "notnull", None))
        return _spearman(pair[column].to_numpy(), pair[other].to_numpy())
    if statistic.startswith("at-max:"):
        pair = frame.filter(_condition(statistic.partition(":")[2], "notnull", None))
        order = pair[statistic.partition(":")[2]].to_numpy()
        return float(pair[column][int(np.argmax(order))]) if len(order) else None
    values = frame[column].to_numpy().astype(np.float64)
    if statistic == "sum":
        return float(values.sum())
    if not values.size:
        return None
    reduced: dict[str, Callable[[Any], Any]] = {
        "min": np.min,
        "max": np.max,
        "mean": np.mean,
        "median": np.median,
        "p95": lambda array: np.percentile(array, 95),
    }
    return float(reduced[statistic](values))


def _spearman(ours: Any, theirs: Any) -> float | None:
    """Rank correlation with ties at their mean rank; None for fewer than three pairs or constant ranks."""
    from scipy.stats import rankdata

    if len(ours) < 3:
        return None
    a, b = rankdata(ours), rankdata(theirs)
    if np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return None
    return float(np.corrcoef(a, b)[0, 1])
