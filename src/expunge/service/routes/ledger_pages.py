"""The ledger: its leaves, its signed heads, and the proofs that tie them together. Nothing in it is content.

A token of one memory sees the receipts of that memory, and of the ledger as a whole only hashes.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from fastapi import Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from expunge.errors import Busy, InputError
from expunge.ledger.certificate.contents import Revealed, What
from expunge.ledger.checkpoint import parse_checkpoint
from expunge.ledger.encoding import decode_base64
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.note import SignedNote, parse_note
from expunge.ledger.receipt_format import PREDICATE_TYPE
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.memory.receipt import RecordedOutcome
from expunge.service.auth import context_of, memory_of, needs, router, token_of
from expunge.service.edit_state import state_of_leaf
from expunge.service.json_response import JsonResponse
from expunge.service.schemas import ledger_responses
from expunge.service.schemas.erasure_requests import CertificateRequest
from expunge.service.schemas.paging import Cursor, Limit, cursor, page_size, position
from expunge.service.schemas.requests import SubmittedReceipt
from expunge.store import EVENT_TYPE, Case, Leaf, Store, parse_event

__all__ = ["routes"]

routes = router("ledger")


@dataclass(frozen=True)
class Wanted:
    """Which leaves a list is to have; None for all of them."""

    kinds: list[str] | None = None
    memory: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    case: str | None = None
    actor: str | None = None


_MAX_INDEX = 1 << 62
_EDITS = ("created", *get_args(RecordedOutcome))
_BUNDLE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The bundle, to be saved.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
# RFC 3339, with a zone.
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
Kind = Annotated[str, StringConstraints(pattern="^[a-z_]{1,40}$")]
_DOCUMENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The document, to be saved.",
        "content": {
            "text/html": {"schema": {"type": "string"}},
            "application/pdf": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@routes.get("/v1/log", response_model=ledger_responses.LeafPage, openapi_extra=needs("read", "audit"))
async def list_log(
    request: Request,
    cursor_: Cursor = None,
    limit: Limit = None,
    kind: Annotated[list[Kind] | None, Query(description="Only of these kinds.")] = None,
    memory: Annotated[
        str | None, Query(description="Only about this memory: its name, or `uuid:` and its UUID.")
    ] = None,
    since: Annotated[str | None, Query(description="Only from this time on.", pattern=_TIME)] = None,
    until: Annotated[str | None, Query(description="Only before this time.", pattern=_TIME)] = None,
    case: Annotated[str | None, Query(description="Only of cases with this in their reference.", min_length=1)] = None,
    actor: Annotated[str | None, Query(description="Only of actors with this in their names.", min_length=1)] = None,
) -> Response:
    """Leaves of the ledger, newest first, that fit every filter; those of its memory for a token of one memory, which
    is told no cases and actors.
    """
    context, token = context_of(request), token_of(request)
    size = page_size(context.settings.limits, limit)
    before = position(cursor_, int)
    if token.memory is not None and (case is not None or actor is not None):
        raise InputError("cases and actors are for tokens of the whole store: leave case and actor out")
    for name in ("memory", "since", "until", "case", "actor"):
        if len(request.query_params.getlist(name)) > 1:
            raise InputError(f"{name}: give it once")
    wanted = Wanted(kind, memory, _time("since", since), _time("until", until), case, actor)
    return JsonResponse(await context.executor.read(_leaf_page, context.store, token.memory, before, size, wanted))


@routes.get(
    "/v1/memories/{name}/receipts",
    response_model=ledger_responses.LeafPage,
    openapi_extra=needs("read", "audit"),
)
async def list_receipts(request: Request, name: str, cursor_: Cursor = None, limit: Limit = None) -> Response:
    """Leaves of the ledger that are about one memory, newest first."""
    context = context_of(request)
    size = page_size(context.settings.limits, limit)
    before = position(cursor_, int)
    return JsonResponse(await context.executor.read(_receipt_page, request, before, size))


@routes.get(
    "/v1/receipts/{index}", response_model=ledger_responses.VerifiableReceipt, openapi_extra=needs("read", "audit")
)
async def show_receipt(request: Request, index: int) -> Response:
    """One leaf, readable, with everything that it takes to verify it elsewhere."""
    context, token = context_of(request), token_of(request)

    def content() -> dict[str, Any]:
        store = context.store
        names = _memory_names(context.store)
        leaf, proof = _leaf(store, index, names, token.memory), store.inclusion(index)
        case = None if token.memory is not None else store.cases_of_leaves([index]).get(index)
        return {
            "index": leaf.index,
            "kind": leaf.kind,
            "memory": leaf.memory,
            "name": names.get(leaf.memory or ""),
            "names": _names_in(leaf, names),
            "case": None if case is None else case.case,
            "actor": None if case is None else case.actor,
            "edit": leaf.edit,
            "state": state_of_leaf(leaf.statement),
            "statement": {
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [
                    {"name": subject.name, "digest": {"sha256": subject.sha256}} for subject in leaf.statement.subjects
                ],
                "predicateType": leaf.statement.predicate_type,
                "predicate": leaf.statement.predicate,
            },
            "envelope": leaf.envelope.decode(),
            "inclusion": _inclusion_content(proof),
            "checkpoint": _checkpoint_content(proof.checkpoint),
            **keys_of(store),
        }

    return JsonResponse(await context.executor.read(content))


@routes.get(
    "/v1/receipts/{index}/certificate",
    response_class=Response,
    responses=_DOCUMENT,
    openapi_extra=needs("read", "audit"),
)
async def show_certificate(
    request: Request,
    index: int,
    format_: Annotated[
        Literal["html", "pdf"], Query(alias="format", description="HTML, or PDF/A-3b with the extra certificate.")
    ] = "html",
    names: Annotated[bool, Query(description="Show the names of memories; they are not signed.")] = False,
) -> Response:
    """The certificate document about one leaf: one page for people, with the proof data inside.

    It says whose data it was only to those who have the salt: the same path takes it with POST, and no address does.
    """
    return await _certificate(request, index, CertificateRequest(format=format_, names=names))


@routes.post(
    "/v1/receipts/{index}/certificate",
    response_class=Response,
    responses=_DOCUMENT,
    openapi_extra=needs("read", "audit"),
)
async def make_certificate(request: Request, index: int, body: CertificateRequest) -> Response:
    """The certificate document about one leaf, with the person named, and under a head that witnesses cosigned.

    Nothing of the body is kept. A salt that does not open the leaf, and a head of another ledger, are refused.
    """
    # What does not verify then came with the request.
    request.state.artifact = body.salt is not None or body.head is not None
    return await _certificate(request, index, body)


@routes.get("/v1/log/checkpoint", response_model=ledger_responses.Checkpoint, openapi_extra=needs("read", "audit"))
async def show_checkpoint(request: Request) -> Response:
    """The signed head of the ledger. Keep it: it holds the ledger to what it says now."""
    context = context_of(request)
    return JsonResponse(await context.executor.read(lambda: _checkpoint_content(context.store.checkpoint())))


@routes.get(
    "/v1/log/inclusion/{index}", response_model=ledger_responses.InclusionProof, openapi_extra=needs("read", "audit")
)
async def show_inclusion(request: Request, index: int) -> Response:
    """Proof that a leaf is in the ledger."""
    context, token = context_of(request), token_of(request)

    def content() -> dict[str, Any]:
        _leaf(context.store, index, _memory_names(context.store), token.memory)
        proof = context.store.inclusion(index)
        return {**_inclusion_content(proof), "checkpoint": _checkpoint_content(proof.checkpoint)}

    return JsonResponse(await context.executor.read(content))


@routes.get(
    "/v1/log/consistency", response_model=ledger_responses.ConsistencyProof, openapi_extra=needs("read", "audit")
)
async def show_consistency(
    request: Request, since: Annotated[int, Query(description="Size of the head that was kept.", ge=0)]
) -> Response:
    """Proof that the ledger only grew since it had so many leaves."""
    context = context_of(request)
    if since >= _MAX_INDEX:
        raise InputError("the ledger never had that many leaves")

    def content() -> dict[str, Any]:
        proof = context.store.consistency(since)
        head = _checkpoint_content(proof.checkpoint)
        return {
            "old_size": proof.old_size,
            "size": head["size"],
            "path": proof.path,
            "text": proof.to_bytes().decode(),
            "checkpoint": head,
        }

    return JsonResponse(await context.executor.read(content))


@routes.post(
    "/v1/verify/receipt", response_model=ledger_responses.VerifiedReceipt, openapi_extra=needs("read", "audit")
)
async def verify_receipt(request: Request, body: SubmittedReceipt) -> Response:
    """Check a signed receipt, and its place in the log, under this store's keys. A failure names what is wrong.

    The page and `expunge verify` do the same without this service, which is the point of a receipt.
    """
    context = context_of(request)
    request.state.artifact = True
    return JsonResponse(await context.executor.read(_verify, context.store, body))


def keys_of(store: Store) -> dict[str, str]:
    """What a verifier has to trust."""
    return {
        "public_key": base64.b64encode(store.public_key.raw).decode(),
        "key_id": store.public_key.key_id,
        "log_key": store.log_key.to_text(),
    }


@routes.get(
    "/v1/memories/{name}/evidence",
    response_class=Response,
    responses=_BUNDLE,
    openapi_extra=needs("read"),
)
async def export_evidence(
    request: Request,
    name: str,
    proof: Annotated[bool, Query(description="Prove the partition, too; it takes longer.")] = False,
) -> Response:
    """What a stranger needs to recompute the receipt of the memory's latest edit, as a file to save.

    It holds the keys and values of every remaining entry, and no id, subject or payload.
    """
    context = context_of(request)

    def content() -> tuple[bytes, int]:
        from expunge.attestation.evidence import evidence_of

        memory = memory_of(request)
        version = memory.version
        leaf = context.store.newest_leaves(memories=[memory.uuid], kinds=_EDITS, limit=1)[0]
        if parse_predicate(leaf.statement).state_after != version.digest:
            raise Busy("the memory was edited meanwhile; try again")
        inclusion = context.store.inclusion(leaf.index)
        return evidence_of(None, version, leaf.envelope, prove=proof, inclusion=inclusion).to_bytes(), leaf.index

    found, index = await context.executor.work(content)
    headers = {"Content-Disposition": f'attachment; filename="evidence-{index}.zip"'}
    return Response(found, media_type="application/octet-stream", headers=headers)


async def _certificate(request: Request, index: int, asked: CertificateRequest) -> Response:
    """A certificate document as a file to save."""
    context, token = context_of(request), token_of(request)
    format_ = asked.format or _accepted_format(request.headers.get("accept", ""))
    stamps = [decode_base64(text) for text in asked.timestamps]
    if None in stamps:
        raise InputError("timestamps: an answer of a time-stamping authority is sent in base64")
    revealed: dict[What, Revealed] = {}
    if asked.subject is not None and asked.salt is not None:
        revealed["subject"] = Revealed(asked.subject, bytes.fromhex(asked.salt))

    def content() -> bytes:
        from expunge.attestation.certificate_document import certificate_contents, certificate_html, certificate_pdf

        store = context.store
        _leaf(store, index, _memory_names(store), token.memory)
        # Names of cases and actors are for those who may read content.
        known: tuple[What, ...] = ("case", "actor") if "read" in token.scopes else ()
        opened = certificate_contents(
            store,
            index,
            revealed=revealed,
            names=asked.names,
            known=known,
            timestamps=[stamp for stamp in stamps if stamp is not None],
            head=None if asked.head is None else parse_note(asked.head.encode("utf-8", "surrogatepass")),
        )
        return certificate_html(opened) if format_ == "html" else certificate_pdf(opened)

    # Never shown within the service's own origin.
    return Response(
        await context.executor.read(content),
        media_type="text/html" if format_ == "html" else "application/pdf",
        headers={"Content-Disposition": f'attachment; filename="certificate-{index}.{format_}"', "Vary": "Accept"},
    )


def _accepted_format(accept: str) -> Literal["html", "pdf"]:
    """PDF where a request's header names it, and does not name HTML before it."""
    page, paper = accept.find("text/html"), accept.find("application/pdf")
    return "pdf" if paper >= 0 and (page < 0 or paper < page) else "html"


def _receipt_page(request: Request, before: int | None, limit: int) -> dict[str, Any]:
    """Leaves about the memory in the path."""
    store, memory = context_of(request).store, memory_of(request)
    return _leaf_page(store, token_of(request).memory, before, limit, Wanted(memory=f"uuid:{memory.uuid}"))


def _leaf_page(store: Store, memory: str | None, before: int | None, limit: int, wanted: Wanted) -> dict[str, Any]:
    """Leaves that fit; of one ``memory`` for its token."""
    names = _memory_names(store)
    uuids = None if wanted.memory is None else [wanted.memory.removeprefix("uuid:")]
    if wanted.memory is not None and not wanted.memory.startswith("uuid:"):
        uuids = [uuid for uuid, name in names.items() if name == wanted.memory]
    if memory is not None:
        mine = [uuid for uuid, name in names.items() if name == memory]
        uuids = mine if uuids is None else [uuid for uuid in uuids if uuid in mine]
    if wanted.until is not None:
        first = store.first_leaf_at(wanted.until)
        before = first if before is None else min(before, first)
    found = store.newest_leaves(
        memories=uuids,
        kinds=wanted.kinds,
        before=before,
        since=None if wanted.since is None else store.first_leaf_at(wanted.since),
        among=_leaves_of_cases(store, wanted.case, wanted.actor),
        limit=limit + 1,
    )
    shown = found[:limit]
    cases = {} if memory is not None else store.cases_of_leaves([leaf.index for leaf in shown])
    items = [_leaf_content(leaf, names, cases.get(leaf.index)) for leaf in shown]
    return {"items": items, "next": cursor(items[-1]["index"]) if len(found) > limit else None}


def _leaves_of_cases(store: Store, case: str | None, actor: str | None) -> list[int] | None:
    """Indices of the leaves with these words in case and actor; None where neither is asked for."""
    if case is None and actor is None:
        return None

    def fits(text: str | None, words: str | None) -> bool:
        return words is None or (text is not None and words.casefold() in text.casefold())

    found = (one for one in store.cases() if fits(one.case, case) and fits(one.actor, actor))
    return [leaf for one in found for leaf in one.leaves]


def _time(name: str, text: str | None) -> datetime | None:
    """A time with its zone, from text that has the form of one."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{name}: there is no such time") from None


def _leaf_content(leaf: Leaf, names: dict[str, str], case: Case | None) -> dict[str, Any]:
    about: dict[str, Any] = {
        "case": None if case is None else case.case,
        "actor": None if case is None else case.actor,
        "parts": [],
        "index": leaf.index,
        "kind": leaf.kind,
        "memory": leaf.memory,
        "name": names.get(leaf.memory or ""),
        "edit": leaf.edit,
        "state": state_of_leaf(leaf.statement),
    }
    if leaf.statement.predicate_type == PREDICATE_TYPE:
        stated = parse_predicate(leaf.statement)
        return about | {"time": stated.time, "applied": stated.applied.count, "live": stated.after.live}
    event = parse_event(leaf.statement)
    parts = event.facts.get("memories", ())
    erased = sum(part["entries"] for part in parts)  # type: ignore[union-attr,index,call-overload,misc]
    leaves = [part["leaf"] for part in parts if part["leaf"] is not None]  # type: ignore[union-attr,index,call-overload]
    return about | {"time": event.time, "applied": erased, "live": None, "parts": leaves}


def _leaf(store: Store, index: int, names: dict[str, str], memory: str | None) -> Leaf:
    """A leaf, which to a token of one memory is not there if it is about another."""
    leaf = store.leaf(index) if 0 <= index < min(store.size, _MAX_INDEX) else None
    if leaf is None or (memory is not None and names.get(leaf.memory or "") != memory):
        raise InputError("the ledger has no such leaf", code="not-found")
    return leaf


def _memory_names(store: Store) -> dict[str, str]:
    return {memory.uuid: memory.name for memory in store.memories()}


def _names_in(leaf: Leaf, names: dict[str, str]) -> dict[str, str]:
    """Names of the memories that a summary speaks of, as they are now; none of those that were dropped."""
    parts: Any = () if leaf.statement.predicate_type == PREDICATE_TYPE else parse_event(leaf.statement).facts
    stated = [part["memory"] for part in parts.get("memories", ())] if parts else []
    return {uuid: names[uuid] for uuid in stated if uuid in names}


def _checkpoint_content(note: SignedNote) -> dict[str, Any]:
    head = parse_checkpoint(note.text)
    return {"note": note.to_bytes().decode(), "origin": head.origin, "size": head.size, "root": head.root}


def _inclusion_content(proof: InclusionProof) -> dict[str, Any]:
    size = parse_checkpoint(proof.checkpoint.text).size
    return {"index": proof.index, "size": size, "path": proof.path, "text": proof.to_bytes().decode()}


def _verify(store: Store, body: SubmittedReceipt) -> dict[str, Any]:
    from expunge.ledger.envelope import open_statement
    from expunge.verify import verify_inclusion
    from expunge.verify import verify_receipt as verify

    envelope = body.envelope.encode("utf-8", "surrogatepass")
    statement = open_statement(envelope, store.public_keys)
    about: dict[str, str | int | None]
    if statement.predicate_type == EVENT_TYPE:
        event = parse_event(statement)
        about = {"kind": event.kind, "memory": event.memory, "edit": None, "time": event.time}
    else:
        verify(envelope, store.public_keys)
        stated = parse_predicate(statement)
        about = {"kind": stated.outcome, "memory": stated.memory, "edit": stated.edit, "time": stated.time}
    if body.inclusion is not None:
        proof = body.inclusion.encode("utf-8", "surrogatepass")
        verify_inclusion(envelope, proof, store.log_keys, store.origin)
    return {"verified": True, "inclusion": body.inclusion is not None, **about}
