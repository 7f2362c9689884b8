"""Idempotency: a request that is repeated under its key is answered again, and applied once.

The key is the caller's and is not stored, only a hash that finds the row. Request and answer are encrypted under the
key, because a receipt names entries by id: after an erasure, an id must not be left in the clear. People number their
requests, so the key is first mixed with a pepper that is not in the database. Content is never part of it.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import insert, select

from expunge.errors import Conflict, InputError
from expunge.memory.entries import encode_payload
from expunge.memory.version import Version
from expunge.problem.problem import as_point
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import requests
from expunge.store.encryption import decrypt_request, encrypt_request, request_key_hash

__all__ = ["Request", "peppered_key", "same_entry"]

_LONGEST_KEY = 1000


def peppered_key(pepper: bytes, key: str) -> str:
    """An idempotency key that nobody without the pepper finds by trying."""
    return hmac.digest(pepper, b"expunge/request-key/v1\n" + key.encode("utf-8", "surrogatepass"), "sha256").hex()


@dataclass(frozen=True)
class Request:
    """What was asked, in which scope (a memory's or the store's UUID), under which peppered key."""

    scope: str
    key: str
    asked: dict[str, Any]

    @classmethod
    def of(cls, scope: str, pepper: bytes, key: str | None, **asked: Any) -> Request | None:
        """None without a key. ``pepper`` is a secret of the store that is not in its database."""
        if key is None:
            return None
        if not isinstance(key, str) or not key or len(key) > _LONGEST_KEY:
            raise InputError(f"an idempotency key is a string of 1 to {_LONGEST_KEY} characters, not {key!r:.80}")
        try:
            key.encode()
        except UnicodeEncodeError:
            raise InputError("an idempotency key must be valid Unicode") from None
        return cls(scope, peppered_key(pepper, key), asked)

    def earlier_answer(self, connection: CheckedConnection) -> dict[str, Any] | None:
        """The answer that was saved, or None; Conflict when the key was used for another request."""
        key_hash = request_key_hash(self.scope, self.key)
        encrypted = connection.value(select(requests.c.answer).where(requests.c.key_hash == key_hash))
        if encrypted is None:
            return None
        document = decrypt_request(self.scope, self.key, encrypted)
        if document["asked"] != self.asked:
            raise Conflict("this idempotency key was used for another request; nothing was done")
        answer: dict[str, Any] = document["answer"]
        return answer

    def save_answer(self, connection: CheckedConnection, answer: dict[str, Any]) -> None:
        """Keep the answer, in the transaction that makes it true."""
        encrypted = encrypt_request(self.scope, self.key, {"asked": self.asked, "answer": answer})
        row = {
            "key_hash": request_key_hash(self.scope, self.key),
            "answer": encrypted,
            "created": time.time_ns() // 1_000_000,
        }
        connection.execute(insert(requests), row)


def same_entry(version: Version, name: str, key: npt.ArrayLike, value: npt.ArrayLike, payload: Any) -> bool:
    """Whether the entry that an earlier admission named, as far as it still exists, is the one given now."""
    slot, archived = version.slot(name), version.warranties.archive.get(name)
    if slot is not None:
        found = (version.state.gram.keys[version.entries.site[slot]], version.entries.values[slot])
        stored_payload = version.entries.payloads[slot]
    elif archived is not None:
        found, stored_payload = (archived.key, archived.value), archived.payload
    else:
        return True
    given = as_point(key, "key", found[0].size), as_point(value, "value", found[1].size)
    alike = all(np.array_equal(one, other) for one, other in zip(found, given, strict=True))
    return alike and stored_payload == encode_payload(payload)
