"""The working precision of ball arithmetic.

python-flint keeps one precision for the whole process. A thread that changes it while another computes leaves that one
with fewer bits than it counts on, and a wrong precision behind: nothing false comes out of balls, but what could be
decided may not be. So whoever sets a precision holds a lock until it is set back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flint import ctx

__all__ = ["ball_precision"]

_LOCK = threading.RLock()


@contextmanager
def ball_precision(bits: int) -> Iterator[None]:
    """Compute at this precision, while no other thread sets another."""
    with _LOCK, ctx.workprec(bits):
        yield
