"""What an admission states of its entries besides keys and values: payloads with their attributes.

Sources in other memories are named by name, and kept by UUID. Whether they are there is looked up under the locks of
their memories, so that nobody erases a source while something is made from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from expunge.errors import InputError, StoreError
from expunge.memory.attributes import Attributes, check_expires
from expunge.memory.entries import EncodedPayload, check_attributes, encode_payloads
from expunge.store.backends.database import CheckedConnection

if TYPE_CHECKING:
    from expunge.store.store import Store
    from expunge.store.stored_memory import StoredMemory

__all__ = ["StatedEntries"]

# Stands for a memory that is not there: no memory has it.
_NO_MEMORY = ""


@dataclass(frozen=True)
class StatedEntries:
    """Encoded payloads, and what has to be true when they are admitted: their ends are to come, ``outside`` is there.

    ``outside`` has the sources in other memories, by UUID, and what they were named as.
    """

    payloads: list[EncodedPayload]
    attributes: tuple[Attributes, ...]
    outside: dict[tuple[str, str], str]

    @classmethod
    def of(cls, store: Store, memory: str, payloads: Any, expires: Any, derived_from: Any, size: int) -> StatedEntries:
        """Check and encode what was given for entries of the memory with a name."""
        names: dict[str, str] = {}

        def uuid_of(name: str) -> str | None:
            if name == memory:
                return None
            uuid = store[name].uuid if name in store else _NO_MEMORY
            names[uuid] = name
            return uuid

        stated = check_attributes(expires, derived_from, size, uuid_of=uuid_of)
        encoded = [EncodedPayload(payload or b"") for payload in encode_payloads(payloads, size, stated)]
        sources = [source for one in stated or () for source in one.derived_from]
        outside = {source: names[source[0]] for source in sources if isinstance(source, tuple)}
        return cls(encoded, tuple(stated or ()), outside)

    def require_to_come(self, now: datetime) -> None:
        """Raise InputError where an end is past."""
        for stated in self.attributes:
            check_expires(stated.expires, now)

    def memories(self, store: Store) -> list[StoredMemory]:
        """The other memories that sources are in, to be locked."""
        named = sorted({(uuid, name) for (uuid, _), name in self.outside.items() if name in store})
        return [store[name] for uuid, name in named if store[name].uuid == uuid]

    def require_outside(self, memories: Sequence[StoredMemory], connection: CheckedConnection | None = None) -> None:
        """Raise InputError where a source in one of these other memories, which a connection has locked, is not there.

        Without a connection each memory is taken as it is now.
        """
        there = {memory.uuid: memory for memory in memories}
        for (uuid, name), memory in self.outside.items():
            try:
                found = uuid in there and there[uuid].holds_entry(name, connection)
            except StoreError:
                # It was dropped.
                found = False
            if not found:
                raise InputError(
                    f"an entry is made from {name!r} of {memory!r}, which is not there: admit the source first, or "
                    "leave it out",
                    code="source-unknown",
                )
