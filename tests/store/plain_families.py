"""Entries with sources and ends in several memories, beside a plain reference of which there must be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from expunge.store import Store

__all__ = ["START", "Clock", "Families", "Node"]

Node = tuple[str, str]
START = datetime(2031, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that a test turns on."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **span: float) -> None:
        self.now += timedelta(**span)


@dataclass
class Families:
    """A store and what is to be in it: each entry's sources and end, and nothing that an erasure has reached."""

    store: Store
    sources: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    ends: dict[Node, datetime] = field(default_factory=dict)
    subjects: dict[Node, str] = field(default_factory=dict)

    def create(self, *names: str, size: int = 3) -> None:
        """Memories of some entries that nothing is made from."""
        for name in names:
            ids = [f"{name}-{row}" for row in range(size)]
            keys = np.array([self.key(one) for one in ids])
            self.store.create(name, keys, keys, sigma=1.3, nu=0.9, ids=ids)
            self.sources |= {(name, one): () for one in ids}

    def key(self, name: str) -> list[float]:
        """The key of an entry, by its id."""
        key: list[float] = np.random.default_rng(list(name.encode())).standard_normal(2).tolist()
        return key

    def admit(
        self, memory: str, name: str, *sources: Node, end: datetime | None = None, subject: str | None = None
    ) -> None:
        """An entry that is made from others."""
        given = [one if other == memory else (other, one) for other, one in sources]
        self.store[memory].admit(self.key(name), [1.0, 0.0], id=name, subject=subject, expires=end, derived_from=given)
        self.sources[memory, name] = sources
        if end is not None:
            self.ends[memory, name] = end
        if subject is not None:
            self.subjects[memory, name] = subject

    def closure(self, nodes: Iterable[Node]) -> set[Node]:
        """These entries and what was made from them, found by trying until nothing is new."""
        found = set(nodes)
        while new := {node for node, made_from in self.sources.items() if found.intersection(made_from)} - found:
            found |= new
        return found

    def forget(self, nodes: Iterable[Node]) -> None:
        """These are to be gone."""
        for node in nodes:
            for kept in (self.sources, self.ends, self.subjects):
                kept.pop(node, None)

    def erase(self, memory: str, *names: str) -> None:
        """Delete entries with their closure, there and here."""
        self.store[memory].delete(names)
        self.forget(self.closure((memory, name) for name in names))

    def agree(self, store: Store | None = None) -> bool:
        """Whether the store holds these entries and no others."""
        return self.there(store) == set(self.sources)

    def there(self, store: Store | None = None) -> set[Node]:
        """What the store holds, live or archived."""
        store = store or self.store
        return {(name, one) for name in store for one in (*store[name].ids, *store[name].version.warranties.archive)}
