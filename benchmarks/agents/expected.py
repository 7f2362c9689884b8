"""A model of a store: who should have what, after every edit that was asked for.

It knows entries by memory and id, with their sources, ends and holds, and the rules by which they go
(docs/guides/retention.md). It is written from these rules, and shares no code with the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Entry", "Expected", "Hold", "Node", "Outcome"]

# Memory and id.
Node = tuple[str, str]

# Seconds around the end of an entry in which nobody can say whether it has ended: times are in whole seconds.
DOUBT = 1.3


@dataclass(frozen=True)
class Entry:
    """One entry: whose it is, what it says, which marks are in it, what it was made from, and when it ends."""

    node: Node
    subject: str | None
    text: str
    marks: frozenset[str]
    sources: tuple[Node, ...] = ()
    ends: float | None = None


@dataclass(frozen=True)
class Hold:
    """A hold in one memory, on an entry or on everything of a subject."""

    memory: str
    name: str | None = None
    subject: str | None = None
    marks: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outcome:
    """What an erasure takes, and the memories that keep what they were to lose."""

    gone: frozenset[Node]
    kept: frozenset[str]


@dataclass
class Expected:
    """The entries there are. ``erased`` has every mark that was in an entry and is to be nowhere."""

    entries: dict[Node, Entry] = field(default_factory=dict)
    holds: dict[int, Hold] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        """Enter an entry that was admitted; a mark in it is no longer one that should be nowhere."""
        self.entries[entry.node] = entry
        self.erased -= entry.marks

    def forbid(self, marks: Collection[str]) -> None:
        """Marks of what was told and not kept: they should be nowhere either."""
        self.erased.update(marks)
        self.erased -= self.living

    def of(self, subject: str) -> list[Entry]:
        """Everything of a subject."""
        return [entry for entry in self.entries.values() if entry.subject == subject]

    @property
    def living(self) -> set[str]:
        """Every mark of an entry that is there, or of a hold in force."""
        return {mark for part in (self.entries, self.holds) for one in part.values() for mark in one.marks}

    def is_held(self, node: Node) -> bool:
        """Whether a hold is on an entry."""
        entry = self.entries[node]
        return any(
            hold.memory == node[0] and (hold.name == node[1] or (hold.subject or "") == entry.subject)
            for hold in self.holds.values()
        )

    def made_from(self, roots: Iterable[Node], without: Collection[Node] = ()) -> set[Node]:
        """What was made from these entries, directly or not."""
        found, waiting = set(roots), list(roots)
        while waiting:
            source = waiting.pop()
            for node, entry in self.entries.items():
                if source in entry.sources and node not in found and node not in without:
                    found.add(node)
                    waiting.append(node)
        return found - set(roots)

    def outcome(self, named: Mapping[str, set[str]]) -> Outcome:
        """What an erasure of these ids, by memory, takes."""
        roots, parts, kept = dict(named), dict[str, set[str]](), set[str]()
        while True:
            derived = self.made_from([(memory, name) for memory, names in roots.items() for name in names])
            parts = {memory: set(names) for memory, names in named.items()}
            for memory, name in derived:
                parts.setdefault(memory, set()).add(name)
            held = {memory for memory in roots if self._any_held(memory, parts[memory])}
            if not held:
                break
            kept |= held
            roots = {memory: names for memory, names in roots.items() if memory not in held}
        kept |= {memory for memory, names in parts.items() if self._any_held(memory, names)}
        gone = {(memory, name) for memory, names in parts.items() if memory not in kept for name in names}
        return Outcome(frozenset(gone), frozenset(kept))

    def outcome_of_subject(self, subject: str) -> Outcome:
        """What an erasure of a subject takes."""
        named: dict[str, set[str]] = {}
        for entry in self.of(subject):
            named.setdefault(entry.node[0], set()).add(entry.node[1])
        return self.outcome(named)

    def remove(self, nodes: Iterable[Node]) -> None:
        """Take entries out that were erased."""
        for node in nodes:
            entry = self.entries.pop(node)
            self.erased |= entry.marks
        self.erased -= self.living

    def release(self, number: int) -> None:
        """End a hold: its terms go."""
        self.erased |= self.holds.pop(number).marks
        self.erased -= self.living

    def due(self, now: float) -> set[Node]:
        """What a sweep takes: what has ended or has lost a source, and what was made from it; not what is held."""
        roots = {
            node
            for node, entry in self.entries.items()
            if (entry.ends is not None and entry.ends <= now) or any(one not in self.entries for one in entry.sources)
        }
        held = {node for node in roots | self.made_from(roots) if self.is_held(node)}
        return (roots - held) | self.made_from(roots - held, held)

    def doubtful(self, now: float) -> bool:
        """Whether some entry ends about now."""
        return any(entry.ends is not None and abs(entry.ends - now) < DOUBT for entry in self.entries.values())

    def _any_held(self, memory: str, names: Iterable[str]) -> bool:
        return any(self.is_held((memory, name)) for name in names)
