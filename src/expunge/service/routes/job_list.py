"""Long jobs: proofs, erasures over all memories, verification and vacuuming of the store; and their progress."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Header, Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.auth import context_of, memory_of, needs, router, token_of
from expunge.service.context import ServiceContext
from expunge.service.job_kinds import JOB_KINDS
from expunge.service.jobs import Job
from expunge.service.json_response import JsonResponse, preview_content
from expunge.service.routes.edits import DryRun, IdempotencyKey
from expunge.service.schemas import responses
from expunge.service.schemas.requests import SubjectErasure

__all__ = ["routes"]

routes = router("jobs")

Prefer = Annotated[
    str | None, Header(max_length=200, description="`wait=10`: answer when it is done, at the latest after 10 s.")
]
_ACCEPTED: dict[str, Any] = {
    "status_code": 202,
    "response_model": responses.Job,
    "responses": {200: {"model": responses.Job, "description": "It is finished."}},
}
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*([0-9]{1,3})(?:$|[,;\s])")
_LONGEST_WAIT = 60.0


@routes.post("/v1/memories/{name}/prove", **_ACCEPTED, openapi_extra=needs(*JOB_KINDS["proof"].scopes))
async def prove(request: Request, name: str, prefer: Prefer = None) -> Response:
    """Prove in ball arithmetic which weights are exactly zero."""
    context = context_of(request)
    memory = await context.executor.read(memory_of, request)
    return await _start(context, "proof", {"memory": memory.name}, None, prefer)


@routes.post(
    "/v1/erasures",
    **_ACCEPTED
    | {
        "responses": {
            200: {"model": responses.Job | responses.ErasurePreview, "description": "It is finished, or a dry run."}
        }
    },
    openapi_extra=needs(*JOB_KINDS["subject_erasure"].scopes, store_wide=True),
)
async def erase(
    request: Request,
    body: SubjectErasure,
    idempotency_key: IdempotencyKey = None,
    prefer: Prefer = None,
    dry_run: DryRun = False,
) -> Response:
    """Erase everything of a subject in every memory, with one summary in the ledger."""
    context = context_of(request)
    if dry_run:
        previews = await context.executor.work(lambda: context.store.erase_subject(body.subject, dry_run=True))
        return JsonResponse({"memories": {name: preview_content(preview) for name, preview in previews.items()}})
    # A retry under the same key, here or with the library, gets the same result.
    spec = {"subject": body.subject, "key": idempotency_key or secrets.token_urlsafe(32)}
    return await _start(context, "subject_erasure", spec, idempotency_key, prefer)


@routes.post("/v1/verify", **_ACCEPTED, openapi_extra=needs(*JOB_KINDS["verification"].scopes, store_wide=True))
async def verify(request: Request, prefer: Prefer = None) -> Response:
    """Check everything: the database, every memory, every receipt and signature, the whole ledger."""
    return await _start(context_of(request), "verification", {}, None, prefer)


@routes.post("/v1/vacuum", **_ACCEPTED, openapi_extra=needs(*JOB_KINDS["vacuum"].scopes, store_wide=True))
async def vacuum(request: Request, prefer: Prefer = None) -> Response:
    """Remove what earlier erasures have left in the database's files."""
    return await _start(context_of(request), "vacuum", {}, None, prefer)


@routes.get(
    "/v1/jobs/{job}",
    response_model=responses.Job,
    openapi_extra=needs("read", "write", "erase", "audit", "admin"),
)
async def show_job(request: Request, job: str, prefer: Prefer = None) -> Response:
    """How far a job is, for whoever may start one of its kind. One that its worker has left is taken up again."""
    context, token = context_of(request), token_of(request)
    found = await context.jobs.find(job)
    if found is None:
        raise InputError("there is no such job; they are kept for seven days", code="not-found")
    kind = found.kind
    if not token.scopes & set(kind.scopes) or not token.covers(None if kind.store_wide else found.spec["memory"]):
        raise InputError("this token may not see jobs of this kind", code="forbidden")
    return JsonResponse(await _content(context, await context.jobs.wait(found, _wait_seconds(prefer))))


async def _start(
    context: ServiceContext, kind: str, spec: dict[str, Any], key: str | None, prefer: str | None
) -> Response:
    job = await context.jobs.wait(await context.jobs.start(kind, spec, key), _wait_seconds(prefer))
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if not job.finished:
        headers["Retry-After"] = "1"
    return JsonResponse(await _content(context, job), status_code=200 if job.finished else 202, headers=headers)


async def _content(context: ServiceContext, job: Job) -> dict[str, Any]:
    result = job.result
    if result is not None and job.kind.name == "subject_erasure":
        # Not part of the job: what the files hold changes after it has ended.
        result = result | {"waiting": await context.executor.read(context.store.waiting)}
    return {
        "id": job.id,
        "kind": job.kind.name,
        "state": job.state,
        "progress": {"done": job.done, "total": job.total},
        "created": _timestamp(job.created),
        "updated": _timestamp(job.updated),
        "result": result,
        "problem": job.problem,
    }


def _timestamp(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wait_seconds(prefer: str | None) -> float:
    """Seconds to wait, from a Prefer header (RFC 7240)."""
    found = None if prefer is None else _WAIT.search(prefer)
    return 0.0 if found is None else min(_LONGEST_WAIT, float(found.group(1)))
