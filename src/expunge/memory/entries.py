"""The entries behind a memory: ids, subjects, values, payloads and salts, in append-only slots.

A slot is written before the state that counts it is published, and wiped after the state that drops it is:
so an interrupted edit leaves at worst a slot that no state refers to, and `rewind` forgets it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from expunge.errors import InputError
from expunge.ledger.commitment import DIGEST_BYTES, SALT_BYTES, blind_rows, commit_rows, new_salts
from expunge.memory.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    Source,
    check_expires,
    check_sources,
    decode_attributes,
    has_attributes,
    split_attributes,
)
from expunge.problem.problem import row_bytes
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "EncodedPayload",
    "Entries",
    "SlotIndex",
    "check_attributes",
    "check_id",
    "check_ids",
    "check_subject",
    "check_subjects",
    "decode_payload",
    "encode_payload",
    "encode_payloads",
    "listed",
]

_BYTES, _JSON = b"b", b"j"
# Lists and objects within each other in a payload: whoever walks through one need not fear its depth.
DEEPEST = 64


class EncodedPayload(bytes):
    """What `encode_payload` has returned, attributes included, to be admitted as it is."""


def encode_payload(payload: Any, attributes: Attributes = NO_ATTRIBUTES) -> bytes | None:
    """Bytes as they are, anything else as JSON at most 64 levels deep; one leading byte tells which.

    Attributes stand before it.
    """
    if attributes is not NO_ATTRIBUTES:
        return attributes.encode(encode_payload(payload))
    if payload is None:
        return None
    if isinstance(payload, EncodedPayload):
        return bytes(payload) or None
    if isinstance(payload, bytes | bytearray | memoryview):
        return _BYTES + bytes(payload)
    if _deeper(payload, DEEPEST):
        raise InputError(f"a payload must not be nested more than {DEEPEST} levels deep")
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return _JSON + text.encode("utf-8")
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as problem:
        raise InputError(f"a payload must be bytes or JSON ({problem})") from None


def _deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than this."""
    if not isinstance(value, dict | list | tuple):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inside)


def decode_payload(encoded: bytes | None) -> Any:
    """The payload that `encode_payload` was given, without its attributes."""
    _, encoded = split_attributes(encoded)
    if encoded is None:
        return None
    return encoded[1:] if encoded[:1] == _BYTES else json.loads(encoded[1:])


def check_id(value: Any) -> str:
    """An id is a non-empty string."""
    if not isinstance(value, str) or not value:
        raise InputError(f"an id must be a non-empty string, not {value!r}")
    return _encodable(value, "an id")


def check_subject(value: Any) -> str | None:
    """A subject is a non-empty string, or None."""
    if value is not None and (not isinstance(value, str) or not value):
        raise InputError(f"a subject must be a non-empty string or None, not {value!r}")
    return value if value is None else _encodable(value, "a subject")


def _encodable(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{what} must be valid Unicode, not {text!r}") from None
    return text


def listed(items: Any, what: str) -> list[Any]:
    """List of something iterable that is not one string."""
    if isinstance(items, bytes):
        raise InputError(f"{what} must be a list, not bytes")
    try:
        return list(items)
    except TypeError:
        raise InputError(f"{what} must be a list, not {items!r}") from None


def check_ids(ids: Any, size: int) -> list[str]:
    """One unique id for each key; the row number where none are given."""
    if ids is None:
        return [str(row) for row in range(size)]
    names = [check_id(name) for name in _sized(ids, size, "ids")]
    if len(set(names)) < size:
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise InputError(f"ids must be unique; {twice!r} is not")
    return names


def check_subjects(subjects: Any, size: int) -> list[str | None]:
    """One subject or None for each key."""
    if subjects is None:
        return [None] * size
    return [check_subject(owner) for owner in _sized(subjects, size, "subjects")]


def encode_payloads(payloads: Any, size: int, attributes: list[Attributes] | None = None) -> list[bytes | None]:
    """One payload or None for each key, with its attributes."""
    if payloads is None and attributes is None:
        return [None] * size
    given = [None] * size if payloads is None else _sized(payloads, size, "payloads")
    if attributes is None:
        return [encode_payload(payload) for payload in given]
    return [encode_payload(payload, stated) for payload, stated in zip(given, attributes, strict=True)]


def check_attributes(
    expires: Any,
    derived_from: Any,
    size: int,
    *,
    now: datetime | None = None,
    uuid_of: Callable[[str], str | None] | None = None,
) -> list[Attributes] | None:
    """Attributes for each key; None where none has any.

    ``uuid_of`` is as for `Attributes.resolved`. Without it there is no other memory, and InputError is raised where a
    source is in one. An end is to be after ``now``, where that is given.
    """
    if expires is None and derived_from is None:
        return None
    ends = [None] * size if expires is None else _sized(expires, size, "expires")
    sources = [()] * size if derived_from is None else _sized(derived_from, size, "derived_from")
    found = [
        Attributes(check_expires(end, now), check_sources(made_from))
        for end, made_from in zip(ends, sources, strict=True)
    ]
    if uuid_of is not None:
        return [stated.resolved(uuid_of) for stated in found]
    outside = next((one for stated in found for one in stated.derived_from if isinstance(one, tuple)), None)
    if outside is not None:
        raise InputError(
            f"the source {outside!r} is in another memory, which only a memory of a store has: name an id of this one",
            code="source-elsewhere",
        )
    return found


def _sized(items: Any, size: int, name: str) -> list[Any]:
    if isinstance(items, str):
        raise InputError(f"{name} must be a list with one item per key, not a string")
    found = listed(items, name)
    if len(found) != size:
        raise InputError(f"{name} must have one item per key: {size}, not {len(found)}")
    return found


class SlotIndex(Protocol):
    """What a search derived from the content of slots. It goes when they do."""

    def forget(self, slots: Iterable[int]) -> None:
        """Overwrite what was derived from these slots, which are wiped."""

    def rewind(self, count: int) -> None:
        """Overwrite what was derived from the slots from `count` on, which will be written anew."""


class Entries:
    """Columns of entry data, addressed by slot."""

    def __init__(self, width: int, capacity: int = 8) -> None:
        capacity = max(capacity, 8)
        self.count = 0
        self.ids: list[str | None] = []
        self.subjects: list[str | None] = []
        self.payloads: list[bytes | None] = []
        self.salts: list[bytes] = []
        self.values: Matrix = np.zeros((capacity, width))
        self.blinds: npt.NDArray[np.uint8] = np.zeros((capacity, DIGEST_BYTES), dtype=np.uint8)
        self.commitments: npt.NDArray[np.uint8] = np.zeros((capacity, DIGEST_BYTES), dtype=np.uint8)
        self.site: IndexArray = np.full(capacity, -1, dtype=np.int64)
        # Slots in ascending order of their commitments, in which digests list entries, and these commitments. Replaced
        # in one assignment, which an interrupt cannot divide, and never changed.
        self._ordered: tuple[IndexArray, npt.NDArray[np.uint8]] = (
            np.zeros(0, dtype=np.int64),
            np.zeros((0, DIGEST_BYTES), dtype=np.uint8),
        )
        self.slot_of: dict[str, int] = {}
        self.slots_of: dict[str, set[int]] = {}
        # Made by the first search that needs one; a copy of these entries has none yet.
        self.index: SlotIndex | None = None
        # Of the few entries that have any; and the slots of what was made from each source.
        self.attributes: dict[int, Attributes] = {}
        self.derived: dict[Source, set[int]] = {}

    @property
    def by_commitment(self) -> IndexArray:
        """Slots in ascending order of their commitments."""
        return self._ordered[0]

    @property
    def in_order(self) -> npt.NDArray[np.uint8]:
        """These commitments, (slots, 32)."""
        return self._ordered[1]

    def append(
        self,
        id: str,  # noqa: A002 — the public word
        key: Vector,
        value: Vector,
        site: int,
        *,
        subject: str | None = None,
        payload: bytes | None = None,
        salt: bytes | None = None,
    ) -> int:
        """Write one entry to the next slot."""
        slot = self.count
        salt = new_salts(1) if salt is None else salt
        self.extend([id], [key.tobytes()], value[None, :], np.array([site]), [subject], [payload], salt)
        return slot

    def extend(
        self,
        ids: list[str],
        keys: list[bytes],
        values: Matrix,
        sites: IndexArray,
        subjects: list[str | None],
        payloads: list[bytes | None],
        salts: bytes,
    ) -> None:
        """Write entries to the next slots; `salts` holds 32 bytes for each."""
        if not ids:
            return
        first, last = self.count, self.count + len(ids)
        while last > self.site.size:
            self._grow()
        parts = [salts[start : start + SALT_BYTES] for start in range(0, len(salts), SALT_BYTES)]
        blinds = blind_rows(zip(parts, ids, subjects, payloads, strict=True))
        digests = commit_rows(zip(blinds, keys, row_bytes(values), strict=True))
        self.values[first:last] = values
        self.site[first:last] = sites
        for column, rows in ((self.blinds, blinds), (self.commitments, digests)):
            column[first:last] = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
        self._order(first, last, digests)
        self.ids += ids
        self.subjects += subjects
        self.payloads += payloads
        self.salts += parts
        self.slot_of.update(zip(ids, range(first, last), strict=True))
        for slot, subject in enumerate(subjects, first):
            if subject is not None:
                self.slots_of.setdefault(subject, set()).add(slot)
        for slot, payload in enumerate(payloads, first):
            if has_attributes(payload):
                self._index(slot, decode_attributes(payload))
        self.count = last

    def wipe(self, slots: list[int]) -> None:
        """Overwrite what is held of deleted entries."""
        for slot in slots:
            name, subject = self.ids[slot], self.subjects[slot]
            if name is not None and self.slot_of.get(name) == slot:
                del self.slot_of[name]
            if subject is not None:
                members = self.slots_of.get(subject, set())
                members.discard(slot)
                if not members:
                    self.slots_of.pop(subject, None)
            self._forget_attributes([slot])
            self.ids[slot] = self.subjects[slot] = self.payloads[slot] = None
            self.salts[slot] = b""
            self.values[slot] = 0.0
            self.blinds[slot] = 0
            self.commitments[slot] = 0
            self.site[slot] = -1
        if self.index is not None:
            self.index.forget(slots)
        if slots:
            gone = np.zeros(self.site.size, dtype=bool)
            gone[slots] = True
            self._keep(~gone[self.by_commitment])

    def _order(self, first: int, last: int, digests: list[bytes]) -> None:
        """Put the slots from `first` to `last` to their places in the order of commitments."""
        if last - first == 1:

            def commitment(slot: int) -> bytes:
                return bytes(self.commitments[slot])

            place = bisect_left(self.by_commitment, digests[0], key=commitment)
            slots, rows = self._ordered
            row = self.commitments[first : first + 1]
            self._ordered = np.insert(slots, place, first), np.concatenate([rows[:place], row, rows[place:]])
            return
        slots = np.concatenate([self.by_commitment, np.arange(first, last)])
        words = self.commitments[slots].view(">u8")
        slots = slots[np.lexsort(words.T[::-1])]
        self._ordered = slots, self.commitments[slots]

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Leave the other places of the order out."""
        slots, rows = self._ordered
        self._ordered = slots[kept], rows[kept]

    def veil(self, slots: IndexArray | list[int]) -> npt.NDArray[np.uint64]:
        """Exclusive or of the blinds of some slots, as four words."""
        return np.asarray(np.bitwise_xor.reduce(self.blinds.view(np.uint64)[slots], axis=0))

    def rewind(self, count: int) -> None:
        """Forget slots that no published state counts, however far an interrupted edit got with them."""
        for name in self.ids[count:]:
            if name is not None and self.slot_of.get(name, -1) >= count:
                del self.slot_of[name]
        for subject in self.subjects[count:]:
            members = self.slots_of.get(subject or "", set())
            members -= {slot for slot in members if slot >= count}
            if not members:
                self.slots_of.pop(subject or "", None)
        self._forget_attributes([slot for slot in self.attributes if slot >= count])
        for column in (self.ids, self.subjects, self.payloads, self.salts):
            del column[count:]
        if self.index is not None:
            self.index.rewind(count)
        for array in (self.values, self.blinds, self.commitments):
            array[count:] = 0
        self.site[count:] = -1
        self._keep(self.by_commitment < count)
        self.count = count

    def compacted(self, slots: IndexArray, sites: IndexArray) -> Entries:
        """Copy with these slots alone, in order, at these sites."""
        size = slots.size
        copy = Entries(self.values.shape[1], size + size // 4)
        kept = slots.tolist()
        copy.ids = [self.ids[slot] for slot in kept]
        copy.subjects = [self.subjects[slot] for slot in kept]
        copy.payloads = [self.payloads[slot] for slot in kept]
        copy.salts = [self.salts[slot] for slot in kept]
        copy.values[:size] = self.values[slots]
        copy.blinds[:size] = self.blinds[slots]
        copy.commitments[:size] = self.commitments[slots]
        copy.site[:size] = sites
        kept_in_order = self.by_commitment[np.isin(self.by_commitment, slots)]
        places = np.searchsorted(slots, kept_in_order)
        copy._ordered = places, copy.commitments[places]
        copy.slot_of = {name: slot for slot, name in enumerate(copy.ids) if name is not None}
        for slot, subject in enumerate(copy.subjects):
            if subject is not None:
                copy.slots_of.setdefault(subject, set()).add(slot)
        if self.attributes:
            for slot, old in enumerate(kept):
                if old in self.attributes:
                    copy._index(slot, self.attributes[old])
        copy.count = size
        return copy

    def _index(self, slot: int, attributes: Attributes) -> None:
        self.attributes[slot] = attributes
        for source in attributes.derived_from:
            self.derived.setdefault(source, set()).add(slot)

    def _forget_attributes(self, slots: Iterable[int]) -> None:
        for slot in slots:
            attributes = self.attributes.pop(slot, NO_ATTRIBUTES)
            for source in attributes.derived_from:
                members = self.derived.get(source, set())
                members.discard(slot)
                if not members:
                    self.derived.pop(source, None)

    def _grow(self) -> None:
        for name in ("values", "blinds", "commitments", "site"):
            old = getattr(self, name)
            new = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
            new[: old.shape[0]] = old
            setattr(self, name, new)
