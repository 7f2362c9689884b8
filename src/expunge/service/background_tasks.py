"""What a worker does without being asked: it finishes erasures, its own and others', and deletes what has expired.

Every few seconds an erasure that a reader has delayed is tried again, and loaded memories that another worker has
edited or dropped are let go and overwritten: they hold what was erased (`Store.retry_erasures`). Answers to requests
and jobs are kept for seven days (:mod:`expunge.store.maintenance.expiry`); the worker looks for older ones once an
hour, and for cases that are older than the settings say. Erasures that were requested with a delay are carried out
when they are due. What has ended is erased (`Store.retain`): the worker looks when the ledger has grown, or the next
end has come. Mirrors get what edits owe to them; one that does not answer is put off.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import timedelta

from expunge.errors import ExpungeError
from expunge.service.executor import Executor
from expunge.service.metrics import Metrics
from expunge.store import Store, Sweeper

__all__ = ["BackgroundTasks"]

log = logging.getLogger("expunge.service")

RETRY_SECONDS = 2.0
EXPIRY_SECONDS = 3600.0
DUE_SECONDS = 15.0


class BackgroundTasks:
    """The background task of one worker."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        metrics: Metrics,
        keep_cases: int | None = None,
        retain_seconds: float = 0.0,
    ) -> None:
        self._store = store
        self._executor = executor
        self._metrics = metrics
        self._keep_cases = keep_cases
        self._retain_seconds = retain_seconds
        self._next_expiry = self._next_due = self._next_sweep = 0.0
        self._sweeper = Sweeper(store)
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
            if self._keep_cases is not None:
                self._store.erase_cases(older_than=timedelta(days=self._keep_cases))
            self._next_expiry = time.monotonic() + EXPIRY_SECONDS
        if time.monotonic() >= self._next_due:
            self._next_due = time.monotonic() + DUE_SECONDS
            self._store.carry_out_erasures()
        if self._retain_seconds and time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + self._retain_seconds
            done = self._sweeper.step()
            if done is not None:
                self._metrics.observe_sweep(done)
        self._store.mirror_keeper.sync(at_once=False)

    async def _run(self) -> None:
        while True:
            try:
                await self._executor.read(self.step)
            except ExpungeError as problem:
                # The store is busy, or cannot be reached: the next step tries again.
                log.warning("background task failed", extra={"about": {"error": problem.code}})
            await asyncio.sleep(RETRY_SECONDS)
