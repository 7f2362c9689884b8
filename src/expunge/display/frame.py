"""A data frame of named columns, in whichever of pandas and polars is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from expunge.errors import InputError, MissingExtra

__all__ = ["Frame", "Library", "data_frame"]

Library = Literal["pandas", "polars"]
# A pandas or a polars DataFrame; neither is needed to import expunge.
Frame: TypeAlias = Any

LIBRARIES: Final[tuple[Library, ...]] = ("pandas", "polars")


def data_frame(columns: Mapping[str, Sequence[Any]], library: Library | None = None) -> Frame:
    """Columns of equal length as a data frame of a library, or of the one that is installed, pandas first.

    Raises MissingExtra where the library, or without a name both, are not installed.
    """
    if library is not None and library not in LIBRARIES:
        raise InputError(f'library must be "pandas" or "polars", not {library!r}')
    for name in LIBRARIES if library is None else (library,):
        try:
            return import_module(name).DataFrame(dict(columns))
        except ModuleNotFoundError as problem:
            if problem.name != name:
                raise
    wanted = " or ".join(LIBRARIES) if library is None else library
    extra = "parquet" if library == "polars" else "pandas"
    raise MissingExtra(f"a data frame needs {wanted}: pip install 'expunge[{extra}]'")
