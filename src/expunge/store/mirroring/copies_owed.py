"""What an edit owes to mirrors: copies to be written, copies to be deleted. Written in the edit's own transaction.

For a copy to be written the row has the leaf alone: the content is read from the store when it is written, and what was
erased meanwhile is not written. For copies to be deleted it has ids and tags, encrypted under a secret of its own: a
mirror finds a copy by its id. As soon as a mirror has been searched the row is deleted and its secret destroyed. Until
then whoever has the database can read the ids of entries that were erased, and no more of them.
"""

from __future__ import annotations

import json
import secrets as randomness
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, or_, select, update

from expunge.errors import VerificationError
from expunge.mirrors import Doomed
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import memories, mirror_erasures, mirror_writes, mirrors, secrets
from expunge.store.encryption import decrypt, encrypt, new_secret

__all__ = ["OwedErasure", "end_erasures", "end_writes", "owe_copies", "read_erasures_owed", "read_writes_owed"]


@dataclass(frozen=True)
class OwedErasure:
    """An erasure, by its leaf, that a mirror has not followed; ``entries`` are those that may still be there.

    ``absent``, ``in_files`` and ``not_checkable`` count what was found of the others. Where the store could not name
    the entries, because their memory was damaged, ``memory`` is its UUID and ``unnamed`` counts them.
    """

    number: int
    leaf: int
    entries: tuple[Doomed, ...]
    absent: int = 0
    in_files: int = 0
    not_checkable: int = 0
    memory: str | None = None
    unnamed: int = 0


def owe_copies(
    database: Database,
    connection: CheckedConnection,
    memory: str,
    leaf: int,
    *,
    admitted: bool = False,
    gone: Iterable[tuple[str, bytes]] = (),
    name: str | None = None,
    unnamed: int = 0,
) -> bool:
    """Owe the entries of an edit to every mirror of a memory, by its UUID; whether there is one.

    ``gone`` are ids and commitments of entries that were erased at this ``leaf``. ``name`` is the memory's, where the
    transaction has deleted its row.
    """
    rows = connection.rows(
        select(mirrors.c.number, mirrors.c.memory).where(or_(mirrors.c.memory.is_(None), mirrors.c.memory == memory))
    )
    if not rows:
        return False
    if admitted:
        connection.execute(insert(mirror_writes), [{"mirror": row.number, "leaf": leaf} for row in rows])
    doomed = list(gone)
    if doomed or unnamed:
        prefix = (
            name if name is not None else connection.value(select(memories.c.name).where(memories.c.uuid == memory))
        )
        for row in rows:
            own = "" if row.memory is not None else f"{prefix}/"
            entries = tuple(Doomed(own + entry, tag.hex()) for entry, tag in doomed)
            _write(database, connection, row.number, OwedErasure(0, leaf, entries, memory=memory, unnamed=unnamed))
    return True


def read_writes_owed(connection: CheckedConnection, mirror: int, most: int) -> list[int]:
    """Leaves whose entries are to be written to a mirror, the first ones."""
    wanted = select(mirror_writes.c.leaf).where(mirror_writes.c.mirror == mirror).order_by(mirror_writes.c.leaf)
    return connection.values(wanted.limit(most))


def read_erasures_owed(connection: CheckedConnection, mirror: int, most: int | None = None) -> list[OwedErasure]:
    """Erasures that a mirror is to follow, all or the first ones."""
    wanted = (
        select(mirror_erasures, secrets.c.secret)
        .join(secrets, secrets.c.number == mirror_erasures.c.number)
        .where(mirror_erasures.c.mirror == mirror)
        .order_by(mirror_erasures.c.leaf)
        .limit(most)
    )
    return [_owed(row) for row in connection.rows(wanted)]


def end_writes(connection: CheckedConnection, mirror: int, leaves: Sequence[int]) -> None:
    """Take note that entries of these leaves were written, in the caller's transaction."""
    if leaves:
        connection.execute(
            delete(mirror_writes).where(mirror_writes.c.mirror == mirror, mirror_writes.c.leaf.in_(leaves))
        )


def end_erasures(
    database: Database, connection: CheckedConnection, over: Sequence[OwedErasure], still: Sequence[OwedErasure]
) -> None:
    """Delete what was followed, and write anew what was not entirely, in the caller's transaction."""
    for owed in over:
        connection.execute(delete(mirror_erasures).where(mirror_erasures.c.number == owed.number))
    for owed in still:
        number, secret = _new_number(), new_secret()
        database.insert_secrets(connection, {number: secret})
        changed = {"number": number, "terms": encrypt(secret, "copies", _packed(owed))}
        connection.execute(update(mirror_erasures).where(mirror_erasures.c.number == owed.number).values(**changed))
    database.destroy_secrets(connection, [owed.number for owed in (*over, *still)])


def _write(database: Database, connection: CheckedConnection, mirror: int, owed: OwedErasure) -> None:
    number, secret = _new_number(), new_secret()
    database.insert_secrets(connection, {number: secret})
    row = {"number": number, "mirror": mirror, "leaf": owed.leaf, "terms": encrypt(secret, "copies", _packed(owed))}
    connection.execute(insert(mirror_erasures), row)


def _new_number() -> int:
    """A random number: one that counted would tell how many erasures there were."""
    return randomness.randbits(63)


def _packed(owed: OwedErasure) -> bytes:
    terms: dict[str, Any] = {
        "entries": [[entry.id, entry.tag] for entry in owed.entries],
        "found": [owed.absent, owed.in_files, owed.not_checkable],
        "memory": owed.memory,
        "unnamed": owed.unnamed,
    }
    return json.dumps(terms).encode()


def _owed(row: Any) -> OwedErasure:
    try:
        terms = json.loads(decrypt(row.secret, "copies", row.terms))
        entries = tuple(Doomed(str(name), str(tag)) for name, tag in terms["entries"])
        absent, in_files, not_checkable = map(int, terms["found"])
        memory, unnamed = terms["memory"], int(terms["unnamed"])
        return OwedErasure(row.number, row.leaf, entries, absent, in_files, not_checkable, memory, unnamed)
    except (ValueError, KeyError, TypeError) as problem:
        raise VerificationError(f"what a mirror owes to leaf {row.leaf} was altered ({problem})") from None
