"""What numbers that were learned from entries tell of an erased one: means, medians, scales and widths.

A *stored mean* of the rows before an erasure, with the rows that remain, is one linear equation per coordinate for the
row that went. *Medians, quartiles and a median distance* at full precision are numbers that few candidates give. On the
grids of `expunge.preprocessing` most candidates give the same. A *standard deviation* follows one extreme row: even on
a grid it tells how large that row was. A scale that a memory chooses does not follow one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from expunge import Memory
from expunge.preprocessing import Preprocessing, chosen_columns
from expunge.preprocessing.grid import whole_power
from expunge.preprocessing.width import choose_width

__all__ = [
    "candidates_by_numbers",
    "chosen_numbers",
    "deviations_on_grid",
    "dose_rows",
    "exact_numbers",
    "exact_width",
    "kept_by_a_memory",
    "row_from_mean",
    "ward_rows",
]

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]
Rng = np.random.Generator


def row_from_mean(mean: Vector, remaining: Matrix) -> Vector:
    """The erased row, from the mean of all rows and the rows that remain."""
    return np.asarray((len(remaining) + 1) * mean - remaining.sum(axis=0))


def candidates_by_numbers(
    remaining: Matrix, candidates: Sequence[Vector], kept: Any, numbers: Callable[[Matrix], Any]
) -> list[int]:
    """Candidates for the erased row with which the rows give the numbers that were kept."""
    return [place for place, row in enumerate(candidates) if numbers(np.vstack([remaining, row])) == kept]


def exact_width(rows: Matrix) -> float:
    """The median distance of rows (n, d), to the last bit."""
    return float(np.median(pdist(rows)))


def exact_numbers(rows: Matrix) -> tuple[float, ...]:
    """Median and quartiles of each column of rows (n, d), NaN where a cell is missing, to the last bit."""
    return tuple(np.nanquantile(rows, [0.25, 0.5, 0.75], axis=0).ravel().tolist())


def deviations_on_grid(rows: Matrix) -> tuple[float, ...]:
    """The power of 2 nearest to the standard deviation of each column of rows (n, d); 1 for a constant one."""
    return tuple(whole_power(float(spread)) if spread else 1.0 for spread in np.nanstd(rows, axis=0))


def chosen_numbers(rows: Matrix) -> tuple[Any, ...]:
    """What a memory of rows (n, d) keeps, NaN where a cell is missing: its columns and its width."""
    columns = _columns(rows)
    return columns.keys, choose_width(columns.to_keys(rows))


def kept_by_a_memory(rows: Matrix) -> tuple[Any, ...]:
    """The same from the save file of a memory of rows (n, d), after the erasure of the last of them."""
    columns = _columns(rows)
    keys = columns.to_keys(rows)
    memory = Memory.fit(
        keys, np.zeros(len(rows)), preprocessing=columns, ids=[str(place) for place in range(len(rows))]
    )
    memory.delete(memory.ids[-1])
    with TemporaryDirectory() as folder:
        memory.save(Path(folder) / "memory")
        found = Memory.load(Path(folder) / "memory")
    assert found.preprocessing is not None
    return found.preprocessing.keys, found.sigma


def ward_rows(rng: Rng, size: int) -> Matrix:
    """Rows (size, 6) of a ward: three vital signs, a laboratory value, a dose that most do not get, and a flag."""
    rows = np.column_stack(
        [
            rng.normal(84.0, 16.0, size).round(),
            rng.normal(120.0, 20.0, size).round(),
            rng.normal(36.9, 0.6, size).round(1),
            rng.lognormal(0.5, 0.8, size).round(2),
            rng.lognormal(5.0, 1.0, size).round() * (rng.random(size) < 0.1),
            rng.random(size) < 0.05,
        ]
    ).astype(np.float64)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def dose_rows(rng: Rng, size: int) -> Matrix:
    """Rows (size, 2): a measurement, and a dose between 1 and 10,000."""
    return np.column_stack([rng.normal(84.0, 16.0, size).round(), 10.0 ** rng.uniform(0.0, 4.0, size)])


def _columns(rows: Matrix) -> Preprocessing:
    names = [f"c{place}" for place in range(rows.shape[1])]
    value = chosen_columns(["v"], np.zeros((len(rows), 1)), scaled=False, filled=True)
    return Preprocessing(chosen_columns(names, rows, scaled=True, filled=True), value, learned=True)
