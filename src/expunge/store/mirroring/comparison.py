"""A mirror beside the store: what is missing there, and what is there and should not be. Nothing is written.

A copy is *stale* where its tag is the commitment of an entry that the ledger says came into this store, and that is not
there any more: somebody has restored the other system from its backup, or the store was restored and has lost what the
mirror was still to lose. Copies without a tag, or with one of another store, are *foreign*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expunge.mirrors import Doomed, open_mirror, remove_entries
from expunge.store.ledger_tables import read_leaves
from expunge.store.mirroring.attached_mirror import AttachedMirror
from expunge.store.mirroring.copy_map import entry_copies
from expunge.store.mirroring.mirror_pass import came_in

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["MirrorComparison", "compare_mirror"]


@dataclass(frozen=True)
class MirrorComparison:
    """How a mirror differs from the store; ``deleted`` of the stale copies were deleted, ``pending`` edits are owed."""

    mirror: int
    entries: int
    copies: int
    missing: tuple[str, ...]
    stale: tuple[str, ...]
    foreign: int
    pending: int
    deleted: int = 0

    @property
    def agrees(self) -> bool:
        """Whether nothing is missing, and nothing stale is there that was not deleted."""
        return not self.missing and len(self.stale) == self.deleted

    def to_json(self) -> dict[str, Any]:
        """As the command line shows it."""
        return {**vars(self), "agrees": self.agrees}


def compare_mirror(store: Store, mirror: AttachedMirror, *, delete: bool = False) -> MirrorComparison:
    """Compare every copy with the store; ``delete`` deletes the stale ones, and has their bytes reclaimed."""
    here: dict[str, str] = {}
    for row in store.memories():
        if mirror.covers(row.uuid):
            for one in entry_copies(store[row.name].version, None, mirror.map):
                here[one.copy.tag or ""] = mirror.id_of(row.name, one.id)
    with store.reading() as connection:
        known = {tag for leaf in read_leaves(connection) for tag in came_in(leaf.kind, leaf.statement)}
    there, stale, foreign, copies = set(), [], 0, 0
    with open_mirror(mirror.url) as system:
        for copy in system.entries():
            copies += 1
            if copy.tag in here and here[copy.tag] == copy.id:
                there.add(copy.tag)
            elif copy.tag in known:
                stale.append(Doomed(copy.id, copy.tag))
            else:
                foreign += 1
        deleted = 0
        if delete and stale:
            removal = remove_entries(system, stale)
            deleted = len(stale) - len(removal.entries("present"))
    missing = tuple(sorted(name for tag, name in here.items() if tag not in there))
    gone = tuple(sorted(one.id for one in stale))
    return MirrorComparison(mirror.leaf, len(here), copies, missing, gone, foreign, mirror.pending, deleted)
