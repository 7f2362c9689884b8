"""Idempotency: a request that is repeated under its key is answered again, and applied once.

The key is the caller's and is not stored, only a hash that finds the row. Request and answer are sealed under the
key, because a receipt names entries by id: after an erasure, an id must not be left in the clear. Content is never
part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from expunge.errors import InputError
from expunge.store.errors import Conflict
from expunge.store.schema import requests
from expunge.store.seal import seal_request, token, unseal_request

__all__ = ["Request"]

_MOST = 1000


@dataclass(frozen=True)
class Request:
    """What was asked, in which scope (a memory's or the store's UUID), under which key."""

    scope: str
    key: str
    asked: dict[str, Any]

    @classmethod
    def of(cls, scope: str, key: str | None, **asked: Any) -> Request | None:
        """None without a key."""
        if key is None:
            return None
        if not isinstance(key, str) or not key or len(key) > _MOST:
            raise InputError(f"an idempotency key is a string of 1 to {_MOST} characters, not {key!r:.80}")
        try:
            key.encode()
        except UnicodeEncodeError:
            raise InputError("an idempotency key must be valid Unicode") from None
        return cls(scope, key, asked)

    def answered(self, connection: Connection) -> dict[str, Any] | None:
        """The earlier answer; Conflict when the key was used for another request."""
        sealed = connection.execute(
            select(requests.c.answer).where(requests.c.token == token(self.scope, self.key))
        ).scalar()
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
