"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "expunge_store",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "expunge_memories",
        sa.Column("number", _number, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "expunge_states",
        sa.Column("memory", _number, sa.ForeignKey("expunge_memories.number"), primary_key=True, autoincrement=False),
        sa.Column("edit", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("secret", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "expunge_secrets",
        sa.Column("number", _number, primary_key=True, autoincrement=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "expunge_entries",
        sa.Column("number", _number, primary_key=True, autoincrement=False),
        sa.Column("memory", _number, sa.ForeignKey("expunge_memories.number"), nullable=False),
        sa.Column("site", sa.BigInteger, nullable=False),
        sa.Column("tag", sa.LargeBinary),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("expunge_entries_memory", "expunge_entries", ["memory", "number"])
    op.create_index("expunge_entries_tag", "expunge_entries", ["tag"])
    op.create_table(
        "expunge_pruned",
        sa.Column("number", _number, primary_key=True, autoincrement=False),
        sa.Column("memory", _number, sa.ForeignKey("expunge_memories.number"), nullable=False),
        sa.Column("entry", sa.BigInteger),
        sa.Column("tag", sa.LargeBinary),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
    op.create_index("expunge_pruned_memory", "expunge_pruned", ["memory", "number"])
    op.create_index("expunge_pruned_tag", "expunge_pruned", ["tag"])
    op.create_table(
        "expunge_anchors",
        sa.Column("memory", _number, sa.ForeignKey("expunge_memories.number"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("secret", sa.BigInteger, nullable=False),
        sa.Column("weights", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "expunge_holds",
        sa.Column("number", _number, primary_key=True, autoincrement=False),
        sa.Column("memory", _number, sa.ForeignKey("expunge_memories.number"), nullable=False),
        sa.Column("terms", sa.LargeBinary, nullable=False),
    )
    op.create_index("expunge_holds_memory", "expunge_holds", ["memory"])
    op.create_table(
        "expunge_requests",
        sa.Column("token", sa.LargeBinary, primary_key=True),
        sa.Column("answer", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "expunge_ledger",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("frontier", sa.LargeBinary, nullable=False),
        sa.Column("next_number", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "expunge_leaves",
        sa.Column("number", _number, primary_key=True, autoincrement=False),
        sa.Column("memory", sa.Text),
        sa.Column("edit", sa.BigInteger),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
    )
    op.create_index("expunge_leaves_memory", "expunge_leaves", ["memory", "number"])
    op.create_table(
        "expunge_nodes",
        sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "expunge_checkpoints",
        sa.Column("size", _number, primary_key=True, autoincrement=False),
        sa.Column("note", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """There is nothing before the first tables."""
    raise NotImplementedError("a store is never taken back to an older schema")
