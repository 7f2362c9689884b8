"""Bodies of responses that are not about one memory's content: problems, receipts, jobs, holds, the service itself.

The OpenAPI description gives them, and tests hold the responses to it.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "BatchItem",
    "BatchResult",
    "Check",
    "ErasurePreview",
    "FieldError",
    "Hold",
    "HoldList",
    "Job",
    "JobProgress",
    "Page",
    "Preview",
    "Problem",
    "Receipt",
    "Refusal",
    "ReleasedHold",
    "ReportLink",
    "ResponseBody",
    "ServiceInfo",
    "TokenInfo",
]

Number = float | Literal["inf", "-inf", "nan"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Outcome = Literal["admitted", "certified_zero", "decrement", "refused", "noop", "pruned", "rebuilt"]
Group = Literal["margin", "bound", "reserve"]
Item = TypeVar("Item")


class ResponseBody(BaseModel):
    """One answer."""

    model_config = ConfigDict(extra="forbid")


class FieldError(ResponseBody):
    """What is wrong, and where."""

    where: list[str | int]
    message: str


class Check(ResponseBody):
    """Errors of a state, recomputed from its keys."""

    mass: Number
    box: Number
    stationarity: Number
    worst: Number
    tolerance: float
    passed: bool


class Refusal(ResponseBody):
    """Why an edit was refused: how many were asked for and how many allowed, where these are counts."""

    reason: Literal["too_few_entries", "no_acceptable_state", "would_end_warranties", "legal_hold"]
    measured: float | None
    allowed: float | None


class Receipt(ResponseBody):
    """What an edit did, with its leaf in the ledger."""

    action: Literal["admission", "deletion", "pruning", "rebuild"]
    outcome: Outcome
    applied: list[str]
    refusal: Refusal | None
    covers: str
    does_not_cover: list[str]
    state_before: Digest
    state_after: Digest
    details: dict[str, Any]
    index: int | None = None
    memory: str | None = None
    edit: int | None = None
    waiting: str | None = None


class Problem(ResponseBody):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    code: str
    exit_code: int
    instance: str | None = None
    measured: float | None = None
    allowed: float | None = None
    receipt: Receipt | None = None
    fields: list[FieldError] | None = None


class Preview(ResponseBody):
    """What an edit would do; nothing was changed."""

    dry_run: Literal[True]
    outcome: Outcome
    applied: list[str]
    size: int
    deletable: int
    changed_coefficients: int
    readout_change: Number
    probes: int
    ended: list[str]
    expired: list[str]
    reactivated: list[str]
    reason: str | None
    notice: str | None


class Page(ResponseBody, Generic[Item]):
    """Some of many; `next` is the cursor of those that follow."""

    items: list[Item]
    next: str | None


class BatchItem(ResponseBody):
    """What became of one entry of a batch."""

    receipt: Receipt | None = None
    problem: Problem | None = None


class BatchResult(ResponseBody):
    """What became of a batch."""

    items: list[BatchItem]
    admitted: int
    failed: int
    skipped: int


class JobProgress(ResponseBody):
    """How far a job is."""

    done: int
    total: int


class Job(ResponseBody):
    """A long job."""

    id: str
    kind: Literal["proof", "subject_erasure", "verification", "vacuum"]
    state: Literal["queued", "running", "done", "failed", "interrupted"]
    progress: JobProgress
    created: str
    updated: str
    result: dict[str, Any] | None
    problem: Problem | None


class ErasurePreview(ResponseBody):
    """What an erasure would do, by memory."""

    memories: dict[str, Preview]


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


class TokenInfo(ResponseBody):
    """The token of the request."""

    id: str
    scopes: list[str]
    memory: str | None
    expires: str | None


class ServiceInfo(ResponseBody):
    """The service, the store's keys, and what the token may do."""

    name: str
    version: str
    store: str
    origin: str
    public_key: str
    key_id: str
    log_key: str
    token: TokenInfo
    limits: dict[str, int]
    report: bool


class ReportLink(ResponseBody):
    """Where the audit report can be seen, for a few minutes."""

    url: str
