"""Memories: list, create, show, drop."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError, VerificationError
from expunge.preprocessing import Preprocessing
from expunge.service.auth import (
    Asked,
    CaseHeader,
    asked_by,
    check_sources_covered,
    context_of,
    memory_of,
    needs,
    router,
    token_of,
)
from expunge.service.json_response import JsonResponse, response_with_etag
from expunge.service.memory_summary import summary_content
from expunge.service.routes.edits import IdempotencyKey, IfMatch, expected_digest
from expunge.service.schemas.memory_responses import DroppedMemory, MemoryPage, MemorySummary
from expunge.service.schemas.paging import Cursor, Limit, cursor, page_size, position
from expunge.service.schemas.requests import NewMemory, check_batch, check_vectors
from expunge.store import Leaf, Store, StoredMemory

__all__ = ["routes"]

routes = router("memories")


@routes.get("/v1/memories", response_model=MemoryPage, openapi_extra=needs("read", "audit", "admin"))
async def list_memories(request: Request, cursor_: Cursor = None, limit: Limit = None) -> Response:
    """Memories in order of their names; those that the token reaches. Damaged ones are named and not described."""
    context, token = context_of(request), token_of(request)
    size = page_size(context.settings.limits, limit)
    after = position(cursor_, str)

    def page() -> dict[str, Any]:
        names = [name for name in context.store.names() if token.covers(name) and (after is None or name > after)]
        rows, damaged = [], []
        for name in names[:size]:
            try:
                if name in context.store:
                    rows.append(summary_content(context.store[name]))
            except VerificationError:
                damaged.append(name)
        return {"items": rows, "damaged": damaged, "next": cursor(names[size - 1]) if len(names) > size else None}

    return JsonResponse(await context.executor.read(page))


@routes.post("/v1/memories", status_code=201, response_model=MemorySummary, openapi_extra=needs("write"))
async def create_memory(
    request: Request, body: NewMemory, idempotency_key: IdempotencyKey = None, case: CaseHeader = None
) -> Response:
    """Fit a memory to entries, or make an empty one, and keep it under a name.

    It takes as many entries as a batch; admit the others. A repeated request answers with the memory as it is now.
    """
    context = context_of(request)
    if not token_of(request).covers(body.name):
        raise InputError("this token is for another memory", code="forbidden")
    for sources in body.derived_from or ():
        check_sources_covered(request, sources)
    limits = context.settings.limits
    check_batch(limits.batch, "keys", len(body.keys))
    check_vectors(limits, "keys", *body.keys)
    check_vectors(limits, "values", *body.values)
    if max(body.dimension or 0, body.value_dimension or 0) > limits.dimension:
        raise InputError(f"dimension: a vector has at most {limits.dimension} coordinates")
    if "/" in body.name or body.name in (".", "..") or body.name.startswith("uuid:"):
        raise InputError("name: here a memory's name has no slash, is not . or .., and does not begin with uuid:")
    memory = await context.executor.edit(
        f"name {body.name}", _create, context.store, body, idempotency_key, asked_by(request, case)
    )
    request.state.uuid = memory.uuid
    content = await context.executor.read(summary_content, memory)
    return response_with_etag(content, content["digest"], 201, Location=f"/v1/memories/uuid:{memory.uuid}")


@routes.get("/v1/memories/{name}", response_model=MemorySummary, openapi_extra=needs("read", "audit", "admin"))
async def show_memory(request: Request, name: str) -> Response:
    """One memory in numbers; its entity tag is the digest of its state."""
    content = await context_of(request).executor.read(lambda: summary_content(memory_of(request)))
    return response_with_etag(content, content["digest"])


@routes.delete("/v1/memories/{name}", response_model=DroppedMemory, openapi_extra=needs("admin"))
async def drop_memory(
    request: Request,
    name: str,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    case: CaseHeader = None,
) -> Response:
    """Take a memory away with all its content, and what was made from it elsewhere. Refused while it has a hold."""
    context = context_of(request)
    target: str = request.state.memory
    if idempotency_key is None or request.state.expected_uuid is not None:
        await context.executor.read(memory_of, request)

    def drop() -> tuple[Leaf, str | None]:
        try:
            expected = expected_digest(if_match, lambda: context.store[target].digest)
            leaf = context.store.drop(
                target, expected=expected, idempotency_key=idempotency_key, **asked_by(request, case)
            )
            return leaf, context.store.waiting()
        except InputError:
            if target in context.store:
                raise
            raise InputError("there is no such memory in this store", code="not-found") from None

    leaf, waiting = await context.executor.edit(f"name {target}", drop)
    return JsonResponse({"index": leaf.index, "kind": leaf.kind, "waiting": waiting})


def _create(store: Store, body: NewMemory, key: str | None, asked: Asked) -> StoredMemory:
    if key is None and body.name in store:
        raise InputError("there is a memory of this name already", code="taken")
    columns = None if body.preprocessing is None else body.preprocessing.model_dump()
    preprocessing = None if columns is None else Preprocessing.from_json(columns | {"width": "given"})
    try:
        return store.create(
            body.name,
            np.empty((0, body.dimension)) if body.dimension is not None else body.keys,
            np.empty((0, body.value_dimension or 1)) if body.dimension is not None else body.values,
            sigma=body.sigma,
            preprocessing=preprocessing,
            nu=body.nu,
            cap=body.cap,
            ids=body.ids,
            subjects=body.subjects,
            payloads=body.payloads,
            expires=body.expires,
            derived_from=body.derived_from,
            idempotency_key=key,
            **asked,
        )
    except InputError:
        if body.name in store:
            raise InputError("there is a memory of this name already", code="taken") from None
        raise
