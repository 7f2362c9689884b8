"""What a worker does before it says that it is ready: it loads compiled code, subjects and memories.

A memory that cannot be loaded now does not keep a worker from being ready: the request that asks for it is told why.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from contextlib import suppress

from expunge.errors import ExpungeError
from expunge.memory.warm_up import warm_up
from expunge.service.executor import Executor
from expunge.service.log_format import traceback_places
from expunge.store import Store

__all__ = ["Preparation"]

log = logging.getLogger("expunge.service")

# Seconds after which a worker is ready with the memories that it has loaded until then.
LOADING_SECONDS = 20.0


class Preparation:
    """The preparation of one worker; `over` before it is begun, and once it has ended."""

    def __init__(self, store: Store, executor: Executor, *, own_process: bool = False) -> None:
        """With ``own_process`` nothing else is in this process, and its settings may be changed."""
        self._store = store
        self._executor = executor
        self._own_process = own_process
        self._stopped = False
        self._task: asyncio.Task[None] | None = None
        self.over = True

    def start(self) -> None:
        """Begin, in the running event loop."""
        self.over = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End after the step that is under way."""
        self._stopped = True
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    def step(self) -> None:
        """Load code, memories and the map of subjects."""
        started, loaded = time.monotonic(), 0
        warm_up(thorough=False)
        if self._own_process:
            # Code and what belongs to it stays: garbage collections in the middle of requests need not look through it.
            # Content is not part of it: what is let go has to be overwritten.
            gc.collect()
            gc.freeze()
        with suppress(ExpungeError), self._store.reading() as connection:
            self._store.current_subjects(connection)
        with suppress(ExpungeError):
            for name in self._store.names():
                if self._stopped or time.monotonic() - started > LOADING_SECONDS:
                    break
                with suppress(ExpungeError):
                    if not self._store[name].preload():
                        break
                    loaded += 1
        about = {"memories": loaded, "ms": round(1000 * (time.monotonic() - started))}
        log.info("prepared", extra={"about": about})

    async def _run(self) -> None:
        try:
            await self._executor.work(self.step)
        except Exception as problem:
            # Requests find out for themselves. What the problem says may be content.
            log.error("preparation failed", extra={"about": {"at": traceback_places(problem)}})
        finally:
            self.over = True
