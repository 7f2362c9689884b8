"""Around a person's request: what the store holds of them, erasures that wait, cases and actors.

A subject's name never stands in a path, which is logged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from expunge.errors import InputError
from expunge.service.auth import CaseHeader, asked_by, context_of, needs, router
from expunge.service.json_response import JsonResponse
from expunge.service.schemas import erasure_responses, responses
from expunge.service.schemas.erasure_requests import CaseErasure
from expunge.service.schemas.requests import SubjectExport, SubjectQuery
from expunge.store import Case, Leaf

__all__ = ["routes"]

routes = router("requests")


@routes.post(
    "/v1/subjects/export", response_model=responses.ExportedSubject, openapi_extra=needs("read", store_wide=True)
)
async def export_subject(request: Request, body: SubjectExport) -> Response:
    """Everything that the store holds of one person, in every memory, with content."""
    context = context_of(request)

    def begin() -> tuple[bytes, Iterator[bytes]]:
        parts = context.store.export_subject(body.subject).json_lines()
        return next(parts), parts

    # What goes wrong in the search is an answer of its own, before the first part is sent.
    first, rest = await context.executor.read(begin)

    def parts() -> Iterator[bytes]:
        yield first
        yield from rest

    return StreamingResponse(parts(), media_type="application/json")


@routes.post(
    "/v1/subjects/search",
    response_model=erasure_responses.FoundSubjects,
    openapi_extra=needs("read", store_wide=True),
)
async def search_subjects(request: Request, body: SubjectQuery) -> Response:
    """Whose entries are in any memory: subjects with every word of the text in their names, or that look like it."""
    context = context_of(request)

    def content() -> dict[str, Any]:
        store = context.store
        found, more = store.search_subjects(body.text)
        with store.reading() as connection:
            unsearched = store.current_subjects(connection).unsearched()
        items = [{"subject": one.subject, "entries": one.entries, "memories": one.memories} for one in found]
        return {"items": items, "more": more, "not_searched": [vars(one) for one in unsearched]}

    return JsonResponse(await context.executor.read(content))


@routes.get(
    "/v1/erasures", response_model=erasure_responses.PendingErasureList, openapi_extra=needs("erase", store_wide=True)
)
async def list_erasures(request: Request) -> Response:
    """Erasures that wait to be carried out."""
    context = context_of(request)
    found = await context.executor.read(context.store.erasures)
    return JsonResponse({"items": [pending.to_json() for pending in found]})


@routes.delete(
    "/v1/erasures/{leaf}", response_model=erasure_responses.ReleasedHold, openapi_extra=needs("erase", store_wide=True)
)
async def cancel_erasure(request: Request, leaf: int, case: CaseHeader = None) -> Response:
    """Cancel an erasure before it is due."""
    context = context_of(request)

    def cancel() -> tuple[Leaf, str | None]:
        if all(pending.leaf != leaf for pending in context.store.erasures()):
            raise InputError("no erasure waits that was requested at this leaf", code="not-found")
        return context.store.cancel_erasure(leaf, **asked_by(request, case)), context.store.waiting()

    written, waiting = await context.executor.edit("erasures", cancel)
    return JsonResponse({"index": written.index, "kind": written.kind, "waiting": waiting})


@routes.get(
    "/v1/cases", response_model=erasure_responses.CaseList, openapi_extra=needs("audit", "admin", store_wide=True)
)
async def list_cases(
    request: Request, leaf: Annotated[int | None, Query(description="The case of this leaf.", ge=0)] = None
) -> Response:
    """Cases and actors with the salts that open their commitments, of one leaf or all that are not erased."""
    context = context_of(request)

    def read() -> list[Case]:
        if leaf is None:
            return context.store.cases()
        one = context.store.case_of(leaf)
        return [] if one is None else [one]

    found = await context.executor.read(read)
    return JsonResponse({"items": [one.to_json() for one in found]})


@routes.post(
    "/v1/cases/erase", response_model=erasure_responses.ErasedCases, openapi_extra=needs("admin", store_wide=True)
)
async def erase_cases(request: Request, body: CaseErasure) -> Response:
    """Erase texts and salts of cases: nobody can open the commitments any more."""
    context = context_of(request)
    span = None if body.older_than_days is None else timedelta(days=body.older_than_days)

    def erase() -> tuple[int, str | None]:
        count = context.store.erase_cases(leaf=body.leaf, case=body.case, older_than=span)
        return count, context.store.waiting()

    count, waiting = await context.executor.edit("cases", erase)
    return JsonResponse({"erased": count, "waiting": waiting})
