"""Threads of one worker: no request blocks the event loop, and reads do not wait for edits.

Reads, edits and long jobs have threads of their own. Edits of memories have many: those of one memory wait in the
store, which commits them together, and only one of them asks for a connection. What else writes waits here, without a
thread, for what it writes to. An edit that has started runs to its end, even if its client no longer listens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from expunge.store import Busy

__all__ = ["Executor"]

Result = TypeVar("Result")

# Together these stay below the connections that a database's pool hands out.
READERS, WRITERS, WORKERS = 8, 4, 2
# Threads for edits of memories: nearly all of them wait for another one that commits their edits.
EDITORS = 128


class Executor:
    """Threads of one worker."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._readers = anyio.CapacityLimiter(READERS)
        self._writers = anyio.CapacityLimiter(WRITERS)
        self._editors = anyio.CapacityLimiter(EDITORS)
        self._workers = anyio.CapacityLimiter(WORKERS)
        self._locks: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    def read(self, function: Callable[..., Result], *args: Any) -> Coroutine[Any, Any, Result]:
        """Run a function that changes nothing."""
        return anyio.to_thread.run_sync(function, *args, limiter=self._readers)

    def edit_memory(self, function: Callable[..., Result], *args: Any) -> Coroutine[Any, Any, Result]:
        """Run a function that edits a memory, beside others that do."""
        return anyio.to_thread.run_sync(function, *args, limiter=self._editors)

    async def edit(self, what: str, function: Callable[..., Result], *args: Any) -> Result:
        """Run a function that edits ``what`` when no other one does. Raises Busy if that takes too long."""
        lock = self._locks[what]
        with anyio.move_on_after(self._timeout) as waiting:
            await lock.acquire()
        if waiting.cancelled_caught:
            raise Busy(f"others have been editing it for {self._timeout:g} s; nothing was done, try again")
        try:
            return await anyio.to_thread.run_sync(function, *args, limiter=self._writers)
        finally:
            lock.release()

    def work(self, function: Callable[..., Result], *args: Any) -> Coroutine[Any, Any, Result]:
        """Run a long function; when the caller is cancelled, the thread runs on."""
        return anyio.to_thread.run_sync(function, *args, limiter=self._workers, abandon_on_cancel=True)
