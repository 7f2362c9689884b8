"""The two axes that a map is drawn on: key columns in their units, or the directions of the largest spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from expunge.errors import InputError
from expunge.memory.projection import Projection, projection_of
from expunge.memory.version import Version
from expunge.memory.version_table import key_columns
from expunge.preprocessing.preprocessing import Column
from expunge.types import Matrix, Vector

__all__ = ["Plane", "column_label", "plane_of"]


@dataclass(frozen=True, eq=False)
class Plane:
    """A projection with labels; `scale` and `centre` (2,) turn its coordinates into what the axes show.

    ``whole`` says that the plane holds every key, so that what is drawn in it is the memory itself and no section.
    """

    projection: Projection
    labels: tuple[str, str]
    scale: Vector
    centre: Vector
    whole: bool

    def places(self, keys: Matrix) -> Matrix:
        """Where keys (m, d) are drawn, (m, 2)."""
        return self.shown(self.projection.project(keys))

    def shown(self, points: Matrix) -> Matrix:
        """Points (m, 2) of the projection in the units of the axes."""
        return np.asarray(points * self.scale + self.centre)


def column_label(column: Column) -> str:
    """Name and unit of a column."""
    return column.name if column.unit is None else f"{column.name}, {column.unit}"


def plane_of(version: Version, chosen: Sequence[str | int] | None) -> Plane:
    """The plane of two chosen key columns, by name or number; else of the directions in which live keys spread most.

    Through chosen columns the plane lies at the mean of the others.
    """
    columns = key_columns(version)
    plane = projection_of(version)
    if chosen is None and plane.kind != "identity":
        shares = (
            f"{order} direction of spread ({share:.0%} of it)"
            for order, share in zip(("first", "second"), plane.explained, strict=True)
        )
        return Plane(plane, (next(shares), next(shares)), np.ones(2), np.zeros(2), whole=False)
    places = [*range(min(2, len(columns)))] if chosen is None else _places(columns, chosen)
    picked = [columns[place] for place in places]
    if chosen is not None:
        mean = version.keys.mean(axis=0) if version.size else np.zeros(len(columns))
        mean[places] = 0.0
        plane = Projection("columns", mean, np.eye(len(columns))[places], plane.explained)
    labels = [column_label(column) for column in picked]
    scale, centre = [column.scale for column in picked], [column.centre for column in picked]
    if len(picked) == 1:
        labels, scale, centre = [*labels, ""], [*scale, 1.0], [*centre, 0.0]
    return Plane(plane, (labels[0], labels[1]), np.array(scale), np.array(centre), whole=len(columns) <= 2)


def _places(columns: Sequence[Column], chosen: Sequence[str | int]) -> list[int]:
    names = [column.name for column in columns]
    found = []
    for column in chosen:
        if column not in names and not (isinstance(column, int) and 0 <= column < len(names)):
            raise InputError(f"there is no key column {column!r}; the key columns are {', '.join(names)}")
        found.append(column if isinstance(column, int) else names.index(column))
    if len(set(found)) != 2 or len(found) != 2:
        raise InputError(f"a map has two different key columns, not {chosen!r}")
    return found
