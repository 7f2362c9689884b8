"""The list of threads that a checkpointer's database may have, and the deletion of those that are not in it.

The list is a notebook of the store with one entry per thread: its id is the thread's, and its subject is whose the
thread is. So everything that finds and erases entries finds and erases threads: an erasure of a subject from wherever
it is asked for, legal holds, sweeps, receipts. `ThreadList.follow` deletes what is not listed from the checkpointer's
database, has the database let go of the bytes, and looks for these in its files.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from expunge.errors import Conflict, InputError, StoreError
from expunge.integrations.notebook import Erasure, Notebook, NotebookEdit
from expunge.memory.entries import check_id
from expunge.memory.version import Version
from expunge.mirrors.langgraph_threads import Claim, ThreadTables
from expunge.mirrors.mirror import Doomed
from expunge.mirrors.removal import Finding, Removal, remove_entries
from expunge.store import Store
from expunge.store.tombstones import check_span, find_tombstone, write_tombstones
from expunge.types import Vector

__all__ = ["ThreadErasure", "ThreadList", "ThreadSubject"]

log = logging.getLogger("expunge")

# From what is configurable of a run to whose the thread is.
ThreadSubject = Callable[[Mapping[str, Any]], str | None]

_WENT_BACK = (
    "the store was restored from a backup, or the list of threads dropped, and threads that were begun since are not "
    "in the list: give adopt=True once to enter them, or they would be deleted"
)


@dataclass(frozen=True)
class ThreadErasure:
    """What became of threads: in the list of threads, with receipts, and in the checkpointer's database.

    Attributes
    ----------
    edits : receipts of the list of threads, by outcome and leaf.
    erasure : where a subject was erased, the store's summary.
    removal : what was done and found in the checkpointer's database; None where it had none of the threads.
    waiting : why the database still has them, or None; `ThreadList.follow` repeats it.
    refused_until : when the tombstones of the threads end. Until then a guess at an erased thread's id can be confirmed
        by whoever has the store's database and its signing key.

    """

    edits: tuple[NotebookEdit, ...] = ()
    erasure: Erasure | None = None
    removal: Removal | None = None
    waiting: str | None = None
    refused_until: datetime | None = None

    @property
    def findings(self) -> Counter[str]:
        """How many threads were found to be absent, still in files, present, or could not be checked."""
        return Counter() if self.removal is None else Counter(one.finding for one in self.removal.checks.values())

    @property
    def complete(self) -> bool:
        """Whether every thread is gone from list and database, with a check of the database's files."""
        erased = self.erasure is None or self.erasure.complete
        return erased and self.waiting is None and self.findings.keys() <= {"absent"}


class ThreadList:
    """The list of threads in one memory, beside the tables of one checkpointer."""

    def __init__(
        self, store: Store, place: ThreadTables, memory: str, subject: ThreadSubject, span: timedelta, actor: str | None
    ) -> None:
        """`span` is how long writes to an erased thread are refused."""
        self.notebook = Notebook(store, memory, actor=actor)
        self._store = store
        self._place = place
        self._subject = subject
        self._span = check_span(span)
        self._name = f"{store.uuid} {memory}"
        self._scope = f"threads {self._name}"
        self._lock = threading.Lock()
        self._seen = False

    def has(self, thread: str) -> bool:
        """Whether a thread is listed."""
        return self.notebook.inspect(lambda version: _listed(version, thread)[0], False)

    def erase(self, threads: Iterable[str]) -> ThreadErasure:
        """Erase threads, in the list and in the database."""
        return self._followed(self.notebook.erase([str(thread) for thread in threads], missing_ok=True), None)

    def erase_subject(self, subject: str) -> ThreadErasure:
        """Erase whatever the store has of a subject, and then their threads in the database."""
        erasure = self.notebook.erase_subject(subject)
        return self._followed(erasure.edits, erasure)

    def follow(self) -> ThreadErasure:
        """Delete the threads that are not in the list any more from the checkpointer's database, and look for them.

        They may have been erased from elsewhere: by the command line, by a sweep of what has ended, or by a process
        that died between the two. Bytes that an earlier call could not reach, because somebody was reading, go now.
        Raises StoreError where the database does not answer.
        """
        with self._lock:
            claim = self._place.claim()
            # In this order: a thread is entered before its first row is written.
            there = self._place.threads()
            if claim is None or self._went_back(claim, there):
                raise InputError(_WENT_BACK)
            gone = sorted(there - self._listed())
            if gone:
                return self._remove(gone)
            if not claim.unreclaimed:
                return ThreadErasure()
            self._place.reclaim()
            return ThreadErasure(waiting=self._reclaimed(set()))

    def _followed(self, edits: tuple[NotebookEdit, ...], erasure: Erasure | None) -> ThreadErasure:
        try:
            done = self.follow()
        except StoreError as problem:
            log.warning("erased threads are still in the checkpointer's database: %s", problem)
            return ThreadErasure(edits, erasure, waiting=str(problem))
        return replace(done, edits=edits, erasure=erasure)

    def _remove(self, threads: Sequence[str]) -> ThreadErasure:
        # Tombstones first: whoever writes after the deletion looks for one after that.
        until = write_tombstones(self._store, self._scope, threads, self._span)
        self._claim(unreclaimed=True)
        removal = remove_entries(self._place, [Doomed(thread) for thread in threads])
        waiting = self._reclaimed({checks.finding for checks in removal.checks.values()})
        return ThreadErasure(removal=removal, waiting=waiting, refused_until=until)

    def _reclaimed(self, findings: set[Finding]) -> str | None:
        """Note that nothing is left in the files, or return why something is."""
        if self._place.busy or findings & {"present", "in_files"}:
            return "the checkpointer's database keeps deleted rows for somebody who reads it: call follow() again"
        self._claim()
        return None

    def take_over(self, adopt: bool) -> None:
        """Make the database's threads those of this list; InputError where it is another list's, or nobody's."""
        claim, there = self._place.claim(), self._place.threads()
        if claim is not None and claim.name == self._name:
            if not self._went_back(claim, there):
                self.follow()
                return
            if not adopt:
                raise InputError(_WENT_BACK)
        elif there and not adopt:
            raise InputError(
                f"the database has {len(there)} threads that {self.notebook.name!r} does not list, the first "
                f"{min(there)!r:.80}: give adopt=True to enter them"
            )
        new = sorted(there - self._listed())
        new = [thread for thread in new if find_tombstone(self._store, self._scope, thread) is None]
        if new:
            self._enter(new, [self._subject({**self._place.metadata(thread), "thread_id": thread}) for thread in new])
        self._claim()
        self.follow()

    def _claim(self, *, unreclaimed: bool = False) -> None:
        size = self._store.size
        self._place.set_claim(Claim(self._name, size, self._head(size), unreclaimed))

    def _went_back(self, claim: Claim, there: set[str]) -> bool:
        """Whether the list may lack threads because the store was restored, or the memory dropped, since the claim."""
        restored = self._store.newest_leaves(kinds={"restored"}, limit=1)
        since = bool(restored) and restored[0].index >= claim.size
        other = self._store.size < claim.size or self._head(claim.size) != claim.head
        return since or other or (bool(there) and self.notebook.memory is None)

    def _head(self, size: int) -> str:
        """A hash of the last of so many leaves of the ledger."""
        return hashlib.sha256(self._store.leaf(size - 1).envelope).hexdigest() if size else ""

    def before_write(self, configurable: Mapping[str, Any]) -> str:
        """Enter a thread that is new; Conflict for one that was erased, InputError for one of another subject."""
        thread, owner = check_id(str(configurable["thread_id"])), self._subject(configurable)
        nobody: tuple[bool, str | None] = (False, None)
        listed, known = self.notebook.inspect(lambda version: _listed(version, thread), nobody)
        if listed:
            if owner not in (None, known):
                whose = "nobody" if known is None else "another subject"
                raise InputError(
                    f"thread {thread!r:.80} was begun for {whose}: give each subject threads of their own, or say by "
                    "subject= whose a thread is"
                )
            return thread
        if find_tombstone(self._store, self._scope, thread) is not None:
            raise _erased(thread)
        if not self._place.has(thread):
            try:
                self._enter([thread], [owner])
            except InputError:
                if not self.has(thread):
                    raise
        elif not self.has(thread):
            # Erased from elsewhere, and not deleted here yet.
            self.follow()
            raise _erased(thread)
        else:
            # Another writer has begun it since.
            return self.before_write(configurable)
        return thread

    def after_write(self, thread: str, *, checkpoint: bool) -> None:
        """Take back what was written to a thread that was erased meanwhile; Conflict where it was."""
        if not self.has(thread):
            with self._lock:
                self._remove([thread])
            raise _erased(thread)
        if checkpoint and not self._seen:
            self._seen = self._place.has(thread)
            if not self._seen:
                raise InputError(
                    "the saver wrote a checkpoint, and the database at the URL does not have it: give the URL of the "
                    "database that the saver uses"
                )

    def _enter(self, threads: Sequence[str], subjects: Sequence[str | None]) -> None:
        self.notebook.write_many([_key(thread) for thread in threads], ids=threads, subjects=subjects)

    def _listed(self) -> set[str]:
        nothing: set[str] = set()
        return self.notebook.inspect(_names, nothing)


def _key(thread: str) -> Vector:
    """The key of a thread's entry: two numbers of its own from −1 to 1, so that the list stays quick to edit."""
    digest = hashlib.sha256(thread.encode("utf-8", "surrogatepass")).digest()
    return np.frombuffer(digest[:16], dtype="<u8").astype(np.float64) / 2.0**63 - 1.0


def _names(version: Version) -> set[str]:
    names = {version.entries.ids[slot] for slot in version.slots.tolist()}
    return {name for name in names if name is not None} | version.warranties.archive.keys()


def _listed(version: Version, thread: str) -> tuple[bool, str | None]:
    """Whether a thread is listed, and whose it is."""
    slot = version.slot(thread)
    if slot is not None:
        return True, version.entries.subjects[slot]
    archived = version.warranties.archive.get(thread)
    return archived is not None, None if archived is None else archived.subject


def _erased(thread: str) -> Conflict:
    return Conflict(
        f"thread {thread!r:.80} was erased, and this write was not kept: begin another thread", code="thread-erased"
    )
