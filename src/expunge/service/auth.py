"""Authorization of requests, and what a route may ask about one: its context, its token, its memory.

Every route declares which scopes it takes; a route without that declaration cannot be built. The token is checked
before the body is read: its scopes against the route's, its memory against the one in the path. A token of one memory
learns nothing of the others, not even whether they exist, except for the size of the ledger that they share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any, TypedDict

from fastapi import Header
from fastapi.routing import APIRoute, APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.context import ServiceContext
from expunge.service.disclosure import disclosed
from expunge.service.settings import Limits
from expunge.service.tokens import SCOPES, Scope, Token
from expunge.store import StoredMemory

__all__ = [
    "Asked",
    "AuthorizedRoute",
    "CaseHeader",
    "asked_by",
    "check_sources_covered",
    "context_of",
    "memory_of",
    "needs",
    "router",
    "token_of",
    "told",
    "without_repeats",
]

_UUID_PREFIX = "uuid:"

CaseHeader = Annotated[
    str | None,
    Header(
        alias="Expunge-Case",
        pattern=r"^[\x20-\x7e]{1,200}$",
        description="Reference of the case, for the receipt to commit to; no name in it.",
    ),
]


def needs(*scopes: Scope, store_wide: bool = False) -> dict[str, Any]:
    """The scopes that a route takes, for its `openapi_extra`; a token needs one of them."""
    return {"x-scopes": list(scopes), "x-store-wide": store_wide, "security": [{"bearer": []}]}


class AuthorizedRoute(APIRoute):
    """A route that checks the token first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler behind the check."""
        scopes = (self.openapi_extra or {}).get("x-scopes", [])
        if not scopes or not set(scopes) <= set(SCOPES):
            raise TypeError(f"{self.path} does not say which scopes it needs")
        handle, takes_body = super().get_route_handler(), self.body_field is not None

        async def handler(request: Request) -> Response:
            await self.authorize(request)
            if takes_body:
                request = _BodyRequest(request.scope, request.receive)
            try:
                return await handle(request)
            except HTTPException as problem:
                if isinstance(problem.__cause__, InputError):
                    raise problem.__cause__ from None
                raise

        return handler

    async def authorize(self, request: Request) -> None:
        """Check the token of a request, and what can be checked before its body is read."""
        context, declared = context_of(request), self.openapi_extra or {}
        scopes: list[str] = declared["x-scopes"]
        token = await context.callers.find(
            request.headers.get("authorization"), None if request.client is None else request.client.host
        )
        request.state.token = token.name
        if token.scopes.isdisjoint(scopes):
            raise InputError(f"this needs one of the scopes {', '.join(scopes)}", code="forbidden")
        if declared["x-store-wide"] and token.memory is not None:
            raise InputError("this needs a token for the whole store; this one is for one memory", code="forbidden")
        if "name" in request.path_params:
            name, request.state.expected_uuid = request.path_params["name"], None
            if name.startswith(_UUID_PREFIX):
                request.state.expected_uuid = name.removeprefix(_UUID_PREFIX)
                name = await context.executor.read(_name_of_uuid, context, request.state.expected_uuid)
            if not token.covers(name):
                raise InputError("this token is for another memory", code="forbidden")
            request.state.memory = name
        request.state.caller = token
        parameters = {parameter.alias for parameter in self.dependant.query_params}
        if request.scope["query_string"] and (unknown := set(request.query_params) - parameters):
            # A dry run that is misspelt must not be taken for an edit.
            raise InputError(f"there is no parameter {min(unknown)!r:.80} here")
        if self.body_field is not None:
            _check_body_headers(request, context.settings.limits)


class _BodyRequest(Request):
    """A request with a JSON body. Where a name stands twice in an object, two readers may take different values."""

    async def json(self) -> Any:
        """The body; a repeated name makes it malformed."""
        if not hasattr(self, "_json"):
            self._json = json.loads(await self.body(), object_pairs_hook=without_repeats)
        return self._json


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of one JSON object, for `json.loads`; raise InputError where a name stands there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("a name stands twice in one object of the body", code="malformed")
    return found


def router(tag: str) -> APIRouter:
    """A router whose routes all check the token."""
    return APIRouter(route_class=AuthorizedRoute, tags=[tag])


def context_of(request: Request) -> ServiceContext:
    """The context of the worker that answers a request."""
    context: ServiceContext = request.app.state.context
    return context


def token_of(request: Request) -> Token:
    """The token of a request."""
    token: Token = request.state.caller
    return token


def told(request: Request, content: Any) -> Any:
    """The content of an answer as the token of a request may see it."""
    return disclosed(content, token_of(request).scopes)


class Asked(TypedDict):
    """Case and actor of an edit."""

    case: str | None
    actor: str


def asked_by(request: Request, case: str | None) -> Asked:
    """Case and actor of an edit: the actor is the token, by its name."""
    return Asked(case=case, actor=token_of(request).name)


def check_sources_covered(request: Request, sources: Iterable[Any]) -> None:
    """Raise where entries are to be made from those of another memory, and the token is for one memory alone.

    Whether the other memory is there, and the entry in it, is not looked up.
    """
    token = token_of(request)
    if any(isinstance(source, tuple) and not token.covers(source[0]) for source in sources):
        raise InputError("this token is for another memory than a source is in", code="forbidden")


def memory_of(request: Request) -> StoredMemory:
    """The memory that the path names. It reads the store: call it in a thread."""
    try:
        memory = context_of(request).store[request.state.memory]
    except InputError:
        raise InputError("there is no such memory in this store", code="not-found") from None
    if request.state.expected_uuid not in (None, memory.uuid):
        # Another memory was put under the name while the body came in, or in the middle of a batch.
        raise InputError("the memory was dropped in the meantime", code="not-found")
    request.state.uuid = request.state.expected_uuid = memory.uuid
    return memory


def _name_of_uuid(context: ServiceContext, uuid: str) -> str | None:
    """Name of the memory with a UUID, which stands in a path for a name that does not fit there."""
    if not uuid.isascii() or not uuid.isprintable():
        return None
    return context.store.name_of(uuid)


def _check_body_headers(request: Request, limits: Limits) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise InputError("send JSON, as Content-Type: application/json", code="unsupported-media-type")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.body_bytes:
        raise InputError(f"a body has at most {limits.body_bytes} bytes", code="too-large")
