"""Runs a migration on the connection that the store hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from expunge.store.backends.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
