"""Edits of one memory: admit, delete, prune, rebuild; each is one checked, signed, durable transaction.

``Idempotency-Key`` makes a repeated request get the first answer, and ``If-Match`` makes an edit depend on the digest
that the client has seen. With ``dry_run`` the answer says what would happen, and nothing is changed.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header, Query, Request
from starlette.responses import Response

from expunge.errors import ExpungeError, InputError, Refused, StoreError
from expunge.memory.receipt import Receipt
from expunge.service.auth import memory_of, needs, router
from expunge.service.context import house_of
from expunge.service.json_response import Answer, preview_content, tagged
from expunge.service.problems import problem_of
from expunge.service.schemas import responses as shapes
from expunge.service.schemas.requests import Admission, Batch, Deletion, Pruning, Rebuilding, check_batch, check_vectors
from expunge.store import Preview, SignedReceipt, Stale, StoredMemory

__all__ = ["IdempotencyKey", "IfMatch", "expected_digest", "routes"]

routes = router("edits")

IdempotencyKey = Annotated[
    str | None,
    Header(min_length=1, max_length=1000, description="A repeated request with this key is applied once."),
]
IfMatch = Annotated[
    str | None, Header(max_length=1000, description="Only if the memory is still in this state: its entity tag.")
]
DryRun = Annotated[bool, Query(description="Say what would happen, and change nothing.")]

_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*')
_EDIT: dict[str, Any] = {"response_model": shapes.Receipt | shapes.Preview}

Act = Callable[[StoredMemory, str | None], SignedReceipt | Preview]


@routes.post(
    "/v1/memories/{name}/admit",
    status_code=201,
    response_model=shapes.Receipt,
    responses={200: {"model": shapes.Preview, "description": "A dry run."}},
    openapi_extra=needs("write"),
)
async def admit(
    request: Request,
    name: str,
    form: Admission,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
) -> Response:
    """Add one entry."""
    check_vectors(house_of(request).settings.limits, "entry", form.key, form.value)
    act = _admission(form.model_dump(), None if dry_run else idempotency_key, dry_run=dry_run)
    return _told(await _edited(request, "admission", act, if_match), 200 if dry_run else 201)


@routes.post("/v1/memories/{name}/admit/batch", response_model=shapes.BatchDone, openapi_extra=needs("write"))
async def admit_batch(
    request: Request, name: str, form: Batch, idempotency_key: IdempotencyKey = None, if_match: IfMatch = None
) -> Response:
    """Add entries one after the other; each has a receipt, or a problem, of its own. The state that ``If-Match`` asks
    for is that before the first.
    """
    limits = house_of(request).settings.limits
    check_batch(limits.batch, "entries", len(form.entries))
    for entry in form.entries:
        check_vectors(limits, "entries", entry.key, entry.value)
    # A header that cannot be read is the request's fault, not the first entry's.
    expected_digest(if_match, str)
    items: list[dict[str, Any]] = []
    failed = 0
    for place, entry in enumerate(form.entries):
        key = None if idempotency_key is None else _part(idempotency_key, place)
        act = _admission(entry.model_dump() | {"on_expiry": form.on_expiry}, key)
        try:
            done = await _edited(request, "admission", act, None if place else if_match)
            items.append({"receipt": _content(done)})
        except ExpungeError as problem:
            if isinstance(problem, Stale) or problem.code == "not-found":
                raise
            items.append({"problem": problem_of(problem)})
            failed += 1
            if form.on_error == "stop":
                break
    skipped = len(form.entries) - len(items)
    return Answer({"items": items, "admitted": len(items) - failed, "failed": failed, "skipped": skipped})


@routes.post("/v1/memories/{name}/delete", **_EDIT, openapi_extra=needs("erase"))
async def delete(
    request: Request,
    name: str,
    form: Deletion,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
) -> Response:
    """Erase entries by id, by several ids, or by subject, in one transaction."""
    wanted = form.ids if form.id is None else [form.id]
    check_batch(house_of(request).settings.limits.batch, "ids", len(wanted or ()))

    def act(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        key = None if dry_run else idempotency_key
        return memory.delete(wanted, subject=form.subject, dry_run=dry_run, expected=expected, idempotency_key=key)

    return _told(await _edited(request, "deletion", act, if_match))


@routes.post("/v1/memories/{name}/prune", **_EDIT, openapi_extra=needs("erase"))
async def prune(
    request: Request,
    name: str,
    form: Pruning,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
) -> Response:
    """Drop every entry whose weight is proved zero, under warranty."""

    def act(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        key = None if dry_run else idempotency_key
        return memory.prune(form.mode, sketch=form.sketch, dry_run=dry_run, expected=expected, idempotency_key=key)

    return _told(await _edited(request, "pruning", act, if_match))


@routes.post("/v1/memories/{name}/rebuild", response_model=shapes.Receipt, openapi_extra=needs("admin"))
async def rebuild(
    request: Request,
    name: str,
    form: Rebuilding,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
) -> Response:
    """Solve afresh at a new cap: a different reference, and recorded as such."""

    def act(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        return memory.rebuild(nu=form.nu, cap=form.cap, expected=expected, idempotency_key=idempotency_key)

    return _told(await _edited(request, "rebuild", act, if_match))


async def _edited(request: Request, action: str, act: Act, if_match: str | None) -> SignedReceipt | Preview:
    """Do it when the memory's turn has come, and count it."""
    house = house_of(request)
    memory = await house.desk.read(memory_of, request)

    def run() -> SignedReceipt | Preview:
        started = time.perf_counter()
        try:
            done = act(memory, expected_digest(if_match, lambda: memory.digest))
        except Refused as problem:
            house.metrics.edited(action, problem.receipt, time.perf_counter() - started)
            raise
        except StoreError:
            if memory.name not in house.store:
                raise InputError("the memory was dropped in the meantime", code="not-found") from None
            raise
        if isinstance(done, Receipt):
            house.metrics.edited(action, done, time.perf_counter() - started)
        return done

    done = await house.desk.edit(memory.uuid, run)
    request.state.outcome = done.outcome if isinstance(done, Receipt) else "preview"
    request.state.leaf = done.index if isinstance(done, SignedReceipt) else None
    return done


def _admission(given: dict[str, Any], key: str | None, *, dry_run: bool = False) -> Act:
    def act(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        done: SignedReceipt | Preview
        done = memory.admit(**given, dry_run=dry_run, expected=expected, idempotency_key=key)
        return done

    return act


def _told(done: SignedReceipt | Preview, status: int = 200) -> Response:
    if isinstance(done, SignedReceipt):
        return tagged(done.to_json(), done.state_after, status)
    return Answer(_content(done))


def _content(done: SignedReceipt | Preview) -> dict[str, Any]:
    return done.to_json() if isinstance(done, SignedReceipt) else preview_content(done)


def expected_digest(header: str | None, current: Callable[[], str]) -> str | None:
    """The digest that an If-Match header insists on; of several, the current one, if it is among them."""
    if header is None or header.strip() == "*":
        return None
    found = [_TAG.fullmatch(part) for part in header.split(",")]
    if any(tag is None for tag in found):
        raise InputError('If-Match holds entity tags in quotes, as in "5c00…", or *')
    # A weak tag never matches (RFC 9110, 13.1.1).
    digests = ["weak" if tag.group(1) else tag.group(2) for tag in found if tag is not None]
    if len(digests) == 1:
        return digests[0]
    now = current()
    return now if now in digests else digests[0]


def _part(key: str, place: int) -> str:
    """Idempotency key of one entry of a batch."""
    return hashlib.sha256(f"expunge/batch/v1\n{place}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()
