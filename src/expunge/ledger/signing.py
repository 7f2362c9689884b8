"""Ed25519 signing keys: made, kept in a file that only its owner can read, used.

Format: ``docs/formats/signing-key.md``. Ed25519 is RFC 8032, from ``cryptography``; a private key is PEM PKCS #8 (RFC
5958, RFC 8410), so OpenSSL reads and writes it. Saving never overwrites, and creates the file with mode 0600; loading
refuses a private key that group or others can touch, looking at the opened file rather than at its name. Public keys
are in :mod:`expunge.ledger.verifying_key`, keys that a module or a service holds in :mod:`expunge.ledger.signer_uri`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from expunge.errors import InputError, StoreError
from expunge.ledger.file_writing import new_file
from expunge.ledger.verifying_key import PUBLIC_KEY_SIZE, SIGNATURE_SIZE, Signer, VerifyingKey

__all__ = [
    "PUBLIC_KEY_SIZE",
    "SIGNATURE_SIZE",
    "Signer",
    "SigningKey",
    "VerifyingKey",
    "load_signing_key",
    "load_verifying_key",
    "read_key_file",
    "save_signing_key",
    "save_verifying_key",
    "write_key_file",
]

_MAX_KEY_FILE = 16 * 1024
# What OpenSSL takes for a password.
_MAX_PASSPHRASE = 1023
_ENCRYPTED_HEADER = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


@dataclass(frozen=True, slots=True, eq=False)
class SigningKey:
    """A private key. Its ``repr`` shows the public half only."""

    private: Ed25519PrivateKey = field(repr=False)
    public: VerifyingKey = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.private, Ed25519PrivateKey):
            raise InputError(
                f"a signing key is an Ed25519 private key, not a {type(self.private).__name__}",
                code="signing-key-wrong-type",
            )
        object.__setattr__(self, "public", VerifyingKey(self.private.public_key().public_bytes_raw()))

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a new key from the system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """Rebuild the key of a 32-byte RFC 8032 seed."""
        if len(seed) != PUBLIC_KEY_SIZE:
            raise InputError(f"an Ed25519 seed has {PUBLIC_KEY_SIZE} bytes, not {len(seed)}")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def key_id(self) -> str:
        """The id of the public half."""
        return self.public.key_id

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature over ``message``."""
        return self.private.sign(message)

    def to_pem(self, passphrase: str | None = None) -> bytes:
        """Return PEM PKCS #8, encrypted when there is a passphrase."""
        encryption: KeySerializationEncryption = NoEncryption()
        if passphrase is not None:
            if not passphrase:
                raise InputError("an empty passphrase protects nothing; pass None to store the key in clear")
            secret = passphrase.encode("utf-8", "surrogatepass")
            if len(secret) > _MAX_PASSPHRASE:
                raise InputError(f"a passphrase has at most {_MAX_PASSPHRASE} bytes, not {len(secret)}")
            encryption = BestAvailableEncryption(secret)
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    @classmethod
    def from_pem(cls, pem: bytes, passphrase: str | None = None) -> SigningKey:
        """Read PEM PKCS #8."""
        encrypted = pem.lstrip().startswith(_ENCRYPTED_HEADER)
        if encrypted and passphrase is None:
            raise InputError("the signing key is encrypted; a passphrase is needed", code="signing-key-locked")
        if passphrase is not None and not encrypted:
            raise InputError(
                "a passphrase was given, but the signing key is not encrypted", code="signing-key-passphrase-wrong"
            )
        secret = None if passphrase is None else passphrase.encode("utf-8", "surrogatepass")
        try:
            loaded = load_pem_private_key(pem, secret)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            if encrypted:
                raise InputError(
                    "the passphrase does not open the signing key", code="signing-key-passphrase-wrong"
                ) from None
            raise InputError("not a PEM PKCS #8 private key", code="signing-key-malformed") from None
        if not isinstance(loaded, Ed25519PrivateKey):
            raise InputError("the private key is not an Ed25519 key", code="signing-key-wrong-type")
        return cls(loaded)


def save_signing_key(key: SigningKey, path: str | os.PathLike[str], passphrase: str | None = None) -> None:
    """Write a private key to a new file with mode 0600."""
    write_key_file(Path(path), key.to_pem(passphrase), 0o600)


def load_signing_key(path: str | os.PathLike[str], passphrase: str | None = None) -> SigningKey:
    """Read a private key from a file that nobody else can touch."""
    return SigningKey.from_pem(read_key_file(Path(path), private=True), passphrase)


def save_verifying_key(key: VerifyingKey, path: str | os.PathLike[str]) -> None:
    """Write a public key to a new file with mode 0644."""
    write_key_file(Path(path), key.to_pem(), 0o644)


def load_verifying_key(path: str | os.PathLike[str]) -> VerifyingKey:
    """Read a public key."""
    return VerifyingKey.from_pem(read_key_file(Path(path), private=False))


def read_key_file(path: Path, *, private: bool) -> bytes:
    """Return the bytes of a key file; a private one must be its owner's alone."""
    try:
        # Non-blocking, so that a named pipe at this path is refused below instead of being waited for.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise StoreError(
            f"there is no key file at {path}; a store opens with its signing key "
            "(--signing-key, $EXPUNGE_SIGNING_KEY, signing_key=)",
            code="signing-key-missing",
        ) from None
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {_reason(error)}", code="signing-key-unreadable") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{path} is not an ordinary file", code="signing-key-unreadable")
        if private:
            _check_private(path, status)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_MAX_KEY_FILE + 1)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {_reason(error)}", code="signing-key-unreadable") from None
    finally:
        os.close(descriptor)
    if len(data) > _MAX_KEY_FILE:
        raise InputError(f"{path} is too large to be a key", code="signing-key-malformed")
    return data


def _check_private(path: Path, status: os.stat_result) -> None:
    # Windows keeps access rights elsewhere; its mode bits say nothing.
    if os.name == "nt":
        return
    mode = stat.S_IMODE(status.st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreError(
            f"{path} has mode {mode:04o}; a signing key needs 0600 (chmod 600 {path})", code="signing-key-exposed"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise StoreError(f"{path} belongs to another user", code="signing-key-exposed")


def write_key_file(path: Path, data: bytes, mode: int) -> None:
    """Write a new key file with the given mode; an existing one is never replaced."""
    try:
        with new_file(path, mode=mode) as file:
            file.write(data)
    except FileExistsError:
        raise StoreError(f"{path} exists; a key is never overwritten", code="signing-key-exists") from None
    except StoreError as error:
        raise StoreError(str(error), code="signing-key-unwritable") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
