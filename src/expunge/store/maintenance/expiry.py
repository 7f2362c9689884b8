"""What a store keeps for a limited time: answers to requests, and jobs, seven days; tokens of a memory, while it lasts.

Answers and jobs are encrypted under keys that are not in the database. They may hold ids, a subject, or the salt of an
erasure's summary, so they do not stay longer than a retried request needs them. Rows that have expired are deleted
when a store is opened, and from time to time by the service.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table, delete, select

from expunge.store.backends.database import Database
from expunge.store.backends.tables import jobs, memories, requests, tokens

__all__ = ["KEPT_SECONDS", "delete_expired"]

KEPT_SECONDS = 7 * 86_400.0


def delete_expired(database: Database, lock: str, now: float) -> int:
    """Delete the rows that have expired by ``now``, in seconds since 1970, under a lock; return how many there were.

    Raises VerificationError if one of them was altered, so that it stays to be found by a verification.
    """
    with database.reading() as connection:
        if not any(connection.rows(select(table).where(expired)) for table, expired in _expired(now)):
            return 0
    with database.writing(lock) as connection:
        count = sum(connection.execute(delete(table).where(expired)).rowcount for table, expired in _expired(now))
        connection.commit()
    return count


def _expired(now: float) -> list[tuple[Table, ColumnElement[bool]]]:
    oldest = int((now - KEPT_SECONDS) * 1000)
    of_dropped = tokens.c.memory.is_not(None) & tokens.c.memory.not_in(select(memories.c.name))
    return [(requests, requests.c.created < oldest), (jobs, jobs.c.created < oldest), (tokens, of_dropped)]
