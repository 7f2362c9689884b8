"""The tables of a store. :mod:`expunge.store.backends.schema_version` creates them.

Format: ``docs/formats/store.md``. Whatever tells of an entry is encrypted (:mod:`expunge.store.encryption`); what is
not encrypted is structure. A value of another type than its column's is found on reading
(:mod:`expunge.store.backends.database`).

No number counts anything that may be erased: an entry, and the record of a forgotten one, is numbered by its commitment
(`expunge.store.rows`), a memory by its name, and the order of admission is part of the encrypted state. Holds are
counted in the ledger, which tells of them in any case. A number is also that of the row in ``secrets``.

PostgreSQL keeps samples of columns in its statistics, where they outlive the rows. So it gathers none on
`unsampled_tables`: all tables but those of the ledger, from which nothing is erased. The numbers of rows are among the
columns without statistics, because the number of an entry is a function of its salt.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, event

__all__ = [
    "checkpoints",
    "entries",
    "forgotten",
    "holds",
    "jobs",
    "leaves",
    "ledger",
    "memories",
    "metadata",
    "nodes",
    "requests",
    "secrets",
    "states",
    "store",
    "tokens",
    "unsampled_tables",
    "without_statistics",
]

metadata = MetaData()

# SQLite keeps a row number of its own unless the key is called INTEGER.
_ROW_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _memory(**options: Any) -> Column[Any]:
    """The column with the number of the memory that a row belongs to."""
    return Column("memory", _ROW_NUMBER, ForeignKey("expunge_memories.number"), nullable=False, **options)


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
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    Column("uuid", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
)

# What a reader asks for on every call stands first, the large column last.
states = Table(
    "expunge_states",
    metadata,
    _memory(primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

secrets = Table(
    "expunge_secrets",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    Column("secret", LargeBinary, nullable=False),
)

entries = Table(
    "expunge_entries",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    _memory(),
    Column("mark", LargeBinary),
    Column("content", LargeBinary, nullable=False),
    Index("expunge_entries_memory", "memory", "number"),
)

forgotten = Table(
    "expunge_forgotten",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    _memory(),
    Column("mark", LargeBinary),
    Column("record", LargeBinary, nullable=False),
    Index("expunge_forgotten_memory", "memory", "number"),
)

holds = Table(
    "expunge_holds",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    _memory(),
    Column("terms", LargeBinary, nullable=False),
    Index("expunge_holds_memory", "memory"),
)

requests = Table(
    "expunge_requests",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True),
    Column("answer", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
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
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
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
    Column("size", _ROW_NUMBER, primary_key=True, autoincrement=False),
    Column("note", LargeBinary, nullable=False),
)

# Of the service: who may ask, and what it is working on.
tokens = Table(
    "expunge_tokens",
    metadata,
    Column("name", Text, primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("memory", Text),
    Column("note", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("revoked", BigInteger),
)

jobs = Table(
    "expunge_jobs",
    metadata,
    Column("id_hash", LargeBinary, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("worker", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("heartbeat", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

unsampled_tables = (store, memories, states, secrets, entries, forgotten, holds, requests, tokens, jobs)


def without_statistics(table: Table) -> str:
    """The statement after which PostgreSQL samples no column of a table."""
    return f"ALTER TABLE {table.name} " + ", ".join(
        f"ALTER COLUMN {column.name} SET STATISTICS 0" for column in table.columns
    )


for _table in unsampled_tables:
    _ddl = DDL(without_statistics(_table))  # type: ignore[no-untyped-call]
    event.listen(_table, "after_create", _ddl.execute_if(dialect="postgresql"))
