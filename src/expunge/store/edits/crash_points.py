"""Named points in an edit at which tests can stop a process.

No hook is set in production; `crash_point` is then one comparison.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["CRASH_POINTS", "MIRROR_CRASH_POINTS", "crash_point", "set_hook"]

# In the order in which one edit passes them.
CRASH_POINTS = (
    "locked",
    "loaded",
    "solved",
    "erased",
    "entries_written",
    "records_written",
    "state_written",
    "signed",
    "ledger_written",
    "answer_saved",
    "committed",
    "log_truncated",
    "published",
)
# In the order in which one pass over a mirror passes them, around the points of its transactions.
MIRROR_CRASH_POINTS = ("mirror_claimed", "mirror_erased", "ledger_written", "committed", "mirror_written")

_hook: Callable[[str], None] | None = None


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Have `hook` called with the name of every point that is passed; None ends it."""
    global _hook
    _hook = hook


def crash_point(name: str) -> None:
    """Tell the hook, if there is one, that an edit passes this point."""
    if _hook is not None:
        _hook(name)
