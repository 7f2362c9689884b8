"""Legal holds: what must not be erased for the time being."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.auth import caller, memory_of, needs, router
from expunge.service.context import house_of
from expunge.service.json_response import Answer
from expunge.service.schemas import responses as shapes
from expunge.service.schemas.requests import Holding
from expunge.store import Leaf

__all__ = ["routes"]

routes = router("holds")


@routes.get("/v1/holds", response_model=shapes.Holds, openapi_extra=needs("admin"))
async def list_holds(request: Request) -> Response:
    """Holds in order of placement, on memories that the token reaches."""
    house, token = house_of(request), caller(request)
    found = await house.desk.read(house.store.holds)
    return Answer({"items": [vars(hold) for hold in found if token.covers(hold.memory)]})


@routes.post("/v1/memories/{name}/holds", status_code=201, response_model=shapes.Hold, openapi_extra=needs("admin"))
async def place_hold(request: Request, name: str, form: Holding) -> Response:
    """Forbid the erasure of an entry, or of every entry of a subject, in one memory."""
    house = house_of(request)
    memory = await house.desk.read(memory_of, request)
    given = form.model_dump()
    hold = await house.desk.edit(memory.uuid, house.store.hold, memory.name, given.pop("id"), **given)
    return Answer(vars(hold), status_code=201)


@routes.delete("/v1/holds/{number}", response_model=shapes.Ended, openapi_extra=needs("admin"))
async def release_hold(request: Request, number: int) -> Response:
    """End a hold."""
    house, token = house_of(request), caller(request)

    def released() -> Leaf:
        hold = next((hold for hold in house.store.holds() if hold.number == number), None)
        # To a token of one memory a hold on another is not there: it would tell that there is one.
        if hold is None or not token.covers(hold.memory):
            raise InputError("there is no such hold", code="not-found")
        return house.store.release(hold)

    leaf = await house.desk.edit("holds", released)
    content: dict[str, Any] = {"index": leaf.index, "kind": leaf.kind}
    return Answer(content)
