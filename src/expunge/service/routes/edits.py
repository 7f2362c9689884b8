"""Edits of one memory: admit, delete, prune, rebuild; each is one checked, signed, durable transaction.

``Idempotency-Key`` makes a repeated request get the first response, and ``If-Match`` makes an edit depend on the digest
that the client has seen. With ``dry_run`` the response says what would happen, and nothing is changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header, Query, Request
from starlette.responses import Response

from expunge.errors import Conflict, ExpungeError, InputError, Refused, StoreError
from expunge.service.auth import (
    CaseHeader,
    asked_by,
    check_sources_covered,
    context_of,
    memory_of,
    needs,
    router,
    token_of,
    told,
)
from expunge.service.json_response import JsonResponse, preview_content, receipt_content, response_with_etag
from expunge.service.problems import problem_details
from expunge.service.schemas import responses
from expunge.service.schemas.requests import (
    Admission,
    AdmissionBatch,
    Admissions,
    Deletion,
    Pruning,
    Rebuild,
    check_batch,
    check_vectors,
)
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

_ENTITY_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*')
_RECEIPT_OR_PREVIEW: dict[str, Any] = {"response_model": responses.Receipt | responses.Preview}

Edit = Callable[[StoredMemory, str | None], SignedReceipt | Preview]


@routes.post(
    "/v1/memories/{name}/admit",
    status_code=201,
    response_model=responses.Receipt,
    responses={200: {"model": responses.Preview, "description": "A dry run."}},
    openapi_extra=needs("write"),
)
async def admit(
    request: Request,
    name: str,
    body: Admission,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
    case: CaseHeader = None,
) -> Response:
    """Add one entry."""
    check_vectors(context_of(request).settings.limits, "entry", body.key, body.value)
    check_sources_covered(request, body.derived_from)
    arguments = body.model_dump() | asked_by(request, case)
    edit = _admission(arguments, None if dry_run else idempotency_key, dry_run=dry_run)
    return _response(request, await _run_edit(request, edit, if_match), 200 if dry_run else 201)


@routes.post(
    "/v1/memories/{name}/entries",
    status_code=201,
    response_model=responses.Receipt,
    responses={200: {"model": responses.Preview, "description": "A dry run."}},
    openapi_extra=needs("write"),
)
async def admit_many(
    request: Request,
    name: str,
    body: Admissions,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
) -> Response:
    """Add entries in one transaction with one receipt: all of them, or none."""
    limits = context_of(request).settings.limits
    check_batch(limits.batch, "entries", len(body.entries))
    for entry in body.entries:
        check_vectors(limits, "entries", entry.key, entry.value)
        check_sources_covered(request, entry.derived_from)
    ids = [entry.id for entry in body.entries if entry.id is not None]
    keys: list[Any] = [entry.key for entry in body.entries]
    values: list[Any] = [[entry.value] if isinstance(entry.value, float) else entry.value for entry in body.entries]

    def edit(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        return memory.admit_many(
            keys,
            values,
            ids=ids or None,
            subjects=[entry.subject for entry in body.entries],
            payloads=[entry.payload for entry in body.entries],
            expires=[entry.expires for entry in body.entries],
            derived_from=[entry.derived_from for entry in body.entries],
            on_expiry=body.on_expiry,
            dry_run=dry_run,
            expected=expected,
            idempotency_key=None if dry_run else idempotency_key,
        )

    return _response(request, await _run_edit(request, edit, if_match), 200 if dry_run else 201)


@routes.post("/v1/memories/{name}/admit/batch", response_model=responses.BatchResult, openapi_extra=needs("write"))
async def admit_batch(
    request: Request,
    name: str,
    body: AdmissionBatch,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    case: CaseHeader = None,
) -> Response:
    """Add entries one after the other; each has a receipt, or a problem, of its own. The state that ``If-Match`` asks
    for is that before the first.
    """
    limits = context_of(request).settings.limits
    check_batch(limits.batch, "entries", len(body.entries))
    for entry in body.entries:
        check_vectors(limits, "entries", entry.key, entry.value)
        check_sources_covered(request, entry.derived_from)
    # A header that cannot be read is an error of the request, not of the first entry.
    expected_digest(if_match, str)
    items: list[dict[str, Any]] = []
    failed = 0
    for index, entry in enumerate(body.entries):
        key = None if idempotency_key is None else _idempotency_key(idempotency_key, index)
        edit = _admission(entry.model_dump() | {"on_expiry": body.on_expiry} | asked_by(request, case), key)
        try:
            done = await _run_edit(request, edit, None if index else if_match)
            items.append({"receipt": told(request, _content(done))})
        except ExpungeError as problem:
            if isinstance(problem, Stale) or problem.code == "not-found":
                raise
            items.append({"problem": problem_details(problem)})
            failed += 1
            if body.on_error == "stop":
                break
    skipped = len(body.entries) - len(items)
    return JsonResponse({"items": items, "admitted": len(items) - failed, "failed": failed, "skipped": skipped})


@routes.post("/v1/memories/{name}/delete", **_RECEIPT_OR_PREVIEW, openapi_extra=needs("erase"))
async def delete(
    request: Request,
    name: str,
    body: Deletion,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
    case: CaseHeader = None,
) -> Response:
    """Erase entries by id, by several ids, or by subject, in one transaction.

    What was made from them goes with them, in other memories, too, each in a transaction of its own; a token of one
    memory is told of its own memory alone.

    Where fewer remain than the cap needs, the others, archived ones included, are fitted again at a larger cap (outcome
    `refitted`); where none remains, the memory is empty (`emptied`).
    """
    wanted = body.ids if body.id is None else [body.id]
    check_batch(context_of(request).settings.limits.batch, "ids", len(wanted or ()))

    def edit(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        key = None if dry_run else idempotency_key
        return memory.delete(
            wanted,
            subject=body.subject,
            derived=body.derived,
            dry_run=dry_run,
            expected=expected,
            idempotency_key=key,
            **asked_by(request, case),
        )

    everywhere = token_of(request).memory is None
    try:
        done = await _run_edit(request, edit, if_match)
    except Conflict as problem:
        if everywhere or problem.code != "derived-entries":
            raise
        raise Conflict("entries were made from these, and would go, too", code=problem.code) from None
    return _response(request, done, everywhere=everywhere)


@routes.post("/v1/memories/{name}/prune", **_RECEIPT_OR_PREVIEW, openapi_extra=needs("erase"))
async def prune(
    request: Request,
    name: str,
    body: Pruning,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
    case: CaseHeader = None,
) -> Response:
    """Drop every entry whose weight is proved zero, under warranty.

    In the mode `forget` the content is destroyed, and the first erasure of an entry that is live now ends all
    certificates of this pruning. The default, `archive`, keeps the content aside and has no such end.
    """

    def edit(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        key = None if dry_run else idempotency_key
        return memory.prune(
            body.mode,
            sketch=body.sketch,
            dry_run=dry_run,
            expected=expected,
            idempotency_key=key,
            **asked_by(request, case),
        )

    return _response(request, await _run_edit(request, edit, if_match))


@routes.post("/v1/memories/{name}/rebuild", response_model=responses.Receipt, openapi_extra=needs("admin"))
async def rebuild(
    request: Request,
    name: str,
    body: Rebuild,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    case: CaseHeader = None,
) -> Response:
    """Solve afresh at a new cap or width: a different reference, and recorded as such."""

    def edit(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        return memory.rebuild(
            nu=body.nu,
            cap=body.cap,
            sigma=body.sigma,
            expected=expected,
            idempotency_key=idempotency_key,
            **asked_by(request, case),
        )

    return _response(request, await _run_edit(request, edit, if_match))


async def _run_edit(request: Request, edit: Edit, if_match: str | None) -> SignedReceipt | Preview:
    """Run an edit."""
    context = context_of(request)

    def run() -> SignedReceipt | Preview:
        memory = memory_of(request)
        try:
            return edit(memory, expected_digest(if_match, lambda: memory.digest))
        except Refused:
            request.state.outcome = "refused"
            raise
        except StoreError:
            if memory.name not in context.store:
                raise InputError("the memory was dropped in the meantime", code="not-found") from None
            raise

    done = await context.executor.edit_memory(run)
    request.state.outcome = done.outcome if isinstance(done, SignedReceipt) else "preview"
    request.state.leaf = done.index if isinstance(done, SignedReceipt) else None
    return done


def _admission(arguments: dict[str, Any], key: str | None, *, dry_run: bool = False) -> Edit:
    def edit(memory: StoredMemory, expected: str | None) -> SignedReceipt | Preview:
        done: SignedReceipt | Preview
        done = memory.admit(**arguments, dry_run=dry_run, expected=expected, idempotency_key=key)
        return done

    return edit


def _response(
    request: Request, done: SignedReceipt | Preview, status: int = 200, *, everywhere: bool = True
) -> Response:
    """With ``everywhere`` the response tells of other memories, too."""
    content = told(request, _content(done, everywhere=everywhere))
    return (
        response_with_etag(content, done.state_after, status)
        if isinstance(done, SignedReceipt)
        else JsonResponse(content)
    )


def _content(done: SignedReceipt | Preview, *, everywhere: bool = True) -> dict[str, Any]:
    if isinstance(done, SignedReceipt):
        return receipt_content(done, everywhere=everywhere)
    return preview_content(done, everywhere=everywhere)


def expected_digest(header: str | None, current: Callable[[], str]) -> str | None:
    """The digest that an If-Match header asks for; of several, the current one, if it is among them."""
    if header is None or header.strip() == "*":
        return None
    tags = [_ENTITY_TAG.fullmatch(part) for part in header.split(",")]
    if any(tag is None for tag in tags):
        raise InputError('If-Match holds entity tags in quotes, as in "5c00…", or *')
    # A weak tag never matches (RFC 9110, 13.1.1).
    digests = ["weak" if tag.group(1) else tag.group(2) for tag in tags if tag is not None]
    if len(digests) == 1:
        return digests[0]
    now = current()
    return now if now in digests else digests[0]


def _idempotency_key(key: str, index: int) -> str:
    """Idempotency key of one entry of a batch."""
    return hashlib.sha256(f"expunge/batch/v1\n{index}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()
