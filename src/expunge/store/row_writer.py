"""The rows that one edit changes: content of dropped entries out, new entries in, records of forgotten entries, state.

Nothing of an entry that stays is rewritten. Everything here happens inside one transaction, which the caller commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import bindparam, delete, insert, select, update

from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection, Database, number_parameters
from expunge.store.backends.tables import entries, forgotten, holds, memories, states
from expunge.store.edits.crash_points import crash_point
from expunge.store.encryption import Content, encrypt, encrypt_entries, new_secret, row_mark, subject_tag
from expunge.store.rows import ForgottenRows, encrypted_state, kept_slots, number_of, numbers_of, pack_record
from expunge.types import IndexArray

__all__ = ["RowWriter", "SecretChanges", "erased_ids"]

_DELETE_ENTRIES = delete(entries).where(entries.c.number == bindparam("number_"))
_DELETE_RECORDS = delete(forgotten).where(forgotten.c.number == bindparam("number_"))
_INSERTS = {table: insert(table) for table in (entries, forgotten, holds, memories, states)}
_UPDATE_STATE = (
    update(states)
    .where(states.c.memory == bindparam("memory_"))
    .values(digest=bindparam("digest_"), size=bindparam("size_"), state=bindparam("state_"))
)


def erased_ids(before: Version, after: Version) -> list[str]:
    """Ids whose content, or whose record, an edit erases."""
    names = [*before.ids, *before.warranties.archive]
    content = [name for name in names if after.slot(name) is None and name not in after.warranties.archive]
    return content + [name for name in before.warranties.forgotten if name not in after.warranties.forgotten]


class SecretChanges:
    """Secrets to be destroyed and to be written in one transaction, of one memory or of several.

    They are collected, because a backend may have to write all that remain anew.
    """

    def __init__(self, database: Database, connection: CheckedConnection) -> None:
        self._database = database
        self._connection = connection
        self.gone: list[int] = []
        self.new: dict[int, bytes] = {}

    def write(self) -> None:
        """Destroy those that go, then write the new ones."""
        if self.gone:
            self._database.destroy_secrets(self._connection, self.gone)
        self._database.insert_secrets(self._connection, self.new)
        self.gone, self.new = [], {}


class RowWriter:
    """Writes versions of one memory within one transaction.

    What `update_memory` changes of the secrets counts when the caller has called ``changes.write()``.
    """

    def __init__(
        self,
        database: Database,
        connection: CheckedConnection,
        store_secret: bytes,
        memory: int,
        changes: SecretChanges | None = None,
    ) -> None:
        self._connection = connection
        self._store_secret = store_secret
        self._memory = memory
        self.changes = SecretChanges(database, connection) if changes is None else changes
        self.erased = False

    def insert_memory(
        self, uuid: str, name: str, version: Version, commitments: dict[str, bytes] | None = None
    ) -> ForgottenRows:
        """Write a memory that was not there, given commitments of forgotten entries; return its rows of these."""
        self._insert(memories, [{"number": self._memory, "uuid": uuid, "name": name}])
        self._insert_entries(version, kept_slots(version))
        rows = self._write_records(ForgottenRows(), version, commitments or {})
        state = {"digest": bytes.fromhex(version.digest), "size": version.size, "state": encrypted_state(version, rows)}
        self._insert(states, [{"memory": self._memory, **state}])
        self.changes.write()
        return rows

    def update_memory(self, old: ForgottenRows, before: Version, after: Version) -> ForgottenRows:
        """Write the next version of a memory; return what its rows have of forgotten entries."""
        slots, old_slots = kept_slots(after), kept_slots(before)
        numbers, old_numbers = numbers_of(after, slots), numbers_of(before, old_slots)
        gone = ~np.isin(old_numbers, numbers)
        over = [number_of(digest) for name, digest in old.commitments.items() if name not in after.warranties.forgotten]
        content = old_numbers[gone].tolist()
        for statement, rows in ((_DELETE_ENTRIES, content), (_DELETE_RECORDS, over)):
            if rows:
                self._connection.execute(statement, number_parameters(rows))
        self._destroy_secrets([*content, *over])
        crash_point("erased")
        self._insert_entries(after, slots[~np.isin(numbers, old_numbers)])
        crash_point("entries_written")
        data = before.entries
        digests = {data.ids[slot] or "": bytes(data.commitments[slot]) for slot in old_slots[gone].tolist()}
        kept = self._write_records(old, after, digests)
        crash_point("records_written")
        self._connection.execute(
            _UPDATE_STATE,
            {
                "memory_": self._memory,
                "digest_": bytes.fromhex(after.digest),
                "size_": after.size,
                "state_": encrypted_state(after, kept),
            },
        )
        crash_point("state_written")
        return kept

    def delete_memory(self) -> None:
        """Delete a memory with all that it held, whether or not it can still be loaded."""
        numbers: list[int] = []
        for table in (entries, forgotten, holds):
            numbers += self._connection.values(select(table.c.number).where(table.c.memory == self._memory))
            self._connection.execute(delete(table).where(table.c.memory == self._memory))
        self._connection.execute(delete(states).where(states.c.memory == self._memory))
        self._connection.execute(delete(memories).where(memories.c.number == self._memory))
        self._destroy_secrets(numbers)
        self.changes.write()
        crash_point("erased")

    def insert_hold(self, number: int, terms: bytes) -> None:
        """Write the encrypted terms of a hold."""
        secret = new_secret()
        self.changes.new[number] = secret
        self.changes.write()
        self._insert(holds, [{"number": number, "memory": self._memory, "terms": encrypt(secret, "hold", terms)}])

    def delete_hold(self, number: int) -> None:
        """Delete a hold."""
        self._connection.execute(delete(holds).where(holds.c.number == number))
        self._destroy_secrets([number])
        self.changes.write()

    def _insert_entries(self, version: Version, slots: IndexArray) -> None:
        """Rows of entries, live or archived."""
        data, keys = version.entries, version.state.gram.keys
        archived = {entry.slot: entry.key for entry in version.warranties.archive.values()}
        new = []
        for slot in slots.tolist():
            key = archived[slot] if slot in archived else keys[data.site[slot]]
            content = Content(data.ids[slot] or "", data.subjects[slot], key, data.values[slot], data.payloads[slot])
            new.append((data.salts[slot], content))
        rows = []
        encrypted = encrypt_entries(self._store_secret, new)
        numbers = numbers_of(version, slots).tolist()
        for number, (salt, _), (mark, sealed) in zip(numbers, new, encrypted, strict=True):
            self.changes.new[number] = salt
            rows.append({"number": number, "memory": self._memory, "mark": mark, "content": sealed})
        self._insert(entries, sorted(rows, key=lambda row: row["number"]))

    def _write_records(self, old: ForgottenRows, version: Version, commitments: dict[str, bytes]) -> ForgottenRows:
        """Records of entries that are forgotten now, each under a secret of its own, given their commitments."""
        records = version.warranties.forgotten
        kept = ForgottenRows(
            {name: secret for name, secret in old.secrets.items() if name in records},
            {name: digest for name, digest in old.commitments.items() if name in records},
        )
        rows: list[dict[str, Any]] = []
        for name in records:
            if name in kept.secrets:
                continue
            digest, subject, secret = commitments[name], records[name].subject, new_secret()
            kept.secrets[name], kept.commitments[name] = secret, digest
            self.changes.new[number_of(digest)] = secret
            rows.append(
                {
                    "number": number_of(digest),
                    "memory": self._memory,
                    "mark": row_mark(secret, subject_tag(self._store_secret, subject)),
                    "record": encrypt(secret, "record", pack_record(name, subject, digest)),
                }
            )
        self._insert(forgotten, rows)
        return kept

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(_INSERTS[table], rows if len(rows) > 1 else rows[0])

    def _destroy_secrets(self, numbers: Sequence[int]) -> None:
        if numbers:
            self.erased = True
            self.changes.gone += numbers
