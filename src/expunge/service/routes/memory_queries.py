"""Queries of a memory: read, search, explain, check, bounds. Queries are content, so they are sent in bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.memory.queries import search as find
from expunge.memory.version import Version
from expunge.problem.problem import as_point, as_points
from expunge.service.auth import context_of, memory_of, needs, router
from expunge.service.json_response import groups_of, response_with_etag
from expunge.service.memory_map.projection_plane import projection_of
from expunge.service.schemas.memory_responses import ErrorBounds, Explanation, Readouts, SearchResult, StateCheck
from expunge.service.schemas.requests import ExplanationQuery, ReadQueries, SearchQuery, check_batch, check_vectors
from expunge.types import Vector

__all__ = ["routes"]

routes = router("questions")


@routes.post("/v1/memories/{name}/read", response_model=Readouts, openapi_extra=needs("read"))
async def read(request: Request, name: str, body: ReadQueries) -> Response:
    """The readout o(q) = Σακv / Σακ at queries, and the gate score."""
    context = context_of(request)
    check_batch(context.settings.limits.queries, "queries", len(body.queries))
    check_vectors(context.settings.limits, "queries", *body.queries)

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        points = as_points(body.queries, "queries", dimension=version.keys.shape[1])
        readouts = version.readout(points)
        return {
            "digest": version.digest,
            "readouts": readouts,
            "scores": version.solution.score(points),
        }, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(content_of)))


@routes.post("/v1/memories/{name}/search", response_model=SearchResult, openapi_extra=needs("read"))
async def search(request: Request, name: str, body: SearchQuery) -> Response:
    """Entries that carry the readout at a query, largest share first."""
    context = context_of(request)
    check_vectors(context.settings.limits, "query", body.query)

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        point = as_point(body.query, "query", version.keys.shape[1])[None, :]
        return {"digest": version.digest, "hits": [_hit(hit) for hit in find(version, point, body.k)]}, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(content_of)))


@routes.post("/v1/memories/{name}/explain", response_model=Explanation, openapi_extra=needs("read"))
async def explain(request: Request, name: str, body: ExplanationQuery) -> Response:
    """An answer, where its query lies on the map, and which entries carry it with which share."""
    context = context_of(request)
    check_vectors(context.settings.limits, "query", body.query)

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        point = _query_point(version, body)[None, :]
        hits = find(version, point, body.k)
        rows = {item: row for row, item in enumerate(version.ids)}
        groups = groups_of(version)
        carriers = [
            _hit(hit) | {"coefficient": float(version.coefficients[rows[hit.id]]), "group": groups[rows[hit.id]]}
            for hit in hits
        ]
        x, y = projection_of(version).project(point)[0].tolist()
        return {
            "digest": version.digest,
            "query": point[0],
            "x": x,
            "y": y,
            "readout": version.readout(point)[0],
            "score": float(version.solution.score(point)[0]),
            "hits": carriers,
            "rest": max(0.0, 1.0 - sum(hit.share for hit in hits)),
            "active": int(np.count_nonzero(version.coefficients)),
        }, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(content_of)))


@routes.get("/v1/memories/{name}/check", response_model=StateCheck, openapi_extra=needs("read", "audit"))
async def check(request: Request, name: str) -> Response:
    """Mass, box and stationarity errors of the current state, recomputed from the keys themselves."""
    solution, digest = await context_of(request).executor.read(
        lambda: memory_of(request).look(lambda version: (version.solution, version.digest))
    )
    errors = await context_of(request).executor.read(solution.check)
    return response_with_etag({"digest": digest, **errors.to_json()}, digest)


@routes.get("/v1/memories/{name}/bounds", response_model=ErrorBounds, openapi_extra=needs("read", "audit"))
async def bounds(request: Request, name: str) -> Response:
    """Rigorous bounds on the errors of the current state, over every query and not only sampled ones."""

    def content_of() -> tuple[dict[str, Any], str]:
        from expunge.certificates.bounds import rigorous_bounds

        solved, digest = memory_of(request).look(lambda version: (version.solution, version.digest))
        problem = solved.problem
        limits = rigorous_bounds(problem.keys, solved.coefficients, solved.offset, cap=problem.cap, sigma=problem.sigma)
        names = ("gap", "centre", "offset", "score", "evaluation", "coefficient", "eigenvalue")
        content = {name: float(getattr(limits, name)) for name in names}
        counted = {"proved_zero": int(limits.zero.sum()), "proved_full": int(limits.full.sum())}
        return {"digest": digest, **content, **counted}, digest

    return response_with_etag(*await context_of(request).executor.read(content_of))


def _query_point(version: Version, body: ExplanationQuery) -> Vector:
    """The point that a query for an explanation names."""
    if body.like is not None:
        slot = version.slot(body.like)
        if slot is None:
            raise InputError("there is no such live entry in this memory", code="not-found")
        return np.asarray(version.keys[int(np.searchsorted(version.slots, slot))])
    if body.at is not None:
        if np.abs(body.at).max() > 1e100:
            raise InputError("at: the place is too far away")
        return projection_of(version).lift(np.asarray(body.at, dtype=np.float64))
    return as_point(body.query, "query", version.keys.shape[1])


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
