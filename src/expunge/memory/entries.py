"""The entries behind a memory: ids, subjects, values, payloads and salts, in append-only slots.

A slot is written before the state that counts it is published, and wiped after the state that drops it is:
so an interrupted edit leaves at worst a slot that no state refers to, and `rewind` forgets it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from expunge.errors import InputError
from expunge.ledger.commitment import DIGEST_BYTES, SALT_BYTES, blind_rows, commit_rows, new_salts
from expunge.problem.problem import row_bytes
from expunge.types import IndexArray, Matrix, Vector

__all__ = [
    "Entries",
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


def encode_payload(payload: Any) -> bytes | None:
    """Bytes as they are, anything else as JSON at most 64 levels deep; one leading byte tells which."""
    if payload is None:
        return None
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
    """What `encode_payload` was given."""
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


def encode_payloads(payloads: Any, size: int) -> list[bytes | None]:
    """One payload or None for each key."""
    if payloads is None:
        return [None] * size
    return [encode_payload(payload) for payload in _sized(payloads, size, "payloads")]


def _sized(items: Any, size: int, name: str) -> list[Any]:
    if isinstance(items, str):
        raise InputError(f"{name} must be a list with one item per key, not a string")
    found = listed(items, name)
    if len(found) != size:
        raise InputError(f"{name} must have one item per key: {size}, not {len(found)}")
    return found


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
        # Slots in ascending order of their commitments, in which digests list entries. Replaced, never changed.
        self.by_commitment: IndexArray = np.zeros(0, dtype=np.int64)
        self.slot_of: dict[str, int] = {}
        self.slots_of: dict[str, set[int]] = {}

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
            self.ids[slot] = self.subjects[slot] = self.payloads[slot] = None
            self.salts[slot] = b""
            self.values[slot] = 0.0
            self.blinds[slot] = 0
            self.commitments[slot] = 0
            self.site[slot] = -1
        if len(slots) > 8:
            self.by_commitment = self.by_commitment[~np.isin(self.by_commitment, slots)]
        elif slots:
            self.by_commitment = _without(self.by_commitment, np.array(slots))

    def _order(self, first: int, last: int, digests: list[bytes]) -> None:
        """Put the slots from `first` to `last` to their places in the order of commitments."""
        if last - first == 1:

            def commitment(slot: int) -> bytes:
                return bytes(self.commitments[slot])

            place = bisect_left(self.by_commitment, digests[0], key=commitment)
            self.by_commitment = np.insert(self.by_commitment, place, first)
            return
        slots = np.concatenate([self.by_commitment, np.arange(first, last)])
        words = self.commitments[slots].view(">u8")
        self.by_commitment = slots[np.lexsort(words.T[::-1])]

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
        for column in (self.ids, self.subjects, self.payloads, self.salts):
            del column[count:]
        for array in (self.values, self.blinds, self.commitments):
            array[count:] = 0
        self.site[count:] = -1
        self.by_commitment = self.by_commitment[self.by_commitment < count]
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
        copy.by_commitment = np.searchsorted(slots, kept_in_order)
        copy.slot_of = {name: slot for slot, name in enumerate(copy.ids) if name is not None}
        for slot, subject in enumerate(copy.subjects):
            if subject is not None:
                copy.slots_of.setdefault(subject, set()).add(slot)
        copy.count = size
        return copy

    def _grow(self) -> None:
        for name in ("values", "blinds", "commitments", "site"):
            old = getattr(self, name)
            new = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
            new[: old.shape[0]] = old
            setattr(self, name, new)


@njit(cache=True, nogil=True)
def _without(order: IndexArray, gone: IndexArray) -> IndexArray:
    """The slots of an order but for a few."""
    kept = np.empty(order.size, dtype=np.int64)
    size = 0
    for slot in order:
        stays = True
        for other in gone:
            if slot == other:
                stays = False
        if stays:
            kept[size] = slot
            size += 1
    return kept[:size].copy()
