"""What each column is for: key, value, id, subject or payload, as the caller says or guessed with a notice.

Guesses, in this order:

1. The *subject* is the column whose name speaks of a person (``patient``, ``subject_id``, ``user``).
2. The *id* is a column called ``id``, one with an id-like name and another cell in every row, or the first column where
   it counts without a gap and its name says so in another language (``Nummer``, ``número``, ``序号``).
3. *Keys* are the columns ``k0``, ``k1``, …; else a list of numbers; else every other column of numbers.
4. *Values* are the columns ``v0``, ``v1``, …; beside a list of numbers the other columns of numbers; else the keys' own
   measurements, so that a readout gives typical measurements.
5. Every other column is *payload*: text, times, truth values, categories, constants.

Numbers that are times or ids by name are never keys, and no pattern takes a column that it does not spell out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from expunge.errors import InputError
from expunge.tables.cells import Cells
from expunge.tables.column_names import is_id, is_row_number, is_time, listed, matching, named_id, numbered, person_rank
from expunge.tables.frame import Frame, shortened
from expunge.tables.options import TableOptions
from expunge.tables.wrong_cells import no_numbers, not_numbers, units_in_cells

__all__ = ["OWN_VALUES", "Roles", "assigned_roles"]

NONE = "none"
OWN_VALUES = "values: the keys' own measurements, so that a readout is typical of them; --value-columns names others"
_LISTS = ("key", "keys", "k", "embedding", "embeddings", "vector", "vectors")
_VALUES = ("value", "values", "v")
# Whole numbers of which a table of some size has so few different ones may be codes of kinds.
_KINDS, _SOME = 5, 30
# Fewer rows may have heart rates of 80, 81 and 82 without counting anything.
_COUNTED = 8


@dataclass(frozen=True)
class Roles:
    """Names of columns by role. ``single`` says that a payload is one column's cell, not an object.

    ``own_values`` says that the values are the keys' own measurements, as no other column was named.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    id: str | None
    subject: str | None
    expires: str | None
    sources: str | None
    payload: tuple[str, ...]
    single: bool
    left_out: tuple[str, ...]
    notices: tuple[str, ...]

    def of(self, name: str) -> str:
        """The roles of a column, in words."""
        columns = {
            "key": self.keys,
            "value": self.values,
            "id": (self.id,),
            "subject": (self.subject,),
            "end": (self.expires,),
            "sources": (self.sources,),
            "payload": self.payload,
        }
        return ", ".join(role for role, names in columns.items() if name in names) or "left out"


def assigned_roles(frame: Frame, cells: Mapping[str, Cells], options: TableOptions) -> Roles:
    """Roles of the columns of a frame. Raises InputError where the caller must choose, and names the option."""
    notices: list[str] = []
    subject = _subject(frame, cells, options, notices)
    id_ = _id(frame, cells, options, subject, notices)
    payload = [] if options.payload in (None, NONE) else matching(frame, options.payload, "--payload-column")
    if options.payload is None and "payload" in frame.columns:
        payload = ["payload"]
    expires = None if options.expires is None else _single_column(frame, options.expires, "--expires-column")
    sources = None if options.sources is None else _single_column(frame, options.sources, "--sources-column")
    taken = [name for name in (subject, id_, expires, sources, *payload) if name is not None]
    values = _named_values(frame, options, taken)
    keys, constant = _keys(frame, cells, options, [*taken, *values], notices)
    if not keys:
        raise (
            InputError(f"{frame.source} has no column left for the keys: name some with --key-columns")
            if values
            else no_numbers(frame, cells)
        )
    if not values:
        values = _values(cells, keys, [*taken, *keys, *constant], notices)
    units_in_cells(frame, cells, list(dict.fromkeys((*keys, *values))))
    for name in dict.fromkeys((*keys, *values)):
        chosen = options.keys is not None or (options.values is not None and name in values)
        not_numbers(frame, cells[name], chosen=chosen)
    rest = [name for name in frame.columns if name not in (*taken, *keys, *values)]
    kept, left_out = _rest(cells, rest, options, bool(payload), constant, notices)
    single = _single(options.payload) if payload else False
    return Roles(
        tuple(keys),
        tuple(values),
        id_,
        subject,
        expires,
        sources,
        tuple(payload or kept),
        single,
        tuple(left_out),
        tuple(notices),
    )


def _subject(frame: Frame, cells: Mapping[str, Cells], options: TableOptions, notices: list[str]) -> str | None:
    if options.subject is not None:
        return _single_column(frame, options.subject, "--subject-column")
    if "subject" in frame.columns:
        return "subject"
    ranks = {}
    for name, column in cells.items():
        number = column.kind == "number"
        if (number and column.whole) or column.kind in ("text", "mixed"):
            ranks[name] = person_rank(name, number=number)
    found = sorted((rank, name) for name, rank in ranks.items() if rank is not None)
    if not found:
        return None
    subject = found[0][1]
    notices.append(
        f"subjects: column {subject!r} says whose entry a row is ({cells[subject].distinct} different); "
        "--subject-column names another, or none"
    )
    return subject


def _id(
    frame: Frame, cells: Mapping[str, Cells], options: TableOptions, subject: str | None, notices: list[str]
) -> str | None:
    if options.id is not None:
        return _single_column(frame, options.id, "--id-column")
    if "id" in frame.columns and options.subject != "id":
        return "id"
    unique = [
        name
        for name, column in cells.items()
        if column.missing == 0
        and column.distinct == frame.size
        and ((column.kind == "number" and column.whole) or column.kind in ("text", "mixed"))
        and (is_id(name) or name == subject)
    ]
    first = next(iter(cells), None)
    if not unique and first is not None and is_row_number(first) and numbers_rows(cells[first], frame.size):
        unique = [first]
    # One row per person: the person's id names the row, too.
    found = next((name for name in unique if name != subject), subject if subject in unique else None)
    if found is not None:
        notices.append(f"ids: column {found!r}, another one in every row; --id-column names another, or none")
    return found


def _named_values(frame: Frame, options: TableOptions, taken: list[str]) -> list[str]:
    if options.preprocessing is not None:
        return given_columns(frame, [column.name for column in options.preprocessing.values])
    return [] if options.values is None else matching(frame, options.values, "--value-columns", without=taken)


def _keys(
    frame: Frame, cells: Mapping[str, Cells], options: TableOptions, taken: list[str], notices: list[str]
) -> tuple[list[str], list[str]]:
    """Key columns, and columns of numbers that are none because all their cells are equal."""
    if options.preprocessing is not None:
        return given_columns(frame, [column.name for column in options.preprocessing.keys]), []
    if options.keys is not None:
        return matching(frame, options.keys, "--key-columns", without=taken), []
    found = numbered([name for name in cells if name not in taken], "k")
    if found:
        return found, []
    free = [name for name, column in cells.items() if name not in taken and column.measured]
    lists = [name for name in free if cells[name].kind == "list" and name not in _VALUES]
    # Other lists count where their name says that they are meant: the error says what is wrong with them.
    lists += [name for name in cells if cells[name].kind == "object" and name in _LISTS and name not in taken]
    if lists:
        named = [name for name in _LISTS if name in lists] or lists
        if len(named) > 1:
            columns = "; if each list is a whole column, write one object per row instead" if frame.size == 1 else ""
            raise InputError(
                f"{frame.source} has several lists of numbers: say which with --key-columns {named[0]}{columns}"
            )
        return named[:1], []
    if frame.plain:
        return free, []
    free = [name for name in free if not named_id(name) and not _dated(cells[name])]
    values = numbered([name for name in cells if name not in taken], "v")
    free = [name for name in free if name not in values]
    units_in_cells(frame, cells, free)
    for name in free:
        not_numbers(frame, cells[name], chosen=False)
    constant = [name for name in free if cells[name].distinct <= 1 and cells[name].kind == "number"]
    keys = [name for name in free if name not in constant]
    if not keys and not constant:
        not_lists = next((column for name, column in cells.items() if column.problem and name not in taken), None)
        if not_lists is not None:
            raise InputError(f"{not_lists.problem}")
        raise no_numbers(frame, cells)
    notices.append(f"keys: {shortened(keys or constant, 8)}, the columns of numbers; --key-columns names others")
    few = [name for name in keys if frame.size >= _SOME and cells[name].whole and cells[name].distinct <= _KINDS]
    if few and len(few) < len(keys):
        counts = shortened([f"{name} ({cells[name].distinct})" for name in few], 8)
        notices.append(f"few different numbers: {counts}; if they stand for kinds, --leave-out '{','.join(few)}'")
    padded = [name for name in keys if _zeros(frame, name)]
    if padded:
        notices.append(
            f"numbers that begin with 0, as codes do: {shortened(padded, 8)}; if they are codes, "
            f"--leave-out '{','.join(padded)}'"
        )
    counting = [name for name in keys if numbers_rows(cells[name], frame.size)]
    if counting:
        notices.append(
            f"whole numbers in unbroken sequence, another one in every row: {shortened(counting, 8)}; if they only "
            f"number the rows, --id-column '{counting[0]}' or --leave-out '{','.join(counting)}'"
        )
    return (keys, constant) if keys else (constant, [])


def numbers_rows(column: Cells, size: int) -> bool:
    """Whether a column of some length has whole numbers without a gap, another one in every row."""
    if column.kind != "number" or not column.whole or column.missing or column.distinct != size or size < _COUNTED:
        return False
    numbers = column.numbers
    return numbers is not None and bool(numbers.max() - numbers.min() == size - 1)


def _zeros(frame: Frame, name: str) -> bool:
    """Whether whole numbers of a column are written with zeros before them: 01067."""
    cells = frame.columns[name]
    return any(isinstance(cell, str) and cell[:1] == "0" and len(cell) > 1 and cell.isdecimal() for cell in cells)


def _values(cells: Mapping[str, Cells], keys: list[str], taken: list[str], notices: list[str]) -> list[str]:
    free = [name for name, column in cells.items() if name not in taken and column.measured]
    found = numbered([name for name in cells if name not in taken and cells[name].kind != "empty"], "v")
    beside_list = cells[keys[0]].kind in ("list", "object")
    by_name = keys == numbered(keys, "k") or beside_list
    if not found and by_name:
        found = [name for name in _VALUES if name in free]
        if not found and beside_list:
            found = [
                name
                for name in free
                if cells[name].kind == "number"
                and cells[name].distinct > 1
                and not named_id(name)
                and not _dated(cells[name])
            ]
            if found:
                notices.append(f"values: {shortened(found, 8)}, the columns of numbers; --value-columns names others")
    if not found:
        notices.append(OWN_VALUES)
    return found or list(keys)


def _rest(
    cells: Mapping[str, Cells],
    rest: list[str],
    options: TableOptions,
    given: bool,
    constant: list[str],
    notices: list[str],
) -> tuple[list[str], list[str]]:
    """Columns that are kept as payload, and columns that are not read."""
    empty = [name for name in rest if cells[name].kind == "empty"]
    if given or options.payload == NONE:
        gone = [name for name in rest if name not in empty]
        kept: list[str] = []
    else:
        gone = [name for name in rest if cells[name].kind == "list"]
        kept = [name for name in rest if name not in gone and name not in empty]
    if kept:
        shown = [f"{name} ({_kind_of(cells[name], name in constant)})" for name in kept]
        notices.append(f"payload: {shortened(shown, 8)}, kept with each entry; --leave-out or --payload-column")
    if gone:
        notices.append(f"left out: {shortened(gone, 8)}")
    if empty:
        notices.append(f"left out, as every cell is empty: {shortened(empty, 8)}")
    return kept, gone + empty


def _kind_of(column: Cells, constant: bool) -> str:
    if constant:
        return "constant"
    if column.kind == "truth":
        return "true or false"
    return "time" if _dated(column) else column.kind


def given_columns(frame: Frame, names: list[str]) -> list[str]:
    """Columns of a file that stand for given names; ``embedding[0]``, … stand in the list ``embedding``.

    Raises InputError that names the columns that are missing and those that are not known.
    """
    found = []
    lacking = []
    for name in names:
        whole = name if name in frame.columns else name.rpartition("[")[0]
        if whole in frame.columns:
            found.append(whole)
        else:
            lacking.append(name)
    if lacking:
        unknown = [name for name in frame.columns if name not in names and not named_id(name)]
        raise InputError(
            f"{frame.source} lacks {shortened(lacking)}, which the memory has; "
            + (f"not known to the memory: {shortened(unknown)}" if unknown else "it has no other columns")
            + ". Name columns as the memory does, and add one that was not measured with empty cells"
        )
    return list(dict.fromkeys(found))


def _dated(column: Cells) -> bool:
    """Whether a column of whole numbers holds points in time: days as 20240131 or seconds since 1970."""
    if column.kind == "time":
        return True
    if column.kind != "number" or not column.whole or column.numbers is None or not is_time(column.name):
        return False
    present = column.numbers[column.numbers == column.numbers]
    return bool(present.min() >= 1e6)


def _single(pattern: str | None) -> bool:
    return pattern is None or (len(listed(pattern)) == 1 and not any(sign in pattern for sign in "*?["))


def _single_column(frame: Frame, name: str, option: str) -> str | None:
    if name == NONE and name not in frame.columns:
        return None
    return matching(frame, name, option)[0]
