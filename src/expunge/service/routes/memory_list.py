"""Memories: list, create, show, drop."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError, VerificationError
from expunge.service.auth import caller, memory_of, needs, router
from expunge.service.context import house_of
from expunge.service.json_response import Answer, summary_content, tagged
from expunge.service.routes.edits import IdempotencyKey, IfMatch, expected_digest
from expunge.service.schemas import responses as shapes
from expunge.service.schemas.paging import Cursor, Limit, cursor, page_size, position
from expunge.service.schemas.requests import Creation, check_vectors
from expunge.store import Leaf, Store, StoredMemory

__all__ = ["routes"]

routes = router("memories")


@routes.get("/v1/memories", response_model=shapes.Memories, openapi_extra=needs("read", "audit", "admin"))
async def list_memories(request: Request, cursor_: Cursor = None, limit: Limit = None) -> Response:
    """Memories in order of their names; those that the token reaches. Damaged ones are named and not described."""
    house, token = house_of(request), caller(request)
    most = page_size(house.settings.limits, limit)
    after = position(cursor_, str)

    def found() -> dict[str, Any]:
        names = [name for name in house.store.names() if token.covers(name) and (after is None or name > after)]
        rows, damaged = [], []
        for name in names[:most]:
            try:
                if name in house.store:
                    rows.append(summary_content(house.store[name]))
            except VerificationError:
                damaged.append(name)
        return {"items": rows, "damaged": damaged, "next": cursor(names[most - 1]) if len(names) > most else None}

    return Answer(await house.desk.read(found))


@routes.post("/v1/memories", status_code=201, response_model=shapes.Summary, openapi_extra=needs("write"))
async def create_memory(request: Request, form: Creation) -> Response:
    """Fit a memory to entries, and keep it under a name."""
    house = house_of(request)
    if not caller(request).covers(form.name):
        raise InputError("this token is for another memory", code="forbidden")
    limits = house.settings.limits
    check_vectors(limits, "keys", *form.keys)
    check_vectors(limits, "values", *form.values)
    if "/" in form.name or form.name in (".", "..") or form.name.startswith("uuid:"):
        raise InputError("name: here a memory's name has no slash, is not . or .., and does not begin with uuid:")
    memory = await house.desk.edit(f"name {form.name}", _created, house.store, form)
    request.state.uuid = memory.uuid
    content = await house.desk.read(summary_content, memory)
    return tagged(content, content["digest"], 201, Location=f"/v1/memories/uuid:{memory.uuid}")


@routes.get("/v1/memories/{name}", response_model=shapes.Summary, openapi_extra=needs("read", "audit", "admin"))
async def show_memory(request: Request, name: str) -> Response:
    """One memory in numbers; its entity tag is the digest of its state."""
    content = await house_of(request).desk.read(lambda: summary_content(memory_of(request)))
    return tagged(content, content["digest"])


@routes.delete("/v1/memories/{name}", response_model=shapes.Dropped, openapi_extra=needs("admin"))
async def drop_memory(
    request: Request,
    name: str,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
) -> Response:
    """Take a memory away with all its content. Refused while it has a hold."""
    house = house_of(request)
    known: str = request.state.memory
    if idempotency_key is None or request.state.asked is not None:
        await house.desk.read(memory_of, request)

    def dropped() -> Leaf:
        try:
            expected = expected_digest(if_match, lambda: house.store[known].digest)
            return house.store.drop(known, expected=expected, idempotency_key=idempotency_key)
        except InputError:
            if known in house.store:
                raise
            raise InputError("there is no such memory in this store", code="not-found") from None

    leaf = await house.desk.edit(f"name {known}", dropped)
    return Answer({"index": leaf.index, "kind": leaf.kind})


def _created(store: Store, form: Creation) -> StoredMemory:
    if form.name in store:
        raise InputError("there is a memory of this name already", code="taken")
    return store.create(
        form.name,
        form.keys,
        form.values,
        sigma=form.sigma,
        nu=form.nu,
        cap=form.cap,
        ids=form.ids,
        subjects=form.subjects,
        payloads=form.payloads,
    )
