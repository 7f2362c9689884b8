"""Hourly vital signs on a grid: the processing of the paper's clinical experiments (App. A), in NumPy alone.

Readings outside the plausible ranges are dropped; what is left is averaged by hour since the stay began,
filled forward, then backward, then with the cohort's median, and standardized with the mean and deviation
of all hours of the cohort together. The same readings give the same bits in whatever order they come.

Where the paper leaves room: hours run from 0 to the stay's last plausible reading, and that many make its
span; the cohort's median is over measured hours; deviations are population ones; alarms are judged on
filled hours, in clinical units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError
from expunge.types import IndexArray, Matrix, Vector

__all__ = ["CHANNELS", "PLAUSIBLE", "UNITS", "Cohort", "Stay", "alarms", "distinct_hours", "on_hours", "vital_signs"]

# Heart rate, systolic and diastolic pressure, respiratory rate, oxygen saturation, temperature.
CHANNELS = ("hr", "sbp", "dbp", "rr", "spo2", "temp")
UNITS = ("/min", "mmHg", "mmHg", "/min", "%", "°C")
# A reading outside is an artefact.
PLAUSIBLE = ((10.0, 300.0), (20.0, 300.0), (5.0, 220.0), (2.0, 80.0), (30.0, 100.0), (25.0, 45.0))
# An hour outside is an event. Diastolic pressure has no limits.
LOWEST = np.array([40.0, 90.0, -math.inf, 6.0, 90.0, 35.0])
HIGHEST = np.array([130.0, 200.0, math.inf, 30.0, math.inf, 38.5])

_SPO2 = CHANNELS.index("spo2")


@dataclass(frozen=True, eq=False)
class Stay:
    """One stay in intensive care, hour by hour.

    ``vitals`` (hours, 6) are in clinical units and filled, ``measured`` (hours, 6) says which were not
    filled, and ``keys`` (hours, 6) are the vitals standardized over the cohort; channels as in `CHANNELS`.
    """

    id: str
    subject: str
    vitals: Matrix
    measured: npt.NDArray[np.bool_]
    keys: Matrix

    def __len__(self) -> int:
        return int(self.vitals.shape[0])

    def __repr__(self) -> str:
        return f"<Stay {self.id} of {self.subject}: {len(self)} hours>"

    @property
    def alarms(self) -> npt.NDArray[np.bool_]:
        """Which channels are outside their limits, (hours, 6)."""
        return alarms(self.vitals)

    @property
    def events(self) -> npt.NDArray[np.bool_]:
        """Hours with any channel outside its limits, (hours,): the paper's composite flag."""
        return np.asarray(self.alarms.any(axis=1))


@dataclass(frozen=True, eq=False)
class Cohort:
    """Stays processed together.

    ``median``, ``mean`` and ``scale`` (6,) are what filled and standardized them. ``flow`` counts the stays
    left after each step; its last two entries, stays with any event and with saturation below 90%, describe
    subsets and drop nothing.
    """

    stays: tuple[Stay, ...]
    median: Vector
    mean: Vector
    scale: Vector
    flow: dict[str, int]

    def __repr__(self) -> str:
        steps = " → ".join(f"{count} {step}" for step, count in self.flow.items())
        return f"<Cohort of {len(self.stays)} stays, {sum(map(len, self.stays))} hours: {steps}>"


def vital_signs(row: Vector) -> dict[str, float]:
    """One hour's vitals (6,) by channel name."""
    return dict(zip(CHANNELS, row.tolist(), strict=True))


def alarms(vitals: Matrix) -> npt.NDArray[np.bool_]:
    """Which of the vitals (n, 6), in clinical units, are outside their limits; (n, 6)."""
    return np.asarray((vitals < LOWEST) | (vitals > HIGHEST))


def distinct_hours(keys: npt.ArrayLike, apart: float = 0.1) -> IndexArray:
    """Rows of keys (n, d) that stay when each must be farther than `apart` from every one kept before it."""
    points = np.asarray(keys, dtype=np.float64)
    if points.ndim != 2:
        raise InputError(f"keys must be (n, d), not {points.shape}")
    kept: list[int] = []
    for row, point in enumerate(points):
        if not kept or float(np.linalg.norm(points[kept] - point, axis=1).min()) > apart:
            kept.append(row)
    return np.array(kept, dtype=np.int64)


def on_hours(
    ids: Sequence[str],
    subjects: Sequence[str],
    readings: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]],
    *,
    flow: dict[str, int],
    min_hours: int,
) -> Cohort:
    """Cohort of the stays that span at least `min_hours`.

    `readings` are four columns (m,): the stay's place in `ids`, the hour since it began, the channel's place
    in `CHANNELS` and the value. Raises InputError where no stay is long enough or a channel cannot be filled or
    standardized.
    """
    stay, hour, channel, value = _plausible(*readings)
    spans = np.zeros(len(ids), dtype=np.int64)
    np.maximum.at(spans, stay, hour + 1)
    chosen = np.flatnonzero((spans >= min_hours) & (spans > 0))
    if not chosen.size:
        raise InputError(f"none of {len(ids)} stays has {min_hours} hours of readings")
    lengths = spans[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    first = np.full(len(ids), -1, dtype=np.int64)
    first[chosen] = starts[:-1]
    grid = _hourly_means(first, int(starts[-1]), stay, hour, channel, value)
    measured = ~np.isnan(grid)
    silent = [name for place, name in enumerate(CHANNELS) if not measured[:, place].any()]
    if silent:
        raise InputError(f"no stay has a reading of {', '.join(silent)}")
    median = np.nanmedian(grid, axis=0)
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        _fill(grid[begin:end], median)
    mean, scale = grid.mean(axis=0), grid.std(axis=0)
    # The deviation of equal numbers can come out as a rounding error; their range is 0.
    flat = [name for place, name in enumerate(CHANNELS) if np.ptp(grid[:, place]) == 0.0]
    if flat:
        raise InputError(f"{', '.join(flat)} never changes in this cohort and cannot be standardized")
    keys = (grid - mean) / scale
    for array in (grid, measured, keys, median, mean, scale):
        array.setflags(write=False)
    stays = tuple(
        Stay(ids[place], subjects[place], grid[begin:end], measured[begin:end], keys[begin:end])
        for place, begin, end in zip(chosen.tolist(), starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    )
    counts = {
        "hourly": len(stays),
        "with_event": sum(bool(one.events.any()) for one in stays),
        "with_low_spo2": sum(bool(one.alarms[:, _SPO2].any()) for one in stays),
    }
    return Cohort(stays, median, mean, scale, flow | counts)


def _plausible(
    stay: npt.NDArray[Any], hour: npt.NDArray[Any], channel: npt.NDArray[Any], value: npt.NDArray[Any]
) -> tuple[IndexArray, IndexArray, IndexArray, Vector]:
    low, high = np.array(PLAUSIBLE).T
    # NaN compares false on both sides, so a missing value goes with the artefacts.
    keep = (value >= low[channel]) & (value <= high[channel])
    return stay[keep].astype(np.int64), hour[keep].astype(np.int64), channel[keep].astype(np.int64), value[keep]


def _hourly_means(
    first: IndexArray, hours: int, stay: IndexArray, hour: IndexArray, channel: IndexArray, value: Vector
) -> Matrix:
    """Mean of each cell of the grid (hours, 6); NaN where nothing was read. `first` is −1 for a stay left out."""
    inside = first[stay] >= 0
    cell = (first[stay] + hour)[inside] * len(CHANNELS) + channel[inside]
    # Sums depend on the order of their terms, and files come in any order.
    order = np.lexsort((value[inside], cell))
    cell, term = cell[order], value[inside][order].astype(np.float64)
    size = hours * len(CHANNELS)
    counts = np.bincount(cell, minlength=size).astype(np.float64)
    counts[counts == 0.0] = math.nan
    return np.asarray(np.bincount(cell, weights=term, minlength=size) / counts).reshape(hours, len(CHANNELS))


def _fill(rows: Matrix, fallback: Vector) -> None:
    """Fill one stay's rows in place: forward, then backward, then with the fallback."""
    for column, default in zip(rows.T, fallback.tolist(), strict=True):
        seen = np.flatnonzero(~np.isnan(column))
        if not seen.size:
            column[:] = default
            continue
        latest = np.searchsorted(seen, np.arange(column.size), side="right") - 1
        column[:] = column[seen[np.maximum(latest, 0)]]
