"""From a URL to a database that is ready: the right kind, its tables, an identity."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from expunge.attestation.statements import Clock
from expunge.errors import InputError
from expunge.store.backends.database import Database
from expunge.store.backends.schema_version import SCHEMA_VERSION, prepare_schema, schema_version
from expunge.store.backends.sqlite import Sqlite
from expunge.store.identity import Identity, KeySources, create_identity, load_identity

__all__ = ["connect", "open_identity", "url_without_password"]


def connect(url: str, timeout: float) -> tuple[Database, Path | None]:
    """The database behind a URL, and where its signing key lies unless one is given."""
    parsed = _parsed(url)
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        file = Sqlite(parsed, timeout)
        return file, file.path.with_name(file.path.name + ".key")
    if kind in ("postgresql", "postgres"):
        if "@" in (parsed.host or ""):
            # Part of the password would be taken for the host, and shown when it is not found.
            raise InputError("an @ in the user or password of a URL is written %40")
        from expunge.store.backends.postgres import Postgres

        return Postgres(parsed, timeout), None
    raise InputError(f"{kind!r} is not a store; use sqlite:///file.db or postgresql://host/database")


def url_without_password(url: URL) -> str:
    """A URL as it may be shown: without any password."""
    secret = [name for name in url.query if "pass" in name.lower()]
    return url.difference_update_query(secret).render_as_string(hide_password=True)


def open_identity(database: Database, sources: KeySources, origin: str | None, clock: Clock) -> Identity:
    """The identity of the store in a database; where there is none, the tables and a new one."""
    with database.reading() as connection:
        if schema_version(connection) == SCHEMA_VERSION:
            identity = load_identity(connection, sources, origin, clock)
            if identity is not None:
                connection.rollback()
                database.recover()
                return identity
    with database.writing("expunge schema") as connection:
        prepare_schema(connection)
        identity = load_identity(connection, sources, origin, clock)
        if identity is None:
            identity = create_identity(connection, sources, origin, clock)
        connection.commit()
    return identity


def _parsed(url: str) -> URL:
    if not isinstance(url, str):
        raise InputError(f"a store is opened by its URL as text, as in sqlite:///ward.db, not {type(url).__name__}")
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # A password can only stand behind a colon or an equals sign.
        what = "that" if ":" in url or "=" in url else repr(url)
        raise InputError(f"{what} is not a URL; a store is opened as sqlite:///ward.db or postgresql://...") from None
