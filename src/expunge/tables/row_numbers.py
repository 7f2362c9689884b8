"""Columns without a name that hold nothing or number the rows, as the index of a data frame does when it is saved."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from expunge.tables.frame import Frame

__all__ = ["without_row_numbers"]

# How pandas calls an index without a name, in Parquet, and in CSV that was saved, read and saved again.
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+(\.\d+)?")


def without_row_numbers(frame: Frame, asked: Collection[str]) -> Frame:
    """Leave out columns without a name that are empty, or have another whole number in every row, with a notice.

    The numbers need not count from 0: those of a frame that was filtered or sorted have gaps. Columns in `asked` stay,
    because the caller named them.
    """
    gone, notices = [], []
    for name, cells in frame.columns.items():
        if name in asked or not (name in frame.unnamed or _INDEX.fullmatch(name)):
            continue
        called = f"{name} has no name and" if name in frame.unnamed else f"{name} is what pandas calls an index: it"
        if not any(cell not in (None, "") for cell in cells):
            gone.append(name)
            notices.append(f"{called} has no cells: left out")
        elif len(frame.columns) > 1 and _numbers_rows(cells):
            gone.append(name)
            notices.append(f"{called} numbers the rows: left out; --id-column '{name}' takes it for ids")
    columns = {name: cells for name, cells in frame.columns.items() if name not in gone}
    return replace(frame, columns=columns, notices=(*frame.notices, *notices))


def _numbers_rows(cells: Sequence[Any]) -> bool:
    texts = {str(cell).strip() for cell in cells}
    return len(texts) == len(cells) and all(text.isdecimal() for text in texts)
