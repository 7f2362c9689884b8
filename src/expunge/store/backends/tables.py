"""The tables of a store. :mod:`expunge.store.backends.schema_version` creates them.

Format: ``docs/formats/store.md``. Whatever tells of an entry is encrypted (:mod:`expunge.store.encryption`); what is
not encrypted is structure. A value of another type than its column's is found on reading
(:mod:`expunge.store.backends.database`).

No number counts anything that may be erased: an entry, and the record of a forgotten one, is numbered by its commitment
(`expunge.store.rows`), a memory by its name, and the order of admission is part of the encrypted state. Holds are
counted in the ledger, which tells of them in any case. A number is also that of the row in ``secrets``.

PostgreSQL keeps samples of columns in its statistics, where they outlive the rows. So it gathers none on
`unsampled_tables`: all tables but those of the ledger and of public keys, from which nothing is erased. The numbers
of rows are among the columns without statistics, because the number of an entry is a function of its salt.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, event

__all__ = [
    "cases",
    "checkpoints",
    "entries",
    "erasures",
    "forgotten",
    "holds",
    "jobs",
    "keys",
    "leaves",
    "ledger",
    "memories",
    "metadata",
    "mirror_erasures",
    "mirror_writes",
    "mirrors",
    "nodes",
    "requests",
    "secrets",
    "states",
    "store",
    "tokens",
    "unsampled_tables",
    "waiting",
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
    Column("secret", LargeBinary, nullable=False),
    Column("pepper_hash", LargeBinary, nullable=False),
)

keys = Table(
    "expunge_keys",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("purpose", Text, nullable=False),
    Column("algorithm", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("revoked", Integer, nullable=False),
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

# What opens the commitments to a case and an actor in the leaves of one request.
cases = Table(
    "expunge_cases",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

# Erasures of a subject that are to be carried out later: the leaf of the request, and when, in seconds since 1970.
erasures = Table(
    "expunge_erasures",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    Column("leaf", BigInteger, nullable=False, unique=True),
    Column("due", BigInteger, nullable=False),
    Column("begun", Integer, nullable=False),
    Column("terms", LargeBinary, nullable=False),
)

# Copies in other systems: the leaf that says since when, the memory that is copied (all where there is none), until
# when a process is at work on them, when to try again, and how often in a row that has failed.
mirrors = Table(
    "expunge_mirrors",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    Column("leaf", BigInteger, nullable=False, unique=True),
    Column("memory", Text),
    Column("busy", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("terms", LargeBinary, nullable=False),
)


def _mirror(**options: Any) -> Column[Any]:
    """The column with the number of the mirror that a row belongs to."""
    return Column("mirror", _ROW_NUMBER, ForeignKey("expunge_mirrors.number"), nullable=False, **options)


# Leaves whose entries are still to be written to a mirror.
mirror_writes = Table(
    "expunge_mirror_writes",
    metadata,
    _mirror(primary_key=True, autoincrement=False),
    Column("leaf", BigInteger, primary_key=True, autoincrement=False),
)

# Leaves whose entries are still to be deleted from a mirror; the terms name them.
mirror_erasures = Table(
    "expunge_mirror_erasures",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    _mirror(),
    Column("leaf", BigInteger, nullable=False),
    Column("terms", LargeBinary, nullable=False),
    Index("expunge_mirror_erasures_mirror", "mirror", "leaf"),
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
    # Of the latest leaf, in seconds since 1970.
    Column("time", BigInteger, nullable=False),
    # How many rows `expunge_mirrors` has: whoever locks this row knows it.
    Column("mirrors", Integer, nullable=False),
)

leaves = Table(
    "expunge_leaves",
    metadata,
    Column("number", _ROW_NUMBER, primary_key=True, autoincrement=False),
    Column("memory", Text),
    Column("edit", BigInteger),
    Column("kind", Text, nullable=False),
    Column("asked", BigInteger),
    Column("envelope", LargeBinary, nullable=False),
    Index("expunge_leaves_memory", "memory", "number"),
    Index("expunge_leaves_asked", "asked"),
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

# Of PostgreSQL: the file of the table of secrets that has dead rows, and how many, until a vacuum writes another.
waiting = Table(
    "expunge_waiting",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("file", BigInteger, nullable=False),
    Column("erased", BigInteger, nullable=False),
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

unsampled_tables = (
    *(store, memories, states, secrets, entries, forgotten, holds, cases, erasures, requests, waiting, tokens, jobs),
    *(mirrors, mirror_writes, mirror_erasures),
)


def without_statistics(table: Table) -> str:
    """The statement after which PostgreSQL samples no column of a table."""
    return f"ALTER TABLE {table.name} " + ", ".join(
        f"ALTER COLUMN {column.name} SET STATISTICS 0" for column in table.columns
    )


for _table in unsampled_tables:
    _ddl = DDL(without_statistics(_table))  # type: ignore[no-untyped-call]
    event.listen(_table, "after_create", _ddl.execute_if(dialect="postgresql"))
