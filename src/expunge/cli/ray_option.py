"""``--ray``: the workers that a command spreads its largest computations over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expunge.types import Workers

__all__ = ["workers_of"]


@contextmanager
def workers_of(address: str | None) -> Iterator[Workers | None]:
    """Workers at this address; None, and no Ray, without one. A cold fit and a check that begin within use them."""
    if address is None:
        yield None
        return
    from expunge.cluster import ray_workers
    from expunge.problem.column_parts import spread_over

    with ray_workers(address) as workers, spread_over(workers):
        yield workers
