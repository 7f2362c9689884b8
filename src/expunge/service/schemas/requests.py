"""Bodies of requests. Unknown fields are refused, and texts are not taken for numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from expunge.errors import InputError
from expunge.service.settings import Limits

__all__ = [
    "Admission",
    "AdmissionBatch",
    "Admissions",
    "Columns",
    "Deletion",
    "ExplanationQuery",
    "NearestQuery",
    "NewMemory",
    "Pruning",
    "ReadQueries",
    "Rebuild",
    "SearchQuery",
    "SubjectExport",
    "SubjectQuery",
    "SubmittedReceipt",
    "check_batch",
    "check_vectors",
]

Finite = Annotated[float, Field(allow_inf_nan=False)]
Vector = Annotated[list[Finite], Field(min_length=1)]
# By column name; null, or no such field, is a missing measurement.
Measurements = Annotated[dict[str, Finite | None], Field(min_length=1)]
Point = Vector | Measurements
Text = Annotated[str, Field(min_length=1)]
# An id of the same memory, or the name of another memory and an id.
_PAIR = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2, "maxItems": 2}
Source = Text | Annotated[tuple[Text, Text], Field(strict=False), WithJsonSchema(_PAIR)]


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a time is text, as in 2027-01-31T12:00:00Z")
    return value


# RFC 3339, with a zone.
Time = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_text)]


class RequestBody(BaseModel):
    """One body."""

    model_config = ConfigDict(extra="forbid", strict=True)


def example(**content: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [content]})


class NewColumn(RequestBody):
    """A column: a measurement x becomes (x − centre)/scale; a missing one is replaced by the fill, or refused."""

    name: Text
    unit: str | None = None
    centre: Finite = 0.0
    scale: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 1.0
    fill: Finite | None = None


class Columns(RequestBody):
    """The columns of keys and values, in order, and whether their numbers were chosen from the entries."""

    keys: Annotated[list[NewColumn], Field(min_length=1)]
    values: Annotated[list[NewColumn], Field(min_length=1)]
    learned: bool = False


class NewMemory(RequestBody):
    """A new memory: keys (n, d), values (n, dv) or (n,), the width, and ν or the cap.

    An empty one has neither keys nor values, but the coordinates of both. With columns, keys and values may be objects
    by column name; arrays are coordinates, which are not scaled. The width is chosen where
    none is given; without ν and cap, ν is 0.1.
    """

    model_config = example(
        name="icu-7",
        keys=[[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]],
        values=[[1.0], [2.0], [9.0]],
        sigma=5.0,
        cap=1.0,
        ids=["a", "b", "c"],
        subjects=["patient-1", "patient-2", "patient-2"],
    )

    name: Annotated[str, Field(min_length=1, max_length=200)]
    keys: list[Vector] | list[Measurements] = []
    values: list[Vector] | list[Finite] | list[Measurements] = []
    preprocessing: Columns | None = None
    dimension: Annotated[int, Field(ge=1)] | None = None
    value_dimension: Annotated[int, Field(ge=1)] | None = None
    sigma: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | Literal["auto"] = "auto"
    nu: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    cap: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    ids: list[Text] | None = None
    subjects: list[Text | None] | None = None
    payloads: list[Any] | None = None
    expires: list[Time | None] | None = None
    derived_from: list[list[Source]] | None = None

    @model_validator(mode="after")
    def _entries_or_coordinates(self) -> NewMemory:
        if bool(self.keys) == (self.dimension is not None):
            raise ValueError("say keys and values, or dimension for a memory that is empty, and one of them")
        if self.value_dimension is not None and self.keys:
            raise ValueError("value_dimension is for a memory that is empty; values tell theirs")
        return self


class NewEntry(RequestBody):
    """One entry to admit."""

    key: Point
    value: Vector | Finite | Measurements
    id: Text | None = None
    subject: Text | None = None
    payload: Any = None
    expires: Time | None = None
    derived_from: list[Source] = []


class Admission(NewEntry):
    """One entry, and what to do if it would end certificates."""

    model_config = example(
        key=[0.0, -10.0], value=[3.0], id="d", subject="patient-1", payload={"hour": 12}, on_expiry="report"
    )

    on_expiry: Literal["report", "refuse"] = "report"


class Admissions(RequestBody):
    """Entries to admit in one transaction, all or none; every one has an id, or none has."""

    model_config = example(entries=[{"key": [0.5, 0.5], "value": [1.0]}, {"key": [0.1, 0.7], "value": [2.0]}])

    entries: Annotated[list[NewEntry], Field(min_length=1)]
    on_expiry: Literal["report", "refuse"] = "report"

    @model_validator(mode="after")
    def _all_ids_or_none(self) -> Admissions:
        if len({entry.id is None for entry in self.entries}) > 1:
            raise ValueError("some entries have an id and others have none; give all of them one, or none")
        return self


class AdmissionBatch(RequestBody):
    """Entries to admit one after the other, each in a transaction of its own."""

    model_config = example(entries=[{"key": [0.5, 0.5], "value": [1.0]}, {"key": [0.1, 0.7], "value": [2.0]}])

    entries: Annotated[list[NewEntry], Field(min_length=1)]
    on_expiry: Literal["report", "refuse"] = "report"
    on_error: Literal["stop", "continue"] = "stop"


class Deletion(RequestBody):
    """What to delete: one id, several ids, or everything of a subject.

    What was made from these entries goes with them, in other memories, too; with `refuse` nothing goes then.
    """

    model_config = example(subject="patient-1", derived="erase")

    id: Text | None = None
    ids: Annotated[list[Text], Field(min_length=1)] | None = None
    subject: Text | None = None
    derived: Literal["erase", "refuse"] = "erase"

    @model_validator(mode="after")
    def _exactly_one(self) -> Deletion:
        if sum(given is not None for given in (self.id, self.ids, self.subject)) != 1:
            raise ValueError("say id, ids or subject, and one of them")
        return self


class Pruning(RequestBody):
    """How to prune: keep the content aside, or destroy it; how many neighbours to remember of each forgotten entry."""

    model_config = example(mode="archive", sketch=0)

    mode: Literal["archive", "forget"] = "archive"
    sketch: Annotated[int, Field(ge=0, le=64)] = 0


class Rebuild(RequestBody):
    """The new cap, or the ν to derive it from; the new width, or ``auto`` to choose it from the keys."""

    model_config = example(nu=0.5, sigma="auto")

    nu: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    cap: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None

    sigma: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | Literal["auto"] | None = None

    @model_validator(mode="after")
    def _something_new(self) -> Rebuild:
        if self.nu is not None and self.cap is not None:
            raise ValueError("say nu or cap, not both")
        if self.nu is None and self.cap is None and self.sigma is None:
            raise ValueError("say nu or cap, sigma, or both")
        return self


class ReadQueries(RequestBody):
    """Where to read: queries (m, d), or objects by column name."""

    model_config = example(queries=[[0.0, 0.1]])

    queries: Annotated[list[Vector] | list[Measurements], Field(min_length=1)]


class SearchQuery(RequestBody):
    """Where to look, and how many entries to list."""

    model_config = example(query=[0.0, 0.1], k=3)

    query: Point
    k: Annotated[int, Field(ge=1, le=1000)] = 5


class NearestQuery(SearchQuery):
    """Where to look, how many entries to list, and whether archived ones count."""

    model_config = example(query=[0.0, 0.1], k=3, archived=True)

    archived: bool = True


class ExplanationQuery(RequestBody):
    """Where to ask: a query, a text where keys were made from texts, the key of a live entry, or a place on the map."""

    model_config = example(at=[0.0, 0.1], k=3)

    query: Point | None = None
    text: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    like: Text | None = None
    at: Annotated[list[Finite], Field(min_length=2, max_length=2)] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] = 20

    @model_validator(mode="after")
    def _exactly_one(self) -> ExplanationQuery:
        if sum(given is not None for given in (self.query, self.text, self.like, self.at)) != 1:
            raise ValueError("say query, text, like or at, and one of them")
        return self


class SubjectExport(RequestBody):
    """Whose entries to export."""

    model_config = example(subject="patient-1")

    subject: Text


class SubjectQuery(RequestBody):
    """Words of a person's name or number."""

    model_config = example(text="patient-1")

    text: Text


class SubmittedReceipt(RequestBody):
    """A signed receipt to verify, as text, and the proof of its place in the log."""

    envelope: str
    inclusion: str | None = None


def check_vectors(limits: Limits, what: str, *vectors: list[float] | Mapping[str, float | None] | float | None) -> None:
    """Vectors of at most so many coordinates."""
    for vector in vectors:
        if isinstance(vector, list | Mapping) and len(vector) > limits.dimension:
            raise InputError(f"{what}: a vector has at most {limits.dimension} coordinates, not {len(vector)}")


def check_batch(most: int, what: str, count: int) -> None:
    """At most so many at once."""
    if count > most:
        raise InputError(f"{what}: at most {most} at once, not {count}")
