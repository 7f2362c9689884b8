"""Bodies of responses about one memory: its numbers, its entries, its map, its answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from expunge.service.schemas.responses import Check, Digest, Group, Number, Page, ResponseBody

__all__ = [
    "Boundary",
    "Certificate",
    "DroppedMemory",
    "Entry",
    "ErasedEntry",
    "ErrorBounds",
    "Explanation",
    "Grid",
    "GroupSizes",
    "Hit",
    "LivePoint",
    "Map",
    "MemoryPage",
    "MemorySummary",
    "ProjectionPlane",
    "PrunedPoint",
    "Readouts",
    "SearchResult",
    "StateCheck",
    "Warranty",
    "WeightedHit",
]


class GroupSizes(ResponseBody):
    """Entries in each group."""

    margin: int
    bound: int
    reserve: int


class MemorySummary(ResponseBody):
    """A memory in numbers."""

    name: str
    uuid: str
    edit: int
    digest: Digest
    size: int
    archived: int
    forgotten: int
    expired: int
    partition: GroupSizes
    cap: float
    sigma: float
    offset: float
    dimension: int
    value_dimension: int
    deletable: int
    initial_size: int | None


class MemoryPage(Page[MemorySummary]):
    """Memories, and the names of those that do not open as they were written."""

    damaged: list[str]


class DroppedMemory(ResponseBody):
    """A memory that is gone, and the leaf that says so."""

    index: int
    kind: Literal["dropped"]
    waiting: str | None


class Entry(ResponseBody):
    """A live entry; with content where that was asked for."""

    id: str
    subject: str | None
    group: Literal["margin", "bound", "reserve", "archived", "forgotten"]
    coefficient: float
    slack: Number | None
    key: list[float] | None = None
    value: list[float] | None = None
    payload: Any = None


class Certificate(ResponseBody):
    """What removing an entry now would be."""

    kind: Literal["reserve", "decrement"]
    id: str
    assumptions: list[str]
    does_not_cover: list[str]
    slack: Number | None = None
    proved: bool | None = None
    readout_change: Number | None = None
    coefficient: float | None = None
    cap: float | None = None
    duplicates: int | None = None
    nearest: Number | None = None
    smallest_eigenvalue: Number | None = None
    unique: bool | None = None


class Warranty(ResponseBody):
    """Where a pruned entry stands."""

    id: str
    subject: str | None
    mode: Literal["archive", "forget"]
    slack: Number | None
    remaining: Number | None
    fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    status: Literal["valid", "expired", "ended"]


class ProjectionPlane(ResponseBody):
    """The plane of a map."""

    kind: Literal["identity", "pca"]
    mean: list[float]
    axes: list[list[float]]
    explained: list[float]


class LivePoint(ResponseBody):
    """A live entry on the map."""

    id: str
    subject: str | None
    group: Group
    x: float
    y: float
    coefficient: float
    slack: Number


class PrunedPoint(ResponseBody):
    """A pruned entry; an archived one has its place."""

    id: str
    subject: str | None
    slack: Number
    remaining: Number
    fraction: float
    status: Literal["valid", "expired"]
    x: float | None = None
    y: float | None = None


class ErasedEntry(ResponseBody):
    """An erased entry: nothing is left but the commitment in its receipt."""

    commitment: Digest
    index: int
    edit: int
    outcome: str
    time: str


class Grid(ResponseBody):
    """The slack on a grid."""

    x: list[float]
    y: list[float]
    values: list[list[float]]


class Boundary(ResponseBody):
    """Where the slack is zero."""

    polylines: list[list[list[float]]]
    grid: Grid


class Map(ResponseBody):
    """A memory in the plane."""

    digest: Digest
    edit: int
    dimension: int
    projection: ProjectionPlane
    entries: list[LivePoint]
    archived: list[PrunedPoint]
    forgotten: list[PrunedPoint]
    erased: list[ErasedEntry]
    erased_total: int
    boundary: Boundary | None


class Readouts(ResponseBody):
    """Answers at queries."""

    digest: Digest
    readouts: list[list[Number]]
    scores: list[Number]


class Hit(ResponseBody):
    """An entry that carries part of an answer."""

    id: str
    subject: str | None
    share: Number
    similarity: Number
    value: list[float]
    payload: Any = None


class SearchResult(ResponseBody):
    """Entries by share."""

    digest: Digest
    hits: list[Hit]


class WeightedHit(Hit):
    """An entry that carries part of an answer, and its weight."""

    coefficient: float
    group: Group


class Explanation(ResponseBody):
    """An answer and who carries it; `rest` is the share of those that are not listed."""

    digest: Digest
    query: list[float]
    x: float
    y: float
    readout: list[Number]
    score: Number
    hits: list[WeightedHit]
    rest: Number
    active: int


class StateCheck(Check):
    """Errors of the current state."""

    digest: Digest


class ErrorBounds(ResponseBody):
    """Rigorous bounds on the errors of the current state, over every query."""

    digest: Digest
    gap: Number
    centre: Number
    offset: Number
    score: Number
    evaluation: Number
    coefficient: Number
    eigenvalue: Number
    proved_zero: int
    proved_full: int
