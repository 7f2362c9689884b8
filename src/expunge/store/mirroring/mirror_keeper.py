"""Keeps the mirrors of an open store in step: after every edit of this process, and whenever somebody asks.

An edit is over before a mirror hears of it. What a mirror does not take then is owed to it, and is tried again after
later edits, by `Store.sync_mirrors`, by ``expunge mirror sync`` and by the service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from expunge.errors import ExpungeError, InputError
from expunge.store.backends.database import Database
from expunge.store.cases import Case
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Leaf
from expunge.store.mirroring.attached_mirror import AttachedMirror, add_mirror, read_mirrors, remove_mirror
from expunge.store.mirroring.copy_map import CopyMap
from expunge.store.mirroring.mirror_pass import MirrorPass, pass_over

if TYPE_CHECKING:
    from expunge.store.store import Store

__all__ = ["MirrorKeeper"]

# How often one call begins again because others have edited the store meanwhile.
_MOST_PASSES = 3


class MirrorKeeper:
    """The mirrors of one open store.

    Attributes
    ----------
    at_once : whether an edit of this process is followed by a pass; the service turns it off, and passes by itself.

    """

    def __init__(self, store: Store, database: Database, identity: Callable[[], Identity]) -> None:
        self.at_once = True
        self._store = store
        self._database = database
        # A store that was restored has another one than it was opened with.
        self._identity = identity
        self._owed = False
        self._nested = threading.local()

    def owe(self) -> None:
        """Take note that an edit has left something to be done."""
        self._owed = True

    @contextmanager
    def together(self) -> Iterator[None]:
        """Pass over the mirrors after what is done inside, and not after each edit of it."""
        depth = getattr(self._nested, "depth", 0)
        self._nested.depth = depth + 1
        try:
            yield
        finally:
            self._nested.depth = depth
            self.follow()

    def follow(self) -> None:
        """Pass over the mirrors that an edit has left something for; nothing that goes wrong there is raised."""
        if self._owed and self.at_once and not getattr(self._nested, "depth", 0):
            self._owed = False
            with suppress(ExpungeError):
                self.sync(at_once=False)

    def attached(self) -> list[AttachedMirror]:
        """The mirrors, in the order in which they were added."""
        with self._store.reading() as connection:
            return read_mirrors(connection)

    def one(self, leaf: int) -> AttachedMirror:
        """The mirror that was added at a leaf; InputError if there is none."""
        found = next((mirror for mirror in self.attached() if mirror.leaf == leaf), None)
        if found is None:
            raise InputError(f"there is no mirror {leaf}; expunge mirror list has them", code="mirror-unknown")
        return found

    def add(self, url: str, memory: str | None, given: Mapping[str, Any] | None, asked: Case | None) -> AttachedMirror:
        """Attach a mirror, and give it what is in the store, if it takes it now."""
        copy_map = CopyMap.of(given)
        with self._store.writing("mirrors") as connection:
            added = add_mirror(self._database, connection, self._identity(), url, memory, copy_map, asked)
        self.owe()
        self.follow()
        return self.one(added.leaf)

    def remove(self, leaf: int, asked: Case | None) -> Leaf:
        """Detach a mirror."""
        mirror = self.one(leaf)
        with self._store.writing("mirrors") as connection:
            return remove_mirror(self._database, connection, self._identity(), mirror, asked)

    def sync(self, leaf: int | None = None, *, at_once: bool = True) -> list[MirrorPass]:
        """Pass over one mirror or all that are owed something; what was put off for a failure, ``at_once`` only."""
        wanted = self.attached() if leaf is None else [self.one(leaf)]
        return [self._passes(mirror, at_once=at_once) for mirror in wanted if mirror.pending]

    def _passes(self, mirror: AttachedMirror, *, at_once: bool) -> MirrorPass:
        identity = self._identity()
        done = pass_over(self._store, self._database, identity, mirror, at_once=at_once)
        for _ in range(_MOST_PASSES - 1):
            if done.complete or done.waits or done.problem is not None or done.still_there:
                break
            more = pass_over(self._store, self._database, identity, self.one(mirror.leaf), at_once=at_once)
            if more.waits:
                break
            done = done.then(more)
        return done
