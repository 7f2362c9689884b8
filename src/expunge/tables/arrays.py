"""Columns from binary files: Parquet, NPY and NPZ."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from expunge.errors import InputError, MissingExtra
from expunge.ledger.packed_files import check_unpacked
from expunge.tables.frame import Frame, first_line, named_units

__all__ = ["read_arrays", "read_parquet"]


def read_arrays(source: str, data: bytes, kind: str) -> Frame:
    """Columns of an NPY or NPZ file: by name, or of one plain array, whose columns are called by their numbers."""
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                check_unpacked(packed, len(data))
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        archive = {column: loaded[column] for column in loaded.files} if hasattr(loaded, "files") else None
    except Exception as problem:  # NumPy and zipfile raise many kinds on foreign bytes
        raise InputError(
            f"{source} is not a usable {kind.upper()} file ({first_line(problem)}): save an array of numbers in it"
        ) from None
    if archive is not None:
        return _named(source, archive)
    found: Any = loaded
    if found.dtype.names:
        return _named(source, {column: found[column] for column in found.dtype.names})
    if found.ndim != 2:
        raise InputError(
            f"{source} must have two dimensions (rows, columns), not shape {found.shape}: save array.reshape(rows, -1)"
        )
    columns: dict[str, Sequence[Any]] = {str(place): found[:, place] for place in range(found.shape[1])}
    return Frame(source, columns, int(found.shape[0]), plain=True)


def read_parquet(source: str, data: bytes) -> Frame:
    """Columns of a Parquet file, by polars or pyarrow. Raises MissingExtra where neither is installed."""
    if find_spec("polars") is not None:
        polars: Any = import_module("polars")

        def read() -> dict[str, list[Any]]:
            return dict(polars.read_parquet(io.BytesIO(data)).to_dict(as_series=False))
    elif find_spec("pyarrow") is not None:
        arrow: Any = import_module("pyarrow.parquet")

        def read() -> dict[str, list[Any]]:
            return dict(arrow.read_table(io.BytesIO(data)).to_pydict())
    else:
        raise MissingExtra("reading Parquet needs polars or pyarrow: pip install 'expunge[parquet]', or convert to CSV")
    try:
        found = read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # each reader has its own errors, and polars panics on damaged pages
        raise InputError(f"{source} is not a usable Parquet file ({first_line(problem)}): fetch it again") from None
    names, units = named_units(list(found))
    columns: dict[str, Sequence[Any]] = dict(zip(names, found.values(), strict=True))
    return Frame(source, columns, len(next(iter(columns.values()), [])), units=units)


def _named(source: str, arrays: dict[str, Any]) -> Frame:
    size: int | None = None
    for column, array in arrays.items():
        if array.ndim not in (1, 2):
            raise InputError(f"{source}, column {column!r} must have one or two dimensions, not shape {array.shape}")
        if size is not None and array.shape[0] != size:
            raise InputError(f"{source}, column {column!r} has {array.shape[0]} rows, the others have {size}")
        size = int(array.shape[0])
    names, units = named_units(list(arrays))
    return Frame(source, dict(zip(names, arrays.values(), strict=True)), size or 0, units=units)
