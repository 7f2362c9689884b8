"""Names that must not come back for a while, because what they named was erased in another system.

A writer that began before an erasure may write after it, and restore what was erased. A tombstone refuses this writer.
It is a hash of the name under the store's pepper, which is not in the database, and a sealed time when it ends. It is
kept with the answers to requests (:mod:`expunge.store.maintenance.expiry`), which are deleted when they are old, and it
is deleted with them after its end. Until then whoever has the database and the pepper can confirm a guess at the name.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, insert

from expunge.errors import InputError
from expunge.store.backends.tables import requests
from expunge.store.edits.idempotency import Request
from expunge.store.encryption import encrypt_request, request_key_hash
from expunge.store.maintenance.expiry import KEPT_SECONDS
from expunge.store.store import Store

__all__ = ["LONGEST", "check_span", "find_tombstone", "write_tombstones"]

LONGEST = timedelta(seconds=KEPT_SECONDS)
_ASKED = {"verb": "tombstone"}


def check_span(span: timedelta) -> timedelta:
    """How long tombstones stay: not below zero, and at most as long as answers to requests are kept."""
    if not isinstance(span, timedelta) or not timedelta(0) <= span <= LONGEST:
        raise InputError(f"names are refused for a time span from 0 to {LONGEST.days} days, not {span!r}")
    return span


def write_tombstones(store: Store, scope: str, names: Iterable[str], span: timedelta) -> datetime:
    """Refuse names for a time span from now; return when it ends. A tombstone that ends later stays as it is.

    ``scope`` says what the names name: the same name in another scope is another one.
    """
    end = time.time() + check_span(span).total_seconds()
    with store.writing("tombstones") as connection:
        for name in dict.fromkeys(names) if span else ():
            request = _request(store, scope, name)
            earlier = request.earlier_answer(connection)
            if earlier is None or earlier["until"] < end:
                key_hash = request_key_hash(scope, request.key)
                sealed = encrypt_request(scope, request.key, {"asked": _ASKED, "answer": {"until": end}})
                # Old enough at its end to be deleted then.
                created = int((end - KEPT_SECONDS) * 1000)
                connection.execute(delete(requests).where(requests.c.key_hash == key_hash))
                connection.execute(insert(requests), {"key_hash": key_hash, "answer": sealed, "created": created})
        connection.commit()
    return datetime.fromtimestamp(end, UTC)


def find_tombstone(store: Store, scope: str, name: str) -> datetime | None:
    """When the tombstone of a name ends; None where it has none, or that has ended."""
    with store.reading() as connection:
        answer = _request(store, scope, name).earlier_answer(connection)
    if answer is None or answer["until"] <= time.time():
        return None
    return datetime.fromtimestamp(answer["until"], UTC)


def _request(store: Store, scope: str, name: str) -> Request:
    return Request(scope, store.peppered_key(f"tombstone\n{name}"), _ASKED)
