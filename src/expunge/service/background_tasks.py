"""What a worker does without being asked: it finishes erasures, its own and others', and deletes what has expired.

Every few seconds an erasure that a reader has delayed is tried again, and loaded memories that another worker has
edited or dropped are let go and overwritten: they hold what was erased (`Store.retry_erasures`). Answers to requests
and jobs are kept for seven days (:mod:`expunge.store.maintenance.expiry`); the worker looks for older ones once an
hour.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from expunge.errors import ExpungeError
from expunge.service.executor import Executor
from expunge.service.metrics import Metrics
from expunge.store import Store

__all__ = ["BackgroundTasks"]

log = logging.getLogger("expunge.service")

RETRY_SECONDS = 2.0
EXPIRY_SECONDS = 3600.0


class BackgroundTasks:
    """The background task of one worker."""

    def __init__(self, store: Store, executor: Executor, metrics: Metrics) -> None:
        self._store = store
        self._executor = executor
        self._metrics = metrics
        self._next_expiry = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End after the step that is under way."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def step(self) -> None:
        """Do once what there is to do."""
        self._store.retry_erasures()
        self._metrics.observe_waiting()
        if time.monotonic() >= self._next_expiry:
            self._store.delete_expired()
            self._next_expiry = time.monotonic() + EXPIRY_SECONDS

    async def _run(self) -> None:
        while True:
            try:
                await self._executor.read(self.step)
            except ExpungeError as problem:
                # The store is busy, or cannot be reached: the next step tries again.
                log.warning("background task failed", extra={"about": {"error": problem.code}})
            await asyncio.sleep(RETRY_SECONDS)
