"""Legal holds: what must not be erased for the time being."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.auth import CaseHeader, asked_by, context_of, memory_of, needs, router, token_of
from expunge.service.json_response import JsonResponse
from expunge.service.schemas import erasure_responses
from expunge.service.schemas.erasure_requests import NewHold
from expunge.store import Leaf

__all__ = ["routes"]

routes = router("holds")


@routes.get("/v1/holds", response_model=erasure_responses.HoldList, openapi_extra=needs("admin"))
async def list_holds(request: Request) -> Response:
    """Holds in order of placement, on memories that the token reaches."""
    context, token = context_of(request), token_of(request)
    holds = await context.executor.read(context.store.holds)
    return JsonResponse({"items": [vars(hold) for hold in holds if token.covers(hold.memory)]})


@routes.post(
    "/v1/memories/{name}/holds", status_code=201, response_model=erasure_responses.Hold, openapi_extra=needs("admin")
)
async def place_hold(request: Request, name: str, body: NewHold, case: CaseHeader = None) -> Response:
    """Forbid the erasure of an entry, or of every entry of a subject, in one memory."""
    context = context_of(request)
    memory = await context.executor.read(memory_of, request)
    hold = await context.executor.edit(
        memory.uuid,
        lambda: context.store.hold(
            memory.name, body.id, subject=body.subject, reason=body.reason, **asked_by(request, case)
        ),
    )
    return JsonResponse(vars(hold), status_code=201)


@routes.delete("/v1/holds/{number}", response_model=erasure_responses.ReleasedHold, openapi_extra=needs("admin"))
async def release_hold(request: Request, number: int, case: CaseHeader = None) -> Response:
    """End a hold."""
    context, token = context_of(request), token_of(request)

    def release() -> tuple[Leaf, str | None]:
        hold = next((hold for hold in context.store.holds() if hold.number == number), None)
        # A token of one memory must not learn of holds on the others.
        if hold is None or not token.covers(hold.memory):
            raise InputError("there is no such hold", code="not-found")
        return context.store.release(hold, **asked_by(request, case)), context.store.waiting()

    leaf, waiting = await context.executor.edit("holds", release)
    return JsonResponse({"index": leaf.index, "kind": leaf.kind, "waiting": waiting})
