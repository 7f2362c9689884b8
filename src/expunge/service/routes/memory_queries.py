"""Questions to a memory: read, search, explain, check, bounds. Queries are content, so they travel in bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.memory.queries import search as find
from expunge.memory.version import View
from expunge.problem.problem import as_point, as_points
from expunge.service.auth import memory_of, needs, router
from expunge.service.context import house_of
from expunge.service.json_response import groups_of, tagged
from expunge.service.memory_map.projection_plane import projection_of
from expunge.service.schemas import responses as shapes
from expunge.service.schemas.requests import Explanation, Queries, Search, check_batch, check_vectors
from expunge.types import Vector

__all__ = ["routes"]

routes = router("questions")


@routes.post("/v1/memories/{name}/read", response_model=shapes.Readouts, openapi_extra=needs("read"))
async def read(request: Request, name: str, form: Queries) -> Response:
    """The readout o(q) = Σακv / Σακ at queries, and the gate score."""
    house = house_of(request)
    check_batch(house.settings.limits.queries, "queries", len(form.queries))
    check_vectors(house.settings.limits, "queries", *form.queries)

    def seen(view: View) -> tuple[dict[str, Any], str]:
        points = as_points(form.queries, "queries", dimension=view.keys.shape[1])
        answers = view.readout(points)
        return {"digest": view.digest, "readouts": answers, "scores": view.solution.score(points)}, view.digest

    return tagged(*await house.desk.read(lambda: memory_of(request).look(seen)))


@routes.post("/v1/memories/{name}/search", response_model=shapes.Hits, openapi_extra=needs("read"))
async def search(request: Request, name: str, form: Search) -> Response:
    """Entries that carry the readout at a query, largest share first."""
    house = house_of(request)
    check_vectors(house.settings.limits, "query", form.query)

    def seen(view: View) -> tuple[dict[str, Any], str]:
        point = as_point(form.query, "query", view.keys.shape[1])[None, :]
        return {"digest": view.digest, "hits": [_hit(hit) for hit in find(view, point, form.k)]}, view.digest

    return tagged(*await house.desk.read(lambda: memory_of(request).look(seen)))


@routes.post("/v1/memories/{name}/explain", response_model=shapes.Explained, openapi_extra=needs("read"))
async def explain(request: Request, name: str, form: Explanation) -> Response:
    """An answer, where its query lies on the map, and which entries carry it with which share."""
    house = house_of(request)
    check_vectors(house.settings.limits, "query", form.query)

    def seen(view: View) -> tuple[dict[str, Any], str]:
        point = _place(view, form)[None, :]
        hits = find(view, point, form.k)
        rows = {item: row for row, item in enumerate(view.ids)}
        groups = groups_of(view)
        carried = [
            _hit(hit) | {"coefficient": float(view.coefficients[rows[hit.id]]), "group": groups[rows[hit.id]]}
            for hit in hits
        ]
        x, y = projection_of(view).flat(point)[0].tolist()
        return {
            "digest": view.digest,
            "query": point[0],
            "x": x,
            "y": y,
            "readout": view.readout(point)[0],
            "score": float(view.solution.score(point)[0]),
            "hits": carried,
            "rest": max(0.0, 1.0 - sum(hit.share for hit in hits)),
            "active": int(np.count_nonzero(view.coefficients)),
        }, view.digest

    return tagged(*await house.desk.read(lambda: memory_of(request).look(seen)))


@routes.get("/v1/memories/{name}/check", response_model=shapes.Checked, openapi_extra=needs("read", "audit"))
async def check(request: Request, name: str) -> Response:
    """Mass, box and stationarity errors of the current state, recomputed from the keys themselves."""
    found, digest = await house_of(request).desk.read(
        lambda: memory_of(request).look(lambda view: (view.solution, view.digest))
    )
    errors = await house_of(request).desk.read(found.check)
    return tagged({"digest": digest, **errors.to_json()}, digest)


@routes.get("/v1/memories/{name}/bounds", response_model=shapes.Bounds, openapi_extra=needs("read", "audit"))
async def bounds(request: Request, name: str) -> Response:
    """Rigorous bounds on the errors of the current state, over every query and not only sampled ones."""

    def found() -> tuple[dict[str, Any], str]:
        from expunge.certificates.bounds import rigorous_bounds

        solved, digest = memory_of(request).look(lambda view: (view.solution, view.digest))
        problem = solved.problem
        limits = rigorous_bounds(problem.keys, solved.coefficients, solved.offset, cap=problem.cap, sigma=problem.sigma)
        words = ("gap", "centre", "offset", "score", "evaluation", "coefficient", "eigenvalue")
        content = {word: float(getattr(limits, word)) for word in words}
        counted = {"proved_zero": int(limits.zero.sum()), "proved_full": int(limits.full.sum())}
        return {"digest": digest, **content, **counted}, digest

    return tagged(*await house_of(request).desk.read(found))


def _place(view: View, form: Explanation) -> Vector:
    """The key that an explanation is asked for."""
    if form.like is not None:
        slot = view.slot(form.like)
        if slot is None:
            raise InputError("there is no such live entry in this memory", code="not-found")
        return np.asarray(view.keys[int(np.searchsorted(view.slots, slot))])
    if form.at is not None:
        if np.abs(form.at).max() > 1e100:
            raise InputError("at: the place is too far away")
        return projection_of(view).lifted(np.asarray(form.at, dtype=np.float64))
    return as_point(form.query, "query", view.keys.shape[1])


def _hit(hit: Any) -> dict[str, Any]:
    payload = {"base64": hit.payload} if isinstance(hit.payload, bytes) else hit.payload
    return {
        "id": hit.id,
        "subject": hit.subject,
        "share": hit.share,
        "similarity": hit.similarity,
        "value": hit.value,
        "payload": payload,
    }
