"""Cursors of paginated lists: opaque to the client; each holds a position, not a page number."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Annotated, Any

from fastapi import Query

from expunge.errors import InputError
from expunge.service.settings import Limits

__all__ = ["Cursor", "Limit", "cursor", "page_size", "position", "sort_key"]

Cursor = Annotated[str | None, Query(alias="cursor", description="`next` of the page before.", max_length=8192)]
Limit = Annotated[int | None, Query(description="How many items at most; 100 unless said.", ge=1)]

_DEFAULT_SIZE = 100
# Characters of an id in a cursor: escaped and encoded they fit into a URL, whatever they are.
_MAX_LENGTH = 256


def cursor(after: str | int) -> str:
    """A position as text."""
    return base64.urlsafe_b64encode(json.dumps(after).encode()).decode().rstrip("=")


def page_size(limits: Limits, requested: int | None) -> int:
    """How many items a page has."""
    if requested is not None and requested > limits.page:
        raise InputError(f"limit: a page has at most {limits.page} items, not {requested}")
    return min(_DEFAULT_SIZE, limits.page) if requested is None else requested


def sort_key(name: str) -> str:
    """What entries are sorted by: the id, or the beginning and a hash of an id that is too long for a URL."""
    if len(name) <= _MAX_LENGTH:
        return name
    return name[:_MAX_LENGTH] + hashlib.sha256(name.encode()).hexdigest()


def position(text: str | None, kind: type) -> Any:
    """The position in a cursor; None for the first page."""
    if text is None:
        return None
    try:
        found = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        found = None
    if type(found) is not kind or (isinstance(found, int) and not 0 <= found < 1 << 62):
        raise InputError("the cursor is not one that this list gave out")
    return found
