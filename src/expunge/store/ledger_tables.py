"""The ledger's tables: leaves in one order, the hashes of complete subtrees, the frontier.

An append reads one row, the frontier, which it locks until its transaction ends: appends of one store follow each
other, whichever memory they belong to. Hashes are kept at every fourth level (`merkle.read_sparse`), so an append
writes 1 1/15 of them on average.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy import Select, bindparam, insert, select, update

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import Json
from expunge.ledger.envelope import open_statement, parse_envelope
from expunge.ledger.event import Event, Kind
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier, ReadNode, read_sparse
from expunge.ledger.receipt_format import Predicate
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import VerifyingKey
from expunge.ledger.statement import Statement, Subject, parse_statement
from expunge.problem.problem import as_count
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import leaves, ledger, nodes
from expunge.store.identity import Identity

__all__ = [
    "STRIDE",
    "Leaf",
    "LedgerWriter",
    "last_receipt",
    "newest_leaves",
    "node_reader",
    "read_frontier",
    "read_leaf",
    "read_leaves",
]

STRIDE = 4
_LARGEST_NUMBER = (1 << 63) - 1

_LOCK = select(ledger.c.frontier, ledger.c.next_number).with_for_update()
_INSERT_LEAVES, _INSERT_NODES = insert(leaves), insert(nodes)
_UPDATE_FRONTIER = update(ledger).values(frontier=bindparam("frontier_"), next_number=bindparam("next_number_"))
_NODE_HASH = select(nodes.c.hash).where(nodes.c.level == bindparam("l"), nodes.c.number == bindparam("n"))


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

    def append(self, envelope: bytes, kind: str, memory: str | None = None, edit: int | None = None) -> Leaf:
        """Add a leaf; it counts when `flush` has been called and the transaction is committed."""
        index = self._frontier.size
        self._frontier, final = self._frontier.append(leaf_hash(envelope))
        self._leaves.append({"number": index, "kind": kind, "memory": memory, "edit": edit, "envelope": envelope})
        self._nodes += [
            {"level": node.level, "number": node.index, "hash": node.hash} for node in final if node.level % STRIDE == 0
        ]
        return Leaf(index, kind, memory, edit, envelope)

    def append_event(self, identity: Identity, kind: Kind, memory: str | None, subject: Subject, **facts: Json) -> Leaf:
        """Sign an event of the store, dated now, and add it as a leaf."""
        event = Event.at(identity.clock, kind, memory, subject, **facts)
        return self.append(identity.sign(event.to_statement()), kind, memory)

    def flush(self) -> None:
        """Write what was appended and allocated."""
        if self._leaves:
            for statement, rows in ((_INSERT_LEAVES, self._leaves), (_INSERT_NODES, self._nodes)):
                self._connection.execute(statement, rows if len(rows) > 1 else rows[0])
        self._connection.execute(_UPDATE_FRONTIER, {"frontier_": self._frontier.to_bytes(), "next_number_": self._next})
        self._leaves, self._nodes = [], []


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


def last_receipt(connection: CheckedConnection, key: VerifyingKey, memory: str) -> Predicate:
    """The latest receipt of a memory, by its UUID, or notice of an expiry: either states what the memory is now."""
    wanted = select(leaves).where(leaves.c.memory == memory, leaves.c.edit.is_not(None))
    row = connection.first(wanted.order_by(leaves.c.number.desc()).limit(1))
    if row is None:
        raise VerificationError(f"the ledger knows no memory {memory}")
    return parse_predicate(open_statement(row.envelope, [key]))


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
    limit: int | None = None,
) -> list[Leaf]:
    """Leaves from the newest back: of these memories and kinds where they are given, with an index below `before`."""
    wanted = select(leaves).order_by(leaves.c.number.desc()).limit(limit)
    if memories is not None:
        wanted = wanted.where(leaves.c.memory.in_(memories))
    if kinds is not None:
        wanted = wanted.where(leaves.c.kind.in_(kinds))
    if before is not None:
        wanted = wanted.where(leaves.c.number < before)
    return [_leaf(row) for row in connection.rows(wanted)]


def _leaf(row: Any) -> Leaf:
    return Leaf(row.number, row.kind, row.memory, row.edit, row.envelope)
