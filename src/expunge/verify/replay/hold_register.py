"""Legal holds as the ledger tells of them: placed, released, and what they forbid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from expunge.ledger.event import Event
from expunge.ledger.receipt_format import Predicate
from expunge.verify.replay.contradiction import Place
from expunge.verify.replay.memory_history import MemoryHistory

__all__ = ["HoldRegister"]


@dataclass
class _Hold:
    memory: str
    entry: str | None
    leaf: int
    # The last edit of the memory when it was placed.
    edit: int
    released: int | None = None


@dataclass
class HoldRegister:
    """Every hold that was ever placed, by number; those in force by memory, and by the entry that they are on."""

    placed: dict[int, _Hold] = field(default_factory=dict)
    in_force: dict[str, set[int]] = field(default_factory=dict)
    on_entries: dict[str, set[int]] = field(default_factory=dict)
    # Memories that were restored, and of which the holds were not looked at since.
    _restored: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many are in force."""
        return sum(len(numbers) for numbers in self.in_force.values())

    @property
    def memories(self) -> list[str]:
        """The memories with a hold in force."""
        return [memory for memory, numbers in self.in_force.items() if numbers]

    def place(self, place: Place, event: Event, history: MemoryHistory) -> None:
        """Put a hold in force."""
        memory, number, entry = cast(str, event.memory), cast(int, event.facts["hold"]), event.facts["entry"]
        if number in self.placed:
            raise place.contradiction(
                "ledger-hold-repeated", f"hold {number} was placed before, at leaf {self.placed[number].leaf}"
            )
        if isinstance(entry, str) and entry not in history.table.now:
            raise place.contradiction("ledger-hold-entry-unknown", f"hold {number} is on {entry}, which is not there")
        held = entry if isinstance(entry, str) else None
        hold = self.placed[number] = _Hold(memory, held, place.leaf, history.table.edit)
        self.in_force.setdefault(memory, set()).add(number)
        if hold.entry is not None:
            self.on_entries.setdefault(hold.entry, set()).add(number)

    def release(self, place: Place, event: Event, history: MemoryHistory) -> None:
        """End a hold."""
        number = cast(int, event.facts["hold"])
        hold = self.placed.get(number)
        if hold is None:
            raise place.contradiction("ledger-hold-unknown", f"hold {number} is released, and was never placed")
        if hold.memory != event.memory:
            raise place.contradiction(
                "ledger-hold-memory", f"hold {number} is released, and is one of memory {hold.memory}"
            )
        if hold.released is not None:
            raise place.contradiction(
                "ledger-hold-released", f"hold {number} was released before, at leaf {hold.released}"
            )
        if event.facts["cause"] == "lost_in_restore" and not history.may_be_of_backup_from(hold.edit):
            raise place.contradiction(
                "ledger-hold-not-lost",
                f"hold {number} is said to be lost in a restore, and since edit {hold.edit}, when it was placed, "
                f"the memory was edited and not restored",
            )
        self._end(number, place.leaf)

    def any_in_force(self, numbers: Iterable[int]) -> bool:
        """Whether one of these holds, which were placed, is not released."""
        return any(self.placed[number].released is None for number in numbers)

    def drop(self, place: Place, event: Event) -> None:
        """End the holds of a memory that goes; one that names its entries can have none."""
        numbers = self.in_force.get(cast(str, event.memory), set())
        if numbers and event.facts["entries"] is not None:
            raise place.contradiction("ledger-hold-broken", f"dropped, although hold {min(numbers)} is in force")
        for number in sorted(numbers):
            self._end(number, place.leaf)

    def check_receipt(self, place: Place, receipt: Predicate, history: MemoryHistory) -> None:
        """Raise if a receipt erases what a hold protects, or comes while a hold protects what is not there.

        What a restoration brought back is erased again whatever is held; the hold has to be released then.
        """
        if receipt.action == "restoration":
            self._restored.add(receipt.memory)
        elif not history.back and receipt.action != "expiry":
            self.check_entries(place, history)
        forgets = receipt.pruning is not None and receipt.pruning.mode == "forget"
        if self.on_entries and (receipt.action == "deletion" or forgets):
            for name in receipt.applied.commitments:
                if name in self.on_entries and name not in history.back:
                    raise place.contradiction(
                        "ledger-hold-broken", f"takes {name}, although hold {min(self.on_entries[name])} is on it"
                    )

    def check_entries(self, place: Place, history: MemoryHistory) -> None:
        """Raise if the entry of a hold in force is not there; only a restoration can have taken it."""
        memory = str(place.memory)
        if memory not in self._restored:
            return
        self._restored.discard(memory)
        for number in sorted(self.in_force.get(memory, ())):
            entry = self.placed[number].entry
            if entry is not None and entry not in history.table.now:
                raise place.contradiction(
                    "ledger-hold-left", f"hold {number} is in force, and {entry} went in a restoration"
                )

    def _end(self, number: int, leaf: int) -> None:
        hold = self.placed[number]
        hold.released = leaf
        self.in_force[hold.memory].discard(number)
        if hold.entry is not None:
            numbers = self.on_entries[hold.entry]
            numbers.discard(number)
            if not numbers:
                del self.on_entries[hold.entry]
