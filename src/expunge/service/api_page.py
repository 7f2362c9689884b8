"""The description of the API as one page of HTML: no script, nothing from elsewhere, nothing of the store.

It is written once from the OpenAPI description. Operations and schemas fold; references lead to each other. So it works
offline, without a token, and under a policy that allows its own style sheet alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

from expunge.service.openapi import TAGS

__all__ = ["add_api_page"]

_CODE = re.compile(r"`([^`]+)`")
_PARAGRAPH = re.compile(r"\n\s*\n")
_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d5d9e0, #3a4150); --soft: light-dark(#59616f, #a3acbb);
  --code: light-dark(#f2f4f7, #20252e); --link: light-dark(#0b57a4, #8ab8f0); }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem }
a { color: var(--link) }
code, pre { font: 0.9em/1.45 ui-monospace, monospace; background: var(--code); border-radius: 4px }
code { padding: 0.1em 0.3em }
pre { padding: 0.6rem 0.8rem; overflow-x: auto }
details { border: 1px solid var(--line); border-radius: 6px; margin: 0.5rem 0; padding: 0 0.8rem }
summary { cursor: pointer; padding: 0.5rem 0; overflow-wrap: anywhere }
summary b { display: inline-block; min-width: 4.5rem }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; margin: 0.5rem 0 }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-top: 1px solid var(--line) }
.soft { color: var(--soft) }
nav ul { columns: 14rem; padding-left: 1.1rem }
@media print { details { break-inside: avoid } }
"""


def add_api_page(app: FastAPI) -> None:
    """Routes of the page and its style sheet."""
    pages: list[str] = []

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """The description of the API, for people."""
        if not pages:
            pages.append("\n".join(_page(app.openapi())))
        return Response(pages[0], media_type="text/html", headers={"Cache-Control": "no-cache"})

    @app.get("/docs/style.css", include_in_schema=False)
    async def style() -> Response:
        """Its style sheet."""
        return Response(_STYLE, media_type="text/css", headers={"Cache-Control": "no-cache"})


def _page(described: dict[str, Any]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>expunge: the API</title>'
    # Relative, so that it is found behind a proxy that serves under a prefix.
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<link rel="stylesheet" href="docs/style.css"></head><body><main>'
    yield f"<h1>The API of expunge</h1>{_text(described['info']['description'])}"
    yield '<p>The same for programs: <code>GET /openapi.json</code>, with a token.</p><nav aria-label="Contents"><ul>'
    yield from (f'<li><a href="#{tag}">{tag}</a></li>' for tag in TAGS)
    yield '<li><a href="#schemas">schemas</a></li></ul></nav>'
    found = [
        (path, method, operation)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    for tag, about in TAGS.items():
        yield f'<h2 id="{tag}">{tag}</h2><p>{escape(about)}</p>'
        for path, method, operation in found:
            if tag in operation["tags"]:
                yield from _operation(path, method, operation)
    yield '<h2 id="schemas">schemas</h2>'
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield f'<details id="{escape(name)}"><summary><b>{escape(name)}</b></summary>{_text(schema.get("description"))}'
        yield from _fields(schema)
        for example in schema.get("examples", ()):
            yield f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"
        yield "</details>"
    yield "</main></body></html>"


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    scopes = ", ".join(operation.get("x-scopes", ())) or "open"
    wide = "; whole store" if operation.get("x-store-wide") else ""
    yield f'<details id="{operation["operationId"]}"><summary><b>{method.upper()}</b> <code>{escape(path)}</code> '
    yield f'<span class="soft">{scopes}{wide}</span></summary>{_text(operation.get("description"))}'
    if parameters := operation.get("parameters"):
        yield "<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>"
        for one in parameters:
            name = escape(one["name"]) + ("" if one.get("required") else " <span class=soft>(optional)</span>")
            about = _inline(one.get("description", ""))
            yield f"<tr><td>{name}</td><td>{one['in']}</td><td>{_type(one['schema'])}</td><td>{about}</td></tr>"
        yield "</table>"
    if body := operation.get("requestBody"):
        yield f"<p>Body: {_type(body['content']['application/json']['schema'])}</p>"
    yield "<table><tr><th>status</th><th>answer</th><th></th></tr>"
    for status, response in operation["responses"].items():
        kinds = [f"{_type(kind.get('schema', {}))} <code>{media}</code>" for media, kind in response["content"].items()]
        yield f"<tr><td>{status}</td><td>{'<br>'.join(kinds)}</td><td>{_inline(response['description'])}</td></tr>"
    yield "</table></details>"


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    fields = schema.get("properties")
    if not fields:
        return
    yield "<table><tr><th>field</th><th>type</th></tr>"
    for name, kind in fields.items():
        required = "" if name in schema.get("required", ()) else " <span class=soft>(optional)</span>"
        yield f"<tr><td>{escape(name)}{required}</td><td>{_type(kind)}</td></tr>"
    yield "</table>"


def _type(schema: dict[str, Any]) -> str:
    """A type in words, with links to schemas."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        return f"array of ({_type(schema.get('items', {}))}){most}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of ({_type(schema['additionalProperties'])})"
    words = {"minimum": "≥", "exclusiveMinimum": "&gt;", "maximum": "≤", "exclusiveMaximum": "&lt;"}
    bounds = [f"{sign} {schema[word]:g}" for word, sign in words.items() if word in schema]
    return " ".join([kind, *bounds])


def _text(text: str | None) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in _PARAGRAPH.split(text or "") if part.strip())


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text.replace("``", "`"), quote=False))
