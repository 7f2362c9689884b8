"""Idempotency: a request that is repeated under its key is answered again, and applied once.

The key is the caller's and is not stored, only a hash that finds the row. Request and answer are encrypted under the
key, because a receipt names entries by id: after an erasure, an id must not be left in the clear. People number their
requests, so the key is first mixed with a pepper that is not in the database. Content is never part of it.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sqlalchemy import bindparam, insert, select

from expunge.errors import Conflict, InputError
from expunge.memory.entries import encode_payload
from expunge.memory.version import Version
from expunge.preprocessing.measurements import key_coordinates, value_numbers
from expunge.problem.problem import as_point
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import requests
from expunge.store.encryption import decrypt_request, encrypt_request, request_key_hash
from expunge.types import Rows

__all__ = ["Request", "peppered_key", "read_answers", "same_entries", "same_entry", "save_answers"]

_LONGEST_KEY = 1000
# Keys in one query: always as many, so that it is compiled once.
_AT_ONCE = 16
_PLACES = [f"hash{place}" for place in range(_AT_ONCE)]
_ANSWERS = select(requests.c.key_hash, requests.c.answer).where(
    requests.c.key_hash.in_([bindparam(name, type_=requests.c.key_hash.type) for name in _PLACES])
)
_INSERT = insert(requests)


def peppered_key(pepper: bytes, key: str) -> str:
    """An idempotency key that nobody without the pepper finds by trying."""
    return hmac.digest(pepper, b"expunge/request-key/v1\n" + key.encode("utf-8", "surrogatepass"), "sha256").hex()


@dataclass(frozen=True)
class Request:
    """What was asked, in which scope (a memory's or the store's UUID), under which peppered key.

    A refusal is an answer, too, but where the request is a part of another that is tried again.
    """

    scope: str
    key: str
    asked: dict[str, Any]
    keeps_refusals: bool = True

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

    @cached_property
    def key_hash(self) -> bytes:
        """What the row of its answer is found by."""
        return request_key_hash(self.scope, self.key)

    def earlier_answer(self, connection: CheckedConnection) -> dict[str, Any] | None:
        """The answer that was saved, or None; Conflict when the key was used for another request."""
        return self.answer_among(read_answers(connection, [self]))

    def answer_among(self, found: Mapping[bytes, bytes]) -> dict[str, Any] | None:
        """The answer among those that `read_answers` has found, or None; Conflict as `earlier_answer` raises it."""
        encrypted = found.get(self.key_hash)
        if encrypted is None:
            return None
        document = decrypt_request(self.scope, self.key, encrypted)
        if document["asked"] != self.asked:
            raise Conflict("this idempotency key was used for another request; nothing was done")
        answer: dict[str, Any] = document["answer"]
        return answer

    def save_answer(self, connection: CheckedConnection, answer: dict[str, Any]) -> None:
        """Keep the answer, in the transaction that makes it true."""
        save_answers(connection, [self.answer_row(answer)])

    def answer_row(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The row that keeps the answer, for `save_answers`."""
        encrypted = encrypt_request(self.scope, self.key, {"asked": self.asked, "answer": answer})
        return {"key_hash": self.key_hash, "answer": encrypted, "created": time.time_ns() // 1_000_000}


def save_answers(connection: CheckedConnection, rows: list[dict[str, Any]]) -> None:
    """Keep answers, in the transaction that makes them true."""
    if rows:
        connection.execute(_INSERT, rows if len(rows) > 1 else rows[0])


def read_answers(connection: CheckedConnection, asked: Iterable[Request]) -> dict[bytes, bytes]:
    """The encrypted answers to those of these requests that have one, by the hashes of their keys."""
    hashes = [request.key_hash for request in asked]
    found: dict[bytes, bytes] = {}
    for start in range(0, len(hashes), _AT_ONCE):
        part = hashes[start : start + _AT_ONCE]
        part += [part[-1]] * (_AT_ONCE - len(part))
        found.update(
            (row.key_hash, row.answer) for row in connection.rows(_ANSWERS, dict(zip(_PLACES, part, strict=True)))
        )
    return found


def same_entry(version: Version, name: str, key: Rows, value: Rows, payload: Any) -> bool:
    """Whether an entry that an earlier admission named, as far as it still exists, is the one given now."""
    slot, archived = version.slot(name), version.warranties.archive.get(name)
    if slot is not None:
        found = (version.state.gram.keys[version.entries.site[slot]], version.entries.values[slot])
        stored_payload = version.entries.payloads[slot]
    elif archived is not None:
        found, stored_payload = (archived.key, archived.value), archived.payload
    else:
        return True
    columns = version.preprocessing
    given = (
        as_point(key_coordinates(key, columns), "key", found[0].size),
        as_point(value_numbers(value, columns), "value", found[1].size),
    )
    alike = all(np.array_equal(one, other) for one, other in zip(found, given, strict=True))
    return alike and stored_payload == encode_payload(payload)


def same_entries(
    version: Version, ids: Sequence[str] | None, keys: Any, values: Any, payloads: Sequence[Any] | None
) -> bool:
    """Whether the entries that a memory was made of, as far as they still exist, are those given now."""
    names = [str(row) for row in range(len(keys))] if ids is None else ids
    told = [None] * len(names) if payloads is None else payloads
    return all(same_entry(version, name, keys[row], values[row], told[row]) for row, name in enumerate(names))
