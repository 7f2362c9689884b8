"""Bringing a database to the newest schema, and refusing one that is newer than this program."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from expunge.errors import StoreError
from expunge.store.backends.tables import HEAD, VERSION_TABLE

__all__ = ["revision_of", "upgrade"]

_SCRIPTS = Path(__file__).parents[1] / "migrations"


def revision_of(connection: Connection) -> str | None:
    """The schema's revision; None for a database without one."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 — a constant
    return None if found is None else str(found)


def upgrade(connection: Connection) -> None:
    """Run the migrations that are missing, inside the caller's transaction."""
    revision = revision_of(connection)
    if revision == HEAD:
        return
    if revision is not None and revision > HEAD:
        raise StoreError(
            f"this store has schema {revision}, and this program knows {HEAD}: use the version of expunge that made it"
        )
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
