"""What backups of a store still hold of what was erased from it.

An erasure does not reach backups: they hold the entry, and the salt that opens it. A scan reads each file and counts in
it the entries that the store's ledger says were erased, by commitment; with a subject's name it also counts the entries
of that subject, by their marks, whether or not they were erased.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from expunge.errors import StoreError
from expunge.ledger.merkle.tree import root_at
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, forgotten, leaves, secrets, store
from expunge.store.cases import leaf_time
from expunge.store.due_erasures import read_erasures
from expunge.store.encryption import row_mark, subject_tag
from expunge.store.identity import Identity
from expunge.store.ledger_tables import node_reader, read_frontier, read_leaf, read_leaves
from expunge.store.maintenance.erased_entries import ErasedEntries
from expunge.store.maintenance.restore import open_backup

__all__ = ["BackupScan", "scan_backups"]

Reading = Callable[[], AbstractContextManager[CheckedConnection]]


@dataclass(frozen=True)
class BackupScan:
    """One backup: it has the first ``leaves`` of the ledger, the newest of them of ``time``.

    ``entries`` counts those in the file, and ``erased`` those of them that were erased from the store since; None where
    it cannot be told because the store's ledger does not extend the backup's. ``of_subject`` counts entries of the
    subject that was asked for, and ``requested`` its erasures that waited when the backup was made; both are None
    where none was asked for.
    """

    file: str
    time: str | None
    leaves: int
    entries: int
    erased: int | None
    of_subject: int | None
    requested: int | None

    @property
    def holds_erased(self) -> bool:
        """Whether the file has an entry that was erased, or one of the subject."""
        return bool(self.erased or self.of_subject or self.requested)


def scan_backups(reading: Reading, identity: Identity, files: list[Path], subject: str | None) -> list[BackupScan]:
    """Scan each file; StoreError where one is no backup of this store.

    The store is read in short transactions: while one is open, erased secrets stay in its files.
    """
    with reading() as connection:
        erased = ErasedEntries.of(leaf.statement for leaf in read_leaves(connection))
    return [_scan(reading, identity, file, subject, erased) for file in files]


def _scan(reading: Reading, identity: Identity, file: Path, subject: str | None, erased: ErasedEntries) -> BackupScan:
    with open_backup(file) as backup:
        row = backup.first(select(store.c.uuid))
        if row is None or row.uuid != identity.uuid:
            raise StoreError(f"{file} is not a backup of this store")
        frontier = read_frontier(backup)
        with reading() as connection:
            reached = frontier.size <= read_frontier(connection).size
            extends = reached and root_at(node_reader(connection), frontier.size) == frontier.root
        last = backup.first(select(leaves.c.number).order_by(leaves.c.number.desc()).limit(1))
        time = None if last is None else leaf_time(read_leaf(backup, last.number).statement)
        found = requested = None
        if subject is not None:
            tag, found = subject_tag(identity.secret, subject), 0
            for table in (entries, forgotten):
                marks = (
                    select(table.c.mark, secrets.c.secret)
                    .join(secrets, secrets.c.number == table.c.number)
                    .where(table.c.mark.is_not(None))
                )
                for rows in backup.batches(marks):
                    found += sum(item.mark == row_mark(item.secret, tag) for item in rows)
            requested = sum(pending.subject == subject for pending in read_erasures(backup))
        return BackupScan(
            file=str(file),
            time=None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            leaves=frontier.size,
            entries=backup.value(select(func.count()).select_from(entries)),
            erased=len(erased.left_in(backup)) if extends else None,
            of_subject=found,
            requested=requested,
        )
