"""What a store keeps for a limited time: answers to requests, and jobs, seven days; tokens of a memory, while it lasts.

Answers and jobs are encrypted under keys that are not in the database. They may hold ids, a subject, or the salt of an
erasure's summary, so they do not stay longer than a retried request needs them. Rows that have expired are deleted
when a store is opened, and from time to time by the service.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table, delete, func, select

from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import jobs, memories, requests, tokens

__all__ = ["KEPT_SECONDS", "count_expired", "delete_expired"]

KEPT_SECONDS = 7 * 86_400.0


def count_expired(connection: CheckedConnection, now: float) -> int:
    """How many rows are to be deleted; ``now`` is in seconds since 1970."""
    conditions = _expired(now)
    counts = [select(func.count()).select_from(table).where(expired) for table, expired in conditions]
    return sum(connection.value(count) for count in counts)


def delete_expired(connection: CheckedConnection, now: float) -> int:
    """Delete these rows, in the caller's transaction; return how many there were."""
    return sum(connection.execute(delete(table).where(expired)).rowcount for table, expired in _expired(now))


def _expired(now: float) -> list[tuple[Table, ColumnElement[bool]]]:
    oldest = int((now - KEPT_SECONDS) * 1000)
    of_dropped = tokens.c.memory.is_not(None) & tokens.c.memory.not_in(select(memories.c.name))
    return [(requests, requests.c.created < oldest), (jobs, jobs.c.created < oldest), (tokens, of_dropped)]
