"""The rows that one edit changes: content of dropped entries out, new entries in, records, anchors, state.

Nothing of an entry that stays is rewritten. Everything here happens inside one transaction, which the caller commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import bindparam, delete, insert, select, update

from expunge.certificates.warranty import Record
from expunge.errors import StoreError
from expunge.memory.version import Version
from expunge.store.backends.database import CheckedConnection, Database, number_parameters
from expunge.store.backends.tables import anchors, entries, holds, memories, pruned, secrets, states
from expunge.store.edits.crash_points import crash_point
from expunge.store.encryption import Content, encrypt, encrypt_entries, new_secret, row_mark, subject_tag
from expunge.store.ledger_tables import LedgerWriter
from expunge.store.rows import MemoryAttributes, RowNumbers, pack_anchor, pack_record, pack_state
from expunge.types import IndexArray

__all__ = ["RowWriter", "erased_ids"]

_DELETE_ENTRIES = delete(entries).where(entries.c.number == bindparam("number_"))
_DELETE_RECORDS = delete(pruned).where(pruned.c.number == bindparam("number_"))
_INSERTS = {table: insert(table) for table in (anchors, entries, holds, memories, pruned, secrets, states)}
_UPDATE_SECRET = update(secrets).where(secrets.c.number == bindparam("number_")).values(secret=bindparam("secret_"))
_UPDATE_RECORD = (
    update(pruned)
    .where(pruned.c.number == bindparam("number_"))
    .values(entry=bindparam("entry_"), mark=bindparam("mark_"), record=bindparam("record_"))
)
_UPDATE_ANCHOR = (
    update(anchors)
    .where(anchors.c.memory == bindparam("memory_"), anchors.c.number == bindparam("number_"))
    .values(weights=bindparam("weights_"))
)
_UPDATE_STATE = (
    update(states)
    .where(states.c.memory == bindparam("memory_"))
    .values(edit=bindparam("edit_"), digest=bindparam("digest_"), size=bindparam("size_"), state=bindparam("state_"))
)


def erased_ids(before: Version, after: Version) -> list[str]:
    """Ids whose content, or whose record, an edit erases."""
    archive, records = after.warranties.archive, after.warranties.records
    live = [name for name in _ids_at(before, _gone_rows(before, after)) if name not in archive]
    pruned_before = [name for name in before.warranties.records if name not in records and after.slot(name) is None]
    return [*live, *pruned_before]


class RowWriter:
    """Writes versions of one memory within one transaction."""

    def __init__(
        self,
        database: Database,
        connection: CheckedConnection,
        ledger_writer: LedgerWriter,
        store_secret: bytes,
        memory: int,
    ) -> None:
        self._database = database
        self._connection = connection
        self._ledger_writer = ledger_writer
        self._store_secret = store_secret
        self._memory = memory
        # New secrets are written together, in order: SQLite only ever appends to their table.
        self._new_secrets: dict[int, bytes] = {}
        self.erased = False

    def insert_memory(
        self,
        uuid: str,
        name: str,
        version: Version,
        attributes: MemoryAttributes,
        forgotten: Mapping[str, bytes] | None = None,
    ) -> RowNumbers:
        """Write a memory that was not there; return the numbers of its rows."""
        self._insert(memories, [{"number": self._memory, "uuid": uuid, "name": name}])
        none = np.zeros(0, dtype=np.int64)
        state_secret = self._ledger_writer.allocate_numbers(1)
        numbers = RowNumbers(state_secret, none, none, forgotten=dict(forgotten or {}))
        numbers = self._insert_live(numbers, version, version.slots, none)
        numbers = self._write_records(self._insert_archived(numbers, version), version.warranties.records, version)
        numbers = self._write_anchors(numbers, version, set(version.warranties.anchors), ())
        state, self._new_secrets[numbers.state] = self._encrypt("state", pack_state(version, attributes))
        row = {
            "memory": self._memory,
            "edit": version.edit,
            "digest": bytes.fromhex(version.digest),
            "size": version.size,
        }
        self._insert(states, [row | {"secret": numbers.state, "state": state}])
        self._insert_secrets()
        return numbers

    def update_memory(
        self, old: RowNumbers, before: Version, after: Version, attributes: MemoryAttributes
    ) -> RowNumbers:
        """Write the next version of a memory; return the numbers of its rows."""
        if old.entries.size != before.size:
            raise StoreError("the loaded memory is not the one that is stored; nothing was written")
        gone = _gone_rows(before, after)
        kept = np.ones(before.size, dtype=bool)
        kept[gone] = False
        staying = np.count_nonzero(kept)
        numbers = self._erase_gone(old, before, after, gone)
        crash_point("erased")
        numbers = replace(numbers, entries=old.entries[kept], sites=old.sites[kept])
        numbers = self._insert_live(numbers, after, after.slots[staying:], after.sites[:staying])
        crash_point("entries_written")
        was, now = before.warranties, after.warranties
        changed = {name: record for name, record in now.records.items() if was.records.get(name) is not record}
        numbers = self._write_records(numbers, changed, after)
        changed_anchors = {
            number
            for number, anchor in now.anchors.items()
            if gone.size
            or number not in was.anchors
            or anchor.alpha is not was.anchors[number].alpha
            or anchor.similarity is not was.anchors[number].similarity
        }
        gone_anchors = [number for number in was.anchors if number not in now.anchors]
        numbers = self._write_anchors(numbers, after, changed_anchors, gone_anchors)
        crash_point("records_written")
        state, secret = self._encrypt("state", pack_state(after, attributes))
        self._connection.execute(_UPDATE_SECRET, {"number_": numbers.state, "secret_": secret})
        self._connection.execute(
            _UPDATE_STATE,
            {
                "memory_": self._memory,
                "edit_": after.edit,
                "digest_": bytes.fromhex(after.digest),
                "size_": after.size,
                "state_": state,
            },
        )
        self._insert_secrets()
        crash_point("state_written")
        return numbers

    def delete_memory(self) -> None:
        """Delete a memory with all that it held, whether or not it can still be loaded."""
        numbers: list[int] = []
        for column in (entries.c.number, pruned.c.number, anchors.c.secret, holds.c.number, states.c.secret):
            table = column.table
            numbers += self._connection.values(select(column).where(table.c.memory == self._memory))
            self._connection.execute(delete(table).where(table.c.memory == self._memory))
        self._connection.execute(delete(memories).where(memories.c.number == self._memory))
        self._destroy_secrets(numbers)
        crash_point("erased")

    def insert_hold(self, terms: bytes) -> int:
        """Write the encrypted terms of a hold; return its number."""
        number = self._ledger_writer.allocate_numbers(1)
        encrypted, self._new_secrets[number] = self._encrypt("hold", terms)
        self._insert_secrets()
        self._insert(holds, [{"number": number, "memory": self._memory, "terms": encrypted}])
        return number

    def delete_hold(self, number: int) -> None:
        """Delete a hold."""
        self._connection.execute(delete(holds).where(holds.c.number == number))
        self._destroy_secrets([number])

    def _erase_gone(self, numbers: RowNumbers, before: Version, after: Version, gone: IndexArray) -> RowNumbers:
        """Content of entries that are neither live nor archived any more, and records that are over."""
        archive, records = after.warranties.archive, after.warranties.records
        rows_of_ids = list(zip(_ids_at(before, gone), gone.tolist(), strict=True))
        moved = {name: int(numbers.entries[row]) for name, row in rows_of_ids}
        archived = numbers.archived | {name: number for name, number in moved.items() if name in archive}
        # An archived entry that comes back gets a row of its own, at the end.
        content = [number for name, number in moved.items() if name not in archive]
        content += [archived.pop(name) for name in list(archived) if name not in archive]
        over = [number for name, number in numbers.pruned.items() if name not in records]
        for statement, rows in ((_DELETE_ENTRIES, content), (_DELETE_RECORDS, over)):
            if rows:
                self._connection.execute(statement, number_parameters(rows))
        self._destroy_secrets([*content, *over])
        forgotten = {name: digest for name, digest in numbers.forgotten.items() if name in records}
        for name, row in rows_of_ids:
            if name in records and name not in archive:
                forgotten[name] = bytes(before.entries.commitments[before.slots[row]])
        left = {name: number for name, number in numbers.pruned.items() if name in records}
        return replace(numbers, archived=archived, pruned=left, forgotten=forgotten)

    def _insert_live(
        self, numbers: RowNumbers, version: Version, new_slots: IndexArray, known_sites: IndexArray
    ) -> RowNumbers:
        """New live entries, after all that are there."""
        if new_slots.size == 0:
            return numbers
        first = self._ledger_writer.allocate_numbers(new_slots.size)
        data, keys = version.entries, version.state.gram.keys
        number_of_site: dict[int, int] = dict(zip(known_sites.tolist(), numbers.sites.tolist(), strict=True))
        new, sites = [], []
        for number, slot in enumerate(new_slots.tolist(), first):
            site = int(data.site[slot])
            sites.append(number_of_site.setdefault(site, number))
            content = Content(
                data.ids[slot] or "", data.subjects[slot], keys[site], data.values[slot], data.payloads[slot]
            )
            new.append((data.salts[slot], content))
        self._insert_entries(first, sites, new)
        return replace(
            numbers,
            entries=np.concatenate([numbers.entries, np.arange(first, first + new_slots.size)]),
            sites=np.concatenate([numbers.sites, np.array(sites, dtype=np.int64)]),
        )

    def _insert_archived(self, numbers: RowNumbers, version: Version) -> RowNumbers:
        """Archived entries of a memory that is written for the first time; each is a site by itself."""
        archive = version.warranties.archive
        first = self._ledger_writer.allocate_numbers(len(archive))
        new = [
            (kept.salt, Content(name, kept.subject, kept.key, kept.value, kept.payload))
            for name, kept in archive.items()
        ]
        self._insert_entries(first, range(first, first + len(archive)), new)
        return replace(numbers, archived={name: number for number, name in enumerate(archive, first)})

    def _insert_entries(self, first: int, sites: Sequence[int], new: Sequence[tuple[bytes, Content]]) -> None:
        """Rows of entries, given with their salts, numbered from `first` on."""
        rows = []
        encrypted = encrypt_entries(self._store_secret, new)
        for number, (site, (salt, _), (mark, content)) in enumerate(zip(sites, new, encrypted, strict=True), first):
            self._new_secrets[number] = salt
            rows.append({"number": number, "memory": self._memory, "site": site, "mark": mark, "content": content})
        self._insert(entries, rows)

    def _write_records(self, numbers: RowNumbers, changed: Mapping[str, Record], version: Version) -> RowNumbers:
        """Records of pruned entries that are new or have changed; each is encrypted under a secret of its own."""
        if not changed:
            return numbers
        site_numbers = np.zeros(version.state.sites, dtype=np.int64)
        site_numbers[version.sites] = numbers.sites
        new = [name for name in changed if name not in numbers.pruned]
        first = self._ledger_writer.allocate_numbers(len(new))
        pruned_numbers = numbers.pruned | {name: number for number, name in enumerate(new, first)}
        rows: list[dict[str, Any]] = []
        updates: list[dict[str, Any]] = []
        new_secrets: list[dict[str, Any]] = []
        for name, record in changed.items():
            number = pruned_numbers[name]
            plain = pack_record(name, record, site_numbers, numbers.forgotten.get(name))
            encrypted, secret = self._encrypt("record", plain)
            mark = row_mark(secret, subject_tag(self._store_secret, record.subject))
            entry = numbers.archived[name] if name in version.warranties.archive else None
            if name in numbers.pruned:
                updates.append({"number_": number, "entry_": entry, "mark_": mark, "record_": encrypted})
                new_secrets.append({"number_": number, "secret_": secret})
            else:
                self._new_secrets[number] = secret
                row = {"number": number, "memory": self._memory, "entry": entry, "mark": mark, "record": encrypted}
                rows.append(row)
        self._insert(pruned, rows)
        if updates:
            self._connection.execute(_UPDATE_SECRET, new_secrets)
            self._connection.execute(_UPDATE_RECORD, updates)
        return replace(numbers, pruned=pruned_numbers)

    def _write_anchors(
        self, numbers: RowNumbers, version: Version, changed: set[int], gone: Sequence[int]
    ) -> RowNumbers:
        """Anchors that are new or have changed, and those that nothing refers to any more."""
        known = dict(numbers.anchors)
        for number in gone:
            self._connection.execute(
                delete(anchors).where(anchors.c.memory == self._memory, anchors.c.number == number)
            )
            self._destroy_secrets([known.pop(number)])
        for number in sorted(changed):
            weights, secret = self._encrypt("anchor", pack_anchor(version.warranties.anchors[number], version))
            if number in known:
                self._connection.execute(_UPDATE_SECRET, {"number_": known[number], "secret_": secret})
                self._connection.execute(
                    _UPDATE_ANCHOR, {"memory_": self._memory, "number_": number, "weights_": weights}
                )
            else:
                known[number] = self._ledger_writer.allocate_numbers(1)
                self._new_secrets[known[number]] = secret
                row = {"memory": self._memory, "number": number, "secret": known[number], "weights": weights}
                self._insert(anchors, [row])
        return replace(numbers, anchors=known)

    def _insert_secrets(self) -> None:
        new = sorted(self._new_secrets.items())
        self._insert(secrets, [{"number": number, "secret": secret} for number, secret in new])
        self._new_secrets.clear()

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(_INSERTS[table], rows if len(rows) > 1 else rows[0])

    def _destroy_secrets(self, numbers: Sequence[int]) -> None:
        if numbers:
            self.erased = True
            self._database.destroy_secrets(self._connection, numbers)

    @staticmethod
    def _encrypt(purpose: str, plain: bytes) -> tuple[bytes, bytes]:
        """Ciphertext, and the new secret that it is under."""
        secret = new_secret()
        return encrypt(secret, purpose, plain), secret


def _gone_rows(before: Version, after: Version) -> IndexArray:
    """Rows of `before` that are not live in `after`."""
    if after.entries is before.entries:
        return np.flatnonzero(~after.alive[before.slots])
    staying = set(_ids_at(after, np.arange(after.size)))
    names = _ids_at(before, np.arange(before.size))
    return np.array([row for row, name in enumerate(names) if name not in staying], dtype=np.int64)


def _ids_at(version: Version, rows: IndexArray) -> list[str]:
    ids = version.entries.ids
    return [ids[slot] or "" for slot in version.slots[rows].tolist()]
