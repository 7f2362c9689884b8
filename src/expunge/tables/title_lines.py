"""Lines above the header of a table, as exports write them, and rows below it that sum up the others.

Comment lines, blank lines and titles of one cell are passed over. Other text above a table is not guessed at: the error
says on which line the table seems to begin, and which option skips what stands above.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from expunge.tables.spellings import is_number

__all__ = ["comment_lines", "ending_totals", "first_row", "is_title", "without_lines"]

# Words that begin a row of sums or means, in the languages that spreadsheets here are written in.
_TOTALS = re.compile(
    r"(grand |sub-?)?total(e|es|en)?|sums?|summen?|zwischensumme|gesamt|insgesamt|somme|suma|soma|averages?|means?"
    r"|mittelwert|durchschnitt|moyenne|media|média|promedio|итого|всего|合计|总计|合計",
    re.IGNORECASE,
)
_SIGNS = ",;\t|"
# Rows of which one width is the table's: fewer may be a coincidence.
_FEWEST = 2


def without_lines(text: str, count: int) -> str:
    """The text behind its first lines, however these end."""
    for _ in range(count):
        found = re.search(r"\r\n|\n|\r", text)
        text = "" if found is None else text[found.end() :]
    return text


def comment_lines(text: str) -> int:
    """How many lines at the beginning are blank or begin with ``#``; a header that begins with it is none of them."""
    lines = re.split(r"\r\n|\n|\r", text[: 1 << 16])
    count = next((place for place, line in enumerate(lines) if line.strip() and line[0] != "#"), 0)
    last = next((place for place in range(count - 1, -1, -1) if lines[place].strip()), None)
    if last is None:
        return 0
    return last if _names(lines[last].lstrip("#"), lines[count]) else count


def _names(comment: str, row: str) -> bool:
    """Whether a comment has as many fields as the row below it, and that row has a number."""
    for sign in _SIGNS:
        if row.count(sign) == comment.count(sign) > 0:
            return any(map(is_number, row.split(sign)))
    return len(row.split()) == len(comment.split()) > 1 and any(map(is_number, row.split()))


def first_row(rows: Sequence[Sequence[str]]) -> int:
    """Place of the row that is the header of most rows below it; 0 where nothing stands above a header.

    The rows above have fewer fields, or one cell alone among empty ones. The header has names and no numbers.
    """
    ((width, count),) = Counter(map(len, rows)).most_common(1) or [(0, 0)]
    if width < 2 or count < _FEWEST:
        return 0
    place = next(place for place, row in enumerate(rows) if len(row) == width)
    if any(len(row) > width for row in rows[:place]):
        return 0
    # Titles may have empty cells beside them, and are then as wide as the table.
    below = next((later for later in range(place, len(rows)) if not is_title(rows[later])), place)
    if below + 1 < len(rows) and any(map(is_number, rows[below + 1])):
        place = below
    header = [cell for cell in rows[place] if cell.strip()]
    return place if len(header) > 1 and not any(map(is_number, header)) else 0


def is_title(row: Sequence[str]) -> bool:
    """Whether a row is a comment, or has one cell alone."""
    return row[0].startswith("#") or sum(bool(cell.strip()) for cell in row) <= 1


def ending_totals(rows: Sequence[Sequence[str]]) -> list[str]:
    """First cells of the rows at the end of a table that sum up the others: Total, Summe, Mean."""
    found: list[str] = []
    for row in reversed(rows[1:]):
        first = next((cell.strip() for cell in row if cell.strip()), "")
        if not _TOTALS.fullmatch(first.rstrip(":. ")):
            break
        found.insert(0, first)
    return found
