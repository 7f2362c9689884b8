"""Which entries an erasure takes from which memory: those that are named, and what was made from them.

A plan is made from the derivations of one moment. The edit of a memory looks again, under its lock, and is not made
where something was made from its entries meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import select

from expunge.errors import InputError, StoreError, VerificationError
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import memories
from expunge.store.derivations import Derivations, DerivedEntry, Node
from expunge.store.edits.idempotency import Request, read_answers

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["Part", "Plan", "closure_digest", "closure_mark", "part_request", "parts_begun", "plan_of"]


@dataclass(frozen=True)
class Part:
    """What is to go from one memory: every entry of a ``subject``, ``ids``, and ``derived`` ones if they are there.

    Ids that are named must be there, but for those of a sweep (``exact``): it takes what is there, and nothing besides.
    """

    name: str
    uuid: str
    subject: str | None = None
    ids: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    exact: bool = False

    @property
    def is_named(self) -> bool:
        """Whether somebody asked for entries of this memory."""
        return self.subject is not None or bool(self.ids)

    def names_in(self, version: Version) -> list[str]:
        """Ids of these entries in a version of the memory; InputError where one is unknown, or none is there."""
        others = [name for name in self.derived if version.holds(name) or name in version.warranties]
        found: list[str] = []
        if self.subject is not None and (not others or version.has_subject(self.subject)):
            found = version.names_of(None, self.subject)
        elif self.exact:
            found = [name for name in self.ids if version.holds(name)]
        elif self.ids:
            found = version.names_of(self.ids, None)
        names = list(dict.fromkeys(found + others))
        if not names:
            raise InputError(f"nothing that was to go is in {self.name!r} any more")
        return names


@dataclass(frozen=True, eq=False)
class Plan:
    """The parts of an erasure, by UUID, and why each derived entry goes: its sources that go.

    ``known`` has these, those that they go with, and what would go but for a hold.
    """

    parts: dict[str, Part]
    why: dict[Node, tuple[Node, ...]]
    graph: Derivations
    known: frozenset[Node] = frozenset()

    @classmethod
    def of(cls, store: Store, graph: Derivations, named: Iterable[Part]) -> Plan:
        """What goes with the entries that are named.

        A memory with a hold on one of its entries that would go keeps them all; what was made from those named there
        stays with them.
        """
        asked = {part.uuid: part for part in named}
        roots = {uuid: _nodes(store, graph, part) for uuid, part in asked.items()}
        known: frozenset[Node] = frozenset()
        while True:
            plan = cls._with_derived(graph, asked, [node for nodes in roots.values() for node in nodes])
            known |= plan.known
            held = {uuid for uuid in roots if plan.why and _is_held(store, plan.parts[uuid])}
            if not held:
                return replace(plan, known=known)
            roots = {uuid: nodes for uuid, nodes in roots.items() if uuid not in held}

    @classmethod
    def of_sweep(cls, graph: Derivations, nodes: Collection[Node], held: Collection[Node]) -> Plan:
        """These entries and what was made from them, but for those that are held, and what only hangs on these."""
        plan = cls._with_derived(graph, {}, [node for node in nodes if node not in held], held)
        for uuid, name in nodes:
            if (uuid, name) not in held:
                part = plan.parts.get(uuid) or Part(graph.names[uuid], uuid)
                plan.parts[uuid] = replace(part, ids=(*part.ids, name))
        return replace(plan, parts={uuid: replace(part, exact=True) for uuid, part in plan.parts.items()})

    @classmethod
    def of_drop(cls, graph: Derivations, uuid: str) -> Plan:
        """What was made from entries of a memory, in others."""
        plan = cls._with_derived(graph, {}, [(uuid, name) for name in graph.in_memory(uuid)])
        return replace(plan, parts={other: part for other, part in plan.parts.items() if other != uuid})

    @classmethod
    def _with_derived(
        cls, graph: Derivations, asked: dict[str, Part], roots: Iterable[Node], without: Collection[Node] = ()
    ) -> Plan:
        roots = tuple(roots)
        why, parts = graph.made_from(roots, without), dict(asked)
        for uuid, name in why:
            part = parts.get(uuid) or Part(graph.names[uuid], uuid)
            parts[uuid] = replace(part, derived=(*part.derived, name))
        return cls(parts, why, graph, frozenset([*why, *roots]))

    @property
    def derived(self) -> list[DerivedEntry]:
        """The entries that go because others do."""
        return [self.graph.entry(node, sources) for node, sources in self.why.items()]

    def derived_in(self, uuid: str) -> tuple[DerivedEntry, ...]:
        """Those of one memory."""
        return tuple(self.graph.entry(node, sources) for node, sources in self.why.items() if node[0] == uuid)

    @property
    def digest(self) -> str:
        """The `closure_digest` of what goes, and of what would go but for a hold."""
        return closure_digest(self.known)

    def seen(self, store: Store) -> frozenset[Node]:
        """Every entry that goes or would but for a hold, those that nothing was made from included."""
        found = set(self.known)
        for part in self.parts.values():
            # It is damaged, or was dropped: the edit of the part will say so.
            with suppress(VerificationError, StoreError, InputError):
                found.update((part.uuid, name) for name in store[part.name].look(part.names_in))
        return frozenset(found)

    def order(self) -> list[Part]:
        """The parts, derived entries before their sources as far as memories can be put in order; by name otherwise."""
        needs: dict[str, set[str]] = {uuid: set() for uuid in self.parts}
        for (uuid, _), sources in self.why.items():
            for source, _ in sources:
                if source != uuid and source in needs:
                    needs[source].add(uuid)
        left = sorted(self.parts, key=lambda uuid: (self.parts[uuid].is_named, self.parts[uuid].name))
        ordered = []
        while left:
            free = next((uuid for uuid in left if needs[uuid].isdisjoint(left)), left[0])
            left.remove(free)
            ordered.append(self.parts[free])
        return ordered


def closure_digest(nodes: Iterable[Node]) -> str:
    """A digest of entries by memory and id, in hexadecimal, in whatever order they are given."""
    return hashlib.sha256(json.dumps(sorted(nodes)).encode()).hexdigest()


def _nodes(store: Store, graph: Derivations, part: Part) -> list[Node]:
    """The entries that a part names, as far as others can have been made from them."""
    names = [*part.ids, *part.derived]
    candidates = graph.in_memory(part.uuid)
    if part.subject is not None and candidates:
        # It is damaged, or was dropped: the edit of the part will say so.
        with suppress(VerificationError, StoreError, InputError):
            names += set(store[part.name].look(lambda version: version.names_of(None, part.subject))) & candidates
    return [(part.uuid, name) for name in names]


def _is_held(store: Store, part: Part) -> bool:
    with suppress(VerificationError, StoreError, InputError):
        memory = store[part.name]
        return bool(store.holds(part.name) and memory.holds_on(memory.look(part.names_in)))
    return False


def part_request(pepper: bytes, key: str | None, uuid: str) -> Request | None:
    """The request that one part of an erasure is, under the idempotency key of the whole."""
    if key is None:
        return None
    part = hashlib.sha256(f"expunge/part/v1\n{uuid}\n{key}".encode()).hexdigest()
    request = Request.of(uuid, pepper, part, verb="erase part")
    return None if request is None else replace(request, keeps_refusals=False)


def parts_begun(connection: CheckedConnection, pepper: bytes, key: str) -> list[Part]:
    """The memories that an erasure under a key has been through already."""
    rows = {row.uuid: row.name for row in connection.rows(select(memories.c.uuid, memories.c.name))}
    asked = {uuid: request for uuid in rows if (request := part_request(pepper, key, uuid)) is not None}
    begun = read_answers(connection, asked.values())
    return [Part(rows[uuid], uuid, exact=True) for uuid, request in asked.items() if request.key_hash in begun]


def closure_mark(request: Request) -> Request:
    """What a deletion leaves under its key before it edits other memories: a repeated call looks for their answers."""
    key = hashlib.sha256(b"expunge/closure/v1\n" + request.key.encode()).hexdigest()
    return replace(request, key=key, asked={"verb": "erase closure"})


def plan_of(
    store: Store, named: Iterable[Part], pepper: bytes = b"", key: str | None = None, *, orphans: bool = False
) -> Plan:
    """What goes with the entries that are named, and with orphans on request.

    The memories that a first try under a key has been through are parts, too: they answer as they did then.
    """
    parts = {part.uuid: part for part in named}
    with store.reading() as connection:
        graph = store.derivations.read(connection, orphans=orphans)
        for begun in () if key is None else parts_begun(connection, pepper, key):
            parts.setdefault(begun.uuid, begun)
    for uuid, orphan in graph.orphans:
        part = parts.get(uuid) or Part(graph.names[uuid], uuid)
        parts[uuid] = replace(part, derived=(*part.derived, orphan))
    return Plan.of(store, graph, parts.values())
