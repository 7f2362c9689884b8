"""The service as one ASGI application over one store.

`create_app` opens the store and puts the parts together; `from_environment` is what each worker of `expunge serve`
calls. A worker keeps nothing that another could not do without: memories are brought up to date from the database
before they are read or edited, tokens and jobs live there too. On shutdown, requests in flight are finished by the
server, jobs stop between two steps, and the store is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import expunge
from expunge.errors import ExpungeError, MissingExtra

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.openapi.utils import get_openapi
    from starlette.exceptions import HTTPException
    from starlette.responses import Response
except ImportError:
    raise MissingExtra("the service needs the extra: pip install 'expunge[service]'") from None

from expunge.service.context import House
from expunge.service.executor import Desk
from expunge.service.frontend.files import add_open_routes
from expunge.service.jobs import Jobs
from expunge.service.log_format import set_up
from expunge.service.metrics import Metrics
from expunge.service.middleware import Gate
from expunge.service.problems import MEDIA_TYPE, answer_of
from expunge.service.routes import about, edits
from expunge.service.routes import entry_list as entries
from expunge.service.routes import hold_list as holds
from expunge.service.routes import job_list as jobs
from expunge.service.routes import ledger_pages as ledger
from expunge.service.routes import memory_list as memories
from expunge.service.routes import memory_queries as questions
from expunge.service.schemas import responses as shapes
from expunge.service.settings import Settings
from expunge.service.tokens import Tokens

__all__ = ["create_app", "from_environment"]

_DESCRIPTION = """A memory you can delete from, and prove it.

Every route but `/health` and `/ready` needs a bearer token with one of the scopes in `x-scopes`. Errors are problem
details (RFC 9457). Edits take `Idempotency-Key`, and `If-Match` with the entity tag of the memory's state."""

# How long jobs may take to come to the end of a step when the service is stopped.
_PATIENCE = 10.0


def create_app(settings: Settings) -> FastAPI:
    """One worker of the service."""
    store = settings.open()
    desk = Desk(settings.timeout)
    house = House(settings, store, Tokens(store), desk, Jobs(store, desk), Metrics(store))

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        yield
        await house.jobs.stop(_PATIENCE)
        store.close()

    app = FastAPI(
        title="expunge",
        version=expunge.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=living,
        redirect_slashes=False,
    )
    app.state.house = house
    app.add_middleware(Gate, house=house)
    for part in (about, memories, entries, questions, edits, jobs, ledger, holds):
        app.include_router(part.routes)
    add_open_routes(app)

    async def answer(request: Request, problem: Exception) -> Response:
        return answer_of(request, problem)

    for kind in (ExpungeError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def from_environment() -> FastAPI:
    """One worker of `expunge serve`."""
    set_up()
    return create_app(Settings.from_environment())


def _described(app: FastAPI) -> dict[str, Any]:
    """OpenAPI, with problems as the answer wherever something is wrong."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    found = get_openapi(title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes)
    parts = found["components"]
    parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for unused in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(unused, None)
    schema = shapes.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts["schemas"] |= {**schema.pop("$defs", {}), "Problem": schema}
    problem = {
        "description": "What went wrong.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path in found["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = problem
    app.openapi_schema = found
    return found
