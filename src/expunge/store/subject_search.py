"""What a search for a data subject finds: where they have entries, where nobody could look, and who looks like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from expunge.display.card import counted

__all__ = ["MOST_LOOK_ALIKES", "LookAlike", "SubjectSearch", "Unsearched"]

MOST_LOOK_ALIKES = 20


@dataclass(frozen=True)
class Unsearched:
    """A memory in which ``unnamed`` of all ``entries`` have no subject, or none that can be read.

    No search for a subject finds these, and no erasure of one.
    """

    memory: str
    unnamed: int
    entries: int

    def __str__(self) -> str:
        return f"{self.memory} ({self.unnamed} of {counted(self.entries, 'entry')} without a subject)"


@dataclass(frozen=True)
class LookAlike:
    """A subject that looks like the one that was asked for, and the number of its entries in each memory."""

    subject: str
    memories: dict[str, int]

    @property
    def entries(self) -> int:
        """Entries in all memories."""
        return sum(self.memories.values())

    def to_json(self) -> dict[str, Any]:
        """Subject, number of entries, and names of memories."""
        return {"subject": self.subject, "entries": self.entries, "memories": sorted(self.memories)}


@dataclass(frozen=True)
class SubjectSearch:
    """What a search for a ``subject`` found.

    ``memories`` have an entry of theirs. ``not_searched`` have entries that belong to no subject. ``look_alikes`` are
    subjects that look like this one, at most 20, the most alike first; nothing was done to them.
    """

    subject: str
    memories: tuple[str, ...]
    not_searched: tuple[Unsearched, ...]
    look_alikes: tuple[LookAlike, ...]
