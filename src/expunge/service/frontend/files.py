"""Routes without a token: health, readiness, the files of the page, and the report for whoever has a ticket.

The page's files are part of the package and hold nothing of the store. A frame cannot send a token, so the URL of the
report has a ticket in it: the time at which it ends, and a message authentication code under the store's secret.
"""

from __future__ import annotations

import hmac
import re
import time
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from expunge.errors import ExpungeError
from expunge.service.auth import context_of
from expunge.service.json_response import JsonResponse
from expunge.store import Store

__all__ = ["PAGE", "add_open_routes", "new_ticket"]

PAGE = Path(__file__).parent / "static"
_TICKET = re.compile(r"[0-9]{1,12}\.[0-9a-f]{64}")
_TICKET_MINUTES = 5


class PageFiles(StaticFiles):
    """Files that a browser may keep, and asks about each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or that it has not changed."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def add_open_routes(app: FastAPI) -> None:
    """Routes that need no token."""

    @app.get("/health", tags=["service"])
    async def health() -> Response:
        """Whether the process answers."""
        return JsonResponse({"status": "ok"})

    @app.get("/ready", tags=["service"])
    async def ready(request: Request) -> Response:
        """Whether the worker is prepared, and the store answers with the schema that this program knows."""
        context, prepared = context_of(request), request.app.state.preparation.over
        try:
            await context.executor.read(context.store.check_schema)
        except ExpungeError:
            prepared = False
        if not prepared:
            return JsonResponse({"status": "not ready"}, status_code=503, headers={"Retry-After": "1"})
        return JsonResponse({"status": "ready"})

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        """The page."""
        if not (PAGE / "index.html").is_file():
            raise HTTPException(404)
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/report/{ticket}/{path:path}", include_in_schema=False)
    async def report(request: Request, ticket: str, path: str) -> Response:
        """A file of the report."""
        context = context_of(request)
        root = context.settings.report
        if root is None or not _is_valid(context.store, ticket):
            raise HTTPException(404)
        file = await context.executor.read(_file, root, path)
        return FileResponse(file, headers={"Cache-Control": "no-store"})

    app.mount("/page", PageFiles(directory=PAGE, check_dir=False))


def new_ticket(store: Store) -> str:
    """A ticket for the report that is valid for five minutes."""
    end = str(int(time.time()) + 60 * _TICKET_MINUTES)
    return f"{end}.{_code(store, end)}"


def _is_valid(store: Store, text: str) -> bool:
    if not _TICKET.fullmatch(text):
        return False
    end, _, code = text.partition(".")
    return hmac.compare_digest(code, _code(store, end)) and time.time() < int(end)


def _code(store: Store, end: str) -> str:
    return store.mac(b"expunge/report/v1\n" + end.encode()).hex()


def _file(root: Path, path: str) -> Path:
    """The file of a report that is one file or a folder; nothing outside it."""
    if root.is_file():
        if path not in ("", root.name):
            raise HTTPException(404)
        return root
    folder = root.resolve()
    try:
        file = (folder / (path or "index.html")).resolve()
    except (OSError, ValueError):
        raise HTTPException(404) from None
    if not file.is_relative_to(folder) or not file.is_file():
        raise HTTPException(404)
    return file
