"""The version of a stored memory that this process has loaded, and the locks that its edits take.

Readers use the loaded version, which is replaced when the edit number in the ledger has moved on; they never wait for a
writer. An edit holds the memory's lock in the database, and works on the stored version.

A version that was replaced holds what another process has erased since. Its buffers are overwritten as soon as no
reader in this process uses it any more.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sqlalchemy import func, select

from expunge.errors import Busy, StoreError
from expunge.memory.entries import Entries
from expunge.memory.memory import Memory
from expunge.memory.receipt import Receipt
from expunge.memory.version import Version
from expunge.solver.margin_factor import MarginFactor
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import holds, memories, states
from expunge.store.edits.crash_points import crash_point
from expunge.store.edits.edit_transaction import MemoryContext
from expunge.store.rows import LoadedMemory, last_edit, load_memory

__all__ = ["VersionCache", "refuse_direct_edit"]


class VersionCache:
    """The loaded version of one memory."""

    def __init__(self, context: MemoryContext, name: str) -> None:
        self._context = context
        self._name = name
        self._loaded: LoadedMemory | None = None
        self._editing = False
        self._edit_lock = threading.Lock()  # one edit at a time in this process
        self._load_lock = threading.Lock()  # replacing the loaded version
        # By UUID: another memory may have the name, and so the number, of one that was dropped.
        self._stored = (
            select(last_edit(context.uuid).label("edit"), states.c.digest)
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
            return loaded.memory
        with self._load_lock:
            loaded = self._loaded
            if loaded is None or not self._editing:
                with self._context.database.reading() as connection:
                    loaded = self._up_to_date(connection, connection.first(self._stored), release=True)
            return loaded.memory

    def replace(self, loaded: LoadedMemory | None) -> None:
        """Take a version that was just written as the loaded one; with None the next caller loads it."""
        if loaded is not None:
            loaded.memory.journal = refuse_direct_edit
        before, self._loaded = self._loaded, loaded
        if before is not None and (loaded is None or loaded.memory is not before.memory):
            _overwrite_when_unused(before)

    def let_go(self, edit: int | None) -> None:
        """Drop the loaded version if the stored one has a later number of edits; None: there is none any more."""
        with self._load_lock:
            loaded = self._loaded
            if loaded is None or self._editing:
                return
            if edit is None or loaded.memory.version.edit < edit:
                self.replace(None)

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

    @contextmanager
    def locked(self) -> Iterator[CheckedConnection]:
        """Hold the memory's lock, whether or not its stored version can be loaded."""
        with self.only_editor(), self._context.database.writing(self._context.uuid) as connection:
            crash_point("locked")
            yield connection

    @contextmanager
    def locked_version(self) -> Iterator[tuple[CheckedConnection, LoadedMemory, bool]]:
        """Hold the memory's lock, with its stored version, and whether there are holds on it."""
        with self.locked() as connection:
            with self._load_lock:
                row = connection.first(self._stored_and_holds)
                loaded = self._up_to_date(connection, row)
                self._editing = True
            crash_point("loaded")
            try:
                yield connection, loaded, row is not None and row.holds > 0
            finally:
                self._editing = False

    def _up_to_date(self, connection: CheckedConnection, row: Any, *, release: bool = False) -> LoadedMemory:
        if row is None:
            raise StoreError(f"the memory {self._name!r} was dropped")
        if self._loaded is None or not _is_current(self._loaded, row):
            loaded = self.load(connection, release=release)
            self.replace(loaded)
            return loaded
        return self._loaded


def refuse_direct_edit(before: Version, after: Version, receipt: Receipt) -> None:
    """The journal of a stored memory between its edits."""
    raise StoreError("edit a stored memory through its store")


def _overwrite_when_unused(loaded: LoadedMemory) -> None:
    """Overwrite the buffers of a memory that is not edited any more, once nobody has its version in hand."""
    version = loaded.memory.version
    state = version.state
    factors = [part for part in vars(loaded.memory).values() if isinstance(part, MarginFactor)]
    parts = (version.entries, state, state.margin, state.gram, state.gram.bound, state.gram.pairs, *factors)
    arrays = [array for part in parts for array in vars(part).values() if isinstance(array, np.ndarray)]
    weakref.finalize(version, _overwrite, arrays, version.entries, version.site_of_key).atexit = False


def _overwrite(arrays: list[np.ndarray[Any, Any]], entries: Entries, site_of_key: dict[bytes, int]) -> None:
    for array in arrays:
        if array.flags.writeable:
            array.fill(0)
    entries.rewind(0)
    site_of_key.clear()


def _is_current(loaded: LoadedMemory, row: Any) -> bool:
    version = loaded.memory.version
    return bool(version.edit == row.edit and bytes.fromhex(version.digest) == row.digest)
