"""Keys of a store that come and go: each by an event in the ledger, which a key that is valid signs.

Format: ``docs/formats/signing-key.md``, "Keys in the ledger"; guide: ``docs/guides/lost-signing-key.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from expunge.errors import InputError
from expunge.ledger.encoding import encode_base64
from expunge.ledger.event import EVENT_TYPE, Event, KeyUse, parse_event
from expunge.ledger.statement import Statement, Subject
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey
from expunge.store.backends.database import Database
from expunge.store.identity import Identity
from expunge.store.key_table import StoreKey, read_keys, write_keys
from expunge.store.ledger_tables import Leaf, LedgerWriter
from expunge.verify.key_timeline import KeyTimeline, added_key

__all__ = ["RevocationReason", "add_key", "newest_keys", "revoke_key", "started"]

RevocationReason = Literal["rotated", "lost", "compromised"]


def add_key(database: Database, identity: Identity, key: VerifyingKey, use: KeyUse) -> tuple[Leaf, Identity]:
    """Record that a key may sign from the next leaf on; it need not sign at once."""
    if use == "heads" and key.algorithm is not KeyAlgorithm.ED25519:
        raise InputError("heads are signed with Ed25519; this key is of another kind", code="head-key-needed")
    with database.writing(f"{identity.uuid} keys") as connection:
        ledger_writer = LedgerWriter(connection)
        keys = read_keys(connection)
        if any((known.use, known.key) == (use, key) for known in keys):
            raise InputError(f"{key.key_id} is or was a key for {use} of this store; a key is added once")
        leaf = ledger_writer.append_event(
            identity,
            "key_added",
            None,
            Subject("key", key.digest),
            keyid=key.digest,
            key=encode_base64(key.raw),
            algorithm=key.algorithm.value,
            use=use,
        )
        keys = (*keys, StoreKey(use, key))
        write_keys(connection, keys)
        ledger_writer.flush()
        connection.commit()
    return leaf, replace(identity, keys=keys)


def revoke_key(
    database: Database, identity: Identity, key: VerifyingKey, use: KeyUse, reason: RevocationReason
) -> tuple[Leaf, Identity]:
    """Record that a key signs no later leaf, or head. The store must be open with another one."""
    own = identity.signing_key if use == "receipts" else identity.head_key
    if own.public == key:
        raise InputError("the store is open with this key; open it with the key that takes its place, and revoke then")
    if reason not in ("rotated", "lost", "compromised"):
        raise InputError(f"a key is revoked because it was rotated, lost or compromised, not {reason!r}")
    with database.writing(f"{identity.uuid} keys") as connection:
        ledger_writer = LedgerWriter(connection)
        keys = read_keys(connection)
        if StoreKey(use, key) not in keys:
            raise InputError(f"{key.key_id} is no valid key for {use} of this store (expunge key list)")
        subject = Subject("key", key.digest)
        leaf = ledger_writer.append_event(
            identity, "key_revoked", None, subject, keyid=key.digest, use=use, reason=reason
        )
        keys = tuple(replace(known, revoked=True) if known == StoreKey(use, key) else known for known in keys)
        write_keys(connection, keys)
        ledger_writer.flush()
        connection.commit()
    return leaf, replace(identity, keys=keys)


def started(keys: Iterable[StoreKey], statements: Iterable[Statement]) -> KeyTimeline:
    """The timeline of a ledger before its first leaf: of all its keys, those that no event has added."""
    added = {
        (event.facts["use"], added_key(0, event)) for event in _key_events(statements) if event.kind == "key_added"
    }
    first = [known for known in keys if (known.use, known.key) not in added]
    return KeyTimeline.of(
        [known.key for known in first if known.use == "receipts"],
        [known.key for known in first if known.use == "heads"],
    )


def newest_keys(keys: tuple[StoreKey, ...], statements: list[Statement]) -> tuple[StoreKey, ...]:
    """The keys after the whole of a ledger, of which some are known."""
    timeline = started(keys, statements)
    for event in _key_events(statements):
        timeline.follow(0, event)
    valid = {(use, key) for (use, _), key in timeline.valid.items()}
    uses: tuple[KeyUse, ...] = ("receipts", "heads")
    known = dict.fromkeys((one.use, one.key) for one in keys)
    known |= dict.fromkeys((use, key) for use in uses for key in timeline.keys(use, ever=True))
    return tuple(StoreKey(use, key, (use, key) not in valid) for use, key in known)


def _key_events(statements: Iterable[Statement]) -> list[Event]:
    events = (parse_event(one) for one in statements if one.predicate_type == EVENT_TYPE)
    return [event for event in events if event.kind in ("key_added", "key_revoked")]
