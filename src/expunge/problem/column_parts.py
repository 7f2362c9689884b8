"""Work on the columns of a matrix, in parts: on every core, or by the workers that `spread_over` names.

Parts do not overlap, and each column is summed within one part in one order. So a result does not depend on how many
cores or workers there are, or on which is faster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from expunge.types import Workers

__all__ = ["available_cores", "for_column_parts", "spread_over", "workers_for"]

# Columns of one part: an interrupt waits for the parts that are under way.
PART = 4096
# Kernel values from which threads are worth their start.
WORTH = 10_000_000


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)


@contextmanager
def spread_over(workers: Workers) -> Iterator[None]:
    """Have these workers make the parts of large computations that are begun within, in this thread."""
    before = _workers.set(workers)
    try:
        yield
    finally:
        _workers.reset(before)


def workers_for(columns: int, rows: int) -> Workers | None:
    """Who makes a matrix of this size in place of this process; None where nobody does, or it is too small for that."""
    return _workers.get() if columns * rows >= WORTH else None


def for_column_parts(
    work: Callable[[int, int], Any],
    columns: int,
    rows: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    part: int | None = None,
    take: Callable[[int, int, Any], None] | None = None,
) -> None:
    """Call `work` with (start, stop) for parts that cover all columns; it must release the interpreter's lock.

    `rows` is how many values of each column are made, and tells whether threads are worth it; `part` is how many
    columns a part has. `progress` is told how many columns are done, and of how many. Where `work` returns what it made
    and changes nothing, `take` is given it with its (start, stop), in this thread, and workers can do the work. What
    `work`, `take` or `progress` raises, and an interrupt, end the work once the parts under way are done.
    """
    if columns * rows < WORTH:
        made = work(0, columns)
        if take is not None:
            take(0, columns, made)
        return
    width = part or PART
    parts = [(start, min(start + width, columns)) for start in range(0, columns, width)]

    def finish(done: int, start: int, stop: int, made: Any) -> None:
        if take is not None:
            take(start, stop, made)
        if progress is not None:
            progress(min(done * width, columns), columns)

    elsewhere = None if take is None else workers_for(columns, rows)
    if elsewhere is not None:
        for done, found in enumerate(elsewhere(work, parts), 1):
            finish(done, *found)
        return
    with ThreadPoolExecutor(available_cores()) as pool:
        try:
            started = {pool.submit(work, start, stop): (start, stop) for start, stop in parts}
            for done, finished in enumerate(as_completed(started), 1):
                finish(done, *started[finished], finished.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
