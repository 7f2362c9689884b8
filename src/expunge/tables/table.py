"""Entries of one file: keys, values, ids, subjects and payloads, with the preprocessing that made the keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from expunge.errors import InputError
from expunge.preprocessing import Preprocessing
from expunge.tables.arrays import read_arrays, read_parquet
from expunge.tables.cell_units import without_cell_units
from expunge.tables.cells import Cells, decimal_mark, read_cells
from expunge.tables.column_names import listed, matching
from expunge.tables.column_summary import ColumnSummary, summaries
from expunge.tables.encoding import decoded
from expunge.tables.entry_columns import ends_of, ids_of, payloads_of, sources_of, subjects_of
from expunge.tables.file_content import read_content
from expunge.tables.frame import Frame
from expunge.tables.json_rows import read_json, read_json_lines
from expunge.tables.measurements import Measurements, measured
from expunge.tables.options import TableOptions
from expunge.tables.roles import Roles, assigned_roles
from expunge.tables.row_numbers import without_row_numbers
from expunge.tables.separated import read_separated
from expunge.types import IndexArray, Matrix

__all__ = ["ColumnSummary", "Table", "read_table"]


@dataclass(frozen=True, eq=False)
class Table:
    """Entries of one file.

    Parameters
    ----------
    source : str
        The file, for messages.
    measurements : Matrix
        Key columns as the file has them, (n, d) float64, NaN where one is missing.
    value_measurements : Matrix
        Value columns likewise, (n, dv).
    preprocessing : Preprocessing
        Columns in order with centre, scale and fill.
    named : bool
        Whether a key or a value has a name of its own; False for a plain array and for lists, whose coordinates have
        none, and whose preprocessing no memory needs.
    rows : IndexArray
        Row of the file of each entry, from 1: rows may have been dropped.
    ids, subjects, payloads, expires, sources : tuple or None
        One per entry, or None where the file has none.
    notices : tuple of str
        What was detected, guessed, filled in or left out.
    columns : tuple of ColumnSummary
        Every column of the file.

    """

    source: str
    measurements: Matrix
    value_measurements: Matrix
    preprocessing: Preprocessing
    named: bool
    rows: IndexArray
    ids: tuple[str, ...] | None
    subjects: tuple[str | None, ...] | None
    payloads: tuple[Any, ...] | None
    expires: tuple[datetime | None, ...] | None
    sources: tuple[list[Any], ...] | None
    notices: tuple[str, ...]
    columns: tuple[ColumnSummary, ...]

    def __len__(self) -> int:
        return int(self.measurements.shape[0])

    @cached_property
    def keys(self) -> Matrix:
        """Key coordinates (n, d) float64: filled, centred and scaled."""
        return self.preprocessing.to_keys(self.measurements)

    @cached_property
    def values(self) -> Matrix:
        """Values (n, dv) float64, filled."""
        return self.preprocessing.to_values(self.value_measurements)

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key columns, in order."""
        return tuple(column.name for column in self.preprocessing.keys)

    @property
    def value_names(self) -> tuple[str, ...]:
        """Names of the value columns, in order."""
        return tuple(column.name for column in self.preprocessing.values)

    @property
    def arguments(self) -> dict[str, Any]:
        """What `Memory.fit` and `Store.create` take."""
        return {
            "keys": self.keys,
            "values": self.values,
            "ids": self.ids,
            "subjects": self.subjects,
            "payloads": self.payloads,
            "expires": self.expires,
            "derived_from": self.sources,
            "preprocessing": self.preprocessing if self.named else None,
        }

    @property
    def named_by_subject(self) -> bool:
        """Whether the column that says whose entry a row is names the row, too."""
        return self.ids is not None and self.ids == self.subjects

    def without_ids(self) -> Table:
        """The same without ids, and with a notice of it."""
        notices = [notice for notice in self.notices if not notice.startswith("ids: ")]
        return replace(self, ids=None, notices=(*notices, "ids: random, as the memory has several entries per subject"))

    def entries(self) -> Iterator[dict[str, Any]]:
        """What `Memory.admit` takes, entry by entry."""
        for place in range(len(self)):
            yield {
                "key": self.keys[place],
                "value": self.values[place],
                "id": None if self.ids is None else self.ids[place],
                "subject": None if self.subjects is None else self.subjects[place],
                "payload": None if self.payloads is None else self.payloads[place],
                "expires": None if self.expires is None else self.expires[place],
                "derived_from": () if self.sources is None else self.sources[place],
            }


def read_table(path: str | Path, options: TableOptions | None = None) -> Table:
    """Read entries from a file, or from standard input where `path` is ``-``.

    Parameters
    ----------
    path : str or Path
        CSV, TSV, JSON Lines, JSON, Parquet, NPY or NPZ; text may be packed with gzip.
    options : TableOptions or None
        What the caller says about the table.

    Returns
    -------
    Table
        The entries, with a notice of everything that was guessed.

    Raises
    ------
    InputError
        For content, with row, line and column, and with the option that decides.
    StoreError
        For a file that cannot be read.
    MissingExtra
        For Parquet without a reader.

    """
    wanted = TableOptions() if options is None else options
    frame = _read(str(path), wanted)
    if not frame.size:
        raise InputError(
            f"{frame.source} has no rows below its header; an empty memory is made without a file, with --dimension "
            "and --value-dimension"
        )
    if wanted.leave_out is not None:
        gone = matching(frame, wanted.leave_out, "--leave-out")
        frame = replace(frame, columns={name: cells for name, cells in frame.columns.items() if name not in gone})
    frame = without_row_numbers(frame, wanted.named)
    spelled = frozenset(listed(wanted.also_missing or ""))
    frame = without_cell_units(frame, wanted.as_written(frame.columns), spelled, wanted.decimal)
    mark = decimal_mark(frame, wanted.decimal)
    if mark == ",":
        frame = replace(frame, notices=(*frame.notices, "numbers: decimal comma; --decimal point reads them otherwise"))
    cells = {name: read_cells(frame, name, mark, spelled) for name in frame.columns}
    roles = assigned_roles(frame, cells, wanted)
    found = measured(frame, cells, roles, wanted)
    return _table(frame, cells, roles, found)


def _table(frame: Frame, cells: Mapping[str, Cells], roles: Roles, found: Measurements) -> Table:
    kept = found.kept
    notices = [*frame.notices, *roles.notices, *found.notices]
    subjects = None if roles.subject is None else subjects_of(frame, roles.subject, kept)
    if subjects is not None and None in subjects:
        notices.append(f"{subjects.count(None)} entries have no subject: erasing a person cannot find them")
    return Table(
        source=frame.source,
        measurements=found.keys[kept],
        value_measurements=found.values[kept],
        preprocessing=found.preprocessing,
        named=any(cells[name].kind != "list" for name in (*roles.keys, *roles.values)) and not frame.plain,
        rows=kept + 1,
        ids=None if roles.id is None else ids_of(frame, roles.id, kept),
        subjects=subjects,
        payloads=payloads_of(frame, roles.payload, kept, single=roles.single) if roles.payload else None,
        expires=None if roles.expires is None else ends_of(frame, roles.expires, kept),
        sources=None if roles.sources is None else sources_of(frame, roles.sources, kept),
        notices=tuple(notices),
        columns=summaries(frame, cells, roles, found.preprocessing),
    )


def _read(name: str, options: TableOptions) -> Frame:
    content = read_content(name, options.format)
    source, data = content.source, content.data
    if content.format == "parquet":
        return read_parquet(source, data)
    if content.format in ("npy", "npz"):
        return read_arrays(source, data, content.format)
    text, notice = decoded(source, data, options.encoding)
    if content.format == "jsonl":
        frame = read_json_lines(source, text)
    elif content.format == "json":
        frame = read_json(source, text)
    else:
        tabs = content.format == "tsv"
        frame = read_separated(
            source, text, options.separator, tabs=tabs, header=options.header, skip=options.skip_lines
        )
    return frame if notice is None else replace(frame, notices=(notice, *frame.notices))
