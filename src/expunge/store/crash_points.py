"""Named points on the way of an edit, so that tests can stop a process at each of them.

Nothing listens in production; `reach` is then one comparison.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["POINTS", "listen", "reach"]

# In the order in which one edit passes them.
POINTS = (
    "locked",
    "loaded",
    "solved",
    "erased",
    "entered",
    "pruned",
    "stated",
    "signed",
    "logged",
    "noted",
    "committed",
    "settled",
    "published",
)

_listener: Callable[[str], None] | None = None


def listen(listener: Callable[[str], None] | None) -> None:
    """Have every point reported to `listener`; None ends it."""
    global _listener
    _listener = listener


def reach(point: str) -> None:
    """Report a point."""
    if _listener is not None:
        _listener(point)
