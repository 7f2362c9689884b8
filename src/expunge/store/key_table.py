"""The public keys under which a store's receipts and heads verify: those in use, spare ones, and revoked ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import delete, insert, select

from expunge.errors import InputError, VerificationError
from expunge.ledger.event import KeyUse
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import keys

__all__ = ["StoreKey", "read_keys", "write_keys"]


@dataclass(frozen=True)
class StoreKey:
    """A public key of a store, what it is for, and whether it still signs."""

    use: KeyUse
    key: VerifyingKey
    revoked: bool = False


def read_keys(connection: CheckedConnection) -> tuple[StoreKey, ...]:
    """All keys, in the order in which they were added."""
    rows = connection.rows(select(keys).order_by(keys.c.number))
    if [row.number for row in rows] != list(range(1, len(rows) + 1)) or any(row.revoked not in (0, 1) for row in rows):
        raise VerificationError("the rows of the store's keys were altered")
    try:
        return tuple(
            StoreKey(
                cast(KeyUse, row.purpose), VerifyingKey(row.public_key, KeyAlgorithm(row.algorithm)), bool(row.revoked)
            )
            for row in rows
        )
    except (InputError, ValueError) as problem:
        raise VerificationError(f"the store has a key that is none: {problem}") from None


def write_keys(connection: CheckedConnection, known: Sequence[StoreKey]) -> None:
    """Replace all keys."""
    connection.execute(delete(keys))
    rows = [
        {
            "number": number,
            "purpose": one.use,
            "algorithm": one.key.algorithm.value,
            "public_key": one.key.raw,
            "revoked": int(one.revoked),
        }
        for number, one in enumerate(known, start=1)
    ]
    connection.execute(insert(keys), rows)
