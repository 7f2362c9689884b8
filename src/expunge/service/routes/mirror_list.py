"""Mirrors: systems that have copies, and what is still owed to each."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from expunge.service.auth import context_of, needs, router, token_of
from expunge.service.json_response import JsonResponse
from expunge.service.schemas import responses

__all__ = ["routes"]

routes = router("mirrors")


@routes.get("/v1/mirrors", response_model=responses.MirrorList, openapi_extra=needs("admin"))
async def list_mirrors(request: Request) -> Response:
    """Mirrors in the order in which they were added, of memories that the token reaches.

    They are added and removed by the command line: an address is that of a system, or of a folder, of the server.
    """
    context, token = context_of(request), token_of(request)
    mirrors = await context.executor.read(context.store.mirrors)
    reached = [one for one in mirrors if token.covers(None if one.uuid is None else one.memory)]
    return JsonResponse({"items": [one.to_json() for one in reached]})
