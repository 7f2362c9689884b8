"""What every mirror can do: write, read, delete, reclaim, and say in which files its bytes are.

An entry that a store writes carries a tag, the entry's commitment, among its metadata. The tag says nothing without the
entry's salt. It tells a copy of an erased entry from a new entry of the same id, and it is what a later check finds
again when somebody has restored the other system from its backup.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

if TYPE_CHECKING:
    from expunge.mirrors.address import Address

__all__ = ["TAG", "Copy", "Doomed", "Mirror", "Scalar"]

TAG = "expunge_entry"
Scalar = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Copy:
    """One entry as a mirror has it: id, vector, text, flat metadata, and the tag of the store that wrote it.

    ``raw`` has further bytes that are stored for it and that no field says.
    """

    id: str
    vector: Sequence[float] | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    metadata: Mapping[str, Scalar] = field(default_factory=dict, repr=False)
    tag: str | None = None
    raw: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def coordinates(self) -> list[float]:
        """The vector as Python numbers, each the nearest float32, which these systems store."""
        return [] if self.vector is None else np.asarray(self.vector, dtype=np.float32).tolist()

    @property
    def tagged(self) -> dict[str, Scalar]:
        """The metadata with the tag."""
        return {**self.metadata, **({} if self.tag is None else {TAG: self.tag})}


@dataclass(frozen=True)
class Doomed:
    """An entry that a store has erased, and that a mirror is to delete.

    ``tag`` is the commitment of the erased entry: a copy with another tag is another entry, and stays.
    ``subject`` is the data subject whose last entry in the memory this was, else None.
    """

    id: str
    tag: str | None = None
    subject: str | None = field(default=None, repr=False)


class Mirror(ABC):
    """One place in another system. Adapters open it lazily, so that a system that is down fails at its first use."""

    kind: ClassVar[str]
    # Whether a store writes its entries there. Where it does not, the mirror is only deleted from and checked.
    written: ClassVar[bool] = True

    # Whether the system is asked to refuse every change, where it can be asked.
    read_only: bool = False

    def __init__(self, address: Address) -> None:
        self.address = address

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def write(self, copies: Sequence[Copy]) -> None:
        """Write entries; one whose id is there already is replaced."""

    @abstractmethod
    def read(self, ids: Sequence[str]) -> list[Copy]:
        """The entries with these ids that the system answers with."""

    @abstractmethod
    def entries(self) -> Iterator[Copy]:
        """Every entry that the system answers with."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Delete entries by the system's own means; an id that is not there is no error.

        Where the system would keep the bytes of a deleted entry, the adapter overwrites them first.
        """

    @abstractmethod
    def count(self) -> int:
        """How many entries the system says it has."""

    @abstractmethod
    def reclaim(self) -> None:
        """Have the system let go of the bytes of what was deleted, as far as it can be made to."""

    @abstractmethod
    def files(self) -> list[Path] | None:
        """The files in which the system keeps its bytes; None where they cannot be reached from here."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the system; the mirror opens it again when it is used again."""

    def copies_of(self, doomed: Sequence[Doomed]) -> list[Copy]:
        """The copies of erased entries that the system answers with; another entry of the same id is none."""
        tags = {entry.id: entry.tag for entry in doomed}
        return [copy for copy in self.read(list(tags)) if copy.tag is None or copy.tag == (tags[copy.id] or copy.tag)]


def split_tag(metadata: Mapping[str, Any] | None) -> tuple[dict[str, Scalar], str | None]:
    """Metadata as a system answers with it, apart from the tag."""
    found = dict(metadata or {})
    tag = found.pop(TAG, None)
    return found, None if tag is None else str(tag)
