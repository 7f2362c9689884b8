"""Key and value columns side by side: missing numbers, centre, scale and fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.errors import InputError
from expunge.preprocessing import Column, Preprocessing, chosen_columns
from expunge.tables.cells import Cells
from expunge.tables.column_names import numbered
from expunge.tables.frame import Frame, shortened
from expunge.tables.options import TableOptions
from expunge.tables.roles import Roles
from expunge.types import IndexArray, Matrix

__all__ = ["Measurements", "measured"]

# A coordinate so far from the centre, in scales, is named: most are slips of a decimal point or of a unit.
_FAR = 1000.0
# A number so often in a column, and beyond the range of all others, may stand for a missing one.
_REPEATED = 3
# Missing share of a column up to which its median is filled in unasked. Of hourly temperatures of real wards, which are
# taken every few hours, more than half is missing; a column of which more than this is missing holds little else.
MOST_FILLED = 0.75


@dataclass(frozen=True, eq=False)
class Measurements:
    """Keys (n, d) and values (n, dv) as measured, the rows that are kept, their preprocessing, and notices."""

    keys: Matrix
    values: Matrix
    kept: IndexArray
    preprocessing: Preprocessing
    notices: tuple[str, ...]


def measured(frame: Frame, cells: Mapping[str, Cells], roles: Roles, options: TableOptions) -> Measurements:
    """Measurements of the key and value columns, with given or chosen preprocessing.

    Raises InputError where numbers are missing and `options.missing` does not say what to do about it, and where units
    differ from the given ones.
    """
    keys, key_names = _side_by_side(cells, roles.keys)
    values, value_names = _side_by_side(cells, roles.values)
    counts = {name: cells[name].missing for name in dict.fromkeys((*roles.keys, *roles.values)) if cells[name].missing}
    given = options.preprocessing
    notices: list[str] = []
    if given is not None:
        notices += _same_units(frame, given)
        keys, key_names = _ordered(frame, keys, key_names, [column.name for column in given.keys])
        values, value_names = _ordered(frame, values, value_names, [column.name for column in given.values])
    kept = np.arange(frame.size)
    if counts and options.missing == "drop":
        kept = np.flatnonzero(~(np.isnan(keys).any(axis=1) | np.isnan(values).any(axis=1)))
        if not kept.size:
            raise InputError(
                f"{frame.source}: every row lacks a number ({_counted(frame, counts)}); --missing median fills in"
            )
        notices.append(f"missing: {frame.size - kept.size} of {frame.size} rows dropped ({_counted(frame, counts)})")
    elif counts:
        _may_fill(frame, cells, counts, options)
    if given is not None:
        preprocessing = given
    else:
        filled = options.missing in (None, "median")
        preprocessing = Preprocessing(
            _columns(frame, cells, roles.keys, keys[kept], scaled=options.scale != "none", filled=filled),
            _columns(frame, cells, roles.values, values[kept], scaled=False, filled=filled),
            learned=True,
        )
    if counts and options.missing != "drop":
        by = "column's median on a coarse grid" if given is None else "memory's fill"
        notices.append(_filled(frame, counts, preprocessing, by))
    notices += _grouped(cells, [*roles.keys, *roles.values])
    if not frame.plain:
        notices += _stand_ins(cells, roles.keys)
    notices += _far_away(frame, preprocessing, keys, kept)
    return Measurements(keys, values, kept, preprocessing, tuple(notices))


def _side_by_side(cells: Mapping[str, Cells], names: Sequence[str]) -> tuple[Matrix, list[str]]:
    """Numbers of columns, (n, w), and the name of each; those of a list are ``name[0]`` and so on."""
    blocks: list[Matrix] = []
    called: list[str] = []
    for name in names:
        numbers = cells[name].numbers
        if numbers is None:
            raise InputError(f"column {name!r} holds no numbers")
        blocks.append(numbers)
        called += [f"{name}[{place}]" for place in range(numbers.shape[1])] if cells[name].kind == "list" else [name]
    return np.ascontiguousarray(np.hstack(blocks)), called


def _ordered(frame: Frame, numbers: Matrix, names: list[str], wanted: list[str]) -> tuple[Matrix, list[str]]:
    """Columns in the order of the memory."""
    unlike = [name for name in names if name not in wanted] or [name for name in wanted if name not in names]
    if unlike:
        raise InputError(
            f"{frame.source} has other columns than the memory, which has {len(wanted)}: {shortened(unlike, 3)} does "
            "not match"
        )
    return numbers[:, [names.index(name) for name in wanted]], wanted


def _same_units(frame: Frame, given: Preprocessing) -> list[str]:
    """Notices of units that cannot be compared. Raises InputError for another unit than the memory's."""
    unstated = {}
    for column in (*given.keys, *given.values):
        unit = frame.units.get(column.name)
        if unit is not None and column.unit is not None and unit != column.unit:
            raise InputError(
                f"{frame.source}, column {column.name!r} is in {unit}, but the memory has {column.unit}: convert it"
            )
        if unit is not None and column.unit is None:
            unstated[column.name] = unit
    return [
        f"units: column {name!r} is in {unit}; the memory states no unit, and takes the numbers as they are"
        for name, unit in unstated.items()
    ]


def _may_fill(frame: Frame, cells: Mapping[str, Cells], counts: Mapping[str, int], options: TableOptions) -> None:
    """Raise InputError unless missing numbers may be filled in."""
    if options.preprocessing is not None:
        fills = {column.name: column.fill for column in (*options.preprocessing.keys, *options.preprocessing.values)}
        bare = {name: count for name, count in counts.items() if fills[name] is None}
        if bare:
            raise InputError(
                f"{frame.source}: numbers are missing ({_counted(frame, bare)}), and the memory has no fill for them; "
                "--missing drop leaves their rows out"
            )
        return
    if frame.plain:
        name = next(iter(counts))
        raise InputError(
            f"{frame.at(_first_missing(cells[name]), name)}: the number is missing. Missing by column: "
            f"{_counted(frame, counts)}; --missing drop leaves the rows out"
        )
    if options.missing == "median":
        return
    choice = "say --missing median to fill in each column's median, --missing drop to leave the rows out"
    if options.missing == "refuse":
        name = next(iter(counts))
        where = frame.at(_first_missing(cells[name]), name)
        raise InputError(f"{where}: the number is missing. Missing by column: {_counted(frame, counts)}; {choice}")
    hollow = {name: count for name, count in counts.items() if count > MOST_FILLED * frame.size}
    if hollow:
        raise InputError(
            f"{frame.source}: more than {MOST_FILLED:.0%} of a column is missing ({_counted(frame, hollow)}); "
            f"{choice}, or --leave-out '{','.join(hollow)}'"
        )


def _first_missing(column: Cells) -> int:
    return 0 if column.numbers is None else int(np.flatnonzero(np.isnan(column.numbers[:, 0]))[0])


def _columns(
    frame: Frame, cells: Mapping[str, Cells], names: Sequence[str], numbers: Matrix, *, scaled: bool, filled: bool
) -> tuple[Column, ...]:
    """Columns with numbers chosen on the grid: measurements are scaled, coordinates are taken as they are."""
    coordinates = list(names) == numbered(names, "k")
    columns: list[Column] = []
    start = 0
    for name in names:
        block = cells[name].numbers
        width = 1 if block is None else block.shape[1]
        many = cells[name].kind == "list"
        called = [f"{name}[{place}]" for place in range(width)] if many else [name]
        columns += chosen_columns(
            called,
            numbers[:, start : start + width],
            scaled=scaled and not (many or coordinates or frame.plain),
            filled=filled and not (many or frame.plain),
            units=frame.units,
        )
        start += width
    return tuple(columns)


def _filled(frame: Frame, counts: Mapping[str, int], preprocessing: Preprocessing, by: str) -> str:
    fills = {column.name: column.fill for column in (*preprocessing.values, *preprocessing.keys)}
    shown = [f"{name} {count} ({count / frame.size:.1%}) by {fills[name]:g}" for name, count in counts.items()]
    return f"missing numbers filled in with the {by}: {shortened(shown, 8)}; --missing drop leaves their rows out"


def _far_away(frame: Frame, preprocessing: Preprocessing, keys: Matrix, kept: IndexArray) -> list[str]:
    """Notices of measurements that lie far from all others of their column."""
    notices = []
    for place, column in enumerate(preprocessing.keys):
        if column.scale == 1.0 and column.centre == 0.0:
            continue
        far = kept[np.abs(keys[kept, place] - column.centre) > _FAR * column.scale]
        if far.size:
            row = int(far[0])
            notices.append(
                f"{frame.at(row, column.name)}: {keys[row, place]:g} is over {_FAR:g} scales from the centre "
                f"{column.centre:g} ({far.size} such cell(s)): is it meant?"
            )
    return notices


def _grouped(cells: Mapping[str, Cells], names: Sequence[str]) -> list[str]:
    """A notice of the columns whose numbers had thousands separators."""
    found = [f"{name} (as in {cells[name].grouped!r})" for name in dict.fromkeys(names) if cells[name].grouped]
    return (
        [f"thousands separators taken out: {shortened(found, 4)}; --leave-out a column that has none"] if found else []
    )


def _stand_ins(cells: Mapping[str, Cells], names: Sequence[str]) -> list[str]:
    """Notices of numbers such as -999 that may stand for missing ones."""
    notices = []
    for name in names:
        numbers = cells[name].numbers
        if numbers is None or numbers.shape[1] != 1:
            continue
        found, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
        if found.size <= _REPEATED:
            continue
        for number, count, gap, others in (
            (found[0], counts[0], found[1] - found[0], found[-1] - found[1]),
            (found[-1], counts[-1], found[-1] - found[-2], found[-2] - found[0]),
        ):
            if count >= _REPEATED and gap > others:
                notices.append(
                    f"{name}: {number:.12g} in {count} rows, far from all other numbers; if it stands for a missing "
                    f"one, --also-missing {number:.12g}"
                )
    return notices


def _counted(frame: Frame, counts: Mapping[str, int]) -> str:
    return shortened([f"{name}: {count} of {frame.size}" for name, count in counts.items()], 8)
