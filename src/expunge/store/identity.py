"""The identity of a store: UUID, origin of its ledger, signing key, and the secret behind its subject tags."""

from __future__ import annotations

import hmac
import os
import secrets as randomness
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sqlalchemy import insert, select

from expunge.attestation.statements import Clock, utc_now
from expunge.errors import InputError, StoreError
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.envelope import sign_statement
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.signing import SigningKey, load_signing_key, save_signing_key
from expunge.ledger.statement import Statement
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import ledger, store

__all__ = ["Identity", "KeySource", "create_identity", "load_identity"]

KeySource = SigningKey | str | os.PathLike[str] | None


@dataclass(frozen=True)
class Identity:
    """UUID, origin, signing key and secret of one store, and the clock that dates its receipts."""

    uuid: str
    origin: str
    signing_key: SigningKey
    secret: bytes = field(repr=False)
    clock: Clock = utc_now

    @property
    def log_key(self) -> NoteKey:
        """The public key under which its checkpoints verify."""
        return NoteKey(self.origin, self.signing_key.public)

    @cached_property
    def pepper(self) -> bytes:
        """What makes idempotency keys unguessable to whoever has the database and not the signing key."""
        return hmac.digest(self.signing_key.private.private_bytes_raw(), b"expunge/pepper/v1", "sha256")

    def sign(self, statement: Statement) -> bytes:
        """The signed envelope of a statement."""
        return sign_statement(statement, self.signing_key).to_bytes()

    def sign_head(self, frontier: Frontier) -> SignedNote:
        """The signed head of the ledger."""
        return sign_checkpoint(Checkpoint(self.origin, frontier.size, frontier.root), self.signing_key)


def create_identity(
    connection: CheckedConnection,
    key: KeySource,
    default_key: Path | None,
    passphrase: str | None,
    origin: str | None,
    clock: Clock,
) -> Identity:
    """Give a new store its identity; a key file that is not there is made."""
    name = str(uuid.uuid4())
    signing_key = _load_key(_key_source(key, default_key), passphrase, create=True)
    identity = Identity(name, origin or f"expunge/{name}", signing_key, randomness.token_bytes(32), clock)
    identity.log_key  # noqa: B018 — an origin that cannot name a key is refused now
    connection.execute(
        insert(store),
        {
            "number": 1,
            "uuid": identity.uuid,
            "origin": identity.origin,
            "public_key": signing_key.public.raw,
            "secret": identity.secret,
        },
    )
    connection.execute(insert(ledger), {"number": 1, "frontier": Frontier().to_bytes(), "next_number": 1})
    return identity


def load_identity(
    connection: CheckedConnection,
    key: KeySource,
    default_key: Path | None,
    passphrase: str | None,
    origin: str | None,
    clock: Clock,
) -> Identity | None:
    """The identity of a store that exists; None when it has none yet."""
    row = connection.first(select(store))
    if row is None:
        return None
    signing_key = _load_key(_key_source(key, default_key), passphrase, create=False)
    if signing_key.public.raw != row.public_key:
        raise StoreError("this store's ledger is signed with another key; open it with the one it was made with")
    if origin is not None and origin != row.origin:
        raise StoreError(f"the ledger of this store has the origin {row.origin!r}, not {origin!r}")
    return Identity(row.uuid, row.origin, signing_key, row.secret, clock)


def _key_source(key: KeySource, default_key: Path | None) -> SigningKey | Path:
    if isinstance(key, SigningKey):
        return key
    if isinstance(key, str | os.PathLike):
        return Path(key)
    if key is not None:
        raise InputError(f"signing_key is a SigningKey or the path of one, not a {type(key).__name__}")
    if default_key is None:
        raise InputError(
            "a PostgreSQL store needs its signing key: --signing-key or $EXPUNGE_SIGNING_KEY with a file, which "
            "expunge keygen makes, or signing_key="
        )
    return default_key


def _load_key(source: SigningKey | Path, passphrase: str | None, *, create: bool) -> SigningKey:
    if isinstance(source, SigningKey):
        return source
    try:
        return load_signing_key(source)
    except (InputError, StoreError) as problem:
        if problem.code == "signing-key-locked" and passphrase is not None:
            return load_signing_key(source, passphrase)
        if problem.code != "signing-key-missing" or not create:
            raise
    made = SigningKey.generate()
    save_signing_key(made, source, passphrase)
    return made
