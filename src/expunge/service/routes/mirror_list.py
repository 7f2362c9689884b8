"""Mirrors: systems that have copies, and what is still owed to each; now, or never more."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.auth import CaseHeader, asked_by, context_of, needs, router, token_of
from expunge.service.context import ServiceContext
from expunge.service.json_response import JsonResponse
from expunge.service.schemas import erasure_responses, responses

__all__ = ["routes"]

routes = router("mirrors")


@routes.get("/v1/mirrors", response_model=responses.MirrorList, openapi_extra=needs("admin"))
async def list_mirrors(request: Request) -> Response:
    """Mirrors in the order in which they were added, of memories that the token reaches.

    They are added by the command line: an address is that of a system, or of a folder, of the server.
    """
    context, token = context_of(request), token_of(request)
    mirrors = await context.executor.read(context.store.mirrors)
    reached = [one for one in mirrors if token.covers(None if one.uuid is None else one.memory)]
    return JsonResponse({"items": [one.to_json() for one in reached]})


@routes.post(
    "/v1/mirrors/{mirror}/sync",
    response_model=responses.MirrorPassed,
    openapi_extra=needs("admin", store_wide=True),
)
async def sync_mirror(request: Request, mirror: int) -> Response:
    """Do now what is owed to a mirror, whether or not it is put off; what came of it."""
    context = context_of(request)
    await _require(context, mirror)
    (done,) = await context.executor.work(context.store.sync_mirrors, mirror)
    return JsonResponse(done.to_json())


@routes.delete(
    "/v1/mirrors/{mirror}",
    response_model=erasure_responses.ReleasedHold,
    openapi_extra=needs("admin", store_wide=True),
)
async def remove_mirror(request: Request, mirror: int, case: CaseHeader = None) -> Response:
    """Stop keeping a mirror in step; what is there stays there, and nobody deletes it any more."""
    context, asked = context_of(request), asked_by(request, case)
    await _require(context, mirror)
    leaf = await context.executor.edit("mirrors", lambda: context.store.remove_mirror(mirror, **asked))
    return JsonResponse({"index": leaf.index, "kind": leaf.kind, "waiting": None})


async def _require(context: ServiceContext, mirror: int) -> None:
    found = await context.executor.read(context.store.mirrors)
    if all(one.leaf != mirror for one in found):
        raise InputError("there is no such mirror", code="not-found")
