"""What the server does without being asked: it lets go of what was erased, and erases what has ended.

Nobody else may do it for an agent's store. Beside that, in a thread of its own, the mirrors follow: no call of a tool
waits for another system, and neither does what overwrites erased content. Every two seconds an erasure that a reader
of the database has delayed is tried again, and what this process has loaded of memories that others have edited is
overwritten (`Store.retry_erasures`). When the ledger has grown, the strings of earlier messages are forgotten, too
(`forget_parsed_strings`). Once a minute the store is swept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from expunge.errors import ExpungeError
from expunge.integrations.mcp.parsed_strings import forget_parsed_strings
from expunge.store import Store, Sweeper

__all__ = ["Background", "working"]

log = logging.getLogger("expunge.mcp")

STEP_SECONDS = 2.0
# How long the end of the server waits for mirrors.
LAST_PASS_SECONDS = 10.0
SWEEP_SECONDS = 60.0


class Background:
    """The work beside the answers, with a sweep every so many seconds."""

    def __init__(self, store: Store, sweep_seconds: float = SWEEP_SECONDS) -> None:
        self._store = store
        self._sweeper = Sweeper(store)
        self._sweep_seconds, self._next_sweep = sweep_seconds, time.monotonic()
        self._forgotten_at: int | None = None

    def step(self) -> None:
        """Do once what there is to do."""
        due = time.monotonic() >= self._next_sweep
        if due:
            self._next_sweep = time.monotonic() + self._sweep_seconds
        try:
            self._store.retry_erasures()
            if due:
                self._sweeper.step()
        finally:
            size = self._store.size
            # A message may name what was erased before: those are forgotten once a minute.
            if due or size != self._forgotten_at:
                self._forgotten_at = size
                forget_parsed_strings()


@contextmanager
def working(store: Store, *, seconds: float = STEP_SECONDS, sweep_seconds: float = SWEEP_SECONDS) -> Iterator[None]:
    """Work at once, and from then on every so many seconds, in two threads, until the end of the block.

    Each does a last step at the end. A mirror that takes longer than `LAST_PASS_SECONDS` for it is left behind: what it
    is owed stays pending.
    """
    ended, keeper = threading.Event(), store.mirror_keeper
    at_once, keeper.at_once = keeper.at_once, False

    def follow() -> None:
        keeper.sync(at_once=False)

    threads = [
        threading.Thread(target=_repeat, args=(step, ended, seconds), name=name, daemon=True)
        for name, step in (("expunge-background", Background(store, sweep_seconds).step), ("expunge-mirrors", follow))
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        threads[0].join()
        threads[1].join(LAST_PASS_SECONDS)
        keeper.at_once = at_once


def _repeat(step: Callable[[], object], ended: threading.Event, seconds: float) -> None:
    """Do something every so many seconds, and once more at the end, whatever becomes of it."""
    over = False
    while not over:
        over = ended.is_set()
        try:
            step()
        except ExpungeError as problem:
            # The store is busy, or cannot be reached: the next step tries again.
            log.warning("work in the background failed: %s", problem.code)
        except Exception as problem:
            # Its message may quote content.
            log.error("work in the background failed: %s", type(problem).__name__)
        ended.wait(seconds)
