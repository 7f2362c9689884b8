"""Durable memories in SQLite or PostgreSQL, with one signed ledger; `open` opens a store or makes it.

It may import every layer below it, from attestation down to the problem, and nothing of the service or the command
line. Start with :mod:`expunge.store.stored_memory` (what one edit does), then read
:mod:`expunge.store.edits.edit_transaction`, :mod:`expunge.store.row_writer` and ``docs/formats/store.md``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from expunge.attestation.statements import Clock, utc_now
from expunge.errors import Busy, Conflict, ExpungeError, InputError, Stale, VerificationError
from expunge.ledger.event import EVENT_TYPE, Event, actor_commitment, case_commitment, parse_event, subject_commitment
from expunge.store.backends.connect import connect, open_identity
from expunge.store.backends.database import VacuumResult
from expunge.store.cases import Case
from expunge.store.derivations import DerivedEntry
from expunge.store.due_erasures import PendingErasure
from expunge.store.edits.edit_preview import Preview
from expunge.store.edits.signed_receipt import SignedReceipt
from expunge.store.erasure_summary import JointErasure, MemoryErasure
from expunge.store.identity import KeySource, KeySources
from expunge.store.joint_erasure import JointPreview
from expunge.store.key_table import StoreKey
from expunge.store.ledger_tables import Leaf
from expunge.store.legal_holds import Hold
from expunge.store.memory_budget import byte_count
from expunge.store.partial_reads import StateSummary
from expunge.store.retention import Sweeper
from expunge.store.rows import MemorySummary
from expunge.store.store import Store
from expunge.store.stored_memory import StoredMemory
from expunge.store.subject_erasure import SubjectErasure, SubjectPreview
from expunge.store.subject_search import LookAlike, SubjectSearch, Unsearched

if TYPE_CHECKING:
    from expunge.store.maintenance.backup_scan import BackupScan
    from expunge.store.maintenance.integrity import VerifyResult
    from expunge.store.maintenance.restore import RestoreResult
    from expunge.store.subject_export import ExportedEntry, ExportedLeaf, SubjectExport

__all__ = [
    "EVENT_TYPE",
    "BackupScan",
    "Busy",
    "Case",
    "Conflict",
    "DerivedEntry",
    "Event",
    "ExportedEntry",
    "ExportedLeaf",
    "Hold",
    "JointErasure",
    "JointPreview",
    "Leaf",
    "LookAlike",
    "MemoryErasure",
    "MemorySummary",
    "PendingErasure",
    "Preview",
    "RestoreResult",
    "SignedReceipt",
    "Stale",
    "StateSummary",
    "Store",
    "StoreKey",
    "StoredMemory",
    "SubjectErasure",
    "SubjectExport",
    "SubjectPreview",
    "SubjectSearch",
    "Sweeper",
    "Unsearched",
    "VacuumResult",
    "VerifyResult",
    "actor_commitment",
    "byte_count",
    "case_commitment",
    "open",
    "parse_event",
    "subject_commitment",
]

# Loaded when first asked for: most commands need none of it.
_LATER = {
    "BackupScan": "expunge.store.maintenance.backup_scan",
    "ExportedEntry": "expunge.store.subject_export",
    "ExportedLeaf": "expunge.store.subject_export",
    "RestoreResult": "expunge.store.maintenance.restore",
    "SubjectExport": "expunge.store.subject_export",
    "VerifyResult": "expunge.store.maintenance.integrity",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open(  # noqa: A001 — expunge.open is the public word
    url: str,
    signing_key: KeySource = None,
    *,
    head_key: KeySource = None,
    pepper: str | os.PathLike[str] | None = None,
    passphrase: str | None = None,
    origin: str | None = None,
    timeout: float = 30.0,
    clock: Clock = utc_now,
    carry_out: bool = True,
    memory_budget: int | str | None = None,
) -> Store:
    """Open a store, or make it: ``sqlite:///ward.db`` or ``postgresql://user@host/database``.

    `signing_key` signs receipts: a path, the URI of a key in a token or service (`expunge.ledger.signer_uri`), or a
    signer; for a new store a path that is not there is made. SQLite's default is a file beside the database,
    ``ward.db.key``. `head_key` signs heads, where `signing_key` is not an Ed25519 key; `pepper` is the file of the
    store's pepper, needed where the signing key is in no file (SQLite: ``ward.db.pepper``). `passphrase` opens a key
    file that is encrypted, and encrypts one that is made. `origin` names the ledger, once; by default it is derived
    from the store's UUID. `timeout` is how long an edit waits for another writer, in seconds, before it gives up with
    `Busy`. Erasures that were requested with a delay and are due are carried out first, unless `carry_out` is false.

    `memory_budget` is how many bytes of this process loaded memories may take, as a number or as in ``"3G"``; the least
    recently used are let go beyond it, and loaded again when they are next used. By default all stay.
    """
    budget = byte_count(memory_budget)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 86_400:
        raise InputError(f"timeout must be a number of seconds, not {timeout!r}")
    database, default_key = connect(url, float(timeout))
    try:
        beside = None if default_key is None else default_key.with_suffix(".pepper")
        sources = KeySources(signing_key, head_key, pepper, passphrase, default_key, beside)
        identity = open_identity(database, sources, origin, clock)
        store = Store(database, identity, budget)
        # Neither a writer who is at work nor a row that was altered keeps a store from being opened.
        with suppress(Busy, VerificationError):
            store.delete_expired()
        # What keeps one of them from it, `Store.carry_out_erasures` and the service say.
        with suppress(ExpungeError):
            if carry_out:
                store.carry_out_erasures()
    except BaseException:
        database.engine.dispose()
        raise
    return store
