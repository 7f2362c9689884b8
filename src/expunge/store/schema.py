"""The tables of a store. `migrations/` creates them; a test holds the two together.

Format: ``docs/formats/store.md``. Whatever tells of an entry is sealed (:mod:`expunge.store.seal`); what is not
sealed is structure. A number (of an entry, a pruned record, a hold) also names its row of ``secrets``; numbers are
never given twice and grow, so entries in order of number are in row order.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

__all__ = [
    "HEAD",
    "VERSION_TABLE",
    "anchors",
    "checkpoints",
    "entries",
    "holds",
    "leaves",
    "ledger",
    "memories",
    "metadata",
    "nodes",
    "pruned",
    "requests",
    "secrets",
    "states",
    "store",
]

# The newest revision in `migrations/versions`; revisions sort as text.
HEAD = "0001"
VERSION_TABLE = "expunge_schema"

metadata = MetaData()

# SQLite keeps a row number of its own unless the key is called INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")


def _memory() -> Column[int]:
    return Column("memory", _Number, ForeignKey("expunge_memories.number"), nullable=False)


store = Table(
    "expunge_store",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("uuid", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("secret", LargeBinary, nullable=False),
)

memories = Table(
    "expunge_memories",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("uuid", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
)

# What a reader asks for on every call stands first, the large column last.
states = Table(
    "expunge_states",
    metadata,
    Column("memory", _Number, ForeignKey("expunge_memories.number"), primary_key=True, autoincrement=False),
    Column("edit", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("secret", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

secrets = Table(
    "expunge_secrets",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("secret", LargeBinary, nullable=False),
)

entries = Table(
    "expunge_entries",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    _memory(),
    Column("site", BigInteger, nullable=False),
    Column("tag", LargeBinary),
    Column("content", LargeBinary, nullable=False),
    Index("expunge_entries_memory", "memory", "number"),
    Index("expunge_entries_tag", "tag"),
)

pruned = Table(
    "expunge_pruned",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    _memory(),
    Column("entry", BigInteger),
    Column("tag", LargeBinary),
    Column("record", LargeBinary, nullable=False),
    Index("expunge_pruned_memory", "memory", "number"),
    Index("expunge_pruned_tag", "tag"),
)

anchors = Table(
    "expunge_anchors",
    metadata,
    Column("memory", _Number, ForeignKey("expunge_memories.number"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("secret", BigInteger, nullable=False),
    Column("weights", LargeBinary, nullable=False),
)

holds = Table(
    "expunge_holds",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    _memory(),
    Column("terms", LargeBinary, nullable=False),
    Index("expunge_holds_memory", "memory"),
)

requests = Table(
    "expunge_requests",
    metadata,
    Column("token", LargeBinary, primary_key=True),
    Column("answer", LargeBinary, nullable=False),
)

ledger = Table(
    "expunge_ledger",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("frontier", LargeBinary, nullable=False),
    Column("next_number", BigInteger, nullable=False),
)

leaves = Table(
    "expunge_leaves",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("memory", Text),
    Column("edit", BigInteger),
    Column("kind", Text, nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Index("expunge_leaves_memory", "memory", "number"),
)

nodes = Table(
    "expunge_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)

checkpoints = Table(
    "expunge_checkpoints",
    metadata,
    Column("size", _Number, primary_key=True, autoincrement=False),
    Column("note", LargeBinary, nullable=False),
)
