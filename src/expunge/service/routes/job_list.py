"""Long jobs: proofs, erasures over all memories, verification and vacuuming of the store; and their progress."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Header, Request
from starlette.responses import Response

from expunge.errors import InputError, Stale
from expunge.memory.version import Version
from expunge.service.auth import CaseHeader, asked_by, context_of, memory_of, needs, router, token_of, told
from expunge.service.edit_state import state_of_result
from expunge.service.job_kinds import JOB_KINDS
from expunge.service.jobs import Job
from expunge.service.json_response import JsonResponse, preview_content, response_with_etag
from expunge.service.routes.edits import DryRun, IdempotencyKey, IfMatch, expected_digest
from expunge.service.schemas import erasure_responses
from expunge.service.schemas.erasure_requests import SubjectErasure
from expunge.store import Store, SubjectPreview

__all__ = ["routes"]

routes = router("jobs")

Prefer = Annotated[
    str | None, Header(max_length=200, description="`wait=10`: answer when it is done, at the latest after 10 s.")
]
_ACCEPTED: dict[str, Any] = {
    "status_code": 202,
    "response_model": erasure_responses.Job,
    "responses": {200: {"model": erasure_responses.Job, "description": "It is finished."}},
}
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*([0-9]{1,3})(?:$|[,;\s])")
_LONGEST_WAIT = 60.0


@routes.post("/v1/memories/{name}/prove", **_ACCEPTED, openapi_extra=needs(*JOB_KINDS["proof"].scopes))
async def prove(request: Request, name: str, prefer: Prefer = None) -> Response:
    """Prove in ball arithmetic which weights are exactly zero."""
    context = context_of(request)
    memory = await context.executor.read(memory_of, request)
    return await _start(request, "proof", {"memory": memory.name}, None, prefer)


@routes.post(
    "/v1/erasures",
    **_ACCEPTED
    | {
        "responses": {
            200: {
                "model": erasure_responses.Job | erasure_responses.ErasurePreview,
                "description": "It is finished, or a dry run.",
            },
            201: {
                "model": erasure_responses.NewPendingErasure,
                "description": "It waits: it is carried out when it is due.",
            },
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
    case: CaseHeader = None,
    if_match: IfMatch = None,
) -> Response:
    """Erase everything of a subject, and what was made from it, in every memory, with one summary in the ledger; with
    `after`, when it is due.

    The preview of a dry run has an entity tag. With it in `If-Match`, nothing is done where other entries would go now:
    412, or a job that fails with that problem. The result's `state` says how far it went: 200 and `refused` where holds
    kept everything.

    Where no entry belongs to the subject, the job is done, with 0 entries and nothing in the ledger, whether the
    subject was erased before or never there. A token that may also read is told which memories were not searched, and
    which subjects look alike.
    """
    context, asked = context_of(request), asked_by(request, case)
    if body.derived == "refuse" and body.after is not None:
        raise InputError("what is there when an erasure is due goes, and what was made from it: leave derived out")
    if dry_run and body.after is not None:
        raise InputError("a dry run tells what an erasure would do now: leave after out")
    if body.salt is not None and (dry_run or body.after is not None):
        raise InputError("the salt of an earlier erasure goes without dry_run and after: leave it out")
    if if_match is not None and (dry_run or body.after is not None):
        raise InputError("the preview that was seen is for an erasure now: leave If-Match out")
    if dry_run:
        previews = await context.executor.work(
            lambda: context.store.erase_subject(body.subject, dry_run=True, look_alikes=False, derived=body.derived)
        )
        memories = {name: preview_content(preview) for name, preview in previews.items()}
        content: dict[str, Any] = {"memories": memories, "digest": previews.digest, "order": previews.order}
        content |= {"holds": None, "mirrors": None}
        if "read" in token_of(request).scopes:
            content |= await context.executor.read(_in_the_way, context.store, previews)
        content |= await _found_besides(request, body.subject)
        return response_with_etag(told(request, content), previews.digest)
    if body.after is not None:
        delay = timedelta(seconds=body.after)
        waiting = await context.executor.work(
            lambda: context.store.erase_subject(body.subject, after=delay, idempotency_key=idempotency_key, **asked)
        )
        content = waiting.to_json() | await _found_besides(request, body.subject)
        return JsonResponse(content, status_code=201, headers={"Location": f"/v1/erasures/{waiting.leaf}"})
    # A retry under the same key, here or with the library, gets the same result.
    key = idempotency_key or secrets.token_urlsafe(32)
    spec = {"subject": body.subject, "key": key, **asked}
    if body.salt is not None:
        spec["salt"] = body.salt
    if body.derived != "erase":
        spec["derived"] = body.derived
    if (expected := expected_digest(if_match, str)) is not None:
        spec["expected"] = expected
    return await _start(request, "subject_erasure", spec, idempotency_key, prefer)


@routes.post(
    "/v1/retention",
    **_ACCEPTED
    | {
        "responses": {
            200: {
                "model": erasure_responses.Job | erasure_responses.RetentionPreview,
                "description": "As for an erasure.",
            }
        }
    },
    openapi_extra=needs(*JOB_KINDS["retention"].scopes, store_wide=True),
)
async def retain(request: Request, prefer: Prefer = None, dry_run: DryRun = False, case: CaseHeader = None) -> Response:
    """Erase what has ended, in every memory, with what was made from it; what a hold keeps stays, and is named.

    The service does so by itself from time to time.
    """
    context = context_of(request)
    if not dry_run:
        return await _start(request, "retention", {**asked_by(request, case)}, None, prefer)
    found = await context.executor.work(lambda: context.store.retain(dry_run=True))
    memories = {name: preview_content(preview) for name, preview in found.items()}
    return JsonResponse(told(request, {"memories": memories, "held": found.held, "not_read": found.not_read}))


async def _found_besides(request: Request, subject: str) -> dict[str, Any]:
    """Memories that were not searched and look-alikes of a subject, for a token that may read them anyway.

    To one that may only erase, they would tell who is in the store. It costs that token's request no time either.
    """
    context = context_of(request)
    if "read" not in token_of(request).scopes:
        return {"not_searched": None, "look_alikes": None}
    found = await context.executor.read(context.store.find_subject, subject)
    return {
        "not_searched": [vars(one) for one in found.not_searched],
        "look_alikes": [one.to_json() for one in found.look_alikes],
    }


def _in_the_way(store: Store, previews: SubjectPreview) -> dict[str, Any]:
    """Of each memory, the numbers of the holds on what would go, and the systems that have copies."""
    mirrors = store.mirrors()
    found: dict[str, Any] = {"holds": {}, "mirrors": {}}
    for name, preview in previews.items():
        memory, made = store[name], [entry.id for entry in preview.derived]

        def going(version: Version, made: list[str] = made) -> list[str]:
            owner = previews.search.subject
            return made + (version.names_of(None, owner) if version.has_subject(owner) else [])

        held = memory.holds_on(memory.look(going))
        found["holds"][name] = sorted({hold.number for hold in held.values()})
        found["mirrors"][name] = [one.kind for one in mirrors if one.covers(memory.uuid)]
    return found


@routes.post("/v1/verify", **_ACCEPTED, openapi_extra=needs(*JOB_KINDS["verification"].scopes, store_wide=True))
async def verify(request: Request, prefer: Prefer = None) -> Response:
    """Check everything: the database, every memory, every receipt and signature, the whole ledger."""
    return await _start(request, "verification", {}, None, prefer)


@routes.post("/v1/vacuum", **_ACCEPTED, openapi_extra=needs(*JOB_KINDS["vacuum"].scopes, store_wide=True))
async def vacuum(request: Request, prefer: Prefer = None) -> Response:
    """Remove what earlier erasures have left in the database's files."""
    return await _start(request, "vacuum", {}, None, prefer)


@routes.get(
    "/v1/jobs/{job}",
    response_model=erasure_responses.Job,
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
    return JsonResponse(await _content(request, await context.jobs.wait(found, _wait_seconds(prefer))))


async def _start(request: Request, kind: str, spec: dict[str, Any], key: str | None, prefer: str | None) -> Response:
    context = context_of(request)
    job = await context.jobs.wait(await context.jobs.start(kind, spec, key), _wait_seconds(prefer))
    if job.problem is not None and job.problem["code"] == Stale.default_code:
        raise Stale(job.problem["detail"])
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if not job.finished:
        headers["Retry-After"] = "1"
    return JsonResponse(await _content(request, job), status_code=200 if job.finished else 202, headers=headers)


async def _content(request: Request, job: Job) -> dict[str, Any]:
    context, result = context_of(request), job.result
    if result is not None and job.kind.name == "subject_erasure":
        # Not part of the job: they change after it has ended, and another token may ask for it.
        waiting = await context.executor.read(context.store.waiting)
        result = result | {"waiting": waiting, **await _found_besides(request, job.spec["subject"])}
    if result is not None and job.kind.name in ("subject_erasure", "retention"):
        result = {"state": state_of_result(result), **result}
    return {
        "id": job.id,
        "kind": job.kind.name,
        "state": job.state,
        "progress": {"done": job.done, "total": job.total},
        "created": _timestamp(job.created),
        "updated": _timestamp(job.updated),
        "result": told(request, result),
        "problem": told(request, job.problem),
    }


def _timestamp(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wait_seconds(prefer: str | None) -> float:
    """Seconds to wait, from a Prefer header (RFC 7240)."""
    found = None if prefer is None else _WAIT.search(prefer)
    return 0.0 if found is None else min(_LONGEST_WAIT, float(found.group(1)))
