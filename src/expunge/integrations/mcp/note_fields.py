"""The fields of a note, as clients give and get them: what may be given, and how it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, TypeVar

from expunge.errors import InputError
from expunge.integrations.mcp.answers import RecalledNote, StoredNote
from expunge.integrations.note_view import note_metadata, note_text
from expunge.memory.entries import check_id

__all__ = [
    "MAX_ANSWER",
    "MAX_NOTES",
    "MAX_TEXT",
    "check_count",
    "check_ids",
    "check_name",
    "check_text",
    "cut_text",
    "end_of",
    "fitting",
    "metadata_of",
    "payload_of",
    "text_of",
]

# Characters of a text, and of metadata as JSON; notes of one call; ids; characters of a name.
MAX_TEXT = 100_000
MAX_NOTES = 100
MAX_IDS = 1000
MAX_NAME = 1000
# Characters of the notes in one answer, as JSON: clients refuse messages of more than a mebibyte.
MAX_ANSWER = 300_000

_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([0-9]{1,6})([smhd])")

AnyNote = TypeVar("AnyNote", RecalledNote, StoredNote)


def check_text(text: str) -> str:
    """The text, if a note or a query can be that."""
    if not text.strip() or len(text) > MAX_TEXT:
        raise InputError(f"a text has 1 to {MAX_TEXT} characters that are not all blank")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("a text must be valid Unicode") from None
    return text


def check_name(name: str, what: str) -> str:
    """An id or a subject, if it can be one; ``what`` names it in the error."""
    if len(name) > MAX_NAME:
        raise InputError(f"{what} has at most {MAX_NAME} characters, not {len(name)}")
    return check_id(name)


def check_ids(ids: list[str], what: str) -> list[str]:
    """Ids, if each can be one and they are not too many."""
    if len(ids) > MAX_IDS:
        raise InputError(f"{what} has at most {MAX_IDS} ids, not {len(ids)}")
    return [check_name(name, "an id") for name in ids]


def check_count(count: int) -> int:
    """How many notes an answer has at most, if that can be."""
    if not 1 <= count <= MAX_NOTES:
        raise InputError(f"k is 1 to {MAX_NOTES}, not {count}")
    return count


def payload_of(text: str, metadata: Mapping[str, Any] | None) -> Any:
    """What an entry keeps of a note: its text alone, or with its metadata."""
    if not metadata:
        return text
    try:
        size = len(json.dumps(metadata))
    except (TypeError, ValueError, RecursionError) as problem:
        raise InputError(f"metadata must be JSON ({problem})") from None
    if size > MAX_TEXT:
        raise InputError(f"metadata has at most {MAX_TEXT} characters as JSON, not {size}")
    return {"text": text, "metadata": dict(metadata)}


def text_of(payload: Any) -> str:
    """A payload as a text: what others than these tools wrote may be JSON or bytes."""
    text = note_text(payload)
    if text is not None:
        return text
    return f"({len(payload)} bytes)" if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False)


def cut_text(text: str, most: int) -> str:
    """A text of so many characters at most, and how many more it has."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most} more characters)"


def fitting(notes: list[AnyNote]) -> list[AnyNote]:
    """As many of the notes as one answer holds, and the first in any case."""
    size, count = 0, 0
    for note in notes:
        size += len(json.dumps(asdict(note)))
        if count and size > MAX_ANSWER:
            break
        count += 1
    return notes[:count]


def metadata_of(payload: Any) -> dict[str, Any] | None:
    """The metadata of a payload, or None."""
    return dict(note_metadata(payload)) or None


def end_of(text: str | None, now: datetime) -> datetime | None:
    """A time, or a span from now; times are in whole seconds, and a span ends with the second that it ends in."""
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    try:
        if span is not None:
            length = timedelta(seconds=int(span.group(1)) * _TIMES[span.group(2)], microseconds=999_999)
            return (now + length).replace(microsecond=0)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise InputError(
            f"expires is a time such as 2027-01-31T12:00:00Z, or a span such as 30d, 12h or 90m, not {text!r:.80}"
        ) from None
    if found.tzinfo is None:
        raise InputError(f"expires needs a time zone, such as {text}Z, and has none: {text!r:.80}")
    return found
