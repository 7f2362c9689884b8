"""Batches of concurrent tasks as one: those that wait while another is written are written together, with one receipt.

An edit costs the same for one item and for many, and one batch after the other would keep each task waiting for all
before it. Batches are put together in the order in which they were asked for, so that of several puts of one item the
last one counts; their reads see the store as it was before all of them. Where the joint batch fails, each is written
by itself, and fails by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakKeyDictionary

from langgraph.store.base import Op, Result

__all__ = ["GatheredPuts"]

Write = Callable[[Sequence[Op]], Awaitable[list[Result]]]
_Waiting = list[tuple[list[Op], "asyncio.Future[list[Result]]"]]


class GatheredPuts:
    """The batches that wait to be written, by event loop; a store may be used from several."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()
        self._tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()

    async def write(self, ops: list[Op]) -> list[Result]:
        """Write a batch, together with others that wait; what it reads."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Result]] = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append((ops, future))
        task = self._tasks.get(loop)
        if task is None or task.done():
            # It begins after whatever is ready to run now has asked for its batch.
            self._tasks[loop] = loop.create_task(self._work(waiting))
        return await future

    async def _work(self, waiting: _Waiting) -> None:
        while waiting:
            group = [(ops, future) for ops, future in waiting if not future.done()]
            waiting.clear()
            if group:
                await self._together(group)

    async def _together(self, group: _Waiting) -> None:
        try:
            results = await self._write([op for ops, _ in group for op in ops])
        except Exception as problem:
            if len(group) > 1:
                for one in group:
                    await self._together([one])
            elif not group[0][1].done():
                group[0][1].set_exception(problem)
            return
        at = 0
        for ops, future in group:
            at += len(ops)
            # Whoever asked may have been cancelled meanwhile.
            if not future.done():
                future.set_result(results[at - len(ops) : at])
