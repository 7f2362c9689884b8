"""The service itself: what it is and what the token may do, its description, its metrics, where the report is."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from starlette.responses import Response

import expunge
from expunge.errors import InputError
from expunge.service.auth import caller, needs, router
from expunge.service.context import house_of
from expunge.service.frontend.files import ticket
from expunge.service.json_response import Answer
from expunge.service.routes.ledger_pages import keys_of
from expunge.service.schemas import responses as shapes
from expunge.service.tokens import SCOPES

__all__ = ["routes"]

routes = router("service")


@routes.get("/v1", response_model=shapes.About, openapi_extra=needs(*SCOPES))
async def about(request: Request) -> Response:
    """The service, the keys that its receipts verify under, and what the token may do."""
    house, token = house_of(request), caller(request)
    expires = None if token.expires is None else datetime.fromtimestamp(token.expires, UTC)
    content: dict[str, Any] = {
        "name": "expunge",
        "version": expunge.__version__,
        "store": house.store.uuid,
        "origin": house.store.origin,
        **keys_of(house.store),
        "token": {
            "id": token.name,
            "scopes": sorted(token.scopes),
            "memory": token.memory,
            "expires": None if expires is None else expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "limits": asdict(house.settings.limits),
        "report": house.settings.report is not None,
    }
    return Answer(content)


@routes.get("/v1/report", response_model=shapes.Report, openapi_extra=needs("read", "audit"))
async def report(request: Request) -> Response:
    """Where the audit report can be seen for the next five minutes."""
    house = house_of(request)
    if house.settings.report is None:
        raise InputError("this service shows no report", code="not-found")
    return Answer({"url": f"/report/{ticket(house.store)}/"})


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    openapi_extra=needs("audit", "admin", store_wide=True),
)
async def metrics(request: Request) -> Response:
    """Prometheus metrics."""
    house = house_of(request)
    text = await house.desk.read(lambda: house.metrics.text(house.jobs.counts()))
    return Response(text, media_type="text/plain; version=0.0.4")


@routes.get("/openapi.json", include_in_schema=False, openapi_extra=needs(*SCOPES))
async def description(request: Request) -> Response:
    """The description of all this, in OpenAPI."""
    return Answer(request.app.openapi())
