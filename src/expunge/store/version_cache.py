"""The version of a stored memory that this process has loaded, and the locks that its edits take.

Readers use the loaded version, which is brought up to date when the edit number in the ledger has moved on
(`expunge.store.catch_up`); they never wait for a writer. An edit holds the memory's lock in the database, and works on
the stored version.

A version that was replaced holds what another process has erased since. Its buffers are overwritten as soon as no
reader in this process uses it any more.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from sqlalchemy import func, select

from expunge.errors import Busy, StoreError
from expunge.memory.active_entries import ActiveEntries
from expunge.memory.entries import Entries
from expunge.memory.memory import Memory
from expunge.memory.receipt import Receipt
from expunge.memory.version import Version
from expunge.solver.margin_factor import MarginFactor
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import holds, memories, states
from expunge.store.catch_up import catch_up
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_transaction import MemoryContext
from expunge.store.memory_budget import MemoryBudget
from expunge.store.partial_reads import LOADED_WHOLE, read_active
from expunge.store.rows import LoadedMemory, last_edit, load_memory

__all__ = ["VersionCache", "locked_together", "refuse_direct_edit"]


class VersionCache:
    """The loaded version of one memory."""

    def __init__(self, context: MemoryContext, name: str, budget: MemoryBudget) -> None:
        self.uuid = context.uuid
        self._budget = budget
        self._context = context
        self._name = name
        self._loaded: LoadedMemory | None = None
        # Of a large memory that is not loaded: what reads need, at which edit, with which digest.
        self._opened: tuple[ActiveEntries, int, bytes] | None = None
        self._editing = False
        self._edit_lock = threading.Lock()  # one edit at a time in this process
        self._load_lock = threading.Lock()  # replacing the loaded version
        # By UUID: another memory may have the name, and so the number, of one that was dropped.
        self._stored = (
            select(last_edit(context.uuid).label("edit"), states.c.digest, states.c.size)
            .join(memories, memories.c.number == states.c.memory)
            .where(memories.c.uuid == context.uuid)
        )
        count = select(func.count()).select_from(holds).where(holds.c.memory == context.number).scalar_subquery()
        self._stored_and_holds = self._stored.add_columns(count.label("holds"))

    def current(self) -> Memory:
        """The stored version; an edit of this process that is under way is not waited for."""
        loaded = self._loaded
        if loaded is not None and self._editing:
            return loaded.memory
        row = self._context.database.read_row(self._stored)
        if loaded is not None and row is not None and _is_current(loaded, row):
            self._budget.used(self, loaded.memory)
            return loaded.memory
        with self._load_lock:
            loaded = self._loaded
            if loaded is None or not self._editing:
                with self._context.database.reading() as connection:
                    loaded = self._up_to_date(connection, connection.first(self._stored), release=True)
            return loaded.memory

    def opened(self) -> ActiveEntries | None:
        """The entries with a weight of a large memory that is not loaded; None where it is, or is to be.

        They are read once. Where the memory was edited since, it is loaded, and follows from then on.
        """
        if self._loaded is not None:
            return None
        row = self._context.database.read_row(self._stored)
        with self._load_lock:
            if self._loaded is not None or row is None or row.size <= LOADED_WHOLE:
                return None
            if self._opened is None:
                with self._context.database.reading() as connection:
                    self._opened = read_active(connection, self._context.number)
                self._budget.used(self, self._opened[0])
                return self._opened[0]
            active, edit, digest = self._opened
            if (edit, digest) != (row.edit, row.digest):
                self._drop_opened()
                return None
            self._budget.used(self, active)
            return active

    def _drop_opened(self) -> None:
        """Drop opened entries, and overwrite them once no reader has them in hand."""
        if self._opened is not None:
            active, self._opened = self._opened[0], None
            arrays = [active.keys, active.values, active.coefficients]
            weakref.finalize(active, _overwrite_arrays, arrays).atexit = False

    def loaded_at(self, edit: int) -> Memory | None:
        """The loaded version, if it is the one after this edit."""
        loaded = self._loaded
        return loaded.memory if loaded is not None and loaded.memory.version.edit == edit else None

    def replace(self, loaded: LoadedMemory | None) -> None:
        """Take a version that was just written as the loaded one; with None the next caller loads it."""
        if self._opened is not None:
            self._budget.gone(self)
            self._drop_opened()
        before, self._loaded = self._loaded, loaded
        if loaded is not None and (before is None or loaded.memory is not before.memory):
            loaded.memory.journal = refuse_direct_edit
        if before is not None and (loaded is None or loaded.memory is not before.memory):
            self._budget.gone(self)
            _overwrite_when_unused(before)
        if loaded is not None:
            self._budget.used(self, loaded.memory)

    def let_go(self, *, wait: bool = True) -> bool:
        """Drop the loaded version, but not from under an edit; whether it was. Without ``wait`` not if it is in use."""
        if not self._load_lock.acquire(blocking=wait):
            return False
        try:
            if not self._editing:
                self.replace(None)
            return not self._editing
        finally:
            self._load_lock.release()

    def release(self) -> bool:
        """Have the loaded memory let go of what only edits need, unless it is in use; whether it did."""
        if not self._load_lock.acquire(blocking=False):
            return False
        try:
            if self._loaded is None or self._editing:
                return False
            self._loaded.memory.release(timeout=0)
            return True
        except Busy:
            return False
        finally:
            self._load_lock.release()

    def refresh(self, edit: int) -> None:
        """Bring the loaded version, if there is one, up to this number of edits: it holds what was erased since.

        It is dropped where that would take loading it.
        """
        with self._load_lock:
            loaded = self._loaded
            if self._opened is not None and self._opened[1] < edit:
                self.replace(None)
            if loaded is None or self._editing or loaded.memory.version.edit >= edit:
                return
            with self._context.database.reading() as connection:
                self.replace(catch_up(connection, self._context.number, loaded))

    def load(self, connection: CheckedConnection, *, release: bool = False) -> LoadedMemory:
        """The stored version, loaded anew; `release` as for `load_memory`."""
        loaded = load_memory(connection, self._context.number, release=release)
        loaded.memory.journal = refuse_direct_edit
        return loaded

    @contextmanager
    def only_editor(self) -> Iterator[None]:
        """Be the only thread of this process that edits this memory."""
        timeout = self._context.database.timeout
        if not self._edit_lock.acquire(timeout=timeout):
            raise Busy(f"another thread has been editing {self._name!r} for {timeout:g} s; try again")
        try:
            yield
        finally:
            self._edit_lock.release()

    def try_only_editor(self) -> bool:
        """Become the only thread that edits this memory, if no other is; `end_only_editor` ends it."""
        return self._edit_lock.acquire(blocking=False)

    def end_only_editor(self) -> None:
        """Let another thread edit this memory."""
        self._edit_lock.release()

    @contextmanager
    def locked(self, others: Sequence[VersionCache] = ()) -> Iterator[CheckedConnection]:
        """Hold the memory's lock, and those of others, whether or not its stored version can be loaded."""
        with locked_together(self._context.database, [self, *others]) as connection:
            crash_point("locked")
            yield connection

    @contextmanager
    def locked_version(
        self, others: Sequence[VersionCache] = ()
    ) -> Iterator[tuple[CheckedConnection, LoadedMemory, bool]]:
        """Hold the memory's lock, with its stored version, and whether there are holds on it; and locks of others."""
        with self.locked(others) as connection, self.edited_in(connection) as (loaded, has_holds):
            yield connection, loaded, has_holds

    @contextmanager
    def edited_in(self, connection: CheckedConnection) -> Iterator[tuple[LoadedMemory, bool]]:
        """The stored version, and whether there are holds on it, while a connection has the memory's lock."""
        with self._load_lock:
            row = connection.first(self._stored_and_holds)
            loaded = self._up_to_date(connection, row)
            self._editing = True
        crash_point("loaded")
        try:
            yield loaded, row is not None and row.holds > 0
        finally:
            self._editing = False

    def stored_in(self, connection: CheckedConnection) -> LoadedMemory:
        """The stored version, as a connection sees it that holds the memory's lock."""
        with self._load_lock:
            return self._up_to_date(connection, connection.first(self._stored))

    def _up_to_date(self, connection: CheckedConnection, row: Any, *, release: bool = False) -> LoadedMemory:
        if row is None:
            raise StoreError(f"the memory {self._name!r} was dropped")
        behind = self._loaded
        if behind is not None and _is_current(behind, row):
            return behind
        loaded = None if behind is None else catch_up(connection, self._context.number, behind)
        if loaded is None:
            loaded = self.load(connection, release=release)
        self.replace(loaded)
        return loaded


@contextmanager
def locked_together(database: Database, caches: Sequence[VersionCache], *locks: str) -> Iterator[CheckedConnection]:
    """Hold the locks of several memories, and others by name.

    Whoever takes several takes them in the same order: so nobody waits for somebody who waits.
    """
    with ExitStack() as stack:
        for cache in sorted(caches, key=lambda cache: cache.uuid):
            stack.enter_context(cache.only_editor())
        yield stack.enter_context(database.writing(*sorted([*locks, *(cache.uuid for cache in caches)])))


def refuse_direct_edit(before: Version, after: Version, receipt: Receipt) -> None:
    """The journal of a stored memory between its edits."""
    raise StoreError("edit a stored memory through its store")


def _overwrite_when_unused(loaded: LoadedMemory) -> None:
    """Overwrite the buffers of a memory that is not edited any more, once nobody has its version in hand."""
    version = loaded.memory.version
    factors = [part for part in vars(loaded.memory).values() if isinstance(part, MarginFactor)]
    parts: list[Any] = factors
    # Of edits that could not be made durable, another one.
    for one in {version, loaded.memory.newest}:
        state = one.state
        parts += (one.entries, state, state.margin, state.gram, state.gram.bound, state.gram.pairs)
    arrays = [array for part in parts for array in vars(part).values() if isinstance(array, np.ndarray)]
    weakref.finalize(version, _overwrite, arrays, version.entries, version.site_of_key).atexit = False


def _overwrite(arrays: list[np.ndarray[Any, Any]], entries: Entries, site_of_key: dict[bytes, int]) -> None:
    _overwrite_arrays(arrays)
    entries.rewind(0)
    site_of_key.clear()


def _overwrite_arrays(arrays: list[np.ndarray[Any, Any]]) -> None:
    for array in arrays:
        if array.flags.writeable:
            array.fill(0)


def _is_current(loaded: LoadedMemory, row: Any) -> bool:
    version = loaded.memory.version
    return bool(version.edit == row.edit and bytes.fromhex(version.digest) == row.digest)
