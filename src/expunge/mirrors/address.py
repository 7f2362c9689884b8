"""Where a mirror is: the URL of a system, and which collection or table in it.

======================================  ==========================================================================
``chroma:///folder#COLLECTION``         a folder of Chroma's persistent client
``postgresql://host/db#pgvector:TABLE`` a table with a column of pgvector
``lancedb:///folder#TABLE``             a folder of LanceDB
``qdrant:///folder``                    a shard of Qdrant's engine, by ``qdrant-edge-py``
``sqlite:///file``                      any SQLite file; to be scanned only
======================================  ==========================================================================

Columns of a table that are not called ``id``, ``embedding``, ``document`` and ``metadata`` are named behind a question
mark: ``#pgvector:notes?text=body&vector=v``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from expunge.errors import InputError, MissingExtra
from expunge.mirrors.mirror import Mirror

__all__ = ["ADAPTERS", "Address", "open_mirror"]

# By kind: module and class of the adapter, and the extra that it needs.
ADAPTERS = {
    "chroma": ("expunge.mirrors.chroma", "ChromaMirror", "chroma"),
    "pgvector": ("expunge.mirrors.pgvector", "PgvectorMirror", "pgvector"),
    "lancedb": ("expunge.mirrors.lancedb", "LanceMirror", "lancedb"),
    "qdrant": ("expunge.mirrors.qdrant", "QdrantMirror", "qdrant"),
    "sqlite": ("expunge.mirrors.sqlite", "SqliteFile", ""),
}
_DEFAULT_COLLECTION = "documents"


@dataclass(frozen=True)
class Address:
    """A mirror's URL, taken apart: its ``kind``, the ``url`` without the fragment, and the ``collection`` in it."""

    kind: str
    url: str = field(repr=False)
    collection: str = _DEFAULT_COLLECTION
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL apart; InputError where it is of no kind that is known."""
        if not isinstance(url, str):
            raise InputError(
                f"a mirror is named by its URL as text, not by {type(url).__name__}", code="mirror-unknown"
            )
        parts = urlsplit(url)
        named, _, options = parts.fragment.partition("?")
        kind = parts.scheme
        if kind in ("postgresql", "postgres"):
            kind, _, named = named.partition(":")
        if kind not in ADAPTERS:
            raise InputError(
                f"no mirror is of the kind {kind or parts.scheme!r}: use chroma:///folder#collection, "
                "postgresql://host/database#pgvector:table, lancedb:///folder#table or qdrant:///folder",
                code="mirror-unknown",
            )
        if kind != "pgvector" and parts.netloc:
            raise InputError(
                f"{kind} is in a folder of this machine: give its whole path behind three slashes, {kind}:///folder",
                code="mirror-unknown",
            )
        bare = urlunsplit((parts.scheme, parts.netloc, parts.path, parts.query, ""))
        return cls(kind, bare, unquote(named) or _DEFAULT_COLLECTION, tuple(parse_qsl(options)))

    @property
    def folder(self) -> Path:
        """The folder or file that the URL names."""
        path = unquote(urlsplit(self.url).path)
        # As in SQLAlchemy: three slashes are relative, four absolute; an absolute folder after three is meant as one.
        return Path(path.removeprefix("/") if path.startswith("//") else path)

    @property
    def full(self) -> str:
        """The URL with everything that was given, to be opened."""
        return f"{self.url}#{self._fragment}"

    @property
    def location(self) -> str:
        """The URL as it may be stored and shown: without a password."""
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        host = user.partition(":")[0] + at + host
        query = "&".join(pair for pair in parts.query.split("&") if not pair.lower().startswith(("pass", "sslpass")))
        # Not by `urlunsplit`, which takes the empty host of a folder away.
        return f"{parts.scheme}://{host}{parts.path}{f'?{query}' if query else ''}#{self._fragment}"

    @property
    def _fragment(self) -> str:
        named = ("pgvector:" if self.kind == "pgvector" else "") + quote(self.collection)
        return f"{named}?{urlencode(self.options)}" if self.options else named

    def option(self, name: str, default: str) -> str:
        """A choice behind the question mark."""
        return dict(self.options).get(name, default)


def open_mirror(url: str) -> Mirror:
    """The mirror at a URL, whose credentials, if any, stand in it. The system itself is reached at the first use."""
    address = Address.of(url)
    module, name, extra = ADAPTERS[address.kind]
    try:
        adapter: type[Mirror] = getattr(importlib.import_module(module), name)
    except ImportError as problem:
        missing = f"a mirror in {address.kind} needs {problem.name}: pip install 'expunge[{extra}]'"
        raise MissingExtra(missing) from None
    return adapter(address)
