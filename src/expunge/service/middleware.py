"""The middleware around every request: an id, a size limit, security headers, a log line, a measurement, a span.

No exception leaves it. The client sees a defect as a problem without its cause; the log has the places in the code that
it passed through. Spans need the OpenTelemetry API; their attributes are those of the log line, without content.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from expunge.service.context import ServiceContext
from expunge.service.log_format import traceback_places
from expunge.service.problems import problem_response

try:
    from opentelemetry import propagate, trace
except ImportError:
    trace = None  # type: ignore[assignment]

__all__ = ["RequestMiddleware", "security_headers"]

log = logging.getLogger("expunge.service")

SetAttributes = Callable[[Mapping[str, str | int | None]], None]

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REPORT = (
    "sandbox; default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_API_PAGE = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# It asks for the provider at each span until one is set.
_tracer: Any = None if trace is None else trace.get_tracer("expunge.service")

# A client may send any word as a method.
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_API = "default-src 'none'; frame-ancestors 'none'"


def security_headers(path: str, *, tls: bool) -> dict[str, str]:
    """Headers of every response under a path."""
    headers = dict(_ALWAYS)
    if path.startswith("/report/"):
        return headers | {"Content-Security-Policy": _REPORT, "X-Frame-Options": "SAMEORIGIN"}
    page = path == "/" or path.startswith("/page/")
    described = path in ("/docs", "/docs/style.css")
    policy = _PAGE if page else _API_PAGE if described else _API
    headers |= {"Content-Security-Policy": policy, "X-Frame-Options": "DENY"}
    if not (page or described):
        headers["Cache-Control"] = "no-store"
    if tls:
        headers["Strict-Transport-Security"] = "max-age=31536000"
    return headers


class RequestMiddleware:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, context: ServiceContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        state["id"] = str(uuid.uuid4())
        started, status, method = time.perf_counter(), 0, scope["method"]
        prefix = self._context.settings.prefix
        path = scope["path"].removeprefix(prefix) if scope["path"].startswith(f"{prefix}/") else scope["path"]
        # A proxy may take the prefix off the path, or leave it there. A HEAD is answered as a GET without the body; the
        # server, whose scope stays as it is, counts on none.
        scope = {**scope, "path": f"{prefix}{path}", "root_path": prefix}
        scope["method"] = "GET" if method == "HEAD" else method
        headers = security_headers(path, tls=self._context.settings.tls)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = MutableHeaders(scope=message)
                for name, value in headers.items():
                    sent.setdefault(name, value)
                sent["X-Request-Id"] = state["id"]
                if sent.get("location", "").startswith("/v1/"):
                    sent["Location"] = f"{prefix}{sent['location']}"
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        with _span(Headers(scope=scope)) as set_attributes:
            try:
                await self._app(scope, self._limited(receive), sending)
            except Exception as problem:
                log.error("defect", extra={"about": {"request": state["id"], "at": traceback_places(problem)}})
                if status == 0:
                    await problem_response(Request(scope), problem)(scope, receive, sending)
            self._record(scope, method, status, time.perf_counter() - started, set_attributes)

    def _limited(self, receive: Receive) -> Receive:
        """Receives the body, and raises when it grows beyond the limit, whatever its header says."""
        limit, taken = self._context.settings.limits.body_bytes, 0

        async def receiving() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                raise HTTPException(413)
            return message

        return receiving

    def _record(self, scope: Scope, method: str, status: int, seconds: float, set_attributes: SetAttributes) -> None:
        state = scope["state"]
        route, method = _template(scope), method if method in _METHODS else "other"
        self._context.metrics.observe_request(method, route, status, seconds)
        facts = {
            "token": state.get("token"),
            "memory": state.get("uuid"),
            "outcome": state.get("outcome"),
            "leaf": state.get("leaf"),
            "error": state.get("error"),
        }
        known = {name: fact for name, fact in facts.items() if fact is not None}
        span: dict[str, Any] = {"http.route": route, "http.request.method": method, "http.response.status_code": status}
        set_attributes(span | {f"expunge.{name}": fact for name, fact in known.items()})
        about: dict[str, Any] = {"request": state["id"], "method": method, "route": route, "status": status}
        log.info("request", extra={"about": about | {"ms": round(1000 * seconds, 1)} | known})


@contextmanager
def _span(headers: Mapping[str, str]) -> Iterator[SetAttributes]:
    """A span that continues the caller's trace, and the function that sets its attributes."""
    if trace is None:
        yield lambda attributes: None
        return
    with _tracer.start_as_current_span(
        "request",
        context=propagate.extract(headers),
        kind=trace.SpanKind.SERVER,
        # A message may quote content.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:

        def set_attributes(attributes: Mapping[str, str | int | None]) -> None:
            span.set_attributes({name: value for name, value in attributes.items() if value is not None})
            if "http.route" in attributes:
                span.update_name(f"{attributes['http.request.method']} {attributes['http.route']}")

        yield set_attributes


def _template(scope: Scope) -> str:
    """The route as it is declared; never the path of the request, which has names and ids in it."""
    route = scope.get("route")
    if route is not None:
        return str(route.path)
    return "/page" if scope["path"].startswith("/page/") else "(none)"
