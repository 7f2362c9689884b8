"""The rows that one edit changes: content of dropped entries out, new entries in, records, anchors, state.

Nothing of an entry that stays is rewritten. Everything here happens inside one transaction, which the caller commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from expunge.certificates.warranty import Record
from expunge.errors import StoreError
from expunge.memory.version import View
from expunge.store.backends.database import Database, each
from expunge.store.backends.tables import anchors, entries, holds, memories, pruned, secrets, states
from expunge.store.crash_points import reach
from expunge.store.encryption import Content, new_secret, seal, seal_content, subject_tag, tag_mark
from expunge.store.ledger_tables import Head
from expunge.store.rows import Facts, Numbering, pack_anchor, pack_record, pack_state
from expunge.types import IndexArray

__all__ = ["Pen", "erased_content"]

_ERASE_ENTRIES = delete(entries).where(entries.c.number == bindparam("number_"))
_ERASE_RECORDS = delete(pruned).where(pruned.c.number == bindparam("number_"))
_INSERTS = {table: insert(table) for table in (anchors, entries, holds, memories, pruned, secrets, states)}
_RENEW = update(secrets).where(secrets.c.number == bindparam("number_")).values(secret=bindparam("secret_"))
_RECORD = (
    update(pruned)
    .where(pruned.c.number == bindparam("number_"))
    .values(entry=bindparam("entry_"), mark=bindparam("mark_"), record=bindparam("record_"))
)
_ANCHOR = (
    update(anchors)
    .where(anchors.c.memory == bindparam("memory_"), anchors.c.number == bindparam("number_"))
    .values(weights=bindparam("weights_"))
)
_STATE = (
    update(states)
    .where(states.c.memory == bindparam("memory_"))
    .values(edit=bindparam("edit_"), digest=bindparam("digest_"), size=bindparam("size_"), state=bindparam("state_"))
)


def erased_content(before: View, after: View) -> list[str]:
    """Ids whose content, or whose last trace, an edit destroys."""
    was, archive = before.warranties, after.warranties.archive
    live = [name for name in _names(before, _gone(before, after)) if name not in archive]
    cold = [name for name in was.records if name not in after.warranties.records and after.slot(name) is None]
    return [*live, *cold]


class Pen:
    """Writes versions of one memory within one transaction."""

    def __init__(
        self, database: Database, connection: Connection, head: Head, store_secret: bytes, memory: int
    ) -> None:
        self._database = database
        self._connection = connection
        self._head = head
        self._store_secret = store_secret
        self._memory = memory
        # New secrets are written together, in order: SQLite only ever appends to their table.
        self._opening: dict[int, bytes] = {}
        self.erased = False

    def create(
        self, uuid: str, name: str, view: View, facts: Facts, forgotten: Mapping[str, bytes] | None = None
    ) -> Numbering:
        """A memory that was not there."""
        self._insert(memories, [{"number": self._memory, "uuid": uuid, "name": name}])
        none = np.zeros(0, dtype=np.int64)
        numbering = Numbering(self._head.take(1), none, none, forgotten=dict(forgotten or {}))
        numbering = self._enter(numbering, view, view.slots, none)
        numbering = self._file(self._set_aside(numbering, view), view.warranties.records, view)
        numbering = self._moor(numbering, view, set(view.warranties.anchors), ())
        sealed, opens = self._sealed("state", pack_state(view, facts))
        self._opening[numbering.state] = opens
        row = {"memory": self._memory, "edit": view.edit, "digest": bytes.fromhex(view.digest), "size": view.size}
        self._insert(states, [row | {"secret": numbering.state, "state": sealed}])
        self._keep()
        return numbering

    def edit(self, numbering: Numbering, before: View, after: View, facts: Facts) -> Numbering:
        """The next version of a memory."""
        if numbering.numbers.size != before.size:
            raise StoreError("the memory in hand is not the one that is stored; nothing was written")
        gone = _gone(before, after)
        kept = np.ones(before.size, dtype=bool)
        kept[gone] = False
        numbering, old = self._drop(numbering, before, after, gone), numbering
        reach("erased")
        fresh = after.slots[np.count_nonzero(kept) :]
        numbering = self._enter(
            replace(numbering, numbers=old.numbers[kept], sites=old.sites[kept]),
            after,
            fresh,
            after.sites[: np.count_nonzero(kept)],
        )
        reach("entered")
        was, now = before.warranties, after.warranties
        changed = {name: record for name, record in now.records.items() if was.records.get(name) is not record}
        numbering = self._file(numbering, changed, after)
        numbering = self._moor(
            numbering,
            after,
            {
                number
                for number, anchor in now.anchors.items()
                if gone.size
                or number not in was.anchors
                or anchor.alpha is not was.anchors[number].alpha
                or anchor.similarity is not was.anchors[number].similarity
            },
            [number for number in was.anchors if number not in now.anchors],
        )
        reach("pruned")
        sealed, opens = self._sealed("state", pack_state(after, facts))
        self._connection.execute(_RENEW, {"number_": numbering.state, "secret_": opens})
        self._connection.execute(
            _STATE,
            {
                "memory_": self._memory,
                "edit_": after.edit,
                "digest_": bytes.fromhex(after.digest),
                "size_": after.size,
                "state_": sealed,
            },
        )
        self._keep()
        reach("stated")
        return numbering

    def drop(self) -> None:
        """Take a memory away with all that it held, whether or not it can still be loaded."""
        held: list[int] = []
        for column in (entries.c.number, pruned.c.number, anchors.c.secret, holds.c.number, states.c.secret):
            table = column.table
            held += self._connection.execute(select(column).where(table.c.memory == self._memory)).scalars()
            self._connection.execute(delete(table).where(table.c.memory == self._memory))
        self._connection.execute(delete(memories).where(memories.c.number == self._memory))
        self._shred(held)
        reach("erased")

    def place_hold(self, terms: bytes) -> int:
        """Write the sealed terms of a hold; return its number."""
        number = self._head.take(1)
        sealed, self._opening[number] = self._sealed("hold", terms)
        self._keep()
        self._insert(holds, [{"number": number, "memory": self._memory, "terms": sealed}])
        return number

    def lift_hold(self, number: int) -> None:
        """Take a hold away."""
        self._connection.execute(delete(holds).where(holds.c.number == number))
        self._shred([number])

    def _drop(self, numbering: Numbering, before: View, after: View, gone: IndexArray) -> Numbering:
        """Content of entries that are neither live nor archived any more, and records that are over."""
        names = _names(before, gone)
        archive, records = after.warranties.archive, after.warranties.records
        moved = {name: int(numbering.numbers[row]) for name, row in zip(names, gone.tolist(), strict=True)}
        archived = numbering.archived | {name: number for name, number in moved.items() if name in archive}
        # An archived entry that comes back gets a row of its own, at the end.
        content = [number for name, number in moved.items() if name not in archive]
        content += [archived.pop(name) for name in list(archived) if name not in archive]
        over = [name for name in numbering.pruned if name not in records]
        self._delete(_ERASE_ENTRIES, content)
        self._delete(_ERASE_RECORDS, [numbering.pruned[name] for name in over])
        self._shred([*content, *(numbering.pruned[name] for name in over)])
        forgotten = {name: digest for name, digest in numbering.forgotten.items() if name in records}
        for name, row in zip(names, gone.tolist(), strict=True):
            if name in records and name not in archive:
                forgotten[name] = bytes(before.entries.commitments[before.slots[row]])
        left = {name: number for name, number in numbering.pruned.items() if name in records}
        return replace(numbering, archived=archived, pruned=left, forgotten=forgotten)

    def _enter(self, numbering: Numbering, view: View, fresh: IndexArray, known_sites: IndexArray) -> Numbering:
        """New entries, after all that are there."""
        if fresh.size == 0:
            return numbering
        first = self._head.take(fresh.size)
        data, keys = view.entries, view.state.gram.keys
        number_of_site: dict[int, int] = dict(zip(known_sites.tolist(), numbering.sites.tolist(), strict=True))
        rows, sites = [], []
        for number, slot in enumerate(fresh.tolist(), first):
            site = number_of_site.setdefault(int(data.site[slot]), number)
            content = Content(
                data.ids[slot] or "",
                data.subjects[slot],
                keys[data.site[slot]],
                data.values[slot],
                data.payloads[slot],
            )
            rows.append(self._row(number, site, content, data.salts[slot]))
            sites.append(site)
        self._insert(entries, rows)
        return replace(
            numbering,
            numbers=np.concatenate([numbering.numbers, np.arange(first, first + fresh.size)]),
            sites=np.concatenate([numbering.sites, np.array(sites, dtype=np.int64)]),
        )

    def _set_aside(self, numbering: Numbering, view: View) -> Numbering:
        """Archived entries of a memory that is written for the first time."""
        archive = view.warranties.archive
        first = self._head.take(len(archive))
        numbers = {name: number for number, name in enumerate(archive, first)}
        self._insert(
            entries,
            [
                self._row(
                    numbers[name],
                    numbers[name],
                    Content(name, kept.subject, kept.key, kept.value, kept.payload),
                    kept.salt,
                )
                for name, kept in archive.items()
            ],
        )
        return replace(numbering, archived=numbers)

    def _row(self, number: int, site: int, content: Content, salt: bytes) -> dict[str, Any]:
        self._opening[number] = salt
        mark = tag_mark(salt, subject_tag(self._store_secret, content.subject))
        sealed = seal_content(salt, content)
        return {"number": number, "memory": self._memory, "site": site, "mark": mark, "content": sealed}

    def _file(self, numbering: Numbering, changed: Mapping[str, Record], view: View) -> Numbering:
        """Records of pruned entries that are new or have changed; each is sealed under a secret of its own."""
        if not changed:
            return numbering
        site_numbers = np.zeros(view.state.sites, dtype=np.int64)
        site_numbers[view.sites] = numbering.sites
        fresh = [name for name in changed if name not in numbering.pruned]
        numbers = numbering.pruned | {name: number for number, name in enumerate(fresh, self._head.take(len(fresh)))}
        rows: list[dict[str, Any]] = []
        updates: list[dict[str, Any]] = []
        renewals: list[dict[str, Any]] = []
        for name, record in changed.items():
            number = numbers[name]
            plain = pack_record(name, record, site_numbers, numbering.forgotten.get(name))
            sealed, opens = self._sealed("record", plain)
            mark = tag_mark(opens, subject_tag(self._store_secret, record.subject))
            entry = numbering.archived[name] if name in view.warranties.archive else None
            if name in numbering.pruned:
                updates.append({"number_": number, "entry_": entry, "mark_": mark, "record_": sealed})
                renewals.append({"number_": number, "secret_": opens})
            else:
                self._opening[number] = opens
                rows.append({"number": number, "memory": self._memory, "entry": entry, "mark": mark, "record": sealed})
        self._insert(pruned, rows)
        if updates:
            self._connection.execute(_RENEW, renewals)
            self._connection.execute(_RECORD, updates)
        return replace(numbering, pruned=numbers)

    def _moor(self, numbering: Numbering, view: View, changed: set[int], gone: Sequence[int]) -> Numbering:
        """Anchors that are new or have changed, and those that nothing refers to any more."""
        known = dict(numbering.anchors)
        for number in gone:
            self._connection.execute(
                delete(anchors).where(anchors.c.memory == self._memory, anchors.c.number == number)
            )
            self._shred([known.pop(number)])
        for number in sorted(changed):
            sealed, opens = self._sealed("anchor", pack_anchor(view.warranties.anchors[number], view))
            if number in known:
                self._connection.execute(_RENEW, {"number_": known[number], "secret_": opens})
                self._connection.execute(_ANCHOR, {"memory_": self._memory, "number_": number, "weights_": sealed})
            else:
                known[number] = self._head.take(1)
                self._opening[known[number]] = opens
                row = {"memory": self._memory, "number": number, "secret": known[number], "weights": sealed}
                self._insert(anchors, [row])
        return replace(numbering, anchors=known)

    def _keep(self) -> None:
        self._insert(secrets, [{"number": number, "secret": self._opening[number]} for number in sorted(self._opening)])
        self._opening.clear()

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(_INSERTS[table], rows if len(rows) > 1 else rows[0])

    def _delete(self, statement: Any, numbers: Sequence[int]) -> None:
        if numbers:
            self._connection.execute(statement, each(numbers))

    def _shred(self, numbers: Sequence[int]) -> None:
        if numbers:
            self.erased = True
            self._database.shred(self._connection, numbers)

    @staticmethod
    def _sealed(purpose: str, plain: bytes) -> tuple[bytes, bytes]:
        secret = new_secret()
        return seal(secret, purpose, plain), secret


def _gone(before: View, after: View) -> IndexArray:
    """Rows of `before` that are not live in `after`."""
    if after.entries is before.entries:
        return np.flatnonzero(~after.alive[before.slots])
    staying = set(_names(after, np.arange(after.size)))
    return np.array(
        [row for row, name in enumerate(_names(before, np.arange(before.size))) if name not in staying], dtype=np.int64
    )


def _names(view: View, rows: IndexArray) -> list[str]:
    ids: Callable[[int], str | None] = view.entries.ids.__getitem__
    return [ids(slot) or "" for slot in view.slots[rows].tolist()]
