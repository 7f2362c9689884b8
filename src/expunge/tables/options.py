"""What a caller may say about a table; everything else is detected or guessed, with a notice."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from expunge.errors import InputError
from expunge.preprocessing import Preprocessing
from expunge.tables.column_names import listed

__all__ = ["DELIMITERS", "FORMATS", "Missing", "Scaling", "TableOptions"]

FORMATS = ("csv", "tsv", "jsonl", "json", "parquet", "npy", "npz")
# What --delimiter takes, by name where the sign is awkward on a command line.
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "blank": " ", "\\t": "\t"}
Missing = Literal["median", "drop", "refuse"]
Scaling = Literal["auto", "none"]
_CHOICES = {
    "missing": ("median", "drop", "refuse"),
    "scale": ("auto", "none"),
    "decimal": ("point", "comma"),
    "format": FORMATS,
}


@dataclass(frozen=True)
class TableOptions:
    """How to read a table. ``None`` everywhere: detect it, or guess it and say so.

    Parameters
    ----------
    keys, values, payload, leave_out : str or None
        A name, or names, patterns (``lab_*``) and, for a plain array, ranges (``0:6``), separated by commas. Several
        payload columns make one object per entry. Columns in `leave_out` are not read.
    id, subject : str or None
        The name of a column. ``"none"``, as for `payload`, says that there is none.
    expires, sources : str or None
        The name of a column that says when each entry ends, or what it was made from. None is guessed.
    missing : {"median", "drop", "refuse"} or None
        What to do about missing numbers: fill in the column's median on the coarse grid, drop the row, or raise. None
        is the median, except for a column of which more than three quarters are missing, which raises.
    also_missing : str or None
        Further spellings of a missing number, separated by commas: ``-999,<0.5``.
    scale : {"auto", "none"} or None
        Whether measurements are centred and scaled. None and ``auto`` scale named columns of measurements; lists, plain
        arrays and the columns ``k0``, ``k1``, … are taken as they are.
    preprocessing : Preprocessing or None
        Columns with their centre, scale and fill, of a memory or of the caller, instead of chosen ones.
    format, encoding, delimiter, decimal : str or None
        As in `FORMATS`; a name as Python knows it; one character; ``"point"`` or ``"comma"``.
    header : bool or None
        Whether the first line names the columns.
    skip_lines : int or None
        How many lines stand above the header. None passes over comments, blank lines and titles of one cell.

    """

    keys: str | None = None
    values: str | None = None
    id: str | None = None
    subject: str | None = None
    expires: str | None = None
    sources: str | None = None
    payload: str | None = None
    leave_out: str | None = None
    missing: Missing | None = None
    also_missing: str | None = None
    scale: Scaling | None = None
    preprocessing: Preprocessing | None = None
    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    header: bool | None = None
    skip_lines: int | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            given = getattr(self, name)
            if given is not None and given not in choices:
                raise InputError(f"--{name} is {' or '.join(choices)}, not {given!r}")
        if self.delimiter is not None and len(self.separator or "") != 1:
            raise InputError(f"--delimiter is one character, or one of {', '.join(DELIMITERS)}, not {self.delimiter!r}")
        if self.skip_lines is not None and self.skip_lines < 0:
            raise InputError(f"--skip-lines is a number of lines, 0 or more, not {self.skip_lines}")
        if self.preprocessing is not None and (self.keys is not None or self.values is not None):
            raise InputError("the key and value columns are given already: leave out --key-columns and --value-columns")

    @property
    def named(self) -> frozenset[str]:
        """Columns that the caller names, and no others that a pattern would match."""
        given = [self.keys, self.values, self.id, self.subject, self.expires, self.sources, self.payload]
        columns = () if self.preprocessing is None else (*self.preprocessing.keys, *self.preprocessing.values)
        return frozenset([*listed(",".join(filter(None, given))), *(column.name for column in columns)])

    def as_written(self, columns: Iterable[str]) -> frozenset[str]:
        """Columns whose cells the caller wants as text: ids, subjects, ends, sources and payload."""
        given = [self.id, self.subject, self.expires, self.sources, *listed(self.payload or "")]
        patterns = [pattern for pattern in given if pattern is not None]
        return frozenset(name for name in columns if any(fnmatch.fnmatchcase(name, each) for each in patterns))

    @property
    def separator(self) -> str | None:
        """The delimiter as a character."""
        return None if self.delimiter is None else DELIMITERS.get(self.delimiter, self.delimiter)
