"""What is answered: the shapes that the OpenAPI description gives, and that tests hold the answers to."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "About",
    "Admitted",
    "Attempt",
    "BatchDone",
    "Boundary",
    "Bounds",
    "Carrier",
    "Certificate",
    "Check",
    "Checked",
    "Checkpoint",
    "Consistency",
    "Dropped",
    "Ended",
    "Entry",
    "Erased",
    "Explained",
    "Grid",
    "Hit",
    "Hits",
    "Hold",
    "Holds",
    "Inclusion",
    "Job",
    "Leaf",
    "Map",
    "Page",
    "Path",
    "Place",
    "Plane",
    "Point",
    "Preview",
    "Previews",
    "Problem",
    "Progress",
    "Readouts",
    "Receipt",
    "Report",
    "Shape",
    "Shelved",
    "Sizes",
    "Stated",
    "Status",
    "Summary",
    "TokenShape",
    "Verified",
    "Warranty",
]

DIGEST = "[0-9a-f]{64}"
Number = float | Literal["inf", "-inf", "nan"]
Digest = Annotated[str, Field(pattern=f"^{DIGEST}$")]
Outcome = Literal["admitted", "certified_zero", "decrement", "rescued", "refused", "noop", "pruned", "rebuilt"]
Group = Literal["margin", "bound", "reserve"]
Item = TypeVar("Item")


class Shape(BaseModel):
    """One answer."""

    model_config = ConfigDict(extra="forbid")


class Place(Shape):
    """What is wrong, and where."""

    where: list[str | int]
    message: str


class Check(Shape):
    """Errors of a state, recomputed from its keys."""

    mass: Number
    box: Number
    stationarity: Number
    worst: Number
    tolerance: float
    passed: bool


class Attempt(Shape):
    """One way that was tried."""

    path: str
    worst: Number | None
    passed: bool
    error: str | None


class Refusal(Shape):
    """Why an edit was refused: what was measured, and the most that would have been allowed."""

    reason: Literal["too_few_entries", "no_acceptable_state", "would_end_warranties", "legal_hold"]
    measured: Number
    allowed: Number


class Receipt(Shape):
    """What an edit did, with its leaf in the ledger."""

    action: Literal["admission", "deletion", "pruning", "rebuild"]
    outcome: Outcome
    applied: list[str]
    refusal: Refusal | None
    check: Check
    attempts: list[Attempt]
    covers: str
    does_not_cover: list[str]
    state_before: Digest
    state_after: Digest
    seconds: float
    pivots: int
    details: dict[str, Any]
    index: int | None = None
    memory: str | None = None
    edit: int | None = None


class Problem(Shape):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    code: str
    exit_code: int
    instance: str | None = None
    measured: Number | None = None
    allowed: Number | None = None
    receipt: Receipt | None = None
    fields: list[Place] | None = None


class Preview(Shape):
    """What an edit would do; nothing was changed."""

    dry_run: Literal[True]
    outcome: Outcome
    applied: list[str]
    size: int
    deletable: int
    changed_coefficients: int
    readout_change: Number
    probes: int
    expired: list[str]
    reactivated: list[str]
    reason: str | None


class Page(Shape, Generic[Item]):
    """Some of many; `next` is the cursor of those that follow."""

    items: list[Item]
    next: str | None


class Sizes(Shape):
    """Entries in each group."""

    margin: int
    bound: int
    reserve: int


class Summary(Shape):
    """A memory in numbers."""

    name: str
    uuid: str
    edit: int
    digest: Digest
    size: int
    archived: int
    forgotten: int
    expired: int
    partition: Sizes
    cap: float
    sigma: float
    nu: float | None
    offset: float
    dimension: int
    value_dimension: int
    deletable: int
    initial_size: int


class Memories(Page[Summary]):
    """Memories, and the names of those that do not open as they were written."""

    damaged: list[str]


class Leaf(Shape):
    """One line of the ledger."""

    index: int
    kind: str
    memory: str | None
    name: str | None
    edit: int | None
    time: str
    applied: int
    live: int | None


class Dropped(Shape):
    """A memory that is gone, and the leaf that says so."""

    index: int
    kind: Literal["dropped"]


class Entry(Shape):
    """A live entry; with content where that was asked for."""

    id: str
    subject: str | None
    group: Literal["margin", "bound", "reserve", "archived", "forgotten"]
    coefficient: float
    slack: Number
    key: list[float] | None = None
    value: list[float] | None = None
    payload: Any = None


class Certificate(Shape):
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


class Warranty(Shape):
    """Where a pruned entry stands."""

    id: str
    subject: str | None
    mode: Literal["archive", "forget"]
    slack: Number
    remaining: Number
    fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    status: Literal["valid", "expired"]
    issued_at: int
    expired_at: int | None


class Plane(Shape):
    """The plane of a map."""

    kind: Literal["identity", "pca"]
    mean: list[float]
    axes: list[list[float]]
    explained: list[float]


class Point(Shape):
    """A live entry on the map."""

    id: str
    subject: str | None
    group: Group
    x: float
    y: float
    coefficient: float
    slack: Number


class Shelved(Shape):
    """A pruned entry; an archived one has its place."""

    id: str
    subject: str | None
    slack: Number
    remaining: Number
    fraction: float
    status: Literal["valid", "expired"]
    x: float | None = None
    y: float | None = None


class Erased(Shape):
    """An erased entry: nothing is left but the commitment in its receipt."""

    commitment: Digest
    index: int
    edit: int
    outcome: str
    time: str


class Grid(Shape):
    """The slack on a grid."""

    x: list[float]
    y: list[float]
    values: list[list[float]]


class Boundary(Shape):
    """Where the slack is zero."""

    polylines: list[list[list[float]]]
    grid: Grid


class Map(Shape):
    """A memory in the plane."""

    digest: Digest
    edit: int
    dimension: int
    projection: Plane
    entries: list[Point]
    archived: list[Shelved]
    forgotten: list[Shelved]
    erased: list[Erased]
    erased_total: int
    boundary: Boundary | None


class Readouts(Shape):
    """Answers at queries."""

    digest: Digest
    readouts: list[list[Number]]
    scores: list[Number]


class Hit(Shape):
    """An entry that carries part of an answer."""

    id: str
    subject: str | None
    share: Number
    similarity: Number
    value: list[float]
    payload: Any = None


class Hits(Shape):
    """Entries by share."""

    digest: Digest
    hits: list[Hit]


class Carrier(Hit):
    """An entry that carries part of an answer, and its weight."""

    coefficient: float
    group: Group


class Explained(Shape):
    """An answer and who carries it; `rest` is the share of those that are not listed."""

    digest: Digest
    query: list[float]
    x: float
    y: float
    readout: list[Number]
    score: Number
    hits: list[Carrier]
    rest: Number
    active: int


class Checked(Check):
    """Errors of the current state."""

    digest: Digest


class Bounds(Shape):
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


class Admitted(Shape):
    """What became of one entry of a batch."""

    receipt: Receipt | None = None
    problem: Problem | None = None


class BatchDone(Shape):
    """What became of a batch."""

    items: list[Admitted]
    admitted: int
    failed: int
    skipped: int


class Progress(Shape):
    """How far a job is."""

    done: int
    total: int


class Job(Shape):
    """A long job."""

    id: str
    kind: Literal["proof", "subject_erasure", "verification", "vacuum"]
    state: Literal["queued", "running", "done", "failed", "interrupted"]
    progress: Progress
    created: str
    updated: str
    result: dict[str, Any] | None
    problem: Problem | None


class Previews(Shape):
    """What an erasure would do, by memory."""

    memories: dict[str, Preview]


class Checkpoint(Shape):
    """The signed head of the ledger."""

    note: str
    origin: str
    size: int
    root: str


class Path(Shape):
    """An inclusion path, and the same as a file."""

    index: int
    size: int
    path: list[str]
    text: str


class Inclusion(Path):
    """An inclusion path with the head that it leads to."""

    checkpoint: Checkpoint


class Consistency(Shape):
    """A path from an older head to the current one."""

    old_size: int
    size: int
    path: list[str]
    text: str
    checkpoint: Checkpoint


class Stated(Shape):
    """A receipt, readable and verifiable."""

    index: int
    kind: str
    memory: str | None
    name: str | None
    edit: int | None
    statement: dict[str, Any]
    envelope: str
    inclusion: Path
    checkpoint: Checkpoint
    public_key: str
    key_id: str
    log_key: str


class Verified(Shape):
    """A receipt that checks out."""

    verified: Literal[True]
    inclusion: bool
    kind: str
    memory: str | None
    edit: int | None
    time: str


class Hold(Shape):
    """A legal hold."""

    number: int
    memory: str
    id: str | None
    subject: str | None
    reason: str


class Holds(Shape):
    """Holds in order of placement."""

    items: list[Hold]


class Ended(Shape):
    """A leaf of the ledger that ends something."""

    index: int
    kind: str


class TokenShape(Shape):
    """The token of the request."""

    id: str
    scopes: list[str]
    memory: str | None
    expires: str | None


class About(Shape):
    """The service, the store's keys, and what the token may do."""

    name: str
    version: str
    store: str
    origin: str
    public_key: str
    key_id: str
    log_key: str
    token: TokenShape
    limits: dict[str, int]
    report: bool


class Report(Shape):
    """Where the audit report can be seen, for a few minutes."""

    url: str


class Status(Shape):
    """Up, and maybe ready."""

    status: str
