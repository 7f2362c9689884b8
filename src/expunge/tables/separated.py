"""Rows of separated values (CSV, TSV): delimiter, header, row of units and repeated headers, found or named."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

from expunge.errors import InputError
from expunge.tables.frame import Frame, checked_names, named_units, shortened
from expunge.tables.spellings import is_missing, is_number
from expunge.tables.title_lines import comment_lines, ending_totals, first_row, is_title, without_lines

__all__ = ["read_separated"]

_SIGNS = (",", ";", "\t", "|")
_CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "blanks"}
_LONGEST_FIELD = 1 << 24
# Enough of a file to see how it is written.
_HEAD, _SAMPLE = 1 << 16, 50
_LONGEST_UNIT = 15


def read_separated(
    source: str, text: str, separator: str | None, *, tabs: bool, header: bool | None, skip: int | None = None
) -> Frame:
    """Columns of text from separated values.

    Parameters
    ----------
    source, text : str
        Name of the file for messages, and its text.
    separator : str or None
        The delimiter; None finds it.
    tabs : bool
        Whether tabs are meant where there is one column only.
    header : bool or None
        Whether the first line names the columns; None refuses a first line that holds numbers.
    skip : int or None
        How many lines stand above the table; None passes over comments, blank lines and titles.

    Raises InputError for rows of unequal length, a header that is none, and columns with one name.

    """
    csv.field_size_limit(_LONGEST_FIELD)
    skipped = skip or 0
    text = without_lines(text, skipped)
    stated = re.match(r'"?sep=(.)"?\r?\n', text)
    if stated is not None:
        # Excel's own way to say it.
        text, separator, skipped = text[stated.end() :], separator or stated[1], skipped + 1
    notices: list[str] = []
    whole, stated_lines = text, skipped
    if skip is None:
        above = comment_lines(text)
        text, skipped = without_lines(text, above), skipped + above
    if separator is None:
        separator = _separator(source, text, "\t" if tabs else ",")
        if separator != ("\t" if tabs else ","):
            notices.append(f"delimiter: {_CALLED[separator]}; --delimiter names another")
    if skip is None and header is not False:
        above = _above(source, text, separator, skipped)
        text, skipped = without_lines(text, above), skipped + above
    if skipped > stated_lines and whole[: len(whole) - len(text)].strip():
        notices.append(f"the table begins on line {skipped + 1}, below titles or comments; --skip-lines says otherwise")
    rows, lines = _rows(source, text, separator, skipped, named=header is not False)
    if not rows:
        raise InputError(f"{source} is empty: it has no header and no rows")
    first_names = _header(source, rows, header)
    unnamed = frozenset(name for name, cell in zip(first_names, rows[0], strict=True) if not cell.strip())
    if header is not False:
        rows, lines = rows[1:], lines[1:]
    rows, lines, more = _without_repeats(rows, lines, first_names)
    notices += more
    totals = ending_totals(rows)
    if totals:
        kept = len(rows) - len(totals)
        notices.append(
            f"line {lines[kept]} sums up the others ({shortened(totals, 3)}): left out; another word in its first cell "
            "makes it an entry"
        )
        rows, lines = rows[:kept], lines[:kept]
    names, units = named_units(first_names)
    if rows:
        stated_units = _units(names, rows)
        if stated_units:
            notices.append(f"line {lines[0]} holds units, not measurements: {shortened(list(stated_units.values()))}")
            units |= stated_units
            rows, lines = rows[1:], lines[1:]
    columns: dict[str, Sequence[str]] = dict(zip(names, zip(*rows, strict=True), strict=False))
    return Frame(source, columns, len(rows), lines, units=units, unnamed=unnamed, notices=tuple(notices))


def _separator(source: str, text: str, usual: str) -> str:
    """The sign that splits most rows into as many fields as the header, and those fields into numbers."""
    head = text[:_HEAD]
    if len(text) > _HEAD:
        head = head[: head.rfind("\n") + 1] or head
    best, found = (0.5, 0.0, 1), None
    for sign in _SIGNS:
        try:
            rows = [row for row in _reader(head, sign) if any(row)][: _SAMPLE + 1]
        except csv.Error:
            continue
        rows = rows[first_row(rows) :]
        if not rows or len(rows[0]) < 2:
            continue
        width = len(rows[0])
        cells = [cell for row in rows[1:] for cell in row]
        numeric = sum(is_number(cell) or is_missing(cell) for cell in cells) / max(len(cells), 1)
        score = (sum(len(row) == width for row in rows) / len(rows), numeric, width)
        if score > best:
            best, found = score, sign
    if found is None and _has_blanks(head):
        return " "
    return usual if found is None else found


def _has_blanks(head: str) -> bool:
    """Whether blanks separate as many fields in every row, a number among them, below as many names or one less."""
    try:
        header, *rows = [row for row in _reader(head, " ") if row][: _SAMPLE + 1]
    except (csv.Error, ValueError):
        return False
    width = len(rows[0]) if rows else 0
    return (
        len(header) > 1
        and len(header) in (width, width - 1)
        and all(len(row) == width and any(map(is_number, row[1:])) for row in rows)
    )


def _above(source: str, text: str, separator: str, skipped: int) -> int:
    """How many lines above the header are titles. Raises InputError for text above it that may be part of the table."""
    reader = _reader(text[:_HEAD], separator)
    rows: list[list[str]] = []
    # Line above each row.
    lines: list[int] = []
    above = 0
    try:
        for row in reader:
            if any(row):
                rows.append(row)
                lines.append(above)
            above = reader.line_num
            if len(rows) > _SAMPLE:
                break
    except csv.Error:
        return 0
    place = first_row(rows)
    # R writes the names of rows, and no name above them.
    if not place or (separator == " " and place == 1 and len(rows[0]) == len(rows[1]) - 1):
        return 0
    above = lines[place]
    if not all(map(is_title, rows[:place])):
        raise InputError(
            f"{source}: the table seems to begin on line {skipped + above + 1}, with {shortened(rows[place], 4)}: say "
            f"--skip-lines {skipped + above}"
        )
    return above


def _reader(text: str, separator: str, *, strict: bool = False) -> Any:
    """Rows of fields; blanks behind a separator belong to none, so that a quotation mark after them opens a field."""
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=strict)


def _rows(source: str, text: str, separator: str, skipped: int, *, named: bool) -> tuple[list[list[str]], list[int]]:
    """Rows with a cell in them, and the line on which each ends; the first is as long as every other."""
    reader = _reader(text, separator, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            if not any(cells):
                # Spreadsheets write rows of empty cells below a table.
                continue
            if separator == " " and named and len(rows) == 1 and len(cells) == len(rows[0]) + 1 > 2:
                # R writes the names of rows, and no name above them.
                rows[0].insert(0, "")
            if rows and len(cells) != len(rows[0]):
                signs = _CALLED.get(separator, repr(separator))
                mend = (
                    "if text stands above the header, --skip-lines says how many lines it has"
                    if named and len(rows) == 1 and len(rows[0]) < len(cells)
                    else "mend the line or cut it off, or name another --delimiter"
                )
                raise InputError(
                    f"{source}, row {len(rows) + (not named)} (line {reader.line_num + skipped}) has {len(cells)} "
                    f"fields, but {'the header' if named else 'the first row'} has {len(rows[0])}, separated by "
                    f"{signs}; {mend}"
                )
            rows.append(cells)
            lines.append(reader.line_num + skipped)
    except csv.Error as problem:
        if str(problem) == "unexpected end of data":
            begins = (lines[-1] if lines else skipped) + 1
            raise InputError(
                f"{source}, row {len(rows) + (not named)} (line {begins}): a quotation mark opens a field there, and "
                "none closes it; add one, or take that one out"
            ) from None
        where = f"row {len(rows) + (not named)} (line {reader.line_num + skipped})"
        signs = _CALLED.get(separator, repr(separator))
        raise InputError(
            f"{source}, {where}: {problem}. Columns were taken to be separated by {signs}: mend the quotation marks, "
            "or name another --delimiter"
        ) from None
    return rows, lines


def _header(source: str, rows: list[list[str]], given: bool | None) -> list[str]:
    """Names of the columns; of those without one their number."""
    first = [cell.strip() for cell in rows[0]]
    if given is False:
        return [str(place) for place in range(len(first))]
    if given is None and _holds_numbers(first):
        raise InputError(
            f"{source} has no header: its first line holds numbers ({shortened(first, 4)}). Add a line with names "
            "above it, or say --no-header, which calls the columns 0, 1, 2, …"
        )
    names = [name or f"column {place}" for place, name in enumerate(first, 1)]
    checked_names(source, names)
    return names


def _holds_numbers(first: list[str]) -> bool:
    """Whether a first line is no header: numbers alone, or one with a fraction; 0, 1, 2, … are names of columns."""
    named = [cell for cell in first if cell]
    if named == [str(place) for place in range(len(named))] and len(named) > 1:
        return False
    numbers = [cell for cell in named if is_number(cell)]
    return bool(numbers) and (len(numbers) == len(named) or any(not cell.lstrip("+-").isdecimal() for cell in numbers))


def _without_repeats(
    rows: list[list[str]], lines: list[int], names: list[str]
) -> tuple[list[list[str]], list[int], list[str]]:
    """Rows that are not the header again, as in files that were joined."""
    repeated = [
        place for place, row in enumerate(rows) if row[0].strip() == names[0] and [c.strip() for c in row] == names
    ]
    if not repeated or len(set(names)) != len(names):
        return rows, lines, []
    gone = set(repeated)
    shown = shortened([str(lines[place]) for place in repeated], 5)
    return (
        [row for place, row in enumerate(rows) if place not in gone],
        [line for place, line in enumerate(lines) if place not in gone],
        [f"{len(repeated)} repeated header(s) passed over: line {shown}"],
    )


def _units(names: list[str], rows: list[list[str]]) -> dict[str, str]:
    """Units by column, where the first row holds no numbers and the rows below it do."""
    first, sample = rows[0], rows[1 : _SAMPLE + 1]
    units: dict[str, str] = {}
    measured = 0
    for place, name in enumerate(names):
        cells = [row[place] for row in sample if not is_missing(row[place])]
        if not cells or not all(map(is_number, cells)):
            continue
        measured += 1
        cell = first[place].strip()
        if is_number(cell):
            return {}
        if cell and not is_missing(cell):
            if len(cell) > _LONGEST_UNIT:
                return {}
            bracketed = cell[0] + cell[-1] in ("[]", "()")
            units[name] = cell[1:-1].strip() if bracketed else cell
    return units if len(units) >= 2 and 2 * len(units) >= measured else {}
