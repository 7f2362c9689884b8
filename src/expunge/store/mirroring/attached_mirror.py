"""The mirrors of a store as rows, and the one process at a time that works on one of them.

A mirror's address is kept without a password: a URL that has one is refused, and the driver finds it in the
environment. The address is encrypted under a secret of its own, with the salt of the commitment that names the mirror
in the ledger; both go when the mirror is removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy import delete, func, insert, select, update

from expunge.errors import Conflict, InputError, StoreError, VerificationError
from expunge.ledger.commitment import new_salts
from expunge.ledger.event import mirror_commitment, parse_event
from expunge.ledger.statement import Subject
from expunge.mirrors import Address, open_mirror
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import memories, mirror_erasures, mirror_writes, mirrors, secrets
from expunge.store.cases import Case, write_case
from expunge.store.edits.crash_points import crash_point
from expunge.store.encryption import decrypt, encrypt, new_secret
from expunge.store.identity import Identity
from expunge.store.ledger_tables import Leaf, LedgerWriter, read_leaf
from expunge.store.mirroring.copy_map import CopyMap

__all__ = ["AttachedMirror", "add_mirror", "claim", "put_off", "read_mirrors", "release", "remove_mirror", "renew"]

# How many seconds a process may work on a mirror before another one takes over, unless it says that it is still there.
_LEASE = 120
# How long to wait after a failure: twice as long after each, and an hour at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 5, 3600


@dataclass(frozen=True)
class AttachedMirror:
    """A mirror of a store. Leaf ``leaf`` of the ledger says since when; people name the mirror by that number.

    Attributes
    ----------
    url : where the copies are, without a password.
    memory : name of the memory that is copied; None for all of them, or where ``uuid`` names one that was dropped.
    uuid : UUID of the memory that is copied; None for all of them.
    writes, erasures : edits whose entries are still to be written there, or to be deleted there.
    failures : how often in a row the last passes have failed; ``due`` is when the next one may begin.
    salt : opens the commitment to ``url`` that names the mirror in the ledger.

    """

    leaf: int
    kind: str
    url: str
    memory: str | None
    uuid: str | None
    writes: int
    erasures: int
    failures: int
    due: datetime
    salt: bytes = field(repr=False)
    number: int = field(repr=False)
    map: CopyMap = field(default_factory=CopyMap, repr=False)

    @property
    def pending(self) -> int:
        """Edits that the mirror does not have yet."""
        return self.writes + self.erasures

    @property
    def commitment(self) -> str:
        """The name of the mirror in the ledger."""
        return mirror_commitment(self.salt, self.url)

    def covers(self, uuid: str) -> bool:
        """Whether entries of a memory are copied."""
        return self.uuid in (None, uuid)

    def id_of(self, memory: str, entry: str) -> str:
        """The id of an entry's copy: that of the entry; in a mirror of all memories, behind the memory's name."""
        return entry if self.uuid is not None else f"{memory}/{entry}"

    def to_json(self) -> dict[str, Any]:
        """What a person needs to know of it."""
        return {
            "mirror": self.leaf,
            "system": self.kind,
            "url": self.url,
            "memory": self.memory,
            "of_all_memories": self.uuid is None,
            "map": self.map.to_json(),
            "writes_pending": self.writes,
            "erasures_pending": self.erasures,
            "failures": self.failures,
            "next_try": self.due.strftime("%Y-%m-%dT%H:%M:%SZ") if self.failures else None,
        }


def address_of(url: str) -> Address:
    """A URL taken apart; InputError where a password stands in it, or where nothing is written to its system."""
    address = Address.of(url)
    if address.kind == "sqlite":
        raise InputError("an SQLite file is scanned only: expunge scan", code="mirror-unknown")
    parts = urlsplit(address.url)
    if parts.password or any("pass" in name.lower() for name, value in parse_qsl(parts.query) if value):
        raise InputError(
            "a mirror's URL is kept in the store, so it has no password: leave it to the environment, as PGPASSWORD, "
            "PGPASSFILE or a service file",
            code="mirror-password",
        )
    return address


def add_mirror(
    database: Database,
    connection: CheckedConnection,
    identity: Identity,
    url: str,
    memory: str | None,
    copy_map: CopyMap,
    asked: Case | None,
) -> AttachedMirror:
    """Write a mirror and its event, in the caller's transaction, which is committed here.

    Everything that is in its memory, or in all of them, is owed to it from now on.
    """
    address = address_of(url)
    # What the adapter needs is there, or MissingExtra is raised now.
    open_mirror(address.location)
    ledger_writer = LedgerWriter(connection)
    taken = [known for known in read_mirrors(connection) if known.url == address.location]
    if taken:
        raise Conflict(f"{address.location} is a mirror already: {taken[0].leaf}", code="mirror-taken")
    uuid = None
    if memory is not None:
        uuid = connection.value(select(memories.c.uuid).where(memories.c.name == memory))
        if uuid is None:
            raise InputError(f"there is no memory {memory!r} in this store")
    salt, secret = new_salts(1), new_secret()
    commitment = mirror_commitment(salt, address.location)
    leaf = ledger_writer.append_event(
        identity,
        "mirror_added",
        None,
        Subject("mirror", commitment),
        None if asked is None else asked.stated(),
        system=address.kind,
        of=uuid,
    )
    ledger_writer.mirrors += 1
    ledger_writer.flush()
    write_case(database, connection, asked)
    number = int(commitment[:16], 16) >> 1
    terms = {"url": address.location, "salt": salt.hex(), "map": copy_map.to_json()}
    database.insert_secrets(connection, {number: secret})
    row = {"number": number, "leaf": leaf.index, "memory": uuid, "busy": 0, "due": 0, "failures": 0}
    connection.execute(insert(mirrors), row | {"terms": encrypt(secret, "mirror", json.dumps(terms).encode())})
    connection.execute(insert(mirror_writes), {"mirror": number, "leaf": leaf.index})
    crash_point("ledger_written")
    (added,) = read_mirrors(connection, leaf.index)
    connection.commit()
    crash_point("committed")
    return added


def remove_mirror(
    database: Database, connection: CheckedConnection, identity: Identity, mirror: AttachedMirror, asked: Case | None
) -> Leaf:
    """End a mirror with its event, which counts the erasures that it never had; what is there stays there."""
    ledger_writer = LedgerWriter(connection)
    if not read_mirrors(connection, mirror.leaf):
        raise InputError(f"there is no mirror {mirror.leaf} any more", code="mirror-unknown")
    pending = connection.rows(
        select(mirror_erasures.c.number, mirror_erasures.c.leaf).where(mirror_erasures.c.mirror == mirror.number)
    )
    leaf = ledger_writer.append_event(
        identity,
        "mirror_removed",
        None,
        Subject("mirror", mirror.commitment),
        None if asked is None else asked.stated(),
        pending=len({row.leaf for row in pending}),
    )
    ledger_writer.mirrors -= 1
    ledger_writer.flush()
    write_case(database, connection, asked)
    for table in (mirror_writes, mirror_erasures):
        connection.execute(delete(table).where(table.c.mirror == mirror.number))
    connection.execute(delete(mirrors).where(mirrors.c.number == mirror.number))
    database.destroy_secrets(connection, [mirror.number, *(row.number for row in pending)])
    crash_point("ledger_written")
    connection.commit()
    crash_point("committed")
    database.finish_erasure(connection)
    return leaf


def read_mirrors(connection: CheckedConnection, leaf: int | None = None) -> list[AttachedMirror]:
    """Mirrors in the order in which they were added; VerificationError where one is not what its leaf says."""
    counts = [
        select(func.count()).select_from(table).where(table.c.mirror == mirrors.c.number).scalar_subquery()
        for table in (mirror_writes, mirror_erasures)
    ]
    name = select(memories.c.name).where(memories.c.uuid == mirrors.c.memory).scalar_subquery()
    wanted = (
        select(mirrors, secrets.c.secret, name.label("name"), counts[0].label("writes"), counts[1].label("erasures"))
        .join(secrets, secrets.c.number == mirrors.c.number)
        .order_by(mirrors.c.leaf)
    )
    if leaf is not None:
        wanted = wanted.where(mirrors.c.leaf == leaf)
    return [_mirror(connection, row) for row in connection.rows(wanted)]


def claim(connection: CheckedConnection, number: int, now: datetime, *, at_once: bool) -> bool:
    """Take a mirror for this process, unless another one is at work on it or it is not due; committed here."""
    seconds = int(now.timestamp())
    wanted = update(mirrors).where(mirrors.c.number == number, mirrors.c.busy <= seconds)
    if not at_once:
        wanted = wanted.where(mirrors.c.due <= seconds)
    taken = connection.execute(wanted.values(busy=seconds + _LEASE)).rowcount == 1
    connection.commit()
    return taken


def renew(connection: CheckedConnection, number: int, now: datetime) -> None:
    """Say that this process is still at work on a mirror; committed here."""
    connection.execute(update(mirrors).where(mirrors.c.number == number).values(busy=int(now.timestamp()) + _LEASE))
    connection.commit()


def release(connection: CheckedConnection, number: int) -> None:
    """Give a mirror back after a pass that has done what it could; committed here."""
    connection.execute(update(mirrors).where(mirrors.c.number == number).values(busy=0, due=0, failures=0))
    connection.commit()


def put_off(connection: CheckedConnection, mirror: AttachedMirror, now: datetime) -> None:
    """Give a mirror back after a pass that has failed, to be tried again later; committed here."""
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE << min(mirror.failures, 16))
    later = {"busy": 0, "due": int(now.timestamp()) + pause, "failures": mirror.failures + 1}
    connection.execute(update(mirrors).where(mirrors.c.number == mirror.number).values(**later))
    connection.commit()


def _mirror(connection: CheckedConnection, row: Any) -> AttachedMirror:
    """A mirror, checked against its leaf: that says what is copied."""
    try:
        terms: Mapping[str, Any] = json.loads(decrypt(row.secret, "mirror", row.terms))
        found = AttachedMirror(
            leaf=row.leaf,
            kind=Address.of(terms["url"]).kind,
            url=terms["url"],
            memory=row.name,
            uuid=row.memory,
            writes=row.writes,
            erasures=row.erasures,
            failures=row.failures,
            due=datetime.fromtimestamp(row.due, UTC),
            salt=bytes.fromhex(terms["salt"]),
            number=row.number,
            map=CopyMap.of(terms["map"]),
        )
        event = parse_event(read_leaf(connection, row.leaf).statement)
        stated = (event.kind, event.subject.sha256, event.facts.get("of"), event.facts.get("system"))
        if stated != ("mirror_added", found.commitment, found.uuid, found.kind):
            raise ValueError("its leaf says something else")
    except (ValueError, KeyError, TypeError, StoreError, InputError, OverflowError, OSError) as problem:
        raise VerificationError(f"the mirror of leaf {row.leaf} was altered ({problem})") from None
    return found
