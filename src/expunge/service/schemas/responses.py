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
    "DerivedEntry",
    "ErasedPart",
    "ExportedEntry",
    "ExportedSubject",
    "FieldError",
    "JointErasure",
    "MadeEntries",
    "MemoryPreview",
    "MirrorPassed",
    "Page",
    "Preview",
    "Problem",
    "PublicKey",
    "Receipt",
    "Refusal",
    "ReportLink",
    "ResponseBody",
    "ServiceInfo",
    "TokenInfo",
]

Number = float | Literal["inf", "-inf", "nan"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Outcome = Literal[
    "admitted", "certified_zero", "decrement", "refitted", "emptied", "refused", "noop", "pruned", "rebuilt"
]
Group = Literal["margin", "bound", "reserve"]
# Entries that a sweep left to holds, by memory: their ids, or how many for a token that may not read.
Held = dict[str, list[str] | int]
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
    kind: Literal["keys", "sums"]
    faults: list[str]


class Refusal(ResponseBody):
    """Why an edit was refused: how many were asked for and how many allowed, where these are counts."""

    reason: Literal["no_acceptable_state", "would_end_warranties", "legal_hold"]
    measured: float | None
    allowed: float | None
    holds: list[int]


class OutdatedChoice(ResponseBody):
    """A number chosen from entries that would be another, chosen from those that there are now, or that nothing is left
    to choose from; and what to do.
    """

    what: Literal["sigma", "centre", "scale", "fill"]
    column: str | None
    kept: float
    now: float | None
    remedy: Literal["rebuild", "import", "create"]


class ErasedPart(ResponseBody):
    """What an erasure did in one memory; without a leaf where the store could not do it."""

    memory: str
    uuid: str
    outcome: str
    index: int | None
    applied: list[str]
    holds: list[int]
    reason: str | None


class JointErasure(ResponseBody):
    """What an erasure did in several memories, or a sweep of what had ended by `due`, with the leaf that sums it up.

    `held` has the entries that a sweep left to holds, and `not_read` the damaged memories, of which nobody can tell
    what their entries were made from.
    """

    complete: bool
    index: int | None
    due: str | None
    held: Held
    not_read: list[str]
    memories: list[ErasedPart]


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
    outdated: list[OutdatedChoice] | None = []
    elsewhere: JointErasure | None = None


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


class DerivedEntry(ResponseBody):
    """An entry that would go because its sources would: memory and id of each."""

    memory: str
    id: str
    sources: list[list[str]]


class MemoryPreview(ResponseBody):
    """What an edit would do in one memory."""

    outcome: Outcome
    applied: list[str]
    size: int
    deletable: int
    cap_before: float
    cap: float
    changed_coefficients: int
    readout_bound: Number | None
    readout_change: Number
    probes: int
    ended: list[str]
    expired: list[str]
    reactivated: list[str]
    reason: str | None
    holds: list[int]
    notice: str | None
    outdated: list[OutdatedChoice] | None
    derived: list[DerivedEntry]
    elsewhere: dict[str, MemoryPreview]


class Preview(MemoryPreview):
    """What an edit would do; nothing was changed. `elsewhere` is what it would do in other memories."""

    dry_run: Literal[True]


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


class ExportedLeaf(ResponseBody):
    """A leaf of the ledger that names an entry."""

    leaf: int
    kind: str
    time: str


class ExportedHold(ResponseBody):
    """A hold on an entry."""

    number: int
    reason: str


class ExportedEntry(ResponseBody):
    """One entry of a person, with its content unless it was forgotten."""

    memory: str
    id: str
    state: Literal["live", "archived", "forgotten", "stored"]
    key: list[float] | None
    value: list[float] | None
    payload: Any
    measurements: dict[str, dict[str, float]] | None
    expires: str | None
    derived_from: list[list[str]]
    commitment: Digest
    admitted: ExportedLeaf | None
    leaves: list[ExportedLeaf]
    holds: list[ExportedHold]


class MadeEntries(ResponseBody):
    """What was made from a person's entries, without content, and the damaged memories that were not read."""

    entries: list[DerivedEntry]
    not_read: list[str]


class ExportedSubject(ResponseBody):
    """Everything of one person: what there is besides entries, the entries, and what was made from them."""

    about: dict[str, Any]
    entries: list[ExportedEntry]
    derived: MadeEntries


class Mirror(ResponseBody):
    """A system that has copies; the number is the leaf that added it. What is pending are edits."""

    mirror: int
    system: str
    url: str
    memory: str | None
    of_all_memories: bool
    map: dict[str, Any]
    writes_pending: int
    erasures_pending: int
    failures: int
    next_try: str | None


class MirrorList(ResponseBody):
    """Mirrors in the order in which they were added."""

    items: list[Mirror]


class MirrorPassed(ResponseBody):
    """What a pass over a mirror did: copies written, erased entries by what was found of them, edits still owed."""

    mirror: int
    written: int
    found: dict[str, int]
    still_there: int
    pending: int
    waits: bool
    leaf: int | None
    problem: str | None


class TokenInfo(ResponseBody):
    """The token of the request."""

    id: str
    scopes: list[str]
    memory: str | None
    expires: str | None


class PublicKey(ResponseBody):
    """A public key of the store: PEM for receipts, a verifier key for heads."""

    use: Literal["receipts", "heads"]
    key_id: str
    key: str
    revoked: bool


class ServiceInfo(ResponseBody):
    """The service, the store's keys, and what the token may do."""

    name: str
    version: str
    store: str
    origin: str
    public_key: str
    key_id: str
    log_key: str
    keys: list[PublicKey]
    token: TokenInfo
    limits: dict[str, int]
    report: bool


class ReportLink(ResponseBody):
    """Where the audit report can be seen, for a few minutes."""

    url: str
