"""Requests that are sent most often, answered without FastAPI's routing and dependencies.

Admissions, deletions, readouts and searches take less time to carry out, once many are committed together, than FastAPI
takes to hand them over. A plain request (no query, no header that asks for something but ``Idempotency-Key``, a body
that is valid) is authorized as on every route, and given to the route's own function. Any other goes the ordinary way,
from which every message about what is wrong with it comes.
"""

from __future__ import annotations

import json
from typing import Any, get_type_hints

from fastapi import FastAPI
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from expunge.errors import ExpungeError
from expunge.service.auth import AuthorizedRoute, without_repeats
from expunge.service.problems import problem_response

__all__ = ["DirectRequests"]

_PREFIX, _VERBS = "/v1/memories/{name}/", ("admit", "delete", "read", "search")
_LONGEST_KEY = 1000
_KEY, _NOT_PLAIN = b"idempotency-key", frozenset({b"if-match", b"expunge-case"})


class DirectRequests:
    """ASGI middleware in front of an application's routes."""

    def __init__(self, app: ASGIApp, service: FastAPI, routes: list[Any]) -> None:
        """``routes`` are those of the application, of which some are answered here."""
        self._app = app
        self._service = service
        self._routes: dict[str, tuple[AuthorizedRoute, type[BaseModel], bool]] = {}
        for route in routes:
            verb = route.path.removeprefix(_PREFIX)
            if isinstance(route, AuthorizedRoute) and verb in _VERBS and route.methods == {"POST"}:
                hints = get_type_hints(route.endpoint)
                self._routes[verb] = route, hints["body"], "idempotency_key" in hints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        parts: list[str] = scope["path"].split("/") if scope["type"] == "http" and scope["method"] == "POST" else []
        found = self._routes.get(parts[4]) if len(parts) == 5 and parts[1:3] == ["v1", "memories"] else None
        headers = dict(scope["headers"]) if found is not None and parts[3] else {}
        if (
            found is None
            or scope["query_string"]
            or scope.get("root_path")
            # None of them stands there twice.
            or len(headers) != len(scope["headers"])
            or not headers.keys().isdisjoint(_NOT_PLAIN)
            or headers.get(b"content-type") != b"application/json"
        ):
            await self._app(scope, receive, send)
            return
        route, model, takes_key = found
        scope.update({"route": route, "path_params": {"name": parts[3]}, "app": self._service})
        request = Request(scope, receive, send)
        try:
            await route.authorize(request)
            body = await request.body()
            arguments = _arguments(body, model, headers.get(_KEY), takes_key=takes_key)
            if arguments is None:
                await self._app(scope, _again(body, receive), send)
                return
            response = await route.endpoint(request=request, name=parts[3], **arguments)
        except ClientDisconnect:
            response = problem_response(request, HTTPException(400))
        except (ExpungeError, HTTPException) as problem:
            response = problem_response(request, problem)
        await response(scope, receive, send)


def _arguments(body: bytes, model: type[BaseModel], key: bytes | None, *, takes_key: bool) -> dict[str, Any] | None:
    """What the route's function is given; None where something is not plain or not valid."""
    try:
        arguments: dict[str, Any] = {"body": model.model_validate(json.loads(body, object_pairs_hook=without_repeats))}
    except (ValueError, ValidationError, RecursionError):
        return None
    if takes_key and key is not None:
        if not 1 <= len(key) <= _LONGEST_KEY:
            return None
        arguments["idempotency_key"] = key.decode("latin-1")
    return arguments


def _again(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was read before, and then what follows it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return left.pop() if left else await receive()

    return receiving
