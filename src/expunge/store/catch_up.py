"""Bring a loaded memory up to the stored version by what has changed, instead of loading all of it again.

Rows are numbered by the commitments of their entries, so the numbers alone tell which entries are new and which are
gone; nothing is stored for it, and nothing that was erased in between is needed. Only new entries are read and
decrypted. The state opens under the secrets of exactly the entries there are, which a loaded memory has; it says
what is archived and forgotten. The net change is then one path, and its canonical state has to have the stored digest.
Where anything else changed (the cap, the width, the columns), or too much did, the memory is loaded afresh.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlalchemy import bindparam, select

from expunge.certificates.warranty import Forgotten, Warranties
from expunge.errors import ExpungeError
from expunge.memory.memory import Memory
from expunge.memory.net_change import NetChange
from expunge.memory.snapshot import forgotten_records
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import entries, secrets
from expunge.store.encryption import Content, decrypt_entries, decrypt_state
from expunge.store.rows import (
    MALFORMED,
    ForgottenRows,
    LoadedMemory,
    kept_slots,
    load_records,
    matrix,
    numbers_of,
    read_state_row,
    unpack_state,
)
from expunge.types import AnyArray, IndexArray

__all__ = ["catch_up"]

# Where more than a quarter of the entries changed, and more than these, a memory is loaded afresh.
FEWEST_TO_LOAD, PART_TO_LOAD = 64, 4
# Seconds that readers wait for the preview of an edit, before they load a memory of their own.
PATIENCE = 0.5

_NUMBERS = select(entries.c.number).where(entries.c.memory == bindparam("memory_"))
_ROWS = select(entries.c.number, entries.c.content, secrets.c.secret).join(
    secrets, secrets.c.number == entries.c.number
)
# Numbers in one query.
_AT_ONCE = 500


def catch_up(connection: CheckedConnection, number: int, loaded: LoadedMemory) -> LoadedMemory | None:
    """The loaded memory at the stored version; None where it has to be loaded afresh, and is as it was.

    Nobody else may edit the loaded memory meanwhile; a preview of an edit is waited for, but not for long.
    """
    try:
        with loaded.memory.held(PATIENCE):
            return _follow(connection, number, loaded)
    except (ExpungeError, *MALFORMED):
        # Loading finds out what is wrong, and says so.
        return None


def _follow(connection: CheckedConnection, number: int, loaded: LoadedMemory) -> LoadedMemory | None:
    memory, version = loaded.memory, loaded.memory.newest
    row, last = read_state_row(connection, number)
    stored = np.array(connection.values(_NUMBERS, {"memory_": number}), dtype=np.int64)
    slots = kept_slots(version)
    mine = numbers_of(version, slots)
    stays, new = np.isin(mine, stored), stored[~np.isin(stored, mine)]
    changed = int(new.size + np.count_nonzero(~stays))
    if (
        not version.size
        or changed > max(FEWEST_TO_LOAD, version.size // PART_TO_LOAD)
        or last.problem.initial_entries != memory.initial_size
    ):
        return None
    contents = _contents(connection, new)
    if len(contents) != new.size:
        return None
    records, rows = load_records(connection, number)
    kept = slots[stays]
    header, arrays, order = _state(memory, kept, contents, rows, row.state)
    if not (_same_problem(memory, header) and np.array_equal(order[: kept.size], mine[stays])):
        return None
    added = [contents[name] for name in order[kept.size :].tolist()]
    archived = arrays["archived"].astype(bool)
    was_live = version.alive[kept]
    # What was pruned meanwhile is loaded afresh: a pruning is rare, and moves many.
    if archived[kept.size :].any() or np.any(was_live & archived[: kept.size]):
        return None
    for item in header["forgotten"]:
        item |= records[item["number"]]
    change = NetChange(
        gone=slots[~stays].tolist(),
        returned=[version.entries.ids[slot] or "" for slot in kept[~was_live & ~archived[: kept.size]].tolist()],
        ids=[content.id for _, content in added],
        keys=matrix([content.key for _, content in added], header["dimension"]),
        values=matrix([content.value for _, content in added], header["width"]),
        subjects=[content.subject for _, content in added],
        payloads=[content.payload for _, content in added],
        salts=[secret for secret, _ in added],
        forgotten=_forgotten(memory, header, arrays, kept, [content.id for _, content in added]),
        slots=np.concatenate([kept, version.count + np.arange(new.size)]),
        weights=arrays["alpha"],
        offset=float.fromhex(header["offset"]),
        digest=row.digest.hex(),
        edit=last.edit,
    )
    return LoadedMemory(memory, rows) if memory.follow(change) else None


def _contents(connection: CheckedConnection, numbers: IndexArray) -> dict[int, tuple[bytes, Content]]:
    """Secret and content of new entries, by number."""
    found: list[Any] = []
    wanted = numbers.tolist()
    for start in range(0, len(wanted), _AT_ONCE):
        found += connection.rows(_ROWS.where(entries.c.number.in_(wanted[start : start + _AT_ONCE])))
    contents = decrypt_entries([(row.secret, row.content) for row in found])
    return {row.number: (row.secret, content) for row, content in zip(found, contents, strict=True)}


def _state(
    memory: Memory, kept: IndexArray, contents: dict[int, tuple[bytes, Content]], rows: ForgottenRows, encrypted: bytes
) -> tuple[dict[str, Any], dict[str, AnyArray], IndexArray]:
    salts = memory.newest.entries.salts
    own, new = (salts[slot] for slot in kept.tolist()), (secret for secret, _ in contents.values())
    return unpack_state(decrypt_state(b"".join([*own, *new, *rows.secrets.values()]), encrypted))


def _same_problem(memory: Memory, header: dict[str, Any]) -> bool:
    version = memory.newest
    state = version.state
    return bool(
        header["cap"] == state.cap.hex()
        and header["sigma"] == state.gram.sigma.hex()
        and header["preprocessing"] == version.preprocessing.to_json()
    )


def _forgotten(
    memory: Memory, header: dict[str, Any], arrays: dict[str, AnyArray], kept: IndexArray, new: list[str]
) -> dict[str, Forgotten]:
    """Records of forgotten entries, at the slots of the loaded memory and those that its new entries will have."""
    if not header["forgotten"]:
        return {}
    version = memory.newest
    slots = [*kept.tolist(), *range(version.count, version.count + len(new))]
    taken = {version.entries.ids[slot] or "" for slot in kept.tolist()} | set(new)
    records = forgotten_records(header, arrays, len(slots), taken)
    return Warranties(forgotten=records).renumbered(dict(enumerate(slots))).forgotten
