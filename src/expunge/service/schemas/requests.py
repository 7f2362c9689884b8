"""Bodies of requests. Unknown fields are refused, and texts are not taken for numbers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from expunge.errors import InputError
from expunge.service.settings import Limits

__all__ = [
    "Admission",
    "AdmissionBatch",
    "Deletion",
    "ExplanationQuery",
    "NewHold",
    "NewMemory",
    "Pruning",
    "ReadQueries",
    "Rebuild",
    "SearchQuery",
    "SubjectErasure",
    "SubmittedReceipt",
    "check_batch",
    "check_vectors",
]

Finite = Annotated[float, Field(allow_inf_nan=False)]
Vector = Annotated[list[Finite], Field(min_length=1)]
Text = Annotated[str, Field(min_length=1)]


class RequestBody(BaseModel):
    """One body."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _example(**content: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [content]})


class NewMemory(RequestBody):
    """A new memory: keys (n, d), values (n, dv) or (n,), the width, and ν or the cap."""

    model_config = _example(
        name="icu-7",
        keys=[[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]],
        values=[[1.0], [2.0], [9.0]],
        sigma=5.0,
        cap=1.0,
        ids=["a", "b", "c"],
        subjects=["patient-1", "patient-2", "patient-2"],
    )

    name: Annotated[str, Field(min_length=1, max_length=200)]
    keys: Annotated[list[Vector], Field(min_length=1)]
    values: Annotated[list[Vector] | list[Finite], Field(min_length=1)]
    sigma: Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
    nu: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    cap: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    ids: list[Text] | None = None
    subjects: list[Text | None] | None = None
    payloads: list[Any] | None = None


class NewEntry(RequestBody):
    """One entry to admit."""

    key: Vector
    value: Vector | Finite
    id: Text | None = None
    subject: Text | None = None
    payload: Any = None


class Admission(NewEntry):
    """One entry, and what to do if it would end certificates."""

    model_config = _example(
        key=[0.0, -10.0], value=[3.0], id="d", subject="patient-1", payload={"hour": 12}, on_expiry="report"
    )

    on_expiry: Literal["report", "refuse"] = "report"


class AdmissionBatch(RequestBody):
    """Entries to admit one after the other, each in a transaction of its own."""

    model_config = _example(entries=[{"key": [0.5, 0.5], "value": [1.0]}, {"key": [0.1, 0.7], "value": [2.0]}])

    entries: Annotated[list[NewEntry], Field(min_length=1)]
    on_expiry: Literal["report", "refuse"] = "report"
    on_error: Literal["stop", "continue"] = "stop"


class Deletion(RequestBody):
    """What to delete: one id, several ids, or everything of a subject."""

    model_config = _example(subject="patient-1")

    id: Text | None = None
    ids: Annotated[list[Text], Field(min_length=1)] | None = None
    subject: Text | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Deletion:
        if sum(given is not None for given in (self.id, self.ids, self.subject)) != 1:
            raise ValueError("say id, ids or subject, and one of them")
        return self


class Pruning(RequestBody):
    """How to prune: keep the content aside, or destroy it; how many neighbours to remember of each forgotten entry."""

    model_config = _example(mode="archive", sketch=0)

    mode: Literal["archive", "forget"] = "archive"
    sketch: Annotated[int, Field(ge=0, le=64)] = 0


class Rebuild(RequestBody):
    """The new cap, or the ν to derive it from."""

    model_config = _example(nu=0.5)

    nu: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    cap: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Rebuild:
        if (self.nu is None) == (self.cap is None):
            raise ValueError("say nu or cap, and one of them")
        return self


class ReadQueries(RequestBody):
    """Where to read: queries (m, d)."""

    model_config = _example(queries=[[0.0, 0.1]])

    queries: Annotated[list[Vector], Field(min_length=1)]


class SearchQuery(RequestBody):
    """Where to look, and how many entries to list."""

    model_config = _example(query=[0.0, 0.1], k=3)

    query: Vector
    k: Annotated[int, Field(ge=1, le=1000)] = 5


class ExplanationQuery(RequestBody):
    """Where to ask: a query, the key of a live entry, or a place on the map."""

    model_config = _example(at=[0.0, 0.1], k=3)

    query: Vector | None = None
    like: Text | None = None
    at: Annotated[list[Finite], Field(min_length=2, max_length=2)] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] = 20

    @model_validator(mode="after")
    def _exactly_one(self) -> ExplanationQuery:
        if sum(given is not None for given in (self.query, self.like, self.at)) != 1:
            raise ValueError("say query, like or at, and one of them")
        return self


class SubjectErasure(RequestBody):
    """Whose entries to erase, in every memory."""

    model_config = _example(subject="patient-1")

    subject: Text


class NewHold(RequestBody):
    """What must not be erased for the time being, and why."""

    model_config = _example(subject="patient-1", reason="case 12/345")

    id: Text | None = None
    subject: Text | None = None
    reason: Annotated[str, Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _exactly_one(self) -> NewHold:
        if (self.id is None) == (self.subject is None):
            raise ValueError("a hold is on an id, or on a subject, and on exactly one of them")
        return self


class SubmittedReceipt(RequestBody):
    """A signed receipt to verify, as text, and the proof of its place in the log."""

    envelope: str
    inclusion: str | None = None


def check_vectors(limits: Limits, what: str, *vectors: list[float] | float | None) -> None:
    """Vectors of at most so many coordinates."""
    for vector in vectors:
        if isinstance(vector, list) and len(vector) > limits.dimension:
            raise InputError(f"{what}: a vector has at most {limits.dimension} coordinates, not {len(vector)}")


def check_batch(most: int, what: str, count: int) -> None:
    """At most so many at once."""
    if count > most:
        raise InputError(f"{what}: at most {most} at once, not {count}")
