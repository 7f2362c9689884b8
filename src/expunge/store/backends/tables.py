"""The tables of a store. :mod:`expunge.store.backends.schema_version` creates them.

Format: ``docs/formats/store.md``. Whatever tells of an entry is sealed (:mod:`expunge.store.encryption`); what is not
sealed is structure. A value of another kind than its column's is found out on reading
(:mod:`expunge.store.backends.column_types`). A number (of an entry, a pruned record, a hold) also names its row of
``secrets``; numbers are never given twice and grow, so entries in order of number are in row order.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ForeignKey, Index, MetaData, Table

from expunge.store.backends.column_types import Bytes, Number, SmallNumber, Words

__all__ = [
    "anchors",
    "checkpoints",
    "entries",
    "holds",
    "jobs",
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
    "tokens",
]

metadata = MetaData()


def _memory(table: str) -> Column[Any]:
    place = Number(f"{table}.memory", key=True)
    return Column("memory", place, ForeignKey("expunge_memories.number"), nullable=False)


store = Table(
    "expunge_store",
    metadata,
    Column("number", SmallNumber("store.number"), primary_key=True, autoincrement=False),
    Column("uuid", Words("store.uuid"), nullable=False),
    Column("origin", Words("store.origin"), nullable=False),
    Column("public_key", Bytes("store.public_key"), nullable=False),
    Column("secret", Bytes("store.secret"), nullable=False),
)

memories = Table(
    "expunge_memories",
    metadata,
    Column("number", Number("memories.number", key=True), primary_key=True, autoincrement=False),
    Column("uuid", Words("memories.uuid"), nullable=False, unique=True),
    Column("name", Words("memories.name"), nullable=False, unique=True),
)

# What a reader asks for on every call stands first, the large column last.
states = Table(
    "expunge_states",
    metadata,
    Column(
        "memory",
        Number("states.memory", key=True),
        ForeignKey("expunge_memories.number"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("edit", Number("states.edit"), nullable=False),
    Column("digest", Bytes("states.digest"), nullable=False),
    Column("size", Number("states.size"), nullable=False),
    Column("secret", Number("states.secret"), nullable=False),
    Column("state", Bytes("states.state"), nullable=False),
)

secrets = Table(
    "expunge_secrets",
    metadata,
    Column("number", Number("secrets.number", key=True), primary_key=True, autoincrement=False),
    Column("secret", Bytes("secrets.secret"), nullable=False),
)

entries = Table(
    "expunge_entries",
    metadata,
    Column("number", Number("entries.number", key=True), primary_key=True, autoincrement=False),
    _memory("entries"),
    Column("site", Number("entries.site"), nullable=False),
    Column("mark", Bytes("entries.mark", optional=True)),
    Column("content", Bytes("entries.content"), nullable=False),
    Index("expunge_entries_memory", "memory", "number"),
)

pruned = Table(
    "expunge_pruned",
    metadata,
    Column("number", Number("pruned.number", key=True), primary_key=True, autoincrement=False),
    _memory("pruned"),
    Column("entry", Number("pruned.entry", optional=True)),
    Column("mark", Bytes("pruned.mark", optional=True)),
    Column("record", Bytes("pruned.record"), nullable=False),
    Index("expunge_pruned_memory", "memory", "number"),
)

anchors = Table(
    "expunge_anchors",
    metadata,
    Column(
        "memory",
        Number("anchors.memory", key=True),
        ForeignKey("expunge_memories.number"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("number", Number("anchors.number"), primary_key=True, autoincrement=False),
    Column("secret", Number("anchors.secret"), nullable=False),
    Column("weights", Bytes("anchors.weights"), nullable=False),
)

holds = Table(
    "expunge_holds",
    metadata,
    Column("number", Number("holds.number", key=True), primary_key=True, autoincrement=False),
    _memory("holds"),
    Column("terms", Bytes("holds.terms"), nullable=False),
    Index("expunge_holds_memory", "memory"),
)

requests = Table(
    "expunge_requests",
    metadata,
    Column("token", Bytes("requests.token"), primary_key=True),
    Column("answer", Bytes("requests.answer"), nullable=False),
)

ledger = Table(
    "expunge_ledger",
    metadata,
    Column("number", SmallNumber("ledger.number"), primary_key=True, autoincrement=False),
    Column("frontier", Bytes("ledger.frontier"), nullable=False),
    Column("next_number", Number("ledger.next_number"), nullable=False),
)

leaves = Table(
    "expunge_leaves",
    metadata,
    Column("number", Number("leaves.number", key=True), primary_key=True, autoincrement=False),
    Column("memory", Words("leaves.memory", optional=True)),
    Column("edit", Number("leaves.edit", optional=True)),
    Column("kind", Words("leaves.kind"), nullable=False),
    Column("envelope", Bytes("leaves.envelope"), nullable=False),
    Index("expunge_leaves_memory", "memory", "number"),
)

nodes = Table(
    "expunge_nodes",
    metadata,
    Column("level", SmallNumber("nodes.level"), primary_key=True, autoincrement=False),
    Column("number", Number("nodes.number"), primary_key=True, autoincrement=False),
    Column("hash", Bytes("nodes.hash"), nullable=False),
)

checkpoints = Table(
    "expunge_checkpoints",
    metadata,
    Column("size", Number("checkpoints.size", key=True), primary_key=True, autoincrement=False),
    Column("note", Bytes("checkpoints.note"), nullable=False),
)

# Of the service: who may ask, and what it is working on.
tokens = Table(
    "expunge_tokens",
    metadata,
    Column("name", Words("tokens.name"), primary_key=True),
    Column("hash", Bytes("tokens.hash"), nullable=False),
    Column("scopes", Words("tokens.scopes"), nullable=False),
    Column("memory", Words("tokens.memory", optional=True)),
    Column("note", Words("tokens.note"), nullable=False),
    Column("created", Number("tokens.created"), nullable=False),
    Column("expires", Number("tokens.expires", optional=True)),
    Column("revoked", Number("tokens.revoked", optional=True)),
)

jobs = Table(
    "expunge_jobs",
    metadata,
    Column("token", Bytes("jobs.token"), primary_key=True),
    Column("kind", Words("jobs.kind"), nullable=False),
    Column("state", Words("jobs.state"), nullable=False),
    Column("done", Number("jobs.done"), nullable=False),
    Column("total", Number("jobs.total"), nullable=False),
    Column("worker", Words("jobs.worker"), nullable=False),
    Column("created", Number("jobs.created"), nullable=False),
    Column("beat", Number("jobs.beat"), nullable=False),
    Column("content", Bytes("jobs.content"), nullable=False),
)
