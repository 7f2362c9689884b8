"""The ledger: its leaves, its signed heads, and the proofs that tie them together. Nothing in it is content.

A token of one memory sees the receipts of that memory, and of the ledger as a whole only hashes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from expunge.errors import InputError
from expunge.ledger.checkpoint import parse_checkpoint
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.note import SignedNote
from expunge.ledger.receipt_format import PREDICATE_TYPE, parse_predicate
from expunge.service.auth import caller, memory_of, needs, router
from expunge.service.context import House, house_of
from expunge.service.json_response import Answer
from expunge.service.request_errors import NotFound
from expunge.service.schemas import responses as shapes
from expunge.service.schemas.paging import Cursor, Limit, cursor, page_size, position
from expunge.service.schemas.requests import Submission
from expunge.store import EVENT_TYPE, Leaf, Store, parse_event

__all__ = ["routes"]

routes = router("ledger")

_LARGEST = 1 << 62


@routes.get("/v1/log", response_model=shapes.Page[shapes.Leaf], openapi_extra=needs("read", "audit"))
async def list_log(request: Request, cursor_: Cursor = None, limit: Limit = None) -> Response:
    """Leaves of the ledger, newest first; those of its memory for a token of one memory."""
    house, token = house_of(request), caller(request)
    most = page_size(house.settings.limits, limit)
    before = position(cursor_, int)
    return Answer(await house.desk.read(_listed, house, token.memory, before, most))


@routes.get(
    "/v1/memories/{name}/receipts", response_model=shapes.Page[shapes.Leaf], openapi_extra=needs("read", "audit")
)
async def list_receipts(request: Request, name: str, cursor_: Cursor = None, limit: Limit = None) -> Response:
    """Leaves of the ledger that are about one memory, newest first."""
    house = house_of(request)
    most = page_size(house.settings.limits, limit)
    before = position(cursor_, int)
    return Answer(await house.desk.read(lambda: _listed(house, memory_of(request).name, before, most)))


@routes.get("/v1/receipts/{index}", response_model=shapes.Stated, openapi_extra=needs("read", "audit"))
async def show_receipt(request: Request, index: int) -> Response:
    """One leaf, readable, with everything that it takes to verify it elsewhere."""
    house, token = house_of(request), caller(request)

    def found() -> dict[str, Any]:
        store = house.store
        names = _names(house)
        leaf, proof = _leaf(store, index, names, token.memory), store.inclusion(index)
        return {
            "index": leaf.index,
            "kind": leaf.kind,
            "memory": leaf.memory,
            "name": names.get(leaf.memory or ""),
            "edit": leaf.edit,
            "statement": {
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [
                    {"name": subject.name, "digest": {"sha256": subject.sha256}} for subject in leaf.statement.subjects
                ],
                "predicateType": leaf.statement.predicate_type,
                "predicate": _melted(leaf.statement.predicate),
            },
            "envelope": leaf.envelope.decode(),
            "inclusion": _path(proof),
            "checkpoint": _head(proof.checkpoint),
            **keys_of(store),
        }

    return Answer(await house.desk.read(found))


@routes.get("/v1/log/checkpoint", response_model=shapes.Checkpoint, openapi_extra=needs("read", "audit"))
async def show_checkpoint(request: Request) -> Response:
    """The signed head of the ledger. Keep it: it holds the ledger to what it says now."""
    house = house_of(request)
    return Answer(await house.desk.read(lambda: _head(house.store.checkpoint())))


@routes.get("/v1/log/inclusion/{index}", response_model=shapes.Inclusion, openapi_extra=needs("read", "audit"))
async def show_inclusion(request: Request, index: int) -> Response:
    """Proof that a leaf is in the ledger."""
    house, token = house_of(request), caller(request)

    def found() -> dict[str, Any]:
        _leaf(house.store, index, _names(house), token.memory)
        proof = house.store.inclusion(index)
        return {**_path(proof), "checkpoint": _head(proof.checkpoint)}

    return Answer(await house.desk.read(found))


@routes.get("/v1/log/consistency", response_model=shapes.Consistency, openapi_extra=needs("read", "audit"))
async def show_consistency(
    request: Request, since: Annotated[int, Query(description="Size of the head that was kept.", ge=0)]
) -> Response:
    """Proof that the ledger only grew since it had so many leaves."""
    house = house_of(request)
    if since >= _LARGEST:
        raise InputError("the ledger never had that many leaves")

    def found() -> dict[str, Any]:
        proof = house.store.consistency(since)
        head = _head(proof.checkpoint)
        return {
            "old_size": proof.old_size,
            "size": head["size"],
            "path": proof.path,
            "text": proof.to_bytes().decode(),
            "checkpoint": head,
        }

    return Answer(await house.desk.read(found))


@routes.post("/v1/verify/receipt", response_model=shapes.Verified, openapi_extra=needs("read", "audit"))
async def verify_receipt(request: Request, form: Submission) -> Response:
    """Check a signed receipt, and its place in the log, under this store's keys. A failure names what is wrong.

    The page and `expunge verify` do the same without this service, which is the point of a receipt.
    """
    house = house_of(request)
    request.state.artifact = True
    return Answer(await house.desk.read(_verified, house.store, form))


def keys_of(store: Store) -> dict[str, str]:
    """What a verifier has to trust."""
    return {
        "public_key": base64.b64encode(store.public_key.raw).decode(),
        "key_id": store.public_key.key_id,
        "log_key": store.log_key.to_text(),
    }


def _listed(house: House, memory: str | None, before: int | None, limit: int) -> dict[str, Any]:
    names = _names(house)
    wanted = None if memory is None else [uuid for uuid, name in names.items() if name == memory]
    found = house.store.newest_leaves(memories=wanted, before=before, limit=limit + 1)
    items = [_line(leaf, names) for leaf in found[:limit]]
    return {"items": items, "next": cursor(items[-1]["index"]) if len(found) > limit else None}


def _line(leaf: Leaf, names: dict[str, str]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "index": leaf.index,
        "kind": leaf.kind,
        "memory": leaf.memory,
        "name": names.get(leaf.memory or ""),
        "edit": leaf.edit,
    }
    if leaf.statement.predicate_type == PREDICATE_TYPE:
        stated = parse_predicate(leaf.statement)
        return about | {"time": stated.time, "applied": stated.applied.count, "live": stated.after.live}
    event = parse_event(leaf.statement)
    parts = event.facts.get("memories", ())
    erased = sum(part["entries"] for part in parts)  # type: ignore[union-attr,index,call-overload,misc]
    return about | {"time": event.time, "applied": erased, "live": None}


def _leaf(store: Store, index: int, names: dict[str, str], memory: str | None) -> Leaf:
    """A leaf, which to a token of one memory is not there if it is about another."""
    leaf = store.leaf(index) if 0 <= index < min(store.size, _LARGEST) else None
    if leaf is None or (memory is not None and names.get(leaf.memory or "") != memory):
        raise NotFound("the ledger has no such leaf")
    return leaf


def _names(house: House) -> dict[str, str]:
    return {memory.uuid: memory.name for memory in house.store.memories()}


def _head(note: SignedNote) -> dict[str, Any]:
    head = parse_checkpoint(note.text)
    return {"note": note.to_bytes().decode(), "origin": head.origin, "size": head.size, "root": head.root}


def _path(proof: InclusionProof) -> dict[str, Any]:
    size = parse_checkpoint(proof.checkpoint.text).size
    return {"index": proof.index, "size": size, "path": proof.path, "text": proof.to_bytes().decode()}


def _verified(store: Store, form: Submission) -> dict[str, Any]:
    from expunge.ledger.envelope import open_statement
    from expunge.verify import verify_inclusion
    from expunge.verify import verify_receipt as verify

    envelope = form.envelope.encode("utf-8", "surrogatepass")
    statement = open_statement(envelope, [store.public_key])
    about: dict[str, str | int | None]
    if statement.predicate_type == EVENT_TYPE:
        event = parse_event(statement)
        about = {"kind": event.kind, "memory": event.memory, "edit": None, "time": event.time}
    else:
        verify(envelope, [store.public_key])
        stated = parse_predicate(statement)
        about = {"kind": stated.outcome, "memory": stated.memory, "edit": stated.edit, "time": stated.time}
    if form.inclusion is not None:
        proof = form.inclusion.encode("utf-8", "surrogatepass")
        verify_inclusion(envelope, proof, [store.log_key], store.origin)
    return {"verified": True, "inclusion": form.inclusion is not None, **about}


def _melted(value: Any) -> Any:
    """Frozen JSON as ordinary dicts and lists."""
    if isinstance(value, Mapping):
        return {name: _melted(item) for name, item in value.items()}
    return [_melted(item) for item in value] if isinstance(value, list | tuple) else value
