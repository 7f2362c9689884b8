"""JSON responses (infinities as text, arrays as lists, bytes as base64), and the contents that several routes send."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from starlette.responses import JSONResponse

from expunge.certificates.warranty import Warranty
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.problem.partition import Partition
from expunge.store import Preview, StoredMemory

__all__ = [
    "JsonResponse",
    "groups_of",
    "payload_content",
    "preview_content",
    "remaining_fraction",
    "response_with_etag",
    "summary_content",
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


def preview_content(preview: Preview) -> dict[str, Any]:
    """What an edit would do."""
    return {"dry_run": True, **vars(preview)}


def summary_content(memory: StoredMemory) -> dict[str, Any]:
    """A memory in numbers."""

    def content_of(version: Version) -> dict[str, Any]:
        groups = Partition.of(version.coefficients, version.state.cap)
        return {
            "edit": version.edit,
            "digest": version.digest,
            "size": version.size,
            "archived": len(version.warranties.archive),
            "forgotten": len(version.warranties.forgotten),
            "expired": len(version.warranties.forgotten) - len(version.valid),
            "partition": {
                "margin": int(groups.margin.size),
                "bound": int(groups.bound.size),
                "reserve": int(groups.reserve.size),
            },
            "cap": version.state.cap,
            "sigma": version.state.gram.sigma,
            "offset": version.state.offset,
            "dimension": int(version.state.gram.keys.shape[1]),
            "value_dimension": int(version.entries.values.shape[1]),
        }

    content = {"name": memory.name, "uuid": memory.uuid, **memory.look(content_of)}
    return content | {"deletable": memory.deletable, "initial_size": memory.initial_size}


def groups_of(version: Version) -> list[str]:
    """Margin, bound or reserve, in row order."""
    groups = Partition.of(version.coefficients, version.state.cap)
    names = np.full(version.size, "reserve", dtype="<U7")
    names[groups.margin], names[groups.bound] = "margin", "bound"
    listed: list[str] = names.tolist()
    return listed


def payload_content(encoded: bytes | None) -> Any:
    """A payload as it was given; bytes as base64."""
    payload = decode_payload(encoded)
    return {"base64": base64.b64encode(payload).decode()} if isinstance(payload, bytes) else payload


def warranty_content(row: Warranty, subject: str | None) -> dict[str, Any]:
    """The warranty of a pruned entry."""
    return {**vars(row), "subject": subject, "fraction": remaining_fraction(row)}


def remaining_fraction(row: Warranty) -> float:
    """What is left of a warranty, from 1 when it was issued to 0."""
    if row.slack is None or row.remaining is None or not row.slack > 0.0:
        return 0.0
    return float(min(1.0, max(0.0, row.remaining / row.slack)))


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
