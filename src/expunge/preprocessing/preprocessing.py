"""What a memory does with a row of measurements before it is a key, and what its columns are called.

Of a memory whose keys were made from texts it says by which embedder.

A key coordinate is (x − centre)/scale. A missing cell is replaced by the column's fill, or refused where there is none.
The numbers are the caller's, or are chosen from the entries on a coarse grid (`chosen_columns`): a scale is a power
of 2, a centre and a fill are multiples of half the scale. So they say little of any one entry.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import rfc8785

from expunge.errors import InputError
from expunge.preprocessing.embedder_identity import EmbedderIdentity
from expunge.preprocessing.grid import nearest_multiple, whole_power
from expunge.types import Matrix, Vector

__all__ = ["Column", "Preprocessing", "Width", "chosen_columns"]

FORMAT = "expunge/preprocessing/v1"

# Of so many cells the median lies between others, so that no cell alone sets it.
FEWEST = 3
# A table of fewer rows is a trial: any centre of it is near to some row's own measurement.
_TRIAL = 8

# Whether the caller gave the width σ, or it was chosen from the entries.
Width = Literal["given", "auto"]


@dataclass(frozen=True)
class Column:
    """One column: its name and unit, and the numbers that turn a measurement into a coordinate.

    Parameters
    ----------
    name : str
        Name of the column, as in the file's header.
    unit : str or None
        Unit of measurement, for display only.
    centre, scale : float
        A measurement x becomes (x − centre)/scale. Without scaling 0 and 1.
    fill : float or None
        Measurement that replaces a missing one. None: a missing cell is refused.

    """

    name: str
    unit: str | None = None
    centre: float = 0.0
    scale: float = 1.0
    fill: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(f"a column needs a name, not {self.name!r}")
        try:
            (self.name + (self.unit or "")).encode()
        except (TypeError, UnicodeEncodeError):
            raise InputError(f"column {self.name!r}: name and unit must be valid Unicode text") from None
        for what in ("centre", "scale", "fill"):
            number = getattr(self, what)
            if number is not None and not math.isfinite(number):
                raise InputError(f"column {self.name!r}: the {what} must be a finite number, not {number!r}")
        if self.scale <= 0.0:
            raise InputError(f"column {self.name!r}: the scale must be positive, not {self.scale!r}")


@dataclass(frozen=True)
class Preprocessing:
    """Columns of keys and values in order, and whether their numbers and the width were chosen from the entries.

    Without columns (two empty tuples) it says of a memory of plain arrays whether its width was chosen, and which
    embedder its keys are from.

    Parameters
    ----------
    keys : tuple of Column
        One per coordinate of a key.
    values : tuple of Column
        One per coordinate of a value. Values are filled and never scaled.
    learned : bool
        Whether centres, scales or fills were chosen from the entries, on the grid.
    width : {"given", "auto"}
        Whether the width σ was given or chosen from the entries, on the grid.
    embedder : EmbedderIdentity or None
        What made the keys from texts, if anything did and is known.

    """

    keys: tuple[Column, ...] = ()
    values: tuple[Column, ...] = ()
    learned: bool = False
    width: Width = "given"
    embedder: EmbedderIdentity | None = None

    def __post_init__(self) -> None:
        for role, columns in (("key", self.keys), ("value", self.values)):
            names = [column.name for column in columns]
            if not names and (self.keys or self.values):
                raise InputError(f"preprocessing needs at least one {role} column")
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InputError(f"two {role} columns are called {twice!r}")
        scaled = next((column for column in self.values if (column.centre, column.scale) != (0.0, 1.0)), None)
        if scaled is not None:
            raise InputError(f"value column {scaled.name!r} has a centre or a scale; only keys are scaled")

    def to_keys(self, rows: Matrix) -> Matrix:
        """Fill and scale measurements (m, d), NaN where one is missing; raises InputError for one without a fill."""
        filled = _filled(rows, self.keys, "key")
        return (filled - _numbers(self.keys, "centre")) / _numbers(self.keys, "scale")

    def to_values(self, rows: Matrix) -> Matrix:
        """Fill values (m, dv), NaN where one is missing; raises InputError for one without a fill."""
        return _filled(rows, self.values, "value")

    def to_measurements(self, keys: Matrix) -> Matrix:
        """Measurements (m, d) that keys stand for; where a cell was missing, its fill."""
        return keys * _numbers(self.keys, "scale") + _numbers(self.keys, "centre")

    def require_shapes(self, dimension: int, width: int) -> None:
        """Raise InputError unless there is a column per coordinate of a key and of a value, or no column at all."""
        for role, columns, coordinates in (("key", self.keys, dimension), ("value", self.values, width)):
            if columns and len(columns) != coordinates:
                raise InputError(f"{role}s of {coordinates} coordinates do not fit {len(columns)} {role} columns")

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` reads it. It has an embedder only where one is known."""
        return {
            "keys": [asdict(column) for column in self.keys],
            "learned": self.learned,
            "values": [asdict(column) for column in self.values],
            "width": self.width,
            **({} if self.embedder is None else {"embedder": asdict(self.embedder)}),
        }

    @classmethod
    def from_json(cls, content: Any) -> Preprocessing:
        """Preprocessing from what `to_json` wrote. Raises InputError for anything else."""
        try:
            found = cls(
                tuple(Column(**column) for column in content["keys"]),
                tuple(Column(**column) for column in content["values"]),
                learned=content["learned"],
                width=content["width"],
                embedder=EmbedderIdentity(**content["embedder"]) if "embedder" in content else None,
            )
        except (KeyError, TypeError) as problem:
            raise InputError(f"this is no preprocessing of columns ({problem})") from None
        if found.to_json() != content or found.width not in ("given", "auto") or not isinstance(found.learned, bool):
            raise InputError("this is no preprocessing of columns: it has fields that do not belong there")
        return found

    def to_bytes(self) -> bytes:
        """The columns in canonical JSON, floats in hexadecimal: ``docs/formats/preprocessing.md``; empty without them.

        How the width was chosen and the embedder are not among them: they say nothing of a measurement.
        """
        if not self.keys:
            return b""
        columns = {
            role: [
                {
                    what: float(number).hex() if isinstance(number, float | int) else number
                    for what, number in asdict(column).items()
                }
                for column in found
            ]
            for role, found in (("keys", self.keys), ("values", self.values))
        }
        return rfc8785.dumps({"format": FORMAT, "learned": self.learned, **columns})

    def digest(self) -> bytes:
        """SHA-256 of `to_bytes`, 32 bytes, as state digests have it; empty where there are no columns."""
        content = self.to_bytes()
        return hashlib.sha256(content).digest() if content else b""


def chosen_columns(
    names: Sequence[str], rows: Matrix, *, scaled: bool, filled: bool, units: Mapping[str, str] | None = None
) -> tuple[Column, ...]:
    """Columns whose numbers are chosen from rows (n, d), NaN where a cell is missing, on the coarse grid.

    The scale is the power of 2 nearest to the spread of a column, the centre the median as a multiple of half the
    scale, the fill likewise. The spread is the quartile distance over 1.349. Where that is 0, half of the cells are
    equal, and it is the median distance of the others from them, or 1 where fewer than three differ. So no single cell
    decides a scale, however large it is. Without `scaled` centre and scale are 0 and 1; without `filled` missing cells
    are refused later on. All of these are functions of the set of rows: their order does not matter.

    Raises InputError for a column without a measurement, and for one with fewer than three in eight rows or more.
    """
    columns = []
    for place, name in enumerate(names):
        present = np.sort(rows[:, place][~np.isnan(rows[:, place])])
        unit = None if units is None else units.get(name)
        if not present.size:
            raise InputError(f"column {name!r} has no measurement: leave it out")
        if present.size < FEWEST and len(rows) >= _TRIAL:
            raise InputError(
                f"column {name!r} has {present.size} measurement{'s' * (present.size > 1)} in {len(rows)} rows, and "
                "numbers chosen from so few would tell them: leave it out, or give its centre, scale and fill"
            )
        step = whole_power(_spread(present)) / 2.0
        middle = nearest_multiple(float(np.median(present)), step)
        columns.append(
            Column(
                name,
                unit,
                centre=middle if scaled else 0.0,
                scale=2.0 * step if scaled else 1.0,
                fill=middle if filled else None,
            )
        )
    return tuple(columns)


def _spread(present: Vector) -> float:
    """Spread of sorted numbers, positive."""
    low, high = np.quantile(present, [0.25, 0.75])
    if high > low:
        return float(high - low) / 1.349
    # A standard deviation would follow one large cell, and tell how large it was when that row is erased.
    apart = np.abs(present[present != low] - low)
    return float(np.median(apart)) if apart.size >= FEWEST else 1.0


def _filled(rows: Matrix, columns: tuple[Column, ...], role: str) -> Matrix:
    """Rows (m, d) with NaN replaced by the columns' fills."""
    filled = np.array(rows, dtype=np.float64)
    if filled.ndim != 2 or filled.shape[1] != len(columns):
        names = ", ".join(column.name for column in columns)
        raise InputError(f"{role}s have {len(columns)} columns ({names}), not shape {filled.shape}")
    for row, place in np.argwhere(np.isnan(filled)).tolist():
        fill = columns[place].fill
        if fill is None:
            raise InputError(
                f"row {row}: {role} column {columns[place].name!r} is missing, and the memory has no fill for it"
            )
        filled[row, place] = fill
    return filled


def _numbers(columns: tuple[Column, ...], what: str) -> Vector:
    return np.array([getattr(column, what) for column in columns], dtype=np.float64)
