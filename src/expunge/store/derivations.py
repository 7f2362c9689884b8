"""What was made from what, over all memories of a store, and when entries end.

The graph is not stored. It is read when an erasure needs it: from the versions that this process has loaded, and from
the rows of the other memories, whose states say whether any entry has sources or an end at all. Nothing of it is kept
but these two answers, by memory and edit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import select

from expunge.errors import VerificationError
from expunge.memory.attributes import Attributes, decode_attributes, has_attributes
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, memories, secrets
from expunge.store.encryption import decrypt_entries
from expunge.store.partial_reads import read_attribute_kinds
from expunge.store.rows import last_edit, read_records

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["DerivationReader", "Derivations", "DerivedEntry", "Node"]

# UUID of a memory, and the id of an entry.
Node: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class DerivedEntry:
    """An entry that goes because of its ``sources``, which go: memory and id of each, by the memory's name."""

    memory: str
    id: str
    sources: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        made_from = ", ".join(name if memory == self.memory else f"{name} of {memory}" for memory, name in self.sources)
        return f"{self.id} (made from {made_from})"

    def to_json(self) -> dict[str, Any]:
        """Memory, id and sources."""
        return {"memory": self.memory, "id": self.id, "sources": [list(source) for source in self.sources]}


@dataclass(eq=False)
class Derivations:
    """Sources and ends of entries at one time, by memory and id; ``names`` has the memories' names.

    ``not_read`` names the memories that are damaged, so that nobody can tell what their entries were made from.
    """

    names: dict[str, str]
    sources: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    ends: dict[Node, datetime] = field(default_factory=dict)
    orphans: list[Node] = field(default_factory=list)
    not_read: tuple[str, ...] = ()
    _made: dict[Node, list[Node]] = field(default_factory=lambda: defaultdict(list))

    def add(self, uuid: str, name: str, stated: Attributes) -> None:
        """Take up what one entry states."""
        node = (uuid, name)
        if stated.expires is not None:
            self.ends[node] = stated.expires
        if stated.derived_from:
            self.sources[node] = tuple((uuid, one) if isinstance(one, str) else one for one in stated.derived_from)
            for source in self.sources[node]:
                self._made[source].append(node)

    def made_from(self, nodes: Iterable[Node], without: Iterable[Node] = ()) -> dict[Node, tuple[Node, ...]]:
        """What was made from these entries, directly or not, each with its sources that go; not through ``without``."""
        roots = list(dict.fromkeys(nodes))
        found, waiting, left_out = set(roots), [*roots], set(without)
        for source in waiting:
            for node in self._made.get(source, ()):
                if node not in found and node not in left_out:
                    found.add(node)
                    waiting.append(node)
        return {node: tuple(one for one in self.sources[node] if one in found) for node in waiting[len(roots) :]}

    def in_memory(self, uuid: str) -> set[str]:
        """Ids of entries of a memory that are made from others, or that others are made from."""
        return {name for memory, name in (*self.sources, *self._made) if memory == uuid}

    def directly(self, nodes: Iterable[Node]) -> set[Node]:
        """What was made from these entries, and not by way of others."""
        return {made for node in nodes for made in self._made.get(node, ())}

    def due(self, now: datetime) -> list[Node]:
        """Entries whose end has come."""
        return [node for node, end in self.ends.items() if end <= now]

    def entry(self, node: Node, sources: Iterable[Node]) -> DerivedEntry:
        """An entry that goes with its sources, by names."""
        named = tuple((self.names.get(uuid, uuid), name) for uuid, name in sources)
        return DerivedEntry(self.names[node[0]], node[1], named)


class DerivationReader:
    """Reads `Derivations` of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # By UUID: edit, and which attributes any entry has then.
        self._kinds: dict[str, tuple[int, frozenset[str]]] = {}

    def read(
        self, connection: CheckedConnection, *, ends: bool = False, orphans: bool = False, without: str | None = None
    ) -> Derivations:
        """Sources of all entries, as a connection sees them; ends, and entries whose source is gone, on request.

        The memory ``without``, by UUID, is left out.
        """
        edit = last_edit(memories.c.uuid).label("edit")
        rows = connection.rows(select(memories.c.number, memories.c.uuid, memories.c.name, edit))
        self._kinds = {row.uuid: self._kinds[row.uuid] for row in rows if row.uuid in self._kinds}
        found = Derivations({row.uuid: row.name for row in rows})
        wanted = {"derived_from", "expires"} if ends else {"derived_from"}
        damaged = []
        for row in rows:
            if row.uuid == without:
                continue
            try:
                for name, stated in self._attributes(connection, row, wanted):
                    found.add(row.uuid, name, stated)
            except VerificationError:
                damaged.append(row.name)
        found.not_read = tuple(sorted(damaged))
        if orphans:
            found.orphans = self._orphans(connection, rows, found)
        return found

    def _attributes(
        self, connection: CheckedConnection, row: Any, wanted: set[str]
    ) -> Iterable[tuple[str, Attributes]]:
        loaded = self._store.loaded(row.uuid, row.edit)
        if loaded is not None:
            return loaded.look(_attributes_in)
        edit, kinds = self._kinds.get(row.uuid, (None, frozenset()))
        if edit != row.edit:
            kinds = read_attribute_kinds(connection, row.number)
            self._kinds[row.uuid] = row.edit, kinds
        if wanted.isdisjoint(kinds):
            return ()
        return [
            (one.id, decode_attributes(one.payload))
            for one in _contents(connection, row.number)
            if has_attributes(one.payload)
        ]

    def _orphans(self, connection: CheckedConnection, rows: list[Any], found: Derivations) -> list[Node]:
        """Entries with a source that is nowhere. Nothing is said of sources in a memory that cannot be read."""
        asked: dict[str, set[str]] = defaultdict(set)
        for sources in found.sources.values():
            for uuid, name in sources:
                asked[uuid].add(name)
        gone = {(uuid, name) for uuid in asked.keys() - found.names.keys() for name in asked[uuid]}
        for row in rows:
            if asked[row.uuid] and row.name not in found.not_read:
                try:
                    there = self._there(connection, row, asked[row.uuid])
                except VerificationError:
                    continue
                gone |= {(row.uuid, name) for name in asked[row.uuid] - there}
        return [node for node, sources in found.sources.items() if not gone.isdisjoint(sources)]

    def _there(self, connection: CheckedConnection, row: Any, names: set[str]) -> set[str]:
        """Those of these ids that are in a memory: live, archived, or forgotten."""
        loaded = self._store.loaded(row.uuid, row.edit)
        if loaded is not None:
            return loaded.look(
                lambda version: {name for name in names if version.holds(name) or name in version.warranties}
            )
        there = {one.id for one in _contents(connection, row.number)} | set(read_records(connection, row.number))
        return there & names


def _attributes_in(version: Version) -> list[tuple[str, Attributes]]:
    data = version.entries
    stated = [(data.ids[slot], one) for slot, one in [*data.attributes.items()] if slot < version.count]
    return [(name, one) for name, one in stated if name is not None and version.holds(name)]


def _contents(connection: CheckedConnection, number: int) -> Iterator[Any]:
    """Content of every live and archived entry of a memory."""
    wanted = (
        select(entries.c.content, secrets.c.secret)
        .join(secrets, secrets.c.number == entries.c.number)
        .where(entries.c.memory == number)
    )
    for rows in connection.batches(wanted):
        yield from decrypt_entries([(row.secret, row.content) for row in rows])
