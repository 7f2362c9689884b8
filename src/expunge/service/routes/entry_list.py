"""Entries of a memory, the map of them, and what stands behind each: certificates and warranties."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from fastapi import Request
from starlette.responses import Response

from expunge.certificates.certificate import ReserveCertificate
from expunge.memory.version import View
from expunge.service.auth import memory_of, needs, router
from expunge.service.context import House, house_of
from expunge.service.json_response import groups_of, payload_content, tagged, warranty_content
from expunge.service.memory_map.projection_plane import ERASURES, chart_content, erased_content
from expunge.service.request_errors import NotFound
from expunge.service.schemas import responses as shapes
from expunge.service.schemas.paging import Cursor, Limit, cursor, page_size, place_of, position
from expunge.store import StoredMemory

__all__ = ["routes"]

routes = router("entries")


@routes.get("/v1/memories/{name}/entries", response_model=shapes.Page[shapes.Entry], openapi_extra=needs("read"))
async def list_entries(
    request: Request, name: str, cursor_: Cursor = None, limit: Limit = None, content: bool = False
) -> Response:
    """Live entries in order of their ids, with their content if asked for."""
    house = house_of(request)
    most = page_size(house.settings.limits, limit)
    after = position(cursor_, str)

    def seen(view: View) -> tuple[dict[str, Any], str]:
        groups, slack = groups_of(view), view.state.slack[view.sites]
        places = ((place_of(item), row) for row, item in enumerate(view.ids))
        following = sorted(found for found in places if after is None or found[0] > after)
        rows = [_live(view, row, groups[row], float(slack[row]), content) for _, row in following[:most]]
        more = cursor(following[most - 1][0]) if len(following) > most else None
        return {"items": rows, "next": more}, view.digest

    return tagged(*await house.desk.read(lambda: memory_of(request).look(seen)))


@routes.get("/v1/memories/{name}/entries/{entry:path}", response_model=shapes.Entry, openapi_extra=needs("read"))
async def show_entry(request: Request, name: str, entry: str) -> Response:
    """One entry with its content, live, archived, or forgotten: of those there is no content left."""

    def seen(view: View) -> tuple[dict[str, Any], str]:
        slot, record = view.slot(entry), view.warranties.records.get(entry)
        if slot is not None:
            row = int(np.searchsorted(view.slots, slot))
            found = _live(view, row, groups_of(view)[row], float(view.state.slack[view.sites[row]]), True)
        elif record is not None:
            found = _pruned(view, entry)
        else:
            raise NotFound("there is no such entry in this memory")
        return found, view.digest

    return tagged(*await house_of(request).desk.read(lambda: memory_of(request).look(seen)))


@routes.get(
    "/v1/memories/{name}/certificates/{entry:path}", response_model=shapes.Certificate, openapi_extra=needs("read")
)
async def show_certificate(request: Request, name: str, entry: str) -> Response:
    """What removing a live entry now would be: no change at all, or a refit of the others at the same cap."""

    def found() -> tuple[dict[str, Any], str]:
        memory = memory_of(request)
        if entry not in memory:
            raise NotFound("there is no such live entry in this memory")
        certificate, digest = memory.certificate(entry), memory.digest
        if isinstance(certificate, ReserveCertificate):
            return {"kind": "reserve", **asdict(certificate)}, digest
        return {"kind": "decrement", **asdict(certificate), "unique": certificate.unique}, digest

    return tagged(*await house_of(request).desk.read(found))


@routes.get("/v1/memories/{name}/map", response_model=shapes.Map, openapi_extra=needs("read"))
async def show_map(request: Request, name: str) -> Response:
    """Every entry as a point of the plane, with the boundary where keys have two coordinates."""
    house = house_of(request)

    def drawn() -> tuple[dict[str, Any], str]:
        memory = memory_of(request)
        chart = memory.look(chart_content)
        chart["erased"], chart["erased_total"] = _erased(house, memory)
        return chart, chart["digest"]

    return tagged(*await house.desk.read(drawn))


@routes.get("/v1/memories/{name}/warranties", response_model=shapes.Page[shapes.Warranty], openapi_extra=needs("read"))
async def list_warranties(
    request: Request,
    name: str,
    cursor_: Cursor = None,
    limit: Limit = None,
    status: Literal["valid", "expired"] | None = None,
) -> Response:
    """Pruned entries in order of their ids, and what is proved to remain of their slack."""
    house = house_of(request)
    most = page_size(house.settings.limits, limit)
    after = position(cursor_, str)

    def seen(view: View) -> tuple[dict[str, Any], str]:
        rows = [row for row in view.warranties.rows(view.state) if status in (None, row.status)]
        rows = sorted(
            (row for row in rows if after is None or place_of(row.id) > after), key=lambda row: place_of(row.id)
        )
        records = view.warranties.records
        items = [warranty_content(row, records[row.id].subject) for row in rows[:most]]
        more = cursor(place_of(rows[most - 1].id)) if len(rows) > most else None
        return {"items": items, "next": more}, view.digest

    return tagged(*await house.desk.read(lambda: memory_of(request).look(seen)))


def _live(view: View, row: int, group: str, slack: float, content: bool) -> dict[str, Any]:
    about: dict[str, Any] = {
        "id": view.ids[row],
        "subject": view.subjects[row],
        "group": group,
        "coefficient": float(view.coefficients[row]),
        "slack": slack,
    }
    if content:
        about |= {
            "key": view.keys[row],
            "value": view.values[row],
            "payload": payload_content(view.entries.payloads[view.slots[row]]),
        }
    return about


def _pruned(view: View, name: str) -> dict[str, Any]:
    warranties = view.warranties
    record, kept = warranties.records[name], warranties.archive.get(name)
    slack = warranties.remaining(view.state, [name]).get(name, 0.0)
    about = {"id": name, "subject": record.subject, "coefficient": 0.0, "slack": slack}
    if kept is None:
        return about | {"group": "forgotten"}
    content = {"key": kept.key, "value": kept.value, "payload": payload_content(kept.payload)}
    return about | {"group": "archived"} | content


def _erased(house: House, memory: StoredMemory) -> tuple[list[dict[str, Any]], int]:
    """The latest erased entries of a memory, and how many were erased in all."""
    return erased_content(house.store.newest_leaves(memories=[memory.uuid], kinds=ERASURES))
