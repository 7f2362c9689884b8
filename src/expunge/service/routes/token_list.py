"""Tokens of clients: list, make, revoke. A token makes none that may do more than itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.auth import context_of, needs, router, token_of
from expunge.service.json_response import JsonResponse
from expunge.service.schemas import token_bodies
from expunge.service.tokens import Token

__all__ = ["routes"]

routes = router("tokens")


@routes.get("/v1/tokens", response_model=token_bodies.TokenList, openapi_extra=needs("admin", store_wide=True))
async def list_tokens(request: Request) -> Response:
    """Tokens in order of creation, revoked ones too, without their secrets."""
    context = context_of(request)
    found = await context.executor.read(context.tokens.all)
    return JsonResponse({"items": [_content(token) for token in found]})


@routes.post(
    "/v1/tokens",
    status_code=201,
    response_model=token_bodies.MadeToken,
    openapi_extra=needs("admin", store_wide=True),
)
async def create_token(request: Request, body: token_bodies.NewToken) -> Response:
    """Make a token with scopes that the token of the request has. Its text is in this answer, and nowhere else."""
    context = context_of(request)
    if more := sorted(set(body.scopes) - token_of(request).scopes):
        raise InputError(f"this token has no scope {more[0]}, so it cannot give it", code="forbidden")

    def create() -> dict[str, Any]:
        text, token = context.tokens.create(
            body.scopes, memory=body.memory, note=body.note, lifetime=None if body.seconds is None else body.seconds
        )
        return {"token": text, **_content(token)}

    return JsonResponse(await context.executor.edit("tokens", create), status_code=201)


@routes.delete(
    "/v1/tokens/{token}", response_model=token_bodies.TokenShown, openapi_extra=needs("admin", store_wide=True)
)
async def revoke_token(request: Request, token: str) -> Response:
    """End a token at once, by its name, for every worker. Its row stays, for the record."""
    context = context_of(request)

    def revoke() -> Token:
        try:
            return context.tokens.revoke(token)
        except InputError as problem:
            raise InputError(str(problem), code="not-found") from None

    return JsonResponse(_content(await context.executor.edit("tokens", revoke)))


def _content(token: Token) -> dict[str, Any]:
    return {
        "id": token.name,
        "scopes": sorted(token.scopes),
        "memory": token.memory,
        "note": token.note,
        "created": _time(token.created),
        "expires": _time(token.expires),
        "revoked": _time(token.revoked),
    }


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
