"""Queries of a memory: read, search, nearest, explain, check, fit, bounds. Queries are content: sent in bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.memory.fit_report import fit_report
from expunge.memory.projection import projection_of
from expunge.memory.queries import Hit, Neighbour
from expunge.memory.queries import nearest as find_nearest
from expunge.memory.queries import search as find
from expunge.memory.version import Version
from expunge.memory.version_table import group_names
from expunge.preprocessing.measurements import as_key_rows, filled_columns, key_coordinates
from expunge.problem.judgement import judge
from expunge.problem.problem import as_point
from expunge.problem.solution import Solution
from expunge.service.auth import context_of, memory_of, needs, router
from expunge.service.json_response import response_with_etag
from expunge.service.schemas.memory_responses import (
    ErrorBounds,
    Explanation,
    FitReport,
    NearestResult,
    Readouts,
    SearchResult,
    StateCheck,
)
from expunge.service.schemas.requests import (
    ExplanationQuery,
    NearestQuery,
    ReadQueries,
    SearchQuery,
    check_batch,
    check_vectors,
)
from expunge.types import Vector

__all__ = ["routes"]

routes = router("questions")


@routes.post("/v1/memories/{name}/read", response_model=Readouts, openapi_extra=needs("read"))
async def read(request: Request, name: str, body: ReadQueries) -> Response:
    """The readout o(q) = Σακv / Σακ at queries, and whether each query is inside and has entries nearby."""
    context = context_of(request)
    check_batch(context.settings.limits.queries, "queries", len(body.queries))
    check_vectors(context.settings.limits, "queries", *body.queries)

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        points = as_key_rows(body.queries, version.preprocessing, version.keys.shape[1], name="queries")
        readouts, judged = version.readout(points), judge(version.solution, points)
        return {
            "digest": version.digest,
            "readouts": readouts,
            "scores": [one.score for one in judged],
            "boundary": version.solution.boundary_score,
            "distances": [one.distance for one in judged],
            "inside": [one.inside for one in judged],
            "nearby": [one.nearby for one in judged],
            "filled": [filled_columns(query, version.preprocessing) for query in body.queries],
        }, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(content_of)))


@routes.post("/v1/memories/{name}/search", response_model=SearchResult, openapi_extra=needs("read"))
async def search(request: Request, name: str, body: SearchQuery) -> Response:
    """Entries that carry the readout at a query, largest share first. Those without weight are left out."""
    context = context_of(request)
    check_vectors(context.settings.limits, "query", body.query)

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        point = _point(version, body.query)[None, :]
        hits = [_hit(hit) for hit in find(version.active, point, body.k)]
        judged = judge(version.solution, point)[0] if version.size else None
        where = {name: getattr(judged, name, None) for name in ("distance", "inside", "nearby")}
        filled = filled_columns(body.query, version.preprocessing)
        return {"digest": version.digest, "hits": hits, **where, "filled": filled}, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(content_of)))


@routes.post("/v1/memories/{name}/nearest", response_model=NearestResult, openapi_extra=needs("read"))
async def nearest(request: Request, name: str, body: NearestQuery) -> Response:
    """Entries whose keys are nearest to a query, whatever they weigh. Certificates do not speak of it."""
    context = context_of(request)
    check_vectors(context.settings.limits, "query", body.query)

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        point = _point(version, body.query)[None, :]
        found = find_nearest(version, point, body.k, archived=body.archived)
        return {
            "digest": version.digest,
            "neighbours": [_neighbour(one) for one in found],
            "filled": filled_columns(body.query, version.preprocessing),
        }, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(content_of)))


@routes.post("/v1/memories/{name}/explain", response_model=Explanation, openapi_extra=needs("read"))
async def explain(request: Request, name: str, body: ExplanationQuery) -> Response:
    """An answer, where its query lies, which entries carry it with which share, and which are nearest."""
    context = context_of(request)
    check_vectors(context.settings.limits, "query", body.query)

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        version.require_entries()
        point = _query_point(version, body)[None, :]
        hits = find(version.active, point, body.k)
        rows = {item: row for row, item in enumerate(version.ids)}
        groups = group_names(version)
        carriers = [
            _hit(hit) | {"coefficient": float(version.coefficients[rows[hit.id]]), "group": groups[rows[hit.id]]}
            for hit in hits
        ]
        judged = judge(version.solution, point)[0]
        x, y = projection_of(version).project(point)[0].tolist()
        return {
            "digest": version.digest,
            "query": point[0],
            "x": x,
            "y": y,
            "readout": version.readout(point)[0],
            "score": judged.score,
            "distance": judged.distance,
            "inside": judged.inside,
            "nearby": judged.nearby,
            "hits": carriers,
            "rest": max(0.0, 1.0 - sum(hit.share for hit in hits)),
            "active": int(np.count_nonzero(version.coefficients)),
            "nearest": [_neighbour(one) for one in find_nearest(version, point, body.k)],
            "filled": filled_columns(body.query, version.preprocessing),
        }, version.digest

    return response_with_etag(*await context.executor.read(lambda: memory_of(request).look(content_of)))


@routes.get("/v1/memories/{name}/check", response_model=StateCheck, openapi_extra=needs("read", "audit"))
async def check(request: Request, name: str) -> Response:
    """Mass, box and stationarity errors of the current state, recomputed from the keys themselves."""
    await context_of(request).executor.read(lambda: memory_of(request).make_ready())
    solution, digest = await context_of(request).executor.read(
        lambda: memory_of(request).look(lambda version: (version.solution, version.digest))
    )
    errors = await context_of(request).executor.read(solution.check)
    return response_with_etag({"digest": digest, **errors.to_json()}, digest)


@routes.get("/v1/memories/{name}/fit", response_model=FitReport, openapi_extra=needs("read", "audit"))
async def fit(request: Request, name: str) -> Response:
    """Whether the fit is of use: shares of margin, bound and reserve, how many entries could go, and warnings."""

    def content_of(version: Version) -> tuple[dict[str, Any], str]:
        return {"digest": version.digest, **fit_report(version).to_json()}, version.digest

    return response_with_etag(*await context_of(request).executor.read(lambda: memory_of(request).look(content_of)))


@routes.get("/v1/memories/{name}/bounds", response_model=ErrorBounds, openapi_extra=needs("read", "audit"))
async def bounds(request: Request, name: str) -> Response:
    """Rigorous bounds on the errors of the current state, over every query and not only sampled ones."""

    def content_of() -> tuple[dict[str, Any], str]:
        from expunge.certificates.bounds import rigorous_bounds

        def solution_of(version: Version) -> tuple[Solution, str]:
            version.require_entries()
            return version.solution, version.digest

        solved, digest = memory_of(request).look(solution_of)
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
    if body.text is not None:
        return _key_of_text(version, body.text)
    if body.at is not None:
        if np.abs(body.at).max() > 1e100:
            raise InputError("at: the place is too far away")
        return projection_of(version).lift(np.asarray(body.at, dtype=np.float64))
    return _point(version, body.query)


def _key_of_text(version: Version, text: str) -> Vector:
    """The key that a text has, by the embedder that made the memory's keys."""
    from expunge.integrations.embedding import default_embedder, embed_texts, require_same

    known = version.preprocessing.embedder
    if known is None:
        raise InputError("text: the keys of this memory were not made from texts; ask with a query")
    embedder = default_embedder(known)
    require_same(embedder, known)
    return np.asarray(embed_texts(embedder, [text], version.keys.shape[1])[0], dtype=np.float64)


def _point(version: Version, query: Any) -> Vector:
    """The key that coordinates, or measurements by column name, stand for."""
    return as_point(key_coordinates(query, version.preprocessing), "query", version.keys.shape[1])


def _hit(hit: Hit) -> dict[str, Any]:
    return vars(hit) | {"payload": _payload(hit.payload)}


def _neighbour(found: Neighbour) -> dict[str, Any]:
    return vars(found) | {"payload": _payload(found.payload)}


def _payload(payload: Any) -> Any:
    return {"base64": payload} if isinstance(payload, bytes) else payload
