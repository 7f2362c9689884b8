"""Bearer tokens: 256 random bits each, of which the store keeps only a hash.

A token reads ``expunge_<name>_<secret>``. The name finds its row and may be shown and logged; the secret is shown
once, when it is made. Because it is random and long, SHA-256 is all the hashing it needs. A token has scopes, and is
good for every memory or for one, by name. Nothing is cached: a token that is revoked is refused by every worker's
next request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from sqlalchemy import bindparam, insert, select, update

from expunge.errors import InputError
from expunge.store import Store
from expunge.store.backends.tables import tokens

__all__ = ["SCOPES", "Scope", "Token", "Tokens", "check_scopes"]

Scope = Literal["read", "write", "erase", "audit", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_FORM = re.compile(r"expunge_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[0-9a-f]{12}")
_MAX_NOTE = 200
_FIND = select(tokens).where(tokens.c.name == bindparam("name_"))


@dataclass(frozen=True)
class Token:
    """What a token may do. ``memory`` is None for all of the store; times are seconds since 1970."""

    name: str
    scopes: frozenset[Scope]
    memory: str | None
    note: str
    created: int
    expires: int | None
    revoked: int | None

    def live(self, now: float) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def covers(self, memory: str | None) -> bool:
        """Whether it reaches a memory, or with None the whole store."""
        return self.memory is None or self.memory == memory


class Tokens:
    """The tokens of one store."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def create(
        self,
        scopes: Iterable[str],
        *,
        memory: str | None = None,
        note: str = "",
        lifetime: float | None = None,
    ) -> tuple[str, Token]:
        """Make a token; its text is returned here and nowhere else."""
        wanted = check_scopes(scopes)
        if memory is not None and memory not in self._store:
            raise InputError(f"there is no memory {memory!r} in this store")
        if len(note) > _MAX_NOTE or not note.isprintable():
            raise InputError(f"a note has at most {_MAX_NOTE} printable characters")
        if lifetime is not None and not 0 < lifetime < 1e10:
            raise InputError(f"a token lives for a positive number of seconds, not {lifetime!r}")
        now = int(self._clock())
        token = Token(
            name=secrets.token_hex(6),
            scopes=wanted,
            memory=memory,
            note=note,
            created=now,
            expires=None if lifetime is None else now + max(1, round(lifetime)),
            revoked=None,
        )
        text = f"expunge_{token.name}_{secrets.token_urlsafe(32)}"
        row = vars(token) | {"scopes": " ".join(sorted(wanted)), "hash": _hash(text)}
        with self._store.writing("tokens") as connection:
            connection.execute(insert(tokens), row)
            connection.commit()
        return text, token

    def find(self, text: str) -> Token | None:
        """The token with this text, if it is good now."""
        form = _FORM.fullmatch(text)
        row = None if form is None else self._store.read_row(_FIND, {"name_": form.group(1)})
        # The comparison happens in any case, and takes the same time whatever it finds.
        stored = bytes(32) if row is None else row.hash
        if not hmac.compare_digest(stored, _hash(text)) or row is None:
            return None
        token = _token(row)
        return token if token.live(self._clock()) else None

    def all(self) -> list[Token]:
        """Every token, revoked ones too, in order of creation."""
        with self._store.reading() as connection:
            rows = connection.rows(select(tokens).order_by(tokens.c.created, tokens.c.name))
        return [_token(row) for row in rows]

    def revoke(self, name: str) -> Token:
        """End a token, by its name or its whole text. Its row stays, for the record."""
        form = _FORM.fullmatch(name)
        found = form.group(1) if form is not None else name
        with self._store.writing("tokens") as connection:
            row = None
            if _NAME.fullmatch(found):
                row = connection.first(select(tokens).where(tokens.c.name == found))
            if row is None:
                raise InputError("there is no such token; expunge token list shows their names")
            if row.revoked is None:
                ended = update(tokens).where(tokens.c.name == found).values(revoked=int(self._clock()))
                connection.execute(ended)
                connection.commit()
                row = connection.first(select(tokens).where(tokens.c.name == found))
        return _token(row)


def check_scopes(scopes: Iterable[str]) -> frozenset[Scope]:
    """Scopes of a token: one or more of those there are."""
    wanted = set(scopes)
    known: frozenset[Scope] = frozenset(scope for scope in SCOPES if scope in wanted)
    if unknown := sorted(wanted - known):
        raise InputError(f"{unknown[0]!r} is no scope; there are {', '.join(SCOPES)}")
    if not known:
        raise InputError(f"a token needs a scope: {', '.join(SCOPES)}")
    return known


def _token(row: Any) -> Token:
    stored = set(row.scopes.split())
    return Token(
        name=row.name,
        scopes=frozenset(scope for scope in SCOPES if scope in stored),
        memory=row.memory,
        note=row.note,
        created=row.created,
        expires=row.expires,
        revoked=row.revoked,
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(b"expunge/token/v1\n" + text.encode("utf-8", "surrogateescape")).digest()
