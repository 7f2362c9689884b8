"""The identity of a store: UUID, origin of its ledger, the keys that sign it, and the secrets that go with it."""

from __future__ import annotations

import os
import secrets as randomness
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import insert, select

from expunge.attestation.statements import Clock, utc_now
from expunge.errors import InputError, StoreError
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.envelope import sign_statement
from expunge.ledger.event import KeyUse
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.signer_uri import file_of, open_signer
from expunge.ledger.signing import SigningKey, save_signing_key
from expunge.ledger.statement import Statement
from expunge.ledger.verifying_key import KeyAlgorithm, Signer, VerifyingKey
from expunge.store.backends.database import CheckedConnection
from expunge.store.backends.tables import ledger, store
from expunge.store.key_table import StoreKey, read_keys, write_keys
from expunge.store.pepper import load_pepper, pepper_hash

__all__ = ["Identity", "KeySource", "KeySources", "create_identity", "load_identity", "open_key"]

KeySource = Signer | str | os.PathLike[str] | None


@dataclass(frozen=True)
class KeySources:
    """What a store is opened with: who signs receipts and heads, and the file of the pepper."""

    receipts: KeySource = None
    heads: KeySource = None
    pepper: str | os.PathLike[str] | None = None
    passphrase: str | None = None
    # Where key and pepper lie unless they are named: beside a SQLite file.
    default_key: Path | None = None
    default_pepper: Path | None = None

    @property
    def pepper_file(self) -> Path | None:
        """The file of the pepper, which need not be there."""
        return self.default_pepper if self.pepper is None else Path(self.pepper)


@dataclass(frozen=True)
class Identity:
    """UUID, origin, signers and secrets of one store, the public keys it knows, and the clock that dates receipts."""

    uuid: str
    origin: str
    signing_key: Signer
    secret: bytes = field(repr=False)
    clock: Clock = utc_now
    heads_key: Signer | None = None
    keys: tuple[StoreKey, ...] = ()
    pepper: bytes = field(default=b"", repr=False)
    pepper_file: Path | None = None

    @property
    def head_key(self) -> Signer:
        """What signs heads."""
        return self.signing_key if self.heads_key is None else self.heads_key

    @property
    def log_key(self) -> NoteKey:
        """The public key under which its checkpoints verify."""
        return NoteKey(self.origin, self.head_key.public)

    @property
    def log_keys(self) -> tuple[NoteKey, ...]:
        """The public keys under which its checkpoints verify, older ones included."""
        return tuple(NoteKey(self.origin, key) for key in self.known("heads"))

    def known(self, use: KeyUse) -> tuple[VerifyingKey, ...]:
        """The public keys for one use that the store has or had."""
        return tuple(known.key for known in self.keys if known.use == use)

    @property
    def revocations(self) -> int:
        """How many keys were revoked when the store was opened."""
        return sum(known.revoked for known in self.keys)

    def sign(self, statement: Statement) -> bytes:
        """The signed envelope of a statement."""
        return sign_statement(statement, self.signing_key).to_bytes()

    def sign_head(self, frontier: Frontier) -> SignedNote:
        """The signed head of the ledger."""
        return sign_checkpoint(Checkpoint(self.origin, frontier.size, frontier.root), self.head_key)

    def check_keys(self, keys: tuple[StoreKey, ...]) -> None:
        """Refuse to go on with signers that are not, or no longer, among the store's valid keys."""
        for use, signer in (("receipts", self.signing_key), ("heads", self.head_key)):
            found = next((known for known in keys if (known.use, known.key) == (use, signer.public)), None)
            if found is None:
                raise StoreError(
                    "this store's ledger is signed with another key; open it with the one it was made with, or with "
                    f"one that was added since ({signer.public.key_id} is none of its keys for {use})"
                )
            if found.revoked:
                raise StoreError(
                    f"the key {signer.public.key_id} for {use} was revoked in the ledger; open the store with a key "
                    "that is valid (expunge key list)",
                    code="signing-key-revoked",
                )


def create_identity(connection: CheckedConnection, sources: KeySources, origin: str | None, clock: Clock) -> Identity:
    """Give a new store its identity; a key file that is not there is made."""
    name = str(uuid.uuid4())
    receipts, heads = _signers(sources, create=True)
    keys = (StoreKey("receipts", receipts.public), StoreKey("heads", (heads or receipts).public))
    identity = Identity(
        uuid=name,
        origin=origin or f"expunge/{name}",
        signing_key=receipts,
        secret=randomness.token_bytes(32),
        clock=clock,
        heads_key=heads,
        keys=keys,
        pepper=load_pepper(sources.pepper_file, receipts, create=True),
        pepper_file=sources.pepper_file,
    )
    identity.log_key  # noqa: B018 — an origin that cannot name a key is refused now
    connection.execute(
        insert(store),
        {
            "number": 1,
            "uuid": identity.uuid,
            "origin": identity.origin,
            "secret": identity.secret,
            "pepper_hash": pepper_hash(identity.pepper),
        },
    )
    write_keys(connection, keys)
    head = {"number": 1, "frontier": Frontier().to_bytes(), "next_number": 1, "time": 0, "mirrors": 0}
    connection.execute(insert(ledger), head)
    return identity


def load_identity(
    connection: CheckedConnection, sources: KeySources, origin: str | None, clock: Clock
) -> Identity | None:
    """The identity of a store that exists; None when it has none yet."""
    row = connection.first(select(store))
    if row is None:
        return None
    keys = read_keys(connection)
    receipts, heads = _signers(sources, create=False)
    identity = Identity(row.uuid, row.origin, receipts, row.secret, clock, heads, keys)
    identity.check_keys(keys)
    if origin is not None and origin != row.origin:
        raise StoreError(f"the ledger of this store has the origin {row.origin!r}, not {origin!r}")
    pepper = load_pepper(sources.pepper_file, receipts, create=False)
    if pepper_hash(pepper) != row.pepper_hash:
        raise StoreError(
            "this is another pepper than the store was made with: requests made before would not be known again; "
            "after a rotation the pepper is in a file (--pepper, $EXPUNGE_PEPPER, pepper=)",
            code="pepper-wrong",
        )
    return Identity(row.uuid, row.origin, receipts, row.secret, clock, heads, keys, pepper, sources.pepper_file)


def open_key(source: KeySource, passphrase: str | None) -> Signer:
    """The signer of a key that is there."""
    return _load_key(source, passphrase, create=False)


def _signers(sources: KeySources, *, create: bool) -> tuple[Signer, Signer | None]:
    """Who signs receipts, and who signs heads where that is somebody else."""
    key = sources.receipts
    if key is None and sources.default_key is None:
        raise InputError(
            "a PostgreSQL store needs its signing key: --signing-key or $EXPUNGE_SIGNING_KEY with a file, which "
            "expunge keygen makes, or signing_key="
        )
    receipts = _load_key(sources.default_key if key is None else key, sources.passphrase, create=create)
    if sources.heads is not None:
        heads = _load_key(sources.heads, sources.passphrase, create=False)
        if heads.public.algorithm is not KeyAlgorithm.ED25519:
            raise InputError("heads are signed with Ed25519; the head key is of another kind", code="head-key-needed")
        return receipts, heads
    if receipts.public.algorithm is not KeyAlgorithm.ED25519:
        raise InputError(
            f"the signing key is of {receipts.public.algorithm.value}, and heads are signed with Ed25519: name a key "
            "for them with --head-key, $EXPUNGE_HEAD_KEY or head_key=",
            code="head-key-needed",
        )
    return receipts, None


def _load_key(source: KeySource, passphrase: str | None, *, create: bool) -> Signer:
    if not isinstance(source, str | os.PathLike):
        if source is None or not hasattr(source, "sign") or not hasattr(source, "public"):
            raise InputError(f"signing_key is a signer, a path or a URI, not a {type(source).__name__}")
        return source
    uri = os.fspath(source)
    path = Path(source) if isinstance(source, os.PathLike) else file_of(uri)
    uri = uri if path is None else f"file:{path}"
    try:
        return open_signer(uri)
    except (InputError, StoreError) as problem:
        if path is not None and problem.code == "signing-key-locked" and passphrase is not None:
            return open_signer(uri, passphrase)
        if path is None or problem.code != "signing-key-missing" or not create:
            raise
    made = SigningKey.generate()
    save_signing_key(made, path, passphrase)
    return made
