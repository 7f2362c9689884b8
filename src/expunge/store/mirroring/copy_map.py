"""What of an entry a mirror gets: which vector, which text, which metadata, and under which tag.

An entry's payload is JSON or bytes. By default the text is a payload that is a text, its field ``text``, or the whole
of it as JSON; metadata are the texts, numbers and truth values in it, and in its field ``metadata``. Bytes are not
copied.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from expunge.errors import InputError
from expunge.memory.entries import decode_payload
from expunge.memory.version import Version
from expunge.mirrors import TAG, Copy
from expunge.mirrors.mirror import Scalar
from expunge.store.rows import kept_slots

__all__ = ["CopyMap", "EntryCopy", "entry_copies"]


@dataclass(frozen=True)
class CopyMap:
    """How entries become copies.

    Attributes
    ----------
    vector : ``key`` or ``value`` of the entry; ``key`` by default.
    text : field of the payload that is the text; by default as the module says.
    metadata : fields of the payload, or of its field ``metadata``, that are copied; by default all.
    subject : name of the metadata field that has the entry's subject, ``subject`` by default; empty for none.

    """

    vector: Literal["key", "value"] = "key"
    text: str | None = None
    metadata: tuple[str, ...] | None = None
    subject: str = "subject"

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> CopyMap:
        """A map from its parts by name; InputError where one is unknown."""
        stated = dict(given or {})
        names = [one.name for one in fields(cls)]
        metadata = stated.get("metadata")
        if isinstance(metadata, list):
            stated["metadata"] = tuple(metadata)
        fits = (
            stated.keys() <= set(names)
            and stated.get("vector", "key") in ("key", "value")
            and isinstance(stated.get("text"), str | None)
            and isinstance(stated.get("subject", ""), str)
            and isinstance(metadata, tuple | list | None)
            and all(isinstance(name, str) for name in metadata or ())
        )
        if not fits:
            raise InputError(
                "a map of a mirror has vector (key or value), text (a field of the payload), metadata (a list of "
                f"fields) and subject (the field's name there), not {dict(given or {})!r:.200}",
                code="mirror-map",
            )
        return cls(**stated)

    def to_json(self) -> dict[str, Any]:
        """The parts that are not the default."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return found | ({"metadata": list(self.metadata)} if self.metadata is not None else {})

    def text_of(self, payload: Any) -> str | None:
        """The text of a decoded payload."""
        if isinstance(payload, bytes) or payload is None:
            return None
        if isinstance(payload, Mapping):
            found = payload.get(self.text or "text")
            if isinstance(found, str):
                return found
        return payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)

    def metadata_of(self, payload: Any, subject: str | None) -> dict[str, Scalar]:
        """The metadata of a decoded payload and its entry's subject."""
        found: dict[str, Scalar] = {}
        inner = payload.get("metadata") if isinstance(payload, Mapping) else None
        for part in (payload, inner):
            for name, value in part.items() if isinstance(part, Mapping) else ():
                if isinstance(value, str | int | float) and name not in (TAG, self.text or "text"):
                    found[str(name)] = value
        if self.metadata is not None:
            found = {name: value for name, value in found.items() if name in self.metadata}
        if subject is not None and self.subject:
            found[self.subject] = subject
        return found


@dataclass(frozen=True)
class EntryCopy:
    """An entry's id, and what a mirror is to have of it, under that id."""

    id: str
    copy: Copy


def entry_copies(version: Version, wanted: Collection[bytes] | None, copy_map: CopyMap) -> Iterator[EntryCopy]:
    """The entries of a version, live and archived, or those with the ``wanted`` commitments."""
    data, keys = version.entries, version.state.gram.keys
    archived = {entry.slot: entry.key for entry in version.warranties.archive.values()}
    for slot in kept_slots(version).tolist():
        commitment = bytes(data.commitments[slot])
        if wanted is not None and commitment not in wanted:
            continue
        payload, name = decode_payload(data.payloads[slot]), data.ids[slot] or ""
        key = archived[slot] if slot in archived else keys[data.site[slot]]
        vector = key if copy_map.vector == "key" else data.values[slot]
        yield EntryCopy(
            name,
            Copy(
                id=name,
                vector=vector.tolist(),
                text=copy_map.text_of(payload),
                metadata=copy_map.metadata_of(payload, data.subjects[slot]),
                tag=commitment.hex(),
            ),
        )
