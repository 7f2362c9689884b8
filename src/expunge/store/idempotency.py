"""Idempotency: a request that is repeated under its key is answered again, and applied once.

The key is the caller's and is not stored, only a hash that finds the row. Request and answer are sealed under the
key, because a receipt names entries by id: after an erasure, an id must not be left in the clear. People number their
requests, so the key is first mixed with a secret that is not in the database. Content is never part of it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from expunge.errors import InputError
from expunge.store.backends.tables import requests
from expunge.store.encryption import seal_request, token, unseal_request
from expunge.store.errors import Conflict

__all__ = ["Request", "strengthened"]

_MOST = 1000


def strengthened(pepper: bytes, key: str) -> str:
    """An idempotency key that nobody finds by trying, who has not the pepper."""
    return hmac.digest(pepper, b"expunge/request-key/v1\n" + key.encode("utf-8", "surrogatepass"), "sha256").hex()


@dataclass(frozen=True)
class Request:
    """What was asked, in which scope (a memory's or the store's UUID), under which key."""

    scope: str
    key: str
    asked: dict[str, Any]

    @classmethod
    def of(cls, scope: str, pepper: bytes, key: str | None, **asked: Any) -> Request | None:
        """None without a key. ``pepper`` is a secret of the store that is not in its database."""
        if key is None:
            return None
        if not isinstance(key, str) or not key or len(key) > _MOST:
            raise InputError(f"an idempotency key is a string of 1 to {_MOST} characters, not {key!r:.80}")
        try:
            key.encode()
        except UnicodeEncodeError:
            raise InputError("an idempotency key must be valid Unicode") from None
        return cls.under(scope, pepper, key, asked)

    @classmethod
    def under(cls, scope: str, pepper: bytes, key: str, asked: dict[str, Any]) -> Request:
        """A request under a key that is known to be one."""
        return cls(scope, strengthened(pepper, key), asked)

    def answered(self, connection: Connection) -> dict[str, Any] | None:
        """The earlier answer; Conflict when the key was used for another request."""
        found = select(requests.c.answer).where(requests.c.token == token(self.scope, self.key))
        sealed = connection.execute(found).scalar()
        if sealed is None:
            return None
        document = unseal_request(self.scope, self.key, bytes(sealed))
        if document["asked"] != self.asked:
            raise Conflict("this idempotency key was used for another request; nothing was done")
        answer: dict[str, Any] = document["answer"]
        return answer

    def note(self, connection: Connection, answer: dict[str, Any]) -> None:
        """Remember the answer, in the transaction that makes it true."""
        sealed = seal_request(self.scope, self.key, {"asked": self.asked, "answer": answer})
        connection.execute(insert(requests), {"token": token(self.scope, self.key), "answer": sealed})
