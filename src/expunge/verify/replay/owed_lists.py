"""Lists that are too long for their receipt, and follow it in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from expunge.ledger.event import Event
from expunge.ledger.receipt_format import Listed
from expunge.verify.replay.contradiction import Place
from expunge.verify.tree_root import TreeRoot

__all__ = ["OwedLists"]


@dataclass
class OwedLists:
    """The lists that a receipt, or a drop, gives by their roots alone, in the order in which they are due."""

    place: Place
    request: str
    state: str
    lists: Mapping[str, Listed]
    _due: list[str] = field(init=False)
    _names: list[str] = field(init=False, default_factory=list)
    _part: int = field(init=False, default=0)
    _parts: int = field(init=False, default=0)
    _root: TreeRoot = field(init=False, default_factory=TreeRoot)
    # The lists that are complete.
    found: dict[str, Listed] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._due = [name for name, listed in self.lists.items() if listed.root is not None]

    @property
    def owed(self) -> str | None:
        """The list that is due next."""
        return self._due[0] if self._due else None

    def take(self, place: Place, event: Event) -> bool:
        """Check that an event is the part that is due; return whether it was the last one."""
        facts, name = event.facts, self._due[0]
        wanted = self.lists[name]
        self._parts = self._parts if self._part else cast(int, facts["parts"])
        stated = (facts["receipt"], event.memory, event.subject.sha256, facts["list"], facts["part"], facts["parts"])
        due = (self.request, self.place.memory, self.state, name, self._part + 1, self._parts)
        commitments = cast("tuple[str, ...]", facts["commitments"])
        if stated != due:
            raise self._mismatch(place, f"it is part {facts['part']} of {facts['list']}; due is {due[4]} of {name}")
        if self._names and commitments[0] <= self._names[-1]:
            raise self._mismatch(place, "the commitments do not ascend from the part before")
        self._names += commitments
        self._part += 1
        for digest in commitments:
            self._root.add(bytes.fromhex(digest))
        if len(self._names) > wanted.count or (self._part == self._parts and len(self._names) != wanted.count):
            raise self._mismatch(place, f"{len(self._names)} entries of {name}, where {wanted.count} are counted")
        if self._part < self._parts:
            return False
        if self._root.digest().hex() != wanted.root:
            raise self._mismatch(place, f"the entries of {name} do not lead to its root")
        self.found[name] = Listed(tuple(self._names), wanted.count)
        self._due.pop(0)
        self._names, self._part, self._root = [], 0, TreeRoot()
        return not self._due

    def _mismatch(self, place: Place, text: str) -> Exception:
        return place.contradiction("ledger-list-mismatch", f"{text} (receipt at leaf {self.place.leaf})")
