"""Bodies of responses about one memory: its numbers, its entries, its map, its answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from expunge.service.schemas.responses import Check, Digest, Group, Number, Page, ResponseBody

__all__ = [
    "Boundary",
    "Certificate",
    "Column",
    "DroppedMemory",
    "Embedder",
    "Entry",
    "EntryPage",
    "ErasedEntry",
    "ErrorBounds",
    "Explanation",
    "FitReport",
    "Grid",
    "GroupSizes",
    "Hit",
    "LivePoint",
    "Map",
    "MemoryPage",
    "MemorySummary",
    "NearestResult",
    "Neighbour",
    "Preprocessing",
    "ProjectionPlane",
    "PrunedPoint",
    "Readouts",
    "SearchResult",
    "StateCheck",
    "Warranty",
    "WarrantyPage",
    "WeightedHit",
]


class GroupSizes(ResponseBody):
    """Entries in each group."""

    margin: int
    bound: int
    reserve: int


class Column(ResponseBody):
    """A column: a measurement x becomes (x − centre)/scale; a missing one is replaced by the fill, or refused."""

    name: str
    unit: str | None
    centre: float
    scale: float
    fill: float | None


class Preprocessing(ResponseBody):
    """Columns of keys and values, and whether their numbers and the width were chosen from the entries."""

    keys: list[Column]
    values: list[Column]
    learned: bool
    width: Literal["given", "auto"]


class Embedder(ResponseBody):
    """What made keys from texts: its name, and SHA-256 of what defines it where that is known."""

    name: str
    digest: Digest | None


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
    preprocessing: Preprocessing | None
    chosen_width: bool
    embedder: Embedder | None
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
    """A live entry; with content where that was asked for, and then with its end and sources.

    A token of one memory sees sources in its own memory alone; those in others are a UUID and an id.
    """

    id: str
    subject: str | None
    group: Literal["margin", "bound", "reserve", "archived", "forgotten"]
    coefficient: float
    slack: Number | None
    key: list[float] | None = None
    value: list[float] | None = None
    payload: Any = None
    expires: str | None = None
    derived_from: list[str | list[str]] | None = None


class EntryPage(Page[Entry]):
    """Entries in order of their ids."""


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


class WarrantyPage(Page[Warranty]):
    """Warranties in order of ids."""


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
    """A pruned entry; an archived one has its place. Where a certificate has ended, its numbers are gone."""

    id: str
    subject: str | None
    slack: Number | None
    remaining: Number | None
    fraction: float
    status: Literal["valid", "expired", "ended"]
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
    """Answers at queries, and where each query lies.

    A query is inside where its score is at least `boundary`, 1 − 2ρ; its distance is score − boundary, positive inside.
    Where it is not nearby, every similarity is below 0.001, and the readout is a mean of values that are all far away.
    `filled` names the columns that a query by name left out, so that the memory's fill was used.
    """

    digest: Digest
    readouts: list[list[Number]]
    scores: list[Number]
    boundary: Number
    distances: list[Number]
    inside: list[bool]
    nearby: list[bool]
    filled: list[list[str]]


class Hit(ResponseBody):
    """An entry that carries part of an answer."""

    id: str
    subject: str | None
    share: Number
    similarity: Number
    value: list[float]
    payload: Any = None


class SearchResult(ResponseBody):
    """Entries by share, and where the query lies, which is null in an empty memory.

    Where no entry is nearby, shares are ratios of similarities that are all nil, and say little.
    """

    digest: Digest
    hits: list[Hit]
    distance: Number | None
    inside: bool | None
    nearby: bool | None
    filled: list[str]


class Neighbour(ResponseBody):
    """An entry and how far its key is from the query, in key coordinates; its weight is 0 where it is archived."""

    id: str
    subject: str | None
    distance: Number
    similarity: Number
    archived: bool
    weight: float
    value: list[float]
    payload: Any = None


class NearestResult(ResponseBody):
    """Entries by distance, whatever they weigh; equal distances by id."""

    digest: Digest
    neighbours: list[Neighbour]
    filled: list[str]


class WeightedHit(Hit):
    """An entry that carries part of an answer, and its weight."""

    coefficient: float
    group: Group


class Explanation(ResponseBody):
    """An answer and who carries it; `rest` is the share of those that are not listed.

    The query is inside where `distance`, score − boundary, is not negative. `nearest` are the entries nearest to it.
    """

    digest: Digest
    query: list[float]
    x: float
    y: float
    readout: list[Number]
    score: Number
    distance: Number
    inside: bool
    nearby: bool
    hits: list[WeightedHit]
    rest: Number
    active: int
    nearest: list[Neighbour]
    filled: list[str]


class StateCheck(Check):
    """Errors of the current state."""

    digest: Digest


class FitReport(ResponseBody):
    """Whether the fit is of use; shares are of all entries that are kept, archived ones included."""

    digest: Digest
    entries: int
    margin: float
    bound: float
    reserve: float
    margin_entries: int
    deletable: int
    effective_neighbours: float | None
    recall: float | None
    sigma: float
    cap: float
    nu: float | None
    healthy: bool
    warnings: list[str]


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
