"""The OpenAPI description of the service, as generators of clients and linters take it.

FastAPI writes most of it. Here come what it does not know: problems as the responses to what goes wrong, the limits of
this service as bounds in the schemas, the server's own address, tags, and which routes need no token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from expunge.service.problems import MEDIA_TYPE
from expunge.service.schemas.responses import Problem
from expunge.service.settings import Limits, Settings

__all__ = ["TAGS", "describe"]

_DESCRIPTION = """A memory you can delete from, and prove it.

Every route but `/health` and `/ready` needs a bearer token with one of the scopes in `x-scopes`; where `x-store-wide`
is true, one for the whole store. Errors are problem details (RFC 9457). Edits take `Idempotency-Key`, and `If-Match`
with the entity tag of the memory's state."""

TAGS = {
    "service": "The service itself, its keys, metrics and report.",
    "memories": "Memories: list, create, show, drop.",
    "entries": "Entries of a memory, the map of them, certificates and warranties.",
    "questions": "Queries of a memory; each is sent in a body, because it is content.",
    "edits": "Edits of one memory; each is one checked, signed, durable transaction.",
    "jobs": "Erasures in every memory and other long work, and how far it is.",
    "requests": "Around a person's request: export, erasures that wait, cases.",
    "ledger": "Signed receipts, heads, proofs, evidence and certificate documents.",
    "holds": "Legal holds.",
    "mirrors": "Systems that have copies.",
    "tokens": "Tokens of clients.",
}
_SECURITY: list[dict[str, list[str]]] = [{"bearer": []}]
_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
# Arrays in bodies, by schema and field, and the limit that each has.
_BOUNDED = {
    ("Admissions", "entries"): "batch",
    ("AdmissionBatch", "entries"): "batch",
    ("Deletion", "ids"): "batch",
    ("ReadQueries", "queries"): "queries",
    **{("NewMemory", field): "batch" for field in ("keys", "values", "ids", "subjects", "payloads", "expires")},
    ("NewMemory", "derived_from"): "batch",
}
_HEADERS = {
    "Location": {"description": "Where the job is.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds until it is worth asking again.", "schema": {"type": "integer"}},
}


def describe(app: FastAPI, settings: Settings) -> dict[str, Any]:
    """The description of an application, made once."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    described = get_openapi(
        title=app.title,
        version=app.version,
        description=_DESCRIPTION,
        routes=app.routes,
        servers=[{"url": settings.prefix or "/", "description": "This service."}],
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        contact={"name": "The operator of this service"},
    )
    described["security"] = _SECURITY
    described["x-limits"] = vars(settings.limits)
    components = described["components"]
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    schemas = components["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= {**schema.pop("$defs", {}), "Problem": schema}
    for name, schema in schemas.items():
        _spell_constants(schema)
        _bound(name, schema, settings.limits)
    for path, operations in described["paths"].items():
        for operation in operations.values():
            _complete(path, operation, settings.limits)
    app.openapi_schema = described
    return described


def _complete(path: str, operation: dict[str, Any], limits: Limits) -> None:
    """Give an operation its problems, and its parameters their bounds."""
    responses = operation["responses"]
    responses.pop("422", None)
    for status, text in (("4XX", "The request was not carried out."), ("5XX", "The service could not do it.")):
        responses[status] = {
            "description": text,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    if "202" in responses:
        responses["202"]["headers"] = _HEADERS
    if path in ("/health", "/ready"):
        operation["security"] = []
        content = {"application/json": {"schema": _STATUS}}
        responses["200"]["content"] = content
        if path == "/ready":
            responses["503"] = {"description": "It is not ready.", "content": content}
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        # A parameter that is not sent is not null.
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            del schema["anyOf"]
            schema |= kinds[0]
        if parameter["name"] == "limit":
            schema["maximum"] = limits.page


def _spell_constants(value: Any) -> None:
    """Write a constant as a list of one: generators of clients take a number or a constant for the constant."""
    if isinstance(value, dict):
        if "const" in value:
            value["enum"] = [value.pop("const")]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _spell_constants(one)


def _bound(name: str, schema: dict[str, Any], limits: Limits) -> None:
    """Write the limits of this service into a schema of a body."""
    for field, described in schema.get("properties", {}).items():
        limit = _BOUNDED.get((name, field))
        for array in _arrays(described):
            if limit is not None:
                array["maxItems"] = getattr(limits, limit)
            for inner in _arrays(array["items"]):
                if inner["items"].get("type") == "number" and limit is not None:
                    inner["maxItems"] = limits.dimension
            if limit is None and array["items"].get("type") == "number" and name in _BODIES_WITH_VECTORS:
                array["maxItems"] = min(limits.dimension, array.get("maxItems", limits.dimension))


_BODIES_WITH_VECTORS = frozenset({"Admission", "NewEntry", "SearchQuery", "NearestQuery", "ExplanationQuery"})


def _arrays(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arrays that a value may be."""
    for kind in (schema, *schema.get("anyOf", ())):
        if kind.get("type") == "array" and "items" in kind:
            yield kind
