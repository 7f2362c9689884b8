"""The service as one ASGI application over one store.

`create_app` opens the store and builds the application; each worker of `expunge serve` calls `from_environment`. A
worker has no state of its own: memories are brought up to date from the database before they are read or edited, and
tokens and jobs are in the database too. On shutdown the server finishes the requests in flight, jobs stop between two
steps, and the store is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import expunge
from expunge.errors import ExpungeError, MissingExtra

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.responses import Response
except ImportError:
    raise MissingExtra("the service needs the extra: pip install 'expunge[service]'") from None

from expunge.service.api_page import add_api_page
from expunge.service.background_tasks import BackgroundTasks
from expunge.service.callers import Callers
from expunge.service.context import ServiceContext
from expunge.service.direct_requests import DirectRequests
from expunge.service.executor import Executor
from expunge.service.frontend.files import add_open_routes
from expunge.service.jobs import Jobs
from expunge.service.log_format import configure_logging
from expunge.service.metrics import Metrics
from expunge.service.middleware import RequestMiddleware
from expunge.service.openapi import describe
from expunge.service.openid import OpenIdProvider
from expunge.service.preparation import Preparation
from expunge.service.problems import problem_response
from expunge.service.request_limits import RequestLimits
from expunge.service.routes import (
    about,
    edits,
    entry_list,
    hold_list,
    job_list,
    ledger_pages,
    memory_list,
    memory_queries,
    mirror_list,
    request_list,
    token_list,
)
from expunge.service.settings import Settings
from expunge.service.sign_in import add_sign_in
from expunge.service.tokens import Tokens

__all__ = ["create_app", "from_environment"]

# Seconds that jobs have to reach the end of a step when the service stops.
_JOB_SECONDS = 10.0


def create_app(settings: Settings, *, own_process: bool = False) -> FastAPI:
    """One worker of the service; with ``own_process`` it is alone in its process."""
    store = settings.open()
    # Nobody who asks waits for another system: background tasks pass over the mirrors.
    store.mirror_keeper.at_once = False
    executor = Executor(settings.timeout)
    tokens = Tokens(store)
    limits = RequestLimits(settings.rate, settings.bad_tokens)
    provider = None if settings.openid is None else OpenIdProvider(settings.openid)
    callers = Callers(tokens, executor, limits, provider)
    metrics = Metrics(store)
    store.observe(metrics)
    context = ServiceContext(settings, store, tokens, callers, executor, Jobs(store, executor), metrics)
    preparation = Preparation(store, executor, own_process=own_process)
    background = BackgroundTasks(store, executor, metrics, settings.keep_cases, settings.retain_seconds)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        preparation.start()
        background.start()
        yield
        await preparation.stop()
        await background.stop()
        await context.jobs.stop(_JOB_SECONDS)
        store.close()

    app = FastAPI(
        title="expunge",
        version=expunge.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.context, app.state.background, app.state.preparation = context, background, preparation
    app.add_middleware(DirectRequests, service=app, routes=[*memory_queries.routes.routes, *edits.routes.routes])
    app.add_middleware(GZipMiddleware, minimum_size=1024)
    app.add_middleware(RequestMiddleware, context=context)
    for module in (
        *(about, memory_list, entry_list, memory_queries, edits),
        *(job_list, request_list, ledger_pages, hold_list, mirror_list, token_list),
    ):
        app.include_router(module.routes)
    add_open_routes(app)
    add_api_page(app)
    if provider is not None and provider.settings.client_id is not None:
        add_sign_in(app, provider)

    async def respond(request: Request, problem: Exception) -> Response:
        return problem_response(request, problem)

    for error in (ExpungeError, RequestValidationError, HTTPException):
        app.add_exception_handler(error, respond)
    app.openapi = lambda: describe(app, settings)  # type: ignore[method-assign]
    return app


def from_environment() -> FastAPI:
    """One worker of `expunge serve`."""
    configure_logging()
    return create_app(Settings.from_environment(), own_process=True)
