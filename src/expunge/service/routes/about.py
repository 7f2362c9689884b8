"""The service itself: its version and keys, what the token may do, the OpenAPI description, metrics, the report."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from starlette.responses import Response

import expunge
from expunge.errors import InputError
from expunge.ledger.note import NoteKey
from expunge.service.auth import context_of, needs, router, token_of
from expunge.service.frontend.files import new_ticket
from expunge.service.json_response import JsonResponse
from expunge.service.routes.ledger_pages import keys_of
from expunge.service.schemas import responses
from expunge.service.tokens import SCOPES
from expunge.store import Store, StoreKey

__all__ = ["routes"]

routes = router("service")


@routes.get("/v1", response_model=responses.ServiceInfo, openapi_extra=needs(*SCOPES))
async def about(request: Request) -> Response:
    """The service, the keys that its receipts verify under, and what the token may do."""
    context, token = context_of(request), token_of(request)
    expires = None if token.expires is None else datetime.fromtimestamp(token.expires, UTC)
    content: dict[str, Any] = {
        "name": "expunge",
        "version": expunge.__version__,
        "store": context.store.uuid,
        "origin": context.store.origin,
        **keys_of(context.store),
        "keys": await context.executor.read(_keys, context.store),
        "token": {
            "id": token.name,
            "scopes": sorted(token.scopes),
            "memory": token.memory,
            "expires": None if expires is None else expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "limits": asdict(context.settings.limits),
        "report": context.settings.report is not None,
    }
    return JsonResponse(content)


def _keys(store: Store) -> list[dict[str, Any]]:
    """Every public key that the store has or had, as a verifier takes it."""
    return [_key(store.origin, known) for known in store.signing_keys()]


def _key(origin: str, known: StoreKey) -> dict[str, Any]:
    text = NoteKey(origin, known.key).to_text() if known.use == "heads" else known.key.to_pem().decode()
    return {"use": known.use, "key_id": known.key.key_id, "key": text, "revoked": known.revoked}


@routes.get("/v1/report", response_model=responses.ReportLink, openapi_extra=needs("read", "audit"))
async def report(request: Request) -> Response:
    """Where the audit report can be seen for the next five minutes."""
    context = context_of(request)
    if context.settings.report is None:
        raise InputError("this service shows no report", code="not-found")
    return JsonResponse({"url": f"/report/{new_ticket(context.store)}/"})


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    openapi_extra=needs("audit", "admin", store_wide=True),
)
async def metrics(request: Request) -> Response:
    """Prometheus metrics."""
    context = context_of(request)
    text = await context.executor.read(lambda: context.metrics.text(context.jobs.counts()))
    return Response(text, media_type="text/plain; version=0.0.4")


@routes.get("/openapi.json", include_in_schema=False, openapi_extra=needs(*SCOPES))
async def description(request: Request) -> Response:
    """The description of all this, in OpenAPI."""
    return JsonResponse(request.app.openapi())
