"""Entries from a file: CSV, TSV, JSON Lines, Parquet, NPY and NPZ, with errors that name row and column.

Columns are picked by name, by pattern (``k*``) or, in a plain array, by number and range (``0:6``). A column of
lists, as JSON Lines, Parquet and NPZ have them, stands for as many coordinates as its lists are long. A column
that one option names outright is left alone by the other options' patterns. Nothing is filled in: an empty cell,
NaN or an infinity where a number is wanted is an error. Rows count from 1, headers excluded.
"""

from __future__ import annotations

import csv
import fnmatch
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any

import numpy as np

from expunge.errors import InputError, MissingExtra, StoreError
from expunge.memory.entries import encode_payload
from expunge.problem.problem import LARGEST
from expunge.types import Matrix

__all__ = ["FORMATS", "Columns", "Table", "read_keys", "read_table"]

FORMATS = ("csv", "tsv", "jsonl", "parquet", "npy", "npz")
_SUFFIXES = {"ndjson": "jsonl", "jsonlines": "jsonl", "pq": "parquet", "tab": "tsv"}
_TEXT = ("csv", "tsv", "jsonl")
_LONGEST_FIELD = 1 << 24


@dataclass(frozen=True)
class Columns:
    """Which columns are what. ``None`` takes the column called ``id``, ``subject`` or ``payload`` if there is one.

    Each is a name or a comma-separated list of names, patterns and ranges; several payload columns make one object.
    """

    keys: str = "k*"
    values: str = "v*"
    id: str | None = None
    subject: str | None = None
    payload: str | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Entries of one file: keys (n, d) and values (n, dv) float64, and one id, subject and payload a row or none."""

    source: str
    keys: Matrix
    values: Matrix
    key_names: tuple[str, ...]
    value_names: tuple[str, ...]
    ids: tuple[str, ...] | None
    subjects: tuple[str | None, ...] | None
    payloads: tuple[Any, ...] | None

    def __len__(self) -> int:
        return int(self.keys.shape[0])

    @property
    def arguments(self) -> dict[str, Any]:
        """What `Memory.fit` and `Store.create` take."""
        return {
            "keys": self.keys,
            "values": self.values,
            "ids": self.ids,
            "subjects": self.subjects,
            "payloads": self.payloads,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """What `Memory.admit` takes, row by row."""
        for row in range(len(self)):
            yield {
                "key": self.keys[row],
                "value": self.values[row],
                "id": None if self.ids is None else self.ids[row],
                "subject": None if self.subjects is None else self.subjects[row],
                "payload": None if self.payloads is None else self.payloads[row],
            }


def read_table(path: str | Path, columns: Columns | None = None, *, kind: str | None = None) -> Table:
    """Read entries from a file, or from standard input when `path` is ``-`` and `kind` says what comes.

    Raises InputError for content, with row and column; StoreError for a file that cannot be read; MissingExtra
    for Parquet without a reader.
    """
    return _table(_read(str(path), kind), Columns() if columns is None else columns)


def read_keys(path: str | Path, columns: str | None = None, *, kind: str | None = None) -> Matrix:
    """Read keys (n, d) alone, from the columns called ``k*``, from those named, or from a whole plain array.

    Raises as `read_table` does.
    """
    frame = _read(str(path), kind)
    wanted = columns or (":" if frame.numbered else Columns.keys)
    return _numbers(frame, _matching(frame, wanted, "key", without=set()))[0]


def _read(name: str, kind: str | None) -> _Frame:
    chosen = _kind(name, kind)
    if chosen == "parquet":
        frame = _parquet(name)
    elif chosen in ("npy", "npz"):
        frame = _arrays(name, chosen)
    else:
        frame = _text(name, chosen)
    if not frame.size:
        raise InputError(f"{name} has no rows")
    return frame


@dataclass(frozen=True, eq=False)
class _Frame:
    """Columns by name, all of one length; ``lines`` says on which line of the file a row ends, if lines there are."""

    source: str
    columns: dict[str, Sequence[Any]]
    size: int
    lines: Sequence[int] | None = None
    numbered: bool = False  # a plain array, whose columns have numbers for names

    def at(self, row: int, column: str | None = None) -> str:
        """Where a cell is, in words."""
        line = "" if self.lines is None else f" (line {self.lines[row]})"
        return f"{self.source}, row {row + 1}{line}" + ("" if column is None else f", column {column!r}")


def _kind(name: str, kind: str | None) -> str:
    if kind is None:
        if name == "-":
            raise InputError(f"say what comes on standard input with --format: {', '.join(_TEXT)}")
        suffix = Path(name).suffix.lower().removeprefix(".")
        kind = _SUFFIXES.get(suffix, suffix)
        if kind not in FORMATS:
            raise InputError(f"{name}: cannot tell the format from {suffix!r}; use --format {'|'.join(FORMATS)}")
    if kind not in FORMATS:
        raise InputError(f"{kind!r} is not a format; use one of {', '.join(FORMATS)}")
    if name == "-" and kind not in _TEXT:
        raise InputError(f"{kind} is read from a file, not from standard input")
    return kind


def _text(name: str, kind: str) -> _Frame:
    read = _json_lines if kind == "jsonl" else _separated
    delimiter = "\t" if kind == "tsv" else ","
    source = "standard input" if name == "-" else name
    try:
        with _opened(name) as file:
            return read(source, file, delimiter)
    except UnicodeDecodeError as problem:
        raise InputError(
            f"{source} is not UTF-8: byte {problem.start} of a block is {problem.object[problem.start]:#04x}"
        ) from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise StoreError(f"cannot read {source}: {_reason(problem)}") from None


def _opened(name: str) -> IO[str]:
    """The text of a file, or of standard input: UTF-8 whatever the locale, without a byte order mark."""
    if name != "-":
        return Path(name).open(encoding="utf-8-sig", newline="")
    if sys.stdin is None:
        raise OSError("it is closed")
    return TextIOWrapper(BytesIO(sys.stdin.buffer.read()), encoding="utf-8-sig", newline="")


def _separated(name: str, file: IO[str], delimiter: str) -> _Frame:
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if not any(header):
            raise InputError(f"{name} has no header: its first line must name the columns")
        for place, column in enumerate(header):
            if column in header[:place]:
                raise InputError(f"{name} has two columns called {column!r}")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{name}, row {len(rows) + 1} (line {reader.line_num}) has {len(cells)} fields, "
                    f"but the header has {len(header)}"
                )
            rows.append(cells)
            lines.append(reader.line_num)
    except csv.Error as problem:
        raise InputError(f"{name}, row {len(rows) + 1} (line {reader.line_num}): {problem}") from None
    return _Frame(name, dict(zip(header, zip(*rows, strict=True), strict=False)), len(rows), lines)


def _json_lines(name: str, file: IO[str], _: str) -> _Frame:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        where = f"{name}, row {len(rows) + 1} (line {number})"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise InputError(f"{where} is not JSON: {problem}") from None
        if not isinstance(row, dict):
            raise InputError(f"{where} is not a JSON object but {_described(row)}")
        rows.append(row)
        lines.append(number)
    names = list(dict.fromkeys(column for row in rows for column in row))
    return _Frame(name, {column: [row.get(column, _ABSENT) for row in rows] for column in names}, len(rows), lines)


def _arrays(name: str, kind: str) -> _Frame:
    try:
        with Path(name).open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            archive = {column: loaded[column] for column in loaded.files} if hasattr(loaded, "files") else None
    except OSError as problem:
        raise StoreError(f"cannot read {name}: {_reason(problem)}") from None
    except Exception as problem:  # NumPy and zipfile raise many kinds on foreign bytes
        raise InputError(f"{name} is not a usable {kind.upper()} file: {_first_line(problem)}") from None
    if archive is not None:
        return _named_arrays(name, archive)
    if kind == "npz":
        raise InputError(f"{name} is not an archive of arrays but one array; call it .npy")
    found: Any = loaded
    if found.dtype.names:
        return _named_arrays(name, {column: found[column] for column in found.dtype.names})
    if found.ndim != 2:
        raise InputError(f"{name} must have two dimensions (rows, columns), not shape {found.shape}")
    columns: dict[str, Sequence[Any]] = {str(place): found[:, place].tolist() for place in range(found.shape[1])}
    return _Frame(name, columns, int(found.shape[0]), numbered=True)


def _named_arrays(name: str, arrays: dict[str, Any]) -> _Frame:
    columns: dict[str, Sequence[Any]] = {}
    size: int | None = None
    for column, array in arrays.items():
        if array.ndim not in (1, 2):
            raise InputError(f"{name}, column {column!r} must have one or two dimensions, not shape {array.shape}")
        if size is not None and array.shape[0] != size:
            raise InputError(f"{name}, column {column!r} has {array.shape[0]} rows, the others have {size}")
        size = int(array.shape[0])
        columns[column] = array.tolist()
    return _Frame(name, columns, size or 0)


def _parquet(name: str) -> _Frame:
    if not Path(name).is_file():
        raise StoreError(f"cannot read {name}: there is no such file")
    if find_spec("polars") is not None:
        polars: Any = import_module("polars")

        def read() -> dict[str, list[Any]]:
            return dict(polars.read_parquet(name).to_dict(as_series=False))
    elif find_spec("pyarrow") is not None:
        arrow: Any = import_module("pyarrow.parquet")

        def read() -> dict[str, list[Any]]:
            return dict(arrow.read_table(name).to_pydict())
    else:
        raise MissingExtra("reading Parquet needs polars or pyarrow: pip install 'expunge[parquet]', or convert to CSV")
    try:
        columns = read()
    except Exception as problem:  # each reader has its own errors
        raise InputError(f"{name} is not a usable Parquet file: {_first_line(problem)}") from None
    return _Frame(name, dict(columns), len(next(iter(columns.values()), [])))


class _Absent:
    """A field that a row does not have."""


_ABSENT = _Absent()


def _table(frame: _Frame, wanted: Columns) -> Table:
    named = {role: _single(frame, getattr(wanted, role), role) for role in ("id", "subject")}
    payload = _payload_columns(frame, wanted.payload)
    roles = {"key": wanted.keys, "value": wanted.values}
    outright = {role: _outright(frame, pattern) for role, pattern in roles.items()}
    others = {column for column in (*named.values(), *payload) if column is not None}
    keys = _matching(frame, wanted.keys, "key", without=others | set(outright["value"]))
    values = _matching(frame, wanted.values, "value", without=others | set(keys))
    key_array, key_names = _numbers(frame, keys)
    value_array, value_names = _numbers(frame, values)
    return Table(
        source=frame.source,
        keys=key_array,
        values=value_array,
        key_names=key_names,
        value_names=value_names,
        ids=None if named["id"] is None else _ids(frame, named["id"]),
        subjects=None if named["subject"] is None else _subjects(frame, named["subject"]),
        payloads=None if not payload else _payloads(frame, payload, single=_is_single(wanted.payload)),
    )


def _parts(pattern: str) -> list[str]:
    return [part.strip() for part in pattern.split(",") if part.strip()]


def _is_pattern(part: str) -> bool:
    return any(sign in part for sign in "*?[")


def _is_single(pattern: str | None) -> bool:
    return pattern is None or (len(_parts(pattern)) == 1 and not _is_pattern(pattern))


def _outright(frame: _Frame, pattern: str) -> list[str]:
    return [part for part in _parts(pattern) if part in frame.columns]


def _matching(frame: _Frame, pattern: str, role: str, *, without: set[str]) -> list[str]:
    """Columns of a role, in the order of the option, and of the file within a pattern."""
    chosen: list[str] = []
    for part in _parts(pattern):
        if part in frame.columns:
            found = [part]
        elif frame.numbered and ":" in part:
            found = _range(frame, part, role)
        elif _is_pattern(part):
            found = [column for column in frame.columns if fnmatch.fnmatchcase(column, part) and column not in without]
        else:
            raise InputError(f"{frame.source} has no column {part!r} (--{role}-columns); {_known(frame)}")
        chosen += [column for column in found if column not in chosen]
    if not chosen:
        hint = f"{role} columns by number, as in --{role}-columns 0:6" if frame.numbered else f"--{role}-columns"
        raise InputError(f"{frame.source} has no column that matches {pattern!r}; name {hint}; {_known(frame)}")
    return chosen


def _range(frame: _Frame, part: str, role: str) -> list[str]:
    first, _, last = part.partition(":")
    try:
        rows = range(len(frame.columns))[slice(int(first) if first else None, int(last) if last else None)]
    except ValueError:
        raise InputError(f"{part!r} is not a range of columns (--{role}-columns); write 0:6") from None
    return [str(place) for place in rows]


def _single(frame: _Frame, name: str | None, role: str) -> str | None:
    if name is None:
        return role if role in frame.columns else None
    if name not in frame.columns:
        raise InputError(f"{frame.source} has no column {name!r} (--{role}-column); {_known(frame)}")
    return name


def _payload_columns(frame: _Frame, pattern: str | None) -> list[str]:
    if pattern is None:
        return ["payload"] if "payload" in frame.columns else []
    return _matching(frame, pattern, "payload", without=set())


def _known(frame: _Frame) -> str:
    names = list(frame.columns)
    shown = ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
    return f"it has {shown}"


def _numbers(frame: _Frame, columns: list[str]) -> tuple[Matrix, tuple[str, ...]]:
    """The numbers of some columns side by side, (n, d), and what each is called."""
    blocks: list[Matrix] = []
    names: list[str] = []
    for column in columns:
        cells = frame.columns[column]
        if isinstance(cells[0], list | tuple):
            width = len(cells[0])
            if not width:
                raise InputError(f"{frame.at(0, column)}: the list is empty")
            block = np.empty((frame.size, width))
            for row, cell in enumerate(cells):
                if not isinstance(cell, list | tuple):
                    raise InputError(f"{frame.at(row, column)}: {_described(cell)}, but row 1 has a list")
                if len(cell) != width:
                    raise InputError(f"{frame.at(row, column)}: {len(cell)} numbers, but row 1 has {width}")
                for place, item in enumerate(cell):
                    block[row, place] = _number(frame, row, f"{column}[{place}]", item)
            names += [f"{column}[{place}]" for place in range(width)]
        else:
            block = np.array([_number(frame, row, column, cell) for row, cell in enumerate(cells)])[:, None]
            names.append(column)
        blocks.append(block)
    return np.ascontiguousarray(np.hstack(blocks)), tuple(names)


def _number(frame: _Frame, row: int, column: str, cell: Any) -> float:
    if isinstance(cell, str):
        if not cell.strip():
            raise InputError(f"{frame.at(row, column)}: the cell is empty, and a number is needed")
        # Underscores are Python's way to write numbers, not a table's.
        try:
            number = float("_" if "_" in cell else cell)
        except ValueError:
            raise InputError(f"{frame.at(row, column)}: {_described(cell)} is not a number") from None
    elif isinstance(cell, bool) or not isinstance(cell, int | float):
        raise InputError(f"{frame.at(row, column)}: {_described(cell)} is not a number")
    else:
        try:
            number = float(cell)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{frame.at(row, column)}: {_described(cell)} is not a finite number")
    if abs(number) > LARGEST:
        raise InputError(f"{frame.at(row, column)}: {_described(cell)} is not below 1e150 in magnitude")
    return number


def _ids(frame: _Frame, column: str) -> tuple[str, ...]:
    first: dict[str, int] = {}
    for row, cell in enumerate(frame.columns[column]):
        name = _name(frame, row, column, cell)
        if name is None:
            raise InputError(f"{frame.at(row, column)}: an id must not be empty")
        if name in first:
            raise InputError(f"{frame.at(row, column)}: id {name!r} is taken by row {first[name] + 1}")
        first[name] = row
    return tuple(first)


def _subjects(frame: _Frame, column: str) -> tuple[str | None, ...]:
    return tuple(_name(frame, row, column, cell) for row, cell in enumerate(frame.columns[column]))


def _name(frame: _Frame, row: int, column: str, cell: Any) -> str | None:
    """Text of an id or a subject; whole numbers count, an empty cell is None."""
    if cell is None or cell is _ABSENT or cell == "":
        return None
    if isinstance(cell, str):
        try:
            cell.encode()
        except UnicodeEncodeError:
            raise InputError(f"{frame.at(row, column)}: {_described(cell)} is not valid Unicode") from None
        return cell
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    raise InputError(f"{frame.at(row, column)}: {_described(cell)} cannot name anything; use text or a whole number")


def _payloads(frame: _Frame, columns: list[str], *, single: bool) -> tuple[Any, ...]:
    def payload(row: int, column: str) -> Any:
        cell = frame.columns[column][row]
        cell = None if cell is _ABSENT else cell
        try:
            encode_payload(cell if single else {column: cell})
        except InputError as problem:
            raise InputError(f"{frame.at(row, column)}: {problem}") from None
        return cell

    if single:
        return tuple(payload(row, columns[0]) for row in range(frame.size))
    return tuple({column: payload(row, column) for column in columns} for row in range(frame.size))


def _described(cell: Any) -> str:
    if cell is _ABSENT:
        return "the missing field"
    if cell is None:
        return "null"
    text = repr(cell)
    return text if len(text) <= 40 else text[:37] + "..."


def _reason(problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return "there is no such file"
    return (problem.strerror or str(problem)) if isinstance(problem, OSError) else str(problem)


def _first_line(problem: Exception) -> str:
    return (str(problem) or type(problem).__name__).splitlines()[0]
