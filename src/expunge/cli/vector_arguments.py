"""Keys and values on the command line: measurements by column name, or coordinates.

``HR=80,SpO2=97`` and JSON objects name columns of the memory, which fills and scales them. ``0.5,-1,2``, JSON arrays
and NPY files are coordinates. A memory that scales its columns refuses coordinates: whoever types 80 for a heart rate
does not mean the coordinate 80.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from expunge.errors import InputError, StoreError

if TYPE_CHECKING:
    from expunge.preprocessing import Column, Preprocessing
    from expunge.types import Matrix

__all__ = ["VECTOR_HELP", "KeyArguments", "parse_keys", "parse_values", "parse_vectors"]

VECTOR_HELP = "HR=80,SpO2=97 by column name; or 0.5,-1,2, a JSON array, or @file (.npy, .json, .txt)."

Cells: TypeAlias = dict[str, float | None]


class KeyArguments(NamedTuple):
    """Keys (m, d), and for each of them the names of the columns whose measurement was missing and filled."""

    keys: Matrix
    filled: list[list[str]]

    def note(self, preprocessing: Preprocessing | None) -> str | None:
        """Which fills were used, in a sentence; None where there were none."""
        used = {name for names in self.filled for name in names}
        columns = [] if preprocessing is None else [column for column in preprocessing.keys if column.name in used]
        if not columns:
            return None
        fills = ", ".join(
            f"{column.name}={column.fill:g}{f' {column.unit}' if column.unit else ''}" for column in columns
        )
        return f"Not given, so the memory's fill was used: {fills}"


def parse_keys(texts: Sequence[str], option: str, preprocessing: Preprocessing | None, dimension: int) -> KeyArguments:
    """Read keys, each text one or (from a file) several.

    Raises InputError for texts that are no vectors, for names that are no columns, for a missing measurement without a
    fill, and for coordinates where the memory scales its columns.
    """
    import numpy as np

    from expunge.preprocessing.measurements import as_key_rows, filled_columns

    parts: list[Matrix] = []
    filled: list[list[str]] = []
    for text in texts:
        found = _parse(text, option)
        part = as_key_rows(found, preprocessing, dimension, name=option)
        parts.append(part)
        if isinstance(found, list):
            filled += [filled_columns(cells, preprocessing) for cells in found]
        else:
            _refuse_coordinates(option, () if preprocessing is None else preprocessing.keys)
            filled += [[] for _ in part]
    return KeyArguments(np.vstack(parts), filled)


def parse_vectors(text: str, option: str) -> Matrix:
    """Read coordinates (m, d), finite or not: one vector, or the rows of an array from a file."""
    found = _parse(text, option)
    if isinstance(found, list):
        raise InputError(f"{option}: numbers without names are needed here")
    return found


def parse_values(text: str, option: str, preprocessing: Preprocessing | None) -> Matrix:
    """Read values (m, dv), by column name or in order."""
    import numpy as np

    from expunge.preprocessing.measurements import value_numbers

    return np.asarray(value_numbers(_parse(text, option), preprocessing))


def _refuse_coordinates(option: str, columns: Sequence[Column]) -> None:
    scaled = next((column for column in columns if (column.centre, column.scale) != (0.0, 1.0)), None)
    if scaled is None:
        return
    centres = {column.name: column.centre for column in columns}
    example = ",".join(f"{name}={centre:g}" for name, centre in centres.items())
    if any("," in name for name in centres):
        example = f"'{json.dumps(centres, ensure_ascii=False)}'"
    raise InputError(
        f"{option}: numbers without names are coordinates, and this memory scales its columns: the coordinate of "
        f"{scaled.name} is ({scaled.name} − {scaled.centre:g})/{scaled.scale:g}. Name the measurements: "
        f"{option} {example}"
    )


def _parse(text: str, option: str) -> Matrix | list[Cells]:
    """Coordinates (m, d), finite or not, or measurements by name, None where one is missing."""
    if text.startswith("@"):
        return _from_file(Path(text[1:]), option)
    return _read(text, option, text)


def _read(text: str, option: str, what: str) -> Matrix | list[Cells]:
    start = text.lstrip()[:1]
    if start not in ("[", "{"):
        return _pairs(text, option) if "=" in text else _rows(_numbers(text, option), option)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        shown = what if len(what) <= 40 else what[:37] + "..."
        raise InputError(f"{option}: {shown} is not a JSON array or object ({problem})") from None
    objects = found if isinstance(found, list) else [found]
    if not any(isinstance(item, Mapping) for item in objects):
        return _rows(found, option)
    if not all(isinstance(item, Mapping) for item in objects):
        raise InputError(f"{option}: measurements by name and coordinates do not go into one array")
    return [{name: _cell(cell, name, option) for name, cell in cells.items()} for cells in objects]


def _pairs(text: str, option: str) -> list[Cells]:
    """``HR=80,SpO2=`` as a mapping: an empty measurement is missing."""
    cells: Cells = {}
    for part in text.split(","):
        name, sign, number = (piece.strip() for piece in part.rpartition("="))
        if not sign or not name:
            raise InputError(
                f"{option}: {part.strip()!r} is no NAME=NUMBER; a name with a comma goes into a JSON object"
            )
        if name in cells:
            raise InputError(f"{option}: {name!r} is given twice")
        missing = number.lower() in ("", "na", "null", "none")
        if not missing and not _is_number(number):
            raise InputError(f"{option}: {name} is {number!r}, which is not a number; leave it empty if it is missing")
        cells[name] = None if missing else _cell(float(number), name, option)
    return [cells]


def _cell(cell: Any, name: str, option: str) -> float | None:
    if cell is None:
        return None
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        raise InputError(f"{option}: {name} is {cell!r:.80}, which is not a number; write null if it is missing")
    try:
        return None if math.isnan(cell) else float(cell)
    except OverflowError:
        raise InputError(f"{option}: {name} is too large a number") from None


def _from_file(path: Path, option: str) -> Matrix | list[Cells]:
    import numpy as np

    try:
        if path.suffix == ".npy":
            return _rows(np.load(path, allow_pickle=False), option)
        content = path.read_text(encoding="utf-8")
    except OSError as problem:
        reason = "there is no such file" if isinstance(problem, FileNotFoundError) else problem.strerror or problem
        raise StoreError(f"cannot read {path}: {reason}") from None
    except (ValueError, EOFError) as problem:
        raise InputError(f"{option}: {path} holds no vector ({str(problem).splitlines()[0]})") from None
    return _read(content, option, str(path))


def _numbers(text: str, option: str) -> list[float]:
    parts = text.replace(",", " ").split()
    try:
        return [float(part) for part in parts]
    except ValueError:
        wrong = next(part for part in parts if not _is_number(part))
        raise InputError(f"{option}: {wrong!r} is not a number; write {VECTOR_HELP}") from None


def _is_number(part: str) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


def _rows(found: Any, option: str) -> Matrix:
    import numpy as np

    try:
        array = np.asarray(found, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{option}: not a vector of numbers; write {VECTOR_HELP}") from None
    if array.ndim not in (1, 2) or array.size == 0:
        raise InputError(f"{option}: a vector has one or more numbers, not shape {array.shape}")
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]))
