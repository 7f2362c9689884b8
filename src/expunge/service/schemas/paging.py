"""Cursors: where a list goes on. They are opaque to the client, and hold a position, not a page number."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Annotated, Any

from fastapi import Query

from expunge.errors import InputError
from expunge.service.settings import Limits

__all__ = ["Cursor", "Limit", "cursor", "page_size", "place_of", "position"]

Cursor = Annotated[str | None, Query(alias="cursor", description="`next` of the page before.", max_length=8192)]
Limit = Annotated[int | None, Query(description="How many items at most; 100 unless said.", ge=1)]

_USUAL = 100
# Characters of an id in a cursor: escaped and encoded they fit into a URL, whatever they are.
_LONGEST = 256


def cursor(place: str | int) -> str:
    """A position as text."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def page_size(limits: Limits, asked: int | None) -> int:
    """How many items a page has."""
    if asked is not None and asked > limits.page:
        raise InputError(f"limit: a page has at most {limits.page} items, not {asked}")
    return min(_USUAL, limits.page) if asked is None else asked


def place_of(name: str) -> str:
    """What an entry is sorted by: its id, or of one that is too long for a URL its beginning and a hash."""
    if len(name) <= _LONGEST:
        return name
    return name[:_LONGEST] + hashlib.sha256(name.encode()).hexdigest()


def position(text: str | None, kind: type) -> Any:
    """What `cursor` was given; None at the beginning."""
    if text is None:
        return None
    try:
        place = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        place = None
    if type(place) is not kind or (isinstance(place, int) and not 0 <= place < 1 << 62):
        raise InputError("the cursor is not one that this list gave out")
    return place
