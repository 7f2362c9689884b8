"""The ledger's tables: leaves in one order, the hashes of complete subtrees, the frontier.

An append reads one row, the frontier, which it locks until its transaction ends: appends of one store follow each
other, whichever memory they belong to. Hashes are kept at every fourth level (`merkle.read_sparse`), so an append
writes 1 1/15 of them on average.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeAlias

from sqlalchemy import Select, bindparam, func, insert, select, update

from expunge.attestation.statements import Clock
from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import Json
from expunge.ledger.envelope import open_statement, parse_envelope
from expunge.ledger.event import Event, Kind
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier, ReadNode, read_sparse
from expunge.ledger.receipt_format import Predicate, RequestStated
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import VerifyingKey
from expunge.ledger.statement import Statement, Subject, parse_statement
from expunge.problem.problem import as_count
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import keys, leaves, ledger, nodes
from expunge.store.identity import Identity
from expunge.store.key_table import read_keys

__all__ = [
    "STRIDE",
    "Leaf",
    "LedgerClock",
    "LedgerWriter",
    "SignedStatement",
    "asked_number",
    "last_receipt",
    "newest_leaves",
    "node_reader",
    "read_frontier",
    "read_leaf",
    "read_leaves",
    "read_time",
    "sign_all",
]

STRIDE = 4
_LARGEST_NUMBER = (1 << 63) - 1

_REVOKED = select(func.count()).select_from(keys).where(keys.c.revoked != 0).scalar_subquery()
_LOCK = select(
    *(ledger.c.frontier, ledger.c.next_number, ledger.c.time, ledger.c.mirrors), _REVOKED.label("revoked")
).with_for_update()
_INSERT_LEAVES, _INSERT_NODES = insert(leaves), insert(nodes)
_UPDATE_FRONTIER = update(ledger).values(
    frontier=bindparam("frontier_"),
    next_number=bindparam("next_number_"),
    time=bindparam("time_"),
    mirrors=bindparam("mirrors_"),
)
_NODE_HASH = select(nodes.c.hash).where(nodes.c.level == bindparam("l"), nodes.c.number == bindparam("n"))

# Numbers in one query.
_LEAVES_AT_ONCE = 500


SignedStatement: TypeAlias = tuple[bytes, int | None]
"""An envelope, and the number of the row that opens its case."""


@dataclass(frozen=True)
class Leaf:
    """One leaf of the ledger: its index, what it is about, and the signed envelope.

    ``kind`` is the outcome of an edit or the name of an event of the store; ``memory`` the memory's UUID.
    """

    index: int
    kind: str
    memory: str | None
    edit: int | None
    envelope: bytes = field(repr=False)

    @cached_property
    def statement(self) -> Statement:
        """What the envelope says; its signature is not checked here."""
        return parse_statement(parse_envelope(self.envelope).payload)


class LedgerClock:
    """A clock that never tells an earlier time than the ledger does: others have written to it by their clocks."""

    def __init__(self, clock: Clock, time: datetime) -> None:
        self._clock = clock
        self.time = time

    def __call__(self) -> datetime:
        """The time now; ``time`` is the latest that was told."""
        self.time = max(self.time, self._clock().astimezone(UTC))
        return self.time


class LedgerWriter:
    """Appends leaves and gives numbers to rows, within one transaction."""

    def __init__(self, connection: CheckedConnection) -> None:
        """Lock the ledger's row; a second transaction waits."""
        row = connection.first(_LOCK)
        if row is None:
            raise VerificationError("the store has lost the head of its ledger")
        self._connection = connection
        self._frontier = Frontier.from_bytes(row.frontier)
        self._next: int = row.next_number
        self._revoked: int = row.revoked
        # How many mirrors there are. Whoever adds or removes one sets it, under the lock that is held here.
        self.mirrors: int = row.mirrors
        self._time = datetime.fromtimestamp(row.time, UTC)
        self._leaves: list[dict[str, Any]] = []
        self._nodes: list[dict[str, Any]] = []

    @property
    def size(self) -> int:
        """Number of leaves, those appended here included."""
        return self._frontier.size

    def allocate_numbers(self, count: int) -> int:
        """First of `count` numbers that nothing else has or will have."""
        first = self._next
        self._next += count
        return first

    def skip_numbers_below(self, number: int) -> None:
        """Give no number below this one."""
        self._next = max(self._next, number)

    def dated(self, clock: Clock) -> Clock:
        """A clock that never tells an earlier time than the ledger does: others have written to it by their clocks."""

        def now() -> datetime:
            self._time = max(self._time, clock().astimezone(UTC))
            return self._time

        return now

    @property
    def time(self) -> datetime:
        """No leaf is dated before this time."""
        return self._time

    def skip_times_before(self, time: datetime) -> None:
        """Date no leaf before this time."""
        self._time = max(self._time, time)

    def append(
        self,
        envelope: bytes,
        kind: str,
        memory: str | None = None,
        edit: int | None = None,
        asked: int | None = None,
    ) -> Leaf:
        """Add a leaf; it counts when `flush` has been called and the transaction is committed."""
        index = self._frontier.size
        self._frontier, final = self._frontier.append(leaf_hash(envelope))
        row = {"number": index, "kind": kind, "memory": memory, "edit": edit, "asked": asked, "envelope": envelope}
        self._leaves.append(row)
        self._nodes += [
            {"level": node.level, "number": node.index, "hash": node.hash} for node in final if node.level % STRIDE == 0
        ]
        return Leaf(index, kind, memory, edit, envelope)

    def append_all(
        self, identity: Identity, statements: Sequence[Statement], kind: str, memory: str, edit: int | None = None
    ) -> Leaf:
        """Sign and add a receipt or event, and after it the statements that carry its lists; the first one's leaf."""
        return self.append_signed(identity, sign_all(identity, statements), kind, memory, edit)

    def append_signed(
        self, identity: Identity, signed: Sequence[SignedStatement], kind: str, memory: str, edit: int | None = None
    ) -> Leaf:
        """Add what `sign_all` has signed; the first one's leaf."""
        self._check_keys(identity)
        (first, asked), *rest = signed
        leaf = self.append(first, kind, memory, edit, asked)
        for envelope, _ in rest:
            self.append(envelope, "listed", memory)
        return leaf

    def append_event(
        self,
        identity: Identity,
        kind: Kind,
        memory: str | None,
        subject: Subject,
        request: RequestStated | None = None,
        **facts: Json,
    ) -> Leaf:
        """Sign an event of the store, dated now, and add it as a leaf."""
        self._check_keys(identity)
        event = Event.at(self.dated(identity.clock), kind, memory, subject, request, **facts)
        return self.append(identity.sign(event.to_statement()), kind, memory, asked=asked_number(event.request))

    def _check_keys(self, identity: Identity) -> None:
        """Refuse a signer whose key another process has revoked since the store was opened."""
        if self._revoked != identity.revocations:
            identity.check_keys(read_keys(self._connection))

    def flush(self) -> None:
        """Write what was appended and allocated."""
        if self._leaves:
            kinds = [row["kind"] for row in self._leaves]
            self._connection.after_commit(lambda observer: observer.observe_leaves(kinds))
            for statement, rows in ((_INSERT_LEAVES, self._leaves), (_INSERT_NODES, self._nodes)):
                self._connection.execute(statement, rows if len(rows) > 1 else rows[0])
        changed = {
            "frontier_": self._frontier.to_bytes(),
            "next_number_": self._next,
            "time_": int(self._time.timestamp()),
            "mirrors_": self.mirrors,
        }
        self._connection.execute(_UPDATE_FRONTIER, changed)
        self._leaves, self._nodes = [], []


def sign_all(identity: Identity, statements: Iterable[Statement]) -> list[SignedStatement]:
    """The envelope of each statement, and the number of the row that opens its case."""
    return [(identity.sign(statement), asked_number(statement)) for statement in statements]


def read_time(connection: CheckedConnection) -> datetime:
    """The time of the ledger's last leaf; others may append while nothing is locked."""
    seconds = connection.value(select(ledger.c.time))
    if seconds is None:
        raise VerificationError("the store has lost the head of its ledger")
    return datetime.fromtimestamp(seconds, UTC)


def asked_number(stated: RequestStated | Statement) -> int | None:
    """The number of the row that opens the case and the actor of a leaf: the first 63 bits of the first commitment.

    None where the leaf commits to neither.
    """
    if isinstance(stated, Statement):
        request = stated.predicate["request"]
        commitment = None if not isinstance(request, Mapping) else request["case"] or request["actor"]
    else:
        commitment = stated.case or stated.actor
    return None if commitment is None else int(str(commitment)[:16], 16) >> 1


def read_frontier(connection: CheckedConnection) -> Frontier:
    """The frontier as stored."""
    data = connection.value(select(ledger.c.frontier))
    if data is None:
        raise VerificationError("the store has lost the head of its ledger")
    return Frontier.from_bytes(data)


def node_reader(connection: CheckedConnection) -> ReadNode:
    """Hashes of complete subtrees, from the stored levels."""

    def read(level: int, index: int) -> bytes:
        found: bytes | None = connection.value(_NODE_HASH, {"l": level, "n": index})
        if found is None:
            raise VerificationError(f"the ledger has lost the hash of node {index} at level {level}")
        return found

    return read_sparse(read, STRIDE)


def read_leaf(connection: CheckedConnection, index: int) -> Leaf:
    """One leaf."""
    row = None
    if type(index) is int and 0 <= index < _LARGEST_NUMBER:
        row = connection.first(select(leaves).where(leaves.c.number == index))
    if row is None:
        raise InputError(f"the ledger has no leaf {index!r}")
    return _leaf(row)


def last_receipt(connection: CheckedConnection, trusted: Collection[VerifyingKey], memory: str) -> Predicate:
    """The latest receipt of a memory, by its UUID, or notice of an expiry: either states what the memory is now."""
    wanted = select(leaves).where(leaves.c.memory == memory, leaves.c.edit.is_not(None))
    row = connection.first(wanted.order_by(leaves.c.number.desc()).limit(1))
    if row is None:
        raise VerificationError(f"the ledger knows no memory {memory}")
    return parse_predicate(open_statement(row.envelope, trusted))


def read_leaves(
    connection: CheckedConnection, *, start: int = 0, memory: str | None = None, limit: int | None = None
) -> Iterator[Leaf]:
    """Leaves in order, of one memory where it is named."""
    first = min(as_count(start, 0, "leaves are numbered from 0"), _LARGEST_NUMBER)
    most = None if limit is None else min(as_count(limit, 0, "the limit is a number of leaves"), _LARGEST_NUMBER)
    wanted: Select[Any] = select(leaves).where(leaves.c.number >= first).order_by(leaves.c.number).limit(most)
    if memory is not None:
        wanted = wanted.where(leaves.c.memory == memory)
    for rows in connection.batches(wanted):
        yield from map(_leaf, rows)


def newest_leaves(
    connection: CheckedConnection,
    *,
    memories: Collection[str] | None = None,
    kinds: Collection[str] | None = None,
    before: int | None = None,
    since: int | None = None,
    among: Sequence[int] | None = None,
    limit: int | None = None,
) -> list[Leaf]:
    """Leaves from the newest back: of these memories and kinds, and `among` these indices, where they are given, with
    an index below `before`, and `since` or above.
    """
    if among is not None:
        return _newest_among(connection, among, memories=memories, kinds=kinds, before=before, since=since, limit=limit)
    wanted = select(leaves).order_by(leaves.c.number.desc()).limit(limit)
    if memories is not None:
        wanted = wanted.where(leaves.c.memory.in_(memories))
    if kinds is not None:
        wanted = wanted.where(leaves.c.kind.in_(kinds))
    if before is not None:
        wanted = wanted.where(leaves.c.number < before)
    if since is not None:
        wanted = wanted.where(leaves.c.number >= since)
    return [_leaf(row) for row in connection.rows(wanted)]


def _newest_among(
    connection: CheckedConnection,
    among: Sequence[int],
    *,
    memories: Collection[str] | None,
    kinds: Collection[str] | None,
    before: int | None,
    since: int | None,
    limit: int | None,
) -> list[Leaf]:
    """Some at a time, because a query takes only so many numbers."""
    fits = [one for one in among if (before is None or one < before) and (since is None or one >= since)]
    left, found = sorted(fits, reverse=True), list[Leaf]()
    while left and (limit is None or len(found) < limit):
        part, left = left[:_LEAVES_AT_ONCE], left[_LEAVES_AT_ONCE:]
        wanted = select(leaves).where(leaves.c.number.in_(part)).order_by(leaves.c.number.desc())
        found += [
            _leaf(row)
            for row in connection.rows(wanted)
            if (memories is None or row.memory in memories) and (kinds is None or row.kind in kinds)
        ]
    return found[:limit]


def _leaf(row: Any) -> Leaf:
    return Leaf(row.number, row.kind, row.memory, row.edit, row.envelope)
