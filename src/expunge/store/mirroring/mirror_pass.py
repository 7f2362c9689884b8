"""One pass over a mirror: delete what was erased, search for what is left, say so in the ledger, write what is new.

Erasures come first. A copy whose tag is another than the erased entry's is another entry, and stays; an entry that was
erased since its admission is not written. What was found is one leaf per pass, and only what the system still answers
with stays owed. A pass that dies is repeated, and the copies that it had already deleted are *not checkable* then:
their bytes are not known any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from expunge.errors import ExpungeError, InputError
from expunge.ledger.event import FOUND, parse_event
from expunge.ledger.receipt_format import PREDICATE_TYPE
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement, Subject
from expunge.mirrors import Copy, Doomed, Mirror, Removal, open_mirror, remove_entries
from expunge.store.backends.database import Database
from expunge.store.edits.crash_points import crash_point
from expunge.store.identity import Identity
from expunge.store.ledger_tables import LedgerWriter, read_leaf, read_leaves
from expunge.store.mirroring.attached_mirror import AttachedMirror, claim, put_off, read_mirrors, release, renew
from expunge.store.mirroring.copies_owed import (
    OwedErasure,
    end_erasures,
    end_writes,
    read_erasures_owed,
    read_writes_owed,
)
from expunge.store.mirroring.copy_map import entry_copies

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["MirrorPass", "came_in", "pass_over"]

# Of erasures and of admissions that are done together.
_MOST_ERASURES: Final = 1000
_MOST_WRITES: Final = 1000
_PAGE: Final = 500


@dataclass(frozen=True)
class MirrorPass:
    """What a pass over a mirror did.

    Attributes
    ----------
    mirror : the mirror, by the leaf that says since when it is one.
    written : copies written.
    found : copies of erased entries by what was found of them: ``absent``, ``in_files``, ``not_checkable``.
    still_there : copies of erased entries that the system still answers with; they stay owed.
    pending : edits that are still owed afterwards.
    leaf : of the ledger, with what was found; None where nothing was erased.
    problem : why the pass ended early; None where it did not. ``waits`` says that it did not begin.

    """

    mirror: int
    written: int = 0
    found: Counter[str] = field(default_factory=Counter)
    still_there: int = 0
    pending: int = 0
    leaf: int | None = None
    problem: str | None = None
    waits: bool = False

    @property
    def complete(self) -> bool:
        """Whether the mirror has everything that it was owed."""
        return self.pending == 0

    def then(self, later: MirrorPass) -> MirrorPass:
        """Put this pass and a later one together."""
        leaf = self.leaf if later.leaf is None else later.leaf
        return replace(later, written=self.written + later.written, found=self.found + later.found, leaf=leaf)

    def to_json(self) -> dict[str, Any]:
        """As the command line and the service show it."""
        return {
            "mirror": self.mirror,
            "written": self.written,
            "found": {word: self.found[word] for word in FOUND},
            "still_there": self.still_there,
            "pending": self.pending,
            "leaf": self.leaf,
            "problem": self.problem,
            "waits": self.waits,
        }


def pass_over(
    store: Store, database: Database, identity: Identity, mirror: AttachedMirror, *, at_once: bool = False
) -> MirrorPass:
    """Do what is owed to a mirror, unless another process is at it or it is put off; ``at_once`` is not put off."""
    lock = f"mirror {mirror.leaf}"
    with store.writing(lock) as connection:
        if not claim(connection, mirror.number, store.now(), at_once=at_once):
            return MirrorPass(mirror.leaf, pending=mirror.pending, waits=True)
    crash_point("mirror_claimed")
    done, problem = _Pass(store, database, identity, mirror), None
    try:
        with open_mirror(mirror.url) as system:
            done.erase(system)
            done.write(system)
    except ExpungeError as error:
        problem = str(error)
    except Exception as error:
        # Each system raises what it likes. The text of such an error may quote an entry.
        problem = f"{mirror.kind} failed: {type(error).__name__}"
    with store.writing(lock) as connection:
        if problem is None and not done.still_there:
            release(connection, mirror.number)
        else:
            put_off(connection, mirror, store.now())
    with store.reading() as connection:
        left = sum(known.pending for known in read_mirrors(connection, mirror.leaf))
    return MirrorPass(mirror.leaf, done.written, done.found, done.still_there, left, done.leaf, problem)


class _Pass:
    """The work of one pass, and what has come of it so far."""

    def __init__(self, store: Store, database: Database, identity: Identity, mirror: AttachedMirror) -> None:
        self._store = store
        self._database = database
        self._identity = identity
        self._mirror = mirror
        self.written = 0
        self.still_there = 0
        self.found: Counter[str] = Counter()
        self.leaf: int | None = None

    def erase(self, system: Mirror) -> None:
        """Delete copies of erased entries, and record what is left of them."""
        while True:
            with self._store.reading() as connection:
                owed = read_erasures_owed(connection, self._mirror.number, _MOST_ERASURES)
            if not owed:
                return
            named = [self._with_entries(system, one) for one in owed]
            doomed = list(dict.fromkeys(entry for one in named for entry in one.entries))
            removal = remove_entries(system, doomed)
            crash_point("mirror_erased")
            self._renew()
            after = [_after(one, removal) for one in named]
            self.still_there = sum(len(one.entries) for one in after)
            self._record([one for one in after if not one.entries], [one for one in after if one.entries])
            if self.still_there or len(owed) < _MOST_ERASURES:
                return

    def write(self, system: Mirror) -> None:
        """Write copies of entries that were admitted and are still in the store."""
        while True:
            with self._store.reading() as connection:
                leaves = read_writes_owed(connection, self._mirror.number, _MOST_WRITES)
            if not leaves:
                return
            for page in self._pages(leaves):
                system.write(page)
                self.written += len(page)
                self._renew()
            crash_point("mirror_written")
            with self._store.writing(f"mirror {self._mirror.leaf}") as connection:
                end_writes(connection, self._mirror.number, leaves)
                connection.commit()

    def _record(self, over: Sequence[OwedErasure], still: Sequence[OwedErasure]) -> None:
        """Write what was found as a leaf, and forget what was owed."""
        with self._store.writing(f"mirror {self._mirror.leaf}") as connection:
            ledger_writer = LedgerWriter(connection)
            # Somebody may have removed the mirror meanwhile.
            known = {one.number for one in read_erasures_owed(connection, self._mirror.number, _MOST_ERASURES)}
            over = [one for one in over if one.number in known]
            still = [one for one in still if one.number in known]
            if over:
                leaf = ledger_writer.append_event(
                    self._identity,
                    "mirror_checked",
                    None,
                    Subject("mirror", self._mirror.commitment),
                    findings=[_finding(one) for one in sorted(over, key=lambda one: one.leaf)],
                )
                ledger_writer.flush()
                self.leaf = leaf.index
            end_erasures(self._database, connection, over, still)
            crash_point("ledger_written")
            connection.commit()
            crash_point("committed")
            self._database.finish_erasure(connection)
        for one in over:
            self.found.update({word: getattr(one, word) for word in FOUND})

    def _renew(self) -> None:
        with self._store.writing(f"mirror {self._mirror.leaf}") as connection:
            renew(connection, self._mirror.number, self._store.now())

    def _with_entries(self, system: Mirror, owed: OwedErasure) -> OwedErasure:
        """Entries that the store could not name, found by the tags that the ledger says their memory's entries had."""
        if not owed.unnamed:
            return owed
        with self._store.reading() as connection:
            tags = {
                commitment
                for leaf in read_leaves(connection, memory=owed.memory)
                for commitment in came_in(leaf.kind, leaf.statement)
            }
        found = [Doomed(copy.id, copy.tag) for copy in system.entries() if copy.tag in tags]
        return replace(owed, entries=tuple(found[: owed.unnamed]), unnamed=max(0, owed.unnamed - len(found)))

    def _pages(self, leaves: Sequence[int]) -> Iterator[list[Copy]]:
        """The copies to be written, some hundred at a time."""
        for memory, wanted in self._wanted(leaves).items():
            name = self._store.name_of(memory)
            if name is None:
                continue
            try:
                version = self._store[name].version
            except InputError:
                # It was dropped meanwhile.
                continue
            page: list[Copy] = []
            for one in entry_copies(version, wanted, self._mirror.map):
                page.append(replace(one.copy, id=self._mirror.id_of(name, one.id)))
                if len(page) == _PAGE:
                    yield page
                    page = []
            if page:
                yield page

    def _wanted(self, leaves: Sequence[int]) -> dict[str, set[bytes] | None]:
        """By memory the commitments of the entries that these leaves admitted; None for everything that is there."""
        found: dict[str, set[bytes] | None] = {}
        with self._store.reading() as connection:
            for index in leaves:
                statement = read_leaf(connection, index).statement
                if statement.predicate_type != PREDICATE_TYPE:
                    everything = [row.uuid for row in self._store.memories() if self._mirror.covers(row.uuid)]
                    return found | dict.fromkeys(everything)
                receipt = parse_predicate(statement)
                known = found.setdefault(receipt.memory, set())
                if receipt.applied.root is not None:
                    found[receipt.memory] = None
                elif known is not None:
                    known.update(map(bytes.fromhex, receipt.applied.commitments))
        return found


def _after(owed: OwedErasure, removal: Removal) -> OwedErasure:
    """What is owed after a removal: the entries that the system still answers with."""
    counts = Counter(removal.checks[entry].finding for entry in owed.entries)
    still = tuple(entry for entry in owed.entries if removal.checks[entry].finding == "present")
    return replace(
        owed,
        entries=still,
        absent=owed.absent + counts["absent"],
        in_files=owed.in_files + counts["in_files"],
        # Those that nobody could name are not there by their tags, and nobody knows their bytes.
        not_checkable=owed.not_checkable + counts["not_checkable"] + owed.unnamed,
        unnamed=0,
    )


def _finding(owed: OwedErasure) -> dict[str, int]:
    counts = {word: getattr(owed, word) for word in FOUND}
    return {"leaf": owed.leaf, "entries": sum(counts.values()), **counts}


def came_in(kind: str, statement: Statement) -> tuple[str, ...]:
    """Commitments of the entries that a leaf lists as admitted, or that a part of any list has."""
    if statement.predicate_type == PREDICATE_TYPE:
        return parse_predicate(statement).applied.commitments if kind in ("created", "admitted") else ()
    found = parse_event(statement).facts.get("commitments")
    return tuple(map(str, found)) if kind == "listed" and isinstance(found, tuple) else ()
