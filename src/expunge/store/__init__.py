"""Durable memories in SQLite or PostgreSQL, with one signed ledger; `open` opens a store or makes it.

It may import every layer below it, from attestation down to the problem, and nothing of the service or the command
line. Start with :mod:`expunge.store.stored_memory` (what one edit does), then read
:mod:`expunge.store.edits.edit_transaction`, :mod:`expunge.store.row_writer` and ``docs/formats/store.md``.
"""

from __future__ import annotations

from contextlib import suppress

from expunge.attestation.statements import Clock, utc_now
from expunge.errors import Busy, Conflict, InputError, Stale
from expunge.ledger.event import EVENT_TYPE, Event, parse_event, subject_commitment
from expunge.store.backends.connect import connect, open_identity
from expunge.store.backends.database import VacuumResult
from expunge.store.edits.edit_preview import Preview
from expunge.store.edits.signed_receipt import SignedReceipt
from expunge.store.identity import KeySource
from expunge.store.ledger_tables import Leaf
from expunge.store.legal_holds import Hold
from expunge.store.maintenance.integrity import VerifyResult
from expunge.store.maintenance.restore import RestoreResult
from expunge.store.rows import MemorySummary
from expunge.store.store import Store
from expunge.store.stored_memory import StoredMemory
from expunge.store.subject_erasure import MemoryErasure, SubjectErasure

__all__ = [
    "EVENT_TYPE",
    "Busy",
    "Conflict",
    "Event",
    "Hold",
    "Leaf",
    "MemoryErasure",
    "MemorySummary",
    "Preview",
    "RestoreResult",
    "SignedReceipt",
    "Stale",
    "Store",
    "StoredMemory",
    "SubjectErasure",
    "VacuumResult",
    "VerifyResult",
    "open",
    "parse_event",
    "subject_commitment",
]


def open(  # noqa: A001 — expunge.open is the public word
    url: str,
    signing_key: KeySource = None,
    *,
    passphrase: str | None = None,
    origin: str | None = None,
    timeout: float = 30.0,
    clock: Clock = utc_now,
) -> Store:
    """Open a store, or make it: ``sqlite:///ward.db`` or ``postgresql://user@host/database``.

    `signing_key` is a SigningKey or the path of one; for a new store a path that is not there is made. SQLite's
    default is a file beside the database, ``ward.db.key``. `passphrase` opens a key file that is encrypted, and
    encrypts one that is made. `origin` names the ledger, once; by default it is derived from the store's UUID.
    `timeout` is how long an edit waits for another writer, in seconds, before it gives up with `Busy`.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 86_400:
        raise InputError(f"timeout must be a number of seconds, not {timeout!r}")
    database, default_key = connect(url, float(timeout))
    try:
        identity = open_identity(database, signing_key, default_key, passphrase, origin, clock)
        store = Store(database, identity)
        # A writer who is at work does not keep a store from being opened; the service tries again.
        with suppress(Busy):
            store.delete_expired()
    except BaseException:
        database.engine.dispose()
        raise
    return store
