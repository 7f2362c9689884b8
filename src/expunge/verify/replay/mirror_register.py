"""Mirrors: systems that have copies, and what was found there of what was erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from expunge.ledger.encoding import Json
from expunge.ledger.event import FOUND, Event
from expunge.verify.replay.contradiction import Place

__all__ = ["MirrorRegister"]


@dataclass
class _Mirror:
    """A mirror: the memory that it copies, or None for all, and since which leaf; what it still owes, by leaf."""

    memory: str | None
    leaf: int
    owed: dict[int, int] = field(default_factory=dict)
    found: dict[int, int] = field(default_factory=dict)
    removed: int | None = None


@dataclass
class MirrorRegister:
    """Mirrors by the commitments to their addresses, and counts of entries by what was found of them."""

    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FOUND, 0))
    given_up: int = 0
    _mirrors: dict[str, _Mirror] = field(default_factory=dict)

    @property
    def attached(self) -> int:
        """How many mirrors there are."""
        return sum(mirror.removed is None for mirror in self._mirrors.values())

    @property
    def pending(self) -> int:
        """How many erasures mirrors have not followed, each counted once for each mirror."""
        return sum(map(len, self.owed.values()))

    @property
    def owed(self) -> dict[str, tuple[int, ...]]:
        """By the commitment of each mirror that there is: leaves of the erasures that it has not followed."""
        return {name: tuple(mirror.owed) for name, mirror in self._mirrors.items() if mirror.removed is None}

    def add(self, place: Place, event: Event) -> None:
        """A mirror is added; the salt of its commitment is random."""
        known = self._mirrors.get(event.subject.sha256)
        if known is not None:
            raise place.contradiction("ledger-mirror-repeated", f"the mirror was added at leaf {known.leaf} before")
        self._mirrors[event.subject.sha256] = _Mirror(cast("str | None", event.facts["of"]), place.leaf)

    def erase(self, leaf: int, memory: str, entries: int) -> None:
        """Entries of a memory went at a leaf: every mirror of them is to follow."""
        for mirror in self._mirrors.values():
            if entries and mirror.removed is None and mirror.memory in (None, memory):
                mirror.owed[leaf] = entries

    def check(self, place: Place, event: Event) -> None:
        """What was found of erased entries is about erasures that the mirror had to follow, about each once."""
        mirror = self._known(place, event)
        for part in cast("tuple[Mapping[str, Json], ...]", event.facts["findings"]):
            leaf, entries = cast(int, part["leaf"]), cast(int, part["entries"])
            if leaf in mirror.found:
                raise place.contradiction(
                    "ledger-finding-repeated", f"leaf {mirror.found[leaf]} said what was found of leaf {leaf}"
                )
            if leaf not in mirror.owed:
                raise place.contradiction(
                    "ledger-finding-unfounded",
                    f"it says what was found of leaf {leaf}, which erased nothing that the mirror had to follow",
                )
            if mirror.owed[leaf] != entries:
                raise place.contradiction(
                    "ledger-finding-entries",
                    f"it counts {entries} entries of leaf {leaf}, which erased {mirror.owed[leaf]}",
                )
            del mirror.owed[leaf]
            mirror.found[leaf] = place.leaf
            for word in FOUND:
                self.found[word] += cast(int, part[word])

    def remove(self, place: Place, event: Event) -> None:
        """A mirror is removed, and the erasures that it did not follow are counted."""
        mirror = self._known(place, event)
        if event.facts["pending"] != len(mirror.owed):
            raise place.contradiction(
                "ledger-mirror-pending",
                f"it gives up {event.facts['pending']} erasures; the mirror has not followed {len(mirror.owed)}",
            )
        mirror.removed = place.leaf
        self.given_up += len(mirror.owed)

    def _known(self, place: Place, event: Event) -> _Mirror:
        mirror = self._mirrors.get(event.subject.sha256)
        if mirror is None:
            raise place.contradiction("ledger-mirror-unknown", f"{event.kind}, and the mirror was never added")
        if mirror.removed is not None:
            raise place.contradiction("ledger-mirror-removed", f"the mirror was removed at leaf {mirror.removed}")
        return mirror
