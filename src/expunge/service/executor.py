"""Where the work happens: in threads, so that no request waits for the event loop, and reads never for edits.

Reads, edits and long jobs have threads of their own. An edit takes its turn at its memory here, without a thread,
before the store's own lock is asked: forty edits of one memory occupy one thread, and whoever reads finds the others
free. An edit that has begun is finished, whether or not its client still listens.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from expunge.store import Busy

__all__ = ["Desk"]

Made = TypeVar("Made")

# Together they stay below the connections that a database's pool hands out.
READERS, WRITERS, WORKERS = 8, 4, 2


class Desk:
    """Threads of one worker."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._readers = anyio.CapacityLimiter(READERS)
        self._writers = anyio.CapacityLimiter(WRITERS)
        self._workers = anyio.CapacityLimiter(WORKERS)
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    async def read(self, act: Callable[..., Made], *given: Any, **named: Any) -> Made:
        """Do something that changes nothing."""
        return await anyio.to_thread.run_sync(functools.partial(act, *given, **named), limiter=self._readers)

    async def edit(self, what: str, act: Callable[..., Made], *given: Any, **named: Any) -> Made:
        """Do something to a memory, named by its UUID, when its turn has come. Raises Busy when that takes too long."""
        turn = self._turns[what]
        with anyio.move_on_after(self._timeout) as waiting:
            await turn.acquire()
        if waiting.cancelled_caught:
            raise Busy(f"others have been editing it for {self._timeout:g} s; nothing was done, try again")
        try:
            return await anyio.to_thread.run_sync(functools.partial(act, *given, **named), limiter=self._writers)
        finally:
            turn.release()

    async def work(self, act: Callable[..., Made], *given: Any) -> Made:
        """Do something long; a cancellation leaves it to itself."""
        run = functools.partial(act, *given)
        return await anyio.to_thread.run_sync(run, limiter=self._workers, abandon_on_cancel=True)
