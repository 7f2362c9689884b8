"""JSON responses (infinities as text, arrays as lists, bytes as base64), and the contents that several routes send."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from expunge.certificates.warranty import Warranty
from expunge.memory.attributes import decode_attributes
from expunge.memory.entries import decode_payload
from expunge.store import Preview, SignedReceipt

__all__ = [
    "JsonResponse",
    "attributes_content",
    "payload_content",
    "preview_content",
    "receipt_content",
    "response_with_etag",
    "warranty_content",
]


class JsonResponse(JSONResponse):
    """A JSON response."""

    def render(self, content: Any) -> bytes:
        """Compact JSON, in UTF-8."""
        return json.dumps(_plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def response_with_etag(content: Any, digest: str, status: int = 200, **headers: str) -> JsonResponse:
    """A response about one version of a memory, with the version's digest as entity tag."""
    return JsonResponse(content, status_code=status, headers={"ETag": f'"{digest}"', **headers})


def preview_content(preview: Preview, *, everywhere: bool = True) -> dict[str, Any]:
    """What an edit would do; with ``everywhere``, in other memories, too."""
    content = {"dry_run": True, **preview.to_json()}
    return content if everywhere else content | {"derived": _here(preview), "elsewhere": {}}


def receipt_content(receipt: SignedReceipt, *, everywhere: bool = True) -> dict[str, Any]:
    """What an edit did; with ``everywhere``, in other memories, too."""
    content = receipt.to_json()
    return content if everywhere else content | {"elsewhere": None}


def attributes_content(encoded: bytes | None, *, everywhere: bool) -> dict[str, Any]:
    """When an entry ends, and what it was made from; of sources in other memories only where it is ``everywhere``."""
    stated = decode_attributes(encoded)
    sources = [source for source in stated.derived_from if everywhere or isinstance(source, str)]
    ends = None if stated.expires is None else stated.expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"expires": ends, "derived_from": sources}


def _here(preview: Preview) -> list[dict[str, Any]]:
    """Derived entries without their sources in other memories."""
    found = [entry.to_json() for entry in preview.derived]
    return [
        entry | {"sources": [source for source in entry["sources"] if source[0] == entry["memory"]]} for entry in found
    ]


def payload_content(encoded: bytes | None) -> Any:
    """A payload as it was given; bytes as base64."""
    payload = decode_payload(encoded)
    return {"base64": base64.b64encode(payload).decode()} if isinstance(payload, bytes) else payload


def warranty_content(row: Warranty, subject: str | None) -> dict[str, Any]:
    """The warranty of a pruned entry."""
    return {**vars(row), "subject": subject, "fraction": row.fraction}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _plain(value.tolist()) if hasattr(value, "tolist") else value
