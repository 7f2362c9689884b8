"""What a store can answer besides the errors that every memory knows.

::

    StoreError
    ├── Conflict   the stored state, or an earlier request under the same key, is not what the caller takes it for
    │   └── Stale  it is the state: somebody has edited the memory
    └── Busy       another writer held the lock for longer than the timeout; nothing was done

Everything the database itself raises arrives as one of these or as a plain StoreError.
"""

from __future__ import annotations

from expunge.errors import StoreError

__all__ = ["Busy", "Conflict", "Stale"]


class Conflict(StoreError):
    """The stored state, or an earlier request under the same idempotency key, is not the expected one."""


class Stale(Conflict):
    """The stored state is not the expected one: somebody has edited the memory. Nothing was done."""


class Busy(StoreError):
    """Another writer held the lock for longer than the timeout. Nothing was done; try again."""
