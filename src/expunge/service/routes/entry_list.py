"""Entries of a memory, the map of them, their certificates and warranties."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from fastapi import Request
from starlette.responses import Response

from expunge.certificates.certificate import ReserveCertificate
from expunge.display.outcomes import ERASING
from expunge.errors import InputError
from expunge.memory.version import Version
from expunge.memory.version_table import group_names
from expunge.service.auth import context_of, memory_of, needs, router, token_of
from expunge.service.json_response import attributes_content, payload_content, response_with_etag, warranty_content
from expunge.service.memory_map.map_content import erased_content, map_content
from expunge.service.schemas.memory_responses import Certificate, Entry, EntryPage, Map, WarrantyPage
from expunge.service.schemas.paging import Cursor, Limit, cursor, page_size, position, sort_key
from expunge.store import Store, StoredMemory

__all__ = ["routes"]

routes = router("entries")


@routes.get("/v1/memories/{name}/entries", response_model=EntryPage, openapi_extra=needs("read"))
async def list_entries(
    request: Request, name: str, cursor_: Cursor = None, limit: Limit = None, content: bool = False
) -> Response:
    """Live entries in order of their ids, with their content if asked for."""
    context = context_of(request)
    size, everywhere = page_size(context.settings.limits, limit), token_of(request).memory is None
    after = position(cursor_, str)

    def page(version: Version) -> tuple[dict[str, Any], str]:
        groups = group_names(version)
        places = ((sort_key(item), row) for row, item in enumerate(version.ids))
        following = sorted(place for place in places if after is None or place[0] > after)
        shown = [row for _, row in following[:size]]
        slacks = version.slacks(np.array(shown, dtype=np.int64)).tolist()
        pairs = zip(shown, slacks, strict=True)
        rows = [_live(version, row, groups[row], slack, content, everywhere) for row, slack in pairs]
        more = cursor(following[size - 1][0]) if len(following) > size else None
        return {"items": rows, "next": more}, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(page)))


@routes.get("/v1/memories/{name}/entries/{entry:path}", response_model=Entry, openapi_extra=needs("read"))
async def show_entry(request: Request, name: str, entry: str) -> Response:
    """One entry with its content, live, archived, or forgotten: of those there is no content left."""
    everywhere = token_of(request).memory is None

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        slot = version.slot(entry)
        if slot is not None:
            row = int(np.searchsorted(version.slots, slot))
            slack = version.slacks(np.array([row])).item()
            content = _live(version, row, group_names(version)[row], slack, True, everywhere)
        elif entry in version.warranties:
            content = _pruned(version, entry, everywhere)
        else:
            raise InputError("there is no such entry in this memory", code="not-found")
        return content, version.digest

    return response_with_etag(*await context_of(request).executor.read(lambda: memory_of(request).look(content_of)))


@routes.get("/v1/memories/{name}/certificates/{entry:path}", response_model=Certificate, openapi_extra=needs("read"))
async def show_entry_certificate(request: Request, name: str, entry: str) -> Response:
    """What removing a live entry now would be: no change at all, or a refit of the others at the same cap."""

    def content() -> tuple[dict[str, Any], str]:
        memory = memory_of(request)
        if entry not in memory:
            raise InputError("there is no such live entry in this memory", code="not-found")
        certificate, digest = memory.certificate(entry), memory.digest
        if isinstance(certificate, ReserveCertificate):
            return {"kind": "reserve", **asdict(certificate)}, digest
        return {"kind": "decrement", **asdict(certificate), "unique": certificate.unique}, digest

    return response_with_etag(*await context_of(request).executor.read(content))


@routes.get("/v1/memories/{name}/map", response_model=Map, openapi_extra=needs("read"))
async def show_map(request: Request, name: str) -> Response:
    """Every entry as a point of the plane, with the boundary where keys have two coordinates."""
    context = context_of(request)

    def content() -> tuple[dict[str, Any], str]:
        memory = memory_of(request)
        drawn = memory.look(map_content)
        drawn["erased"], drawn["erased_total"] = _erased(context.store, memory)
        return drawn, drawn["digest"]

    return response_with_etag(*await context.executor.read(content))


@routes.get("/v1/memories/{name}/warranties", response_model=WarrantyPage, openapi_extra=needs("read"))
async def list_warranties(
    request: Request,
    name: str,
    cursor_: Cursor = None,
    limit: Limit = None,
    status: Literal["valid", "expired", "ended"] | None = None,
) -> Response:
    """Pruned entries in order of their ids, and what is proved to remain of their slack."""
    context = context_of(request)
    size = page_size(context.settings.limits, limit)
    after = position(cursor_, str)

    def page(version: Version) -> tuple[dict[str, Any], str]:
        rows = [row for row in version.warranties.rows(version.fit) if status in (None, row.status)]
        rows = sorted(
            (row for row in rows if after is None or sort_key(row.id) > after), key=lambda row: sort_key(row.id)
        )
        items = [warranty_content(row, version.warranties.subject(row.id)) for row in rows[:size]]
        more = cursor(sort_key(rows[size - 1].id)) if len(rows) > size else None
        return {"items": items, "next": more}, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(page)))


def _live(version: Version, row: int, group: str, slack: float, content: bool, everywhere: bool) -> dict[str, Any]:
    about: dict[str, Any] = {
        "id": version.ids[row],
        "subject": version.subjects[row],
        "group": group,
        "coefficient": float(version.coefficients[row]),
        "slack": slack,
    }
    if content:
        about |= {
            "key": version.keys[row],
            "value": version.values[row],
            "payload": payload_content(version.entries.payloads[version.slots[row]]),
            **attributes_content(version.entries.payloads[version.slots[row]], everywhere=everywhere),
        }
    return about


def _pruned(version: Version, name: str, everywhere: bool) -> dict[str, Any]:
    warranties = version.warranties
    kept = warranties.archive.get(name)
    slack = warranties.remaining(version.fit, [name]).get(name)
    about = {"id": name, "subject": warranties.subject(name), "coefficient": 0.0, "slack": slack}
    if kept is None:
        return about | {"group": "forgotten"}
    content = {"key": kept.key, "value": kept.value, "payload": payload_content(kept.payload)}
    return about | {"group": "archived"} | content | attributes_content(kept.payload, everywhere=everywhere)


def _erased(store: Store, memory: StoredMemory) -> tuple[list[dict[str, Any]], int]:
    """The latest erased entries of a memory, and how many were erased in all."""
    return erased_content(store.newest_leaves(memories=[memory.uuid], kinds=ERASING))
