"""Numbers chosen from entries that would be others, chosen from the entries that there are now.

What is found is a function of these entries and of the numbers that are kept. A width has a remedy in place, a rebuild;
columns have none but a fresh import, because keys were scaled with the old numbers. Where no entry is left, nothing can
be chosen again, and everything that was chosen is from entries that are gone: of a memory of one entry a centre is that
entry's own measurement, to half a scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal, TypedDict

import numpy as np

from expunge.preprocessing.preprocessing import FEWEST, Column, Preprocessing, chosen_columns
from expunge.preprocessing.width import choose_width
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["OutdatedChoice", "outdated_choices", "outdated_text", "outdated_width"]


class OutdatedChoice(TypedDict):
    """A number that is kept, what it would be now, and what to do.

    ``column`` is None for the width, ``now`` is None where no entry is left to choose from.
    """

    what: Literal["sigma", "centre", "scale", "fill"]
    column: str | None
    kept: float
    now: float | None
    remedy: Literal["rebuild", "import", "create"]


def outdated_choices(
    preprocessing: Preprocessing, keys: Matrix, values: Matrix, *, sigma: float, cap: float
) -> tuple[OutdatedChoice, ...]:
    """Every chosen number that differs, on its grid, from what these entries would give.

    Parameters
    ----------
    preprocessing : Preprocessing
        Columns of the memory, and which numbers were chosen.
    keys, values : arrays (n, d) and (n, dv)
        Of all entries, archived ones included. Without any, every chosen number is found.
    sigma, cap : float
        Width and cap of the fit.

    """
    if not len(keys):
        return tuple(_all_chosen(preprocessing, sigma))
    found: list[OutdatedChoice] = []
    if preprocessing.width == "auto":
        found += outdated_width(sigma, choose_width(keys, nu=min(1.0, 1.0 / (cap * len(keys)))))
    if preprocessing.learned:
        found += _columns(preprocessing.keys, preprocessing.to_measurements(keys))
        found += _columns(preprocessing.values, values)
    return tuple(found)


def outdated_width(kept: float, now: float) -> tuple[OutdatedChoice, ...]:
    """The width, where it would be another."""
    if now == kept:
        return ()
    return ({"what": "sigma", "column": None, "kept": kept, "now": now, "remedy": "rebuild"},)


def outdated_text(choices: Sequence[OutdatedChoice] | None) -> str:
    """What a person reads of all choices; empty where there is none."""
    if choices is None:
        return "not looked for among so many entries: memory.outdated finds what would be chosen otherwise now"
    remedies = {"rebuild": "rebuild with sigma=auto", "import": "import the table afresh"}
    parts = []
    for remedy, todo in remedies.items():
        changes = [f"{_name(one)} {one['kept']:.6g} → {one['now']:.6g}" for one in choices if one["remedy"] == remedy]
        if changes:
            parts.append(f"{', '.join(changes)} ({todo})")
    if parts:
        return f"chosen from these entries now: {'; '.join(parts)}"
    left = ", ".join(f"{_name(one)} {one['kept']:.6g}" for one in choices)
    return f"chosen from entries that are gone, and still there: {left} (drop the memory and create it)" if left else ""


def _name(choice: OutdatedChoice) -> str:
    return "width sigma" if choice["column"] is None else f"{choice['what']} of {choice['column']}"


def _all_chosen(preprocessing: Preprocessing, sigma: float) -> Iterator[OutdatedChoice]:
    """Every number that was chosen, of a memory without entries."""
    if preprocessing.width == "auto":
        yield {"what": "sigma", "column": None, "kept": sigma, "now": None, "remedy": "create"}
    if preprocessing.learned:
        for columns in (preprocessing.keys, preprocessing.values):
            for column, what in product(columns, _kinds(columns)):
                if (kept := getattr(column, what)) is not None:
                    yield {"what": what, "column": column.name, "kept": kept, "now": None, "remedy": "create"}


def _kinds(columns: tuple[Column, ...]) -> tuple[Literal["centre", "scale", "fill"], ...]:
    """Which numbers of these columns were chosen: the fill of a scaled one is its centre."""
    scaled = any((column.centre, column.scale) != (0.0, 1.0) for column in columns)
    return ("centre", "scale") if scaled else ("fill",)


def _columns(columns: tuple[Column, ...], rows: Matrix) -> Iterator[OutdatedChoice]:
    """Columns whose numbers these filled measurements would not give.

    A cell that equals the fill may have been measured or missing. A number differs where it is given by no number of
    such cells that were measured, so that a table with missing cells is up to date when it is imported.
    """
    kinds = _kinds(columns)
    scaled = kinds != ("fill",)
    again = chosen_columns([column.name for column in columns], rows, scaled=scaled, filled=True)
    for column, now, cells in zip(columns, again, rows.T, strict=True):
        different = [what for what in kinds if getattr(column, what) not in (None, getattr(now, what))]
        if not different or (column.fill is not None and _is_possible(column, column.fill, cells, scaled=scaled)):
            continue
        for what in different:
            kept, found = getattr(column, what), getattr(now, what)
            yield {"what": what, "column": column.name, "kept": kept, "now": found, "remedy": "import"}


def _is_possible(column: Column, fill: float, cells: Vector, *, scaled: bool) -> bool:
    """Whether `chosen_columns` gives a column where some of the cells that equal its fill were missing."""
    below, above = np.sort(cells[cells < fill]), np.sort(cells[cells > fill])
    # One reading per number of cells that equal the fill and were measured.
    alike = np.arange(cells.size - below.size - above.size + 1)
    size = below.size + above.size + alike
    alike, size = alike[size > 0], size[size > 0]

    def at(place: IndexArray) -> Vector:
        later = np.append(above, 0.0)[np.clip(place - below.size - alike, 0, above.size)]
        earlier = np.append(below, 0.0)[np.clip(place, 0, below.size)]
        return np.where(place < below.size, earlier, np.where(place < below.size + alike, fill, later))

    def quantile(share: float) -> Vector:
        position = share * (size - 1)
        low = position.astype(np.int64)
        first = at(low)
        return np.asarray(first + (at(np.minimum(low + 1, size - 1)) - first) * (position - low))

    low, high, half = quantile(0.25), quantile(0.75), quantile(0.5)
    spread = (high - low) / 1.349
    for common in np.unique(low[high == low]):
        alone = (high == low) & (low == common)
        spread[alone] = _spread_beside(common, fill, np.concatenate([below, above]), alike[alone])
    scale = np.exp2(np.round(np.log2(spread)))
    middle = np.round(2.0 * half / scale) * (scale / 2.0)
    if not scaled:
        return bool(np.any(middle == fill))
    return bool(np.any((middle == column.centre) & (scale == column.scale)))


def _spread_beside(common: float, fill: float, others: Vector, alike: IndexArray) -> Vector:
    """The spread where half of the cells are `common`, for each number of cells that equal the fill.

    It is the median distance of the cells that differ from `common`, or 1 where fewer than three do.
    """
    apart = np.sort(np.abs(others[others != common] - common))
    size = apart.size + (alike if fill != common else np.zeros_like(alike))
    own = abs(fill - common)
    before = int(np.searchsorted(apart, own))

    def at(place: IndexArray) -> Vector:
        if not apart.size:
            return np.full(place.size, own)
        behind = apart[np.clip(place - (size - apart.size), 0, apart.size - 1)]
        fixed = np.where(place < before, apart[np.clip(place, 0, apart.size - 1)], behind)
        return np.where((place >= before) & (place < before + size - apart.size), own, fixed)

    middle = (at((size - 1) // 2) + at(size // 2)) / 2.0
    return np.asarray(np.where(size >= FEWEST, middle, 1.0))
