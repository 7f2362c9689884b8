"""How tables spell numbers, missing numbers, truth values and times."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

__all__ = [
    "TIME",
    "TRUTHS",
    "either_mark",
    "grouped_number",
    "is_missing",
    "is_number",
    "parsed_number",
    "thousands",
    "unit_of",
    "with_comma",
    "without_unit",
]

_MISSING = frozenset(
    [
        "",
        "na",
        "n/a",
        "#n/a",
        "#na",
        "#n/a n/a",
        "<na>",
        "nan",
        "-nan",
        "#nan",
        "null",
        "(null)",
        "none",
        "nil",
        "\\n",
        "-",
        "--",
        "—",
        "–",
        ".",
        "?",
        "missing",
        "#null!",
        "#div/0!",
        "#value!",
    ]
)
# Pairs of spellings; a column of truth values has both of one pair, or one of them.
TRUTHS = tuple(
    frozenset(pair)
    for pair in (
        ("true", "false"),
        ("t", "f"),
        ("yes", "no"),
        ("y", "n"),
        ("ja", "nein"),
        ("oui", "non"),
        ("on", "off"),
    )
)
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?(\s?[AaPp][Mm])?"
_ZONE = r"\s?(Z|UTC|[+-]\d{2}:?\d{2})?"
_DAY = (
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}"
    r"|[A-Za-z]{3,9} \d{1,2},? \d{4})"
)
TIME = re.compile(rf"\s*({_DAY}([T ]\s?{_CLOCK}{_ZONE})?|{_CLOCK}{_ZONE})\s*")
_GROUPS = re.compile(
    r"[+\u2212-]?[1-9]\d{0,2}(?P<sign>[,. '\u00a0\u202f\u2019])\d{3}((?P=sign)\d{3})*((?P<mark>[.,])\d+)?"
)
_EITHER = re.compile(r"[+\u2212-]?[1-9]\d{0,2},\d{3}")
_MEASURED = re.compile(
    r"(?P<minus>[+\u2212-]?)(?P<sign>[€$£¥₹]) ?(?P<priced>[+\u2212-]?[\d.,]*\d)"
    r"|(?P<number>[+\u2212-]?[\d.,]*\d([eE][+-]?\d+)?)"
    r"( ?(?P<behind>[%‰°€$£¥₹])| (?P<word>[A-Za-zµ°][A-Za-zµ°/%0-9]{0,7}))"
)
# Words behind a number that are no unit: it is a time or a day.
_NO_UNIT = re.compile(
    r"[AaPp][Mm]|(?i:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-zé]*|[Uu]hr|h\d.*"
)
_COMMA = re.compile(
    r"[+\u2212-]?(\d*|[1-9]\d{0,2}(?P<sign>[. '\u00a0\u202f\u2019])\d{3}((?P=sign)\d{3})*),\d+([eE][+-]?\d+)?"
)


def unit_of(cells: Iterable[str]) -> str | None:
    """The unit that is written behind or before the number of every cell: ``%``, ``€`` or, after a blank, a word."""
    found = [without_unit(cell) for cell in cells]
    units = {None if one is None else one[1] for one in found}
    return units.pop() if len(units) == 1 else None


def without_unit(cell: str) -> tuple[str, str] | None:
    """The number of a cell as it is written, and its unit; None for a cell that is no number with one unit."""
    found = _MEASURED.fullmatch(cell.strip())
    if found is None or (found["word"] is not None and _NO_UNIT.fullmatch(found["word"])):
        return None
    if found["sign"] is not None:
        return found["minus"] + found["priced"], found["sign"]
    return found["number"], found["behind"] or found["word"]


def is_missing(cell: str) -> bool:
    """Whether a cell spells a missing number: empty, NA, N/A, null, None, NaN, a dash, a question mark."""
    return cell.strip().lower() in _MISSING


def is_number(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or comma, and with or without thousands separators."""
    return parsed_number(cell, ".") is not None or with_comma(cell) or thousands(cell)


def parsed_number(cell: str, decimal: str) -> float | None:
    """The number that a cell without thousands separators spells, infinities included; None for other text and nan."""
    # Underscores are Python's way to write numbers, not a table's.
    if "_" in cell:
        return None
    # The minus of typesetters, which some spreadsheets write.
    cell = cell.replace("\N{MINUS SIGN}", "-")
    if decimal == ",":
        if "." in cell:
            return None
        cell = cell.replace(",", ".")
    try:
        number = float(cell)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def grouped_number(cell: str, decimal: str) -> float | None:
    """The number that a cell with thousands separators spells: 1,234.5 or 1'234 with a point; None for other text."""
    found = _GROUPS.fullmatch(cell.strip())
    if found is None or found["sign"] == decimal or found["mark"] not in (None, decimal):
        return None
    return parsed_number(cell.strip().replace(found["sign"], ""), decimal)


def thousands(cell: str) -> bool:
    """Whether a cell looks like a number with thousands separators."""
    return _GROUPS.fullmatch(cell.strip()) is not None


def either_mark(cell: str) -> bool:
    """Whether the comma of a cell may be decimal or a thousands separator, as in 1,234."""
    return _EITHER.fullmatch(cell.strip()) is not None


def with_comma(cell: str) -> bool:
    """Whether a cell looks like a number with a decimal comma."""
    return _COMMA.fullmatch(cell.strip()) is not None
