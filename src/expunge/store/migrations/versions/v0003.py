"""Subjects are found by marks, each under the secret of its row, and no longer by tags under the store's."""

from __future__ import annotations

import hmac

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_secrets = sa.table("expunge_secrets", sa.column("number"), sa.column("secret"))


def upgrade() -> None:
    """Replace every tag, then write both tables anew: old pages may hold tags of what is long gone."""
    for name in ("expunge_entries", "expunge_pruned"):
        op.drop_index(f"{name}_tag", name)
        _mark(name)
        if op.get_context().dialect.name == "sqlite":
            # The old table is dropped, and `secure_delete` zeroes its pages.
            with op.batch_alter_table(name, recreate="always") as batch:
                batch.alter_column("tag", new_column_name="mark")
        else:
            # To compute a column afresh, PostgreSQL writes a new file with the rows that are there.
            op.alter_column(name, "tag", new_column_name="mark")
            op.alter_column(name, "mark", type_=sa.LargeBinary, postgresql_using="mark || ''::bytea")


def downgrade() -> None:
    """A store is never taken back."""
    raise NotImplementedError("a store is never taken back to an older schema")


def _mark(name: str) -> None:
    table = sa.table(name, sa.column("number"), sa.column("tag", sa.LargeBinary))
    found = (
        sa.select(table.c.number, table.c.tag, _secrets.c.secret)
        .outerjoin(_secrets, _secrets.c.number == table.c.number)
        .where(table.c.tag.is_not(None))
    )
    marks = [
        {
            "number_": row.number,
            # A row without its secret is lost, and so is its mark.
            "mark_": None if row.secret is None else _under(bytes(row.secret), bytes(row.tag)),
        }
        for row in op.get_bind().execute(found)
    ]
    if marks:
        renew = sa.update(table).where(table.c.number == sa.bindparam("number_")).values(tag=sa.bindparam("mark_"))
        op.get_bind().execute(renew, marks)


def _under(secret: bytes, tag: bytes) -> bytes:
    return hmac.digest(secret, b"expunge/mark/v1\n" + tag, "sha256")[:16]
