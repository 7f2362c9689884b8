"""The ledger's tables: leaves in one order, the hashes of complete subtrees, the frontier, signed heads.

An append reads one row, the frontier, which it holds until its transaction ends: appends of one store follow each
other, whichever memory they belong to. Hashes are kept at every fourth level (`merkle.read_sparse`), so an append
writes 1 1/15 of them on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Select, bindparam, insert, select, update

from expunge.errors import InputError, VerificationError
from expunge.ledger.envelope import parse_envelope
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.tree import Frontier, ReadNode, read_sparse
from expunge.ledger.statement import Statement, parse_statement
from expunge.problem.problem import as_count
from expunge.store.backends.tables import leaves, ledger, nodes

__all__ = ["STRIDE", "Head", "Leaf", "frontier_of", "last_edit", "leaf_at", "leaves_from", "node_reader"]

STRIDE = 4
# The largest number that a database takes.
_MOST = (1 << 63) - 1

_LOCK = select(ledger.c.frontier, ledger.c.next_number).with_for_update()
_LEAVES, _NODES = insert(leaves), insert(nodes)
_MOVE = update(ledger).values(frontier=bindparam("frontier_"), next_number=bindparam("next_number_"))


@dataclass(frozen=True)
class Leaf:
    """One entry of the ledger: its index, what it is about, and the signed envelope.

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


class Head:
    """The end of the ledger, and the next free number, held by one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Take hold of it; whoever comes second waits."""
        row = connection.execute(_LOCK).first()
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

    def take(self, count: int) -> int:
        """First of `count` numbers that nothing else has or will have."""
        first = self._next
        self._next += count
        return first

    def skip_to(self, number: int) -> None:
        """Give no number below this one."""
        self._next = max(self._next, number)

    def append(self, envelope: bytes, kind: str, memory: str | None = None, edit: int | None = None) -> Leaf:
        """Add a leaf; it counts when `write` has been called and the transaction is committed."""
        index = self._frontier.size
        self._frontier, final = self._frontier.append(leaf_hash(envelope))
        self._leaves.append({"number": index, "kind": kind, "memory": memory, "edit": edit, "envelope": envelope})
        self._nodes += [
            {"level": node.level, "number": node.index, "hash": node.hash} for node in final if node.level % STRIDE == 0
        ]
        return Leaf(index, kind, memory, edit, envelope)

    def write(self) -> None:
        """Write what was appended and taken."""
        if self._leaves:
            for statement, rows in ((_LEAVES, self._leaves), (_NODES, self._nodes)):
                self._connection.execute(statement, rows if len(rows) > 1 else rows[0])
        self._connection.execute(_MOVE, {"frontier_": self._frontier.to_bytes(), "next_number_": self._next})
        self._leaves, self._nodes = [], []


def frontier_of(connection: Connection) -> Frontier:
    """The frontier as stored."""
    data = connection.execute(select(ledger.c.frontier)).scalar()
    if data is None:
        raise VerificationError("the store has lost the head of its ledger")
    return Frontier.from_bytes(data)


def node_reader(connection: Connection) -> ReadNode:
    """Hashes of complete subtrees, from the stored levels."""
    wanted = select(nodes.c.hash).where(nodes.c.level == bindparam("l"), nodes.c.number == bindparam("n"))

    def read(level: int, index: int) -> bytes:
        found = connection.execute(wanted, {"l": level, "n": index}).scalar()
        if found is None:
            raise VerificationError(f"the ledger has lost the hash of node {index} at level {level}")
        return bytes(found)

    return read_sparse(read, STRIDE)


def leaf_at(connection: Connection, index: int) -> Leaf:
    """One leaf."""
    row = None
    if type(index) is int and 0 <= index < _MOST:
        row = connection.execute(select(leaves).where(leaves.c.number == index)).first()
    if row is None:
        raise InputError(f"the ledger has no leaf {index!r}")
    return _leaf(row)


def last_edit(connection: Connection, memory: str) -> Leaf:
    """The latest receipt of a memory, or notice of an expiry: either states what the memory is now."""
    wanted = select(leaves).where(leaves.c.memory == memory, leaves.c.edit.is_not(None))
    row = connection.execute(wanted.order_by(leaves.c.number.desc()).limit(1)).first()
    if row is None:
        raise VerificationError(f"the ledger knows no memory {memory}")
    return _leaf(row)


def leaves_from(
    connection: Connection, *, start: int = 0, memory: str | None = None, limit: int | None = None
) -> Iterator[Leaf]:
    """Leaves in order, of one memory where it is named."""
    first = min(as_count(start, 0, "leaves are numbered from 0"), _MOST)
    most = None if limit is None else min(as_count(limit, 0, "the limit is a number of leaves"), _MOST)
    wanted: Select[Any] = select(leaves).where(leaves.c.number >= first).order_by(leaves.c.number)
    if memory is not None:
        wanted = wanted.where(leaves.c.memory == memory)
    with connection.execute(wanted.limit(most).execution_options(yield_per=500)) as found:
        for row in found:
            yield _leaf(row)


def _leaf(row: Any) -> Leaf:
    return Leaf(row.number, row.kind, row.memory, row.edit, bytes(row.envelope))
