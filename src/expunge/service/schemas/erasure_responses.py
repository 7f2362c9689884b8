"""Bodies of responses about erasures: previews, jobs, those that wait, their cases, and the holds in their way."""

from __future__ import annotations

from typing import Any, Literal

from expunge.service.schemas.responses import Digest, Held, Preview, Problem, ResponseBody

__all__ = [
    "Case",
    "CaseList",
    "ErasedCases",
    "ErasurePreview",
    "FoundBesides",
    "FoundSubject",
    "FoundSubjects",
    "Hold",
    "HoldList",
    "Job",
    "JobProgress",
    "LookAlike",
    "NewPendingErasure",
    "PendingErasure",
    "PendingErasureList",
    "ReleasedHold",
    "RetentionPreview",
    "Unsearched",
]


class RetentionPreview(ResponseBody):
    """What a sweep would erase, by memory, and what it would leave to holds."""

    memories: dict[str, Preview]
    held: Held
    not_read: list[str]


class JobProgress(ResponseBody):
    """How far a job is."""

    done: int
    total: int


class Job(ResponseBody):
    """A long job."""

    id: str
    kind: Literal["proof", "subject_erasure", "retention", "verification", "vacuum"]
    state: Literal["queued", "running", "done", "failed", "interrupted"]
    progress: JobProgress
    created: str
    updated: str
    result: dict[str, Any] | None
    problem: Problem | None


class Unsearched(ResponseBody):
    """A memory in which some entries have no subject, so that no search for one finds them."""

    memory: str
    unnamed: int
    entries: int


class LookAlike(ResponseBody):
    """A subject that looks like the one that was asked for; nothing was done to it."""

    subject: str
    entries: int
    memories: list[str]


class FoundSubject(ResponseBody):
    """A subject that a search found, with the number of its entries in each memory."""

    subject: str
    entries: int
    memories: dict[str, int]


class FoundSubjects(ResponseBody):
    """What a search for a person found; one that is written as it was asked for comes first."""

    items: list[FoundSubject]
    more: bool
    not_searched: list[Unsearched]


class FoundBesides(ResponseBody):
    """What else a person must know who erases a subject; null where the token may not read."""

    not_searched: list[Unsearched] | None
    look_alikes: list[LookAlike] | None


class ErasurePreview(FoundBesides):
    """What an erasure would do, by memory, and the order in which memories are edited.

    `digest` is the entity tag: it stands for the entries that would go. `holds` has the numbers of the holds in the
    way, and `mirrors` the systems that have copies; null where the token may not read.
    """

    memories: dict[str, Preview]
    digest: Digest
    order: list[str]
    holds: dict[str, list[int]] | None
    mirrors: dict[str, list[str]] | None


class PendingErasure(ResponseBody):
    """An erasure that is carried out when it is due; its leaf has the request."""

    leaf: int
    due: str
    subject: str
    case: str | None
    actor: str | None
    begun: bool
    held_back: bool
    salt: Digest


class NewPendingErasure(PendingErasure, FoundBesides):
    """An erasure that was requested just now."""


class PendingErasureList(ResponseBody):
    """Erasures that wait, in order of their requests."""

    items: list[PendingErasure]


class Case(ResponseBody):
    """The case and the actor of an edit, with the salts that open the commitments in its leaves."""

    case: str | None
    actor: str | None
    case_salt: Digest | None
    actor_salt: Digest | None
    leaves: list[int]


class CaseList(ResponseBody):
    """Cases in order of their first leaf."""

    items: list[Case]


class ErasedCases(ResponseBody):
    """How many cases were erased."""

    erased: int
    waiting: str | None


class Hold(ResponseBody):
    """A legal hold."""

    number: int
    memory: str
    id: str | None
    subject: str | None
    reason: str


class HoldList(ResponseBody):
    """Holds in order of placement."""

    items: list[Hold]


class ReleasedHold(ResponseBody):
    """A leaf of the ledger that ends something."""

    index: int
    kind: str
    waiting: str | None
