"""What a caller may see of the notes of one version: by subject, by id, page by page.

A note of another subject is not there for the caller: it is in no list, no count and no state, and it is missed like an
id that no note has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from expunge.integrations.filters import matches
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.types import IndexArray

__all__ = [
    "note_metadata",
    "note_slot",
    "note_text",
    "page_slots",
    "state_of",
    "visible_ids",
    "visible_slots",
]


def note_text(payload: Any) -> str | None:
    """The text of a decoded payload, or None."""
    text = payload.get("text") if isinstance(payload, Mapping) else payload
    return text if isinstance(text, str) else None


def note_metadata(payload: Any) -> Mapping[str, Any]:
    """The metadata of a decoded payload; empty where it has none."""
    found = payload.get("metadata") if isinstance(payload, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def visible_slots(
    version: Version,
    subject: str | None = None,
    where: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> IndexArray:
    """Slots of the notes that a caller may see, live ones first, then the archive, each in order of admission.

    With `subject` these are that subject's alone; with `where` those whose metadata have what the filter asks for; with
    `now` those that have not ended by then.
    """
    entries = version.entries
    kept = [entry.slot for entry in version.warranties.archive.values()]
    slots = np.concatenate([version.slots, np.array(kept, dtype=np.int64)])
    if subject is not None:
        mine = np.array([*entries.slots_of.get(subject, ())], dtype=np.int64)
        slots = slots[np.isin(slots, mine)]
    if now is not None and (due := {*version.due(now)}):
        slots = slots[[entries.ids[slot] not in due for slot in slots.tolist()]]
    if where is not None:
        payloads = entries.payloads
        fits = [matches(note_metadata(decode_payload(payloads[slot])), where) for slot in slots.tolist()]
        slots = slots[np.array(fits, dtype=bool)]
    return slots


def visible_ids(version: Version, names: Iterable[str], subject: str | None = None) -> list[str]:
    """Those of the ids that have a note here, each once; notes that were pruned for good count, too."""
    pruned = version.warranties
    found = []
    for name in dict.fromkeys(names):
        slot = version.slot(name)
        if slot is None and name not in pruned:
            continue
        owner = pruned.subject(name) if slot is None else version.entries.subjects[slot]
        if subject is None or owner == subject:
            found.append(name)
    return found


def note_slot(version: Version, name: str, subject: str | None = None) -> int | None:
    """Slot of the note with an id, live or archived; None where there is none to see."""
    slot = version.slot(name)
    if slot is None and name in version.warranties.archive:
        slot = version.warranties.archive[name].slot
    if slot is None or (subject is not None and version.entries.subjects[slot] != subject):
        return None
    return slot


def page_slots(
    version: Version,
    count: int,
    *,
    after: str = "",
    subject: str | None = None,
    where: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> list[int]:
    """Slots of at most `count` notes, in order of their ids, from the first id behind `after` on."""
    ids = version.entries.ids
    named = [(ids[slot] or "", slot) for slot in visible_slots(version, subject, where, now).tolist()]
    return [slot for _, slot in sorted(pair for pair in named if pair[0] > after)[:count]]


def state_of(version: Version, subject: str | None = None) -> str:
    """A digest of the notes that a caller may see, in hexadecimal: it changes with every edit of one of them.

    It is made of the notes' commitments. Notes of other subjects have no part in it.
    """
    seen = np.zeros(version.count, dtype=bool)
    seen[visible_slots(version, subject)] = True
    order = version.entries.by_commitment
    order = order[order < version.count]
    return hashlib.sha256(version.entries.commitments[order[seen[order]]].tobytes()).hexdigest()
