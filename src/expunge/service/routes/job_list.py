"""Long jobs: proofs, erasures over all memories, verification and vacuuming of the store; and how far they are."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Header, Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.service.auth import caller, memory_of, needs, router
from expunge.service.context import House, house_of
from expunge.service.job_kinds import KINDS
from expunge.service.jobs import Job
from expunge.service.json_response import Answer, preview_content
from expunge.service.routes.edits import DryRun, IdempotencyKey
from expunge.service.schemas import responses as shapes
from expunge.service.schemas.requests import Erasure

__all__ = ["routes"]

routes = router("jobs")

Prefer = Annotated[
    str | None, Header(max_length=200, description="`wait=10`: answer when it is done, at the latest after 10 s.")
]
_ACCEPTED: dict[str, Any] = {
    "status_code": 202,
    "response_model": shapes.Job,
    "responses": {200: {"model": shapes.Job, "description": "It is finished."}},
}
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*([0-9]{1,3})(?:$|[,;\s])")
_LONGEST_WAIT = 60.0


@routes.post("/v1/memories/{name}/prove", **_ACCEPTED, openapi_extra=needs(*KINDS["proof"].scopes))
async def prove(request: Request, name: str, prefer: Prefer = None) -> Response:
    """Prove in ball arithmetic which weights are exactly zero."""
    house = house_of(request)
    memory = await house.desk.read(memory_of, request)
    return await _begun(house, "proof", {"memory": memory.name}, None, prefer)


@routes.post(
    "/v1/erasures",
    **_ACCEPTED
    | {"responses": {200: {"model": shapes.Job | shapes.Previews, "description": "It is finished, or a dry run."}}},
    openapi_extra=needs(*KINDS["subject_erasure"].scopes, store_wide=True),
)
async def erase(
    request: Request,
    form: Erasure,
    idempotency_key: IdempotencyKey = None,
    prefer: Prefer = None,
    dry_run: DryRun = False,
) -> Response:
    """Erase everything of a subject in every memory, with one summary in the ledger."""
    house = house_of(request)
    if dry_run:
        found = await house.desk.work(lambda: house.store.erase_subject(form.subject, dry_run=True))
        return Answer({"memories": {name: preview_content(preview) for name, preview in found.items()}})
    # Whoever retries under the same key, here or with the library, gets the same answer.
    spec = {"subject": form.subject, "key": idempotency_key or secrets.token_urlsafe(32)}
    return await _begun(house, "subject_erasure", spec, idempotency_key, prefer)


@routes.post("/v1/verify", **_ACCEPTED, openapi_extra=needs(*KINDS["verification"].scopes, store_wide=True))
async def verify(request: Request, prefer: Prefer = None) -> Response:
    """Check everything: the database, every memory, every receipt and signature, the whole ledger."""
    return await _begun(house_of(request), "verification", {}, None, prefer)


@routes.post("/v1/vacuum", **_ACCEPTED, openapi_extra=needs(*KINDS["vacuum"].scopes, store_wide=True))
async def vacuum(request: Request, prefer: Prefer = None) -> Response:
    """Remove what earlier erasures have left in the database's files."""
    return await _begun(house_of(request), "vacuum", {}, None, prefer)


@routes.get(
    "/v1/jobs/{job}",
    response_model=shapes.Job,
    openapi_extra=needs("read", "write", "erase", "audit", "admin"),
)
async def show_job(request: Request, job: str, prefer: Prefer = None) -> Response:
    """How far a job is, for whoever may start one of its kind. One that its worker has left is taken up again."""
    house, token = house_of(request), caller(request)
    found = await house.jobs.find(job)
    if found is None:
        raise InputError("there is no such job; they are kept for seven days", code="not-found")
    kind = found.kind
    if not token.scopes & set(kind.scopes) or not token.covers(None if kind.store_wide else found.spec["memory"]):
        raise InputError("this token may not see jobs of this kind", code="forbidden")
    return Answer(_content(await house.jobs.wait(found, _patience(prefer))))


async def _begun(house: House, kind: str, spec: dict[str, Any], key: str | None, prefer: str | None) -> Response:
    job = await house.jobs.wait(await house.jobs.start(kind, spec, key), _patience(prefer))
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if not job.finished:
        headers["Retry-After"] = "1"
    return Answer(_content(job), status_code=200 if job.finished else 202, headers=headers)


def _content(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind.name,
        "state": job.state,
        "progress": {"done": job.done, "total": job.total},
        "created": _moment(job.created),
        "updated": _moment(job.updated),
        "result": job.result,
        "problem": job.problem,
    }


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _patience(prefer: str | None) -> float:
    """Seconds to wait, from a Prefer header (RFC 7240)."""
    found = None if prefer is None else _WAIT.search(prefer)
    return 0.0 if found is None else min(_LONGEST_WAIT, float(found.group(1)))
