"""What an entry may have besides its payload: when it ends, and the entries that it was made from.

Attributes are part of the encoded payload. So commitments, encryption, files, evidence, archive and backups carry them
like the payload, and they go with the entry. An entry without attributes is encoded as if there were none.

Format: the byte ``a``, the length of the attributes in four bytes, the most significant first, the attributes as JSON
in one canonical form, and the encoded payload, which is empty where there is none. A source in the same memory is its
id; a source in another memory of the store is the UUID of that memory and the id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from expunge.display.card import counted
from expunge.errors import Conflict, InputError

__all__ = [
    "NO_ATTRIBUTES",
    "Attributes",
    "DerivedChoice",
    "Source",
    "check_expires",
    "check_sources",
    "decode_attributes",
    "has_attributes",
    "made_from_them",
    "split_attributes",
]

# An id of the same memory; or another memory and an id. People name that memory by its name, entries by its UUID.
Source: TypeAlias = str | tuple[str, str]

# What a deletion does about entries that were made from those that it names.
DerivedChoice: TypeAlias = Literal["erase", "refuse"]

_MARKER = b"a"
_LENGTH_BYTES = 4
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Attributes:
    """When an entry ends, in whole seconds UTC, and what it was made from, each source once and in order."""

    expires: datetime | None = None
    derived_from: tuple[Source, ...] = ()

    def encode(self, payload: bytes | None) -> bytes | None:
        """An encoded payload with these attributes; the payload itself where there are none."""
        if not self.derived_from and self.expires is None:
            return payload
        stated: dict[str, Any] = {}
        if self.derived_from:
            stated["derived_from"] = self.derived_from
        if self.expires is not None:
            stated["expires"] = _time_text(self.expires)
        text = json.dumps(stated, ensure_ascii=False, separators=(",", ":")).encode()
        return _MARKER + len(text).to_bytes(_LENGTH_BYTES, "big") + text + (payload or b"")

    def resolved(self, uuid_of: Callable[[str], str | None]) -> Attributes:
        """The same with sources as entries keep them: ``uuid_of`` gives the UUID of a memory, and None of this one."""
        return Attributes(self.expires, _in_order(_resolved(source, uuid_of) for source in self.derived_from))


NO_ATTRIBUTES = Attributes()


def has_attributes(encoded: bytes | None) -> bool:
    """Whether an encoded payload has attributes."""
    return encoded is not None and encoded[:1] == _MARKER


def decode_attributes(encoded: bytes | None) -> Attributes:
    """The attributes of an encoded payload; ValueError where they are not in the one form that they can have."""
    if not has_attributes(encoded):
        return NO_ATTRIBUTES
    text, payload = split_attributes(encoded)
    stated = json.loads(text)
    if not isinstance(stated, dict) or not stated.keys() <= {"derived_from", "expires"}:
        raise ValueError("attributes of an entry have other names than derived_from and expires")
    expires = stated.get("expires")
    found = Attributes(
        None if expires is None else datetime.strptime(expires, _TIME).replace(tzinfo=UTC),
        tuple(_as_source(source) for source in stated.get("derived_from", ())),
    )
    if found.derived_from != _in_order(found.derived_from) or found.encode(payload) != encoded:
        raise ValueError("attributes of an entry are not in their canonical form")
    return found


def split_attributes(encoded: bytes | None) -> tuple[bytes, bytes | None]:
    """The JSON of the attributes of an encoded payload, empty where it has none, and the payload without them."""
    if encoded is None or not has_attributes(encoded):
        return b"", encoded
    start = len(_MARKER) + _LENGTH_BYTES
    end = start + int.from_bytes(encoded[len(_MARKER) : start], "big")
    if len(encoded) < end or encoded[end : end + len(_MARKER)] == _MARKER:
        raise ValueError("attributes of an entry are cut off, or stand there twice")
    return encoded[start:end], encoded[end:] or None


def check_expires(value: Any, now: datetime | None = None) -> datetime | None:
    """When an entry ends: a time with a zone, after ``now`` where that is given; parts of a second are dropped."""
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
        raise InputError(f"expires must be a datetime with a time zone, or None, not {value!r}")
    try:
        end = value.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise InputError(f"expires must be a time between the years 1 and 9999, not {value!r}") from None
    if now is not None and end <= now:
        raise InputError(
            f"the entry would end at {_time_text(end)}, which is past: leave expires out, or give a later time",
            code="expires-past",
        )
    return end


def check_sources(value: Any) -> tuple[Source, ...]:
    """What an entry was made from, as it is given: ids, and pairs of the name of another memory and an id."""
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise InputError(f"derived_from must be a list of ids, not {value!r}")
    return _in_order(_checked_source(source) for source in value)


def made_from_them(named: int, made: Sequence[str]) -> Conflict:
    """The error for a deletion that was not to take what was made from the entries that it names."""
    listed = ", ".join(map(repr, made[:3])) + (f" and {len(made) - 3} more" if len(made) > 3 else "")
    return Conflict(
        f"{counted(named, 'entry')} would take {counted(len(made), 'entry')} along, made from what goes: {listed}. "
        'Nothing was deleted; delete these first, or with derived="erase"',
        code="derived-entries",
    )


def _checked_source(value: Any) -> Source:
    parts = [value] if isinstance(value, str) else list(value) if isinstance(value, tuple | list) else []
    if len(parts) not in (1, 2) or (len(parts) == 1) != isinstance(value, str):
        raise InputError(f"a source is an id, or the name of another memory and an id, not {value!r}")
    for part in parts:
        if not isinstance(part, str) or not part:
            raise InputError(f"a source is an id, or the name of another memory and an id, not {value!r}")
        try:
            part.encode()
        except UnicodeEncodeError:
            raise InputError(f"a source must be valid Unicode, not {part!r}") from None
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _resolved(source: Source, uuid_of: Callable[[str], str | None]) -> Source:
    if isinstance(source, str):
        return source
    uuid = uuid_of(source[0])
    return source[1] if uuid is None else (uuid, source[1])


def _as_source(stated: Any) -> Source:
    """A source as it is stated in JSON."""
    if isinstance(stated, str):
        return stated
    memory, name = stated
    if not isinstance(memory, str) or not isinstance(name, str):
        raise ValueError("a source of an entry is no id")
    return memory, name


def _in_order(sources: Any) -> tuple[Source, ...]:
    """Each source once: those of the same memory first, then by memory, then by id."""
    return tuple(sorted(set(sources), key=lambda source: ("", source) if isinstance(source, str) else source))


def _time_text(time: datetime) -> str:
    # `strftime` writes years before 1000 with fewer digits.
    return time.isoformat().replace("+00:00", "Z")
