"""Who gets in. Every route says which scopes it takes; one that does not say cannot be made.

A request is let in before its body is read: the token is looked up, its scopes are compared with the route's, and its
memory with the one in the path. A token of one memory learns nothing of the others, not even whether they exist, but
for the size of the log that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute, APIRouter
from starlette.requests import Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.context import House, house_of
from expunge.service.request_errors import Forbidden, NotFound, TooLarge, Unauthenticated, UnsupportedMediaType
from expunge.service.tokens import SCOPES, Scope, Token
from expunge.store import StoredMemory

__all__ = ["Guarded", "caller", "memory_of", "needs", "router"]

_BY_UUID = "uuid:"


def needs(*scopes: Scope, store_wide: bool = False) -> dict[str, Any]:
    """What a route says of who may use it; any one of the scopes is enough. For `openapi_extra`."""
    return {"x-scopes": list(scopes), "x-store-wide": store_wide, "security": [{"bearer": []}]}


class Guarded(APIRoute):
    """A route that looks at the token first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Let in, then do what the route does."""
        said = self.openapi_extra or {}
        if "x-scopes" not in said or not set(said["x-scopes"]) <= set(SCOPES) or not said["x-scopes"]:
            raise TypeError(f"{self.path} does not say which scopes it needs")
        inner, takes_body = super().get_route_handler(), self.body_field is not None
        known = {parameter.alias for parameter in self.dependant.query_params}

        async def handler(request: Request) -> Response:
            house = house_of(request)
            token = await house.desk.read(_token, house, request.headers.get("authorization"))
            request.state.token = token.name
            if not token.scopes & set(said["x-scopes"]):
                raise Forbidden(f"this needs one of the scopes {', '.join(said['x-scopes'])}")
            if said["x-store-wide"] and token.memory is not None:
                raise Forbidden("this needs a token for the whole store; this one is for one memory")
            if "name" in request.path_params:
                name, request.state.asked = request.path_params["name"], None
                if name.startswith(_BY_UUID):
                    request.state.asked = name.removeprefix(_BY_UUID)
                    name = await house.desk.read(_named, house, request.state.asked)
                if not token.covers(name):
                    raise Forbidden("this token is for another memory")
                request.state.memory = name
            request.state.caller = token
            if strange := set(request.query_params) - known:
                # A dry run that is misspelt must not be taken for an edit.
                raise InputError(f"there is no parameter {min(strange)!r:.80} here")
            if takes_body:
                _check_body(request, house)
            return await inner(request)

        return handler


def router(tag: str) -> APIRouter:
    """A router whose routes are all guarded."""
    return APIRouter(route_class=Guarded, tags=[tag])


def caller(request: Request) -> Token:
    """Whose request it is."""
    token: Token = request.state.caller
    return token


def memory_of(request: Request) -> StoredMemory:
    """The memory that the path names. To be called in a thread."""
    try:
        memory = house_of(request).store[request.state.memory]
    except InputError:
        raise NotFound("there is no such memory in this store") from None
    if request.state.asked not in (None, memory.uuid):
        # Another memory was put under the name while the body came in, or in the middle of a batch.
        raise NotFound("the memory was dropped in the meantime")
    request.state.uuid = request.state.asked = memory.uuid
    return memory


def _token(house: House, header: str | None) -> Token:
    scheme, _, text = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated("send a token: Authorization: Bearer …")
    token = house.tokens.find(text.strip())
    if token is None:
        raise Unauthenticated("the token is unknown, expired or revoked")
    return token


def _named(house: House, uuid: str) -> str | None:
    """Name of the memory with a UUID, by which it goes in a path if its name does not fit into one."""
    if not uuid.isascii() or not uuid.isprintable():
        return None
    return house.store.name_of(uuid)


def _check_body(request: Request, house: House) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType("send JSON, as Content-Type: application/json")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > house.settings.limits.body_bytes:
        raise TooLarge(f"a body has at most {house.settings.limits.body_bytes} bytes")
