"""What every request passes through: an id, a size limit, security headers, one log line, one measurement, one span.

Nothing gets past it as an exception. A defect leaves as a problem that says nothing of its cause, and in the log as the
places in the code that it passed through.
"""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from expunge.service.context import House
from expunge.service.log_format import where_it_broke
from expunge.service.problems import answer_of
from expunge.service.tracing import span

__all__ = ["Gate", "security_headers"]

log = logging.getLogger("expunge.service")

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
# A method is the client's word, and may be anything.
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_API = "default-src 'none'; frame-ancestors 'none'"


def security_headers(path: str, *, tls: bool) -> dict[str, str]:
    """Headers of every response under a path."""
    found = dict(_ALWAYS)
    if path.startswith("/report/"):
        return found | {"Content-Security-Policy": _REPORT, "X-Frame-Options": "SAMEORIGIN"}
    page = path == "/" or path.startswith("/page/")
    found |= {"Content-Security-Policy": _PAGE if page else _API, "X-Frame-Options": "DENY"}
    if not page:
        found["Cache-Control"] = "no-store"
    if tls:
        found["Strict-Transport-Security"] = "max-age=31536000"
    return found


class Gate:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, house: House) -> None:
        self._app = app
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        state["id"] = str(uuid.uuid4())
        started, status = time.perf_counter(), 0
        headers = security_headers(scope["path"], tls=self._house.settings.tls)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                told = MutableHeaders(scope=message)
                for name, value in headers.items():
                    told.setdefault(name, value)
                told["X-Request-Id"] = state["id"]
            await send(message)

        with span("request", Headers(scope=scope)) as tell:
            try:
                await self._app(scope, self._counted(receive), sending)
            except Exception as problem:
                log.error("defect", extra={"about": {"request": state["id"], "at": where_it_broke(problem)}})
                if status == 0:
                    await answer_of(Request(scope), problem)(scope, receive, sending)
            self._account(scope, status, time.perf_counter() - started, tell)

    def _counted(self, receive: Receive) -> Receive:
        """A body that ends in an error when it grows beyond the limit, whatever its header said."""
        most, taken = self._house.settings.limits.body_bytes, 0

        async def receiving() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                raise HTTPException(413)
            return message

        return receiving

    def _account(self, scope: Scope, status: int, seconds: float, tell: Any) -> None:
        state = scope["state"]
        route, method = _template(scope), scope["method"] if scope["method"] in _METHODS else "other"
        self._house.metrics.answered(method, route, status, seconds)
        facts = {
            "token": state.get("token"),
            "memory": state.get("uuid"),
            "outcome": state.get("outcome"),
            "leaf": state.get("leaf"),
            "error": state.get("error"),
        }
        known = {name: fact for name, fact in facts.items() if fact is not None}
        tell(
            {"http.route": route, "http.request.method": method, "http.response.status_code": status}
            | {f"expunge.{name}": fact for name, fact in known.items()}
        )
        about = {"request": state["id"], "method": method, "route": route, "status": status}
        log.info("request", extra={"about": about | {"ms": round(1000 * seconds, 1)} | known})


def _template(scope: Scope) -> str:
    """The route as it was declared; never the path that was asked for."""
    route = scope.get("route")
    if route is not None:
        return str(route.path)
    return "/page" if scope["path"].startswith("/page/") else "(none)"
